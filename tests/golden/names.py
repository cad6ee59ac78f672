"""What the recording calls an id or an instant, and what it is now. Both are bound at first sight."""
import re

from harness import SLOW

TWO_DAYS_S, RECENT_S, AHEAD_S = 172800, 120, 0.001
SAME_S = 0.0000005  # the server prints scores with 17 digits, one or two more than the shortest form
INSTANT = re.compile(r"\d{10}(\.\d*)?")
OURS = re.compile(r"rql:(acq|hst):.*/[0-9a-f]{32}")


def is_id(text):
    return text.startswith(("rql:acq:", "rql:hst:"))


def is_instant(value, at_s):
    return abs(value - at_s) < TWO_DAYS_S


def instant_of(text, at_s):
    """The instant that a text is, or None."""
    value = float(text) if INSTANT.fullmatch(text) else None
    return value if value is not None and is_instant(value, at_s) else None


class Names:
    def __init__(self, other=None):
        self.ids = dict(other.ids) if other else {}
        self.times = list(other.times) if other else []  # (recorded, replayed)

    def match_id(self, recorded, replayed):
        """One name here is one name there."""
        if recorded in self.ids or replayed in self.ids.values():
            return self.ids.get(recorded) == replayed
        if recorded[:8] != replayed[:8] or not OURS.fullmatch(replayed):
            return False
        self.ids[recorded] = replayed
        return True

    def replayed_id(self, recorded):
        return self.ids.get(recorded, recorded)

    def recorded_time(self, replayed):
        return next((was for was, now in self.times if abs(now - replayed) < SAME_S), None)

    def replayed_time(self, recorded):
        return next((now for was, now in self.times if abs(was - recorded) < SAME_S), None)

    def match_time(self, recorded, replayed, now_s):
        """Seen for the first time it must be an instant of this replay, then it must stay the same."""
        known = self.replayed_time(recorded)
        if known is not None:
            return abs(known - replayed) < SAME_S
        if not now_s - RECENT_S * SLOW <= replayed <= now_s + AHEAD_S:
            return False
        self.times.append((recorded, replayed))
        return True

    def move(self, word, at_s, now_s):
        """One word of a raw command: instants are moved to now, ids are those of now; one that is not known stays
        what it is."""
        if is_id(word):
            return self.ids.setdefault(word, word)
        recorded = instant_of(word, at_s)
        if recorded is None:
            return word
        moved = self.replayed_time(recorded)
        if moved is None:
            moved = recorded - at_s + now_s
            for was, now in self.times:  # what came later in the recording comes later now, however fast it is
                if was < recorded and now > moved:
                    moved = now + 2 * SAME_S
            self.times.append((recorded, moved))
        return f"{moved!r}"

    def translate(self, text):
        """A recorded text with the ids and instants of now, these to the microsecond."""
        for recorded, replayed in self.ids.items():
            text = text.replace(recorded, replayed)
        for recorded, replayed in self.times:
            text = text.replace(f"{recorded!r}", f"{round(replayed, 6)!r}")
        return text
