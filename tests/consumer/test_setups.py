#!/usr/bin/env python3
"""What `meson setup` makes of the options of the build, with the packages that a machine may have or lack.

Usage: test_setups.py SOURCE_FOLDER CC    Standard library only; nothing is compiled.
"""
import functools
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import tap  # noqa: E402
from checks import Failure, LeftOut  # noqa: E402

SOURCE, CC = sys.argv[1:3]
LIBRARY = ("hiredis", "libuv")
PROGRAM = (*LIBRARY, "libcjson")
TLS = ("openssl", "libssl", "libcrypto")
FOLDER = tempfile.TemporaryDirectory(prefix="rql-test-")


@functools.cache  # several tests look at one
class Setup:
    """One build folder, set up where pkg-config knows the named packages and no others."""

    def __init__(self, packages, *options, works=True):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER.name))
        self.build = self.folder / "build"
        for package in packages:
            path = subprocess.check_output(["pkg-config", "--variable=pcfiledir", package], text=True).strip()
            shutil.copy(f"{path}/{package}.pc", self.folder)
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PKG_CONFIG")}
        done = subprocess.run(["meson", "setup", *options, self.build, SOURCE], check=False, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**kept, "CC": CC, "PKG_CONFIG_LIBDIR": str(self.folder),
                                   "CMAKE": "false"})  # which would find what pkg-config must not
        self.said = done.stdout
        check((done.returncode == 0) == works, self, "the set-up failed" if works else "the set-up passed over it")

    def look(self, what):
        return json.loads(subprocess.check_output(["meson", "introspect", what, self.build]))

    def programs(self):
        return {target["name"] for target in self.look("--targets") if target["type"] == "executable"}

    def installed(self):
        targets = [target for target in self.look("--targets") if target["installed"]]
        return {pathlib.Path(name).name for target in targets for name in target["install_filename"]}


def check(good, setup, what):
    if not good:
        raise Failure(what + "\n" + setup.said)


def check_pkg_config(setup):
    lines = (setup.build / "meson-private/rql.pc").read_text().splitlines()
    needs = next(line for line in lines if line.startswith("Requires.private:"))
    check("hiredis" in needs and "libuv" in needs, setup, f"rql.pc: {lines}")


def test_a_plain_build_is_library_and_program():
    plain = Setup(PROGRAM)
    check(plain.programs() == {"rql"}, plain, f"programs: {plain.programs()}")
    check(not plain.look("--tests"), plain, "it has tests")
    check("rql" in plain.installed(), plain, f"installed: {plain.installed()}")
    check_pkg_config(plain)


def test_loader_and_pkg_config_find_a_plain_build():
    """README's installation, on a machine with README's packages; elsewhere the set-up says what is wrong."""
    said = subprocess.run(["/sbin/ldconfig", "-NXv"], check=False, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT).stdout
    looked_in = re.findall(r"(?:^|Can't stat )(/[^:\n]*):", said, re.M)  # also where nothing has been installed so far
    asked = subprocess.check_output(["pkg-config", "--variable=pc_path", "pkg-config"], text=True).strip().split(":")
    plain = Setup(PROGRAM)
    folders = {pathlib.Path(path).name: os.path.dirname(path) for path in plain.look("--installed").values()}
    check(folders["librql.so"] in looked_in, plain, f"{folders['librql.so']}: the loader looks in {looked_in}")
    check(folders["rql.pc"] in asked, plain, f"{folders['rql.pc']}: pkg-config looks in {asked}")
    odd = Setup(PROGRAM, "-Dlibdir=lib64")
    check("install dpkg-dev" in odd.said or not os.path.exists("/etc/debian_version"), odd, "no warning")


def test_tls_comes_with_openssl_and_goes_without():
    """`auto`, the default, takes what is there; who asks for it is told what is missing."""
    for packages, options, has_tls in (LIBRARY + TLS, [], True), (LIBRARY, [], False), \
            (LIBRARY + TLS, ["-Dtls=disabled"], False):
        setup = Setup(packages, "-Dprogram=disabled", *options)
        needs = (setup.build / "meson-private/rql.pc").read_text()
        check(("openssl" in needs) == has_tls, setup, needs)
    setup = Setup(LIBRARY, "-Dprogram=disabled", "-Dtls=enabled", works=False)
    check("openssl" in setup.said, setup, "its name is not said")


def test_alerts_and_dashboard_come_with_the_program():
    for option, count in ("-Dprogram=enabled", 2), ("-Dprogram=disabled", 0):
        setup = Setup(PROGRAM, option)
        found = [path for path in setup.look("--installed").values() if path.startswith("/usr/local/share/rql/")]
        check(len(found) == count, setup, f"installed: {found}")


def with_needs(package):
    """The package and all that its .pc file names."""
    found = [package]
    for name in found:
        said = subprocess.check_output(["pkg-config", "--print-requires", "--print-requires-private", name], text=True)
        found += [line.split()[0] for line in said.splitlines() if line.split()[0] not in found]
    return tuple(found)


def test_http_comes_with_libmicrohttpd_and_goes_without():
    if subprocess.call(["pkg-config", "--exists", "libmicrohttpd"]) != 0:
        raise LeftOut("no libmicrohttpd")
    for packages, options, has_page in (PROGRAM + with_needs("libmicrohttpd"), [], True), (PROGRAM, [], False), \
            (PROGRAM + with_needs("libmicrohttpd"), ["-Dserve=disabled"], False):
        setup = Setup(packages, *options)
        check(("page" in {target["name"] for target in setup.look("--targets")}) == has_page, setup, f"page: not {has_page}")
    setup = Setup(PROGRAM, "-Dserve=enabled", works=False)
    check("libmicrohttpd" in setup.said, setup, "its name is not said")


def test_units_come_with_systemd_and_the_program():
    """Where systemd looks, of both prefixes that it looks below; and nowhere else for a copy elsewhere."""
    if subprocess.call(["pkg-config", "--exists", "systemd"]) != 0:
        raise LeftOut("no systemd")
    told = subprocess.check_output(["pkg-config", "--variable=systemdsystemunitdir", "systemd"], text=True).strip()
    for options, folder in ([], "/usr/local/lib/systemd/system"), (["--prefix=/usr"], told), \
            (["--prefix=/opt/x"], "/opt/x/lib/systemd/system"), (["-Dsystemd=disabled"], None), \
            (["-Dprogram=disabled"], None):
        setup = Setup((*PROGRAM, "systemd"), *options)
        units = [path for path in setup.look("--installed").values() if "systemd" in path]
        check({os.path.dirname(path) for path in units} == ({folder} if folder else set()), setup, f"{units}")
    setup = Setup(PROGRAM)
    check("systemd" not in str(setup.look("--installed")), setup, "there are units")
    setup = Setup(PROGRAM, "-Dsystemd=enabled", works=False)
    check("systemd" in setup.said, setup, "its name is not said")


def test_a_missing_cjson_is_named():
    setup = Setup(LIBRARY, works=False)
    check("libcjson-dev" in setup.said, setup, "its name is not said")
    check("-Dprogram=disabled" in setup.said, setup, "the way on is not said")


def test_a_program_that_cannot_be_run_has_no_pages():
    """They are made by itself; those of the library by a script."""
    native = Setup(PROGRAM)
    check({"rql.1", "rql-run.1", "man3"} <= native.installed(), native, f"installed: {native.installed()}")
    machine = pathlib.Path(FOLDER.name, "machine.ini")
    machine.write_text(
        f"[binaries]\nc = {shlex.split(CC)}\npkgconfig = 'pkg-config'\n[properties]\nneeds_exe_wrapper = true\n"
        "[host_machine]\nsystem = 'linux'\ncpu_family = 'x86_64'\ncpu = 'x86_64'\nendian = 'little'\n")
    cross = Setup(PROGRAM, "--cross-file", machine)
    check("manual pages are left out" in cross.said, cross, "nothing is said of it")
    check({"rql", "man3"} <= cross.installed(), cross, f"installed: {cross.installed()}")
    check(not {"rql.1", "rql-run.1"} & cross.installed(), cross, f"installed: {cross.installed()}")


def test_libraries_of_both_kinds_and_the_demonstration_need_no_cjson():
    setup = Setup(LIBRARY, "-Dprogram=disabled", "-Dbench=enabled", "-Ddefault_library=both")
    check("rql-demo" in setup.programs(), setup, f"programs: {setup.programs()}")
    check("rql" not in setup.programs(), setup, "the program is there")
    check({"librql.a", "librql.so"} <= setup.installed(), setup, f"installed: {setup.installed()}")


def test_tests_that_are_asked_for_need_cmocka():
    setup = Setup(PROGRAM, "-Dtests=enabled", works=False)
    check("cmocka" in setup.said, setup, "its name is not said")


if __name__ == "__main__":
    tap.main(n_own=2)
