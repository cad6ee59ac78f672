"""The tags of the partitions are those that the script beside them prints."""
import subprocess
import sys


def complaints(root):
    folder = root / "src" / "wire"
    made = subprocess.run([sys.executable, folder / "make_partitions.py"], check=True, capture_output=True, text=True)
    if made.stdout != (folder / "partitions.def").read_text():
        yield "src/wire/partitions.def is not what make_partitions.py prints"
