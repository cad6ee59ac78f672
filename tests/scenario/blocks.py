"""Blocks that run under a lock or a series."""
from harness import check_equal, wait_until

VALUE = 42


class Block:
    """It begins to acquire, and runs until end()."""

    def __init__(self, actor, *names, **options):
        self.remote, self.name = actor.remote, f"block{next(actor.numbers)}"
        self.actor = actor
        self.call = actor.begin("block", names=names, lock=self.name, options=options)

    def runs(self):
        return any(words.get("runs") == self.name for words in self.remote.told)

    def await_running(self):
        wait_until(self.runs, "it runs")
        return self

    def end(self):
        self.remote.do("end_block", lock=self.name, value=VALUE)
        outcome = self.call.outcome()
        check_equal(outcome.value, VALUE)
        return outcome
