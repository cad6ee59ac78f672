"""Results and keys against the recording: what does not fit raises Failure."""
import json
import re

from harness import SLOW, Failure, check
from names import instant_of, is_id, is_instant
from strict import fault_of, is_own_field, is_own_key

ANYTHING = "*"  # by differences.json
# A ttl counts from the instant of its lock, so a slow machine does not change it; what is left is that the gem's
# clients stamp a lock some time before the server has it.
LIFE_TOLERANCE_MS, CLAIM_MS, OWN_QUEUE_MS, REM_TTL_TOLERANCE_MS = 400, 1000, 60000, 1000
NOTHING = object()

# All keys at one instant. Scores as the recorded server printed them; newer ones print an exponent.
DUMP = """
local function pairs_of(flat)
  local list = {}
  for i = 1, #flat, 2 do list[#list + 1] = {flat[i], flat[i + 1]} end
  return list
end
local readers = {
  hash = function(key) return pairs_of(redis.call('HGETALL', key)) end,
  zset = function(key)
    local list = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    for i = 2, #list, 2 do list[i] = string.format('%.17g', list[i]) end
    return pairs_of(list)
  end,
  string = function(key) return redis.call('GET', key) end}
local time = redis.call('TIME')
local dump = {now = time[1] .. string.format('.%06d', time[2]), keys = {}}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local type = redis.call('TYPE', key).ok
  dump.keys[key] = {type = type, pttl = redis.call('PTTL', key), value = readers[type](key)}
end
return cjson.encode(dump)
"""


def dump(world):
    """(the server's time, its keys in the form of a recording)."""
    found = json.loads(world.ask("EVAL", DUMP, 0))
    for key in found["keys"].values():
        if key["type"] == "hash":
            key["value"] = dict(key["value"])
    return float(found["now"]), found["keys"]


def kind_of(value):
    """Of JSON: numbers are of one kind, true and false are two."""
    if value is None or isinstance(value, bool):
        return value
    return float if isinstance(value, int) else type(value)


def differ(where, recorded, replayed):
    raise Failure(f"{where}: recorded {recorded!r}, replayed {'nothing' if replayed is NOTHING else repr(replayed)}")


def without_ttl(text):
    return re.sub(r'("rem_ttl"=>)\d+', r"\1", text)


def seconds(text):
    return float(text) if re.fullmatch(r"[0-9]+(\.[0-9]*)?", text) else 0.0


class Comparison:
    """Of one step: when it was recorded, and when it was replayed. A lock that ended in only one of the two because
    the other was faster is no difference, if `bears_ends`."""

    def __init__(self, names, at_s, now_s, bears_ends):
        self.names, self.at_s, self.now_s, self.bears_ends = names, at_s, now_s, bears_ends

    # ---- results ----

    def is_same_time(self, recorded, replayed):
        return self.names.match_time(recorded, replayed, self.now_s)

    def is_same_text(self, recorded, replayed):
        if recorded == ANYTHING:
            return True
        if is_id(recorded):
            return self.names.match_id(recorded, replayed)
        was = instant_of(recorded, self.at_s)
        if was is None:
            return recorded == replayed
        now = instant_of(replayed, self.now_s)
        return now is not None and self.is_same_time(was, now)

    def is_same_number(self, name, recorded, replayed):
        if "_time" in name:
            return replayed >= 0  # how long it took, in ms
        if is_instant(recorded, self.at_s):
            return self.is_same_time(recorded, replayed)
        return recorded == replayed

    def value(self, where, recorded, replayed, name=""):
        """`name` is the member that it is."""
        if recorded == ANYTHING:
            return
        kind = kind_of(recorded)
        if replayed is NOTHING or kind != kind_of(replayed):
            differ(where, recorded, replayed)
        is_same = True
        if kind in (dict, list):
            self.members(where, recorded, replayed)
        elif kind is str:
            is_same = self.is_same_text(recorded, replayed)
        elif kind is float:
            is_same = self.is_same_number(name, recorded, replayed)
        if not is_same:
            differ(where, recorded, replayed)

    def members(self, where, recorded, replayed):
        if len(recorded) != len(replayed):
            differ(where, recorded, replayed)
        if isinstance(recorded, dict):
            if kind_of(recorded.get("rem_ttl")) == kind_of(replayed.get("rem_ttl")) == float:
                self.rem_ttl(where, recorded, replayed)
                recorded = {**recorded, "rem_ttl": ANYTHING}
            for name, was in recorded.items():
                self.value(f"{where}/{name}", was, replayed.get(name, NOTHING), name)
        else:
            for was, now in zip(recorded, replayed):
                self.value(f"{where}/", was, now)

    def rem_ttl(self, where, recorded, replayed):
        """As that of a key, if the lock says since when it is held."""
        held_ms = [(at_s - info["ts"]) * 1000 if is_instant(info.get("ts", 0), at_s) else 0
                   for info, at_s in ((recorded, self.at_s), (replayed, self.now_s))]
        life_ms = [info["rem_ttl"] + held for info, held in zip((recorded, replayed), held_ms)]
        check(replayed["rem_ttl"] > 0 and abs(life_ms[0] - life_ms[1]) < REM_TTL_TOLERANCE_MS * SLOW,
              f"{where}/rem_ttl: recorded {recorded}, replayed {replayed}")

    def error(self, recorded, replayed):
        """Words are compared where they are the gem's own; others are Ruby's or the server's."""
        self.value("error/class", recorded["class"], replayed["class"])
        if "message" in recorded and replayed.get("message") is not None:
            wanted, got = without_ttl(self.names.translate(recorded["message"])), without_ttl(replayed["message"])
            check(got == wanted, f"error/message: expected {wanted}, got {got}")

    def outcome(self, recorded, replayed):
        self.now_s = replayed["now_s"]
        if ("error" in recorded) != ("error" in replayed):
            differ("outcome", recorded.get("error", recorded.get("result")), replayed)
        if "error" in recorded:
            self.error(recorded["error"], replayed["error"])
        else:
            self.value("result", recorded["result"], replayed["result"])
        was, now = recorded.get("nested", []), replayed.get("nested", [])
        if len(was) != len(now):
            differ("nested", was, now)
        for inner, replayed_inner in zip(was, now):
            self.outcome(inner, replayed_inner)

    # ---- keys ----

    def hash(self, key, recorded, replayed):
        replayed = {name: value for name, value in replayed.items() if not is_own_field(name)}
        for name, value in replayed.items():
            check(name in recorded, f"{key}: has a field {name}: {value}")
            check(self.is_same_text(recorded[name], value), f"{key}: field {name} was {recorded[name]}, is {value}")
        if recorded.keys() != replayed.keys():
            differ(key, recorded, replayed)

    def zset(self, key, recorded, replayed):
        """Members and scores, in their order."""
        if len(recorded) != len(replayed):
            differ(key, recorded, replayed)
        for was, now in zip(recorded, replayed):
            if not all(self.is_same_text(*pair) for pair in zip(was, now)):
                differ(key, recorded, replayed)

    def recorded_life_ms(self, recorded):
        """From the instant in a recorded lock to its end; None: there is no such instant."""
        ts = recorded["value"].get("ts") if recorded["type"] == "hash" else None
        if ts == ANYTHING:
            return recorded["pttl"]
        taken_s = instant_of(ts, self.at_s) if ts and recorded["pttl"] >= 0 else None
        return None if taken_s is None else recorded["pttl"] + (self.at_s - taken_s) * 1000

    def replayed_life_ms(self, replayed):
        ts = replayed["value"].get("ts") if replayed["type"] == "hash" else None
        return replayed["pttl"] + (self.now_s - seconds(ts)) * 1000 if ts and replayed["pttl"] >= 0 else None

    def lock_ttl(self, key, recorded, replayed):
        was_ms, now_ms = self.recorded_life_ms(recorded), self.replayed_life_ms(replayed)
        if was_ms is None or now_ms is None:
            was_ms, now_ms, tolerance_ms = recorded["pttl"], replayed["pttl"], LIFE_TOLERANCE_MS * SLOW
        else:
            tolerance_ms = LIFE_TOLERANCE_MS
            if "rql_claim" in replayed["value"]:  # handed over and not claimed yet
                was_ms = min(was_ms, CLAIM_MS)
        check(abs(was_ms - now_ms) < tolerance_ms, f"{key}: had {was_ms:.0f} ms to live, has {now_ms:.0f} ms")

    def ttl(self, key, recorded, replayed):
        """The gem's queues have none; one that ours waited in ends a minute after they were heard of."""
        was, now = recorded["pttl"], replayed["pttl"]
        if was >= 0 and now >= 0:
            self.lock_ttl(key, recorded, replayed)
        elif recorded["type"] == "zset" and now >= 0:
            check(now <= OWN_QUEUE_MS, f"{key}: ends in {now} ms")
        else:
            check(was == now, f"{key}: had a ttl of {was} ms, has {now} ms")

    def key(self, key, recorded, replayed):
        if recorded["type"] != replayed["type"]:
            differ(key, recorded, replayed)
        was, now = recorded["value"], replayed["value"]
        if recorded["type"] == "hash":
            self.hash(key, was, now)
        elif recorded["type"] == "zset":
            self.zset(key, was, now)
        elif was != now:
            differ(key, was, now)
        self.ttl(key, recorded, replayed)

    def had_ended(self, replayed):
        """A lock that is here yet had ended in the recording, which was slower."""
        life_ms = self.replayed_life_ms(replayed)
        taken_s = None if life_ms is None else self.names.recorded_time(seconds(replayed["value"]["ts"]))
        return taken_s is not None and taken_s + life_ms / 1000 < self.at_s

    def has_ended(self, recorded):
        """The other way round: this machine is slower."""
        life_ms = self.recorded_life_ms(recorded)
        taken_s = None if life_ms is None else self.names.replayed_time(seconds(recorded["value"]["ts"]))
        return taken_s is not None and taken_s + (life_ms - LIFE_TOLERANCE_MS) / 1000 < self.now_s

    def keys(self, recorded, replayed):
        """Everything that is there was there, and the other way round; and Ruby would read it."""
        for key, found in sorted(replayed.items()):
            was = recorded.get(key)
            if was == ANYTHING or is_own_key(key):
                continue
            if was is not None:
                self.key(key, was, found)
            elif not (self.bears_ends and self.had_ended(found)):
                differ(key, "nothing", found)
        for key, was in recorded.items():
            if was != ANYTHING and key not in replayed and not (self.bears_ends and self.has_ended(was)):
                differ(key, was, NOTHING)
        for key, found in sorted(replayed.items()):
            fault = fault_of(key, found)
            check(not fault or was_broken(key, recorded.get(key)), f"{key}: Ruby would refuse it: {fault}")


def was_broken(key, recorded):
    """What the gem itself left broken need not be in order."""
    return recorded not in (None, ANYTHING) and fault_of(key, recorded) is not None
