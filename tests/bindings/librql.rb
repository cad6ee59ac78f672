# librql from Ruby, by Fiddle: standard library only. A test of the ABI, and a beginning to copy.
#
#     client = Rql::Client.new("redis://localhost", auto_extend: true)
#     client.acquire("report", ttl_ms: "30s", on_lost: -> { stop_writing }) { |lock| write(lock.token) }
#
# Options have the names of the fields of rql_options and rql_lock_options: no offset of a field is known here. Other
# threads of Ruby run while a call waits. RQL_LIBRARY names the library, else the system finds it.
require "fiddle/import"

module Rql
  # The library's functions, and what they fill in.
  module Library
    extend Fiddle::Importer
    dlload ENV.fetch("RQL_LIBRARY", "librql.so.0")
    [
      "char *rql_status_text(int)",
      "size_t rql_options_size()", "size_t rql_lock_options_size()",
      "void rql_options_init_gem_sized(void *, size_t)", "void rql_lock_options_init_sized(void *, void *, size_t)",
      "int rql_options_set(void *, char *, char *, void *)", "int rql_lock_options_set(void *, char *, char *, void *)",
      "int rql_client_new(void *, void *, void *)", "void *rql_client_free(void *)",
      "int rql_client_connect(void *, void *)",
      "char *rql_client_acquirer_id(void *, uint64_t, void *)", "char *rql_client_host_id(void *, void *)",
      "int rql_lock_acquire(void *, char *, void *, void *, void *)",
      "int rql_lock_release(void *, void *)", "void *rql_lock_forget(void *)",
      "int rql_lock_get_state(void *)", "int64_t rql_lock_token(void *)",
      "int rql_lock_lost_fd(void *, void *, void *)",
      "int rql_lock_inspect(void *, char *, void *, void *)",
      "int rql_queue_inspect(void *, char *, void *, void *)", "void *rql_free(void *)"
    ].each { |signature| extern signature }
    Error = struct ["int status", "int sys_errno", "char message[256]"]
    LockInfo = struct ["int status", "char *key", "char *name", "char *acquirer_id", "char *host_id",
                       "int64_t acquired_at_us", "int64_t ttl_ms", "int64_t remaining_ms", "int64_t reentries",
                       "int64_t reentered_at_us", "int64_t extended_ms", "int64_t extended_at_us",
                       "int64_t last_extension_ms", "int64_t token"]
    QueueInfo = struct ["int status", "char *key", "char *name", "size_t n_requests", "uintptr_t requests"]
    Request = struct ["char *acquirer_id", "char *host_id", "int64_t score_us", "int64_t position"]
  end

  NOT_FOUND, E_INVALID, ID_SIZE = 7, -1, 128

  # An outcome (above 0) or a fault (below 0), with the library's words.
  class Failure < StandardError
    attr_reader :status

    def initialize(status, words = Library.rql_status_text(status).to_s)
      super(words)
      @status = status
    end
  end

  def self.call(name, *arguments, fine: [0])
    if arguments.any? { |one| one.is_a?(String) && one.include?("\0") } # the library would not see the rest
      raise Failure.new(E_INVALID, "a text has a NUL byte; nothing was sent")
    end
    error = Library::Error.malloc(Fiddle::RUBY_FREE)
    status = Library.public_send(name, *arguments, error)
    return status if fine.include?(status)
    raise Failure.new(status, *(error.message.pack("c*").unpack1("Z*") if status.negative?))
  end

  # What a call writes into memory of a pointer's size; NULL until then.
  def self.pointer
    place = Fiddle::Pointer.malloc(Fiddle::SIZEOF_VOIDP, Fiddle::RUBY_FREE)
    place[0, place.size] = "\0" * place.size
    place
  end

  # Returns what the block returns, or raises what it raises. To the library a thread is an acquirer. A second thread is
  # the acquirer in place of the main thread: Ruby calls handlers of signals on the main thread, and cannot do so while
  # that thread waits inside the library. If the main thread is interrupted, `cancel` makes the block end soon.
  def self.as_acquirer(cancel = nil, &block)
    Thread.current == Thread.main ? CallThread.of_main_thread.call(cancel, &block) : yield
  end

  # Runs blocks, always on the same thread.
  class CallThread
    # A child process has only the thread that has forked.
    def self.of_main_thread = @of_main&.alive? ? @of_main : (@of_main = new)

    def initialize
      @blocks = Queue.new
      # A thread inherits what handle_interrupt() has set.
      @thread = Thread.new { Thread.handle_interrupt(Object => :immediate) { loop { @blocks.pop.call } } }
    end

    def alive? = @thread.alive?

    def call(cancel)
      value, error, ended = nil, nil, Queue.new
      @blocks << lambda do
        value = yield
      rescue Exception => error # to be raised by the caller
      ensure
        ended.close
      end
      begin
        Thread.handle_interrupt(Object => :immediate) { ended.pop }
      ensure
        cancel&.call
        ended.pop # nil as soon as the queue is closed
      end
      error ? raise(error) : value
    end
  end

  # Memory of the library's size with the gem's defaults, and the values set by name, which are texts. Those of a
  # client are borrowed by it.
  def self.options(kind, client, values)
    settings = Fiddle::Pointer.malloc(Library.public_send("#{kind}_size"), Fiddle::RUBY_FREE)
    Library.public_send(client ? "#{kind}_init_sized" : "#{kind}_init_gem_sized", *client, settings, settings.size)
    values.each { |name, value| call("#{kind}_set", settings, name.to_s, value) }
    settings
  end

  # Members that are texts or numbers, by their names.
  def self.facts(info)
    info.class.members.to_h { |name| [name, info[name]] }.transform_values do |value|
      value.is_a?(Integer) ? value : (value.to_s unless value.null?)
    end
  end

  # Shared by all threads.
  class Client
    def initialize(url, **options)
      @texts = { url: url, **options }.transform_values(&:to_s)
      Rql.call(:rql_client_new, Rql.options(:rql_options, nil, @texts), made = Rql.pointer)
      @handle = made.ptr
    end

    def connect = Rql.call(:rql_client_connect, handle)
    def acquirer_id = Rql.as_acquirer { Library.rql_client_acquirer_id(handle, 0, "\0" * ID_SIZE).to_s }
    def host_id = Rql.as_acquirer { Library.rql_client_host_id(handle, "\0" * ID_SIZE).to_s }

    # Every other call raises IOError from then on.
    def close
      closed, @handle = @handle, nil
      Library.rql_client_free(closed)
      nil
    end

    # A Lock, which a block is given and which ends with it. on_lost is called on a thread of its own. On the main
    # thread, Ctrl-C, other signals whose handler raises, Timeout and Thread#raise end the wait at once. On another
    # thread the exception is raised when the wait has ended. Either way the lock is released if it was acquired.
    def acquire(name, on_lost: nil, **options)
      made, lock, is_returned = Rql.pointer, nil, false
      Thread.handle_interrupt(Object => :never) do
        wait_for(name, options, made)
        lock = Lock.new(made.ptr)
      end
      lock.watch(on_lost) if on_lost
      return yield lock if block_given?
      is_returned = true
      lock
    ensure
      lock ||= Lock.new(made.ptr) unless made.ptr.null? # the handler of a signal raised in between
      lock&.release unless is_returned
    end

    # nil: there is none.
    def lock_info(name) = look(:lock, Library::LockInfo, name) { |info| Rql.facts(info) }

    # With those who wait, first in line first.
    def queue_info(name)
      look(:queue, Library::QueueInfo, name) do |info|
        at = Array.new(info.n_requests) { |i| (Fiddle::Pointer.new(info.requests) + (i * Fiddle::SIZEOF_VOIDP)).ptr }
        { **Rql.facts(info), "requests" => at.map { |place| Rql.facts(Library::Request.new(place)) } }
      end
    end

    private

    def handle = @handle || raise(IOError, "the client is closed")

    # Makes a request, and waits until it has ended. On the main thread an exception meanwhile cancels the request.
    def wait_for(name, options, made)
      return request(name, options, made) unless Thread.current == Thread.main
      reader, writer = IO.pipe
      Rql.as_acquirer(-> { writer.close }) { request(name, { cancel_fd: reader.fileno, **options }, made) }
    ensure
      [reader, writer].compact.each(&:close)
    end

    def request(name, options, made)
      settings = Rql.options(:rql_lock_options, [handle], texts = options.transform_values(&:to_s)) # borrowed
      Rql.call(:rql_lock_acquire, handle, name, settings, made)
    end

    def look(kind, struct, name)
      return if Rql.call("rql_#{kind}_inspect", handle, name, made = Rql.pointer, fine: [0, NOT_FOUND]) == NOT_FOUND
      info = struct.new(made.ptr)
      yield(info).tap { Library.rql_free(info) }
    end
  end

  # What is held. A loss is heard of by its descriptor: code of Ruby cannot be called on a thread of the library's.
  class Lock
    attr_reader :token

    def initialize(handle)
      @handle = handle
      @token = Library.rql_lock_token(handle)
    end

    # Until the lock is lost or has ended.
    def watch(on_lost)
      Rql.call(:rql_lock_lost_fd, @handle, fd = Rql.pointer)
      lost = IO.for_fd(fd[0, Fiddle::SIZEOF_INT].unpack1("i"), autoclose: false)
      reader, @end_of_watch = IO.pipe
      @watcher = Thread.new { on_lost.call if IO.select([lost, reader]).first.include?(lost) }
    end

    def state = Library.rql_lock_get_state(@handle)

    # Raises Failure, also if it had ended before.
    def release = Rql.call(:rql_lock_release, unwatched)
    # It is left to its ttl.
    def forget = Library.rql_lock_forget(unwatched)

    private

    def unwatched
      @end_of_watch&.close
      @watcher&.join unless @watcher == Thread.current
      @handle.tap { @handle = nil } # NULL is no lock any more
    end
  end
end
