"""How keys are named in a cluster: each name belongs to one of 128 partitions, each of which has a tag that its keys
begin with (lua/README.md). Standard library only."""
import binascii
import functools
import itertools
import re
import string

N_SLOTS, N_PARTITIONS = 16384, 128
WIDTH = N_SLOTS // N_PARTITIONS


def slot_of(key):
    """Of the first {tag} that is not empty, if there is one."""
    key = key if isinstance(key, bytes) else str(key).encode()
    _, _, rest = key.partition(b"{")
    tag, closed, _ = rest.partition(b"}")
    return binascii.crc_hqx(tag if closed and tag else key, 0) % N_SLOTS


def partition_of(name):
    return slot_of(name) // WIDTH


@functools.cache
def letters_by_crc():
    """The first three letters that have each CRC, of those bits of it that make a slot."""
    letters = ["".join(three) for three in itertools.product(string.ascii_lowercase, repeat=3)]
    return {slot_of(three): three for three in reversed(letters)}


@functools.cache
def tag_of(partition):
    """Two hex digits, and the first three letters by which it is nearest to the middle of the partition. The CRC of all
    is that of the digits with zeros behind them, changed (by xor) in the bits of the letters' CRC."""
    middle, digits = WIDTH * partition + WIDTH // 2, f"{partition:02x}"
    of_digits = binascii.crc_hqx(digits.encode() + bytes(3), 0) % N_SLOTS
    for distance in itertools.count():
        near = [letters_by_crc().get(of_digits ^ slot) for slot in (middle - distance, middle + distance)]
        if any(near):
            return digits + min(filter(None, near))


def prefix_in(partition):
    return f"rql:{{{tag_of(partition)}}}:"


def prefix_of(name):
    """Of all keys that have to do with a lock."""
    return prefix_in(partition_of(name))


def slot_of_lock(name):
    """Where all of its partition's keys are, which need not be the name's own slot."""
    return slot_of(prefix_of(name))


# ---- tests that speak of keys as they are on a single server ----

SHARED = "{lock}"  # begins the names of locks that are to be in one partition
OF_A_LOCK = (b"lock", b"lock_queue", b"req", b"shares")
OF_THE_FIRST = (b"clients", b"swarm:config", b"swarm:flusher")
OF_EACH = re.compile(rb"live$|fence$|era$|wake:|swarm:|lock")
OF_A_SHARD = {"SUBSCRIBE": "SSUBSCRIBE", "PUBLISH": "SPUBLISH", "CHANNELS": "SHARDCHANNELS", "NUMSUB": "SHARDNUMSUB"}


def named_word(word, is_pattern, tag):
    """A key or a channel. What is not of a lock is meant to be in the partition of SHARED. Others stay as they are."""
    key = word if isinstance(word, bytes) else str(word).encode()
    if re.match(rb"[~&]rql:(?!\*$)", key):  # a right to some keys or channels
        return key[:5] + b"{*}:" + key[5:]
    if not key.startswith(b"rql:"):
        return word
    rest = key[4:]
    kind, colon, name = rest.partition(b":")
    if kind in OF_A_LOCK and colon:
        name = tag.encode() + name
        prefix, rest = prefix_of(name), kind + colon + name
    elif rest in OF_THE_FIRST:
        prefix = prefix_in(0)
    elif OF_EACH.match(rest):
        prefix = prefix_of(SHARED)
    else:
        return word
    return (b"rql:{*}:" if is_pattern else prefix.encode()) + rest


def named(words, tag=""):
    """A command, as it is for a cluster; names of locks get the tag."""
    words = [OF_A_SHARD.get(word, word) if isinstance(word, str) else word for word in words[:2]] + list(words[2:])
    is_pattern = words[0] in ("KEYS", "SCAN") or words[1:2] == ["SHARDCHANNELS"]
    return [named_word(word, is_pattern, tag) for word in words]


def tagged(words):
    """A call of the library, its names with SHARED."""
    def tag(name):
        return name and SHARED + name  # one that is empty or missing stays so
    tags = {"names": lambda names: [tag(name) for name in names], "name": tag, "wants": tag}
    return {key: tags[key](value) if key in tags else value for key, value in words.items()}


def plain(said):
    """A reply, or a text, without all that."""
    if isinstance(said, list):
        return [plain(part) for part in said]
    return re.sub(r"\brql:\{[0-9a-z]{5}\}:", "rql:", said).replace(SHARED, "") if isinstance(said, str) else said
