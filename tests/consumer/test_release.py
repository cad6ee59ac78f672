#!/usr/bin/env python3
"""A release is refused where places disagree on its version, and is the same from any folder.

Usage: test_release.py ROOT        prints TAP. Standard library only.

The released program is built in the stage platforms; here only the sources are packed.
"""
import contextlib
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import tap  # noqa: E402
from checks import LeftOut, check_equal, check_in  # noqa: E402

ROOT = pathlib.Path(sys.argv[1]).resolve()
VERSION, DATE = "0.2.0", "2026-12-24"
PACKAGES = ["rpm/librql.spec, Version", "Containerfile, label and tags", "alpine/APKBUILD, pkgver",
            "nix/default.nix, version", "alpine/APKBUILD, names of the tarball", "homebrew/rql.rb, names of the tarball",
            "wrap/rql.wrap, names of the tarball"]


@contextlib.contextmanager
def clone():
    """A copy of the sources as they are here, in a repository of its own."""
    with tempfile.TemporaryDirectory(prefix="rql-release-") as folder:
        copy = pathlib.Path(folder, "a/copy")
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, check=False)
        if listed.returncode != 0:
            raise LeftOut("this is no clone")
        for name in filter(None, listed.stdout.decode().split("\0")):
            if (ROOT / name).is_file():
                there = copy / name
                there.parent.mkdir(parents=True, exist_ok=True)
                there.write_bytes((ROOT / name).read_bytes())
                there.chmod((ROOT / name).stat().st_mode)
        git(copy, "init", "-q")
        commit(copy)
        yield copy


def git(copy, *words):
    who = {f"GIT_{role}_{what}": text for role in ("AUTHOR", "COMMITTER")
           for what, text in (("NAME", "x"), ("EMAIL", "x@example.org"), ("DATE", "2026-12-24T12:00:00Z"))}
    subprocess.run(["git", "-C", copy, *words], env={**os.environ, **who}, check=True, capture_output=True)


def commit(copy):
    git(copy, "add", "-A", "-f")
    git(copy, "commit", "-q", "-m", "all")


def change(copy, name, pattern, text):
    path = copy / name
    changed, count = re.subn(pattern, text, path.read_text(encoding="utf-8"), count=1)
    check_equal(count, 1, name)
    path.write_text(changed, encoding="utf-8")


def release(copy, folder, version=VERSION):
    return subprocess.run([copy / ".pkg/release", version, copy.parent / folder, "--source-only"], text=True,
                          capture_output=True, check=False)


def make_ready(copy):
    change(copy, "CHANGELOG.md", rf"## {VERSION} \(.*\)", f"## {VERSION} ({DATE})")
    change(copy, "meson.build", r"manual_date = '[\d-]*'", f"manual_date = '{DATE}'")
    change(copy, "README.md", rf"Version {VERSION}, not released yet: .*? compatible\.", f"Version {VERSION}.")


def test_what_disagrees_is_named():
    with clone() as copy:
        make_ready(copy)
        commit(copy)
        check_equal(release(copy, "r").returncode, 0)
        refused = release(copy, "r", "9.9.9")
        check_equal(refused.returncode, 1)
        for line in (f"CHANGELOG.md, first heading: {VERSION} ({DATE}) in place of 9.9.9 (YYYY-MM-DD)",
                     f"meson.build, version: {VERSION} in place of 9.9.9",
                     f"README.md, version: {VERSION} in place of 9.9.9",
                     *(f".pkg/{place}: {VERSION} in place of 9.9.9" for place in PACKAGES)):
            check_in("release: " + line, refused.stderr)
        change(copy, "README.md", "Linux;", "not released; Linux;")
        refused = release(copy, "r")
        check_equal(refused.returncode, 1)
        check_in('release: README.md, lines that say "not released": 1 in place of 0', refused.stderr)
        check_in("release: changes that are not committed: 1 in place of 0", refused.stderr)


def test_the_same_commit_gives_the_same_files():
    with clone() as copy:
        make_ready(copy)
        commit(copy)
        sums = []
        for folder in ("r", "somewhere/else"):
            done = release(copy, folder)
            check_equal((done.returncode, done.stderr), (0, ""))
            sums.append(done.stdout)
            check_equal((copy.parent / folder / "SHA256SUMS").read_text(encoding="utf-8"), done.stdout)
        check_equal(sums[0], sums[1])
        made = copy.parent / "r"
        for line in sums[0].splitlines():
            digest, name = line.split("  ")
            check_equal(hashlib.sha256((made / name).read_bytes()).hexdigest(), digest)
        for name, function in (("APKBUILD", "sha512"), ("default.nix", "sha256"), ("rql.rb", "sha256"),
                               ("rql.wrap", "sha256")):
            digest = hashlib.new(function, (made / f"librql-{VERSION}.tar.xz").read_bytes()).hexdigest()
            check_in(digest, (made / name).read_text(encoding="utf-8"))
        with tarfile.open(made / f"librql-{VERSION}.tar.xz") as sources:
            names = sources.getnames()
            wanted = {f"librql-{VERSION}/{name}" for name in ("meson.build", ".pkg/build-static")}
            check_equal(wanted - set(names), set())
            check_equal({member.mtime for member in sources if member.isfile()}, {1798113600})
        notes = (made / "NOTES.md").read_text(encoding="utf-8")
        check_equal("\n## " in notes, False)
        check_in("### Added", notes)


if __name__ == "__main__":
    tap.main(n_own=1)
