#!/usr/bin/env python3
"""Completion of command lines: what the program answers, and what bash, zsh and fish make of it at a terminal."""
import json
import os
import pathlib
import shutil
import tempfile
import time

from harness import (PROGRAM, Missing, PrivateServer, Program, Terminal, add, check_equal, environment, free_port,
                     leave_out_in_cluster, main)

BASH_COMPLETION = "/usr/share/bash-completion/bash_completion"
# How each is started without the user's files.
SHELLS = {"bash": ["bash", "--noprofile", "--norc", "-i"], "zsh": ["zsh", "-f", "-i"],
          "fish": ["fish", "--no-config", "-i"]}
# How the script comes to it: it lies where it is installed, or is read. (shell, file below share/, first line)
WAYS = {
    "bash finds it installed": ("bash", "bash-completion/completions/rql", f". {BASH_COMPLETION}"),
    "bash reads it": ("bash", None, f". {BASH_COMPLETION}; . <(rql help --completion bash)"),
    "zsh finds it installed": ("zsh", "zsh/site-functions/_rql",
                               "fpath=(share/zsh/site-functions $fpath); autoload -U compinit; compinit -u -D"),
    "zsh reads it": ("zsh", None, "autoload -U compinit; compinit -u -D; . <(rql help --completion zsh)"),
    "fish finds it installed": ("fish", "fish/vendor_completions.d/rql.fish",
                                "set -p fish_complete_path $PWD/share/fish/vendor_completions.d"),
    "fish reads it": ("fish", None, "rql help --completion fish | source"),
}
# What is typed before the key TAB, and what the program is given then.
LINES = {
    "rql sw": ["swarm"],
    "rql swarm sta": ["swarm", "status"],
    "rql ls --lon": ["ls", "--long"],
    "rql run x --log=j": ["run", "x", "--log=json"],
    "rql --access-strategy ra": ["--access-strategy", "random"],
    "rql info orders:1": ["info", "orders:17"],
    "rql unlock with": ["unlock", "with a blank"],
    "rql --tls-ca-file cert": ["--tls-ca-file", "certificate.pem"],
    "rql run x -- back": ["run", "x", "--", "backup"],
    "rql run x -- backup cert": ["run", "x", "--", "backup", "certificate.pem"],
}


def answers(rql, *words):
    """The candidates, without their meanings."""
    result = rql("help", "--complete", *words)
    check_equal(result.code, 0, words)
    return [line.split("\t")[0] for line in result.out.splitlines()]


def test_candidates_are_those_of_the_place(_server, rql):
    for words, wanted in (
            (["s"], ["series", "stats", "swarm", "serve"]),
            (["--spin-us", "5", "wh"], ["who"]),
            (["swarm", "f"], ["flush"]),
            (["swarm", "flush", "f"], []),
            (["run", "x", "--log", ""], ["text", "json"]),
            (["run", "x", "--log="], ["--log=text", "--log=json"]),
            (["run", "x", "-k", ""], []),
            (["unlock", "x", "--secret", "-", "--fo"], ["--force"]),
            (["run", "x", "--permits", "8", "--un"], ["--units"]),
            (["lock", "x", "--permits", ""], []),
            (["stats", "--js"], ["--json"]),
            (["clear-of", "--"], answers(rql, "clear-of", "--")),
            (["info", "--", "--"], []),
            (["--tls-verify", ""], ["full", "ca", "none"]),
            (["help", "se"], ["series", "serve"]),
            (["help", "--completion", ""], ["bash", "zsh", "fish"]),
            (["nothing", ""], [])):
        check_equal(answers(rql, *words), wanted, words)


def test_all_flags_of_a_command_are_candidates(_server, rql):
    flags = answers(rql, "unlock", "--")
    assert {"--secret", "--force", "--json", "--help", "--url", "--zombie-ttl"} <= set(flags), flags
    assert not {"--try", "--version", "--wait"} & set(flags), flags


def test_a_file_or_a_command_is_left_to_the_shell(_server, rql):
    for words in ["--tls-ca-file", ""], ["run", "x", "--", ""], ["run", "x", "--", "sh", "-"]:
        result = rql("help", "--complete", *words)
        check_equal((result.code, result.out), (1, ""), words)


def test_names_are_those_of_locks(_server, rql):
    for name in "b", "apple", "apricot":
        rql("lock", name, "--ttl", "1m")
    check_equal(sorted(answers(rql, "info", "ap")), ["apple", "apricot"])
    check_equal(sorted(answers(rql, "series", "b", "")), ["apple", "apricot", "b"])
    check_equal(answers(rql, "info", "b", ""), [])
    check_equal(answers(rql, "stats", ""), [])
    check_equal(answers(Program("unix:///nowhere"), "--url", rql.url, "info", "b"), ["b"])


def test_names_are_those_of_locks_on_shards_too(_server, _rql):
    """In their keys they are behind a tag."""
    leave_out_in_cluster("a port of one server")
    port = free_port()
    shards = Program(f"redis+shards://127.0.0.1:{port}")
    with PrivateServer("--port", str(port)):
        for name in "b", "apple", "}:lock:apricot":
            shards("lock", name, "--ttl", "1m")
        check_equal(answers(shards, "info", "ap"), ["apple"])
        check_equal(sorted(answers(shards, "info", "")), ["apple", "b", "}:lock:apricot"])


def test_names_that_would_act_upon_a_terminal_are_left_out(server, rql):
    for name in "clear\x1b[2J", "two\nlines", "a\tmeaning", "good":
        server.ask("HSET", f"rql:lock:{name}", "acq_id", "x")
    check_equal(answers(rql, "info", ""), ["good"])


def test_two_hundred_names_are_enough(server, rql):
    for number in range(250):
        server.ask("HSET", f"rql:lock:{number}", "acq_id", "x")
    check_equal(len(answers(rql, "info", "")), 200)
    check_equal(sorted(answers(rql, "info", "24")), ["24", *(str(number) for number in range(240, 250))])


def test_a_server_that_is_silent_is_given_up_soon(server, rql):
    with server.frozen():
        started = time.monotonic()
        check_equal(answers(rql, "--connect-timeout", "20s", "info", ""), [])
        took = time.monotonic() - started
    assert 0.3 <= took < 10, took


def test_no_private_server_is_started(_server, _rql):
    with tempfile.TemporaryDirectory(prefix="rql-test-") as folder:
        local = Program("local:")
        result = local("help", "--complete", "info", "", RQL_LOCAL_DIR=folder + "/local")
        check_equal((result.code, result.out, os.listdir(folder)), (0, "", []))


class Shell(Terminal):
    """At a terminal of its own, where `rql` is the program for help, and else writes down what it is given."""

    def __init__(self, name, folder, url):
        self.given = folder / "given"
        for tool, script in {"rql": f'[ "$1" = help ] && exec {PROGRAM} "$@"\nexec python3 -c '
                                    '"import json, sys; json.dump(sys.argv[2:], open(sys.argv[1], \'w\'))" '
                                    f'{self.given} "$@"',
                             "backup": ":"}.items():
            (folder / tool).write_text(f"#!/bin/sh\n{script}\n")
            (folder / tool).chmod(0o755)
        (folder / "certificate.pem").touch()
        told = environment(url, PATH=f"{folder}:{os.environ['PATH']}", HOME=str(folder), TERM="xterm", LC_ALL="C.UTF-8",
                           XDG_CONFIG_HOME=str(folder), XDG_DATA_HOME=str(folder), XDG_DATA_DIRS=f"{folder}/share")
        super().__init__(lambda: (os.chdir(folder), os.execvpe(SHELLS[name][0], SHELLS[name], told)))

    def completed(self, line):
        """What the program is given after TAB and ENTER. What is typed ahead of the prompt stays in the terminal."""
        self.given.unlink(missing_ok=True)
        self.type(line + "\t")
        self.type("\r")
        while not self.given.exists() or not self.given.stat().st_size:
            assert self.read(), f"{line}: {self.written[-2000:]}"
        return json.loads(self.given.read_text())


def completes(way):
    name, file, first = WAYS[way]

    def test(_server, rql):
        if not shutil.which(name) or name == "bash" and not os.path.exists(BASH_COMPLETION):
            raise Missing(f"{name} with its completion")
        rql("lock", "orders:17", "--ttl", "1m")
        rql("lock", "with a blank", "--ttl", "1m")
        with tempfile.TemporaryDirectory(prefix="rql-test-") as folder:
            if file:
                script = pathlib.Path(folder, "share", file)
                script.parent.mkdir(parents=True)
                script.write_text(rql("help", "--completion", name).out)
            with Shell(name, pathlib.Path(folder), rql.url) as shell:
                shell.type(first + "\r")
                for line, wanted in LINES.items():
                    check_equal(shell.completed(line), wanted, f"{line}: {shell.written[-500:]}")

    return test


if __name__ == "__main__":
    for one in WAYS:
        add(f"{one} and completes at a terminal", completes(one))
    main()
