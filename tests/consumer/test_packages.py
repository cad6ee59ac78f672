#!/usr/bin/env python3
"""What tests/run.sh installs is all that the tests need; and README's first commands are there for the stage bare.

Usage: test_packages.py BUILD        prints TAP. Standard library only.

On a machine where more is installed nobody notices a missing package. So each header that a compiler has read for
BUILD, and each program that a script calls, has to be of a package that run.sh names, of one that these depend on, or
of the smallest Debian. The stage bare tries the same for real.
"""
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import tap  # noqa: E402
from checks import LeftOut, check, check_equal  # noqa: E402

BUILD = sys.argv[1]
ROOT = pathlib.Path(__file__).resolve().parents[2]
RUN = ROOT / "tests/run.sh"
SCRIPTS = [".ci/run", ".pkg/build-*", ".pkg/release", ".pkg/static/build-*", ".pkg/static/fetch", "tests/run.sh", "bench/*.sh",
           "tests/consumer/*.sh", "tests/platforms/*.sh", "tests/support/*.sh"]
DPKG = pathlib.Path("/var/lib/dpkg")
# Of the smallest Debian, and what README's reader has: apt, and sudo.
ALWAYS = {"required", "apt", "sudo"}
# Called only where they are there, or by name: for peers that are measured, another Debian, and another C library.
AT_WILL = {"valkey-server", "postgres", "etcd", "node", "npm", "debootstrap", "ccache", "systemctl", "cmake"}
WORDS = {"see", "print", "edit"}  # of messages, and of awk


def named_packages():
    text = RUN.read_text(encoding="utf-8")
    lists = re.findall(r"^(?:packages_gcc|packages_all|optional)=['\"]([^'\"]*)['\"]", text, re.M)
    check_equal(len(lists), 3, "lists of packages in run.sh")
    return {word for words in lists for word in words.split() if not word.startswith("$")}


def installed():
    """Name -> the fields of each package that is."""
    if not DPKG.is_dir():
        raise LeftOut("no Debian")
    found = {}
    for paragraph in (DPKG / "status").read_text(encoding="utf-8").split("\n\n"):
        fields = dict(re.findall(r"^([A-Z][\w-]*): (.*)$", paragraph, re.M))
        if fields.get("Status", "").endswith(" installed"):
            found[fields["Package"]] = fields
    return found


def names_in(relation):
    return [re.split(r"[ :(]", choice.strip())[0] for choice in re.split("[,|]", relation) if choice.strip()]


def closure(packages):
    """With all that they depend on, whichever of several choices is there."""
    there = installed()
    providers = collections.defaultdict(set)
    for name, fields in there.items():
        for provided in [name, *names_in(fields.get("Provides", ""))]:
            providers[provided].add(name)
    always = {name for name, fields in there.items() if fields.get("Priority") in ALWAYS or name in ALWAYS}
    runtime = [name for name in there if name.startswith("libclang-rt-")]  # run.sh finds out which
    found, left = set(), [*packages, *always, *runtime]
    while left:
        for name in providers[left.pop()] - found:
            found.add(name)
            fields = there[name]
            left += names_in(fields.get("Depends", "") + "," + fields.get("Pre-Depends", ""))
    return found


def owners(paths):
    """Path -> its packages. Either name of a folder that is both /lib and /usr/lib."""
    wanted = {name: path for path in paths for name in (path, path.removeprefix("/usr"))}
    found = collections.defaultdict(set)
    for file in (DPKG / "info").glob("*.list"):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            if line in wanted:
                found[wanted[line]].add(file.name.removesuffix(".list").partition(":")[0])
    return found


def check_owners(paths):
    """All of them that a package has. What has none was made here, or is of no Debian package. Ours may be installed:
    by the stage packages of another run, for a moment."""
    ours = re.findall(r"^Package: (\S+)$", (ROOT / ".pkg/debian/control").read_text(), re.M)
    known = closure(named_packages()) | set(ours)
    strange = {path: sorted(names) for path, names in owners(paths).items() if not names & known}
    check_equal(strange, {}, "files of packages that run.sh does not install")


def test_each_header_is_of_a_package_that_is_installed():
    said = subprocess.run(["ninja", "-C", BUILD, "-t", "deps"], check=True, text=True, stdout=subprocess.PIPE).stdout
    headers = {os.path.realpath(path) for path in set(re.findall(r"^    (/usr/\S+)$", said, re.M))}
    check(headers, "the build has read no header")
    check_owners(headers)


def called_in(text):
    """Words where a shell expects a command, and functions that are none."""
    text = re.sub(r"(^|\s)#.*", "", text)
    before = r"(?:^|[|;&({`!]|\bthen\b|\bdo\b|\belse\b|\bif\b|\bas_root\b|\bxargs(?: -\w+(?: \S+)?)*|\bhas\b|command -v)"
    return set(re.findall(before + r"\s*([a-z][\w.+-]*)(?=[\s;)\"']|$)", text, re.M)) - set(re.findall(r"^(\w+)\(\)", text, re.M))


def called_by_python(text):
    direct = r"(?:Popen|run|call|check_call|check_output|which)\(\[?\"([a-z][\w.+-]*)\""
    of_stages = r"(?:start|call|quietly|one_test)\((?:\w+, )?(?:f?\"[^\"]*\", )?\"([a-z][\w.+-]*)\""  # of run.sh
    return set(re.findall(direct, text) + re.findall(of_stages, text))


def test_each_program_is_of_a_package_that_is_installed():
    words = set()
    for pattern in SCRIPTS:
        for file in ROOT.glob(pattern):
            words |= called_in(file.read_text(encoding="utf-8"))
    for file in (ROOT / "tests").rglob("*.py"):
        words |= called_by_python(file.read_text(encoding="utf-8"))
    programs = {os.path.realpath(path) for word in words - AT_WILL - WORDS if (path := shutil.which(word))}
    check(len(programs) >= 20, f"no more programs than {programs}")
    check_owners(programs)


def test_what_packages_are_built_with_is_installed():
    """dpkg asks for build-essential as well."""
    control = (ROOT / ".pkg/debian/control").read_text(encoding="utf-8")
    needed = re.search(r"^Build-Depends:\n((?: .*\n)*)", control, re.M).group(1)
    there, known = installed(), closure(named_packages())
    for relation in [*needed.split(",\n"), "build-essential"]:
        names = set(names_in(relation.strip()))
        suit = {name for name, fields in there.items()
                if names.intersection([name, *names_in(fields.get("Provides", ""))])}
        check(not suit or suit & known, f"run.sh installs no {relation.strip()}")


def first_hour(readme):
    return subprocess.run([sys.executable, str(ROOT / "tests/support/first_hour.py"), str(readme)], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def test_the_stage_bare_has_readmes_commands_in_its_order():
    script = first_hour(ROOT / "README.md")
    wanted = ["sudo apt install ", ".pkg/build-deb ", "sudo apt install ./build-packages/", ".pkg/build-static ",
              "sudo install build-static/rql ", "meson setup build ", "sudo ldconfig", "sh bench/demo.sh",
              "rql_lock_acquire(", "cc report.c ", "./a.out", "rql ping", "sh tests/run.sh"]
    places = [script.find(text) for text in wanted]
    check(-1 not in places and places == sorted(places), script)


def test_it_ends_with_the_first_command_that_fails():
    readme = pathlib.Path(BUILD, "first-hour-README.md")
    readme.write_text("```sh\necho one # a remark\nexit 5\necho two\n```\n```c\nint main\n```\n`cc a.c`\n```sh\nrql ping\n```\n\n`sh tests/run.sh`\n")
    done = subprocess.run(["sh"], input=first_hour(readme), text=True, stdout=subprocess.PIPE, check=False)
    readme.unlink()
    lines = done.stdout.splitlines()
    check_equal((done.returncode, lines[1], lines[-1], "two" in lines), (1, "one", "1 passed, 1 failed", False), done)


if __name__ == "__main__":
    tap.main(n_own=1)
