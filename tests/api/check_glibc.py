#!/usr/bin/env python3
"""Check that library and program use no function that is newer than glibc 2.28.

Usage: check_glibc.py COMPILER FILE...
       check_glibc.py --by-version FILE...    of files that were linked with a glibc that is about that old

A name that a file imports is looked up in the libraries of the compiler's glibc: one of its versions has to be that old.
The version that the file itself asks for says nothing, because the linker takes the newest. Left out are names that the
headers of a new glibc put in place of old ones, which a build with old headers does not have.

By version it is the other way round: where an old glibc was linked, the versions that the file asks for are what counts.
"""
import re
import subprocess
import sys

OLDEST = (2, 28)
LIBRARIES = "libc.so.6", "libm.so.6"
REPLACED = re.compile(r"(f|l)?stat(at)?(64)?$|__isoc23_")


def lines_of(*words):
    return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines()


def versions_of(library, compiler):
    """Name -> its oldest version there."""
    oldest = {}
    for line in lines_of("readelf", "-W", "--dyn-syms", lines_of(compiler, f"-print-file-name={library}")[0]):
        found = re.search(r"\s(\S+?)@{1,2}GLIBC_(\d+)\.(\d+)", line)
        if found and " UND " not in line:
            version = int(found[2]), int(found[3])
            oldest[found[1]] = min(version, oldest.get(found[1], version))
    return oldest


def too_new(file, oldest):
    names = {line.split()[-1].split("@")[0] for line in lines_of("nm", "-D", "--undefined-only", file)}
    if not names & oldest.keys():
        sys.exit(f"{file}: imports nothing of glibc, which cannot be")
    return sorted(name for name in names if oldest.get(name, OLDEST) > OLDEST and not REPLACED.match(name))


def versions_wanted(file):
    """(name, version) of all that the file imports of glibc."""
    found = [re.fullmatch(r"(\S+)@GLIBC_(\d+)\.(\d+)\S*", line.split()[-1])
             for line in lines_of("nm", "-D", "--undefined-only", "--with-symbol-versions", file)]
    wanted = [(one[1], (int(one[2]), int(one[3]))) for one in found if one]
    if not wanted:
        sys.exit(f"{file}: imports nothing of glibc, which cannot be")
    return wanted


def check_versions(*files):
    wrong = 0
    for file in files:
        wanted = versions_wanted(file)
        newest = max(version for _, version in wanted)
        print(f"{file}: glibc {text_of(newest)}")
        for name, version in wanted:
            if version > OLDEST:
                print(f"{file}: {name} is of glibc {text_of(version)}")
                wrong = 1
    return wrong


def text_of(version):
    return ".".join(map(str, version))


def main(compiler, *files):
    if compiler == "--by-version":
        return check_versions(*files)
    oldest = {name: version for library in LIBRARIES for name, version in versions_of(library, compiler).items()}
    wrong = [f"{file}: {name} is of glibc {text_of(oldest[name])}" for file in files
             for name in too_new(file, oldest)]
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
