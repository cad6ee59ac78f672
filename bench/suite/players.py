"""Players: programs that measure one thing when they are told, as perf/protocol.h says."""
import json
import select
import subprocess
import tempfile

ANSWER_SECONDS = 90


class PlayerError(Exception):
    """A player ended, or did not answer; the text says which and why."""


class Player:
    """One program and its threads, waiting for orders."""

    def __init__(self, name, words, folder):
        self.name = name
        self.words = tempfile.TemporaryFile(dir=folder)
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.words, text=True,
            bufsize=1)

    def answer(self):
        ready, _, _ = select.select([self.process.stdout], [], [], ANSWER_SECONDS)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            raise PlayerError(f"{self.name}: {self.last_words() or 'no answer'}")
        return json.loads(line)

    def order(self, *words):
        try:
            self.process.stdin.write(" ".join(map(str, words)) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise PlayerError(f"{self.name}: {self.last_words()}") from None
        return self.answer()

    def last_words(self):
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            pass
        self.words.seek(0)
        lines = self.words.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def stop(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.words.close()
