"""The gem's calls that look at locks and queues, or act on them whoever holds them; those about ids and configuration,
about many locks, and about the swarm. Each is called with its run (calls.py)."""
from harness import check, wait_until
from outcomes import Raised, fine

ALIVE, WRONG_TYPE = 0, 2
STATUSES = "alive", "released", "wrong type", "malformed"
RUNNING = 1
FLUSHED_S = 10
QUICK = {"zombie_ttl_ms": 500, "probe_period_ms": 100, "zombie_flush_period_ms": 100}
# Keys of the gem's configuration, the library's options, and how many of ours are one of theirs.
CONFIG = {
    "retry_count": ("retry_count", 1), "retry_delay": ("retry_delay_ms", 1), "retry_jitter": ("retry_jitter_ms", 1),
    "try_to_lock_timeout": ("timeout_ms", 1000), "default_lock_ttl": ("ttl_ms", 1),
    "default_queue_ttl": ("queue_ttl_ms", 1000),
    "clear_locks_of__lock_scan_size": ("clear_locks_of_lock_scan_size", 1),
    "clear_locks_of__queue_scan_size": ("clear_locks_of_queue_scan_size", 1),
    "dead_request_ttl": ("dead_request_ttl_ms", 1),
    "is_timed_by_default": ("timed", 1), "default_conflict_strategy": ("conflict_strategy", 1),
    "default_access_strategy": ("access_strategy", 1),
    **{name: (name, 1) for name in (
        "detailed_acq_timeout_error",
        "key_extraction_batch_size", "lock_release_batch_size", "log_lock_try", "log_sampling_enabled",
        "log_sampling_percent", "instr_sampling_enabled", "instr_sampling_percent")}}


# ---- locks and queues ----

def inspect(run, of):
    """(what was found, whether it was)."""
    outcome = fine(run.do("inspect", of=of, name=run.lock_name), "NOT_FOUND")
    return outcome.found, outcome.status == "OK"


def names_of(of):
    """The gem has keys, and the library names, but of `keys`."""
    prefix = {"locks": "rql:lock:", "queues": "rql:lock_queue:"}.get(of, "")
    return lambda run: sorted(prefix + name for name in inspect(run, of)[0])


def lock_of(info):
    fields = {"ts": info["ts_us"] / 1000000, "ini_ttl": info["ini_ttl_ms"], **dict(info["meta"]),
              "spc_cnt": info["spc_cnt"], "l_spc_ts": info["l_spc_ts_us"] / 1000000,
              "spc_ext_ttl": info["spc_ext_ttl_ms"], "l_spc_ext_ts": info["l_spc_ext_ts_us"] / 1000000,
              "l_spc_ext_ini_ttl": info["l_spc_ext_ini_ttl_ms"]}
    there = {name: value for name, value in fields.items() if isinstance(value, str) or value >= 0}
    rem_ttl = "Infinity" if info["rem_ttl_ms"] == -1 else info["rem_ttl_ms"]
    return {"acq_id": info["acq_id"], "hst_id": info["hst_id"], **there, "rem_ttl": rem_ttl}


def requests_of(info):
    return [{"acq_id": request["acq_id"], "score": request["score_us"] / 1000000} for request in info["requests"]]


def check_alive(info):
    """Where Ruby raises, the library says what it found."""
    if info["status"] != ALIVE:
        raise Raised("RedisClient::WrongTypeError" if info["status"] == WRONG_TYPE else "TypeError")


def lock_info(run):
    info, is_there = inspect(run, "lock")
    if not is_there:
        return None
    check_alive(info)
    return {**lock_of(info), "lock_key": info["lock_key"]}


def queue_info(run):
    info, is_there = inspect(run, "queue")
    if not is_there:
        return None
    check_alive(info)
    return {"lock_queue": info["lock_queue"], "queue": requests_of(info)}


def locks_info(run):
    found = [{"lock": info["lock_key"], "status": STATUSES[info["status"]],
              "info": lock_of(info) if info["status"] == ALIVE else {}} for info in inspect(run, "locks_info")[0]]
    return sorted(found, key=lambda lock: lock["lock"])


def queues_info(run):
    found = [{"queue": info["lock_queue"], "requests": requests_of(info)} for info in inspect(run, "queues_info")[0]]
    return sorted(found, key=lambda queue: queue["queue"])


def locks(run):
    return locks_info(run) if run.options.get("with_info") else names_of("locks")(run)


def queues(run):
    return queues_info(run) if run.options.get("with_info") else names_of("queues")(run)


def unlock(run):
    found = fine(run.do("force_unlock", name=run.lock_name))
    words = "nothing_to_release", "released"
    return {"ok": True, "result": {
        "rel_time": found.rel_time_us / 1000, "rel_key": f"rql:lock:{run.lock_name}",
        "rel_queue": f"rql:lock_queue:{run.lock_name}",
        "queue_res": words[found.queue_released], "lock_res": words[found.lock_released]}}


def extend_lock_ttl(run):
    found = fine(run.do("force_extend", name=run.lock_name, add_ms=int(run.call["args"][1])), "NOT_FOUND")
    is_extended = found.status == "OK"
    return {"ok": is_extended, "result": "ttl_extended" if is_extended else "async_expire_or_no_lock"}


# ---- ids and configuration ----

def whoami(what):
    return lambda run: fine(run.do("whoami", task=1 if "fiber" in run.call else 0)).words[what]


def possible_host_ids(run):
    """One host id a thread: how many this process has at the moment is its own affair."""
    current = whoami("hst_id")(run)
    identity = "/" + current.rpartition("/")[2]
    return [host for host in inspect(run, "possible_hosts")[0] if host == current or not host.endswith(identity)]


def default_of(text, factor):
    """A number, a truth or a word."""
    if text.lstrip("-").isdigit():
        return int(text) / factor
    return {"true": True, "false": False}.get(text, text)


def config_all(run):
    defaults = fine(run.actor.remote.do("options")).defaults
    return {key: default_of(defaults[option], factor) for key, (option, factor) in CONFIG.items() if option in defaults}


def config_set(run):
    key, value = run.call["args"]
    if key not in CONFIG:
        raise Raised("RedisQueuedLocks::ConfigNotFoundError")
    option, factor = CONFIG[key]
    text = "forever" if value is None else value if isinstance(value, str) else f"{value * factor:.15g}"
    if run.actor.remote.do("set_option", name=option, value=text).status != "OK":
        raise Raised("RedisQueuedLocks::ConfigValidationError")
    return value


# ---- many locks ----

def sweep(run, of, **words):
    renamed = {"scan_size": "batch_size", "dead_ttl": "dead_ttl_ms"}
    sizes = {renamed.get(name, name): value for name, value in run.options.items() if isinstance(value, int)}
    return fine(run.do("sweep", of=of, **sizes, **words))


def counts(found, *names):
    return {"ok": True, "result": {**{name: found.words[name] for name in names},
                                   "rel_time": found.rel_time_us / 1000}}


def clear_locks(run):
    return counts(sweep(run, "all"), "rel_key_cnt")


def clear_locks_of(run):
    ids = {ours: run.play.names.replayed_id(run.options[theirs])
           for ours, theirs in (("acq_id", "acquirer_id"), ("hst_id", "host_id")) if theirs in run.options}
    return counts(sweep(run, "owner", **ids), "rel_key_cnt", "tch_queue_cnt")


def clear_current_locks(run):
    return counts(sweep(run, "current"), "rel_key_cnt", "tch_queue_cnt")


def clear_dead_requests(run):
    return {"ok": True, "result": {"processed_queues": sorted("rql:lock_queue:" + name for name in sweep(run, "dead").queues)}}


# ---- the swarm ----

def ttl_of(run):
    return {"zombie_ttl_ms": run.options["zombie_ttl"]} if "zombie_ttl" in run.options else {}


def as_gem(of, found):
    """Sorted; locks are keys there."""
    return sorted("rql:lock:" * (of == "locks") + item for item in found)


def zombies_by(of):
    return lambda run: as_gem(of, fine(run.do("zombies", of=of, **ttl_of(run))).found)


def lists_of(found, prefix):
    return {f"{prefix}zombie_{name}": as_gem(name, found.words[name]) for name in ("hosts", "acquirers", "locks")}


def zombies_info(run):
    return lists_of(fine(run.do("zombies", **ttl_of(run))), "")


def flush_zombies(run):
    size = run.options.get("lock_scan_size")
    sizes = {"zombie_lock_scan_size": size, "zombie_queue_scan_size": size} if size else {}
    return {"ok": True, **lists_of(fine(run.do("flush_zombies", options={**ttl_of(run), **sizes})), "deleted_")}


def probe_hosts(run):
    found = fine(run.do("probe_hosts"))
    return {"ok": True, "result": {host: found.at_us / 1000000 for host in found.hosts}}


def swarm_info(run):
    hosts = fine(run.do("hosts", **ttl_of(run))).hosts
    return {host["hst_id"]: {"zombie": host["is_zombie"], "last_probe_time": host["last_probe_us"] / 1000000,
                             "last_probe_score": host["last_probe_us"] / 1000000} for host in hosts}


def swarmize(run):
    """The gem's flusher ends the dead at first sight, so this waits until ours has seen them twice."""
    client = run.player.client.name
    fine(run.actor.remote.do("swarm", name=client, client=client, options=QUICK))
    run.player.has_swarm = True
    wait_until(lambda: not zombies_by("hosts")(run), "the dead are flushed", FLUSHED_S)
    return {"ok": True, "result": "swarming"}


def deswarmize(run):
    check(run.player.has_swarm, "there is a swarm")
    run.actor.remote.do("stop_swarm", name=run.player.client.name).check()
    return {"ok": True, "result": "terminating"}


def swarm_status(run):
    found = fine(run.actor.remote.do("swarm_status", client=run.player.client.name))
    return {"auto_swarm": found.auto_swarm, **{
        name: {"enabled": found.words[name]["enabled"], "running": found.words[name]["state"] == RUNNING}
        for name in ("supervisor", "probe_hosts", "flush_zombies")}}


OPS = {
    "lock_info": lock_info, "queue_info": queue_info, "locks_info": locks_info, "queues_info": queues_info,
    "locks": locks, "queues": queues, "keys": names_of("keys"),
    "locked?": lambda run: inspect(run, "is_locked")[0], "queued?": lambda run: inspect(run, "is_queued")[0],
    "unlock": unlock, "extend_lock_ttl": extend_lock_ttl,
    "current_acquirer_id": whoami("acq_id"), "current_host_id": whoami("hst_id"), "uniq_identity": whoami("identity"),
    "possible_host_ids": possible_host_ids, "config_all": config_all, "config_set": config_set,
    "clear_locks": clear_locks, "release_locks": clear_locks, "clear_locks_of": clear_locks_of,
    "clear_current_locks": clear_current_locks, "release_current_locks": clear_current_locks,
    "clear_dead_requests": clear_dead_requests,
    "probe_hosts": probe_hosts, "swarm_info": swarm_info, "zombies_info": zombies_info,
    "zombie_locks": zombies_by("locks"), "zombie_hosts": zombies_by("hosts"),
    "zombie_acquirers": zombies_by("acquirers"), "flush_zombies": flush_zombies,
    "swarmize!": swarmize, "deswarmize!": deswarmize, "swarm_status": swarm_status,
}
