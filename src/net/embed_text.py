#!/usr/bin/env python3
"""Turn a text file into a C array of characters. Usage: embed_text.py NAME INPUT OUTPUT"""
import pathlib
import sys

name, source, target = sys.argv[1:]
data = pathlib.Path(source).read_bytes() + b"\0"
rows = [data[i : i + 20] for i in range(0, len(data), 20)]
text = ",\n".join("    " + ", ".join(str(byte) for byte in row) for row in rows)
pathlib.Path(target).write_text(
    f"/* Made from {pathlib.Path(source).name}. */\n"
    f"extern const char {name}[];\n\nconst char {name}[] = {{\n{text},\n}};\n"
)
