#!/usr/bin/env python3
"""A command that stands ahead of others in the queue, and one that finds too many there: `rql run` with --priority,
--head-start and --max-waiters."""
from harness import Folder, check_equal, check_in, finish, main, start_waiting, wait_until


def test_a_full_queue_refuses_a_command(server, rql):
    held = rql("lock", "a", "--ttl", "1m")
    check_equal(held.code, 0)
    said = rql("run", "a", "--max-waiters", "0", "--", "true")
    check_equal(said.code, 1)
    check_in("a: not acquired at once, and no request may wait for it\n", said.err)
    check_equal(rql("run", "a", "--max-waiters", "0", "-E", "7", "--", "true").code, 7)
    waiter = start_waiting(server, rql, "run", "a", "--max-waiters", "1", "--", "true")
    check_equal(rql("lock", "a", "--max-waiters", "1").code, 1)
    server.ask("DEL", "rql:lock:a")
    check_equal(finish(waiter).code, 0)


def test_a_command_with_a_priority_is_first(server, rql):
    """By a minute, by ten, or by what is given."""
    for ahead in (("--priority", "high"), ("--priority", "urgent"), ("--head-start", "1h")):
        check_equal(rql("lock", "a", "--ttl", "1m").code, 0)
        with Folder() as folder:
            write = f"cd {folder.folder.name}; echo {{}} >>out"
            first = start_waiting(server, rql, "run", "a", "-c", write.format("first"))
            second = rql.start("run", "a", *ahead, "-c", write.format("ahead"))
            wait_until(lambda: server.ask("ZCARD", "rql:lock_queue:a") == 2, "both wait")
            server.ask("DEL", "rql:lock:a")
            check_equal([finish(one).code for one in (first, second)], [0, 0])
            check_equal(folder.read("out"), "ahead\nfirst\n")


def test_what_is_no_place_is_refused(_server, rql):
    for words, why in ((("--priority", "low"), "--priority is normal, high or urgent, not low"),
                       (("--priority", "high", "--head-start", "1m"), "--priority does not go with --head-start"),
                       (("--head-start", "61m"), "at most 1h can be the --head-start"),
                       (("--max-waiters", "1000001"), "at most 1000000 can be the --max-waiters")):
        said = rql("run", "a", *words, "--", "true")
        check_equal(said.code, 64)
        check_in(why, said.err)


if __name__ == "__main__":
    main()
