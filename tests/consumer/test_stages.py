#!/usr/bin/env python3
"""What the scripts say: run.sh and the demo while something takes long, build-deb of what is missing.

Usage: test_stages.py SOURCE_FOLDER    prints TAP. Standard library only; programs that take long are stubs.
"""
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import tap  # noqa: E402
from checks import check, check_equal, check_in  # noqa: E402

SOURCE = sys.argv[1]
# What a command does here: it ends once the file is there.
WAITS = 'echo "as far as this"; until [ -e "$0" ]; do sleep 0.05; done; exit 7'


@contextlib.contextmanager
def stubs(programs):
    """A folder with programs that are found before the real ones, and the environment for that."""
    with tempfile.TemporaryDirectory(prefix="rql-test-") as folder:
        for name, does in programs.items():
            stub = pathlib.Path(folder, name)
            stub.write_text(f"#!/bin/sh\n{does}\n")
            stub.chmod(0o755)
        yield folder, {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "RQL_BUILD_DIR": f"{folder}/build"}


def check_progress(words, wanted, cwd=None, **more):
    """A command that goes on when its first line has been seen on standard error."""
    waits = f"exec sh -c '{WAITS}' \"$(dirname \"$0\")/go-on\""
    with stubs({"meson": waits, "dpkg-query": "echo installed"}) as (folder, env):
        go_on = f"{folder}/go-on"
        with subprocess.Popen([*words, go_on], env={**env, **more}, text=True, stdin=subprocess.DEVNULL, cwd=cwd,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            try:
                said = ""
                for line in process.stderr:
                    said += line
                    if line == wanted:
                        break
                pathlib.Path(go_on).touch()
                check_in(wanted, said)
                process.stderr.read()
                return process.wait()
            finally:
                process.kill()


def test_an_installation_and_a_build_show_how_far_they_are():
    script = f'. bench/setup.sh; progress_s=0.1; scratch=$(mktemp -d); with_progress "$scratch/log" sh -c \'{WAITS}\' "$0"'
    check_equal(check_progress(["sh", "-c", script], "  as far as this\n", cwd=SOURCE), 7, "exit status")


def test_a_stage_shows_how_far_it_is():
    script = f"exec sh '{SOURCE}/tests/run.sh' gcc"  # without the word that follows
    check_progress(["sh", "-c", script], "     gcc-setup: as far as this\n", RQL_PROGRESS_S="0.1")


def run_stage(stage, meson_does, **more):
    """(exit status, output) of run.sh where `meson` is a stub."""
    with stubs({"meson": meson_does, "ninja": "exit 0", "dpkg-query": "echo installed"}) as (folder, env):
        done = subprocess.run(["sh", f"{SOURCE}/tests/run.sh", stage], env={**env, **more}, check=False, text=True,
                              timeout=120, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return done.returncode, done.stdout.replace(folder, "FOLDER")


def test_a_stage_that_shows_what_its_command_says_ends_with_it():
    status, said = run_stage("demo", "exit 0", RQL_DEMO_RUNS="0")
    check(status == 0 and said.endswith("\n0 passed, 0 failed\n"), said)


def log_of(name, result, stdout):
    """A line of meson's log."""
    return json.dumps({"name": f"rql:unit / {name}", "result": result, "returncode": 1, "starttime": 0, "duration": 9,
                       "stdout": stdout, "stderr": ""})


def test_the_end_lists_failures_with_log_and_command_and_then_the_cost():
    points = "1..3\nok 1 - one\n# why\nnot ok 2 - two of them # 1 s\nok 3 - three\n# once more: RQL_TEST_SEED=42 two of them\n"
    lines = log_of("good", "OK", "1..1\nok 1 - it\n") + "\n" + log_of("bad", "FAIL", points)
    status, said = run_stage("gcc", """[ "$1" != test ] || { mkdir -p "$3/meson-logs"
        printf '%s\n' "$STUB_LOG" >"$3/meson-logs/run-gcc.json"; exit 1; }""", STUB_LOG=lines)
    end = re.escape("""
failures:
  gcc: bad: two of them (seed 42)
    log:   FOLDER/build/failed/gcc-bad.log
    again: RQL_TEST_SEED=42 sh tests/run.sh one bad "two of them"
""") + r"""processor time \d+ s \(user \d+ s, system \d+ s\), wall time \d+ s, foreign load \d+ %, steal \d+ %
3 passed, 1 failed
$"""
    check(status == 1 and re.search(end, said) and "# why\nnot ok 2 - two of them" in said, said)


def test_processor_time_of_a_process_counts_also_when_its_parent_has_ended():
    work = "import sys, time\nwhile time.process_time() < 1.5: pass\nopen(sys.argv[1], 'w')"
    status, said = run_stage("gcc", f"""[ $1 = setup ] || exit 1; done="$RQL_BUILD_DIR/done"; mkdir -p "$RQL_BUILD_DIR/gcc"
        setsid python3 -c "{work}" "$done" & until [ -e "$done" ]; do sleep 0.1; done""")
    used = re.search(r"^processor time (\d+) s", said, re.M)
    check(status == 1 and used and int(used[1]) >= 1, said)


def test_a_build_tree_is_made_anew_if_its_set_up_was_ended_early():
    for last, is_kept in (("coredata.dat", False), ("cmd_line.txt", True)):
        with stubs({"meson": "echo $*; exit 1", "dpkg-query": "echo installed"}) as (folder, env):
            private = pathlib.Path(folder, "build/gcc/meson-private")
            private.mkdir(parents=True)
            (private / last).touch()
            subprocess.run(["sh", f"{SOURCE}/tests/run.sh", "gcc"], env=env, check=False, stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
            said = pathlib.Path(folder, "build/gcc-setup.log").read_text()
            check_equal(("--reconfigure" in said, private.exists()), (is_kept, is_kept), last)


def test_packages_are_not_made_without_what_they_are_built_with():
    tools = dict.fromkeys(("git", "meson", "dh", "dpkg-buildpackage", "lintian"), "exit 0")
    missing = "echo dpkg-checkbuilddeps: error: unmet build dependencies: nothing:any; exit 1"
    check_refused({**tools, "dpkg-checkbuilddeps": missing}, "missing packages: nothing:any")


def test_packages_are_not_made_without_their_tools():
    check_refused({}, "there is no git: apt-get install git")


def test_packages_have_any_name_of_the_packer():
    meson = f"""case $1 in
dist) mkdir "$3/meson-dist" && tar -C '{SOURCE}' --transform s,^,rql-1/, -cJf "$3/meson-dist/rql-1.tar.xz" .pkg/debian ;;
setup) mkdir "$2" ;;
introspect) echo '{{"version": "1"}}' ;;
esac"""
    done = dict.fromkeys(("dh", "dpkg-checkbuilddeps", "lintian"), "exit 0")
    tools = {**done, "meson": meson, "git": "echo Thu, 24 Dec 2026 12:00:00 +0000",
             "dpkg-buildpackage": "cp debian/control debian/changelog .. && touch ../rql.deb"}
    with stubs(tools) as (folder, env):
        name = "R&D/Q\\A Team"
        subprocess.run([f"{SOURCE}/.pkg/build-deb", f"{folder}/packages"], check=True, stdout=subprocess.DEVNULL,
                       env={**env, "DEBFULLNAME": name, "DEBEMAIL": "rd@example.org"})
        packages = pathlib.Path(folder, "packages")
        check_in(f"\nMaintainer: {name} <rd@example.org>\n", (packages / "control").read_text())
        check_in(f"\n -- {name} <rd@example.org>  ", (packages / "changelog").read_text())


def check_refused(tools, said):
    """The script for packages says which one is missing, and makes nothing."""
    with stubs(tools) as (folder, _):
        done = subprocess.run(["/bin/sh", f"{SOURCE}/.pkg/build-deb", f"{folder}/packages"], check=False, text=True,
                              capture_output=True, env={"PATH": f"{folder}:{os.environ['PATH']}" if tools else folder})
        made = list(pathlib.Path(folder).glob("packages/*"))
        check_equal((done.returncode, done.stderr, made), (3, f"build-deb: {said}\n", []))


if __name__ == "__main__":
    tap.main(n_own=1)
