"""A page in a headless Chromium, driven by its debugging protocol over a pipe. Standard library only."""
import base64
import errno
import fcntl
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from checks import PATIENCE_S, SLOW, Failure, wait_until
from private_server import die_with_parent

START_S = 60 * SLOW
LEAST_FD = 10
WITH_PIPES = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"


def find_browser():
    """The path of its program; None: there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One page. Messages end in NUL: commands go to descriptor 3 of the browser, answers and events come from 4."""

    def __init__(self, url, width=1280, height=900, is_dark=False):
        self.folder = tempfile.TemporaryDirectory(prefix="rql-browser-")
        self.ids, self.rest, self.session, self.errors = itertools.count(1), b"", None, []
        theirs, (read_end, self.to), (self.from_, write_end) = [], os.pipe(), os.pipe()
        for fd in (read_end, write_end):
            theirs.append(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, LEAST_FD))
            os.close(fd)
        words = [sys.executable, "-c", WITH_PIPES, *map(str, theirs), find_browser(), "--headless",
                 "--remote-debugging-pipe", "--disable-gpu", "--no-first-run", "--disable-extensions", "--disable-dev-shm-usage",
                 "--disable-background-networking", "--hide-scrollbars", "--force-color-profile=srgb",
                 "--user-data-dir=" + self.folder.name]
        if os.geteuid() == 0:
            words.append("--no-sandbox")
        self.process = subprocess.Popen(words, pass_fds=theirs, stdin=subprocess.DEVNULL, cwd=self.folder.name,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent,
                                        env={**os.environ, "HOME": self.folder.name}, start_new_session=True)
        for fd in theirs:
            os.close(fd)
        target = self.call("Target.createTarget", START_S, url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")
        self.show(width, height, is_dark)
        self.call("Page.navigate", url=url)
        self.await_true("location.href !== 'about:blank' && document.readyState === 'complete'", START_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.to)
        os.close(self.from_)
        wait_until(self.remove_folder, "the browser's processes write no more")

    def remove_folder(self):
        try:
            self.folder.cleanup()
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
            return False
        return True

    def show(self, width, height, is_dark):
        """Sets the size of the window, and what the user prefers."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        scheme = "dark" if is_dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def call(self, method, patience_s=PATIENCE_S, **params):
        number = next(self.ids)
        message = {"id": number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        end_s = time.monotonic() + patience_s
        while True:
            answer = self.read(end_s)
            if answer.get("id") == number:
                if "error" in answer:
                    raise Failure(f"{method}: {answer['error']}")
                return answer["result"]
            self.note(answer)

    def note(self, event):
        """Keeps what the browser complains about: exceptions, and what the policy of the page forbids."""
        if event.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(event["params"]["exceptionDetails"]))
        entry = event.get("params", {}).get("entry", {})
        if entry.get("source") == "security" or entry.get("level") == "error" and entry.get("source") != "network":
            self.errors.append(entry["text"])

    def read(self, end_s):
        while b"\0" not in self.rest:
            if not select.select([self.from_], [], [], max(0, end_s - time.monotonic()))[0]:
                raise Failure("the browser does not answer")
            more = os.read(self.from_, 65536)
            if not more:
                raise Failure("the browser has ended")
            self.rest += more
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def ask(self, expression):
        """The value of an expression of JavaScript in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise Failure(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def await_true(self, expression, patience_s=PATIENCE_S):
        end_s = time.monotonic() + patience_s
        while not self.ask(expression):
            if time.monotonic() > end_s:
                raise Failure(f"never true: {expression}; the page: {self.ask('document.body.innerText')}")
            time.sleep(0.05)

    def picture(self, **more):
        """The page as a PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", **more)["data"])
