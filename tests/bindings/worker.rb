#!/usr/bin/env ruby
# The calls of tests/remote/remote.h that librql.rb has, told in lines of JSON as there: for scenarios, and for the
# recordings of the gem (tests/golden).
require "json"
require_relative "librql"

DEFAULT_TTL_MS = 5000
STRATEGIES = %w[wait_for_lock work_through extendable_work_through].freeze

# What is said.
module Line
  @mutex = Mutex.new

  def self.say(words)
    @mutex.synchronize { puts JSON.generate(words) }
  end

  # The answer to a line: what the block returns, or what it raises.
  def self.answer(words)
    begun_us = now_us
    found = begin
      { status: 0, **(yield || {}) }
    rescue Rql::Failure => e
      { status: e.status, error: e.message }
    end
    say(id: words["id"], took_us: now_us - begun_us, **found)
  end

  def self.now_us = Process.clock_gettime(Process::CLOCK_MONOTONIC, :microsecond)
end

# A thread, which does one call after the other.
class Actor
  def initialize(client, holds)
    @client, @holds = client, holds
    @given, @tokens = Queue.new, {}
    @thread = Thread.new { work }
    @thread.abort_on_exception = true
  end

  def give(words) = @given << words

  def end
    @given.close
    @thread.join
  end

  private

  # Until "leave", or until all has been done.
  def work
    while (words = @given.pop)
      Line.answer(words) { perform(words) }
      return if words["do"] == "leave"
    end
  end

  def perform(words)
    case words["do"]
    when "leave" then nil
    when "connect" then @client.connect && nil
    when "acquire" then acquire(words)
    when "block" then block(words)
    when "release" then @holds.delete(words["lock"]).release && nil
    when "forget" then @holds.delete(words["lock"]).forget && nil
    when "state" then { state: @holds[words["lock"]].state }
    when "whoami" then { acq_id: @client.acquirer_id, hst_id: @client.host_id }
    when "inspect" then inspect_of(words)
    else raise "no such call: #{words}"
    end
  end

  def options_of(words) = words["options"].transform_keys(&:to_sym)

  # Within the block this thread does what it is told.
  def block(words)
    name = words["names"].first
    @client.acquire(name, **options_of(words)) do |lock|
      @tokens[name] = lock.token
      work
    end
    nil
  end

  def acquire(words)
    name, hold = words["names"].first, words["lock"]
    lost = -> { Line.say(lost: hold, name: name) }
    @holds[hold] = @client.acquire(name, on_lost: lost, **options_of(words))
    facts(name, @holds[hold], words["options"])
  end

  # A re-entry has the token of the grant that it shares; how, is what was asked for.
  def facts(name, lock, options)
    process = lock.token == @tokens[name] ? STRATEGIES.index(options["conflict_strategy"]) : 0
    @tokens[name] = lock.token
    info = @client.lock_info(name).to_h
    { tokens: [lock.token], process: process, lock_key: info["key"], acq_id: info["acquirer_id"],
      hst_id: info["host_id"], ts_us: info[%w[acquired_at_us reentered_at_us extended_at_us][process]],
      ttl_ms: options.fetch("ttl_ms", DEFAULT_TTL_MS) }
  end

  # The tests have the words of the gem for what stands on the server.
  IN_TESTS = {
    "acquirer_id" => "acq_id", "host_id" => "hst_id", "acquired_at_us" => "ts_us", "ttl_ms" => "ini_ttl_ms",
    "remaining_ms" => "rem_ttl_ms", "reentries" => "spc_cnt", "reentered_at_us" => "l_spc_ts_us",
    "extended_ms" => "spc_ext_ttl_ms", "extended_at_us" => "l_spc_ext_ts_us",
    "last_extension_ms" => "l_spc_ext_ini_ttl_ms"
  }.freeze

  def in_words_of_tests(info)
    here = { **IN_TESTS, "key" => info.key?("requests") ? "lock_queue" : "lock_key" }
    renamed = info.transform_keys { |name| here.fetch(name, name) }
    renamed["requests"]&.map! { |request| in_words_of_tests(request) }
    renamed
  end

  def inspect_of(words)
    info = words["of"] == "queue" ? @client.queue_info(words["name"]) : @client.lock_info(words["name"])
    case words["of"]
    when "is_locked" then { found: !info.nil? }
    when "queue", "lock" then { status: info ? 0 : Rql::NOT_FOUND, found: { "meta" => [], **in_words_of_tests(info.to_h) } }
    else raise "no such look: #{words}"
    end
  end
end

@clients, @actors, @holds = {}, {}, {}
$stdout.sync = true
$stdin.each_line do |line|
  words = JSON.parse(line)
  next @actors[words["as"]].give(words) if words.key?("as")
  Line.answer(words) do
    case words["do"]
    when "client"
      options = words["options"].transform_keys(&:to_sym)
      @clients[words["client"]] = Rql::Client.new(options.delete(:url), **options)
    when "free" then @clients.delete(words["client"]).close
    when "thread" then @actors[words["name"]] = Actor.new(@clients[words["client"]], @holds)
    when "end" then @actors.delete(words["name"]).end
    else raise "no such call: #{words}"
    end
    nil
  end
end
