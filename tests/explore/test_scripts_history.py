#!/usr/bin/env python3
"""What the scripts keep of holds that have ended: lua/optional.md 73 and 74."""

from calls import check, check_equal, main, refusal

DAY_MS = 86400000
MOST_FIELDS, MOST_ENTRIES, MOST_BYTES = 2000, 20000, 4000000
LARGE = 2 ** 52


def sums(*rows):
    """Rows of a field and its four numbers, as a client writes them."""
    return "".join(f"{len(field)} {' '.join(map(str, numbers))} {field}" for field, *numbers in rows)


def holds(*entries):
    return "".join(f"\n{2 * len(entry)}" + "".join(f" {len(word)} {word}" for pair in entry.items() for word in pair)
                   for entry in entries)


def add(calls, *rows, mode="long", dropped=0):
    return calls.call("usage", mode, dropped, sums(*rows))


def fields(calls):
    told = calls.ask("HGETALL", "rql:usage")
    return dict(zip(told[::2], told[1::2]))


def entries(calls):
    """From the first on."""
    told = calls.ask("XRANGE", "rql:history", "-", "+")
    return [dict(zip(words[::2], words[1::2])) for _, words in told]


def test_what_is_used_is_added_up(calls):
    add(calls, ("bob\tweb-1\ta", 1, 20, 3, 0), ("bob\tweb-1\t12 3 \t 4", 2, 1, 0, 1), dropped=2)
    check_equal(add(calls, ("bob\tweb-1\ta", 2, LARGE, 4, 1), ("", 1, 0, 0, 0), mode="all", dropped=3), 5)
    check_equal(fields(calls), {"mode": "all", "dropped": "5", "bob\tweb-1\ta": f"3 {LARGE + 20} 7 1",
                                "bob\tweb-1\t12 3 \t 4": "2 1 0 1", "": "1 0 0 0"})
    check_equal(calls.ask("PTTL", "rql:usage"), 35 * DAY_MS)


def test_a_value_of_others_is_replaced(calls):
    for value in ("", "1 2 3", "-1 0 0 0", "1 2 3 4 5", "one two three four"):
        calls.ask("HSET", "rql:usage", "a", value)
        add(calls, ("a", 1, 2, 3, 0))
        check_equal((value, fields(calls)["a"]), (value, "1 2 3 0"))


def test_a_day_has_so_many_fields_and_one_for_the_others(calls):
    names = [f"bob\tweb-1\t{number}" for number in range(MOST_FIELDS + 10)]
    for first in range(0, len(names), 500):
        add(calls, *((name, 1, 10, 1, 0) for name in names[first:first + 500]))
    found = fields(calls)
    check_equal(len(found), MOST_FIELDS + 1)
    check_equal(found["other"], "12 120 12 0")  # mode and dropped are fields, too
    add(calls, (names[0], 1, 10, 1, 0), (names[-1], 1, 10, 1, 1))
    check_equal((fields(calls)[names[0]], fields(calls)["other"]), ("2 20 2 0", "13 130 13 1"))
    check_equal(calls.ask("HLEN", "rql:usage"), MOST_FIELDS + 1)


def test_single_holds_are_entries(calls):
    first = {"name": "a b 3 ", "reason": "", "token": "7"}
    second = {"name": "c", "reason": "for \t 5 x", "token": "-1"}
    check_equal(calls.call("history", holds(first, second)), 2)
    check_equal(calls.call("history", holds(first)), 3)
    check_equal(entries(calls), [first, second, first])
    check_equal(calls.ask("PTTL", "rql:history"), 7 * DAY_MS)


def test_an_entry_goes_after_seven_days(calls):
    for number in range(300):  # a server removes whole nodes, of a hundred entries
        calls.call("history", holds({"token": str(number)}))
    calls.pass_ms(7 * DAY_MS - 1)
    calls.call("history", holds({"token": "late"}))
    check_equal(len(entries(calls)), 301)
    calls.pass_ms(2)
    calls.call("history", holds({"token": "later"}))
    kept = [entry["token"] for entry in entries(calls)]
    check(len(kept) <= 102 and kept[-2:] == ["late", "later"], f"{len(kept)} entries are kept")


def test_there_are_so_many_entries_of_so_many_bytes(calls):
    for first in range(0, MOST_ENTRIES + 1000, 500):
        calls.call("history", holds(*({"name": "a", "token": str(first + number)} for number in range(500))))
    count = calls.ask("XLEN", "rql:history")
    check(MOST_ENTRIES <= count <= MOST_ENTRIES + 100, f"{count} entries")
    for _ in range(40):
        calls.call("history", holds(*({"name": "a", "reason": "r" * 512} for _ in range(100))))
    size = calls.ask("MEMORY", "USAGE", "rql:history", "SAMPLES", 0)
    check(size < 1.2 * MOST_BYTES, f"{size} bytes")
    check(calls.ask("XLEN", "rql:history") > 1000, "nearly nothing is kept")


def test_without_the_right_to_measure_entries_are_kept(calls):
    calls.ask("ACL", "SETUSER", "default", "-memory|usage")
    try:
        check_equal(calls.call("history", holds({"name": "a"})), 1)
    finally:
        calls.ask("ACL", "SETUSER", "default", "+memory|usage")


def test_a_foreign_type_is_left_alone(calls):
    for key, script, words in (("rql:usage", "usage", ("long", 0, sums(("a", 1, 1, 1, 0)))),
                               ("rql:history", "history", (holds({"name": "a"}),))):
        calls.ask("SET", key, "mine")
        check("WRONGTYPE" in refusal(calls.call, script, *words), script)
        check_equal(calls.ask("GET", key), "mine")


if __name__ == "__main__":
    main()
