#!/usr/bin/env python3
"""The files of packages in .pkg have the version of meson.build, and its README names files that are there.

Usage: test_pkg_files.py ROOT        prints TAP. Standard library only.

What .pkg/README.md says about each package was tried by hand: most of the tools are not of Debian.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import tap  # noqa: E402
from checks import check, check_equal  # noqa: E402

ROOT = pathlib.Path(sys.argv[1]).resolve()
PKG = ROOT / ".pkg"
# File -> where it has the version. Each place occurs at least once.
PLACES = {
    "rpm/librql.spec": [r"^Version: +(\S+)$"],
    "Containerfile": [r"^LABEL org\.opencontainers\.image\.version=(\S+)$", r"\brql:([\d.]*\d)"],
    "alpine/APKBUILD": [r"^pkgver=(\S+)$", r"librql-(\d[\d.]*)\.tar"],
    "nix/default.nix": [r'^ *version = "(.*)";$'],
    "homebrew/rql.rb": [r"librql-(\d[\d.]*)\.tar"],
    "wrap/rql.wrap": [r"^directory = librql-(\S+)$", r"^source_url = .*/librql-(\d[\d.]*)\.tar",
                      r"^source_filename = librql-(\d[\d.]*)\.tar"],
}
# Where the release fills in the hash of the tarball, how often.
HASHES = {"alpine/APKBUILD": "@SHA512@", "nix/default.nix": "@SHA256@", "homebrew/rql.rb": "@SHA256@",
          "wrap/rql.wrap": "@SHA256@"}


def read(name):
    return (PKG / name).read_text(encoding="utf-8")


def version():
    return re.search(r"^ *version: '(.*)',$", (ROOT / "meson.build").read_text(encoding="utf-8"), re.M)[1]


def test_each_package_has_the_version_of_the_project():
    for name, places in PLACES.items():
        for place in places:
            check_equal(set(re.findall(place, read(name), re.M)), {version()}, f"{name}, {place}")


def test_each_hash_of_the_tarball_is_left_to_the_release():
    for name, mark in HASHES.items():
        check_equal(re.findall(r"@\w+@|\b[0-9a-f]{64,}\b", read(name)), [mark], name)


def test_the_page_names_files_that_exist_and_every_folder():
    page = read("README.md")
    named = set(re.findall(r"`\.pkg/([\w./-]+)", page))
    missing = sorted(name for name in named if not (PKG / name).exists())
    check_equal(missing, [], "named in .pkg/README.md, but not there")
    tops = {name.partition("/")[0] for name in named}
    check_equal(sorted({path.name for path in PKG.iterdir()} - tops - {"README.md"}), [], "not in .pkg/README.md")
    check(set(PLACES) <= named, f"not in .pkg/README.md: {sorted(set(PLACES) - named)}")


if __name__ == "__main__":
    tap.main(n_own=1)
