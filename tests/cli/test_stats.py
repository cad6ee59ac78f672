#!/usr/bin/env python3
"""rql stats: figures of all programs, as OpenMetrics, in a file, again and again."""
import contextlib
import os
import pathlib
import re
import resource
import select
import signal
import stat
import subprocess
import tempfile
import time

from harness import (FaultyNetwork, Missing, Server, check_equal, check_in, finish, leave_out_in_cluster, main, share_as, shards,
                     start_waiting, wait_until)
from openmetrics import parsed

DEAD = "rql:acq:1/2/3/4/0123456789abcdef"
WITH_ALL = ("stats", "--openmetrics")
DAY_S = 86400
KILLS = 30


def reading(rql, *words, **more):
    result = rql(*WITH_ALL, *words, **more)
    check_equal((result.code, result.err), (0, ""))
    return parsed(result.out)


def test_stats_count_what_the_server_shows(server, rql):
    rql("lock", "a", "--ttl", "1m")
    rql("lock", "b", "--ttl", "1m")
    process = start_waiting(server, rql, "run", "a", "--", "true")
    server.ask("ZADD", "rql:lock_queue:c", "1.5", DEAD)
    server.ask("SET", "rql:lock:text", "x")
    server.ask("HSET", "rql:swarm:hsts", "dead", "1.5", "alive", f"{time.time():.3f}")
    wanted = {"locks": 2, "queues": 2, "requests": 2, "hosts": 3, "swarm_hosts": 2, "zombie_hosts": 1, "damaged_keys": 1}
    check_equal(rql("stats", "--json").json(), wanted)
    check_equal(rql("stats").out.split("\n")[0].split(), ["locks", "held", "2"])
    samples, _ = reading(rql)
    check_equal({name: samples["rql_" + name] for name in wanted}, wanted)
    node = {"node": rql("info", "a", "--node", "--json").json()["node"],
            **{name: count for name, count in wanted.items() if name not in ("swarm_hosts", "zombie_hosts")}}
    check_equal(rql("stats", "--node", "--json").json(), {**wanted, "nodes": [node]})
    check_equal(samples["rql_swarm_flusher"], 0)
    server.ask("SET", "rql:swarm:flusher", "somebody", "EX", "60")
    samples, _ = reading(rql, "--node")
    check_equal(samples["rql_swarm_flusher"], 1)
    check_equal([samples[f'rql_node_{name}{{node="{node["node"]}"}}'] for name in [*node][1:]], [*node.values()][1:])
    process.terminate()


def test_the_hosts_of_sharers_are_counted(server, rql):
    share_as(server, "a", 8, ("1", ""), ("1", ""))
    share_as(server, "b", 8, ("1", ""), ("1", ""), ("1", ""))  # the first two hosts are those of a
    counts = rql("stats", "--json").json()
    check_equal((counts["locks"], counts["hosts"]), (2, 3))


def test_a_lock_of_several_with_a_foreign_name_is_counted(server, rql):
    leave_out_in_cluster("a key without a partition")
    share_as(server, "a\nb", 8, ("1", ""), ("1", ""))
    share_as(server, "c", 8, ("1", ""))
    counts = rql("stats", "--json").json()
    check_equal((counts["locks"], counts["hosts"]), (2, 1))


def test_many_shared_locks_are_read_at_the_same_time(_server, rql):
    """One after the other, over a network with a delay of 20 ms each way, they would take 24 s at least."""
    leave_out_in_cluster("a path")
    with Server() as own:
        for i in range(300):
            share_as(own, f"s{i}", 8, ("1", ""), ("1", ""))
        network = FaultyNetwork(own.url.removeprefix("unix://"))
        network.fail("delay", n=20)
        try:
            begun_s = time.monotonic()
            counts = rql("stats", "--json", RQL_URL=f"unix://{network.path}").json()
            took_s = time.monotonic() - begun_s
        finally:
            network.stop()
    check_equal((counts["locks"], counts["hosts"]), (300, 2))
    assert took_s < 12, took_s


def test_stats_of_an_empty_server_are_zero(_server, rql):
    check_equal(set(rql("stats", "--json").json().values()), {0})
    samples, _ = reading(rql)
    check_equal({value for name, value in samples.items() if "_server_" not in name}, {0})


def test_a_server_may_be_called_anything(server, rql):
    """Collectors get quotes and the like as they want them; bytes that are no text are replaced."""
    leave_out_in_cluster("a path")
    with folder_of_files() as folder:
        path = os.fsencode(folder) + b'/a"b"\\c\xff'
        os.symlink(server.path, path)
        text = rql(*WITH_ALL, "--node", RQL_URL=os.fsdecode(b"unix://" + path)).out
    check_in(r'/a\"b\"\\c' + "\N{REPLACEMENT CHARACTER}\"} 0", text)


def test_the_server_tells_of_itself(_server, rql):
    with Server("--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru", "--appendonly", "yes",
                "--min-replicas-to-write", "0") as own:
        samples, _ = reading(rql, RQL_URL=own.url)
        got = {name[len("rql_server_"):]: value for name, value in samples.items() if name.startswith("rql_server_")}
        check_equal((got["maxmemory_bytes"], got["aof"], got["replicas"], got["min_replicas_to_write"]),
                    (1 << 30, 1, 0, 0))
        check_equal((got['check{check="mem.policy"}'], got['check{check="dur.persist"}']), (3, 1))
        used = int(re.search(r"used_memory:(\d+)", own.ask("INFO", "memory"))[1])
        assert 0.5 * used < got["used_memory_bytes"] < 2 * used, (used, got)
        assert abs(got["clock_skew_seconds"]) < 1 and got["replica_clock_skew_seconds"] == 0, got
        check_equal([name for name in got if "check" in name and name.split('"')[1][:4] not in ("mem.", "dur.", "clk.", "srv.", "net.")],
                    [])


def test_each_of_several_servers_tells_of_itself(_server, rql):
    with shards(3) as (servers, names, url):
        for i, server in enumerate(servers):
            server.ask("CONFIG", "SET", "maxmemory", str((i + 1) << 30))
        samples, _ = reading(rql, RQL_URL=url)
        check_equal([samples[f'rql_server_maxmemory_bytes{{node="{name}"}}'] for name in names], [1 << 30, 2 << 30, 3 << 30])
        for family in ("used_memory_bytes", "aof", "replicas", "evicted_keys_total"):
            check_equal(sum(name.startswith(f"rql_server_{family}{{node=") for name in samples), 3, family)


def test_counters_never_fall(_server, rql):
    with Server() as own:
        used = int(re.search(r"used_memory:(\d+)", own.ask("INFO", "memory"))[1])
        own.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
        own.ask("CONFIG", "SET", "maxmemory", str(used + 500000))
        seen = []
        for _ in range(2):
            for i in range(1000):
                own.ask("SET", f"x{i}", "y" * 1000)
            seen.append(reading(rql, RQL_URL=own.url)[1])
    check_equal(list(seen[0]), ["rql_server_evicted_keys_total"])
    assert 0 < seen[0]["rql_server_evicted_keys_total"] < seen[1]["rql_server_evicted_keys_total"], seen


def test_what_may_not_be_seen_is_left_out(_server, rql):
    with Server() as own:
        samples, counters = reading(rql, RQL_URL=own.add_user("app", "+@all", "-info", "-config", "&*", "~*"))
    check_equal((samples["rql_locks"], counters), (0, {}))
    left = [name for name in samples if name.startswith("rql_server_")]
    known = ("clk.", "clock", "srv.role")
    check_equal((len(left), [name for name in left if not any(word in name for word in known)]), (5, []))


@contextlib.contextmanager
def folder_of_files(**texts):
    with tempfile.TemporaryDirectory(prefix="rql-stats-") as folder:
        for name, text in texts.items():
            (pathlib.Path(folder) / name).write_text(text, encoding="utf-8")
        yield pathlib.Path(folder)


def test_locks_are_counted_by_class(server, rql):
    now_s = time.time()
    for name, age_s in (("orders:1", 100), ("orders:vip", 50), ("stock:7", 10), ("a b/c", 5)):
        server.ask("HSET", "rql:lock:" + name, "acq_id", DEAD, "hst_id", "h", "ts", f"{now_s - age_s:.4f}",
                    "ini_ttl", "5000")
    server.ask("ZADD", "rql:lock_queue:orders:1", f"{now_s - 2 * DAY_S:.3f}", DEAD, f"{now_s - 30:.3f}", DEAD[:-1] + "0")
    server.ask("SET", "rql:lock:orders:damaged", "x")
    with folder_of_files(classes="# first match\n\n  orders:vip \t vip  \norders:* orders\na b/* other\n"
                                 "*s:* never\n* rest\n") as folder:
        samples, _ = reading(rql, "--classes", str(folder / "classes"))
        text = rql(*WITH_ALL, "--classes", str(folder / "classes")).out
    locks = {name: samples[f'rql_class_locks{{class="{name}"}}'] for name in ("other", "vip", "orders", "never", "rest")}
    check_equal(locks, {"other": 1, "vip": 1, "orders": 1, "never": 0, "rest": 1})
    of_orders = {name: samples[f'rql_class_{name}{{class="orders"}}']
                 for name in ("waiting", "dead_requests", "oldest_hold_seconds", "oldest_wait_seconds")}
    check_equal((of_orders["waiting"], of_orders["dead_requests"]), (2, 1))
    assert 99 < of_orders["oldest_hold_seconds"] < 200, of_orders
    assert 2 * DAY_S - 1 < of_orders["oldest_wait_seconds"] < 2 * DAY_S + 100, of_orders
    check_equal([name for name in ("orders:1", "stock", "a b", "0123456789") if name in text], [])
    samples, _ = reading(rql)
    check_equal(samples['rql_class_locks{class="other"}'], 4)


def test_holders_and_units_are_counted_by_class(server, rql):
    share_as(server, "pool", 8, ("3", ""), ("2", ""))
    check_equal(rql("once", "kept", "--window", "1m", "--", "true").code, 0)
    server.ask("HSET", "rql:lock:alone", "acq_id", DEAD, "hst_id", "h", "ts", "5.5", "ini_ttl", "5000")
    with folder_of_files(classes="pool pools\n") as folder:
        samples, _ = reading(rql, "--classes", str(folder / "classes"))
    found = {name: [samples[f'rql_class_{name}{{class="{of}"}}'] for of in ("pools", "other")]
             for name in ("locks", "holders", "units_used")}
    check_equal(found, {"locks": [1, 2], "holders": [2, 1], "units_used": [5, 0]})


def test_a_file_of_classes_is_checked(_server, rql):
    for text, part in (("x\n", "line 1: a line is a glob"), ("a b\n\nx y\"z\n", "line 3: a line is a glob"),
                       ("".join(f"{i}:* c\n" for i in range(51)), "line 51: more than 50 lines")):
        with folder_of_files(classes=text) as folder:
            result = rql(*WITH_ALL, "--classes", str(folder / "classes"))
            check_equal((result.code, result.out, result.err.count("\n")), (64, "", 1), result.err)
            check_in(part, result.err)
    check_in("No such file", rql(*WITH_ALL, "--classes", "/nowhere").err)
    with folder_of_files(classes="".join(f"{i}:* c{i}\n" for i in range(50))) as folder:
        samples, _ = reading(rql, "--classes", str(folder / "classes"))
    check_equal(len([name for name in samples if name.startswith("rql_class_locks{")]), 51)


def test_a_file_is_written_whole_and_for_all_to_read(server, rql):
    with folder_of_files(rql="old") as folder:
        result = rql(*WITH_ALL, "--out", "rql", popen={"cwd": folder, "umask": 0o077})
        check_equal((result.code, result.out, result.err), (0, "", ""))
        check_equal(((folder / "rql").stat().st_mode & 0o7777, os.listdir(folder)), (0o644, ["rql"]))
        check_equal(parsed((folder / "rql").read_text())[0]["rql_locks"], 0)
        result = rql(*WITH_ALL, "--out", str(folder / "none" / "rql"))
        check_equal((result.code, result.err.count("\n")), (74, 1))


def limited(action):
    """As on a full disk: not all of it can be written. By default the signal of that ends the program."""
    def prepare():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        signal.signal(signal.SIGXFSZ, action)
    return prepare


def test_whoever_is_killed_while_writing_leaves_the_old_file(server, rql):
    with folder_of_files() as folder:
        file = folder / "rql"
        words = (*WITH_ALL, "--out", str(file))
        check_equal(rql(*words).code, 0)
        old = file.read_text()
        for action, code in (signal.SIG_DFL, -signal.SIGXFSZ), (signal.SIG_IGN, 74):
            result = rql(*words, popen={"preexec_fn": limited(action)})
            check_equal((result.code, file.read_text()), (code, old), result.err)
        for number, left in (signal.SIGTERM, ["rql"]), (signal.SIGKILL, None):
            for i in range(KILLS):
                process = rql.start(*words)
                time.sleep(0.0005 * (i % 20))
                process.send_signal(number)
                finish(process)
                parsed(file.read_text())
            found = os.listdir(folder)
            check_equal(found, left or found, "neither a fault nor SIGTERM leaves a file beside it")


def test_a_device_or_a_pipe_is_written_into(_server, rql):
    with folder_of_files() as folder:
        pipe = folder / "pipe"
        os.mkfifo(pipe)
        process = rql.start(*WITH_ALL, "--out", str(pipe))
        parsed(pipe.read_text())
        check_equal((finish(process).code, stat.S_ISFIFO(pipe.stat().st_mode)), (0, True))
        process = rql.start(*WITH_ALL, "--out", "/dev/stdout")
        parsed(finish(process).out)
        if os.geteuid() == 0:
            device = folder / "device"
            os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))  # as /dev/null
            (folder / "link").symlink_to(device)
            for name in "device", "link":
                check_equal(rql(*WITH_ALL, "--out", str(folder / name)).code, 0)
            check_equal((stat.S_ISCHR(device.lstat().st_mode), (folder / "link").is_symlink()), (True, True))
            device.unlink()
            os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 7))  # as /dev/full
            result = rql(*WITH_ALL, "--out", str(device))
            check_equal((result.code, result.err), (74, f"rql: {device}: No space left on device\n"))
        result = rql(*WITH_ALL, "--out", str(folder))
        check_equal((result.code, result.err), (74, f"rql: {folder}: Is a directory\n"))


def test_behind_a_link_the_file_is_replaced_where_it_is(_server, rql):
    with folder_of_files() as folder:
        (folder / "there").mkdir()
        file = folder / "there" / "rql"
        (folder / "link").symlink_to("there/rql")
        seen = set()
        for _ in range(2):  # there is no such file, and there is one
            check_equal(rql(*WITH_ALL, "--out", str(folder / "link")).code, 0)
            parsed(file.read_text())
            os.link(file, folder / f"kept{len(seen)}")  # so that its number stays in use
            seen.add(file.stat().st_ino)
        check_equal(((folder / "link").is_symlink(), os.listdir(folder / "there"), len(seen)), (True, ["rql"], 2))
        (folder / "astray").symlink_to("nowhere/rql")
        check_equal(rql(*WITH_ALL, "--out", str(folder / "astray")).code, 74)
        assert (folder / "astray").is_symlink()


@contextlib.contextmanager
def small_disk(folder):
    """A file system of two pages."""
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], check=False,
                                           capture_output=True).returncode:
        raise Missing("right to mount a tmpfs")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def test_readings_go_on_when_the_disk_has_been_full(_server, rql):
    with folder_of_files() as folder, small_disk(folder):
        file = folder / "rql"
        process = rql.start(*WITH_ALL, "--out", str(file), "--every", "1s")
        told = []

        def next_line():
            wait_until(lambda: select.select([process.stderr], [], [], 0)[0], "the fault is told")
            told.append(process.stderr.readline())

        def is_written():
            wait_until(lambda: file.exists() and file.stat().st_mtime_ns > written_ns, "a reading")
            parsed(file.read_text())

        for _ in range(2):  # the same fault is reported again after it has passed
            written_ns = 0
            is_written()
            with contextlib.suppress(OSError), open(folder / "filler", "wb", buffering=0) as filler:
                while True:
                    filler.write(b"x" * 512)
            written_ns = file.stat().st_mtime_ns
            next_line()
            (folder / "filler").unlink()
            is_written()
        process.terminate()
        result = finish(process)
        check_equal((result.code, result.err, os.listdir(folder)), (-signal.SIGTERM, "", ["rql"]))
        check_equal(told, [f"rql: {file}: No space left on device\n"] * 2)


def test_readings_go_on_until_a_signal(_server, rql):
    with Server() as own, folder_of_files() as folder:
        file = folder / "rql"

        def is_new(old):
            return file.exists() and file.stat().st_ino != old

        process = rql.start(*WITH_ALL, "--out", str(file), "--every", "1s", "--io-timeout", "200ms", RQL_URL=own.url)
        wait_until(lambda: is_new(0), "it is written")
        first = file.stat().st_ino
        os.link(file, folder / "kept")  # so that its number stays in use
        wait_until(lambda: is_new(first), "it is written again")
        own.kill()
        wait_until(lambda: select.select([process.stderr], [], [], 0)[0], "the fault is told")
        time.sleep(3.5)  # three more readings fail the same way
        second = file.stat().st_ino
        os.link(file, folder / "kept too")
        own.launch()
        wait_until(lambda: is_new(second), "it goes on")
        process.terminate()
        result = finish(process)
    check_equal((result.code, result.out), (-signal.SIGTERM, ""))
    assert 1 <= result.err.count("\n") <= 2, result.err  # to be cut off is another fault than to be refused


if __name__ == "__main__":
    main()
