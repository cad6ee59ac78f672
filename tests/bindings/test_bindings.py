#!/usr/bin/env python3
"""librql from Python and from Ruby: the same scenarios for both (../scenario/harness.py), each worker a process of its
language. Usage: test_bindings.py LIBRARY [WORD...], as for the scenarios."""
import contextlib
import itertools
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(1, str(HERE.parent / "scenario"))
import harness  # noqa: E402
from harness import (MINUTE_MS, PATIENCE_S, LeftOut, Remote, check, check_equal, check_served_in_order,  # noqa: E402
                     scenario, wait_until)

WORKERS = {"python": HERE / "worker.py", "ruby": HERE / "worker.rb"}
THERE = [name for name in WORKERS if name == "python" or shutil.which(name)]
each = scenario(kinds=THERE, counts=[1])


def worker(world, language, **options):
    remote = Remote(WORKERS[language], {"RQL_LIBRARY": world.program})
    world.remotes.append(remote)
    return world.actor("thread", world.client(remote, **options))


def others(kind):
    """Languages in turn, the other one first."""
    return itertools.cycle([*(name for name in THERE if name != kind), kind])


@each
def options_have_names(world, kind, names):
    actor = worker(world, kind)
    held = actor.acquire(*names, **{"ttl-ms": "1m", "queue_ttl_ms": "forever", "fail_fast": True})
    check(MINUTE_MS - 10000 < world.ask("PTTL", "rql:lock:lock0") <= MINUTE_MS, "it has the ttl that was asked for")
    check_equal(worker(world, kind).refused(*names, fail_fast=True).status, "FAIL_FAST_NO_TRY")
    held.release().check()
    check_equal(world.keys_left(), [])


@each
def a_text_may_be_an_option(world, kind, names):
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    held = worker(world, kind).acquire(*names, traceparent=trace)
    check_equal(world.ask("HGET", "rql:lock:lock0", "traceparent"), trace)
    held.release().check()


@each
def what_is_no_option_is_refused_in_the_librarys_words(world, kind, names):
    actor = worker(world, kind)
    for options, words in [
            ({"ttl_ms": 0}, "ttl_ms is 0; it must be 1 to 2592000000"),
            ({"fail_fast": "perhaps"}, "fail_fast is perhaps; it must be true | false"),
            ({"access_strategy": "first"}, "access_strategy is first; it must be queued | random"),
            ({"traceparent": "00"},
             "traceparent is malformed; it must be a traceparent of W3C Trace Context, version 00"),
            ({"colour": "blue"}, "options: no such option: colour")]:
        check_equal(repr(actor.refused(*names, **options)), f"E_INVALID {words}")
    made = actor.remote.do("client", client="bad", options={"url": world.server.url, "spin_us": "never"})
    check_equal(repr(made), "E_INVALID spin_us is never; it must be 0 to 1000")
    made = actor.remote.do("client", client="bad", options={"url": "nothing"})
    check(made.status == "E_INVALID" and made.error.startswith("url: "), made)


@each
def a_name_with_a_nul_byte_is_refused(world, kind, names):
    """The library would see the part in front of it, which is another lock."""
    actor, words = worker(world, kind), "E_INVALID a text has a NUL byte; nothing was sent"
    check_equal(repr(actor.refused(names[0] + "\0b")), words)
    check_equal(repr(actor.refused(*names, traceparent="00\0")), words)
    check_equal(world.keys_left(), [])


@each
def tokens_rise(world, kind, names):
    tokens = []
    for language, _ in zip(others(kind), range(4)):
        held = worker(world, language).acquire(*names)
        tokens += [*held.tokens, world.token(names[0])]
        held.release().check()
    check_equal(tokens[::2], tokens[1::2], "those of the server")
    check_equal(tokens[::2], sorted(set(tokens)), "each is larger than the one before")


@each
def who_waits_is_seen_and_served_in_order(world, kind, names):
    first = worker(world, kind)
    held = first.acquire(*names, ttl_ms=MINUTE_MS)
    asked, ids = [], []
    for language, count in zip(others(kind), range(1, 5)):
        actor = worker(world, language)
        ids.append(actor.begin("whoami").outcome().acq_id)
        asked.append(actor.ask(*names, timeout_ms=MINUTE_MS))
        world.await_queue(names, count)
    seen = first.begin("inspect", of="queue", name=names[0]).outcome().found["requests"]
    check_equal([request["acq_id"] for request in seen], ids)
    check_served_in_order(asked, held)


@each
def a_lock_that_is_deleted_is_lost(world, kind, names):
    held = worker(world, kind).acquire(*names, ttl_ms=1500, auto_extend=True)
    check(held.state() != "GONE", "it is held")
    world.ask("DEL", "rql:lock:lock0")
    wait_until(held.is_lost, "its callback was called")
    check_equal(held.state(), "GONE")
    check_equal(held.release().status, "NOT_HELD")
    check_equal(len(held.losses()), 1, "losses told")


# Each program begins with this: `client`, and `name`, the name of the lock.
BEGINNINGS = {"python": ([sys.executable, "-c"], """
import sys
import librql
client, name = librql.Client(sys.argv[1]), sys.argv[2]
"""), "ruby": (["ruby", "-I.", "-e"], """
require "librql"
$stdout.sync = true
client, name = Rql::Client.new(ARGV[0]), ARGV[1]
""")}


@contextlib.contextmanager
def program(world, language, text, names):
    """A process that runs this text, and does not ignore ^C, as what a shell starts in the background does."""
    command, beginning = BEGINNINGS[language]
    with subprocess.Popen([*command, beginning + text, world.server.url, *names], cwd=HERE, text=True, bufsize=1,
                          env={**os.environ, "RQL_LIBRARY": world.program}, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE,
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as process:
        try:
            yield process
        finally:
            process.kill()


def output(process):
    """What the process prints until it ends."""
    return process.communicate(timeout=PATIENCE_S)[0]


WAITER = {"python": """
try:
    client.acquire(name, timeout_ms=None)
except KeyboardInterrupt:
    print("interrupted", flush=True)
""", "ruby": """
begin
  client.acquire(name, timeout_ms: "forever", retry_count: "forever")
rescue Interrupt
  puts "interrupted"
end
"""}


@each
def ctrl_c_ends_a_wait(world, kind, names):
    """At once, and the request leaves the queue."""
    held = worker(world, "python").acquire(*names, ttl_ms=MINUTE_MS)
    with program(world, kind, WAITER[kind], names) as process:
        world.await_queue(names, 1)
        process.send_signal(signal.SIGINT)
        check_equal(output(process), "interrupted\n")
    world.await_queue(names, 0)
    held.release().check()


UNDER_ASYNCIO = """
import asyncio, signal
async def main():
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    try:
        client.acquire(name, timeout_ms=None)
    except librql.Failure as failure:
        print(failure)
    await stopped.wait()
asyncio.run(main())
"""


@scenario(kinds=["python"], counts=[1])
def a_signal_that_ends_a_wait_reaches_asyncio(world, kind, names):
    held = worker(world, "python").acquire(*names, ttl_ms=MINUTE_MS)
    with program(world, kind, UNDER_ASYNCIO, names) as process:
        world.await_queue(names, 1)
        process.send_signal(signal.SIGTERM)
        check_equal(output(process), "cancelled by its caller\n")
    held.release().check()


TIMEOUT = """
require "timeout"
begin
  Timeout.timeout(0.2) { client.acquire(name, timeout_ms: "forever", retry_count: "forever") }
rescue Timeout::Error
  puts "timed out"
end
"""


@scenario(kinds=[name for name in THERE if name == "ruby"], counts=[1])
def timeout_ends_a_wait_of_the_main_thread(world, kind, names):
    held = worker(world, "python").acquire(*names, ttl_ms=MINUTE_MS)
    with program(world, kind, TIMEOUT, names) as process:
        check_equal(output(process), "timed out\n")
    world.await_queue(names, 0)
    held.release().check()


RAISED = """
thread = Thread.new do
  client.acquire(name, timeout_ms: "forever", retry_count: "forever", ttl_ms: 60_000)
rescue RuntimeError => e
  puts e.message
end
$stdin.gets
thread.raise("raised")
puts "wanted"
thread.join
$stdin.gets
"""


@scenario(kinds=[name for name in THERE if name == "ruby"], counts=[1])
def what_is_raised_in_a_thread_that_waits_leaves_no_lock(world, kind, names):
    held = worker(world, "python").acquire(*names, ttl_ms=MINUTE_MS)
    with program(world, kind, RAISED, names) as process:
        world.await_queue(names, 1)
        process.stdin.write("\n")
        check_equal(process.stdout.readline(), "wanted\n")
        held.release().check()
        check_equal(process.stdout.readline(), "raised\n")
        check_equal(world.ask("EXISTS", "rql:lock:lock0"), 0, "locks left behind")


MAIN_THREAD = """
2.times { client.acquire(name) { |_lock| puts client.lock_info(name)["acquirer_id"] == client.acquirer_id } }
client.acquire(name) { client.acquire(name, fail_fast: true, conflict_strategy: "work_through") { puts "again" } }
"""


@scenario(kinds=[name for name in THERE if name == "ruby"], counts=[1])
def the_main_thread_is_one_acquirer(world, kind, names):
    with program(world, kind, MAIN_THREAD, names) as process:
        check_equal(output(process), "true\ntrue\nagain\n")


MANY_DESCRIPTORS = {"python": """
import os, resource, threading
resource.setrlimit(resource.RLIMIT_NOFILE, (MANY + 200, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
opened, lost = [os.open("/dev/null", os.O_RDONLY) for _ in range(MANY)], threading.Event()
client.acquire(name, ttl_ms=1500, on_lost=lost.set)
print("held", flush=True)
lost.wait()
print("lost")
""", "ruby": """
Process.setrlimit(:NOFILE, MANY + 200, Process.getrlimit(:NOFILE)[1])
opened, lost = Array.new(MANY) { File.open("/dev/null") }, Queue.new
client.acquire(name, ttl_ms: 1500, auto_extend: true, on_lost: -> { lost.push(nil) })
puts "held"
lost.pop
puts "lost"
"""}
MANY = 1100  # descriptors: select() knows 1024


@each
def a_loss_is_reported_with_many_descriptors(world, kind, names):
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most != resource.RLIM_INFINITY and most < MANY + 200:
        raise LeftOut(f"a process may have {most} descriptors only")
    with program(world, kind, MANY_DESCRIPTORS[kind].replace("MANY", str(MANY)), names) as process:
        check_equal(process.stdout.readline(), "held\n")
        world.ask("DEL", "rql:lock:lock0")
        check_equal(output(process), "lost\n")


RELEASED_TWICE = {"python": """
import os
lock = client.acquire(name, on_lost=lambda: None)
lock.release()
opened = [os.open("/dev/zero", os.O_RDONLY) for _ in range(8)]
lock.release()
print(sum(len(os.read(one, 1)) for one in opened))
""", "ruby": """
lock = client.acquire(name, on_lost: -> {})
lock.release
opened = Array.new(8) { File.open("/dev/zero") }
lock.release
puts opened.sum { |one| one.sysread(1).size }
"""}


@each
def a_second_release_closes_no_descriptor_of_the_program(world, kind, names):
    with program(world, kind, RELEASED_TWICE[kind], names) as process:
        check_equal(output(process), "8\n")


# With each number of free descriptors up to the one that suffices. A lock that was left behind would be refused.
FEW_DESCRIPTORS = {"python": """
import os, resource
most = resource.getrlimit(resource.RLIMIT_NOFILE)
client.acquire(name, on_lost=lambda: None).release()
is_made, refused = False, 0
while not is_made:
    opened = {int(one) for one in os.listdir("/proc/self/fd")}
    free = [number for number in range(1000) if number not in opened]
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[refused], most[1]))
    try:
        client.acquire(name, on_lost=lambda: None).release()
        is_made = True
    except (OSError, librql.Failure):
        refused += 1
    resource.setrlimit(resource.RLIMIT_NOFILE, most)
    client.acquire(name, fail_fast=True).release()
print("refused" if refused > 0 else "")
""", "ruby": """
most = Process.getrlimit(:NOFILE)
client.acquire(name, on_lost: -> {}).release
is_made, refused = false, 0
until is_made
  free = (0..999).to_a - Dir.children("/proc/self/fd").map(&:to_i)
  Process.setrlimit(:NOFILE, free[refused], most[1])
  begin
    client.acquire(name, on_lost: -> {}).release
    is_made = true
  rescue SystemCallError, Rql::Failure
    refused += 1
  end
  Process.setrlimit(:NOFILE, *most)
  client.acquire(name, fail_fast: true).release
end
puts "refused" if refused > 0
"""}


@each
def a_lock_that_cannot_be_watched_is_released(world, kind, names):
    with program(world, kind, FEW_DESCRIPTORS[kind], names) as process:
        check_equal(output(process), "refused\n")


CLOSED_TWICE = {"python": """
client.close()
client.close()
for refused in client.connect, client.acquirer_id, lambda: client.acquire(name), lambda: client.queue(name):
    try:
        refused()
    except (ValueError, librql.Failure):
        print("refused")
""", "ruby": """
client.close
client.close
[-> { client.connect }, -> { client.acquirer_id }, -> { client.acquire(name) }, -> { client.queue_info(name) }].each do
  _1.call
rescue IOError
  puts "refused"
end
"""}


@each
def a_closed_client_refuses_calls(world, kind, names):
    with program(world, kind, CLOSED_TWICE[kind], names) as process:
        check_equal(output(process), "refused\n" * 4)


if __name__ == "__main__":
    for missing in sorted(WORKERS.keys() - set(THERE)):
        print(f"# there is no {missing} in PATH: its scenarios are left out", flush=True)
    harness.main()
