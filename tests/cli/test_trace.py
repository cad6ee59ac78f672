#!/usr/bin/env python3
"""The trace of a run: --traceparent, TRACEPARENT, and the spans that --trace appends to a file, as OTLP/JSON has them."""
import contextlib
import json
import os
import re
import resource
import signal
import time

from agent import Agent
from harness import PROGRAM, Folder, check_equal, check_in, finish, is_cluster, main, start_waiting, wait_until

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GIVEN, UNSAMPLED = f"00-{TRACE}-{CALLER}-01", f"00-{TRACE}-{CALLER}-00"
ILL_FORMED = "", "00", GIVEN + "-", GIVEN.upper(), "01" + GIVEN[2:], f"00-{'0' * 32}-{CALLER}-01", f"00-{TRACE}-{'0' * 16}-01"
IGNORED = "rql: TRACEPARENT is ignored: it is none of W3C Trace Context, version 00\n"
PATIENT = {"RQL_CONNECT_TIMEOUT_MS": "1m", "RQL_IO_TIMEOUT_MS": "1m"}
SHOW = ("sh", "-c", "echo $TRACEPARENT")

# The shape of OTLP's JSON (opentelemetry-proto, trace.proto, as JSON of Protobuf has it): hex ids, numbers of 64 bits as
# texts, enumerations as numbers, no unknown key. "?" at the end of a key: it may be missing.
ID, SPAN_ID, INT64 = re.compile("[0-9a-f]{32}"), re.compile("[0-9a-f]{16}"), re.compile("-?[0-9]+")
NANOSECONDS = re.compile("[0-9]{19}")
LINK = {"traceId": ID, "spanId": SPAN_ID}
KINDS, CODES = range(6), range(3)
ONE_OF = "stringValue", "intValue", "boolValue", "arrayValue"


def check_value(value):
    check_equal(len(value), 1)
    kind, content = next(iter(value.items()))
    check_in(kind, ONE_OF)
    if kind == "arrayValue":
        check_equal(list(content), ["values"])
        for item in content["values"]:
            check_value(item)
    elif kind == "intValue":
        assert INT64.fullmatch(content), content
    else:
        assert isinstance(content, {"stringValue": str, "boolValue": bool}[kind]), content


def check_attributes(attributes):
    for attribute in attributes:
        check_equal(list(attribute), ["key", "value"])
        check_value(attribute["value"])
    names = [attribute["key"] for attribute in attributes]
    check_equal(len(names), len(set(names)))


def check_status(status):
    assert status["code"] in CODES and set(status) <= {"code", "message"}, status


SPAN = {"traceId": ID, "spanId": SPAN_ID, "parentSpanId?": SPAN_ID, "name": re.compile(r"rql\.(wait|hold)"), "kind": KINDS,
        "startTimeUnixNano": NANOSECONDS, "endTimeUnixNano": NANOSECONDS, "attributes": check_attributes, "links?": [LINK],
        "status": check_status}
REQUEST = {"resourceSpans": [{
    "resource": {"attributes": check_attributes},
    "scopeSpans": [{"scope": {"name": re.compile("rql"), "version": re.compile(r"\d+\.\d+\.\d+")}, "spans": [SPAN]}]}]}


def check_shape(found, shape):
    if isinstance(shape, dict):
        wanted = {key.rstrip("?"): key.endswith("?") for key in shape}
        assert set(found) <= set(wanted), found
        for key in shape:
            assert key.rstrip("?") in found or key.endswith("?"), (key, found)
            if key.rstrip("?") in found:
                check_shape(found[key.rstrip("?")], shape[key])
    elif isinstance(shape, list):
        assert isinstance(found, list) and found, found
        for item in found:
            check_shape(item, shape[0])
    elif isinstance(shape, re.Pattern):
        assert isinstance(found, str) and shape.fullmatch(found), (found, shape.pattern)
    elif isinstance(shape, range):
        assert isinstance(found, int) and found in shape, found
    else:
        shape(found)


def plain_value(value):
    kind, content = next(iter(value.items()))
    if kind == "arrayValue":
        return [plain_value(item) for item in content["values"]]
    return int(content) if kind == "intValue" else content


class Span:
    def __init__(self, fields):
        self.name, self.trace, self.id = fields["name"], fields["traceId"], fields["spanId"]
        self.parent, self.status = fields.get("parentSpanId"), fields["status"]
        self.begin_us, self.end_us = (int(fields[name]) / 1000 for name in ("startTimeUnixNano", "endTimeUnixNano"))
        self.links = [(link["traceId"], link["spanId"]) for link in fields.get("links", [])]
        self.of = {item["key"]: plain_value(item["value"]) for item in fields["attributes"]}
        self.outcome, self.ms = self.of["rql.outcome"], (self.end_us - self.begin_us) / 1000

    def traceparent(self, flags="01"):
        return f"00-{self.trace}-{self.id}-{flags}"


class Spans(Folder):
    """The file, whose lines are checked whenever it is read."""

    def __enter__(self):
        super().__enter__()
        self.file = self.path("spans.json")
        return self

    def all(self):
        requests = [json.loads(line) for line in self.read("spans.json").splitlines()]
        for request in requests:
            check_shape(request, REQUEST)
        return [Span(span) for request in requests for resource in request["resourceSpans"]
                for scope in resource["scopeSpans"] for span in scope["spans"]]

    def pair(self):
        wait, hold = self.all()
        check_equal((wait.name, hold.name, hold.trace), ("rql.wait", "rql.hold", wait.trace))
        return wait, hold


@contextlib.contextmanager
def held(server, rql, *flags, name="a", **more):
    """While a run without an end has the lock. Then it is ended."""
    process = rql.start("run", name, *flags, "--", "sleep", "60", **more)
    wait_until(lambda: server.is_locked(name), "it is held")
    yield process
    process.terminate()
    check_equal(finish(process).code, -signal.SIGTERM)


def test_a_run_writes_its_wait_and_its_hold(server, rql):
    with Spans() as spans:
        before_us = time.time() * 1e6
        done = rql("run", "a", "--trace", spans.file, "--", "sh", "-c", "sleep 0.2; echo $RQL_TOKEN")
        after_us = time.time() * 1e6
        check_equal((done.code, done.err), (0, ""))
        wait, hold = spans.pair()
    for span in wait, hold:
        check_equal((span.of["rql.lock"], span.of["rql.mode"], span.of["rql.token"], span.status, span.links),
                    ("a", "alone", int(done.out), {"code": 0}, []))
    check_equal((wait.outcome, hold.outcome, wait.of["rql.handed_over"]), ("granted", "released", False))
    check_equal(wait.end_us, hold.begin_us)
    assert before_us - 1e4 <= wait.begin_us <= wait.end_us <= hold.end_us <= after_us + 1e4
    assert 200 <= hold.ms, hold.ms


def test_a_trace_that_begins_here_has_one_root(server, rql):
    with Spans() as spans:
        shown = rql("run", "a", "--trace", spans.file, "--", *SHOW).out.strip()
        wait, hold = spans.pair()
        check_equal((wait.parent, hold.parent, shown), (None, wait.id, hold.traceparent()))
        assert len({wait.id, hold.id}) == 2
        rql("run", "a", "--trace", spans.file, "--", "true")
        assert spans.all()[-1].trace != wait.trace


def test_the_command_runs_in_the_span_of_the_hold(server, rql):
    """And so does an rql inside it. A flag wins over the environment."""
    with Spans() as spans:
        for flags, variable in (((), GIVEN), (("--traceparent", GIVEN), UNSAMPLED)):
            shown = rql("run", "a", "--trace", spans.file, *flags, "--", *SHOW, TRACEPARENT=variable).out.strip()
            wait, hold = spans.all()[-2:]
            check_equal((wait.trace, wait.parent, hold.parent), (TRACE, CALLER, CALLER))
            check_equal(shown, hold.traceparent())
        inner = rql("run", "a", "--trace", spans.file, "-c", f"'{PROGRAM}' run b --trace '{spans.file}' -- true",
                    TRACEPARENT=GIVEN)
        check_equal((inner.code, inner.err), (0, ""))
        outer = spans.all()[-1]
        check_equal([(span.trace, span.parent) for span in spans.all()[-3:-1]], [(TRACE, outer.id)] * 2)


def test_a_lock_has_the_traceparent_in_its_metadata(server, rql):
    """Without --trace that of the caller; with --trace that of the hold."""
    meta = ("sh", "-c", f"'{PROGRAM}' info a --json")
    for words, more in ((("run", "a", "--", *meta), {"TRACEPARENT": GIVEN}),
                        (("run", "a", "--traceparent", UNSAMPLED, "--", *meta), {}),
                        (("series", "a", "{a}b", "--traceparent", GIVEN, "--", *meta), {})):
        done = rql(*words, **more)
        check_equal(json.loads(done.out)["meta"], {"traceparent": more.get("TRACEPARENT") or words[words.index("--") - 1]})
    check_equal(rql("run", "a", "--", *meta).json()["meta"], {})
    check_equal(rql("lock", "a", "--ttl", "1m", TRACEPARENT=GIVEN).code, 0)
    check_equal(server.ask("HGET", "rql:lock:a", "traceparent"), GIVEN)
    server.ask("DEL", "rql:lock:a")
    with Spans() as spans:
        shown = rql("run", "a", "--trace", spans.file, "--", *meta, TRACEPARENT=GIVEN)
        check_equal(shown.json()["meta"], {"traceparent": spans.pair()[1].traceparent()})


def test_a_wait_links_to_the_spans_of_its_holders(server, rql):
    """Of all that it saw, each once. Those of others may be anything."""
    with Spans() as spans:
        with held(server, rql, "--shared", "--trace", spans.file), held(server, rql, "--shared", TRACEPARENT=GIVEN), \
                held(server, rql, "--shared"):
            wait_until(lambda: server.ask("HGET", "rql:lock:a", "rql_used") == "3", "three share it")
            waiting = start_waiting(server, rql, "run", "a", "--trace", spans.file, "--", "true")
            before = reads(server)
            wait_until(lambda: reads(server) >= before + 2, "it has looked")  # what it read first, it knows by now
        check_equal(finish(waiting).code, 0)
        waits, holds = ([span for span in spans.all() if span.name == name] for name in ("rql.wait", "rql.hold"))
        check_equal([len(waits), len(holds)], [2, 2])
        check_equal((waits[0].links, waits[1].of["rql.handed_over"]), ([], True))
        check_equal(sorted(waits[1].links), sorted([(holds[0].trace, holds[0].id), (TRACE, CALLER)]))


def test_a_series_that_holds_some_of_its_locks_does_not_wait_for_itself(server, rql):
    with Spans() as spans:
        with held(server, rql, name="{t}b", TRACEPARENT=GIVEN):
            before = reads(server)
            series = rql.start("series", "{t}a", "{t}b", "--gem", "--ttl", "1m", "--trace", spans.file, "--", "true")
            wait_until(lambda: server.is_locked("{t}a") and reads(server) >= before + 4, "it has looked at both, twice")
        check_equal(finish(series).code, 0)
        check_equal(spans.pair()[0].links, [(TRACE, CALLER)])


def reads(server):
    found = re.search(r"cmdstat_hgetall:calls=(\d+)", server.ask("INFO", "commandstats"))
    return int(found[1]) if found else 0


def test_links_of_senseless_metadata_are_left_out(server, rql):
    server.ask("HSET", "rql:lock:a", "acq_id", "x", "hst_id", "y", "ts", "1.5", "ini_ttl", "5000", "traceparent", "\x1b[2J")
    server.ask("PEXPIRE", "rql:lock:a", 600000)
    with Spans() as spans:
        before = reads(server)
        waiting = start_waiting(server, rql, "run", "a", "--trace", spans.file, "--", "true")
        wait_until(lambda: reads(server) > before, "it has looked")
        server.ask("DEL", "rql:lock:a")
        check_equal(finish(waiting).code, 0)
        check_equal(spans.pair()[0].links, [])


def test_waits_add_up_to_those_of_the_statistics(server, rql):
    """`acq_time` of a log line is what the client counts in rql_stats::wait, rounded up to 10 us."""
    with Spans() as spans:
        with held(server, rql):
            runs = [rql.start("run", "a", "--trace", spans.file, "--log", "json", "--", "sleep", "0.05") for _ in range(6)]
            wait_until(lambda: server.queue_length("a") == 6, "they wait")
        lines = [json.loads(line) for run in runs for line in finish(run).err.splitlines()]
        waits = [span for span in spans.all() if span.name == "rql.wait"]
        holds = [span for span in spans.all() if span.name == "rql.hold"]
    counted = [line["acq_time"] for line in lines if line["name"] == "lock_obtained"]
    check_equal((len(waits), len(holds), len(counted)), (6, 6, 6))
    for mine, theirs in zip(sorted(span.ms for span in waits), sorted(counted)):
        assert theirs - 0.011 <= mine <= theirs + 0.001, (mine, theirs)
    assert sum(span.ms for span in waits) >= sum(50 * i for i in range(6)), "they have not waited for each other"
    for span in holds:
        assert span.begin_us + 1000 >= span.of["rql.token"], "it began before it was granted"
    # One after the other, in the order of their tokens. Two programs read two pairs of clocks, each
    # pair within 1 ms.
    holds.sort(key=lambda span: span.of["rql.token"])
    for first, second in zip(holds, holds[1:]):
        assert first.begin_us + 48000 <= second.begin_us


def test_a_wait_without_a_grant_says_why(server, rql):
    with Spans() as spans, held(server, rql):
        for flags in (("--try",), ("--retry-count", "3", "--retry-delay", "100ms")):
            done = rql("run", "a", *flags, "--trace", spans.file, "--", "true", **PATIENT)
            check_equal(done.code, 1, done.err)
        waiting = start_waiting(server, rql, "run", "a", "--trace", spans.file, "--", "true")
        waiting.send_signal(signal.SIGINT)
        check_equal(finish(waiting).code, -signal.SIGINT)
        server.ask("SET", "rql:lock:text", "x")
        check_equal(rql("run", "text", "--trace", spans.file, "--", "true").code, 69)
        tried, refused, cancelled, failed = spans.all()
        check_equal([span.outcome for span in spans.all()], ["refused", "refused", "cancelled", "failed"])
        for span in tried, refused, cancelled:
            check_equal((span.name, span.status), ("rql.wait", {"code": 0}))
            assert "rql.token" not in span.of and "rql.handed_over" not in span.of
        check_equal((tried.of.get("rql.place"), refused.of["rql.place"]), (None, 1))
        assert 200 <= refused.ms
        check_equal(failed.status["code"], 2)
        check_in("text", failed.status["message"])


def test_a_lost_hold_is_an_error(server, rql):
    with Spans() as spans:
        run = rql.start("run", "a", "--ttl", "1s", "--trace", spans.file, "--", "sleep", "60")
        wait_until(lambda: server.is_locked("a"), "it is held")
        server.ask("DEL", "rql:lock:a")
        check_equal(finish(run).code, 75)
        hold = spans.pair()[1]
        check_equal((hold.outcome, hold.status["code"]), ("lost", 2))


def test_sharers_and_series_say_what_they_are(server, rql):
    with Spans() as spans:
        for flags in (("--shared",), ("--permits", "3")):
            check_equal(rql("run", "a", *flags, "--trace", spans.file, "--", "true").code, 0)
        check_equal([span.of["rql.mode"] for span in spans.all()], ["shared"] * 4)
        tokens = rql("series", "{t}a", "{t}b", "--trace", spans.file, "--", "printenv", "RQL_TOKEN").out.split()
        for span in spans.all()[-2:]:
            check_equal((span.of["rql.lock"], span.of["rql.token"]), (["{t}a", "{t}b"], list(map(int, tokens))))


def test_once_and_elect_write_spans(server, rql):
    with Spans() as spans:
        for _ in range(2):
            check_equal(rql("once", "a", "--window", "1m", "--trace", spans.file, "--", "true").code, 0)
        check_equal([(span.name, span.outcome) for span in spans.all()],
                    [("rql.wait", "granted"), ("rql.hold", "released"), ("rql.wait", "refused")])
    with Spans() as spans:
        host = rql.start("elect", "b", "--again", "--trace", spans.file, "--", "true")
        wait_until(lambda: len(spans.all()) >= 4, "two terms")
        host.terminate()
        finish(host)
        first, second = spans.all()[0], spans.all()[2]
        assert first.trace != second.trace and first.of["rql.token"] < second.of["rql.token"]


def test_an_agent_holds_the_lock_in_the_same_trace(server, rql):
    if is_cluster():
        return
    with Agent(rql) as agent, Spans() as spans:
        done = rql("run", "a", f"--agent={agent.path}", "--trace", spans.file, "--", "sh", "-c",
                   f"echo $TRACEPARENT; '{PROGRAM}' info a --json --url {server.url}", TRACEPARENT=GIVEN)
        shown, info = done.out.split("\n", 1)
        wait, hold = spans.pair()
        check_equal((wait.trace, wait.parent, shown, json.loads(info)["meta"]["traceparent"]),
                    (TRACE, CALLER, hold.traceparent(), hold.traceparent()))
        check_equal((wait.outcome, hold.outcome, "rql.handed_over" in wait.of), ("granted", "released", False))
    with Agent(rql) as agent, Spans() as spans:
        agent.connect().call("RQL.LOCK", "a")
        check_equal(rql("run", "a", f"--agent={agent.path}", "--try", "-E", "69", "--trace", spans.file, "--", "true").code, 69)
        check_equal([span.outcome for span in spans.all()], ["refused"])


def test_a_trace_that_is_not_sampled_writes_nothing(server, rql):
    with Spans() as spans:
        done = rql("run", "a", "--trace", spans.file, "--", *SHOW, TRACEPARENT=UNSAMPLED)
        check_equal((done.code, done.out, done.err), (0, UNSAMPLED + "\n", ""))
        assert not os.path.exists(spans.file)
        for flags in ("01", "03", "ff"):
            given = GIVEN[:-2] + flags
            check_equal(rql("run", "a", "--trace", spans.file, "--", *SHOW, TRACEPARENT=given).out.strip()[-2:], flags)
        check_equal(len(spans.all()), 6)


def test_an_ill_formed_variable_is_ignored(server, rql):
    for bad in ILL_FORMED:
        done = rql("run", "a", "--", *SHOW, TRACEPARENT=bad)
        check_equal((done.code, done.out, done.err), (0, bad + "\n", IGNORED if bad else ""))
    for words in (("once", "b", "--window", "1m", "--", "true"), ("lock", "c", "--ttl", "1ms"), ("series", "d", "--", "true")):
        done = rql(*words, TRACEPARENT="00")
        check_equal((done.code, done.err), (0, IGNORED))
    check_equal(rql("ls", TRACEPARENT="00").err, "")  # it takes no lock
    with Spans() as spans:
        done = rql("run", "a", "--trace", spans.file, "--", *SHOW, TRACEPARENT="00")
        check_equal((done.err, done.out.strip()), (IGNORED, spans.pair()[1].traceparent()))


def test_an_ill_formed_flag_is_a_mistake(server, rql):
    for bad in ILL_FORMED:
        done = rql("run", "a", "--traceparent", bad, "--", "true")
        check_equal((done.code, done.out), (64, ""))
        check_in("rql: run: no traceparent of W3C Trace Context, version 00: " + bad, done.err)
    for words in (("run", "a", "--meta", "traceparent=x", "--", "true"), ("lock", "a", "-m", "traceparent=x")):
        done = rql(*words)
        check_equal(done.code, 64)
        check_in("--traceparent", done.err)
    check_equal(server.ask("DBSIZE"), 0)


def test_a_file_that_cannot_be_written_changes_nothing_else(server, rql):
    """Said once, although there are two spans."""
    with Folder() as folder:
        os.mkfifo(folder.path("pipe"))
        for file, why in (("/dev/full", "No space left on device"), (folder.path("no/file"), "No such file or directory"),
                          (folder.path(""), "Is a directory"), (folder.path("pipe"), "No such device or address")):
            done = rql("run", "a", "--trace", file, "--", "sh", "-c", "echo $TRACEPARENT; exit 3")
            check_equal((done.code, done.err), (3, f"rql: {file}: spans are not written: {why}\n"))
            assert done.out.startswith("00-"), done.out
    assert not server.is_locked("a")


def test_a_limit_of_its_size_changes_nothing_else(server, rql):
    with Spans() as spans:
        with open(spans.file, "w", encoding="ascii") as file:
            file.write("{}\n" * 100)
        done = rql("run", "a", "--trace", spans.file, "--", "sh", "-c", "exit 3",
                   popen={"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))})
        check_equal((done.code, done.err), (3, f"rql: {spans.file}: spans are not written: File too large\n"))
        check_equal(spans.read("spans.json"), "{}\n" * 100)


def test_many_append_whole_lines(server, rql):
    with Spans() as spans:
        runs = [rql.start("run", f"a{i}", "--trace", spans.file, "--", "true") for i in range(16)]
        for run in runs:
            check_equal(finish(run).code, 0)
        check_equal(len({span.id for span in spans.all()}), 32)
        check_equal(sorted({span.of["rql.lock"] for span in spans.all()}), sorted(f"a{i}" for i in range(16)))


def test_a_name_of_any_bytes_is_valid_json(server, rql):
    with Spans() as spans:
        check_equal(rql("run", b'"\\\xff\xc3\xa9', "--trace", spans.file, "--", "true").code, 0)
        with open(spans.file, encoding="utf-8") as file:
            names = {json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"][0]["value"]["stringValue"]
                     for line in file}
        check_equal(names, {'"\\\ufffd\u00e9'})


if __name__ == "__main__":
    main()
