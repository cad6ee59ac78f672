#!/usr/bin/env python3
"""rql serve: what it answers, to whom, and what it survives."""
import contextlib
import itertools
import os
import re
import signal
import socket
import stat
import tempfile
import time

from harness import (IN_USE, FaultyNetwork, Folder, Missing, Server, check_equal, check_in, finish, free_port, leave_out_in_cluster,
                     listener, main, read_line, shards, start_waiting, wait_until)
from openmetrics import parsed
from serving import Serve

CONNS_MAX = 16
CUT_OFF_S = 5
ALL_PATHS = {"/metrics": "application/openmetrics-text; version=1.0.0; charset=utf-8", "/healthz": "text/plain; charset=utf-8",
             "/": "text/html; charset=utf-8", "/locks.json": "application/json"}
QUICK = ("--zombie-ttl", "1s", "--swarm-probe-period", "100ms", "--zombie-flush-period", "200ms",
         "--swarm-liveness-probing-period", "100ms")


# ---- answers ----

def test_each_path_answers(server, rql):
    rql("lock", "a", "--ttl", "1h")
    with Serve(rql, "--page") as serve:
        serve.await_answer("/metrics", lambda _, text: "rql_locks 1\n" in text)
        serve.await_answer("/healthz", lambda status, _: status == 200)
        for path, kind in ALL_PATHS.items():
            status, headers, text = serve.ask(path + "?x=1")
            check_equal((status, headers["Content-Type"], headers["X-Content-Type-Options"], headers["Cache-Control"]),
                        (200, kind, "nosniff", "no-store"), path)
            check_equal(int(headers["Content-Length"]), len(text.encode()) if path == "/" else int(headers["Content-Length"]))
            check_in("default-src 'none'", headers["Content-Security-Policy"])
            status, of_head, text = serve.ask(path, "HEAD")
            check_equal((status, text, of_head["Content-Type"]), (200, "", kind), path)
        assert int(serve.ask("/locks.json")[1]["Age"]) < 60
        look = serve.locks(lambda look: look["n_locks"] == 1)
        printed = rql("top", "--json", "-n", "1").json()
        check_equal((list(look), list(look["locks"][0])), (list(printed), list(printed["locks"][0])))
        check_equal(look["locks"][0]["token"], printed["locks"][0]["token"])


def test_figures_are_those_of_stats_with_their_age(server, rql):
    rql("lock", "orders:1", "--ttl", "1h")
    with Folder() as folder:
        with open(folder.path("classes"), "w", encoding="ascii") as file:
            file.write("orders:* orders\n")
        with Serve(rql, "--classes", folder.path("classes")) as serve:
            serve.await_answer("/metrics", lambda _, text: "rql_locks 1\n" in text)
            figures = serve.figures()
            printed, _ = parsed(rql("stats", "--openmetrics", "--classes", folder.path("classes")).out)
            check_equal(set(figures) - set(printed), {"rql_up", "rql_reading_age_seconds"})
            check_equal(set(printed) - set(figures), set())
            check_equal((figures['rql_class_locks{class="orders"}'], figures["rql_up"]), (1, 1))
            assert 0 <= figures["rql_reading_age_seconds"] < 60, figures
        with open(folder.path("classes"), "w", encoding="ascii") as file:
            file.write("x\n")
        refused = rql("serve", "--classes", folder.path("classes"), "--listen", f"127.0.0.1:{free_port()}")
        check_equal(refused.code, 64)
        check_in("line 1: a line is a glob", refused.err)


def test_there_is_a_page_only_if_it_is_wanted(_server, rql):
    with Serve(rql) as serve:
        check_equal([serve.ask(path)[0] for path in ("/", "/locks.json", "/healthz/", "//metrics", "/x", "/history.json")], [404] * 6)
        check_equal(serve.ask("/metrics")[0], 200)


def test_nothing_but_reading_is_allowed(_server, rql):
    with Serve(rql, "--page") as serve:
        for path, method in itertools.product(ALL_PATHS, ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "FOO")):
            status, headers, _ = serve.ask(path, method)
            check_equal((status, headers["Allow"]), (405, "GET, HEAD"), f"{method} {path}")
        check_equal(serve.ask("/metrics", "POST", "x" * 100000)[0], 405)


def test_a_body_is_refused(_server, rql):
    with Serve(rql) as serve:
        check_equal(serve.ask("/metrics", body="x")[0], 413)
        check_equal(serve.ask("/metrics", body="x" * 20000)[0], 413)
        check_equal(serve.ask("/metrics", body=iter([b"x"]), **{"Transfer-Encoding": "chunked"})[0], 413)
        check_equal(serve.ask("/metrics", **{"Content-Length": "0"})[0], 200)
        assert serve.ask("/metrics", **{"X-Long": "x" * 20000})[0] in (413, 431)
        with promised_body(serve) as sock:  # one that never comes
            check_in(b"413", sock.recv(4096))
            while sock.recv(4096):
                pass


def promised_body(serve):
    sock = socket.create_connection(serve.where)
    sock.settimeout(60)
    sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n")
    return sock


def test_a_name_that_others_own_leads_nowhere(_server, rql):
    """A web site may have its name lead to 127.0.0.1, and would then read the answers in its visitors' browsers."""
    with Serve(rql) as serve, tempfile.TemporaryDirectory(prefix="rql-serve-") as folder, Serve(rql, path=folder + "/s") as local:
        for host, status in (("evil.example", 421), ("localhost.evil.example", 421), ("127.0.0.1.evil.example:80", 421), ("localhost", 200),
                             ("LOCALHOST:9775", 200), ("127.0.0.1:1", 200), ("[::1]:9775", 200)):
            check_equal(serve.ask("/metrics", Host=host)[0], status, host)
            check_equal(local.ask("/metrics", Host=host)[0], 200, host)  # what is in front of it knows its name


def test_readings_are_made_once_a_second_at_most(_server, rql):
    with Serve(rql, "--page") as serve:
        serve.locks(lambda _: True)
        begun_s, seen = time.monotonic(), set()
        wait_until(lambda: seen.add(serve.locks(lambda _: True)["at_us"]) or len(seen) > 1, "it is read again")
        check_equal(serve.ask("/history.json")[0], 200)  # the first question for it wakes the thread that reads
        wait_until(lambda: seen.add(serve.locks(lambda _: True)["at_us"]) or len(seen) > 3, "it is read again and again")
        assert time.monotonic() - begun_s > 1.5, seen
        assert all(later - earlier > 300_000 for earlier, later in itertools.pairwise(sorted(seen))), sorted(seen)


def test_the_json_has_queues_and_hosts(server, rql):
    rql("lock", "a", "--ttl", "1h")
    waiting = [start_waiting(server, rql, "run", "a", "--reason", reason, "--", "true") for reason in ("one", "two")]
    server.ask("HSET", "rql:swarm:hsts", "dead", "1.5", "alive", f"{time.time() + 1000:.3f}")
    with Serve(rql, "--page") as serve:
        look = serve.locks(lambda look: look["waiting"] == 2)
        requests = look["locks"][0]["requests"]
        check_equal([(request["position"], request["meta"]["reason"]) for request in requests], [(1, "one"), (2, "two")])
        check_equal([request["client"]["pid"] for request in requests], [process.pid for process in waiting])
        check_equal([(host["host_id"], host["zombie"]) for host in look["hosts"]], [("alive", False), ("dead", True)])


# ---- clients ----

def test_a_slow_client_does_not_hold_others(_server, rql):
    with Serve(rql) as serve, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(serve.where)) for _ in range(CONNS_MAX - 1)]
        for sock in slow:
            sock.sendall(b"GET /metr")
        begun_s = time.monotonic()
        check_equal(serve.ask("/metrics")[0], 200)
        assert time.monotonic() - begun_s < CUT_OFF_S, "it had to wait"
        slow[0].setblocking(False)

        def is_cut_off():
            """A byte now and then keeps no connection."""
            try:
                slow[0].sendall(b"i")
                return slow[0].recv(1) == b""
            except BlockingIOError:
                time.sleep(0.3)
                return False
            except OSError:
                return True

        wait_until(is_cut_off, "it is cut off")


def test_too_many_clients_wait_for_their_turn(_server, rql):
    with Serve(rql) as serve, contextlib.ExitStack() as stack:
        for _ in range(CONNS_MAX):
            stack.enter_context(socket.create_connection(serve.where)).sendall(b"GET / HTTP/1.1\r\n")
        check_equal(serve.ask("/metrics")[0], 200)
        begun_s = time.monotonic()
        for _ in range(50):
            check_equal(serve.ask("/metrics")[0], 200)
        assert time.monotonic() - begun_s < 50, "each waits"


def test_a_request_may_come_in_pieces(_server, rql):
    with Serve(rql) as serve, socket.create_connection(serve.where) as sock:
        for piece in b"GET /healthz HTTP/1.0\r\n\r\n".partition(b"zH") + (b"",):
            sock.sendall(piece)
        sock.settimeout(60)
        check_in(b"HTTP/1.", sock.recv(4096))
        for noise in (b"\0\n\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"GET / HTTP/9.9\r\n\r\n"):
            with socket.create_connection(serve.where) as other:
                other.sendall(noise)
        check_equal(serve.ask("/metrics")[0], 200)


# ---- the lock server ----

def test_without_an_answer_the_last_reading_stays(_server, rql):
    with Server() as own:
        with Serve(rql, "--page", RQL_URL=own.url) as serve:
            serve.await_answer("/metrics", lambda _, text: "rql_up 1\n" in text and "rql_locks 0\n" in text)
            serve.locks(lambda look: look["n_locks"] == 0)
            own.kill()
            line = serve.await_answer("/healthz", lambda status, _: status == 503)
            assert re.fullmatch(r"no answer for 1\d\.\ds: .+\n", line), line
            figures = serve.figures()
            check_equal((figures["rql_up"], figures["rql_locks"]), (0, 0))
            assert figures["rql_reading_age_seconds"] > 5, figures
            status, headers, _ = serve.ask("/locks.json")
            assert status == 200 and int(headers["Age"]) > 5, headers
            # Readings that were under way when the server ended have said so before.
            assert any("rql: no answer for" in read_line(serve.process.stderr) for _ in range(3))
            own.launch()
            check_in("ok: ", serve.await_answer("/healthz", lambda status, _: status == 200))
            check_equal(read_line(serve.process.stderr), "rql: the server answers again\n")
            serve.await_answer("/metrics", lambda _, text: parsed(text)[0]["rql_reading_age_seconds"] < figures["rql_reading_age_seconds"])


def test_each_of_several_servers_has_to_answer(_server, rql):
    for dead in range(2):
        with shards(2) as (servers, names, url), Serve(rql, RQL_URL=url) as serve:
            serve.await_answer("/healthz", lambda status, _: status == 200)
            servers[dead].kill()
            line = serve.await_answer("/healthz", lambda status, _: status == 503)
            assert re.match(rf"no answer for 1\d\.\ds: .*{names[dead]}", line) and names[1 - dead] not in line, line
            check_equal(serve.figures()["rql_up"], 0)
            servers[dead].launch()
            serve.await_answer("/healthz", lambda status, _: status == 200)


def test_a_long_reading_hides_no_answer(_server, rql):
    """The first one takes 8 s here: it looks at many keys, page by page."""
    leave_out_in_cluster("a proxy of one server")
    with Server() as own:
        own.ask("EVAL", "for i = 1, 20000 do redis.call('SET', 'k' .. i, 1) end", 0)
        network = FaultyNetwork(own.url.removeprefix("unix://"))
        network.fail("delay", n=50)
        try:
            with Serve(rql, RQL_URL=f"unix://{network.path}") as serve:
                serve.await_answer("/healthz", lambda status, _: status == 200)
                over_s = time.monotonic() + 6
                ages_ms = []
                while time.monotonic() < over_s:
                    number, unit = re.search(r" answered ([\d.]+)(m?s) ago\n", serve.ask("/healthz")[2]).groups()
                    ages_ms.append(float(number) * (1 if unit == "ms" else 1000))
                    time.sleep(0.2)
                check_equal(serve.figures(), {"rql_up": 1}, "the first reading is under way")
                late_ms = ages_ms[len(ages_ms) // 2:]
                assert min(late_ms) < 2900, late_ms
        finally:
            network.stop()


def test_it_starts_without_a_server(_server, rql):
    with tempfile.TemporaryDirectory(prefix="rql-serve-") as folder:
        for url in (f"unix://{folder}/none", "local:"):
            with Serve(rql, "--page", RQL_URL=url, RQL_LOCAL_DIR=folder) as serve:
                line = serve.await_answer("/healthz", lambda status, text: status == 503 and ": " in text)
                assert line.startswith("no answer yet: ") and line.count("\n") == 1, line
                check_equal((serve.figures(), serve.ask("/")[0]), ({"rql_up": 0}, 200))
                line = serve.await_answer("/locks.json", lambda status, text: status == 503 and ": " in text)
                check_equal((line.startswith("nothing was read yet: "), line.count("\n")), (True, 1), line)
        check_equal(os.listdir(folder), [])


def test_a_silent_server_delays_neither_answers_nor_the_end(server, rql):
    with Serve(rql, "--page", "--io-timeout", "1m") as serve:
        serve.locks(lambda _: True)
        with server.frozen():
            begun_s = time.monotonic()
            while time.monotonic() < begun_s + 2:
                check_equal([serve.ask(path)[0] for path in ALL_PATHS], [200] * 4)
            begun_s = time.monotonic()
            serve.process.send_signal(signal.SIGINT)
            check_equal(finish(serve.process).code, 0)
            assert time.monotonic() - begun_s < 15, "it waits for the server"


def test_it_starts_no_private_server(_server, rql):
    with Folder() as folder:
        with Serve(rql, RQL_URL="", RQL_LOCAL_DIR=folder.path("l")) as serve:
            serve.await_answer("/metrics", lambda _, text: "rql_up 0\n" in text)
            assert not os.path.exists(folder.path("l"))


def test_a_user_who_may_not_look_is_told(_server, rql):
    with Server() as own:
        url = own.add_user("app", "+@all", "-scan", "&*", "~*")
        with Serve(rql, "--page", RQL_URL=url) as serve:
            line = serve.await_answer("/locks.json", lambda status, text: status == 503 and ": " in text)
            check_in("NOPERM", line)
            check_in("NOPERM", read_line(serve.process.stderr))
            check_equal((serve.ask("/healthz")[0], serve.figures()), (200, {"rql_up": 1}))


def test_a_wrong_url_is_reported_before_anything_is_served(_server, rql):
    refused = rql("serve", "--listen", f"127.0.0.1:{free_port()}", RQL_URL="redi://x")
    check_equal(refused.code, 64)
    check_in("unknown scheme", refused.err)


# ---- where it listens ----

def test_a_path_is_for_its_user_and_goes_with_the_program(_server, rql):
    with tempfile.TemporaryDirectory(prefix="rql-serve-") as folder:
        path = folder + "/s"
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(path)
        with Serve(rql, path=path) as serve:
            check_equal(serve.ask("/metrics")[0], 200)
            assert stat.S_IMODE(os.stat(path).st_mode) in (0o600, 0o660), oct(os.stat(path).st_mode)
            refused = rql("serve", "--listen", serve.address)
            check_equal((refused.code, refused.err), (69, f"rql: {path}: another program listens there already\n"))
            check_equal(serve.ask("/metrics")[0], 200)
        assert not os.path.exists(path)
        with open(path, "w", encoding="ascii"):
            pass
        refused = rql("serve", "--listen", "unix:" + path)
        check_equal((refused.code, refused.err), (69, f"rql: {path}: exists, and is no socket\n"))


def check_in_use(refused, address):
    check_equal(refused.code, 69)
    assert re.fullmatch(f"rql: {re.escape(address)}: {IN_USE}\n", refused.err), refused.err


def test_where_it_does_not_listen(_server, rql):
    with Serve(rql) as serve:
        refused = rql("serve", "--listen", serve.address)
        check_in_use(refused, serve.address)
    for where in ("9775", "localhost:9775", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:99999", "[::1:9775", "::1:9775", "unix:", "/path", "a:b:c"):
        refused = rql("serve", "--listen", where)
        check_equal((refused.code, refused.err.count("\n")), (64, 1), refused.err)
        check_in("HTTP can be served at", refused.err)


def test_it_listens_at_loopback_by_default(_server, rql):
    process = rql.start("serve")
    said = read_line(process.stderr)
    assert re.search(f"HTTP at 127.0.0.1:9775|127.0.0.1:9775: {IN_USE}", said), said


def test_it_listens_at_the_other_loopback_too(_server, rql):
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6) as probe:
            port = probe.getsockname()[1]
    except OSError as fault:
        raise Missing(f"IPv6: {fault}") from fault
    process = rql.start("serve", "--listen", f"[::1]:{port}")
    check_equal(read_line(process.stderr), f"rql: HTTP at [::1]:{port}\n")
    with socket.create_connection(("::1", port), timeout=60) as sock:
        sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        check_in(b"421", sock.recv(64))


def test_systemd_is_told(_server, rql):
    with tempfile.TemporaryDirectory(prefix="rql-notify-") as folder, listener(folder + "/notify") as channel:
        with Serve(rql, NOTIFY_SOCKET=folder + "/notify", WATCHDOG_USEC="200000") as serve:
            said = [channel.recv(2048).decode() for _ in range(3)]
            check_equal(said, ["READY=1", "WATCHDOG=1", f"STATUS=HTTP at {serve.address}"])
        while said[-1] != "STOPPING=1":
            said.append(channel.recv(2048).decode())


# ---- next to other work ----

def test_a_swarm_serves_its_health(_server, rql):
    rql("lock", "a", "--ttl", "1h")
    with Serve(rql, "--page", "--io-timeout", "200ms", *QUICK, command=("swarm", "run")) as serve:
        serve.await_answer("/healthz", lambda status, _: status == 200)
        serve.await_answer("/metrics", lambda _, text: "rql_up 1\n" in text and "rql_locks 1\n" in text)
        check_equal([lock["name"] for lock in serve.locks(lambda _: True)["locks"]], ["a"])
        check_equal(serve.ask("/")[0], 200)
    refused = rql("swarm", "status", "--listen", "127.0.0.1:9775")
    check_equal(refused.code, 64)
    check_in("only run can serve HTTP, not status", refused.err)
    check_equal(rql("swarm", "run", "--listen", "x").code, 64)
    refused = rql("swarm", "run", "--page")
    check_equal(refused.code, 64)
    check_in("--page and --classes need an address", refused.err)


def test_an_agent_serves_figures(_server, rql):
    with Folder() as folder:
        with Serve(rql, "--listen", folder.path("s"), command=("agent",), flag="--http") as serve:
            rql("run", "--agent=" + folder.path("s"), "a", "--", "true")
            serve.await_answer("/healthz", lambda status, _: status == 200)
            check_equal((serve.ask("/metrics")[0], serve.ask("/")[0]), (200, 404))
            refused = rql("agent", "--listen", folder.path("t"), "--http", serve.address)
            check_in_use(refused, serve.address)
            assert not os.path.exists(folder.path("t"))


if __name__ == "__main__":
    main()
