#!/usr/bin/env python3
"""Who is told: sampled once for each acquisition, and nobody is asked when nobody listens."""

from harness import check, check_equal, main, once, scenario

MANY = 300
KINDS = ["thread", "loop"]


def sampling(percent):
    return {"log_sampling_enabled": True, "log_sampling_percent": percent, "instr_sampling_enabled": True,
            "instr_sampling_percent": percent}


class Listened:
    """An actor that takes and releases, and what is told of that: four lines and two events if all is."""

    def __init__(self, world, kind, sampler=None, calls_back=False, listens=True, **options):
        also = {} if sampler is None else {"sampler": sampler}
        self.client = world.client(world.remote(), events=listens, logs=listens,
                                   also={**also, "calls_back": calls_back}, **options)
        self.actor = world.actor(kind, self.client)

    def live(self, *names, **options):
        self.actor.acquire(*names, **options).release().check()

    def n_told(self, client=None):
        """Lines and events, in its name."""
        return tuple(len([words for words in self.client.remote.told
                          if what in words and words["client"] == (client or self.client.name)])
                     for what in ("line", "event"))

    def n_sampled(self):
        return self.client.stats().n_sampled

    def check(self, n_sampled, *n_told):
        check_equal((self.n_sampled(), self.n_told()), (n_sampled, n_told))


@scenario(kinds=KINDS, counts=[1])
def a_hundred_percent_is_all(world, kind, names):
    listened = Listened(world, kind, **sampling(100))
    for _ in range(MANY):
        listened.live(*names)
    check_equal(listened.n_told(), (4 * MANY, 2 * MANY))


@scenario(kinds=KINDS, counts=[1])
def no_percent_is_nearly_nothing(world, kind, names):
    """The gem's 0 is one of 101: more than 40 of 300 does not happen in the life of the universe. The whole life is
    told, or nothing of it."""
    listened = Listened(world, kind, **sampling(0))
    for _ in range(MANY):
        listened.live(*names)
    n_lines, n_events = listened.n_told()
    check(n_lines < 4 * 40 and n_events < 2 * 40, f"{n_lines} lines, {n_events} events")
    check_equal((n_lines % 4, n_events % 2), (0, 0))


@scenario(kinds=KINDS, counts=[1])
def an_own_sampler_is_asked_once_for_a_life(world, kind, names):
    """And not at all for what is wanted anyway."""
    for answer in (False, True):
        listened = Listened(world, kind, answer, **sampling(15))
        listened.live(*names)
        listened.check(2, 4 * answer, 2 * answer)
        listened.live(*names, log_sample_this=True, instr_sample_this=True)
        listened.check(2, 4 + 4 * answer, 2 + 2 * answer)


@scenario(kinds=KINDS, counts=[3])
def a_series_is_sampled_as_one(world, kind, names):
    """Of the gem's all is told: 1 line of the series, 3 of each lock, 1 and 1 of the series."""
    for answer, mode in ((False, "atomic"), (True, "gem")):
        listened = Listened(world, kind, answer, **sampling(15))
        listened.live(*names, mode=mode)
        listened.check(2, *(12, 5) if answer else (0, 0))


@once
def calls_for_operators_are_sampled_each(world, kind, names):
    """They have events only."""
    for answer in (False, True):
        listened = Listened(world, kind, answer, **sampling(15))
        listened.actor.begin("force_unlock", name=names[0]).outcome().check()
        listened.check(1, 0, int(answer))
        listened.actor.begin("sweep", of="all").outcome().check()
        listened.check(2, 0, 2 * answer)


@once
def nobody_is_asked_when_nobody_listens(world, kind, names):
    listened = Listened(world, kind, True, listens=False, **sampling(15))
    listened.live(*names)
    listened.actor.begin("force_unlock", name=names[0]).outcome().check()
    listened.actor.begin("sweep", of="all").outcome().check()
    listened.check(0, 0, 0)


@scenario(kinds=KINDS, counts=[1])
def one_call_may_have_listeners_of_its_own(world, kind, names):
    listened = Listened(world, kind)
    own = listened.actor.ask(*names, also={"logs": True}).hold()
    own.release().check()
    check_equal((listened.n_told(own.name), listened.n_told()), ((4, 0), (0, 0)))
    listened.live(*names)
    check_equal((listened.n_told(own.name), listened.n_told()), ((4, 0), (4, 2)))


@scenario(kinds=KINDS, counts=[1])
def a_listener_may_call_the_library(world, kind, names):
    """With the same client: it takes and releases another lock."""
    listened = Listened(world, kind, calls_back=True)
    listened.live(*names)
    check_equal((listened.n_told()[1], listened.client.stats().acquisitions), (2, 3))


if __name__ == "__main__":
    main()
