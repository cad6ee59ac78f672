"""How keys are named in a cluster: each name belongs to one of 128 partitions, each of which has a tag that its keys
begin with (lua/README.md). Standard library only."""
import binascii
import functools
import itertools
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
def tag_of(partition):
    """Two hex digits, and the first three letters by which it is nearest to the middle of the partition."""
    middle = WIDTH * partition + WIDTH // 2
    tags = (f"{partition:02x}{''.join(letters)}" for letters in itertools.product(string.ascii_lowercase, repeat=3))
    return min(tags, key=lambda tag: abs(slot_of(tag) - middle))


def prefix_of(name):
    """Of all keys that have to do with a lock."""
    return f"rql:{{{tag_of(partition_of(name))}}}:"


def slot_of_lock(name):
    """Where all of its partition's keys are, which need not be the name's own slot."""
    return slot_of(prefix_of(name))
