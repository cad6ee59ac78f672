#!/usr/bin/env python3
"""rql ping: what it says of a server, what it warns of, and what it says where there is none."""
import os
import re
import tempfile
import time

from harness import Sentinel, Server, check_equal, check_in, free_port, main
from certificates import authority

POOR = ["-info", "-config", "-client|kill", "-client|tracking"]
HINT = "put the URL into RQL_URL"


def fields(result):
    """The table, by its labels."""
    return {line[:14].strip(): line[14:].strip() for line in result.out.splitlines()}


def version_of(server):
    versions = dict(re.findall(r"^(\w+)_version:(\S+)", server.ask("INFO", "server"), re.M))
    return versions.get("valkey") or versions["redis"]


def described(result, code=0):
    check_equal(result.code, code, result.err)
    return result.json()


def test_the_server_is_described(server, rql):
    said = described(rql("ping", "--json"))
    check_equal((said["product"] in ("redis", "valkey"), said["version"]), (True, version_of(server)))
    check_equal(said["url"], rql.url.split("?")[0])
    check_equal((said["role"], said["replicas"], said["sentinels"]), ("master", 0, False))
    check_equal((said["min_replicas_to_write"], said["min_replicas_max_lag_s"], said["refused"]), (0, 10, []))
    assert 0 < said["round_trip_us"] < 20_000_000, said


def test_people_read_a_table(server, rql):
    result = rql("ping")
    said = fields(result)
    check_equal((result.code, result.err), (0, ""))
    check_equal((said["role"], said["refused"], said["min replicas"]), ("master", "nothing", "0"))
    assert said["round trip"].endswith("ms"), said


def test_a_url_is_an_argument_and_wins(server, rql):
    said = described(rql("ping", "--json", server.url, RQL_URL="redis://127.0.0.1:1"))
    check_equal(said["url"], server.url.split("?")[0])


def test_min_replicas_are_those_in_force(server, rql):
    with Server("--min-replicas-to-write", "2") as own:
        check_equal(described(rql("ping", "--json", RQL_URL=own.url))["min_replicas_to_write"], 2)
        own.ask("CONFIG", "SET", "min-replicas-max-lag", "0")
        check_equal(described(rql("ping", "--json", RQL_URL=own.url))["min_replicas_to_write"], 0)


def test_missing_rights_are_named(server, rql):
    with Server() as own:
        url = own.add_user("poor", "~*", "&*", "+@all", *POOR)
        said = described(rql("ping", "--json", RQL_URL=url))
        check_equal(said["refused"], ["INFO", "CLIENT KILL", "CLIENT TRACKING"])
        # HELLO says it, too; what only INFO or CONFIG says is not guessed.
        check_equal((said["role"], said["version"]), ("master", version_of(own)))
        check_equal((said["replicas"], said["min_replicas_to_write"]), (None, None))
        check_equal(fields(rql("ping", RQL_URL=url)).get("min replicas"), None)
        check_in("INFO, CLIENT KILL, CLIENT TRACKING", rql("ping", RQL_URL=url).out)
        # INFO alone shows that nothing is demanded, and no more.
        own.ask("ACL", "SETUSER", "poor", "+info")
        check_equal(described(rql("ping", "--json", RQL_URL=url))["min_replicas_to_write"], 0)
        own.ask("CONFIG", "SET", "min-replicas-to-write", "1")
        check_equal(described(rql("ping", "--json", RQL_URL=url))["min_replicas_to_write"], None)


def test_a_replica_is_said(server, rql):
    with Server("--replicaof", "127.0.0.1", "1") as replica:
        result = rql("ping", "--json", RQL_URL=replica.url)
        check_equal(described(result)["role"], "replica")
        check_in("a replica: locks can be looked at there, not taken\n", result.err)


def test_tls_is_said_and_faults_name_host_and_reason(server, rql):
    with Server(certificate=authority().server) as own:
        said = described(rql("ping", own.url, "--json"))
        check_equal((said["tls"], said["node"]), (True, f"127.0.0.1:{own.tls_port}"))
        check_equal(said["tls_subject"], "/CN=localhost")
        days_left = said["tls_expires_us"] / 86400e6 - time.time() / 86400
        assert 29 < days_left <= 30, said
        table = fields(rql("ping", own.url))
        check_equal(table["tls"], "yes")
        assert re.fullmatch("/CN=localhost, ends in (29d23h|30d00h)", table["certificate"]), table
    past = ("-startdate", "20200101000000Z", "-enddate", "20200201000000Z")
    with Server(certificate=authority().issue("old", dates=past)) as own:
        result = rql("ping", own.url)
        check_equal((result.code, result.out), (69, ""))
        for part in (f"127.0.0.1:{own.tls_port}", "/CN=old", "certificate has expired"):
            check_in(part, result.err)
        result = rql("ping", own.url + "&tls_verify=none")
        check_equal((result.code, fields(result)["certificate"]), (0, "/CN=old, has ended"))


def test_the_certificate_of_a_server_is_not_that_of_its_sentinel(server, rql):
    """The one that was opened last was said."""
    port, (made, key) = free_port(), authority().issue("sentinel")
    with Server(certificate=authority().issue("master")) as own, \
            Sentinel(f"tls-port {port}", "tls-replication yes", "tls-auth-clients no", f"tls-cert-file {made}",
                     f"tls-key-file {key}", f"tls-ca-cert-file {authority().file}",
                     f"sentinel monitor one 127.0.0.1 {own.tls_port} 1"):
        url = f"rediss+sentinel://127.0.0.1:{port}/one?tls_ca_file={authority().file}"
        for _ in range(10):
            check_equal(described(rql("ping", url, "--json"))["tls_subject"], "/CN=master")


def test_a_certificate_that_ends_soon_is_warned_of(server, rql):
    for days, warning in ((30, ""), (5, r"rql: .*: the certificate ends in [45] days; after that no client can connect\n")):
        with Server(certificate=authority().issue("localhost", dates=("-days", str(days)))) as own:
            result = rql("ping", own.url)
            check_equal(result.code, 0, result.err)
            assert re.fullmatch(warning, result.err), result.err


def test_a_connection_that_takes_long_is_warned_of(server, rql):
    """Compared with the TTL, which is shorter here than any connection takes."""
    result = rql("ping", RQL_TTL_MS="1")
    check_equal(result.code, 0, result.err)
    check_in("ms, more than 1/20 of the TTL of locks; check the lookup of the server's name", result.err)


def test_an_old_master_that_may_go_on_is_warned_of(server, rql):
    port = free_port()
    with Server("--port", str(port), "--bind", "127.0.0.1", certificate=None) as master:
        with Sentinel(f"sentinel monitor locks 127.0.0.1 {port} 1") as sentinel:
            url = f"redis+sentinel://127.0.0.1:{sentinel.port}/locks"
            result = rql("ping", "--json", RQL_URL=url)
            said = described(result)
            check_equal((said["sentinels"], said["node"]), (True, f"127.0.0.1:{port}"))
            check_in("an old master may go on granting after a failover", result.err)
            master.ask("CONFIG", "SET", "min-replicas-to-write", "1")
            check_equal(rql("ping", RQL_URL=url).err, "")


COMMANDS = (["who"], ["run", "a", "--", "true"], ["unlock", "a", "--force"], ["swarm", "status"], ["stats"], ["doctor"],
            ["bench", "--for", "1s"])


def test_a_password_is_for_the_environment(server, rql):
    for url in ("redis://u:geheim@127.0.0.1:1", "rediss://:geheim@h/1", "unix://u:geheim@/tmp/s",
                "redis://u:ge/heim@h", "redis+sentinel://h/m?sentinel_password=geheim"):
        for words in (["ping", url], ["ping", "--url", url], ["--url=" + url, "ping"]):
            result = rql(*words)
            check_equal((result.code, result.out), (64, ""), words)
            check_in(HINT, result.err)
            assert "geheim" not in result.err, result.err
        # From there it is taken, and the line on stderr is about something else.
        result = rql("ping", RQL_URL=url, RQL_CONNECT_TIMEOUT_MS="50")
        assert result.code != 0 and HINT not in result.err, result.err
    for words in COMMANDS:
        result = rql("--url", "redis://u:geheim@127.0.0.1:1", *words)
        check_equal((result.code, result.out), (64, ""), words)
        check_in(f"{HINT}, as in RQL_URL=... rql {words[0]}\n", result.err)
        assert "geheim" not in result.err, result.err
    for url in ("redis://127.0.0.1:1", "unix:///tmp/a:b@c", "redis://u:@127.0.0.1:1"):
        result = rql("ping", url)
        check_equal(result.code, 69, result.err)
        assert HINT not in result.err, result.err


def test_a_sentinel_that_wants_a_password_is_named_as_such(server, rql):
    with Sentinel("requirepass mustard", f"sentinel monitor one 127.0.0.1 {free_port()} 1") as sentinel:
        url = f"redis+sentinel://127.0.0.1:{sentinel.port}/one"
        for query, mark in ("", "?"), ("?sentinel_tls=false", "&"):
            result = rql("ping", url + query)
            check_equal(result.code, 69)
            check_in(f"rql: fix: add {mark}sentinel_password=PASSWORD to RQL_URL, with the password of", result.err)


def test_a_wrong_url_is_named_with_its_origin_and_a_guess(_server, rql):
    for url, said in (("localhost:6379", "localhost:6379 has no scheme; did you mean redis://localhost:6379?"),
                      ("locks/2", "locks/2 has no scheme; did you mean redis://locks/2?"),
                      ("http://h", "unknown scheme http://; use redis://, rediss://, "),
                      ("redis://h:port", "the port must be a number from 1 to 65535")):
        for origin, result in (("URL", rql("ping", url)), ("--url", rql("--url", url, "ls")), ("RQL_URL", rql("ls", RQL_URL=url)),
                               ("RQL_URL", rql("run", "a", "--wait", "1s", "--", "true", RQL_URL=url))):
            check_equal((result.code, result.out, result.err.count("\n")), (64, "", 1))
            check_in(f"rql: {origin}: {said}", result.err)


def test_a_wrong_folder_of_the_private_server_is_named(_server, rql):
    for folder in "relative", "/" + 97 * "a":
        result = rql("ping", "local:", RQL_LOCAL_DIR=folder)
        check_equal((result.code, result.err),
                    (64, "rql: URL: RQL_LOCAL_DIR must start with '/' and have at most 96 bytes\n"))
    check_equal(rql("ping", "local:", RQL_LOCAL_DIR="/" + 95 * "a").code, 69)


def test_no_message_has_a_password(_server, rql):
    for url in ("u:geheim@localhost:6379", "u:geheim", "geheim@h", "http://u:geheim@h", "redis:u:geheim", "/geheim/s?x",
                "redis://u:geheim", "redis://u:geheim/h", "redis://h/geheim"):
        result = rql("ls", RQL_URL=url)
        check_equal(result.code, 64, url)
        check_in("rql: RQL_URL: ", result.err)
        assert "geheim" not in result.err, result.err


def test_an_empty_url_counts_as_not_set(_server, rql):
    with tempfile.TemporaryDirectory(prefix="rql-") as folder:
        unset = {"RQL_URL": "", "RQL_LOCAL_DIR": folder, "RQL_LOCAL_IDLE": "1"}
        result = rql("lock", "a", **unset)
        check_equal((result.code, result.err.strip()),
                    (0, "rql: RQL_URL is not set: starting a private server for this user and machine"))
        result = rql("ping", "--json", **unset)
        check_equal((result.code, result.json()["url"]), (0, "local:"), result.err)
        result = rql("unlock", "a", "--force", **unset)
        check_equal((result.code, result.err), (0, ""))


def test_a_command_that_takes_no_lock_starts_no_server(_server, rql):
    with tempfile.TemporaryDirectory(prefix="rql-") as folder:
        for words in (["ping"], ["ls"], ["who"], ["info", "a"], ["queue", "a"], ["stats"], ["doctor"], ["dead", "--dry-run"],
                      ["unlock", "a", "--force"], ["swarm", "status"], ["hosts"], ["ls", "--url", "local:"]):
            result = rql(*words, RQL_URL="", RQL_LOCAL_DIR=folder + "/none")
            check_equal((result.code, result.out), (69, ""), words)
            check_equal(result.err, "rql: local: no server is running; set RQL_URL to use another\n", words)
        check_equal(os.listdir(folder), [])


def test_nobody_there_is_69_and_names_the_host(server, rql):
    result = rql("ping", "redis://127.0.0.1:1")
    check_equal((result.code, result.out), (69, ""))
    check_equal(result.err, "rql: cannot connect to redis://127.0.0.1:1: Connection refused\n")


if __name__ == "__main__":
    main()
