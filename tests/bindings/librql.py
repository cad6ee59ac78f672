"""librql from Python, by ctypes: standard library only. A test of the ABI, and a beginning to copy.

    client = Client("redis://localhost", timeout_ms="1m")
    with client.acquire("report", ttl_ms="30s", on_lost=stop_writing) as lock:
        write(lock.token)

Options have the names of the fields of rql_options and rql_lock_options: no offset of a field is known here.
RQL_LIBRARY names the library, else the system finds it."""
import contextlib
import ctypes
import os
import select
import signal
import socket
import threading
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_void_p

OK, NOT_FOUND, E_INVALID, ID_SIZE = 0, 7, -1, 128


class Error(ctypes.Structure):
    _fields_ = [("status", c_int), ("sys_errno", c_int), ("message", ctypes.c_char * 256)]


class Request(ctypes.Structure):
    _fields_ = [("acquirer_id", c_char_p), ("host_id", c_char_p), ("score_us", c_int64), ("position", c_int64)]


class Queue(ctypes.Structure):
    _fields_ = [("status", c_int), ("key", c_char_p), ("name", c_char_p), ("n_requests", c_size_t),
                ("requests", POINTER(POINTER(Request)))]


class Failure(Exception):
    """An outcome (above 0) or a fault (below 0), with the library's words."""

    def __init__(self, status, error):
        super().__init__((error.message if status < 0 else library.rql_status_text(status)).decode())
        self.status = status


library = ctypes.CDLL(os.environ.get("RQL_LIBRARY", "librql.so.0"))
for name, result, *arguments in [
        ("rql_status_text", c_char_p, c_int),
        ("rql_options_size", c_size_t),
        ("rql_options_init_sized", None, c_void_p, c_size_t),
        ("rql_options_set", c_int, c_void_p, c_char_p, c_char_p, POINTER(Error)),
        ("rql_lock_options_size", c_size_t),
        ("rql_lock_options_init_sized", None, c_void_p, c_void_p, c_size_t),
        ("rql_lock_options_set", c_int, c_void_p, c_char_p, c_char_p, POINTER(Error)),
        ("rql_client_new", c_int, c_void_p, POINTER(c_void_p), POINTER(Error)),
        ("rql_client_connect", c_int, c_void_p, POINTER(Error)),
        ("rql_client_free", c_void_p, c_void_p),
        ("rql_client_acquirer_id", c_char_p, c_void_p, ctypes.c_uint64, c_char_p),
        ("rql_lock_acquire", c_int, c_void_p, c_char_p, c_void_p, POINTER(c_void_p), POINTER(Error)),
        ("rql_lock_release", c_int, c_void_p, POINTER(Error)),
        ("rql_lock_get_state", c_int, c_void_p),
        ("rql_lock_token", c_int64, c_void_p),
        ("rql_lock_lost_fd", c_int, c_void_p, POINTER(c_int), POINTER(Error)),
        ("rql_queue_inspect", c_int, c_void_p, c_char_p, POINTER(POINTER(Queue)), POINTER(Error)),
        ("rql_free", c_void_p, POINTER(Queue))]:
    getattr(library, name).restype, getattr(library, name).argtypes = result, arguments


def call(name, *arguments, fine=(OK,)):
    error = Error()
    if any(isinstance(one, bytes) and b"\0" in one for one in arguments):  # the library would not see the rest
        status, error.message = E_INVALID, b"a text has a NUL byte; nothing was sent"
    else:
        status = getattr(library, name)(*arguments, byref(error))
    if status not in fine:
        raise Failure(status, error)
    return status


def text(value):
    """True and False in the library's words, None for no limit."""
    return str("forever" if value is None else str(value).lower() if isinstance(value, bool) else value).encode()


def fill(options, set_by, values):
    """What is returned is to be kept until the options were used: texts are borrowed."""
    texts = [(name.encode(), text(value)) for name, value in values.items()]
    for name, value in texts:
        call(set_by, options, name, value)
    return texts


@contextlib.contextmanager
def interruptible(options):
    """In the main thread a signal that Python handles, such as Ctrl-C, ends the wait: Python writes to a pipe when the
    signal arrives, and cancel_fd is the pipe's other end. Python calls its handler when the call has returned. asyncio
    has a descriptor of its own for the numbers of signals, and gets those that came meanwhile."""
    if threading.current_thread() is not threading.main_thread():
        yield options
        return
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield {"cancel_fd": reader, **options}
    finally:
        signal.set_wakeup_fd(before)
        with contextlib.suppress(BlockingIOError):  # there was no signal, or the buffer of asyncio is full
            if before != -1:
                os.write(before, os.read(reader, select.PIPE_BUF))
        os.close(reader)
        os.close(writer)


class Client:
    def __init__(self, url, **options):
        settings = ctypes.create_string_buffer(library.rql_options_size())
        library.rql_options_init_sized(settings, len(settings))
        texts = fill(settings, "rql_options_set", {"url": url, **options})
        self.handle = c_void_p()
        call("rql_client_new", settings, byref(self.handle))
        del texts  # which are borrowed until now

    def connect(self):
        call("rql_client_connect", self.handle)

    def acquirer_id(self):
        """Of the calling thread."""
        if not self.handle:  # the other calls refuse it themselves
            raise ValueError("the client is closed")
        return library.rql_client_acquirer_id(self.handle, 0, ctypes.create_string_buffer(ID_SIZE)).decode()

    def acquire(self, name, on_lost=None, **options):
        """A Lock; raises Failure, or what the handler of a signal raises (KeyboardInterrupt). on_lost() is called on a
        thread of its own."""
        settings = ctypes.create_string_buffer(library.rql_lock_options_size())
        library.rql_lock_options_init_sized(self.handle, settings, len(settings))
        handle, lock = c_void_p(), None
        try:
            with interruptible(options) as wanted:
                texts = fill(settings, "rql_lock_options_set", wanted)
                call("rql_lock_acquire", self.handle, name.encode(), settings, byref(handle))
                del texts
            lock = Lock(handle)
            if on_lost:
                lock.watch(on_lost)
            return lock
        except BaseException:
            if handle:  # the signal came together with the lock, or there is no descriptor or thread to watch it
                with contextlib.suppress(Failure):
                    (lock or Lock(handle)).release()
            raise

    def queue(self, name):
        """Who waits, first in line first, as acquirer ids."""
        info = POINTER(Queue)()
        if call("rql_queue_inspect", self.handle, name.encode(), byref(info), fine=(OK, NOT_FOUND)) == NOT_FOUND:
            return []
        ids = [info.contents.requests[i].contents.acquirer_id.decode() for i in range(info.contents.n_requests)]
        library.rql_free(info)
        return ids

    def close(self):
        self.handle = library.rql_client_free(self.handle)


class Lock:
    def __init__(self, handle):
        self.handle, self.watcher = handle, None
        self.token = library.rql_lock_token(handle)

    def watch(self, on_lost):
        """Until the lock is lost, or release() closes the writer: the library closes its descriptor with the lock.
        A socket can be closed twice, and the number of a pipe cannot: another file may have it by then."""
        lost, (reader, self.writer) = c_int(), socket.socketpair()
        call("rql_lock_lost_fd", self.handle, byref(lost))

        def wait():
            with reader, self.writer:  # the program need not keep the Lock
                ends = select.poll()  # select() refuses a descriptor of 1024 or more
                for end in (lost.value, reader.fileno()):
                    ends.register(end, select.POLLIN)
                ready = dict(ends.poll())
            if lost.value in ready:
                on_lost()

        watcher = threading.Thread(target=wait, daemon=True)
        watcher.start()
        self.watcher = watcher

    def state(self):
        return library.rql_lock_get_state(self.handle)

    def release(self):
        """Raises Failure, also if the lock had ended before. No loss is reported from then on."""
        if self.watcher:
            self.writer.close()
            if threading.current_thread() is not self.watcher:
                self.watcher.join()
        handle, self.handle = self.handle, None
        call("rql_lock_release", handle)

    def __enter__(self):
        return self

    def __exit__(self, *_what):
        self.release()
