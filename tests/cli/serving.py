"""rql serve, and an HTTP client of it. Standard library only."""
import contextlib
import http.client
import json
import socket

from checks import check_equal, wait_until
from harness import as_plain, finish, free_port, read_line
from openmetrics import parsed


class Connection(http.client.HTTPConnection):
    """To a port of this machine, or to a path."""

    def __init__(self, where):
        super().__init__("127.0.0.1", timeout=60)
        self.where = where

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX if isinstance(self.where, str) else socket.AF_INET)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.where)


class Serve:
    """A program that serves HTTP, and has said so."""

    def __init__(self, rql, *words, command=("serve",), flag="--listen", path=None, **more):
        self.where = path or ("127.0.0.1", free_port())
        self.address = f"unix:{path}" if path else "127.0.0.1:%d" % self.where[1]
        self.process = rql.start(*command, flag, self.address, *words, **more)
        said = read_line(self.process.stderr)
        if "listens at" in said:  # of an agent
            said = read_line(self.process.stderr)
        check_equal(said.removeprefix("rql: "), f"HTTP at {self.address}\n")

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        """Ends it, as systemd does."""
        self.process.terminate()
        result = finish(self.process)
        if kind is None:
            check_equal(result.code, 0)

    def ask(self, path, method="GET", body=None, **headers):
        with contextlib.closing(Connection(self.where)) as connection:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), as_plain(answer.read().decode())

    def await_answer(self, path, holds):
        """The text of the first answer for whose status and text this holds."""
        def look():
            status, _, text = self.ask(path)
            return [text] if holds(status, text) else None

        return wait_until(look, f"{path}: the last answer is {self.ask(path)}")[0]

    def locks(self, holds):
        return json.loads(self.await_answer("/locks.json", lambda status, text: status == 200 and holds(json.loads(text))))

    def figures(self):
        status, _, text = self.ask("/metrics")
        check_equal(status, 200)
        return parsed(text)[0]
