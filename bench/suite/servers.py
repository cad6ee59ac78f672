"""The servers that are measured: private, on Unix sockets or 127.0.0.1, ended with this program."""
import http.client
import os
import pathlib
import pwd
import shutil
import socket
import subprocess
import time

START_SECONDS = 30


class Unavailable(Exception):
    """It cannot be measured here; the text says why."""


def tied(signal="TERM"):
    """Words in front of a command: it is ended by the kernel if this program is killed."""
    return ["setpriv", "--pdeathsig", signal] if shutil.which("setpriv") else []


PORTS = []


def free_port():
    """It stays bound for as long as this program runs, so that no other program gets it before the server listens."""
    port = socket.socket()
    port.bind(("127.0.0.1", 0))
    port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the server may listen there
    PORTS.append(port)
    return port.getsockname()[1]


class Server:
    """A process that listens. Subclasses say how it is started and when it is ready."""

    name = "server"

    def __init__(self, scratch):
        self.folder = pathlib.Path(scratch, self.name)
        self.folder.mkdir()
        self.log = self.folder.with_suffix(".log")
        self.process = None

    def launch(self, words):
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder)
        deadline = time.monotonic() + START_SECONDS
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                last = self.log.read_text(errors="replace").strip().splitlines()[-1:]
                raise Unavailable(f"{self.name} does not start: {''.join(last)}")
            time.sleep(0.02)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(self.end_signal())
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def end_signal(self):
        return 15

    def is_ready(self):
        raise NotImplementedError


class Redis(Server):
    """Redis or Valkey, without persistence; a Unix socket and a port of 127.0.0.1."""

    name = "redis"

    def __init__(self, scratch):
        super().__init__(scratch)
        self.socket = str(self.folder / "s")
        self.port = free_port()
        self.stream = None
        self.words = ()
        self.program = shutil.which("redis-server") or shutil.which("valkey-server")

    def start(self):
        if not self.program:
            raise Unavailable("no redis-server and no valkey-server")
        self.launch(tied() + [
            self.program, "--bind", "127.0.0.1", "--port", str(self.port),
            "--unixsocket", self.socket, "--unixsocketperm", "700", "--dir", str(self.folder),
            "--save", "", "--appendonly", "no", "--daemonize", "no", "--maxclients", "4000", *self.words])
        return self

    def is_ready(self):
        try:
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(self.socket)
        except OSError:
            connection.close()
            return False
        connection.settimeout(START_SECONDS)
        self.stream = connection.makefile("rwb")
        return True

    def ask(self, *words):
        """One command; simple replies, bulk texts and lists of them are understood."""
        self.stream.write(" ".join(words).encode() + b"\r\n")
        self.stream.flush()
        return self.reply()

    def reply(self):
        head = self.stream.readline()
        if head[:1] == b"*":
            return [self.reply() for _ in range(int(head[1:]))]
        if head[:1] != b"$":
            return head[1:].strip().decode()
        body = self.stream.read(int(head[1:]) + 2)
        return body[:-2].decode()

    def info(self, section):
        lines = self.ask("INFO", section).splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def version(self):
        about = self.info("server")
        if "valkey_version" in about:
            return "Valkey " + about["valkey_version"]
        return "Redis " + about["redis_version"]

    # Commands that clients send and scripts do not call. SET is both: the plain lock's own, and how
    # a grant counts its token.
    SENT = ("auth", "blpop", "cluster|slots", "eval", "evalsha", "fcall", "hello", "lpush", "psubscribe", "select",
            "ssubscribe", "subscribe", "sunsubscribe", "unsubscribe")
    SENT_FAMILIES = ("client|", "script|")

    def usage(self):
        """What was used up to now: commands by clients but PING, wake-ups, processor time."""
        calls = {
            key[len("cmdstat_"):]: int(value.split(",")[0].split("=")[1])
            for key, value in self.info("commandstats").items()}
        processor = self.info("cpu")
        sent = sum(n for name, n in calls.items()
                   if name in self.SENT or name.startswith(self.SENT_FAMILIES))
        return {
            "commands": sent,
            "sets": calls.get("set", 0),
            "wakes": calls.get("publish", 0) + calls.get("spublish", 0),
            "cpu_us": 1e6 * (float(processor["used_cpu_user"]) + float(processor["used_cpu_sys"])),
        }


class Agent(Server):
    """`rql agent` on this server."""

    name = "agent"

    def __init__(self, scratch, program, url):
        super().__init__(scratch)
        self.socket = str(self.folder / "s")
        self.words = [program, "agent", "--listen", self.socket, "--url", url, "--drain", "0s"]

    def start(self):
        if not os.path.exists(self.words[0]):
            raise Unavailable("built without the program rql")
        self.launch(tied() + self.words)
        return self

    def is_ready(self):
        return os.path.exists(self.socket)


class TlsRedis(Redis):
    """Another one, with a port for TLS beside that in the clear, and a certificate of its own."""

    name = "redis-tls"

    def start(self):
        if not shutil.which("openssl"):
            raise Unavailable("openssl is not installed")
        self.tls_port, self.certificate, key = free_port(), self.folder / "tls.crt", self.folder / "tls.key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                        "-keyout", key, "-out", self.certificate],
                       check=True, stdin=subprocess.DEVNULL, capture_output=True)
        self.words = ("--tls-port", str(self.tls_port), "--tls-auth-clients", "no", "--tls-ca-cert-file",
                      str(self.certificate), "--tls-cert-file", str(self.certificate), "--tls-key-file", str(key))
        return super().start()

    def url(self):
        return f"rediss://127.0.0.1:{self.tls_port}?tls_ca_file={self.certificate}"


class ReplicatedRedis(Redis):
    """Another one, with a replica."""

    name = "redis-master"

    def __init__(self, scratch):
        super().__init__(scratch)
        self.replica = Replica(scratch, self.port)

    def start(self):
        super().start()
        self.replica.start()
        deadline = time.monotonic() + START_SECONDS
        while "state=online" not in self.info("replication").get("slave0", ""):
            if time.monotonic() > deadline:
                raise Unavailable("the replica does not come online")
            time.sleep(0.02)
        self.ask("WAIT", "1", "0")  # it has said so, too: before that nothing is sent to it
        return self

    def stop(self):
        self.replica.stop()
        super().stop()


class Replica(Redis):
    name = "redis-replica"

    def __init__(self, scratch, port):
        super().__init__(scratch)
        self.words = ("--replicaof", "127.0.0.1", str(port))


class FullRedis(Redis):
    """Another one, for what needs many keys."""

    name = "redis-full"


class Postgres(Server):
    """A cluster of its own in the scratch folder, fsync off; as root under another user's name,
    because it refuses root."""

    name = "postgres"

    def __init__(self, scratch):
        super().__init__(scratch)
        self.conninfo = f"host={self.folder} dbname=postgres user=bench"
        self.as_user = []

    @staticmethod
    def find(program):
        places = sorted(pathlib.Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))
        found = str(places[-1]) if places else shutil.which(program)
        if not found:
            raise Unavailable("PostgreSQL is not installed")
        return found

    def drop_root(self):
        if os.getuid() != 0:
            return
        names = {entry.pw_name: entry for entry in pwd.getpwall()}
        user = names.get("postgres") or names.get("nobody")
        if not user or not shutil.which("setpriv"):
            raise Unavailable("no user but root to run PostgreSQL")
        os.chown(self.folder, user.pw_uid, user.pw_gid)
        os.chmod(self.folder.parent, 0o711)
        self.as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}",
                        "--clear-groups"]

    def start(self):
        initdb, server = self.find("initdb"), self.find("postgres")
        self.drop_root()
        data = str(self.folder / "data")
        made = subprocess.run(
            self.as_user + [initdb, "-D", data, "-U", "bench", "-A", "trust", "--no-sync"],
            cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if made.returncode != 0:
            raise Unavailable("initdb: " + made.stderr.strip().splitlines()[-1])
        self.launch(self.as_user + tied("INT") + [
            server, "-D", data, "-k", str(self.folder), "-c", "listen_addresses=",
            "-c", "fsync=off", "-c", "max_connections=300", "-c", "autovacuum=off"])
        return self

    def is_ready(self):
        # The socket exists before connections are taken; the log line is the first true sign.
        return "ready to accept connections" in self.log.read_text(errors="replace")

    def end_signal(self):
        return 2  # "fast": does not wait for its clients

    def version(self):
        words = subprocess.run([self.find("postgres"), "--version"], capture_output=True, text=True,
                               check=True).stdout.split()
        return "PostgreSQL " + words[2]


class Etcd(Server):
    """One member, its data on tmpfs where there is one; spoken to over its HTTP/JSON gateway."""

    name = "etcd"

    def __init__(self, scratch):
        super().__init__(scratch)
        self.port = free_port()
        self.memory = None
        self.program = shutil.which("etcd")

    def start(self):
        if not self.program:
            raise Unavailable("etcd is not installed")
        data = self.folder / "data"
        if os.access("/dev/shm", os.W_OK):
            self.memory = pathlib.Path("/dev/shm", f"rql-bench-etcd.{os.getpid()}")
            self.memory.mkdir(mode=0o700)
            data = self.memory
        here, peer = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{free_port()}"
        self.launch(tied() + [
            self.program, "--data-dir", str(data), "--listen-client-urls", here,
            "--advertise-client-urls", here, "--listen-peer-urls", peer,
            "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
            "--log-level", "error"])
        return self

    def is_ready(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1)
        try:
            connection.request("GET", "/health")
            return b'"true"' in connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def stop(self):
        super().stop()
        if self.memory:
            shutil.rmtree(self.memory, ignore_errors=True)

    def version(self):
        first = subprocess.run([self.program, "--version"], capture_output=True, text=True,
                               check=True).stdout.split()
        return "etcd " + first[2]
