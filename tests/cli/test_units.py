#!/usr/bin/env python3
"""The units for systemd: whether it takes them, what they leave open, and whether the program takes their words."""
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import tempfile

from harness import PROGRAM, PATIENCE_S, check_equal, check_in, finish, listener, main

EXPOSURE_MAX = 30  # of 100
UNITS = sorted(pathlib.Path(os.environ.get("RQL_TEST_UNITS") or "/nowhere").glob("rql-*.[st]*"))


def analyzed(*words):
    """Of units in a folder of their own, whose program is there: systemd looks for it."""
    with tempfile.TemporaryDirectory(prefix="rql-units-") as folder:
        for unit in UNITS:
            text = re.sub(r"^ExecStart=\S+/rql ", f"ExecStart={PROGRAM} ", unit.read_text(), flags=re.M)
            check_equal(text.count(PROGRAM), int(unit.suffix == ".service"), unit.name)
            (pathlib.Path(folder) / unit.name).write_text(text)
        for unit in UNITS:
            done = subprocess.run(["systemd-analyze", *words, f"{folder}/{unit.name}"], check=False, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_S)
            yield unit, done.returncode, done.stdout


def test_systemd_takes_them(_server, _rql):
    for unit, code, said in analyzed("verify"):
        check_equal((code, said), (0, ""), unit.name)
    check_equal([unit.name for unit in UNITS],
                ["rql-agent.service", "rql-agent.socket", "rql-elect@.service", "rql-metrics.service", "rql-metrics.timer",
                 "rql-swarm.service"])


def test_they_leave_little_open(_server, _rql):
    for unit, code, said in analyzed("security", "--offline=true", f"--threshold={EXPOSURE_MAX}"):
        if unit.suffix == ".service":
            check_equal(code, 0, unit.name + said)
            check_in("Overall exposure level", said)


def words_of(name, **variables):
    """The program's arguments in a unit; variables as systemd puts them in, a word each."""
    text = next(unit for unit in UNITS if unit.name == name).read_text()
    words = shlex.split(re.search(r"^ExecStart=(.*)$", text, re.M)[1])[1:]
    return [part for word in words for part in (variables[word[1:]] if word[0] == "$" else [word.replace("%i", "x")])]


def test_the_swarm_says_that_it_is_ready(_server, rql):
    with tempfile.TemporaryDirectory(prefix="rql-units-") as folder, listener(folder + "/notify") as channel:
        service = rql.start(*words_of("rql-swarm.service"), NOTIFY_SOCKET=folder + "/notify")
        check_in("READY=1", channel.recv(2048).decode())
        service.send_signal(signal.SIGTERM)
        check_equal(finish(service).code, 0)


def test_metrics_are_written(_server, rql):
    words = words_of("rql-metrics.service", METRICS_FLAGS=["--zombie-ttl", "1000ms"])
    with tempfile.TemporaryDirectory(prefix="rql-units-") as folder:
        at = next(i for i, word in enumerate(words) if word.endswith("rql.prom"))
        words[at] = folder + "/rql.prom"
        result = rql(*words)
        check_equal((result.code, result.err, os.listdir(folder)), (0, "", ["rql.prom"]))


def test_the_elected_one_runs_under_its_lock(_server, rql):
    result = rql(*words_of("rql-elect@.service", COMMAND=["sh", "-c", "echo $RQL_LOCK"]))
    check_equal((result.code, result.out), (0, "elect:x\n"))
    check_equal(rql(*words_of("rql-elect@.service", COMMAND=[])).code, 64)


if __name__ == "__main__":
    has_units = UNITS and shutil.which("systemd-analyze")
    main(skip=None if has_units else "no units were built, or there is no systemd-analyze: the package systemd has both")
