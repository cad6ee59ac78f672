"""A bad network between clients and a server. Standard library only."""
import collections
import contextlib
import fcntl
import itertools
import os
import select
import socket
import termios
import threading
import time

CHUNK = 1 << 14
KEPT_MAX = 4 << 20
BACKLOG = 256
DRIBBLE_PAUSE_S = 0.00005
STUCK_PAUSE_S = 0.001
NUMBERS = itertools.count(1)


class ReplySplitter:
    """Finds the ends of the replies in a stream of RESP that arrives in pieces."""

    def __init__(self):
        self.n_open = 0  # values that belong to the reply and have not ended
        self.n_skip = 0  # bytes that are left of a text, its line break included
        self.line = b""  # the beginning of a line that has not ended

    def end(self, data, at):
        """Returns where the reply that begins or continues at `at` ends; behind the data if it continues there."""
        self.n_open = self.n_open or 1
        while self.n_open and at < len(data):
            if self.n_skip:
                n_here = min(self.n_skip, len(data) - at)
                at, self.n_skip = at + n_here, self.n_skip - n_here
                self.n_open -= not self.n_skip
            elif end := data.find(b"\n", at) + 1:
                self.end_line(self.line + data[at:end])
                at, self.line = end, b""
            else:
                self.line += data[at:]
                at = len(data)
        return at

    def end_line(self, line):
        kind = line[:1]
        if kind in b"$=!" and int(line[1:]) >= 0:
            self.n_skip = int(line[1:]) + 2
        elif kind in b"*~>%":
            self.n_open += max(int(line[1:]), 0) * (2 if kind == b"%" else 1) - 1
        else:
            self.n_open -= 1


class Rules:
    """The faults of one direction, by their names, on all connections together."""

    def __init__(self):
        self.n_replies = 0  # and pushes, that were forwarded or dropped
        self.heal()

    def heal(self):
        self.delay = self.freeze = self.dribble = self.drop_reply = self.cut_reply = 0
        self.cut_after = None

    def judge_replies(self, stream, data):
        """Returns what of the data passes, and whether the connection is cut behind it."""
        passed, at = bytearray(), 0
        while at < len(data):
            if not stream.splitter.n_open:
                self.n_replies += 1
                stream.drops, cuts = self.drop_reply == 1, self.cut_reply == 1
                self.drop_reply, self.cut_reply = max(self.drop_reply - 1, 0), max(self.cut_reply - 1, 0)
                if cuts:
                    return passed, True
            end = stream.splitter.end(data, at)
            if not stream.drops:
                passed += data[at:end]
            at = end
        return passed, False

    def judge(self, stream, data):
        data, cuts = self.judge_replies(stream, data) if stream.splitter else (data, False)
        if self.cut_after is None:
            return data, cuts
        if len(data) < self.cut_after:
            self.cut_after -= len(data)
            return data, cuts
        data, self.cut_after = data[:self.cut_after], None
        return data, True


class Stream:
    """What is said from one end of a connection to the other."""

    def __init__(self, source, sink, rules, splitter=None, again=None):
        self.source, self.sink, self.rules, self.splitter, self.again = source, sink, rules, splitter, again
        self.chunks, self.n_kept = collections.deque(), 0  # when it is due, and bytes; none are the end
        self.sending, self.cuts = None, False              # what was judged and has not passed in full
        self.drops = self.has_ended = self.is_over = False

    def wants_read(self):
        return not self.has_ended and self.n_kept < KEPT_MAX

    def read(self, now_s):
        with contextlib.suppress(BlockingIOError):
            while self.wants_read():
                data = self.source.recv(CHUNK)
                self.chunks.append((now_s + self.rules.delay / 1000, data))
                self.n_kept += len(data)
                self.has_ended = not data

    def send(self):
        """Returns whether the receiver takes any now."""
        if self.rules.dribble and any(fcntl.ioctl(self.sink, termios.TIOCOUTQ, bytes(4))):
            return False  # it has not taken the last byte yet
        try:
            n_sent = self.sink.send(self.sending[:1] if self.rules.dribble else self.sending)
        except BlockingIOError:
            return False
        if self.again:
            self.again.sendall(self.sending[:n_sent])
        self.sending = self.sending[n_sent:]
        return True

    def move(self, now_s):
        """Returns after how many seconds there is more to do if nothing else is said, or None."""
        self.read(now_s)
        while not self.rules.freeze and (self.chunks or self.sending is not None):
            if self.sending is None:
                due_s, data = self.chunks[0]
                if due_s > now_s:
                    return due_s - now_s
                self.chunks.popleft()
                self.n_kept -= len(data)
                passes, self.cuts = self.rules.judge(self, data)
                self.sending = memoryview(passes)
                self.is_over = not data
            while self.sending:
                if not self.send():
                    return DRIBBLE_PAUSE_S if self.rules.dribble else STUCK_PAUSE_S
            self.sending = None
            if self.cuts:
                raise ConnectionAbortedError
            if self.is_over:
                self.sink.shutdown(socket.SHUT_WR)
        return None


class Pair:
    """The connection of a client, and the one to the server."""

    def __init__(self, client, server, again, network):
        self.ends = [end for end in (client, server, again) if end]
        self.streams = (Stream(client, server, network.up, again=again),
                        Stream(server, client, network.down, ReplySplitter()))
        self.is_mute = self.is_cut = False

    def move(self, now_s):
        """As of a stream."""
        try:
            pauses_s = [stream.move(now_s) for stream in self.streams]
        except OSError:
            pauses_s = []
        if not pauses_s or all(stream.is_over for stream in self.streams):
            self.cut()
        return min((pause_s for pause_s in pauses_s if pause_s is not None), default=None)

    def cut(self):
        self.is_cut = True
        for end in self.ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class FaultyNetwork:
    """Forwards each connection to a server's Unix socket, with the faults that fail() sets. Listens on a path of its
    own beside it; or at a loopback address and the port of a cluster's node, which names no address to its clients, so
    that they stay here."""

    def __init__(self, server_path, host=None, port=0):
        self.server_path, self.place = server_path, (host, port)
        self.path = None if host else f"{server_path}.n{next(NUMBERS)}"
        self.url = f"redis+cluster://{host}:{port}" if host else f"unix://{self.path}"
        self.up, self.down = Rules(), Rules()
        self.pairs, self.n_connections, self.repeats, self.is_stopped = [], 0, False, False
        self.mutex = threading.Lock()
        self.poked, self.poking = socket.socketpair()
        self.poked.setblocking(False)
        self.listener = None
        self.listen()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def fail(self, fault, n=1, direction="both"):
        """In force when it returns, for open connections and later ones, until heal(). Of one direction or of both:

            delay       what is said from now on arrives n ms later
            freeze      nothing passes, not even the end of a connection; it is kept for later. n=0: that ends
            dribble     one byte at a time passes, the next one when the receiver has taken the last
            cut_after   n bytes pass, then the connection that carries the last is cut; n=0: that which has the next

        Of the server's replies and pushes, counted from now, 1 for the next one:

            drop_reply  the n-th is dropped; the client is one behind from then on
            cut_reply   the connection is cut in place of the n-th

        Of connections:

            cut         all that are open are cut, and what was kept is lost
            mute_last   the newest falls silent in both directions and stays open
            refuse      nobody can connect; open ones stay. n=0: that ends
            repeat      what is said on later ones is said a second time, on a connection whose replies nobody hears
        """
        with self.changing():
            if fault == "refuse":
                self.refuse(n)
            elif fault in ("cut", "mute_last", "repeat"):
                getattr(self, fault)()
            else:
                for rules in {"up": [self.up], "down": [self.down]}.get(direction, [self.up, self.down]):
                    getattr(rules, fault)
                    setattr(rules, fault, n)

    def heal(self):
        """Ends all faults. What was kept arrives."""
        with self.changing():
            self.up.heal()
            self.down.heal()
            self.repeats = False
            for pair in self.pairs:
                pair.is_mute = False
            self.refuse(False)

    @contextlib.contextmanager
    def changing(self):
        """The thread looks again when it is over."""
        with self.mutex:
            yield
        self.poking.send(b"x")

    def count(self, what):
        """Connections and replies so far, or those connections that are open."""
        with self.mutex:
            return {"connections": self.n_connections, "open": len(self.pairs), "replies": self.down.n_replies}[what]

    def stop(self):
        with self.changing():
            self.is_stopped = True
        self.thread.join()
        self.cut()
        self.refuse()
        if self.path:
            os.unlink(self.path)
        self.poked.close()
        self.poking.close()

    # ---- under the mutex ----

    def cut(self):
        for pair in self.pairs:
            pair.cut()
        self.pairs = []

    def mute_last(self):
        for pair in self.pairs[-1:]:
            pair.is_mute = True

    def repeat(self):
        self.repeats = True

    def refuse(self, is_refusing=True):
        if is_refusing and self.listener:
            self.listener.close()
            self.listener = None
        elif not is_refusing and not self.listener:
            self.listen()

    def listen(self):
        if self.path:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(self.path)
            self.listener.listen(BACKLOG)
        else:
            self.listener = socket.create_server(self.place, backlog=BACKLOG)
        self.listener.setblocking(False)

    def dial(self, is_blocking=False):
        server = socket.socket(socket.AF_UNIX)
        server.setblocking(False)
        server.connect(self.server_path)
        server.setblocking(is_blocking)
        return server

    def accept_all(self):
        with contextlib.suppress(BlockingIOError):
            while self.listener:
                client = self.listener.accept()[0]
                client.setblocking(False)
                if client.family == socket.AF_INET:
                    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.n_connections += 1
                try:
                    again = self.dial(is_blocking=True) if self.repeats else None
                    self.pairs.append(Pair(client, self.dial(), again, self))
                except OSError:
                    client.close()

    def move_all(self):
        """Returns what to wait for: sockets to read from, and seconds or None."""
        now_s = time.monotonic()
        self.accept_all()
        moving = [pair for pair in self.pairs if not pair.is_mute]
        pauses_s = [pause_s for pair in moving if (pause_s := pair.move(now_s)) is not None]
        self.pairs = [pair for pair in self.pairs if not pair.is_cut]
        sources = [stream.source for pair in moving if not pair.is_cut for stream in pair.streams if stream.wants_read()]
        return [self.poked, *([self.listener] if self.listener else []), *sources], min(pauses_s, default=None)

    # ---- its thread ----

    def run(self):
        while True:
            with self.mutex:
                if self.is_stopped:
                    return
                sources, pause_s = self.move_all()
                poller = select.poll()
                for source in sources:
                    poller.register(source, select.POLLIN)
            if pause_s is not None and pause_s < STUCK_PAUSE_S:
                time.sleep(pause_s)  # poll() counts in milliseconds
                pause_s = 0
            poller.poll(None if pause_s is None else pause_s * 1000)
            with contextlib.suppress(BlockingIOError):
                self.poked.recv(CHUNK)
