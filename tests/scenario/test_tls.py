#!/usr/bin/env python3
"""`rediss://`: the server is who it should be, nothing is said in the clear, and what breaks is told or healed."""
import contextlib
import os
import shutil
import time

from harness import FOREVER, SLOW, PrivateServer, as_they_end, check, check_equal, main, once, scenario, wait_until
from certificates import Authority, authority
from cluster import Cluster
from network import Proxy
from private_server import free_port

SECRET = "sesame-17"
TIMEOUT_MS = 5000
TTL_MS = 2000 * SLOW
FATAL_S = 2  # what will not change by trying again is told at once


class Relay(Proxy):
    """Between one client and the TLS port of a server: it keeps what clients say, and cuts what they hear."""

    def __init__(self, server):
        self.said, self.cut_after = b"", None
        super().__init__(server.tls_port)

    def url_with(self, login=""):
        return f"rediss://{login}127.0.0.1:{self.port}?tls_ca_file={authority().file}"

    def hand_on(self, link, sink, data):
        is_up = sink is link.far
        if is_up:
            self.said += data
        left = None if is_up else self.cut_after
        if left is not None:
            self.cut_after = left - len(data) if left >= len(data) else None
            if left < len(data):
                sink.sendall(data[:left])
                return False
        sink.sendall(data)
        return True

    def cut_all(self):
        """Returns after how many seconds the first client came back."""
        before, cut_s = len(self.came_s), time.monotonic()
        self.cut()
        wait_until(lambda: len(self.came_s) > before, "one comes back")
        return self.came_s[before] - cut_s


@contextlib.contextmanager
def tls_server(*arguments, certificate=None):
    """One of the scenario's own, beside that of its world."""
    with PrivateServer(*arguments, certificate=certificate or authority().server) as server:
        yield server


def lines(client, name):
    """What it has logged by that name, as the gem would print it."""
    return [words["log"] for words in client.remote.told if words.get("line") == name]


def try_once(world, kind, url, **options):
    """An acquisition by a client of its own; nothing stays. A fault of TLS is told at once."""
    client = world.client(url=url, **options)
    actor = world.actor(kind, client)
    begun, kept_ms = time.monotonic(), world.kept_ms()
    asking = actor.ask("x", timeout_ms=TIMEOUT_MS)
    outcome = asking.outcome()
    ran_s = time.monotonic() - begun - (world.kept_ms() - kept_ms) / 1000
    check(outcome.status != "E_TLS" or ran_s < FATAL_S * SLOW, "it was told late")
    if outcome.status == "OK":
        asking.hold().release().check()
    world.free(client)
    return outcome


def check_refused(outcome, reason):
    check_equal(outcome.status, "E_TLS", repr(outcome))
    check(reason in outcome.error and "127.0.0.1" in outcome.error, outcome.error)


@scenario(counts=[1])
def large_words_and_many_threads_pass(world, kind, names):
    """Both ways a record and more; readers and writers of one connection at the same time."""
    with tls_server() as server:
        client = world.client(url=server.url)
        actors = [world.actor(kind, client) for _ in range(8)]
        viewer = world.actor("thread", client)
        meta = {f"field{i}": "x" * 2000 for i in range(8)}
        for _ in range(10):
            asked = [actor.ask(f"lock{i}", ttl_ms=60000, meta=meta) for i, actor in enumerate(actors)]
            held = [one.hold() for one in asked]
            infos = viewer.begin("inspect", of="locks_info").outcome().check().found
            check_equal([dict(info["meta"]) for info in infos], [meta] * len(held))
            for one in held:
                one.release().check()
            asked = [actor.ask("one", ttl_ms=60000, timeout_ms=FOREVER) for actor in actors]
            for served in as_they_end(asked):
                served.hold().release().check()


def records(said):
    """Its records of TLS, begun at the first byte."""
    while said:
        length = 5 + int.from_bytes(said[3:5], "big")
        yield said[:length]
        said = said[length:]


def answers_soon(actor):
    """If the last answer took more than 10 ms, the server counts as far away, and each command goes out at once."""
    held, begun_s = actor.acquire("near"), time.monotonic()
    held.release().check()
    return time.monotonic() - begun_s < 0.01


@once
def what_threads_ask_goes_out_in_few_records(world, kind, names):
    """A server reads them one by one. So nobody opens a second connection for what fits into one, either."""
    with tls_server() as server, Relay(server) as relay:
        client = world.client(url=relay.url_with(), io_timeout_ms=60000)
        actors = [world.actor(kind, client) for _ in range(8)]
        for actor in actors:
            actor.acquire(actor.name).release().check()
        wait_until(lambda: answers_soon(actors[0]), "the server counts as near")
        before, said = client.stats().commands, len(relay.said)
        server.freeze()
        asked = [actor.ask(actor.name, ttl_ms=60000, timeout_ms=FOREVER) for actor in actors]
        wait_until(lambda: client.stats().commands == before + 8, "all have asked")
        server.go_on()
        held = [one.hold() for one in asked]
        n_records = len(list(records(relay.said[said:])))
        check(n_records <= 4, f"{n_records} records for 8 commands")
        for one in held:
            one.release().check()
        direct = world.client(url=server.url)  # to open one more takes a moment, or is given up
        actors = [world.actor(kind, direct) for _ in range(8)]
        for _ in range(10):
            for one in [actor.ask(actor.name, ttl_ms=60000, timeout_ms=FOREVER) for actor in actors]:
                one.hold().release().check()
        check_equal((client.stats().connections, direct.stats().connections), (1, 1))


def count_releases_sent(actor, server, relay):
    """Of three that do not wait, while the server answers none."""
    held = [actor.acquire(f"x{i}", ttl_ms=60000, lazy_release=True) for i in range(3)]
    said, count = len(relay.said), lambda: len(list(records(relay.said[said:])))
    server.freeze()
    for one in held:
        one.release().check()
    end_s = time.monotonic() + 0.5
    wait_until(lambda: count() == 3 or time.monotonic() > end_s, "all are sent, or not")
    server.go_on()
    return count()


@once
def releases_that_do_not_wait_are_sent_though_no_thread_reads(world, kind, names):
    """If the releases take long, the client's own thread reads by then: they gather, and it is tried again."""
    with tls_server() as server, Relay(server) as relay:
        client = world.client(url=relay.url_with(), connect_timeout_ms=60000, io_timeout_ms=60000)
        actor = world.actor("thread", client)
        for _ in range(3):
            actor.acquire("warm", lazy_release=True).release().check()
        counts = (count_releases_sent(actor, server, relay) for _ in range(20))
        check(3 in counts, "only two were sent at a time")
        world.free(client)


@once
def a_server_that_is_not_who_it_should_be_is_refused(world, kind, names):
    other = Authority("other", "rsa")
    past = ("-startdate", "20200101000000Z", "-enddate", "20200201000000Z")
    later = ("-startdate", "20990101000000Z", "-enddate", "20990201000000Z")
    cases = (
        ("its maker is trusted", authority().server, {}, None),
        ("by its name", authority().issue("named", "DNS:db.example"), {"tls_server_name": "db.example"}, None),
        ("another maker", other.issue("localhost"), {}, "unable to get local issuer certificate"),
        ("another maker, unverified", other.issue("localhost"), {"tls_verify": "none"}, None),
        ("another address", authority().issue("moved", "IP:127.0.0.2"), {}, "IP address mismatch"),
        ("another address, allowed", authority().issue("moved", "IP:127.0.0.2"), {"tls_verify": "ca"}, None),
        ("another name", authority().server, {"tls_server_name": "db.example"}, "hostname mismatch"),
        ("expired", authority().issue("old", dates=past), {}, "certificate has expired"),
        ("expired, any name", authority().issue("old", dates=past), {"tls_verify": "ca"}, "certificate has expired"),
        ("not valid yet", authority().issue("young", dates=later), {}, "certificate is not yet valid"),
    )
    for what, certificate, options, reason in cases:
        with tls_server(certificate=certificate) as server:
            outcome = try_once(world, kind, server.url, **options)
            if reason:
                check_refused(outcome, reason)
            else:
                check_equal(outcome.status, "OK", f"{what}: {outcome!r}")


@scenario(counts=[1])
def each_node_of_a_cluster_is_who_it_should_be(world, kind, names):
    """One of three is not, and can be reached all the same: its locks are not to be had, those of the others are."""
    certificates = [authority().server, authority().server, authority().issue("moved", "IP:127.0.0.2")]
    with Cluster(3, certificates=certificates) as cluster:
        url = f"rediss+cluster://127.0.0.1:{cluster.nodes[0].tls_port}?tls_ca_file={authority().file}"
        actor = world.actor(kind, world.client(url=url))
        for node in cluster.nodes:
            name, = cluster.names_on(node, 1)
            asked = actor.ask(name, timeout_ms=TIMEOUT_MS)
            if node is cluster.nodes[2]:
                check_refused(asked.outcome(), "IP address mismatch")
            else:
                asked.hold().release().check()
        unchecked = world.actor(kind, world.client(url=url + "&tls_verify=ca"))
        unchecked.ask(name, timeout_ms=TIMEOUT_MS).hold().release().check()


@once
def a_server_without_tls_and_files_that_are_no_certificates_are_named(world, kind, names):
    port = free_port()
    with PrivateServer("--port", str(port)):
        outcome = try_once(world, kind, f"rediss://127.0.0.1:{port}", connect_timeout_ms=300)
        check_equal(outcome.status, "E_IO", repr(outcome))  # it waits for the end of a command
        check("TLS" in outcome.error, outcome.error)
    made, key = map(str, authority().server)
    absent, nothing = f"{world.server.folder}/absent", f"{world.server.folder}/no.pem"
    with open(nothing, "w", encoding="ascii") as file:
        file.write("no certificate\n")
    with tls_server() as server:
        for options, reason in (
                ({"tls_ca_file": absent}, "tls_ca_file cannot be used: No such file"),
                ({"tls_ca_file": nothing}, "tls_ca_file cannot be used"),
                ({"tls_cert_file": nothing, "tls_key_file": key}, "tls_cert_file cannot be used"),
                ({"tls_cert_file": made, "tls_key_file": absent}, "tls_key_file cannot be used: No such file"),
                ({"tls_cert_file": made, "tls_key_file": str(authority().key)}, "tls_key_file cannot be used")):
            check_refused(try_once(world, kind, **{"url": server.url.split("?", maxsplit=1)[0], **options}), reason)


@scenario(counts=[1])
def a_server_that_wants_our_certificate_gets_it(world, kind, names):
    """TLS 1.3 tells that it is missing behind the handshake, TLS 1.2 in it."""
    made, key = map(str, authority().issue("client"))
    for protocols, reason in ("TLSv1.3", "set tls_cert_file"), ("TLSv1.2", "alert"):
        with tls_server("--tls-auth-clients", "yes", "--tls-protocols", protocols) as server:
            outcome = try_once(world, kind, server.url)
            check_equal(outcome.status, "E_TLS", f"{protocols}: {outcome!r}")
            check(reason in outcome.error, outcome.error)
            with_ours = {"tls_cert_file": made, "tls_key_file": key}
            check_equal(try_once(world, kind, server.url, **with_ours).status, "OK", protocols)


def replace(source, target):
    """At one blow, as who renews certificates does it."""
    shutil.copy(source, target + ".new")
    os.rename(target + ".new", target)


@scenario(counts=[1])
def certificates_are_replaced_without_a_call(world, kind, names):
    """The server's maker changes; a file that is written half-way changes nothing."""
    folder = world.server.folder
    mine = f"{folder}/ca.pem"
    other = Authority("other")
    shutil.copy(authority().file, mine)
    with tls_server() as server:
        place = server.url.split("?", maxsplit=1)[0]
        client = world.client(world.remote(), logs=True, url=place, tls_ca_file=mine)
        actor = world.actor(kind, client)
        actor.acquire("x").release().check()

        def connect_anew():
            server.end_connections("normal")
            asking = actor.ask("x", timeout_ms=TIMEOUT_MS)
            if asking.outcome().status == "OK":
                asking.hold().release().check()
            return asking.outcome()

        with open(mine, "w", encoding="ascii") as file:
            file.write("-----BEGIN CERTIFICATE-----\n")
        wait_until(lambda: connect_anew().status == "OK" and client.stats().tls_reloads_failed == 1, "the old stays")
        check_equal(connect_anew().status, "OK", "while it is not whole")
        replace(other.file, mine)
        wait_until(lambda: connect_anew().status == "E_TLS", "the new is used")
        replace(authority().file, mine)
        wait_until(lambda: connect_anew().status == "OK", "and the next")
        check_equal(client.stats().tls_reloads_failed, 1, "one that could not be read")
        said = lines(client, "tls_reload_failed")
        check_equal(len(said), 1, "one line for one change")
        check(f"no TLS with {place}: tls_ca_file cannot be used: " in said[0], said[0])


@scenario(counts=[1])
def a_client_that_verifies_nothing_says_so_once(world, kind, names):
    with tls_server() as server:
        for verify, count in ("ca", 0), ("none", 1):
            client = world.client(world.remote(), logs=True, url=server.url, tls_verify=verify)
            actor = world.actor(kind, client)
            for _ in range(3):
                actor.acquire("x").release().check()
                server.end_connections("normal")
            check_equal(len(lines(client, "tls_server_unverified")), count, verify)


@scenario(counts=[1])
def those_who_lost_their_connection_come_back_one_by_one(world, kind, names):
    """A fleet's handshakes would cost the server a core. Each waits up to 50 ms, by chance, for each connection."""
    with tls_server() as server, Relay(server) as relay:
        client = world.client(url=relay.url_with(), retry_delay_ms=3600000)
        holder = world.actor("thread", world.client(url=server.url))
        held, delays_s = holder.acquire("x", ttl_ms=60000), []
        asking = world.actor(kind, client).ask("x", timeout_ms=FOREVER, ttl_ms=60000)
        for n_connections in range(2, 2 + 2 * 30, 2):
            wait_until(lambda count=n_connections: client.stats().connections == count, "both are there")
            kept_ms = world.kept_ms()
            delays_s.append((relay.cut_all(), (world.kept_ms() - kept_ms) / 1000))
        held.release().check()
        asking.hold().release().check()
        after_s, ran_s = sorted(took for took, _ in delays_s)[15], sorted(took - kept for took, kept in delays_s)[15]
        check(after_s > 0.004 and ran_s < 0.06 * SLOW, f"after {delays_s} s, of which they were kept from running")


@scenario(counts=[1])
def reconnections_resume_their_session(world, kind, names):
    with tls_server() as server:
        client = world.client(url=server.url)
        actor = world.actor(kind, client)
        for _ in range(20):
            actor.acquire("x").release().check()
            server.end_connections("normal")
        stats = client.stats()
        check(stats.tls_handshakes >= 10, f"{stats.tls_handshakes} handshakes")
        check(stats.tls_resumed >= stats.tls_handshakes - 2, f"{stats.tls_resumed} of {stats.tls_handshakes} resumed")


def present(server, certificate):
    made, key = certificate
    server.ask("CONFIG", "SET", "tls-cert-file", made, "tls-key-file", key)
    server.end_connections()


@scenario(counts=[1])
def a_server_that_does_not_know_its_tickets_is_greeted_anew_each_time(world, kind, names):
    """It is configured once more, with the same certificate."""
    with tls_server() as server:
        client = world.client(url=server.url)
        actor = world.actor(kind, client)
        for _ in range(5):
            actor.acquire(*names).release().check()
            present(server, authority().server)
        stats = client.stats()
        check_equal((stats.tls_handshakes, stats.tls_resumed), (stats.connections, 0))
        check(stats.tls_handshakes >= 4, f"{stats.tls_handshakes} handshakes")


@scenario(counts=[1])
def a_server_that_refuses_its_own_tickets_is_greeted_anew_each_time(world, kind, names):
    """It keeps no sessions, and asks for certificates. That it refuses them is found out once."""
    made, key = map(str, authority().issue("client"))
    with tls_server("--tls-session-caching", "no", "--tls-auth-clients", "yes") as server:
        client = world.client(url=server.url, tls_cert_file=made, tls_key_file=key)
        actor = world.actor(kind, client)
        for _ in range(5):
            actor.acquire(*names).release().check()
            server.end_connections("normal")
        check_equal(actor.begin("connect").outcome().status, "OK")
        stats = client.stats()
        check_equal((stats.tls_handshakes, stats.tls_resumed), (stats.connections, 0))
        check(stats.tls_handshakes >= 5, f"{stats.tls_handshakes} handshakes")


@scenario(counts=[1], is_timed=True)
def what_is_held_stands_while_its_server_is_not_trusted(world, kind, names):
    """Until its deadline, which nothing can move: who has made a mistake has so long to put it right."""
    with tls_server() as server:
        client = world.client(url=server.url)
        holder, other, third = (world.actor(kind, client) for _ in range(3))
        kept = holder.acquire("kept", ttl_ms=2 * TTL_MS, auto_extend=True)  # meanwhile it would be renewed
        short = other.acquire("short", ttl_ms=TTL_MS)
        present(server, Authority("another").issue("localhost"))
        check_refused(third.ask("x", timeout_ms=TIMEOUT_MS).outcome(), "certificate")
        check(not short.is_lost() and not kept.is_lost(), "it was lost at once")
        wait_until(lambda: short.state() == "GONE", "its deadline comes")
        check(kept.remaining_ms() > 0 and not kept.is_lost(), "it was lost")
        present(server, authority().server)
        wait_until(lambda: kept.state() == "HELD" and kept.remaining_ms() > TTL_MS, "it is renewed")
        third.acquire("x", timeout_ms=FOREVER).release().check()
        kept.release().check()
        short.release().check("NOT_HELD")


@scenario(counts=[1])
def nothing_is_said_in_the_clear(world, kind, names):
    with tls_server("--requirepass", SECRET) as server, Relay(server) as relay:
        for login in f":{SECRET}@", "":
            outcome = try_once(world, kind, relay.url_with(login))
            check_equal(outcome.status, "OK" if login else "E_AUTH", repr(outcome))
        check(relay.said.startswith(b"\x16\x03"), "the first bytes are no handshake")
        for word in SECRET, "AUTH", "HELLO", "rql:":
            check(word.encode() not in relay.said, f"{word} is readable")


@scenario(counts=[1])
def one_that_is_cut_anywhere_is_made_again(world, kind, names):
    """Also behind the handshake, in the answers to the login."""
    with tls_server() as server, Relay(server) as relay:
        for n_bytes in range(2400) if "RQL_TEST_LONG" in os.environ else (*range(0, 1200, 149), *range(1200, 2400, 97)):
            client = world.client(url=relay.url_with())
            actor = world.actor(kind, client)
            relay.cut_after = n_bytes
            asking = actor.ask("x", timeout_ms=TIMEOUT_MS)
            if asking.outcome().check("OK", "E_IO").status == "OK":  # a first connection is not made again
                asking.hold().release().check("OK", "E_UNKNOWN")
            relay.cut_after = None
            actor.acquire("x", timeout_ms=FOREVER).release().check()
            world.free(client)


if __name__ == "__main__":
    main()
