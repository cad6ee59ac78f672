"""Who waits and hears of a hand-over, and what was handed over by a push."""
from harness import FOREVER, MINUTE_MS, Failure, check, wait_until

AGAIN = 20  # on a busy machine most pushes are in time, and none is on one that stands still


class Monitor:
    """What the server is asked from now on."""

    def __init__(self, world):
        self.world, self.connection = world, world.connection()
        self.connection.call("MONITOR")

    def lines(self):
        """And what its scripts do: time, "[0 lua] ", command. It ends."""
        self.world.ask("ECHO", "end-of-monitor")
        lines = [self.connection.read()]
        while "end-of-monitor" not in lines[-1]:
            lines.append(self.connection.read())
        self.connection.close()
        return lines[:-1]

    def count(self):
        """Without what scripts do."""
        return sum(" lua] " not in line for line in self.lines())


def line_up(world, actors, *names, place=1, **options):
    """A request of each, in this order: the next actor asks when the one before waits. The first waits as the n-th."""
    asked = []
    for at, actor in enumerate(actors, place):
        asked.append(actor.ask(*names, **{"timeout_ms": FOREVER, **options}))
        world.await_queue(names, at)
    return asked


def wait_told(world, actor, *names, place=1, **options):
    """It waits as the n-th for the last of them. The server can tell its client of a hand-over, and who is behind
    others, or listens already, asks only every few seconds."""
    asking = actor.ask(*names, **{"timeout_ms": FOREVER, "queue_ttl_ms": FOREVER, "retry_delay_ms": 60 * MINUTE_MS,
                                  **options})
    world.await_queue(names[-1:], place)
    acquirer = world.ask("ZRANGE", f"rql:lock_queue:{names[-1]}", place - 1, place - 1)[0]
    channel = "rql:wake:" + acquirer.rsplit("/", 1)[1]
    wait_until(lambda: channel in world.listeners(), "its client listens")
    return asking


def pushed(world, actor, *names, **options):
    """Its hold of what another has just released to it: no poll has asked for it, or claimed it. The first wait of a
    client asks once more when it listens; and where the machine is slow a poll may be due, or the push too old for
    its lease to be relied on. Then the lock is handed over once more."""
    other = world.actor("thread")
    for _ in range(AGAIN):
        held = other.acquire(*names, ttl_ms=MINUTE_MS)
        asking = wait_told(world, actor, *names, **options)
        before = actor.client.stats().hand_off["count"]
        held.release().check()
        mine = asking.hold()
        if actor.client.stats().hand_off["count"] > before:  # each push that was relied on is timed
            check(mine.outcome.handed_over, "it was pushed, and does not say so")
            return mine
        mine.release().check("OK", "NOT_HELD")
    raise Failure(f"{AGAIN} times it found the lock by a poll")
