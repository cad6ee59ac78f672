#!/usr/bin/env python3
"""Prints partitions.def: the tag of each partition.

usage: make_partitions.py > partitions.def

A tag is two hex digits of the partition and three letters: of all that begin so, the first whose slot is nearest to
the middle of the partition's slots.
"""

import binascii
import itertools
import string

HEAD = """\
/* The tags of the 128 partitions, from 0 on, as make_partitions.py prints them. They are a part of
 * the protocol: the keys of partition p begin with "rql:{tag}:". Whoever includes it defines
 * PARTITION(tag). */

"""
SLOTS_EACH = 128


def keyslot(tag):
    return binascii.crc_hqx(tag.encode(), 0) % 16384


def tag_of(partition):
    middle = SLOTS_EACH * partition + SLOTS_EACH // 2
    tags = (f"{partition:02x}{''.join(letters)}" for letters in itertools.product(string.ascii_lowercase, repeat=3))
    return min(tags, key=lambda tag: abs(keyslot(tag) - middle))


def main():
    rows = "".join(f'PARTITION("{tag_of(partition)}")\n' for partition in range(128))
    print(HEAD + rows + "\n#undef PARTITION")


if __name__ == "__main__":
    main()
