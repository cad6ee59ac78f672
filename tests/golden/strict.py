"""Would the gem's readers take this key? As strict as Ruby's Float() and Integer(), and stricter where the gem writes
one form. And what only the library writes: the gem takes such fields for metadata and does not see such keys."""
import re

FLOATS = {"ts", "l_spc_ts", "l_spc_ext_ts"}
INTEGERS = {"ini_ttl", "spc_cnt", "spc_ext_ttl", "l_spc_ext_ini_ttl"}
NEEDED = {"acq_id", "hst_id", "ts", "ini_ttl"}
OWN_KEYS = {"rql:live", "rql:fence", "rql:swarm:suspects", "rql:swarm:flusher", "rql:clients"}

FLOAT = re.compile(r"[0-9]+\.[0-9]{1,7}")
INTEGER = re.compile(r"0|[1-9][0-9]{0,17}")  # Integer() reads "010" as octal and refuses "08", decimals and exponents
WHOLE = re.compile(r"[1-9][0-9]*")
NONCE = re.compile(r"[0-9a-f]{32}")
ACQUIRER = re.compile(r"rql:acq:([0-9]+/){4}[0-9a-f]+")
HOST = re.compile(r"rql:hst:([0-9]+/){3}[0-9a-f]+")


def is_float(text):
    """As Float#to_s writes it: digits, a point, digits; the shortest that reads back the same."""
    return bool(FLOAT.fullmatch(text)) and repr(float(text)) == text


# ---- what only the library writes ----

def is_own_key(key):
    return key in OWN_KEYS or key.startswith("rql:req:")


def is_own_field(name):
    return name.startswith("rql_")


def is_good_own_field(name, value):
    if name in ("rql_nonce", "rql_spc"):
        return NONCE.fullmatch(value)
    if name == "rql_token":
        return WHOLE.fullmatch(value) and int(value) < 1 << 53
    if name == "rql_end":
        return WHOLE.fullmatch(value)
    if name == "rql_claim":
        return value == "1"
    return name.startswith("rql_ext:") and NONCE.fullmatch(name[8:]) and WHOLE.fullmatch(value)


def own_key_fault(key, found):
    kind, value = found["type"], found["value"]
    if key == "rql:fence":
        return None if kind == "string" and WHOLE.fullmatch(value) else "no token"
    if found["pttl"] <= 0:
        return "without a ttl"
    if key == "rql:swarm:flusher":
        return None if kind == "string" and NONCE.fullmatch(value) else "no identity"
    if key == "rql:live":
        return None if kind == "zset" and all(NONCE.fullmatch(name) for name, _ in value) else "no heartbeats"
    return None if kind == "hash" else "no hash"


# ---- what the gem reads ----

def is_good_field(name, value):
    if name == "acq_id":
        return ACQUIRER.fullmatch(value)
    if name == "hst_id":
        return HOST.fullmatch(value)
    if name in FLOATS:
        return is_float(value)
    if name in INTEGERS:
        return INTEGER.fullmatch(value)
    return not is_own_field(name) or is_good_own_field(name, value)


def lock_fault(fields):
    for name, value in fields.items():
        if not is_good_field(name, value):
            return f"field {name} is {value!r}"
    return None if NEEDED <= fields.keys() else "a field is missing"


def queue_fault(requests):
    """Scores are epoch seconds."""
    before = 0.0
    for acquirer, score in requests:
        if not ACQUIRER.fullmatch(acquirer):
            return "a member is no acquirer id"
        if not 1e9 <= float(score) <= 1e10 or float(score) < before:
            return "a score is no instant"
        before = float(score)
    return None


def hosts_fault(hosts):
    """Hosts of the swarm and their last heartbeats."""
    fine = all(HOST.fullmatch(host) and is_float(at) for host, at in hosts.items())
    return None if fine else "no host id or no instant"


def fault_of(key, found):
    """What is wrong with a key, or None."""
    kind, value = found["type"], found["value"]
    if is_own_key(key):
        return own_key_fault(key, found)
    if key.startswith("rql:lock:"):
        return lock_fault(value) if kind == "hash" else "a lock that is no hash"
    if key.startswith("rql:lock_queue:"):
        return queue_fault(value) if kind == "zset" else "a queue that is no zset"
    if key == "rql:swarm:hsts":
        return hosts_fault(value) if kind == "hash" else "no hash"
    return "a key that the gem does not know"
