"""Who plays: starts the servers and players that the blocks need, and says who is not available."""
import json
import pathlib
import shutil
import subprocess

import servers
from cluster import Cluster
from plan import NPM
from players import Player, PlayerError
from servers import Unavailable

BENCH = pathlib.Path(__file__).resolve().parent.parent
NPM_SECONDS = 90


def install_npm(build):
    """The libraries of peers/package-lock.json, below the build folder; their folder."""
    if not shutil.which("node") or not shutil.which("npm"):
        raise Unavailable("node and npm are not installed")
    folder = pathlib.Path(build, "peers").resolve()
    folder.mkdir(exist_ok=True)
    wanted = (BENCH / "peers/package-lock.json").read_bytes()
    done = folder / "installed"
    if done.exists() and done.read_bytes() == wanted:
        return folder
    for name in ("package.json", "package-lock.json"):
        shutil.copy(BENCH / "peers" / name, folder)
    try:
        made = subprocess.run(
            ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error",
             "--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-timeout=20000"],
            cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=NPM_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"npm ci took more than {NPM_SECONDS} s") from None
    if made.returncode != 0:
        lines = [line for line in made.stderr.splitlines() if "npm" in line and "rror" in line]
        raise Unavailable("npm ci: " + (lines[0].strip() if lines else "failed"))
    done.write_bytes(wanted)
    return folder


def python_with_redis():
    """Debian's module belongs to Debian's Python, which need not be the first one."""
    for program in ("/usr/bin/python3", "python3"):
        words = [program, "-c", "import redis; print(redis.__version__)"]
        try:
            found = subprocess.run(words, capture_output=True, text=True, check=False)
        except OSError:
            continue
        if found.returncode == 0:
            return program, found.stdout.strip()
    raise Unavailable("python3-redis is not installed")


class Lineup:
    """Context: everything that was started is ended with it."""

    def __init__(self, build, scratch, needed):
        self.bench = str(pathlib.Path(build, "bench/rql-bench"))
        self.build = build
        self.scratch = scratch
        self.needed = needed
        self.redis = servers.Redis(scratch)
        self.full = None
        self.tls = None
        self.master = None
        self.cluster = None
        self.npm = None  # where the libraries are, or why they are not
        self.started = []
        self.players = {}
        self.missing = {}  # name: why
        self.versions = {}

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        self.started.append(self.redis)
        self.redis.start()
        self.versions["redis"] = self.redis.version()
        for name, words in self.own_players().items():
            self.add(name, words)
        self.add("async", [self.redis.socket], self.bench + "-async")
        if "locks" in self.needed:
            self.add_scale()
        self.try_peer("shared-tls", self.add_tls)
        if "durable" in self.needed:
            self.add_durable()
        self.try_peer("agent", self.add_agent)
        self.try_peer("cluster", self.add_cluster)
        self.try_peer("postgres", self.add_postgres)
        for name in NPM:
            self.try_peer(name, self.add_npm)
        self.try_peer("redis-py", self.add_redis_py)
        self.try_peer("etcd", self.add_etcd)

    def own_players(self):
        path, tcp = self.redis.socket, f"127.0.0.1:{self.redis.port}"
        unix, url = f"unix://{path}", f"redis://{tcp}"
        return {
            "ping": ["ping", path, "1"],
            "ping-tcp": ["ping", tcp, "1"],
            "floor": ["floor", path, "128"],
            "floor-tcp": ["floor", tcp, "32"],
            "own": ["own", unix, "128"],
            "shared": ["shared", unix, "128"],
            "shared-tcp": ["shared", url, "32"],
            "spin": ["spin", unix, "8"],
            "lazy": ["lazy", unix, "32"],
            "lazy-spin": ["lazy-spin", unix, "1"],
            "hand": ["shared", unix, "256", "2"],
            "hand-one": ["shared", unix, "256"],
            "each": ["shared", unix, "32", "32"],
            "token": ["token", path, "256"],
            "single": ["shared", url, "128", "4"],
        }

    def add_scale(self):
        """On a server of their own, whose 100 000 keys disturb nobody else."""
        self.full = servers.FullRedis(self.scratch)
        self.started.append(self.full)
        self.full.start()
        for name in ("locks", "clients"):
            self.add(name, [name, self.full.socket], self.bench + "-scale")

    def add_tls(self, name):
        """A server of its own, with and without. A build of either without TLS has none of it."""
        server = servers.TlsRedis(self.scratch)
        self.started.append(server)
        server.start()
        self.tls = server
        self.add(name, ["shared", server.url(), "32"])
        self.add("shared-clear", ["shared", f"redis://127.0.0.1:{server.port}", "32"])
        self.add("logins", ["logins", server.url()], self.bench + "-scale")

    def add_durable(self):
        self.master = servers.ReplicatedRedis(self.scratch)
        self.started.append(self.master)
        self.master.start()
        for name, words in (("durable", ["durable"]), ("shared-plain", ["shared"]), ("ping-master", ["ping"])):
            place = self.master.socket if name == "ping-master" else f"unix://{self.master.socket}"
            self.add(name, [*words, place, "32"])

    def add_cluster(self, name):
        """A server that is too old for one has none."""
        self.cluster = Cluster(self.scratch, 3)
        self.started.append(self.cluster)
        self.cluster.start()
        self.add(name, ["shared", self.cluster.url(), "128", "4"])

    def add_agent(self, name):
        agent = servers.Agent(self.scratch, str(pathlib.Path(self.build, "src/cli/rql").resolve()),
                              f"unix://{self.redis.socket}")
        self.started.append(agent)
        agent.start()
        self.add(name, ["agent", agent.socket, "32", "32"])

    def server_of(self, player):
        if player == "cluster":
            return self.cluster
        if player in ("durable", "shared-plain", "ping-master"):
            return self.master
        if player in ("shared-tls", "shared-clear", "logins"):
            return self.tls
        return self.full if player in ("locks", "clients") else self.redis

    def add(self, name, words, program=None):
        if name not in self.needed:
            return
        player = Player(name, servers.tied() + [program or self.bench] + words, self.scratch)
        self.started.append(player)
        player.answer()  # it is ready
        self.players[name] = player

    def try_peer(self, name, start):
        """A peer that is not there is no error; one of ours is."""
        if name not in self.needed:
            return
        try:
            start(name)
        except (Unavailable, PlayerError, OSError) as error:
            self.missing[name] = str(error)

    def add_postgres(self, name):
        program = self.bench + "-postgres"
        if not pathlib.Path(program).exists():
            raise Unavailable("built without libpq")
        server = servers.Postgres(self.scratch)
        self.started.append(server)
        server.start()
        self.add(name, ["advisory", server.conninfo, "256"], program)
        self.versions[name] = server.version()

    def npm_folder(self):
        """Tried once: without a network it takes its time to fail."""
        if self.npm is None:
            try:
                self.npm = install_npm(self.build)
            except Unavailable as error:
                self.npm = error
        if isinstance(self.npm, Unavailable):
            raise self.npm
        return self.npm

    def add_npm(self, name):
        folder = self.npm_folder()
        self.add(name, [str(BENCH / "peers/npm.mjs"), name, self.redis.socket, str(folder)], "node")
        self.versions[name] = self.npm_version(folder, name)

    @staticmethod
    def npm_version(folder, name):
        text = (folder / "node_modules" / name / "package.json").read_text()
        return name + " " + json.loads(text)["version"].lstrip("v")

    def add_redis_py(self, name):
        program, version = python_with_redis()
        self.add(name, [str(BENCH / "peers/redis_py.py"), self.redis.socket, "32"], program)
        self.versions[name] = f"redis-py {version}"

    def add_etcd(self, name):
        if not shutil.which("node"):
            raise Unavailable("node, which drives it, is not installed")
        server = servers.Etcd(self.scratch)
        self.started.append(server)
        server.start()
        self.add(name, [str(BENCH / "peers/etcd.mjs"), str(server.port)], "node")
        self.versions[name] = server.version()

    def stop(self):
        """Players first: they talk to the servers."""
        for one in reversed(self.started):
            one.stop()
        self.started.clear()
