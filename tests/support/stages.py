#!/usr/bin/env python3
"""The stages of tests/run.sh, which calls this when the packages are installed.

Usage: stages.py "STAGE..." [WORD...]    words: for a stage that takes some

A stage is the function of its name. Its argument is the run; it returns whether everything passed. What a stage builds
by a function build_NAME can be built ahead of it, while the tests of another one wait.
"""
import json
import os
import re
import shutil
import subprocess
import sys

import tally
from other_debian import DEBIAN, make_debian
from platforms import stage_platforms  # noqa: F401  # by its name
from runner import JOBS, OUT, ROOT, SUDO, WITH_FIXED_ADDRESSES, Run

SUPPORT = ROOT / "tests/support"
# Suites of stages.
OF_PACKAGES = ("setups", "pages")
OF_LIGHT = ("api", "light")
OF_ASAN = ("unit", "server", "scenario", "golden", "fuzz", "budget", "sanitized")
OF_TSAN = ("unit", "server", "scenario", "golden", "soak")
LONG = {"RQL_TEST_LONG": "1"}
RELEASE = ("-Dbuildtype=release", "-Ddebug=true")
OF_32_BITS = "tests/unit/futex32.c"  # compiled only where the compiler has 32-bit libraries
SLOW_AT_ONCE = 2 * JOBS  # programs that a sanitizer, or the kind of server, makes slow


def sources(*suffixes):
    paths = [path for folder in ("include", "src", "swarm", "tests", "bench") for path in (ROOT / folder).rglob("*")]
    return sorted(str(path.relative_to(ROOT)) for path in paths if path.suffix in suffixes)


def server_of(run):
    return run.server or shutil.which("redis-server")


# ---- of the sources ----

def stage_format(run):
    return run.one_test("format", "clang-format", "--dry-run", "-Werror", *sources(".c", ".h"), cwd=ROOT)


def stage_docs(run):
    """An undocumented public name, parameter or result is an error."""
    settings = OUT / "Doxyfile"
    settings.write_text((ROOT / ".ci/Doxyfile").read_text() + f"OUTPUT_DIRECTORY = {OUT}/doc\n")
    return run.one_test("docs", "doxygen", settings, cwd=ROOT)


def stage_shell(run):
    return run.one_test("shell", "shellcheck", ".ci/run", ".pkg/alpine/APKBUILD", ".pkg/build-deb", ".pkg/build-static",
                        ".pkg/release", ".pkg/static/build-libraries", ".pkg/static/fetch", *sources(".sh", ".bash"), cwd=ROOT)


def stage_tidy(run):
    """Also that everything compiles without a warning of clang. The analyzer would take 95 % of the time: it follows
    fewer ways than in tidy_deep, and none in tests and benchmarks, which the sanitizers run. cppcheck takes the sources
    as they are compiled here, instead of trying each `#if`."""
    return run.verdict(build_tidy(run), "clang-tidy", OUT / "tidy-sources.log")


def build_tidy(run):
    bound = " ".join(f"--extra-arg={word}" for word in ("-Xclang", "-analyzer-config", "-Xclang", "max-nodes=5000"))
    return tidy(run, lambda path: "--checks=-clang-analyzer-*" if path.startswith(("tests", "bench")) else bound,
                "--max-configs=1")


def stage_tidy_deep(run):
    """By name only: with the analyzer's usual bounds for all files."""
    return run.verdict(tidy(run, lambda path: "", ""), "clang-tidy", OUT / "tidy-sources.log")


def tidy(run, options_of, cppcheck_options):
    """clang-tidy 14 reports false va_list errors for the second file that a process reads, or the same file with the
    flags of a second target: one file per process, and one target per file. ninja knows which are done already."""
    # Of the build only what files include, and each public header alone.
    if not run.build("tidy", "clang", "-Dbench=enabled", targets=["lua/script_ids.h", "headers"]):
        return False
    folder = OUT / "tidy-sources"
    folder.mkdir(exist_ok=True)
    commands = json.loads((OUT / "tidy/compile_commands.json").read_text())
    first = {command["file"]: command for command in reversed(commands)}
    (folder / "compile_commands.json").write_text(json.dumps(list(first.values())))
    root = str(ROOT).replace(" ", "$ ")
    headers = " ".join(f"{root}/{path}" for path in [*sources(".h"), ".clang-tidy"])
    lines = [f"rule tidy\n  command = cd '{ROOT}' && clang-tidy --quiet -p '{folder}' $options $path 2>/dev/null && "
             f"touch '{folder}'/$out\n  description = $path",
             f"rule cppcheck\n  command = cd '{ROOT}' && {CPPCHECK} {cppcheck_options} src && touch '{folder}'/$out\n"
             "  description = cppcheck"]
    if shutil.which("cppcheck"):
        lines.append(f"build cppcheck.done: cppcheck | {headers} {' '.join(f'{root}/{path}' for path in sources('.c'))}")
    lines += [f"build {path}.done: tidy {root}/{path} | {headers}\n  path = {path}\n  options = {options_of(path)}"
              for path in sources(".c") if path != OF_32_BITS or any(file.endswith(path) for file in first)]
    (folder / "build.ninja").write_text("\n".join([*lines, ""]))
    return run.quietly("tidy-sources", "ninja", "--quiet", "-C", folder, "-j", JOBS, "-k", 0)


# It knows neither cleanup attributes nor functions that do not return, nor that NULL is a pointer.
CPPCHECK = ("cppcheck --quiet --error-exitcode=1 --std=c11 --enable=warning,portability --inline-suppr -I include -I src "
            "--suppress=missingIncludeSystem --suppress=toomanyconfigs --suppress=memleak --suppress=ctuuninitvar "
            "--suppress=varFuncNullUB --suppress=nullPointerRedundantCheck --suppress=nullPointerArithmeticRedundantCheck")


# ---- of the build trees ----

def build_gcc(run, targets=(), suites=()):
    """As a user would build it, with the archive beside the shared library."""
    return run.build("gcc", "gcc", *RELEASE, "-Ddefault_library=both", "-Dbench=enabled", targets=targets, suites=suites)


def stage_gcc(run):
    return build_gcc(run) and run.check("gcc", *(f"--no-suite={suite}" for suite in (*OF_PACKAGES, "connectivity")))


def check_suites(run, tree, *suites, **more):
    return run.check(tree, *(f"--suite={suite}" for suite in suites), **more)


def build_light(run, targets=(), suites=OF_LIGHT):
    """Without logs, events and statistics."""
    return run.build("light", "gcc", "-Dlight=true", "-Dserve=disabled", *RELEASE, targets=targets, suites=suites)


def stage_light(run):
    return build_light(run) and check_suites(run, "light", *OF_LIGHT)


def build_asan(run, suites=OF_ASAN):
    """Also the tree of the fuzz targets: their coverage counters cost little. Not optimized: that takes four times as
    long, and hides mistakes."""
    return run.build("asan", "clang", "-Db_sanitize=address,undefined", "-Db_lundef=false", "-Doptimization=0",
                     "-Dc_args=-fsanitize=fuzzer-no-link", suites=suites)


def stage_asan(run):
    # A thread that ends by pthread_exit() or is cancelled leaves its stack marked as in use; with a stack of its own for
    # signals ASan then takes itself for a culprit at the thread's end.
    run.test_env.update(ASAN_OPTIONS="use_sigaltstack=0", UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1",
                        RQL_TEST_SHARE=os.environ.get("RQL_TEST_SHARE", "0"), RQL_TEST_SLOW="2")
    return build_asan(run) and check_suites(run, "asan", *OF_ASAN, options=["--timeout-multiplier=4"],
                                            at_once=SLOW_AT_ONCE)


def build_tsan(run):
    return run.build("tsan", "clang", "-Db_sanitize=thread", "-Db_lundef=false", "-Doptimization=0", suites=OF_TSAN)


def stage_tsan(run):
    run.test_env.update(TSAN_OPTIONS=f"halt_on_error=1:suppressions={SUPPORT}/tsan.supp",
                        RQL_TEST_SHARE=os.environ.get("RQL_TEST_SHARE", "1"), RQL_TEST_SLOW="2")
    return build_tsan(run) and check_suites(run, "tsan", *OF_TSAN, options=["--timeout-multiplier=4"],
                                            at_once=SLOW_AT_ONCE)


def stage_valgrind(run):
    """It is twenty times slower and runs one thread at a time: what uses each part once."""
    suites = ["unit", "memory"]
    return build_gcc(run, suites=suites) and check_suites(run, "gcc", *suites, at_once=2 * JOBS,
                                                          options=["--setup=valgrind", "--timeout-multiplier=3"])


def stage_valgrind_all(run):
    """By name only: half an hour."""
    if not build_gcc(run):
        return False
    is_good = run.check("gcc", "--suite=unit", "--suite=server", options=["--setup=valgrind"], at_once=JOBS)
    return run.check("gcc", "--suite=golden", options=["--setup=valgrind_remote"]) and is_good


def stage_budget(run):
    """Instructions of the client, and of the scripts. RQL_BUDGET=refresh writes them down."""
    pairs = "tests/budget/budget-pairs"
    if not (build_gcc(run, targets=[pairs]) and build_light(run, targets=[pairs], suites=())):
        return False
    words = ["--refresh"] if os.environ.get("RQL_BUDGET") == "refresh" else []
    words += [f"release={OUT}/gcc/{pairs}", f"light={OUT}/light/{pairs}"]
    log = run.log_of("budget-count")
    with open(log, "w", encoding="utf-8") as file:
        process = run.start("python3", ROOT / "tests/budget/count.py", *words, stdout=subprocess.PIPE, stderr=file,
                            text=True, env={"RQL_TEST_REDIS": server_of(run)})
        counts = [int(word) for word in process.communicate()[0].split()]
    lines = [line for line in log.read_text().splitlines() if not line.startswith("ok ")]
    if lines:
        run.say("\n".join(lines))
    if process.returncode or len(counts) != 3:
        return run.verdict(False, "budget/count.py", log)
    for line in lines:
        if line.startswith("FAILED"):
            run.note_failure("budget/count.py", log, line.removeprefix("FAILED").strip())
    return run.add(counts)


def stage_fuzz(run):
    """New inputs land beside the build, not in the checked-in corpus. All at once: each has one thread."""
    if not build_asan(run, ["fuzz"]):
        return False
    begun = []
    for source in sorted((ROOT / "tests/fuzz").glob("fuzz_*.c")):
        target = source.stem.removeprefix("fuzz_")
        found, log = OUT / "fuzz" / target, OUT / f"fuzz-{target}.log"
        found.mkdir(parents=True, exist_ok=True)
        with open(log, "w", encoding="utf-8") as file:
            begun.append((target, log, run.start(
                *WITH_FIXED_ADDRESSES, OUT / "asan/tests/fuzz" / source.stem,
                f"-max_total_time={os.environ.get('RQL_FUZZ_S', 10)}", "-print_final_stats=0", "-timeout=5",
                f"-artifact_prefix={found}-", found, ROOT / "tests/fuzz/corpus" / target, stdout=file,
                stderr=subprocess.STDOUT)))
    verdicts = []
    for target, log, process in begun:
        is_good = process.wait() == 0
        if not is_good:
            run.show_end(log)
        verdicts.append(run.verdict(is_good, f"fuzz_{target}", log))
    return all(verdicts)


def stage_packages(run):
    """Debian's packages: built, installed, used and removed. And what else only changes with the build's own files or
    with the manual."""
    is_good = build_gcc(run, suites=OF_PACKAGES) and check_suites(run, "gcc", *OF_PACKAGES)
    return (run.one_test("packages-build", ROOT / ".pkg/build-deb", OUT / "packages")
            and run.one_test("packages-use", "sh", ROOT / "tests/consumer/packages.sh", OUT / "packages",
                             " ".join(SUDO)) and is_good)


# ---- by name only ----

def run_scenario(run, name, *words, shown=r"# soak", env=None):
    """A program of tests/scenario by hand, in the tree of the stage gcc."""
    log = run.log_of(f"{run.name}-test")
    clock = OUT / "gcc/tests/support/rql-clock.so"
    status = run.call(log, *WITH_FIXED_ADDRESSES, "python3", ROOT / f"tests/scenario/{name}.py",
                      OUT / "gcc/tests/remote/remote", *words,
                      env={"RQL_TEST_REDIS": server_of(run), "RQL_TEST_CLOCK": str(clock), **(env or {})})
    said = log.read_text(errors="replace")
    lines = [line for _, lines in tally.failed_points(said) for line in lines]
    run.say("\n".join([*lines, *re.findall(rf"^{shown}.*$", said, re.M)]))
    return run.verdict(status == 0, name, log)


def minutes_of(run):
    return int(run.words[0]) if run.words else 10


def in_figures(run, suite, factor):
    """In full size, one after the other, with what it prints. `factor`: of its times."""
    run.test_env.update(LONG)
    is_good = build_gcc(run) and run.check("gcc", f"--suite={suite}", at_once=1,
                                           options=[f"--timeout-multiplier={factor}"])
    run.say_lines(r"^# (?!ok - ).*$")
    return is_good


def stage_faults(run):
    """Each operation meets each fault at each place."""
    return build_gcc(run) and run_scenario(run, "test_faults", env=LONG)


def check_with(run, kind, *chosen, share=None):
    """Once more, where each server is of this kind: tls, or cluster, of one node."""
    run.test_env.update(RQL_TEST_SERVER=kind, **({"RQL_TEST_SHARE": share} if share else {}))
    return run.check("gcc", *chosen, options=["--timeout-multiplier=3"], at_once=SLOW_AT_ONCE)


def stage_tls(run):
    """Every scenario by TLS."""
    return build_gcc(run) and check_with(run, "tls", "--suite=scenario")


def stage_cluster(run):
    """Every scenario, and the program, on clusters of one node."""
    return build_gcc(run) and check_with(run, "cluster", "--suite=scenario", "--suite=cli")


def stage_sample(run):
    """Not by name: scenarios of TLS, Sentinel, clusters and shards. By TLS and on clusters of one node the others that
    the day chooses; on clusters, of those about locks."""
    about_locks = "leases leaving lock observe outcomes queue reentry series waiting".split()
    return build_gcc(run, suites=["scenario"]) and all([
        check_suites(run, "gcc", "connectivity"), check_with(run, "tls", "--suite=scenario", share="2"),
        check_with(run, "cluster", *(f"scenario-{name}" for name in about_locks), share="3")])


def stage_connectivity(run):
    """TLS, and a master that sentinels watch, with a thousand locks held and waited for; and what is promised where
    servers fail, a minute of each row. Prints the figures."""
    return in_figures(run, "connectivity", 3)


def stage_timed(run):
    """An hour. What depends on time, again and again on a machine that is too busy for it; a run that was cut off goes
    on where it was."""
    return build_gcc(run) and run_scenario(run, "timed", OUT / "timed.done")


def stage_soak(run):
    """Everything goes wrong at random, for as many minutes as asked for."""
    return build_gcc(run) and run_scenario(run, "soak", env={"RQL_TEST_LONG": str(minutes_of(run))})


def stage_promises(run):
    """May two hold a lock, whatever fails? Each row of the promises for as many minutes as asked for."""
    return build_gcc(run) and run_scenario(run, "test_promises", shown=r"# .*grants",
                                           env={"RQL_TEST_LONG": str(minutes_of(run))})


def stage_guarantees(run):
    """Minutes. What README.md promises about the dead, in full size, with its figures."""
    return in_figures(run, "guarantees", 10)


def stage_explore(run):
    """The scripts in every order that more clients, calls and mishaps allow."""
    run.test_env.update(LONG)
    is_good = build_gcc(run) and run.check("gcc", "--suite=explore", options=["--timeout-multiplier=10"])
    run.say_lines(r"^(?:ok|not ok|#).*$")
    return is_good


def stage_mutants(run):
    """Half an hour. Mistakes that are planted one at a time, each to be found by the tests that
    tests/mutants/table.toml names; or with words those that are generated of these files. `python3 tests/mutants --help`
    explains both."""
    return run.follow("mutants", ".", "python3", ROOT / "tests/mutants", "--dir", OUT / "mutants", "--jobs", JOBS,
                      "--json", OUT / "mutants.json", *run.words, env={"RQL_TEST_REDIS": run.server})


def stage_coverage(run):
    """Which lines and branches the tests pass."""
    if not run.build("coverage", "gcc", "-Db_coverage=true", "-Dbench=enabled"):
        return False
    for old in (OUT / "coverage").rglob("*.gcda"):
        old.unlink()
    suites = (f"--suite={name}" for name in ("unit", "server", "scenario", "cli", "golden"))
    is_good = run.check("coverage", *suites, options=["--timeout-multiplier=3"])
    is_covered = run.one_test("coverage-lines", "python3", SUPPORT / "coverage.py", ROOT, OUT / "coverage")
    run.say((OUT / "coverage-lines.log").read_text().rstrip())
    return is_good and is_covered


def stage_demo(run):
    """The demo, again and again, a third of the runs beside two busy loops."""
    return (run.build("demo", "gcc", "-Dbuildtype=release", "-Dbench=enabled", targets=["bench/rql-demo"])
            and run.follow("demo", ".", "python3", ROOT / "tests/consumer/test_demo.py", OUT / "demo/bench/rql-demo",
                           os.environ.get("RQL_DEMO_RUNS", "300"), env={"RQL_TEST_REDIS": server_of(run)}))


# ---- another Debian ----

def stage_debian13(run):
    """The next Debian's compiler and libraries, with the servers that it has."""
    (OUT / "debian13-build").mkdir(exist_ok=True)
    packages = os.environ["RQL_PACKAGES"].split()
    system = make_debian(run, "trixie", "RQL_DEBIAN13_DIR", "debian13", *packages, "valkey-server")
    if not system:
        return run.verdict(False, "debootstrap", OUT / "debian13.log")
    return all([run.follow(f"debian13-{server}", r"^(ok  |FAIL) ", *SUDO, "sh", DEBIAN, "run", system, ROOT,
                           OUT / "debian13-build", "env", "RQL_BUILD_DIR=/build", f"RQL_JOBS={JOBS}",
                           f"RQL_TEST_REDIS=/usr/bin/{server}", "sh", "/source/tests/run.sh", "gcc")
                for server in ("redis-server", "valkey-server")])


# What was done, and is answered, at the new machine: the clone is there, and apt's questions get a yes.
BEGIN_FIRST_HOUR = """echo "APT::Get::Assume-Yes \\"true\\";" >/etc/apt/apt.conf.d/50yes &&
    cp -a /source/librql /root/ && cd /root/librql && exec sh /source/first-hour.sh "$@"
"""


def make_first_hour(run):
    """A clone of what is committed, and README's commands as a script."""
    folder = OUT / "bare"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    if not run.quietly("bare", "git", "clone", "--quiet", "--no-hardlinks", ROOT, folder / "librql"):
        return None
    script = subprocess.run(["python3", SUPPORT / "first_hour.py", folder / "librql/README.md"], check=True,
                            stdout=subprocess.PIPE).stdout
    (folder / "first-hour.sh").write_bytes(script)
    return folder


def stage_bare(run):
    """README from its first command to the last, on a Debian 12 that has nothing but apt and sudo."""
    system = make_debian(run, "bookworm", "RQL_DEBIAN12_DIR", "debian12", "sudo")
    if not system:
        return run.verdict(False, "debootstrap", OUT / "bare.log")
    folder = make_first_hour(run)
    if not folder:
        return False
    return run.follow("bare", r"^bare:|^ok  |^FAIL", *SUDO, "sh", DEBIAN, "try", system, folder, "env",
                      f"RQL_JOBS={JOBS}", "sh", "-c", BEGIN_FIRST_HOUR, "sh",
                      *os.environ.get("RQL_BARE_STAGES", "").split())


def run_one(run):
    """One test program in the tree of the stage gcc; its own targets are built by one.py."""
    if not (OUT / "gcc/build.ninja").exists() and not build_gcc(run, ["tests/support/rql-clock.so"]):
        return run.end()
    return os.execv(sys.executable, [sys.executable, SUPPORT / "one.py", OUT / "gcc", *run.words])


def main(names, *words):
    run = Run(words)
    if names == "one":
        return run_one(run)
    names = names.split()
    for number, name in enumerate(names, 1):
        coming = [f"build_{later}" for later in names[number:]]
        run.stage(name, globals()[f"stage_{name}"], [globals()[build] for build in coming if build in globals()])
    return run.end()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
