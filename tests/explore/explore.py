#!/usr/bin/env python3
"""Try every order of what a few clients may do with one lock: the real scripts, in a real server.

Usage: explore.py [--mutants] [WORD...]

A state is what the server has, what each client knows, and the time; from each state every possible action is tried,
breadth first, so that the first way found to something that must not happen (model.py) is a shortest one. It is
printed, action by action.

From every so many states all clients then do their best: each has to come to an end, also if one of
them was killed, and nothing may be left behind.

--mutants: the scripts with one mistake each (`explored` in tests/mutants/table.toml); every one of them has to be
found. Of the mistakes, and of the bounds of each model, a sample is taken, which the day chooses. The server of bounds
"... in a cluster" is a node of one, with a partition's keys.
Environment: RQL_TEST_REDIS   the server's program
             RQL_TEST_CLOCK   tests/support/clock.c as a shared object
             RQL_TEST_LONG    any: larger bounds, all of them, and all mistakes; on a server that is alone
             RQL_TEST_DATE    2026-11-23: the sample of that day
"""
import contextlib
import datetime
import os
import pathlib
import random
import sys
import time
from typing import NamedTuple

import chain
import model
import series
import shares
from eras import Eras
from server import ALONE, IN_A_CLUSTER, Refused, Server, why_skipped
from state import CAME_BACK, DEAD, RUBY, TTL_MS, Broken, demand, host, identity, is_partly, read_contents, repeated

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "lua"), str(ROOT / "tests" / "mutants")]
import tap  # noqa: E402
from checks import Failure, check  # noqa: E402
from embed import expanded  # noqa: E402
from place import Sources  # noqa: E402
from table import Edit, changes_of, read_table  # noqa: E402

SCRIPTS = ("acquire", "acquire_series", "acquire_shared", "arrive", "release", "leave", "leave_shared", "extend",
           "extend_shared", "decrease", "flush_lock", "flush_queue", "flush_shares", "sweep_share", "transfer")
BATCH = 200
REPEATS = 5  # of one call; more than there are clients
ROUND_US = 700_000
ROUNDS = 60
N_BOUNDS, N_MISTAKES = 1, 4  # that a day's sample has, of each model and of all
FORGOTTEN_US = 61_000_000  # after which no key of a lock is left


ERAS = {base: Eras(base) for base in (model, shares)}


class Bounds(NamedTuple):
    name: str
    acquisitions: tuple  # of each client
    ticks: int
    faults: int
    losses: int
    ticks_us: tuple    # beyond the lease of a hand-over, a ttl, a silence
    sample: int        # every so many states are brought to an end
    edits: tuple = ()  # of the scripts
    clears: int = 0
    denials: int = 0
    accesses: str = ""  # of the first clients; of the others q
    conflicts: str = ""  # of the first clients, which enter once again; the others do not
    flushes: int = 0
    rubys: int = 0      # acquisitions of Ruby's
    plans: tuple = ()   # two locks, see series.py: those of each request of each client
    members: int = 0    # so many of the first clients are threads of one, see chain.py
    forgets: int = 0    # of all scripts by the server
    fulls: int = 0      # calls that come to a full server
    others: int = 0     # grants of other locks
    arrives: bool = False  # where the server is started anew, see eras.py
    pauses: bool = False   # and grants nothing for a while
    shares: tuple = ()  # what each client wants, see shares.py
    most: int = 50_000  # states, with a mistake, which may have no end of them: at least half as many again

    @property
    def model(self):
        of_clients = shares if self.shares else series if self.plans else chain if self.members else model
        return ERAS[of_clients] if self.arrives else of_clients


# With such a budget a call passes only one that is dead or has no subscription, and whoever made it repeats it.
FRUGAL = (Edit("lua/serve_queue.lua", "budget = 30", "budget = 1"),)
# So that three waiters are more than a call lets in, which are 20.
ONE_BY_ONE = (Edit("lua/admit.lua", "MOST, CLAIM_MS = 20", "MOST, CLAIM_MS = 1"),)
HOUR_US = 3_600_000_000

# What clients of two locks want.
FIRST, SECOND, BOTH, BACKWARDS = ((0,),), ((1,),), ((0, 1),), ((1, 0),)
FIRST_THEN_SECOND, FIRST_THEN_BOTH, FIRST_AGAIN = ((0,), (1,)), ((0,), (0, 1)), ((0,), (0,))

READER = "1/512"
T_US, LONG_US = (1_100_000, 3_100_000), (3_100_000,)


def sharing(name, wants, ticks=0, faults=0, ticks_us=T_US, left=None, losses=0, **more):
    """What each client wants: see shares.py."""
    return Bounds(name, left or (1,) * len(wants), ticks, faults, losses, ticks_us, 300, shares=wants, **more)


QUICK_SHARES = (
    sharing("shares of several units", ("2/3", "1/3", "1/3"), 1, 0, LONG_US),
    sharing("shares of different limits", ("1/2", "1/3", "2/3"), 1, 0, (1_100_000,)),
    sharing("a long share and a short one", (READER + "+", READER), 2, 1, LONG_US),
    sharing("a long share, a short one, and one that wants it alone", (READER + "+", READER, "x"), 1, 0, LONG_US),
    sharing("others remove the queue of sharers", (READER, READER, "x"), 0, 0, (), clears=1),
    sharing("others remove the queue of sharers, and time passes", (READER, READER), 2, 0, (1_100_000,), clears=1),
    sharing("others remove the queue of three that want two permits", ("1/2", "1/2", "1/2"), 0, 0, (), clears=1),
    sharing("shares beside Ruby", ("1/2s", "1/2s"), 1, 0, (2_100_000,), rubys=1),
    sharing("shares beside Ruby for long", ("1/2++", "1/2++"), 1, 0, (15_100_000,), rubys=1),
    sharing("shares of the dead are removed", ("1/2s", "1/2s", "1/2s"), 0, 0, (), flushes=1),
    sharing("more wait than a call lets in", ("x", READER, READER), 0, 1, (), edits=ONE_BY_ONE),
    sharing("slots for three", ("1/3s", "1/3s", "1/3s"), 1, 0, (1_100_000,)),
    sharing("two slots that are not in one piece", ("1/4s", "1/4s", "2/4s"), 0, 0, (), left=(2, 1, 1)),
    sharing("a lock with slots is lowered", ("x>1/2s", "1/2s"), 2, 1, (1_100_000,)),
    sharing("a lock is lowered while two wait for slots", ("x>1/3s", "1/3s", "1/3s"), 0, 0, ()),
    sharing("a lock is lowered, and renewed as before", ("x>1/2", "1/2"), 1, 0, (1_100_000,)),
    sharing("sharers enter again", ("1/2s=", "1/2=", "x"), 0, 0, ()),
    sharing("a server with shares is started anew, and pauses", (READER, READER), 1, 0, (3_100_000,), losses=1,
            arrives=True, pauses=True),
)
QUICK = (
    Bounds("two clients, one comes again", (2, 1), 2, 1, 0, (1_100_000, 5_100_000), 200),
    Bounds("three clients", (1, 1, 1), 1, 0, 0, (1_100_000, 5_100_000), 200),
    Bounds("the clock is set back", (1, 1), 2, 0, 0, (-400_000, 1_100_000), 200),
    Bounds("all data is lost", (1, 1), 2, 1, 1, (1_100_000, 5_100_000), 200),
    Bounds("one has no subscription", (1, 1, 1), 0, 1, 0, (), 500),
    Bounds("more have no subscription than a call passes", (1, 1, 1), 0, 1, 0, (), 200, FRUGAL),
    Bounds("the clock is set back an hour", (1, 1, 1), 1, 0, 0, (-HOUR_US,), 5000),
    Bounds("others remove the queue", (1, 1, 1), 0, 0, 0, (), 500, clears=1),
    Bounds("random, and who holds something", (1, 1, 1), 0, 0, 0, (), 500, accesses="qrQ"),
    Bounds("a right is missing", (1, 1, 1), 0, 0, 0, (), 500, denials=1),
    Bounds("holders enter again", (1, 1), 1, 1, 0, (1_100_000, 3_100_000), 200, conflicts="et"),
    Bounds("what the dead have is flushed", (1, 1, 1), 0, 0, 0, (), 500, flushes=2),
    Bounds("beside Ruby", (1, 1), 2, 0, 0, (2_100_000,), 200, rubys=1),
    Bounds("a series, and who wants one of its locks", (), 2, 1, 0, (2_100_000,), 200, plans=(BOTH, FIRST)),
    Bounds("two series in opposite orders", (), 1, 1, 0, (3_100_000,), 200, plans=(BOTH, BACKWARDS)),
    Bounds("a series, and who holds one lock and wants to share the other", (), 1, 0, 0, (2_100_000,), 500, accesses="qs",
           plans=(BOTH, FIRST_THEN_SECOND)),
    Bounds("a series, and two who share one of its locks", (), 0, 1, 0, (), 500, accesses="qss", plans=(BOTH, FIRST, FIRST)),
    Bounds("a series that holds one of its locks", (), 1, 1, 0, (3_100_000,), 200, plans=(FIRST_THEN_BOTH, BOTH)),
    Bounds("a series, and who holds one lock and wants the other", (), 1, 0, 0, (), 500,
           plans=(BOTH, FIRST_THEN_SECOND, SECOND)),
    Bounds("others end a part of a series", (), 1, 1, 0, (2_100_000,), 50, clears=1, plans=(BOTH, FIRST)),
    Bounds("a client hands on, and its stream breaks", (1, 1), 1, 1, 0, (1_100_000,), 100, conflicts="tt", members=2),
    Bounds("a client hands on beside another", (1, 1, 1), 0, 0, 0, (), 500, accesses="qQQ", members=2),
    Bounds("a client hands on beside a sharer", (1, 1, 1), 0, 0, 0, (), 500, accesses="qqs", members=2),
    Bounds("a client hands on beside two sharers", (1, 1, 1, 1), 0, 0, 0, (), 2000, accesses="qqss", members=2),
    Bounds("a client hands on twice", (1, 1, 1), 0, 0, 0, (), 500, members=3),
    Bounds("a client hands on, and all goes wrong on the server", (1, 1), 0, 0, 0, (), 50, members=2, forgets=1,
           fulls=1, clears=1, others=1),
    Bounds("a server is started anew, and pauses", (1, 1), 2, 0, 1, (3_100_000,), 200, arrives=True,
           pauses=True),
    Bounds("a server is started anew, and its clock is set back", (1, 1), 1, 0, 1, (-400_000,), 200, arrives=True),
    *QUICK_SHARES,
)


def of_quick(*names):
    return tuple(bounds for bounds in QUICK if bounds.name in names)


SMALL = (
    Bounds("two clients", (1, 1), 2, 1, 0, (1_100_000, 5_100_000), 200),
    Bounds("two clients, one comes again", (2, 1), 1, 0, 0, (1_100_000,), 200),
    Bounds("three clients", (1, 1, 1), 1, 0, 0, (5_100_000,), 200),
    Bounds("the clock is set back", (1, 1, 1), 1, 0, 0, (-400_000,), 200),
    Bounds("all data is lost", (1, 1), 1, 0, 1, (1_100_000,), 200),
    *of_quick("one has no subscription", "more have no subscription than a call passes", "the clock is set back an hour",
              "others remove the queue", "random, and who holds something", "a right is missing"),
)
EXPLORED = {  # where a mistake has to show, by what the table says
    "lock": SMALL,
    "entries": (
        Bounds("holders enter again", (1, 1), 2, 1, 0, (3_100_000,), 200, conflicts="et", most=75_000),),
    "flushes": (
        Bounds("what the dead have is flushed", (1, 1, 1), 1, 0, 0, (3_100_000,), 500, flushes=1, most=170_000),),
    "ruby": (
        Bounds("beside Ruby, for a shorter time", (1, 1), 2, 0, 0, (1_100_000,), 200, rubys=1),
        *of_quick("beside Ruby"),
        Bounds("Ruby comes again", (1, 1), 2, 0, 0, (2_100_000,), 500, rubys=2, most=220_000)),
    "series": (
        Bounds("a series, and who wants one of its locks", (), 2, 0, 0, (2_100_000,), 500,
               plans=(BOTH, FIRST_AGAIN, SECOND), most=120_000),
        Bounds("a series, and who holds one lock and wants the other", (), 0, 0, 0, (), 500,
               plans=(BOTH, FIRST_THEN_SECOND, SECOND)),
        Bounds("a series, who holds one lock and wants the other, and time passes", (), 2, 0, 0, (2_100_000,), 500,
               plans=(BOTH, FIRST_THEN_SECOND, SECOND), most=200_000),
        *of_quick("a series that holds one of its locks", "others end a part of a series",
                  "a series, and who holds one lock and wants to share the other")),
    "eras": (
        Bounds("a server is started anew, and pauses", (1, 1), 1, 0, 1, (3_100_000,), 200, accesses="rq", arrives=True,
               pauses=True),
        Bounds("a server is started anew, and its clock is set back", (1, 1), 1, 1, 1, (-400_000,), 200,
               arrives=True),
        Bounds("a server is started anew, and somebody waits", (1, 1, 1), 0, 0, 1, (), 500, arrives=True,
               pauses=True)),
    "transfers": (
        Bounds("a client hands on, and its stream breaks", (1, 1), 1, 1, 0, (1_100_000,), 100, members=2),
        Bounds("a client hands on beside another", (1, 1, 1), 0, 0, 0, (), 500, accesses="qQQ", members=2),
        Bounds("a client hands on, and a question comes late", (1, 1), 0, 1, 0, (), 50, members=2, clears=1),
        Bounds("a client hands on where others have other locks", (1, 1), 0, 0, 0, (), 50, members=2, others=1),
        Bounds("a client hands on twice", (1, 1, 1), 0, 0, 0, (), 500, accesses="qQQ", members=3),
        Bounds("a client hands on twice what others remove", (1, 1, 1), 0, 0, 0, (), 500, members=3, clears=1),
        Bounds("a client hands on, and the clock is set back", (1, 1), 1, 0, 0, (-400_000,), 50, members=2, forgets=1,
               clears=1)),
    "shares": QUICK_SHARES,
}
LONG = (
    *QUICK,
    Bounds("two clients come again", (2, 2), 2, 1, 0, (1_100_000, 5_100_000), 2000),
    Bounds("three clients, in full", (1, 1, 1), 2, 0, 0, (1_100_000, 5_100_000), 1000),
    Bounds("three clients, and an answer is lost", (1, 1, 1), 1, 1, 0, (1_100_000, 5_100_000), 1000),
    Bounds("the clock is set back for three", (1, 1, 1), 2, 0, 0, (-400_000, 1_100_000), 1000),
    Bounds("all data of three is lost", (1, 1, 1), 1, 0, 1, (1_100_000, 5_100_000), 1000),
    Bounds("more have no subscription, and time passes", (1, 1, 1), 1, 2, 0, (5_100_000,), 5000, FRUGAL),
    Bounds("the clock is set back an hour, and time passes", (1, 1, 1), 2, 0, 0, (-HOUR_US, 1_100_000), 50000),
    Bounds("others remove the queue, and time passes", (1, 1, 1), 1, 0, 0, (1_100_000, 5_100_000), 5000, clears=1),
    Bounds("random, and time passes", (1, 1, 1), 2, 0, 0, (1_100_000, 5_100_000), 5000, accesses="qrR"),
    Bounds("holders enter again, and time passes", (1, 1, 1), 2, 0, 0, (1_100_000, 3_100_000), 5000, conflicts="et"),
    Bounds("what the dead have is flushed, and time passes", (1, 1, 1), 1, 0, 0, (1_100_000, 5_100_000), 5000,
           flushes=3),
    Bounds("beside Ruby, and time passes", (1, 1), 2, 1, 0, (1_100_000, 2_100_000), 2000, rubys=1),
    Bounds("Ruby among three", (1, 1, 1), 1, 0, 0, (2_100_000,), 2000, rubys=1),
    Bounds("Ruby comes again", (1, 1), 2, 0, 0, (2_100_000,), 500, rubys=2),
    Bounds("a series, and who wants either lock", (), 2, 1, 0, (2_100_000,), 5000, plans=(BOTH, FIRST, SECOND)),
    Bounds("two series in opposite orders, and who wants one lock", (), 2, 0, 0, (2_100_000,), 2000,
           plans=(BOTH, BACKWARDS, FIRST)),
    Bounds("a series that holds one lock, and who wants the other", (), 1, 1, 0, (2_100_000,), 2000,
           plans=(FIRST_THEN_BOTH, BOTH, SECOND)),
    Bounds("a series, who holds one lock and wants the other, and time passes", (), 2, 0, 0, (2_100_000,), 2000,
           plans=(BOTH, FIRST_THEN_SECOND, SECOND)),
    Bounds("a client hands on twice, and its stream breaks", (1, 1, 1), 0, 1, 0, (), 2000, members=3),
    Bounds("a client hands on twice, and the server forgets", (1, 1, 1), 0, 0, 0, (), 2000, members=3, forgets=1),
    Bounds("a client hands on twice, and all goes wrong on the server", (1, 1, 1), 0, 0, 0, (), 2000, members=3,
           fulls=1, clears=1),
    Bounds("a client hands on twice, and time passes", (1, 1, 1), 1, 0, 0, (3_100_000,), 2000, members=3),
    Bounds("a client hands on beside another, and its stream breaks", (1, 1, 1), 0, 1, 0, (), 2000, members=2),
    Bounds("a client hands on beside another, and all goes wrong on the server", (1, 1, 1), 0, 0, 0, (), 2000,
           members=2, fulls=1, clears=1),
    Bounds("a client hands on beside another, and time passes", (1, 1, 1), 1, 0, 0, (3_100_000,), 2000, accesses="qQQ",
           members=2),
    Bounds("a client hands on beside a sharer, and its stream breaks", (1, 1, 1), 0, 1, 0, (), 2000, accesses="qqs",
           members=2),
    Bounds("a client hands on beside a sharer, and time passes", (1, 1, 1), 1, 0, 0, (3_100_000,), 2000, accesses="qqs",
           members=2),
    Bounds("a client hands on beside two sharers, and its stream breaks", (1, 1, 1, 1), 0, 1, 0, (), 5000, accesses="qqss",
           members=2),
    Bounds("a client hands on, and the clock is set back", (1, 1), 2, 1, 0, (-400_000, 3_100_000), 2000, members=2),
    Bounds("a hand-over is lost where the clock was set back", (1, 1, 1), 2, 0, 0, (-HOUR_US, 3_100_000), 500, members=2),
    Bounds("a server is started anew twice, and pauses", (1, 1, 1), 2, 0, 2, (3_100_000,), 5000, arrives=True,
           pauses=True),
    Bounds("a series, a sharer of one lock after the other, and time passes", (), 2, 0, 0, (2_100_000,), 2000,
           accesses="qsq", plans=(BOTH, FIRST_THEN_SECOND, SECOND)),
    Bounds("a series, two who share one of its locks, and time passes", (), 1, 0, 0, (2_100_000,), 2000, accesses="qss",
           plans=(BOTH, FIRST, FIRST)),
    Bounds("a series that holds what others want to share", (), 1, 0, 0, (2_100_000,), 2000, accesses="qss",
           plans=(FIRST_THEN_BOTH, FIRST, FIRST)),
    Bounds("a series, two who share either lock, and time passes", (), 1, 0, 0, (2_100_000,), 2000, accesses="qss",
           plans=(BOTH, FIRST_THEN_SECOND, SECOND)),
    Bounds("a series at random", (), 2, 1, 0, (2_100_000,), 500, accesses="r", plans=(BOTH, FIRST, SECOND)),
    sharing("a lock is lowered, renewed as before, and an answer is lost", ("x>1/2", "1/2", "x"), 1, 1, (1_100_000,)),
    sharing("sharers enter again, and time passes", ("1/2s=", "1/2=", "x="), 1, 0, (1_100_000,)),
    sharing("sharers enter again, and an answer is lost", ("1/2s=", "1/2="), 1, 1, (1_100_000,)),
    sharing("who has lowered a lock enters it again", ("x>1/2=", "1/2="), 2, 1, (1_100_000,), left=(1, 2)),
    sharing("a server with shares and a writer is started anew, and pauses", (READER, READER, "x"), 1, 0, (3_100_000,),
            losses=1, arrives=True, pauses=True),
    sharing("a server with shares is started anew, and its clock is set back", (READER, READER), 1, 1, (-400_000,),
            losses=1, arrives=True),
    sharing("two readers", (READER, READER), 2, 1, left=(2, 1)),
    sharing("reader and writer", (READER, "x"), 2, 1, left=(2, 1)),
    sharing("two readers and a writer", (READER, READER, "x"), 1, 0),
    sharing("two readers and a writer, and an answer is lost", (READER, READER, "x"), 0, 1),
    sharing("more wait than a call lets in, and time passes", ("x", READER, READER), 1, 1, (1_100_000,), edits=ONE_BY_ONE),
    sharing("more wait for slots than a call lets in", ("x", "1/3s", "2/3s"), 1, 0, (1_100_000,), edits=ONE_BY_ONE),
    sharing("three readers", (READER, READER, READER), 1, 0, (1_100_000,)),
    sharing("two permits for three", ("1/2", "1/2", "1/2"), 1, 0, (1_100_000,)),
    sharing("a lock is lowered", ("x>" + READER, READER), 2, 1, (1_100_000,), left=(1, 2)),
    sharing("a lock is lowered while two wait", ("x>" + READER, READER, "x"), 1, 0, (1_100_000,)),
    sharing("a reader passes the queue", ("*" + READER, READER, "x"), 1, 0, (1_100_000,)),
    sharing("the clock of sharers is set back", (READER, READER), 2, 1, (-400_000, 1_100_000)),
    sharing("the clock of sharers is set back a little later", (READER, READER), 2, 1, (-400_000, 100_000)),
    sharing("all data of sharers is lost", (READER, READER, "x"), 1, 0, (1_100_000,), losses=1),
    sharing("readers beside Ruby", (READER, READER), 2, 0, (2_100_000,), rubys=1),
    sharing("shares beside Ruby for longer", ("1/2++", "1/2++"), 2, 0, (15_100_000, 2_100_000), rubys=1),
    sharing("readers, of which the dead are removed", (READER, READER, "x"), 1, 0, (1_100_000,), flushes=2),
    sharing("slots for two", ("1/3s", "2/3s"), 2, 1, left=(2, 1)),
    sharing("two slots for three, and an answer is lost", ("1/2s", "1/2s", "1/2s"), 0, 1),
    sharing("slots of different limits and units", ("2/4s", "1/3s", "1/2s"), 1, 0, (1_100_000,), left=(1, 2, 1)),
    sharing("slots beside a sharer that asks for none", ("1/3s", "1/3", "1/3s"), 1, 0, (1_100_000,), left=(1, 1, 2)),
    sharing("slots of long and short shares", ("1/3s+", "1/3s", "1/3s"), 1, 0, LONG_US, left=(1, 1, 2)),
    sharing("slots of long and short shares, and an answer is lost", ("2/3s+", "1/3s"), 2, 1, LONG_US, left=(1, 2)),
    sharing("slots, and one that wants it alone", ("1/2s", "1/2s", "x"), 1, 0, (1_100_000,)),
    sharing("slots of one that passes the queue", ("*1/2s", "1/2s", "1/2s"), 0, 1, ()),
    sharing("the clock of slots is set back", ("1/2s", "1/2s"), 2, 1, (-400_000, 1_100_000)),
    sharing("others remove the queue for slots", ("1/2s", "1/2s"), 2, 0, (1_100_000,), clears=1),
    sharing("all data of slots is lost", ("1/2s", "1/2s"), 2, 0, (1_100_000,), losses=1),
)


def scripts_of(edits=()):
    """Name -> text, with these edits and everything included."""
    changes = changes_of(edits, Sources(ROOT, ["lua"])) if edits else {}
    changed = {pathlib.PurePath(path).name: text for path, text in changes.items()}
    return {name: expanded(ROOT / "lua" / f"{name}.lua", changed) for name in SCRIPTS}


def subscribed_of(state):
    return frozenset(identity(index) for index, client in enumerate(state.clients) if client.is_subscribed)


class Found(Exception):
    """Something that must not happen, and how one comes there."""

    def __init__(self, what, steps):
        super().__init__(what)
        self.steps = steps


class Explorer:
    def __init__(self, server, bounds, limit):
        for index, heard in ((DEAD, "1"), (CAME_BACK, "2")):
            server.declare_dead(host(index), heard)
        self.server, self.bounds, self.limit, self.model = server, bounds, limit, bounds.model
        first = self.model.first(bounds)
        self.came_from = {first: None}
        self.layer = [first]
        self.n_tried = 0

    def way_to(self, state):
        steps = []
        while self.came_from[state]:
            state, action, answer = self.came_from[state]
            steps.append((action, answer))
        return steps[::-1]

    def explore(self):
        while self.layer:
            self.next_layer()

    def next_layer(self):
        found, asked = [], {}
        for state in self.layer:
            for action in self.model.actions(state, self.bounds.ticks_us):
                call = self.model.call_of(state, action)
                if call:
                    when = state.now_us, subscribed_of(state)
                    asked.setdefault(when, []).append((state, action, call))
                else:
                    self.note(state, action, None, self.model.after_local(state, action), found)
        for (now_us, subscribed), jobs in asked.items():
            self.server.set_time(now_us)
            self.server.set_subscribed(subscribed)
            for at in range(0, len(jobs), BATCH):
                self.ask(jobs[at:at + BATCH], found)
        self.layer = found

    def ask(self, jobs, found):
        answers = self.run_out([(state.contents, *call) for state, _, call in jobs])
        for (state, action, _), (answer, contents) in zip(jobs, answers):
            try:
                after = self.model.after_call(state, action, answer, contents)
            except Broken as broken:
                raise Found(broken, [*self.way_to(state), (action, answer)]) from None
            self.note(state, action, answer, after, found)

    def run_out(self, calls):
        """Calls that had too much to do are repeated, as the library does, until they have an answer."""
        hears = bool(self.bounds.shares)
        answers = self.server.run(calls, hears)
        for _ in range(REPEATS):
            partly = [index for index, (answer, _) in enumerate(answers)
                      if is_partly(calls[index][1], answer)]
            if not partly:
                break
            again = [(answers[index][1], *repeated(*calls[index][1:])) for index in partly]
            for index, (told, contents) in zip(partly, self.server.run(again, hears)):
                if hears:
                    contents.messages = answers[index][1].messages + contents.messages
                if not calls[index][1].startswith(("acquire", "flush", "sweep")):
                    # What it did is in the first answer.
                    told = answers[index][0][:2] + told[2:]
                answers[index] = told, contents
        return answers

    def note(self, state, action, answer, after, found):
        self.n_tried += 1
        if after not in self.came_from:
            self.came_from[after] = (state, action, answer)
            found.append(after)
            if len(self.came_from) > self.limit:
                raise Found(f"more than {self.limit} states", self.way_to(after))

    # ---- the end of it ----

    def end_all(self):
        """From a sample of the states: all end, or all but one that was killed."""
        n_ended = 0
        for state in list(self.came_from)[::self.bounds.sample]:
            for killed in (None, *(self.model.everybody(self.bounds) if self.outlasts_a_step_back() else ())):
                self.end(state, killed)
                n_ended += 1
        return n_ended

    def outlasts_a_step_back(self):
        """What the dead hold lives longer by that."""
        return -min(0, 0, *self.bounds.ticks_us) < ROUNDS * ROUND_US

    def end(self, state, killed):
        steps = self.way_to(state)
        if killed is not None:
            state = self.model.killed(state, killed)
            steps = [*steps, (("kill", killed), None)]
        try:
            for _ in range(ROUNDS):
                if self.model.is_over(state):
                    break
                state = self.live_on(state, steps)
            else:
                raise Broken("not all come to an end")
            self.judge_rest(state)
        except Broken as broken:
            raise Found(broken, steps) from None

    def live_on(self, state, steps):
        """Everybody does the next thing that it should; then time passes."""
        for who in self.model.everybody(self.bounds):
            action = self.model.best_of(state, who)
            state = self.act(state, action, steps) if action else state
        return state._replace(now_us=state.now_us + ROUND_US)

    def act(self, state, action, steps):
        call = self.model.call_of(state, action)
        if not call:
            steps.append((action, None))
            return self.model.after_local(state, action)
        self.server.set_time(state.now_us)
        self.server.set_subscribed(subscribed_of(state))
        (answer, contents), = self.run_out([(state.contents, *call)])
        steps.append((action, answer))
        return self.model.after_call(state, action, answer, contents)

    def judge_rest(self, state):
        back_us = -min(0, 0, *self.bounds.ticks_us) * self.bounds.ticks  # by which all lives longer
        for lock in self.server.locks:
            now = read_contents(state.contents, lock)
            longest_ms = max(getattr(client, "ttl_ms", TTL_MS) for client in state.clients)
            ttl_us = (longest_ms + int(now.lock.get("spc_ext_ttl", 0))) * 1000
            demand(not now.lock or now.lock_ends_us <= state.now_us + ttl_us + back_us,
                   "the lock of the dead outlives its ttl")
        self.server.set_time(state.now_us + FORGOTTEN_US + back_us)
        (_, contents), = self.server.run([(state.contents, "dump")])
        for lock in self.server.locks:
            left = read_contents(contents, lock)
            demand(not left.lock and not set(left.queue) - {RUBY} and not left.records and not left.seen
                   and not left.shares,
                   "something is left when all is over")


def explore(server, bounds, limit=10_000_000):
    begun = time.monotonic()
    explorer = Explorer(server, bounds, limit)
    explorer.explore()
    tried = explorer.n_tried
    n_ended = explorer.end_all()
    return f"{len(explorer.came_from)} states, {tried} steps, {n_ended} ends, {time.monotonic() - begun:.0f} s"


def way_to(found):
    """What was done, action by action, and what came of it."""
    lines = []
    for number, (action, answer) in enumerate(found.steps, 1):
        word, which, *lost = action
        lines.append(f"  {number:2} {word} {which}{' (answer lost)' if any(lost) else ''}"
                     f"{'' if answer is None else f' -> {answer}'}")
    return "\n".join([*lines, f"  then: {found}"])


def check_bounds(bounds, place):
    with Server(scripts_of(bounds.edits), bounds.model.N_LOCKS, place) as server:
        try:
            print(f"# {bounds.name}{place}: {explore(server, bounds)}", flush=True)
        except Found as found:
            raise Failure("\n" + way_to(found)) from None


def is_found(edits, all_bounds):
    """Layer by layer of all bounds, for mistakes show early."""
    with contextlib.ExitStack() as stack:
        servers = {}
        for bounds in all_bounds:
            if bounds.edits not in servers:
                texts = scripts_of((*edits, *bounds.edits))
                server = Server(texts, bounds.model.N_LOCKS)
                servers[bounds.edits] = stack.enter_context(server)
        explorers = [Explorer(servers[bounds.edits], bounds, bounds.most) for bounds in all_bounds]
        try:
            while any(explorer.layer for explorer in explorers):
                for explorer in explorers:
                    explorer.next_layer()
            for explorer in explorers:
                explorer.end_all()
        except (Found, Refused) as found:
            return found
    return None


def sample(what, everything, n_wanted):
    """What the day says."""
    day = os.environ.get("RQL_TEST_DATE") or datetime.date.today().isoformat()
    print(f"# {n_wanted} of {len(everything)} {what}: RQL_TEST_DATE={day}")
    return random.Random(day).sample(everything, n_wanted)


def bounds_of_the_day(cases):
    """Some of each model; the larger ones all, where the server is alone."""
    if os.environ.get("RQL_TEST_LONG"):
        return [case for case in cases if case.arguments[1] == ALONE]
    chosen = []
    for one in (model, series, chain, shares, *ERAS.values()):
        of_it = [case for case in cases if case.arguments[0].model is one]
        chosen += sample(f"bounds of {one.__name__}", of_it, N_BOUNDS)
    return chosen


def check_mistake(edits, bounds):
    check(is_found(edits, bounds), "nobody noticed")


def mistakes_of_the_day(cases):
    return cases if os.environ.get("RQL_TEST_LONG") else sample("mistakes", cases, N_MISTAKES)


def main():
    if sys.argv[1:2] == ["--mutants"]:
        for mistake in read_table():
            if mistake.explored:
                tap.add(mistake.what, check_mistake, mistake.edits, EXPLORED[mistake.explored])
        tap.main(n_own=1, skip=why_skipped(), sample=mistakes_of_the_day)
    for bounds in LONG if os.environ.get("RQL_TEST_LONG") else QUICK:
        for place in (ALONE, IN_A_CLUSTER):
            tap.add(bounds.name + place, check_bounds, bounds, place)
    tap.main(skip=why_skipped(), sample=bounds_of_the_day)


if __name__ == "__main__":
    main()
