#!/usr/bin/env python3
"""What the library refuses before it sends anything: names, ttls, metadata, options."""

from harness import MINUTE_MS, check, check_equal, main, scenario
from sweeps import sweep

TTL_MAX_MS = 2592000000
NAME_MAX, META_MAX_PAIRS, META_MAX_BYTES = 512, 64, 16384
BAD_NAMES = ("", "\x01", "a\nb", "a\x1f", "\x7f", "a\x7f b", "tab\t", "\r\nDEL", "\x1b[m", "n" * (NAME_MAX + 1))
GOOD_NAMES = ("x", " ", "%s%n", "{tag}:1", "\u00e4\u20ac", "a:b/c*[d]?\\\"'", "n" * NAME_MAX)
OF_THE_LOCK = ("acq_id", "hst_id", "ts", "ini_ttl", "lock_key", "rem_ttl", "spc_cnt", "spc_ext_ttl", "l_spc_ts",
               "l_spc_ext_ini_ttl", "rql_", "rql_nonce", "rql_token", "", "l_spc_ext_ts")
BAD_OPTIONS = (
    *({"ttl_ms": ttl_ms} for ttl_ms in (0, -1, -2 ** 63, TTL_MAX_MS + 1, 2 ** 62)),
    {"meta": {f"m{i}": "v" for i in range(META_MAX_PAIRS + 1)}},
    {"meta": {"m": "v" * META_MAX_BYTES}},
    *({"meta": {name: "v"}} for name in OF_THE_LOCK),
)
SECRET = "0" * 32
KINDS = ["thread", "loop"]


def check_invalid(actor, *names, **options):
    for tries in (False, True):
        outcome = actor.ask(*names, tries=tries, **options).outcome().check("E_INVALID")
        check(outcome.error, "it does not say why")


@scenario(kinds=KINDS, in_cluster=False)  # where names are not as they are given
def bad_names_are_refused_by_every_call(world, kind, names):
    """In every place of a series."""
    actor = world.actor(kind)
    for bad in BAD_NAMES:
        for i in range(len(names)):
            check_invalid(actor, *names[:i], bad, *names[i + 1:])
        for do, words in (("force_unlock", {}), ("force_extend", {"add_ms": 1}), ("use_secret", {"secret": SECRET}),
                          ("inspect", {"of": "is_locked"}), ("inspect", {"of": "is_queued"}),
                          ("inspect", {"of": "lock"}), ("inspect", {"of": "queue"})):
            actor.begin(do, name=bad, **words).outcome().check("E_INVALID")
        actor.begin("check_until_free", names=[bad], options={}).outcome().check("E_INVALID")
    if len(names) > 1:
        check_invalid(actor, *names, names[0])  # twice
    check_equal(world.ask("DBSIZE"), 0)


@scenario(kinds=KINDS)
def bad_options_are_refused(world, kind, names):
    actor = world.actor(kind)
    for bad in BAD_OPTIONS:
        check_invalid(actor, *names, **bad)
    check_equal(world.ask("DBSIZE"), 0)


@scenario(kinds=KINDS, counts=[1], in_cluster=False)
def all_else_is_a_name(world, kind, _names):
    actor = world.actor(kind)
    for good in GOOD_NAMES:
        held = actor.acquire(good)
        check_equal((held.outcome.name, world.ask("EXISTS", f"rql:lock:{good}")), (good, 1))
        held.release().check()


@scenario(kinds=KINDS)
def limits_may_be_reached(world, kind, names):
    actor = world.actor(kind)
    for options in ({"ttl_ms": TTL_MAX_MS}, {"meta": {f"m{i}": "v" for i in range(META_MAX_PAIRS)}},
                    {"meta": {"m": "v" * (META_MAX_BYTES - 1)}}):
        held = actor.acquire(*names, **{"ttl_ms": MINUTE_MS, **options})
        for name, value in options.get("meta", {}).items():
            check_equal(world.ask("HGET", f"rql:lock:{names[0]}", name), value)
        check(world.ask("PTTL", f"rql:lock:{names[0]}") > options.get("ttl_ms", MINUTE_MS) - 20000, "another ttl")
        held.release().check()


@scenario(kinds=KINDS)
def a_ttl_of_1_ms_is_held_or_timed_out_and_never_stays(world, kind, names):
    """It may have ended before its answer is here; then the call tries again until its deadline."""
    asking = world.actor(kind).ask(*names, ttl_ms=1, timeout_ms=300)
    if asking.outcome().check("OK", "TIMED_OUT", "E_UNKNOWN").status == "OK":
        asking.hold().release().check("OK", "NOT_HELD")
    world.await_nothing_left()


@scenario(kinds=["thread"], counts=[1])
def bad_sweeps_are_refused(world, kind, _names):
    actor = world.actor(kind)
    for acq_id, hst_id in (("", "h"), ("a", ""), ("a", "i" * (NAME_MAX + 1))):
        sweep(actor, "owner", "E_INVALID", acq_id=acq_id, hst_id=hst_id)
    sweep(actor, "owner", acq_id="a", hst_id="i" * NAME_MAX)
    for of in ("all", "current", "dead"):
        sweep(actor, of, "E_INVALID", batch_size=0)
        sweep(actor, of)


if __name__ == "__main__":
    main()
