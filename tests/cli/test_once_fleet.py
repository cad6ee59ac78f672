#!/usr/bin/env python3
"""`rql once --every` from eight hosts whose clocks are wrong: one run in each period. RQL_TEST_LONG: a thousand periods
of an hour, and ten minutes of 20 s each."""
import os
import random
import threading
import time

from harness import Folder, Server, check_equal, finish, main
from checks import check
from private_server import Clock

IS_LONG = "RQL_TEST_LONG" in os.environ
N_HOSTS = 8
SKEW_US = 5_000_000
HOUR_US = 3_600_000_000
N_HOURS = 1000 if IS_LONG else 4
EVERY_S, N_PERIODS = (20, 30) if IS_LONG else (2, 2)
LATE_US = 20_000_000  # before the end of a period no host begins, so that all are asked in the same one


def clocks(folder, seed):
    """Of the hosts: up to 5 s before and behind the machine's."""
    made = [Clock(folder.path(f"clock{i}")) for i in range(N_HOSTS)]
    return made, random.Random(seed)


def periods(folder, length_us):
    """In which the command ran, by the server's time of each grant."""
    return [int(token) // length_us for token in folder.read("ran").split()]


def new_seed():
    seed = random.randrange(1 << 32)
    print(f"# seed {seed}")
    return seed


def test_in_each_hour_one_of_eight_hosts_runs(_server, rql):
    """The server's clock goes from hour to hour. Half of the time it is just past the hour, which some hosts' clocks are
    not."""
    with Server(has_clock=True) as own, Folder() as folder:
        hosts, choice = clocks(folder, new_seed())
        first = time.time_ns() // 1000 // HOUR_US + 1
        for hour in range(first, first + N_HOURS):
            in_hour_us = choice.choice((10_000, choice.randrange(HOUR_US - LATE_US)))
            ahead_us = hour * HOUR_US + in_hour_us - time.time_ns() // 1000
            own.set_ahead(ahead_us)
            started = []
            for host in hosts:
                host.set_ahead(ahead_us + choice.randrange(-SKEW_US, SKEW_US))
                started.append(rql.start("once", "job", "--every", "1h", "-c", f"echo $RQL_TOKEN >>{folder.path('ran')}",
                                         **{**host.env, "RQL_URL": own.url}))
            check_equal([finish(one).code for one in started], [0] * N_HOSTS)
            rql.started.clear()
            check_equal(periods(folder, HOUR_US), list(range(first, hour + 1)))


def test_in_each_period_one_of_eight_hosts_runs(server, rql):
    """In real time, while each host asks again and again."""
    length_us = EVERY_S * 1_000_000
    with Folder() as folder:
        hosts, choice = clocks(folder, new_seed())
        end_us = (server.now_us() // length_us + N_PERIODS + 1) * length_us
        codes = []

        def go_on(clock):
            while server_us() < end_us - length_us // 10:
                codes.append(rql("once", "job", "--every", f"{EVERY_S}s", "-c", f"echo $RQL_TOKEN >>{folder.path('ran')}",
                                 **clock.env).code)
                time.sleep(EVERY_S / 40)

        def server_us():
            return time.time_ns() // 1000  # they are on one machine, and this clock is right

        for host in hosts:
            host.set_ahead(choice.randrange(-SKEW_US, SKEW_US))
        threads = [threading.Thread(target=go_on, args=(host,)) for host in hosts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ran = periods(folder, length_us)
        check_equal(set(codes), {0})
        check_equal(ran, list(range(ran[0], ran[0] + len(ran))))
        check(len(ran) >= N_PERIODS, f"it ran in {len(ran)} periods")


if __name__ == "__main__":
    main()
