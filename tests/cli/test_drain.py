#!/usr/bin/env python3
"""rql drain: a host is asked for what it holds, and waited for."""
import time

from harness import HOST, check_equal, check_in, finish, main, read_line

RUBY = "rql:hst:1/2/4/0123456789abcdef"


def take(rql, *names, ttl="1m"):
    """By clients that have said where they run. Returns the secrets."""
    return [rql("lock", name, "--ttl", ttl, "--json").json()["secret"] for name in names]


def let_listen(server, *names):
    """As holders with on_wanted write it."""
    for name in names:
        server.ask("HSET", f"rql:lock:{name}", "rql_tell", "1")


def test_what_is_left_is_shown(server, rql):
    take(rql, "a", "b")
    let_listen(server, "b")
    result = rql("drain", HOST, "--within", "0")
    check_equal((result.code, result.err), (1, f"rql: {HOST}: 2 of its locks are still held; 1 of them could not be "
                                               "asked for, because their programs do not set on_wanted\n"))
    lines = [line.split()[:3] for line in result.out.splitlines()]
    check_equal([lines[0], sorted([line[0], line[2]] for line in lines[1:])],
                [["LOCK", "LEFT", "ASKED"], [["a", "no"], ["b", "yes"]]])
    result = rql("drain", HOST, "--within", "0", "--json")
    check_equal(result.code, 1)
    told = result.json()
    check_equal((told["host"], told["ended"]), (HOST, 0))
    check_equal(sorted((hold["name"], hold["is_asked"], hold["client"]["host"]) for hold in told["holds"]),
                [("a", False, HOST), ("b", True, HOST)])
    check_equal(server.ask("HEXISTS", "rql:lock:a", "rql_asked"), 0)
    check_equal(server.ask("HEXISTS", "rql:lock:b", "rql_asked"), 1)
    id_of_b = next(hold["host_id"] for hold in told["holds"] if hold["name"] == "b")
    check_equal([hold["name"] for hold in rql("drain", id_of_b, "--within", "0", "--json").json()["holds"]], ["b"])


def test_it_ends_when_nothing_is_held(server, rql):
    (secret,) = take(rql, "a")
    let_listen(server, "a")
    draining = rql.start("drain", HOST)
    check_equal(read_line(draining.stderr), f"rql: {HOST}: holds 1 lock; asked for 1; waiting for up to 30.0s\n")
    check_equal(rql("unlock", "a", "--secret", secret).code, 0)
    result = finish(draining)
    check_equal((result.code, result.out, result.err), (0, f"{HOST} holds no lock\n", ""))
    result = rql("drain", HOST)
    check_equal((result.code, result.out, result.err), (0, f"{HOST} holds no lock\n", ""))
    check_equal(rql("drain", HOST, "--json").json(), {"host": HOST, "ended": 0, "holds": []})


def test_the_same_is_not_asked_for_again(server, rql):
    """Not at the last look either. What the host takes meanwhile is asked for, too."""
    take(rql, "a")
    let_listen(server, "a")
    draining = rql.start("drain", HOST, "--within", "2500ms")
    read_line(draining.stderr)
    asked = server.ask("HGET", "rql:lock:a", "rql_asked")
    take(rql, "b")
    let_listen(server, "b")
    result = finish(draining)
    check_in("2 of its locks are still held; 0 of them could not", result.err)
    check_equal(server.ask("HGET", "rql:lock:a", "rql_asked"), asked)
    check_equal(server.ask("HEXISTS", "rql:lock:b", "rql_asked"), 1)


def test_the_last_client_of_a_host_may_leave(server, rql):
    """With its entry in the list of clients."""
    identity, now_us = "7" * 32, int(time.time() * 1e6)
    server.ask("HSET", "rql:clients", identity, '{"host":"elsewhere","pid":1,"program":"p","at_us":%d}' % now_us)
    server.ask("HSET", "rql:lock:a", "acq_id", "rql:acq:1/2/0/0/" + identity, "hst_id", "rql:hst:1/2/0/" + identity,
               "ts", "1795254268.4681", "ini_ttl", "5000", "rql_nonce", "8" * 32, "rql_token", "1", "rql_tell", "1")
    draining = rql.start("drain", "elsewhere")
    check_in("elsewhere: holds 1 lock; asked for 1", read_line(draining.stderr))
    server.ask("DEL", "rql:lock:a")
    server.ask("HDEL", "rql:clients", identity)
    result = finish(draining)
    check_equal((result.code, result.out, result.err), (0, "elsewhere holds no lock\n", ""))


def test_it_goes_on_while_the_server_is_away(server, rql):
    (secret,) = take(rql, "a")
    draining = rql.start("drain", HOST, "--io-timeout", "300ms")
    read_line(draining.stderr)
    server.freeze()
    time.sleep(2)  # a look of it gets no answer
    assert draining.poll() is None
    server.go_on()
    check_equal(rql("unlock", "a", "--secret", secret).code, 0)
    result = finish(draining)
    check_equal((result.code, result.out), (0, f"{HOST} holds no lock\n"))


def test_force_ends_what_is_left(server, rql):
    take(rql, "a", "b")
    server.ask("HSET", "rql:lock:ruby", "acq_id", "rql:acq:1/2/3/4/0123456789abcdef", "hst_id", RUBY,
               "ts", "1795254268.4681", "ini_ttl", "5000")
    result = rql("drain", HOST, "--within", "0", "--force")
    check_equal((result.code, result.out), (0, f"{HOST}: locks ended: 2\n"))
    check_equal(rql("ls").out, "ruby\n")
    check_equal(rql("drain", RUBY, "--within", "0", "--force", "--json").json(), {"host": RUBY, "ended": 1, "holds": []})
    check_equal(rql("ls").out, "")


def test_what_is_no_host(_server, rql):
    result = rql("drain", "nowhere")
    check_equal(result.code, 1)
    check_in("rql: nowhere: no client", result.err)
    check_equal(rql("drain", "nowhere", "--json").json(), None)
    check_equal(rql("drain").code, 64)
    check_in("which host?", rql("drain").err)


def test_hosts_are_completed(server, rql):
    take(rql, "a", "b")
    result = rql("help", "--complete", "drain", "")
    check_equal([line for line in result.out.splitlines() if not line.startswith("-")], [HOST])


if __name__ == "__main__":
    main()
