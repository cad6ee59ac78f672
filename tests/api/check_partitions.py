#!/usr/bin/env python3
"""The tags of the partitions are those that the script beside them prints. Usage: check_partitions.py REPOSITORY"""
import pathlib
import subprocess
import sys


def main(root):
    folder = pathlib.Path(root).resolve() / "src" / "wire"
    made = subprocess.run([sys.executable, folder / "make_partitions.py"], check=True, capture_output=True, text=True)
    is_same = made.stdout == (folder / "partitions.def").read_text()
    print("" if is_same else "src/wire/partitions.def is not what make_partitions.py prints")
    return not is_same


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
