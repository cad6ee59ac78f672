"""What is known of a server, and of those who use it."""
import functools
import json
from typing import NamedTuple

TTL_MS, QUEUE_TTL_MS = 3000, 15000
SILENCE_US = 5_000_000  # X of lua/is_alive.lua
CLAIM_US = 1_000_000    # G of lua/serve_queue.lua
NOT_AFTER_US = 1_000_000
NO_RANDOM = "40000"     # for lua/serve_queue.lua: the queue is served in its order

IDLE, WAITING, HOLDING, LEAVING, RELEASING = "idle", "waiting", "holding", "leaving", "releasing"

# Of a re-entry: there is none; it was asked for; it was granted; an end of it was asked for.
OUT, ASKED, INSIDE, UNDOING, ENDING = "out", "asked", "inside", "undoing", "ending"
DEAD, CAME_BACK = 0, 1  # clients whose hosts were declared dead; the second has been heard of since

RUBY, RUBYS_HOST = "rql:acq:90/9/9/9/0123456789abcdef", "rql:hst:90/9/9/0123456789abcdef"
RUBYS_TURN_US = 2_000_000  # GRACE_US of lua/serve_queue.lua


class Client(NamedTuple):
    mode: str = IDLE
    access: str = "q"     # see lua/acquire.lua
    left: int = 1         # acquisitions to come
    number: int = 0       # of this one
    score: str = "0"      # its place, if an answer told
    ends_us: int = 0      # holding: of its lease, in true time
    token: str = ""       # holding
    pushed: tuple = ()    # waiting: (token, end of the lease in true time) that arrived on its channel
    is_subscribed: bool = True
    arrived: int = 0      # its turn among those who wait; 0: it has none
    heard_us: int = 0     # when it last asked and stayed
    conflict: str = "w"   # see lua/acquire.lua
    entries: int = 0      # re-entries to come
    entry: str = OUT
    entered_us: int = 0   # when it was asked for, in true time
    entry_ends_us: int = 0  # inside: of its lease, in true time


class Ruby(NamedTuple):
    mode: str = IDLE
    left: int = 0
    score: str = ""       # kept until it has the lock
    arrived: int = 0      # as a client's
    ends_us: int = 0      # holding, by the server's clock


class State(NamedTuple):
    now_us: int
    contents: str         # of the server
    clients: tuple
    ticks: int            # that are left
    faults: int           # that are left
    losses: int           # of all data, that are left
    clears: int = 0       # of the lock and its queue by others, that are left
    denials: int = 0      # of a command, that are left
    top: int = 0          # the highest token so far
    excludes: bool = True  # no data was lost: one holder at a time
    back_us: int = 0      # by which the server's clock was set back
    was_cleared: bool = False
    flushes: int = 0      # of what dead hosts have, that are left
    ruby: Ruby = Ruby()
    turn_us: int = 0      # when one of ours found, or left, the lock free for Ruby; 0: it is not
    new: tuple = ()       # of each client, in eras.py: its connection is, and it has not arrived yet
    floors: tuple = ()    # the highest tokens that they have seen
    server: int = 1       # how often it was started
    pause_ms: int = 0

    @property
    def true_us(self):
        """The clients' clocks are never set."""
        return self.now_us + self.back_us


class Broken(Exception):
    """What must not happen has happened."""


class Contents(NamedTuple):
    """Of a server, to read."""
    lock: dict
    lock_ends_us: int
    queue: dict           # acquirer -> score
    queue_has_ttl: bool
    records: dict
    counts: dict          # of the records, as text
    records_have_ttl: bool
    seen: dict            # identity -> when
    fence: str
    shares: dict          # acquirer -> end, of a lock of several
    shares_have_ttl: bool

    @property
    def owner(self):
        return self.lock.get("rql_nonce") or self.lock.get("acq_id")

    @property
    def waiting(self):
        """Those too whose places others have removed."""
        return {**self.queue, **self.records}

    def is_paused(self, now_us):
        """Nothing may be granted."""
        return self.fence.startswith("q ") and int(self.fence.split(" ")[1]) > now_us

    def at(self, now_us):
        """As a server shows it at that time: what has expired is not there."""
        return self if self.lock_ends_us > now_us else self._replace(lock={}, lock_ends_us=0)


def paired(flat):
    """What cjson makes of an empty list is {}."""
    flat = flat or []
    return dict(zip(flat[::2], flat[1::2]))


@functools.lru_cache(4096)
def read_contents(text, at=0):
    """Of the lock that is so many places from the first."""
    *locks, live, _, fence, _ = json.loads(text)
    lock, lock_at, queue, queue_at, records, records_at, shares, shares_at = locks[8 * at:8 * at + 8]
    fields = paired(records)
    return Contents(
        paired(lock), int(lock_at) * 1000, paired(queue), int(queue_at) > 0,
        {name: record.split(" ") for name, record in fields.items() if name.startswith("rql:")},
        {name: count for name, count in fields.items() if not name.startswith("rql:")},
        int(records_at) > 0, paired(live), fence, paired(shares), int(shares_at) > 0)


def written(parts):
    """As cjson does it; bytes that are no text stay what they are."""
    return json.dumps(parts, separators=(",", ":"), ensure_ascii=False).replace("/", "\\/")


def bare(text, at, is_whole):
    """Without the queue of a lock, and without the lock if so is_whole says."""
    parts = json.loads(text)
    gone = 8 * at + (0 if is_whole else 2)
    parts[gone:8 * at + 4] = [{}, "-2"] * (2 if is_whole else 1)
    return written(parts)


def with_fence(text, token):
    parts = json.loads(text)
    parts[-2] = str(token)
    return written(parts)


@functools.lru_cache
def identity(index):
    return f"{index + 1:032x}"


@functools.lru_cache
def acquirer(index):
    return f"rql:acq:{index + 1}/{index + 1}/0/0/{identity(index)}"


@functools.lru_cache
def host(index):
    return f"rql:hst:{index + 1}/{index + 1}/0/{identity(index)}"


@functools.lru_cache
def nonce(index, number):
    return f"{index + 1:016x}{number:016x}"


@functools.lru_cache
def entry_nonce(index, number):
    """Of the re-entry into that grant."""
    return f"{index + 1:016x}{number:015x}e"


def is_partly(script, answer):
    """There was too much to do for one call."""
    if script in ("acquire", "acquire_series", "acquire_shared"):
        return answer[0] in (6, "6")
    if isinstance(answer, list):
        return answer[1] == 2
    return script not in ("extend", "extend_shared", "ruby") and answer[2:3] == "2"


def repeated(script, words, *locks):
    """The call that does the rest."""
    return (script if script.startswith("acquire") else "release",
            words if script.startswith("acquire") else ("-", NO_RANDOM), *locks)


def replaced(state, index, **changes):
    """With one client changed."""
    client = state.clients[index]._replace(**changes)
    return state._replace(clients=(*state.clients[:index], client, *state.clients[index + 1:]))


def demand(holds, what):
    if not holds:
        raise Broken(what)


def pushes_of(state, index):
    """What a client may do about its pushes, whatever else it does: take one, or lose its subscription."""
    client = state.clients[index]
    if client.pushed:
        yield ("take", index)
    if state.faults and client.is_subscribed and client.mode == WAITING:
        yield ("unsubscribe", index)


def ticks_of(state, ticks_us):
    """Time may pass."""
    if state.ticks:
        for tick_us in ticks_us:
            yield ("tick", tick_us)


def unused_ms(state, client):
    return max(0, TTL_MS - (state.true_us - client.entered_us) // 1000)
