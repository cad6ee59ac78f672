"""Users of one client that hand a lock on to each other inside it."""
from harness import FOREVER, MINUTE_MS, Failure, check, wait_until


class Chain:
    """On threads an actor for each, on a loop one for all. Through a network the server may be silent for a minute."""

    def __init__(self, world, kind, count=2, network=None, **options):
        self.world, self.network = world, network
        self.client = network.client(**{"connect_timeout_ms": MINUTE_MS, "io_timeout_ms": MINUTE_MS, **options}) \
            if network else world.client(**options)
        first = world.actor(kind, self.client)
        self.actors = [first] * count if kind == "loop" else [first] + [world.actor(kind, self.client) for _ in range(count - 1)]
        wait_until(self.knows_script, "a lock is handed on")

    def handed_on(self):
        """So far, inside the client."""
        return self.client.stats().local_hand_overs

    def queued(self, name, i=1, ahead=0, also=(), **options):
        """The i-th waits, and knows its place: a call that it has sent is answered. also: names of locks that it
        takes first."""
        asking = self.actors[i].ask(*also, name, **{"timeout_ms": FOREVER, "ttl_ms": MINUTE_MS, **options})
        self.world.await_queue([name], ahead + 1)
        return asking

    def knows_script(self):
        """True: the second was handed the lock of the first, which it waited for in time."""
        before = self.handed_on()
        held = self.actors[0].acquire("warm", ttl_ms=MINUTE_MS)
        asking = self.queued("warm")
        held.release().check()
        asking.hold().release().check()
        return self.handed_on() > before

    def hand_on(self, name, between=lambda: None, fault=None, first=None, **options):
        """(the first's release under way, what the second holds): handed on inside the client while the network has
        this fault. A waiter that is not asleep yet is not handed a lock: then once more, a few times."""
        for is_last in (False, False, False, True):
            before = self.handed_on()
            held = self.actors[0].acquire(name, **{"ttl_ms": MINUTE_MS, "timeout_ms": FOREVER, **(first or {})})
            asking = self.queued(name, **options)
            self.await_asleep()
            between()
            if fault:
                self.network.fail(fault)
            released = held.begin("release")
            try:
                wait_until(lambda: self.handed_on() > before, "it is handed on", patience_s=2)
            except Failure:
                if is_last:
                    raise
                if fault:
                    self.network.heal()
                asking.hold().release()
                released.outcome()
                continue
            mine = asking.hold()
            check(mine.tokens[0] > held.tokens[0], "its token is not larger than the one before")
            return released, mine

    def await_asleep(self):
        """The answer that it is queued is on its way; another's, asked for later, comes behind it."""
        self.actors[0].acquire("behind", ttl_ms=MINUTE_MS).release().check()
