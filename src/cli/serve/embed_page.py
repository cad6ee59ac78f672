#!/usr/bin/env python3
"""Turn a page into two C arrays of characters: the page, and its Content-Security-Policy, which allows the style and the
script in the page, by their hashes, and nothing else. Usage: embed_page.py NAME INPUT OUTPUT"""
import base64
import hashlib
import pathlib
import re
import sys

name, source, target = sys.argv[1:]
page = pathlib.Path(source).read_text(encoding="ascii").encode()  # as characters of C


def sources(tag):
    """The hash of each element of this name, as a policy has it."""
    texts = re.findall(rb"<%s>(.*?)</%s>" % (tag, tag), page, re.S)
    if len(texts) != 1 or page.count(b"<" + tag) != 1:
        sys.exit(f"{source}: has not exactly one <{tag.decode()}> without attributes")
    return "'sha256-" + base64.b64encode(hashlib.sha256(texts[0]).digest()).decode() + "'"


policy = "; ".join([
    "default-src 'none'", "script-src " + sources(b"script"), "style-src " + sources(b"style"), "img-src data:",
    "connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
])


def array(symbol, data):
    data += b"\0"
    rows = [", ".join(map(str, data[i : i + 20])) for i in range(0, len(data), 20)]
    return f"extern const char {symbol}[];\n\nconst char {symbol}[] = {{\n    " + ",\n    ".join(rows) + ",\n};\n"


pathlib.Path(target).write_text(f"/* Made from {pathlib.Path(source).name}. */\n" + array(name, page)
                                + array(name + "_policy", policy.encode()))
