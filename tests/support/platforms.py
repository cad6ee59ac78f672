"""The stage platforms of tests/run.sh: other C libraries, and other processors."""
import os
import shutil

from other_debian import DEBIAN, make_debian
from runner import JOBS, OUT, ROOT, SUDO

PLATFORMS = ROOT / "tests/platforms"
EMULATED = PLATFORMS / "emulated.sh"
CHECK_GLIBC = ROOT / "tests/api/check_glibc.py"
CACHE = os.environ.get("RQL_STATIC_CACHE") or str(OUT / "static-cache")
RELEASE = ("-Dbuildtype=release", "-Dtls=enabled")
# Nothing is removed: Debian's cross compilers and gcc-multilib exclude each other.
INSTALL = "apt-get update && apt-get install -y --no-install-recommends --no-remove "
# A program of theirs -> packages, where it is missing.
NEEDED = {
    "cmake": "linux-libc-dev dpkg-dev cmake make perl pkg-config",
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
    "arm-linux-gnueabihf-gcc": "gcc-arm-linux-gnueabihf libc6-dev-armhf-cross",
    "qemu-arm-static": "qemu-user-static",
}
EMULATED_ARCHITECTURES = ("arm64", "armhf")
NATIVE_SUITES = ("unit", "server", "scenario", "cli")
# At a tenth of the speed: every module, the futex of a 32-bit program, and commands of the program that guard no other
# one, which QEMU cannot run.
EMULATED_SUITES = ("unit", "time64")
EMULATED_CLI = ("cli", "sweep")
PACKAGES_OF_DEBIAN11 = ("gcc libc6-dev ninja-build python3 pkg-config dpkg-dev libhiredis-dev libuv1-dev libcjson-dev "
                        "libssl-dev").split()


def stage_platforms(run):
    """musl on x86-64, arm64 and armhf: tests with shared objects of musl, and the program as one static file. glibc 2.28
    as the oldest: what is built on Debian 11, and for arm64 and armhf what is built by Debian's compilers."""
    for program, packages in NEEDED.items():
        if not shutil.which(program):
            run.quietly("packages", *SUDO, "sh", "-c", INSTALL + packages, mode="a")
    verdicts = [check_musl(run, architecture) for architecture in ("x86_64", *EMULATED_ARCHITECTURES)]
    run.under = []
    return all([*verdicts, check_debian11(run), *(check_names(run, one) for one in EMULATED_ARCHITECTURES)])


def skip(run, what, log):
    """Says what is missing: the last line of the log."""
    lines = log.read_text(errors="replace").splitlines() or ["no reason given"]
    run.say(f"skipped: {what}: {lines[-1]}")
    return run.add((0, 0, 1))


def last_line(run, what, name, *words):
    """(whether it succeeded or was skipped, the last line that a command printed). Exit status 3: something is missing."""
    log = run.log_of(name)
    status = run.call(log, *words, env={"RQL_STATIC_CACHE": CACHE})
    if status == 3:
        return skip(run, what, log), None
    if status:
        run.show_end(log)
        return run.verdict(False, name, log), None
    return True, log.read_text().splitlines()[-1]


# ---- musl ----

def check_musl(run, architecture):
    what = f"musl on {architecture}"
    run.under = ["sh", EMULATED, architecture] if architecture in EMULATED_ARCHITECTURES else []
    is_good, libraries = last_line(run, what, f"platforms-libraries-{architecture}",
                                   ROOT / ".pkg/static/build-libraries", architecture)
    if not libraries:
        return is_good
    log = run.log_of(f"platforms-emulator-{architecture}")
    can_run = run.call(log, *run.under, "true") == 0
    if not can_run:
        skip(run, f"the tests with {what}", log)
    return all([not can_run or check_shared(run, architecture, libraries), check_static(run, architecture, can_run)])


def check_shared(run, architecture, libraries):
    """Tests whose programs use shared objects. A tree keeps the compiler that it was set up with."""
    tree = f"musl-{architecture}-{libraries.rpartition('-')[2]}"
    options = [*RELEASE, "--cross-file", f"{libraries}/musl.ini"]
    if not run.under:
        return run.build(tree, "gcc", *options) and run.check(tree, *map("--suite={}".format, NATIVE_SUITES))
    run.test_env["RQL_TEST_SLOW"] = "3"
    return (run.build(tree, "gcc", *options, "--cross-file", wrapper_file(run, architecture),
                      suites=[*EMULATED_SUITES, "cli"])
            and all([run.check(tree, *chosen, options=["--timeout-multiplier=5"])
                     for chosen in (map("--suite={}".format, EMULATED_SUITES), map("test_{}".format, EMULATED_CLI))]))


def wrapper_file(run, architecture):
    """Tells meson what runs its programs."""
    path = OUT / f"emulated-{architecture}.ini"
    path.write_text(f"[binaries]\nexe_wrapper = {[str(word) for word in run.under]}\n")
    return path


def check_static(run, architecture, can_run):
    folder = OUT / f"static-{architecture}"
    is_good, said = last_line(run, f"the static program for {architecture}", f"platforms-static-{architecture}",
                              ROOT / ".pkg/build-static", folder, architecture)
    if not said:
        return is_good
    run.say(said)
    run.add((1, 0, 0))
    return not can_run or run.one_test(f"platforms-static-{architecture}-test", *run.under, "python3",
                                       PLATFORMS / "test_static.py", folder / "rql",
                                       env={"RQL_TEST_REDIS": run.server or shutil.which("redis-server")})


# ---- glibc ----

def unpack(run, what, folder, *packages):
    """Packages of Debian 12 in a folder. Returns as last_line() does."""
    return last_line(run, what, f"platforms-{folder.name}-packages", "sh", PLATFORMS / "unpack.sh", folder, *packages)


def made_in(tree):
    return [tree / "src/librql.so", tree / "src/cli/rql"]


def check_debian11(run):
    """Debian 11 has glibc 2.31, and what is built there asks for the versions of that time. Its meson is too old."""
    what, folder = "glibc 2.28 by version", OUT / "debian11-build"
    folder.mkdir(exist_ok=True)
    is_good, meson = unpack(run, what, folder / "meson", "meson:amd64/bookworm")
    if not meson:
        return is_good
    system = make_debian(run, "bullseye", "RQL_DEBIAN11_DIR", "debian11", *PACKAGES_OF_DEBIAN11)
    if not system:
        return skip(run, f"{what}: no Debian 11 could be made", OUT / f"{run.name}.log")
    shutil.rmtree(folder / "made", ignore_errors=True)
    build = (f"python3 /build/meson/usr/bin/meson setup /build/made /source {' '.join(RELEASE)} && "
             f"ninja -C /build/made -j {JOBS}")
    if not run.quietly("platforms-debian11", *SUDO, "sh", DEBIAN, "run", system, ROOT, folder, "env",
                       "PYTHONPATH=/build/meson/usr/lib/python3/dist-packages", "sh", "-c", build):
        return run.verdict(False, "build on Debian 11", OUT / "platforms-debian11.log")
    return run.one_test("platforms-debian11-glibc", "python3", CHECK_GLIBC, "--by-version", *made_in(folder / "made"))


CROSS_FILE = """\
[host_machine]
system = 'linux'
cpu_family = '{family}'
cpu = '{family}'
endian = 'little'
[binaries]
c = '{triplet}-gcc'
ar = '{triplet}-ar'
strip = '{triplet}-strip'
pkgconfig = 'pkg-config'
[properties]
sys_root = '{folder}'
pkg_config_libdir = '{folder}/usr/lib/{triplet}/pkgconfig'
[built-in options]
c_args = ['-isystem', '{folder}/usr/include/{triplet}']
c_link_args = ['-L{folder}/usr/lib/{triplet}', '-Wl,-rpath-link,{folder}/usr/lib/{triplet}']
"""
LIBRARIES_OF_DEBIAN12 = ("libhiredis-dev libhiredis0.14 libuv1-dev libuv1 libcjson-dev libcjson1 libssl-dev "
                         "libssl3").split()


def check_names(run, architecture):
    """Built by Debian's compiler with Debian's libraries, and not run."""
    what = f"glibc 2.28 by name on {architecture}"
    triplet, family = {"arm64": ("aarch64-linux-gnu", "aarch64"), "armhf": ("arm-linux-gnueabihf", "arm")}[architecture]
    folder, tree = OUT / f"glibc-{architecture}-libraries", f"glibc-{architecture}"
    if not shutil.which(f"{triplet}-gcc"):
        run.say(f"skipped: {what}: there is no {triplet}-gcc")
        return run.add((0, 0, 1))
    is_good, libraries = unpack(run, what, folder, *(f"{name}:{architecture}/bookworm" for name in LIBRARIES_OF_DEBIAN12))
    if not libraries:
        return is_good
    cross_file = OUT / f"{tree}.ini"
    cross_file.write_text(CROSS_FILE.format(triplet=triplet, family=family, folder=folder))
    return (run.build(tree, "gcc", *RELEASE, "-Dtests=disabled", "--cross-file", cross_file, targets=["src/cli/rql"])
            and run.one_test(f"platforms-{tree}-names", "python3", CHECK_GLIBC, f"{triplet}-gcc", *made_in(OUT / tree)))
