#!/usr/bin/env python3
"""The static rql of .pkg/build-static: one file that needs nothing of the system but a resolver's address and the
authorities, which it finds where Debian, Alpine and RHEL have them.

Usage: test_static.py PROGRAM [WORD...]    Standard library only.

The program runs in root folders that have little else, in namespaces of user and network of its own: there the tests may
serve names at port 53.
"""
import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import tap  # noqa: E402
from certificates import Authority, authority  # noqa: E402
from checks import LeftOut, check_equal  # noqa: E402
from private_server import PrivateServer, find_server  # noqa: E402

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
MOST_BYTES = 5_000_000
USUAL = {"Debian": "/etc/ssl/certs/ca-certificates.crt", "Alpine": "/etc/ssl/cert.pem",
         "RHEL": "/etc/pki/tls/certs/ca-bundle.crt"}
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
INSIDE = "RQL_TEST_INSIDE"
RESOLVER = "/etc/resolv.conf"
PATIENT = {"RQL_CONNECT_TIMEOUT_MS": "30000"}  # an emulator may need seconds for a handshake


class Root:
    """A root folder of the program, with copies of these files: path there -> path here, or text."""

    def __init__(self, files):
        self.folder = tempfile.TemporaryDirectory(prefix="rql-test-")
        self.path = pathlib.Path(self.folder.name)
        for place, what in {"/rql": PROGRAM, **files}.items():
            there = self.path / place.lstrip("/")
            there.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(what, pathlib.Path):
                shutil.copy(what, there)
            else:
                there.write_text(what)

    def run(self, *words, **env):
        def enter():
            os.chroot(self.path)
            os.chdir("/")
        return subprocess.run(["/rql", *words], check=False, text=True, stdin=subprocess.DEVNULL, capture_output=True,
                              env={**PATIENT, **env}, preexec_fn=enter)


@contextlib.contextmanager
def tls_server(certificate=None):
    """Yields a server's port."""
    with PrivateServer(certificate=certificate or authority().server) as server:
        yield server.tls_port


def ping(root, host, port, **env):
    return root.run("ping", f"rediss://{host}:{port}", **env)


def check_welcome(done):
    """An emulator, or a busy machine, is warned of a slow connection."""
    said = [line for line in done.stderr.splitlines() if "a new connection takes" not in line]
    check_equal((done.returncode, said), (0, []))


def check_refused(done, reason="certificate"):
    check_equal(done.returncode != 0 and reason in done.stderr, True, done.stderr)


def test_the_file_is_static_and_stripped_and_small():
    said = subprocess.check_output(["readelf", "-W", "--program-headers", "--sections", PROGRAM], text=True)
    check_equal([word for word in ("INTERP", "DYNAMIC", ".symtab", ".debug") if word in said], [])
    size = PROGRAM.stat().st_size
    check_equal(size <= MOST_BYTES, True, f"{size} bytes")


def test_it_says_its_version_in_an_empty_root():
    done = Root({}).run("--version")
    check_equal((done.returncode, done.stdout[:4]), (0, "rql "))


def find_authorities(path):
    with tls_server() as port:
        check_welcome(ping(Root({path: authority().file}), "127.0.0.1", port))


for system, usual in USUAL.items():
    tap.add(f"the authorities of {system} are found", find_authorities, usual)


def test_a_file_of_the_environment_comes_first():
    files = {"/own.crt": authority().file, **dict.fromkeys(USUAL.values(), Authority("another").file)}
    with tls_server() as port:
        check_refused(ping(Root(files), "127.0.0.1", port))
        check_welcome(ping(Root(files), "127.0.0.1", port, SSL_CERT_FILE="/own.crt"))


def test_an_unknown_authority_is_refused():
    with tls_server(Authority("another").issue("localhost")) as port:
        for files in ({}, {USUAL["Debian"]: authority().file}):
            check_refused(ping(Root(files), "127.0.0.1", port))


def test_a_certificate_of_another_host_is_refused():
    with tls_server(authority().issue("elsewhere", names="DNS:elsewhere.test")) as port:
        check_refused(ping(Root({USUAL["Alpine"]: authority().file}), "127.0.0.1", port), "mismatch")


def test_both_kinds_of_keys_are_known():
    for kind in ("ec", "rsa"):
        made = Authority(kind, kind=kind)
        with tls_server(made.issue("localhost")) as port:
            check_welcome(ping(Root({USUAL["Debian"]: made.file}), "127.0.0.1", port))


# ---- names ----

class Names(threading.Thread):
    """A server of names at 127.0.0.1, port 53: locks.test is 127.0.0.1, and there is no other name."""
    TYPE_A, NO_SUCH_NAME = 1, 3

    def __init__(self):
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 53))

    def answer(self, query):
        end = query.index(0, 12) + 5
        question = query[12:end]
        is_known = question[:-4] == b"\5locks\4test\0"
        has_answer = is_known and struct.unpack(">H", question[-4:-2])[0] == self.TYPE_A
        head = query[:2] + struct.pack(">HHHHH", 0x8180 | (0 if is_known else self.NO_SUCH_NAME), 1, has_answer, 0, 0)
        record = struct.pack(">HHHIH4s", 0xC00C, self.TYPE_A, 1, 60, 4, socket.inet_aton("127.0.0.1"))
        return head + question + record * has_answer

    def run(self):
        while True:
            query, asker = self.socket.recvfrom(512)
            self.socket.sendto(self.answer(query), asker)


def test_a_name_is_resolved_by_the_servers_of_resolv_conf():
    Names().start()
    root = Root({RESOLVER: "nameserver 127.0.0.1\n", USUAL["Alpine"]: authority().file})
    with tls_server(authority().issue("locks", names="DNS:locks.test")) as port:
        check_welcome(ping(root, "locks.test", port))
        done = ping(root, "nobody.test", port)
        check_equal(done.returncode != 0 and "nobody.test" in done.stderr, True, done.stderr)


def test_a_name_is_found_in_the_file_hosts():
    root = Root({"/etc/hosts": "127.0.0.1 locks.test\n", USUAL["RHEL"]: authority().file})
    with tls_server(authority().issue("locks", names="DNS:locks.test")) as port:
        check_welcome(ping(root, "locks.test", port))


def run_with(server, *words):
    return subprocess.run([PROGRAM, *words], check=False, text=True, stdin=subprocess.DEVNULL, capture_output=True,
                          env={**os.environ, **PATIENT, "RQL_URL": server.url})


def test_a_lock_is_taken_and_released():
    with PrivateServer() as server:
        taken = run_with(server, "lock", "x", "--ttl", "1m", "--json")
        check_equal(taken.returncode, 0, taken.stderr)
        refused = run_with(server, "lock", "x", "--ttl", "1m", "--wait", "1500ms")
        check_equal(refused.returncode, 1, refused.stderr)
        released = run_with(server, "unlock", "x", "--secret", json.loads(taken.stdout)["secret"])
        check_equal(released.returncode, 0, released.stderr)


def test_a_lock_is_taken_and_the_command_runs():
    if "RQL_TEST_EMULATED" in os.environ:
        raise LeftOut("QEMU has no clone() without a signal, which the guard of a command needs")
    with PrivateServer() as server:
        done = run_with(server, "run", "x", "--", "sh", "-c", "exit 3")
        check_equal(done.returncode, 3, done.stderr)


# ---- the namespaces ----

def raise_loopback():
    with socket.socket() as any_socket:
        asked = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, asked))[1]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


def why_not():
    if not find_server():
        return "no redis-server or valkey-server in PATH"
    if subprocess.call(["unshare", "-rn", "true"], stderr=subprocess.DEVNULL) != 0:
        return "no namespaces of user and network may be made"
    return None


if __name__ == "__main__":
    if INSIDE not in os.environ and not why_not():
        os.execvpe("unshare", ["unshare", "-rn", sys.executable, *sys.argv], {**os.environ, INSIDE: "1"})
    is_inside = os.environ.pop(INSIDE, None)
    if is_inside:
        raise_loopback()
    tap.main(n_own=1, skip=None if is_inside else why_not())
