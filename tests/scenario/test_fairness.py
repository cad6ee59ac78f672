#!/usr/bin/env python3
"""Who shares a lock has the same share of it, also where a client hands it on by itself."""
import statistics
import time

from harness import FOREVER, check, check_equal, main, scenario

N_PROCESSES, N_THREADS = 4, 4
ROUNDS = 7
BEGIN_MS, TURN_MS = 150, 300
LONG_MS = 60000
SHARE = 1.03
WAIT = 1.2
# So many pairs that a client hands on no lock that has them (lua/README.md 39).
PLAIN = {f"pair{i}": "of metadata" for i in range(9)}


def compete(world, actors, name, **options):
    """(how often each has had it, the longest that one of them waited); all in the same time."""
    begin_us = time.monotonic_ns() // 1000 + BEGIN_MS * 1000
    calls = [actor.begin("turns", names=[name], begin_us=begin_us, end_us=begin_us + TURN_MS * 1000,
                         options={"timeout_ms": FOREVER, "ttl_ms": LONG_MS, **options}) for actor in actors]
    outcomes = [call.outcome().check() for call in calls]
    world.await_nothing_left()
    return [outcome.count for outcome in outcomes], max(outcome.longest_us for outcome in outcomes)


def kept_ms(clients):
    """How long the process of each was kept from running, in all."""
    return [client.remote.kept_ms() for client in clients]


def missed(rounds):
    """For how much longer than another one process was kept from running, over the time in which shares are counted.
    Of each round, how long each was."""
    of_each = [sum(of_one) for of_one in zip(*rounds)]
    return (max(of_each) - min(of_each)) / (ROUNDS * TURN_MS)


@scenario(kinds=["process"], counts=[1], is_timed=True)
def each_has_its_share_and_waits_no_longer_than_in_a_plain_queue(world, kind, names):
    clients = [world.client(world.remote()) for _ in range(N_PROCESSES)]
    actors = [world.actor("thread", client) for client in clients for _ in range(N_THREADS)]
    compete(world, actors, *names)
    handed_on = [client.stats().local_hand_overs for client in clients]
    counts, longest_us, plain_us, kept = [], [], [], []
    for _ in range(ROUNDS):
        plain_us.append(compete(world, actors, *names, meta=PLAIN)[1])
        check_equal([client.stats().local_hand_overs for client in clients], handed_on, "a plain queue")
        before = kept_ms(clients)
        count, longest = compete(world, actors, *names)
        kept.append([now - then for then, now in zip(before, kept_ms(clients))])
        counts.append(count)
        longest_us.append(longest)
        handed_on = [client.stats().local_hand_overs for client in clients]
    shares, lost = [sum(of_one) for of_one in zip(*counts)], missed(kept)
    check(min(handed_on) > 0, f"none was handed on: {handed_on}")
    check(max(shares) <= (SHARE + lost) * min(shares), f"shares: {shares}, {lost:.3f} kept from running")
    ratio = statistics.median(longest_us) / statistics.median(plain_us)
    check(ratio <= WAIT, f"the longest waits: {longest_us} us, in a plain queue {plain_us} us")
    print(f"# shares {max(shares) / min(shares):.3f}, {lost:.3f} kept from running, longest wait {ratio:.2f} of the "
          "plain queue's")


if __name__ == "__main__":
    main()
