#!/usr/bin/env python3
"""What is on the server: locks and queues, of the gem and of ours, one or ten thousand, among the keys of others."""

from harness import FOREVER, Network, check, check_equal, main, once, scenario, wait_until
from sweeps import OTHER, RUBY, hold_as

ACQ1, HST1 = RUBY
ACQ2, HST2 = OTHER
ALIVE, RELEASED, WRONG_TYPE, MALFORMED = range(4)
MANY = 10000

# ARGV: how many, acq_id, hst_id. Locks as the gem writes them, and a queue of one for every tenth.
SEED = """
for i = 1, ARGV[1] do
    redis.call('HSET', 'rql:lock:job-' .. i, 'acq_id', ARGV[2], 'hst_id', ARGV[3], 'ts', '1795255177.83339',
        'ini_ttl', '60000', 'n', i)
    redis.call('PEXPIRE', 'rql:lock:job-' .. i, 60000)
    if i % 10 == 0 then redis.call('ZADD', 'rql:lock_queue:job-' .. i, i, ARGV[2]) end
end"""

# 500 of their own score, 2500 that share one, 2500 more. Every third is ours and has a record.
LONG_QUEUE = """
local q, r = 'rql:lock_queue:long', 'rql:req:long'
for i = 1, 5500 do
    local id = string.format('rql:acq:%05d', i)
    local score = (i <= 500 or i > 3000) and 1795254268 + i or 1795255000
    redis.call('ZADD', q, i == 1 and '1795254268.4681001' or score, id)
    if i % 3 == 0 then redis.call('HSET', r, id, string.format('rql:hst:%05d 5000 nonce', i)) end
end"""


def inspect(actor, of, name="", status="OK"):
    return actor.begin("inspect", of=of, name=name).outcome().check(status).found


def read(actor, of, names):
    """Of these names only."""
    return actor.begin("inspect", of=of, names=names).outcome().check().found


def seed(world, count):
    world.ask("EVAL", SEED, 0, count, ACQ1, HST1)


def named(infos):
    return {info["name"]: info for info in infos}


def n_of(infos, status):
    return sum(info["status"] == status for info in infos)


def check_has(info, **wanted):
    check_equal({name: info[name] for name in wanted}, wanted)


@once
def an_empty_database_has_nothing(world, kind, _names):
    actor = world.actor(kind)
    for of in "locks", "queues", "keys", "locks_info", "queues_info":
        check_equal(inspect(actor, of), [])
    for of in "lock", "queue":
        check_equal(inspect(actor, of, "none", "NOT_FOUND"), None)
    for of in "is_locked", "is_queued":
        check_equal(inspect(actor, of, "none"), False)


# ---- as the gem says it ----


@once
def names_are_no_patterns(world, kind, _names):
    actor = world.actor(kind)
    hold_as(world, (ACQ1, HST1), "*", ttl_ms=9000, ts="1795255177.5")
    hold_as(world, (ACQ2, HST2), "[a]\\?", ttl_ms=9000, ts="1795255177.5")
    world.ask("SET", "rql:Lock:a", 1)
    world.ask("SET", "xrql:lock:a", 1)
    check_equal(inspect(actor, "locks"), ["*", "[a]\\?"])
    check_equal([inspect(actor, "is_locked", name) for name in ("a", "[a]\\?")], [False, True])


# ---- our own ----

@scenario(counts=[1])
def what_we_hold_and_wait_for_is_told_in_full(world, kind, names):
    holder, looking = world.actor(kind), world.actor("thread")
    held = holder.acquire(*names, ttl_ms=60000, meta={"job": "42"}, task=7)
    again = holder.acquire(*names, conflict_strategy="extendable_work_through", ttl_ms=5000, task=7)
    asking = world.actor(kind).ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    info = inspect(looking, "lock", names[0])
    check_has(info, status=ALIVE, acq_id=held.outcome.acq_id, hst_id=held.outcome.hst_id, token=held.tokens[0],
              ts_us=held.outcome.ts_us, ini_ttl_ms=60000, meta=[["job", "42"]], spc_ext_ttl_ms=5000,
              l_spc_ext_ini_ttl_ms=5000)
    check(info["l_spc_ext_ts_us"] >= held.outcome.ts_us, "it was entered again before it was taken")
    waiting = inspect(looking, "queue", names[0])["requests"]
    again.release().check()
    held.release().check()
    mine = asking.hold()
    check_equal([(one["acq_id"], one["hst_id"], one["position"], one["share_units"]) for one in waiting],
                [(mine.outcome.acq_id, mine.outcome.hst_id, 1, 0)])
    mine.release().check()


# ---- many, and strange ones ----

def seed_strange_locks(world):
    world.ask("SET", "rql:lock:string", 1)
    world.ask("RPUSH", "rql:lock:list", 1)
    world.ask("SADD", "rql:lock:set", 1)
    world.ask("ZADD", "rql:lock:zset", 1, "a")
    world.ask("XADD", "rql:lock:stream", "*", "a", "b")
    world.ask("HSET", "rql:lock:foreign", "a", "b")
    world.ask("HSET", "rql:lock:half", "acq_id", ACQ1)
    world.ask("HSET", "rql:lock:number", "acq_id", ACQ1, "hst_id", HST1, "ts", "1e400", "ini_ttl", "0x10")
    world.ask("HSET", b"rql:lock:nul\0b", "acq_id", "a")
    world.ask("HSET", "rql:lock:", "acq_id", ACQ1, "hst_id", HST1, "ts", 1, "ini_ttl", 1)


@once
def ten_thousand_locks_are_listed_among_strange_ones(world, kind, _names):
    actor = world.actor(kind)
    seed(world, MANY)
    seed_strange_locks(world)
    infos = inspect(actor, "locks_info")
    check_equal([n_of(infos, status) for status in (ALIVE, WRONG_TYPE, MALFORMED)], [MANY + 1, 5, 4])
    by_name = named(infos)
    check_equal((by_name[""]["status"], by_name["stream"]["status"]), (ALIVE, WRONG_TYPE))
    check_equal((by_name["half"]["acq_id"], by_name["job-777"]["meta"]), (ACQ1, [["n", "777"]]))
    keys = [info["lock_key"] for info in infos]
    check_equal(keys, sorted(set(keys)), "keys")
    check_equal(len(inspect(actor, "locks")), MANY + 9)


@once
def many_queues_are_listed_among_strange_ones(world, kind, _names):
    seed(world, MANY)
    world.ask("SET", "rql:lock_queue:string", 1)
    world.ask("HSET", "rql:lock_queue:hash", "a", "b")
    world.ask("ZADD", "rql:lock_queue:inf", "-inf", "a", 5, "b", "+inf", "c")
    infos = inspect(world.actor(kind), "queues_info")
    check_equal([n_of(infos, status) for status in (ALIVE, WRONG_TYPE, MALFORMED)], [MANY // 10, 2, 1])
    check(all(len(info["requests"]) == 1 for info in infos if info["status"] == ALIVE), "not one request each")
    strange = named(infos)["inf"]["requests"]
    check_equal((len(strange), strange[1]["score_us"]), (3, 5000000))


@once
def any_batch_size_lists_everything(world, kind, _names):
    seed(world, 300)
    for size in 1, 2, 100000:
        actor = world.actor(kind, key_extraction_batch_size=size)
        check_equal(n_of(inspect(actor, "locks_info"), ALIVE), 300, f"by {size}")


@once
def named_locks_are_read_without_a_scan(world, kind, _names):
    """Names of any length, several batches of them, each once; one that is free has a status that says so."""
    seed(world, 1200)
    seed_strange_locks(world)
    actor = world.actor(kind)
    long = "x" * 100000
    hold_as(world, (ACQ1, HST1), long, ttl_ms=9000, ts="1795255177.5")
    names = [f"job-{i}" for i in range(1, 1201)] + ["free", "string", "half", "", long, "job-7"]
    world.ask("CONFIG", "RESETSTAT")
    locks, queues = named(read(actor, "locks_info", names)), named(read(actor, "queues_info", names))
    check("cmdstat_scan" not in world.ask("INFO", "commandstats"), "it has scanned")
    check_equal((len(locks), len(queues)), (1205, 1205))
    check_equal([n_of(locks.values(), status) for status in (ALIVE, RELEASED, WRONG_TYPE, MALFORMED)], [1202, 1, 1, 1])
    check_equal([n_of(queues.values(), status) for status in (ALIVE, RELEASED)], [120, 1085])
    check_equal((locks["free"]["status"], locks[long]["acq_id"], locks["job-777"]["meta"]),
                (RELEASED, ACQ1, [["n", "777"]]))
    check_equal((read(actor, "locks_info", []), read(actor, "queues_info", [])), ([], []))


@once
def huge_keys_of_others_are_reported_and_break_nothing(world, kind, _names):
    """More than a connection carries in one batch must not cost it."""
    seed(world, 300)
    for script in ("for i = 1, 140000 do redis.call('HSET', 'rql:lock:job-1-many', i, i) end",
                   "redis.call('HSET', 'rql:lock:job-2-large', 'v', string.rep('x', 17000000))",
                   "for i = 1, 8 do redis.call('HSET', 'rql:lock:job-3-' .. i, 'v', string.rep('x', 3000000)) end",
                   "for i = 1, 18 do redis.call('ZADD', 'rql:lock_queue:large', i, i .. string.rep('x', 1000000)) end"):
        world.ask("EVAL", script, 0)
    network = Network(world)
    actor = world.actor(kind, network.client(io_timeout_ms=20000))
    inspect(actor, "is_locked", "a")
    locks, queues = inspect(actor, "locks_info"), inspect(actor, "queues_info")
    by_name = named(locks)
    check_equal((len(locks), n_of(locks, ALIVE), len(queues)), (310, 300, 31))
    check_has(by_name["job-1-many"], status=MALFORMED)
    check_has(by_name["job-2-large"], status=MALFORMED, meta=[])
    check_equal(len(by_name["job-3-7"]["meta"]), 1)
    check_has(named(queues)["large"], status=MALFORMED)
    check_has(inspect(actor, "lock", "job-1-many"), status=MALFORMED)
    check_has(inspect(actor, "queue", "large"), status=MALFORMED)
    check_equal(network.count("connections"), 1)


@once
def long_queues_are_read_in_pages(world, kind, _names):
    actor = world.actor(kind)
    world.ask("EVAL", LONG_QUEUE, 0)
    world.ask("ZADD", "rql:lock_queue:a", 1, "x")
    for info in inspect(actor, "queue", "long"), named(inspect(actor, "queues_info"))["long"]:
        requests = info["requests"]
        check_equal((info["status"], len(requests)), (ALIVE, 5500))
        check_equal([(one["acq_id"], one["hst_id"], one["position"]) for one in requests],
                    [(f"rql:acq:{i:05}", None if i % 3 else f"rql:hst:{i:05}", i) for i in range(1, 5501)])
        check_equal((requests[0]["score_us"], requests[-1]["score_us"]), (1795254268468100, 1795259768000000))


# What a whole lock becomes when a field has another value or, for None, is not there: status, ts_us, ini_ttl_ms.
TS_US = 1795255131070483
FORMS = (
    ("ts", "1795255131", ALIVE, 1795255131000000, 3000), ("ini_ttl", "1", ALIVE, TS_US, 1),
    ("foreign", "1", ALIVE, TS_US, 3000), ("foreign", "1\0x", ALIVE, TS_US, 3000),
    ("lock_key", "?", ALIVE, TS_US, 3000), ("rem_ttl", "?", ALIVE, TS_US, 3000),
    ("acq_id", None, MALFORMED, TS_US, 3000), ("acq_id", "", MALFORMED, TS_US, 3000),
    ("acq_id", "a\0b", MALFORMED, TS_US, 3000), ("hst_id", None, MALFORMED, TS_US, 3000),
    *(("ts", bad, MALFORMED, -1, 3000) for bad in (None, "", "1795268.", "inf", "nan", "1e300")),
    *(("ini_ttl", bad, MALFORMED, TS_US, -1)
      for bad in (None, "1500.5", "15e2", "05000", "99999999999999999999")),
    *((field, bad, MALFORMED, TS_US, 3000)
      for field, bad in (("spc_cnt", "08"), ("l_spc_ts", "soon"), ("spc_ext_ttl", "1.0"), ("l_spc_ext_ts", "1."),
                         ("l_spc_ext_ini_ttl", ""), ("rql_token", "one"))))


@once
def every_form_of_a_lock_has_its_status(world, kind, _names):
    """A field that cannot be read is unknown. The others are read all the same."""
    actor = world.actor(kind)
    for field, value, status, ts_us, ini_ttl_ms in FORMS:
        fields = {"acq_id": ACQ1, "hst_id": HST1, "ts": "1795255131.070483", "ini_ttl": "3000", field: value}
        world.ask("DEL", "rql:lock:x")
        world.ask("HSET", "rql:lock:x", *sum(([name, text] for name, text in fields.items() if text is not None), []))
        world.ask("PEXPIRE", "rql:lock:x", 60000)
        info = inspect(actor, "lock", "x")
        wanted = {"status": status, "ts_us": ts_us, "ini_ttl_ms": ini_ttl_ms, "lock_key": "rql:lock:x", "name": "x",
                  "spc_cnt": -1, "l_spc_ts_us": -1, "spc_ext_ttl_ms": -1, "l_spc_ext_ts_us": -1,
                  "l_spc_ext_ini_ttl_ms": -1, "token": -1, "meta": [["foreign", "1"]] if field == "foreign" else []}
        check_equal({name: info[name] for name in wanted}, wanted, f"{field} {value}")
        check_equal(info["acq_id"], (fields["acq_id"] or "").split("\0")[0] if value is not None else info["acq_id"])


@once
def all_fields_of_a_lock_are_read_and_the_rest_is_its_metadata(world, kind, _names):
    """Fields whose names begin with rql_ are the library's. Metadata keep their order."""
    meta = [["z", "first"], ["some", "data"], ["", "emptykey"], ["sp ace", "v v"], ["rql", "not ours"], ["a", ""]]
    hold_as(world, (ACQ1, HST1), "x", ttl_ms=3000, ts="1795255131.070483")
    world.ask("HSET", "rql:lock:x", *sum(meta[:2], []), "rql_v", "1", *sum(meta[2:], []), "spc_cnt", "3", "l_spc_ts",
              "1795255132.5", "spc_ext_ttl", "4000", "l_spc_ext_ts", "1795255133.25", "l_spc_ext_ini_ttl", "2000",
              "rql_token", "1795255131070484")
    world.ask("PERSIST", "rql:lock:x")
    check_has(inspect(world.actor(kind), "lock", "x"), status=ALIVE, rem_ttl_ms=-1, spc_cnt=3,
              l_spc_ts_us=1795255132500000, spc_ext_ttl_ms=4000, l_spc_ext_ts_us=1795255133250000,
              l_spc_ext_ini_ttl_ms=2000, token=1795255131070484, meta=meta)


SCORES = (("-1.5", -1500000), ("0.00001", 10), ("1795254268.4681001", 1795254268468100),
          ("1795254268.46811226", 1795254268468112), ("-inf", -1), ("inf", -1), ("1e300", -1))
IDENTITY = "00112233445566778899aabbccddeeff"
OURS = "rql:acq:1/2/3/0/" + IDENTITY
LONG_ID = 128  # bytes that an id may have, with its NUL
# An acquirer, the record of its request, and its host. The identity ends the acquirer's id, and is not in the record.
RECORDS = (("a", "rql:hst:1/2/0/ff 5000 nonce", "rql:hst:1/2/0/ff"), ("b", "alone", "alone"), ("c", "", None),
           ("d", " x", None), ("e", "h" * LONG_ID, None), ("f", "h\0st x", None), ("g", None, None),
           (OURS, "rql:hst:1/2/0/ 5000 nonce", "rql:hst:1/2/0/" + IDENTITY),
           ("short", "rql:hst:1/2/0/ 5000 nonce", "rql:hst:1/2/0/"),
           ("z" + OURS, "/" * (LONG_ID - 32), "/" * (LONG_ID - 32)))


@once
def requests_are_described_by_their_scores_and_records(world, kind, _names):
    """A score that cannot be read spoils only itself."""
    actor = world.actor(kind)
    for score, score_us in SCORES:
        world.ask("DEL", "rql:lock_queue:x")
        world.ask("ZADD", "rql:lock_queue:x", score, "a", 3, "c")
        info = inspect(actor, "queue", "x")
        check_equal((info["status"], {one["acq_id"]: one["score_us"] for one in info["requests"]}),
                    (MALFORMED if score_us == -1 else ALIVE, {"a": score_us, "c": 3000000}), score)
    for place, (acquirer, record, _) in enumerate(RECORDS):
        world.ask("ZADD", "rql:lock_queue:y", place, acquirer)
        if record is not None:
            world.ask("HSET", "rql:req:y", acquirer, record)
    check_equal([(one["acq_id"], one["hst_id"]) for one in inspect(actor, "queue", "y")["requests"]],
                [(acquirer, host) for acquirer, _, host in RECORDS])
    world.ask("ZADD", "rql:lock_queue:z", 1, "a\0b")
    world.ask("SET", "rql:req:z", "of another type")
    check_has(inspect(actor, "queue", "z"), status=MALFORMED,
              requests=[{"acq_id": "a", "hst_id": None, "score_us": 1000000, "position": 1, "share_units": 0,
                         "share_limit": 0}])


@scenario(kinds=["thread"], counts=[1], in_cluster=False)  # where the harness shortens names
def records_of_names_that_are_too_long_are_not_read(world, kind, _names):
    for length in 512, 513:
        world.ask("ZADD", "rql:lock_queue:" + "n" * length, 1, "a")
        world.ask("HSET", "rql:req:" + "n" * length, "a", "h")
    check_equal([info["requests"][0]["hst_id"] for info in inspect(world.actor(kind), "queues_info")], ["h", None])


# ---- while it changes ----

@scenario(kinds=["thread"], counts=[1], is_timed=True)
def keys_that_vanish_before_the_look_are_released(world, kind, _names):
    """The reply to SCAN is on its way."""
    network = Network(world)
    actor = world.actor(kind, network.client(io_timeout_ms=20000))
    inspect(actor, "is_locked", "a")
    for of in "locks_info", "queues_info":
        seed(world, 10)
        network.fail("delay", direction="down", n=200)
        scans = world.n_calls("scan")
        call = actor.begin("inspect", of=of)
        wait_until(lambda before=scans: world.n_calls("scan") > before, "it scans")
        world.ask("DEL", "rql:lock:job-10", "rql:lock_queue:job-10")
        infos = call.outcome().check().found
        network.heal()
        check_has(named(infos)["job-10"], status=RELEASED)
        check_equal(n_of(infos, ALIVE), len(infos) - 1)
        if of == "locks_info":
            check_has(named(infos)["job-10"], rem_ttl_ms=-1)


# ---- what stands in the way ----

@once
def a_user_who_may_not_measure_lists_all_the_same(world, kind, _names):
    seed(world, 300)
    world.ask("ACL", "SETUSER", "meek", "reset", "on", ">pw", "~*", "&*", "+@all", "-memory")
    actor = world.actor(kind, url=world.server.url_with("meek:pw@"))
    check_equal((n_of(inspect(actor, "locks_info"), ALIVE), len(inspect(actor, "queues_info"))), (300, 30))


@once
def missing_rights_are_a_fault(world, kind, _names):
    seed(world, 3)
    world.ask("ACL", "SETUSER", "blind", "reset", "on", ">pw", "~*", "&*", "+@all", "-hgetall", "-hlen")
    actor = world.actor(kind, url=world.server.url_with("blind:pw@"))
    outcome = actor.begin("inspect", of="locks_info").outcome().check("E_AUTH")
    check("rql:lock:*" in outcome.error, outcome.error)
    check_equal(outcome.found, None)


if __name__ == "__main__":
    main()
