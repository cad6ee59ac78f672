#!/usr/bin/env python3
"""`rql run`: exit codes, environment, signals, loss of the lock, the terminal."""
import os
import select
import signal
import sys
import time

from harness import (PROGRAM, SLOW, Folder, Program, Server, Terminal, await_gone, check_equal, check_in,
                     environment, finish, is_gone, main, wait_until)


def start_script(rql, folder, script, *flags, **more):
    """A shell script under the lock "a", in that folder."""
    return rql.start("run", "a", *flags, "--", "sh", "-c", f"cd {folder.folder.name}; {script}",
                     **more)


def test_exit_code_passes_through_and_death_by_signal_is_128_plus_its_number(server, rql):
    for code in (0, 1, 7, 75, 255):
        check_equal(rql("run", "a", "--", "sh", "-c", f"exit {code}").code, code)
    for name, number in (("KILL", 9), ("TERM", 15), ("USR1", 10)):
        check_equal(rql("run", "a", "--", "sh", "-c", f"kill -{name} $$").code, 128 + number)
    assert not server.is_locked("a")


def test_command_runs_without_a_shell(server, rql):
    check_equal(rql("run", "a", "--", "echo", "$HOME;", "*").out, "$HOME; *\n")
    check_equal(rql("run", "a", "--", "echo", "--try", "--help").out, "--try --help\n")


def test_command_sees_lock_and_token(server, rql):
    with Folder() as folder:
        process = start_script(rql, folder, "echo $RQL_LOCK $RQL_TOKEN > t; exec sleep 60", "--meta", "k=v",
                               RQL_TOKEN="stale", RQL_LOCK="stale")
        name, token = folder.await_lines("t")
        check_equal((name, token), ("a", server.ask("HGET", "rql:lock:a", "rql_token")))
        check_equal(server.ask("HGET", "rql:lock:a", "k"), "v")
        process.terminate()
        check_equal(finish(process).code, -signal.SIGTERM)
    later = rql("run", "a", "--", "printenv", "RQL_TOKEN").out
    assert 0 < int(token) < int(later) < 2 ** 53


def test_command_finds_the_server_that_rql_uses(server, rql):
    inner = ("run", "a", "--", "sh", "-c", f"'{PROGRAM}' info a --json; echo $RQL_URL")
    with Server("--requirepass", "geheim") as closed:
        url = closed.url_with("default:geheim@")
        for asked, result in ((url, Program(url)(*inner)), (url, rql(*inner, RQL_URL=url)),
                              (server.url, Program(url)("--url", server.url, *inner))):
            check_equal((result.code, result.err), (0, ""))
            check_in('"name":"a"', result.out.replace(" ", "").replace("\t", ""))
            check_equal(result.out.splitlines()[-1], asked)
        assert not server.is_locked("a")
    check_equal(rql("run", "a", "--", "sh", "-c", "echo $RQL_URL").out, rql.url + "\n")


def test_no_password_is_in_a_command_line(server, rql):
    with Server("--requirepass", "geheim") as closed:
        # Of the command, its parent, which is the guard, and that one's parent.
        result = Program(closed.url_with("default:geheim@"))(
            "run", "a", "--", "sh", "-c", "read -r _ _ _ parent _ </proc/$PPID/stat;"
            "cat /proc/$$/cmdline /proc/$PPID/cmdline /proc/$parent/cmdline; ps -e -o args || true")
        check_equal(result.code, 0, result.err)
        check_in("rql-guard\0", result.out)
        check_in("run\0a\0", result.out)
        assert "default:geheim@" not in result.out


def test_command_inherits_only_the_standard_descriptors(server, rql):
    listed = rql("run", "a", "--", "sh", "-c", "ls /proc/$$/fd").out.split()
    check_equal([fd for fd in listed if int(fd) > 2 and int(fd) != 255], [])


def test_command_starts_with_the_signal_mask_of_rql(server, rql):
    status = rql("run", "a", "--", "grep", "SigBlk", "/proc/self/status").out
    check_equal(status.split()[1].strip("0"), "")


def test_lock_is_renewed_while_the_command_runs(server, rql):
    with Folder() as folder:
        process = start_script(rql, folder, "while [ ! -e stop ]; do sleep 0.01; done; exit 5",
                               "--ttl", "1s")
        wait_until(lambda: server.is_locked("a"), "it holds the lock")
        token = server.ask("HGET", "rql:lock:a", "rql_token")
        taken_at = time.monotonic()
        wait_until(lambda: time.monotonic() > taken_at + 3, "three ttl pass")
        check_equal(server.ask("HGET", "rql:lock:a", "rql_token"), token)
        folder.touch("stop")
        result = finish(process)
        check_equal((result.code, result.err), (5, ""))


def test_signals_are_forwarded(server, rql):
    traps = " ".join(f"trap 'echo {name} >> s' {name};"
                     for name in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "WINCH"))
    with Folder() as folder:
        process = start_script(
            rql, folder, f"{traps} echo > up; while [ ! -e stop ]; do sleep 0.01; done; exit 5")
        folder.await_lines("up")
        seen = []
        for name in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "WINCH"):
            process.send_signal(getattr(signal, "SIG" + name))
            seen.append(name)
            wait_until(lambda: folder.read("s").split() == seen, f"SIG{name} arrives")
        folder.touch("stop")
        check_equal(finish(process).code, 5)


def test_signals_reach_what_the_command_started(server, rql):
    with Folder() as folder:
        process = start_script(rql, folder, "sleep 60 & echo $! > pid; wait; wait")
        pid = int(folder.await_lines("pid")[0])
        process.terminate()
        check_equal(finish(process).code, -signal.SIGTERM)
        wait_until(lambda: is_gone(pid), "the background job ends too")


def test_signals_ignored_at_the_start_stay_ignored(server, rql):
    with Folder() as folder:
        kept = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        process = start_script(rql, folder, "trap 'exit 9' USR1; echo > up; "
                               "while [ ! -e stop ]; do sleep 0.01; done; grep SigIgn "
                               "/proc/self/status > ignored")
        signal.signal(signal.SIGHUP, kept)
        folder.await_lines("up")
        process.send_signal(signal.SIGHUP)
        folder.touch("stop")
        check_equal(finish(process).code, 0)
        check_equal(int(folder.read("ignored").split()[1], 16) & 1, 1)


def test_command_gets_term_when_the_lock_is_taken_away(server, rql):
    with Folder() as folder:
        process = start_script(rql, folder,
                               "trap 'echo TERM > s; exit 0' TERM; echo > up; "
                               "while :; do sleep 0.01; done", "--ttl", "3s",
                               "--kill-after", "20s")  # it has to get to its trap
        folder.await_lines("up")
        server.ask("DEL", "rql:lock:a")
        result = finish(process)
        check_equal((result.code, folder.read("s")), (75, "TERM\n"), result.err)
        check_equal(result.err.splitlines()[0], "rql: a: the lock is lost; ending the command")


def test_command_that_ignores_term_is_killed_with_all_it_started(server, rql):
    with Folder() as folder:
        process = start_script(rql, folder,
                               "trap '' TERM; sleep 60 & echo $$ $! > pid; while :; do wait; done",
                               "--ttl", "600ms", "--kill-after", "200ms")
        pids = [int(word) for word in folder.await_lines("pid")]
        server.ask("DEL", "rql:lock:a")
        check_equal(finish(process).code, 75)
        await_gone(pids)


def test_lock_that_cannot_be_renewed_ends_the_command_before_its_deadline(server, rql):
    with Server() as other:
        with Folder() as folder:
            process = start_script(Program(other.url), folder,
                                   "trap 'date +%s%N > s' TERM; echo > up; "
                                   "while :; do sleep 0.01; done",
                                   "--ttl", "3s", "--kill-after", "1500ms")
            folder.await_lines("up")
            with other.frozen():
                stopped_at = time.time()
                result = finish(process)
            check_equal(result.code, 75)
            term_at = int(folder.read("s")) / 1e9
            assert term_at < stopped_at + 3, f"SIGTERM {term_at - stopped_at} s after the stop"
            check_in("the lock cannot be kept", result.err)


def test_max_hold_ends_the_command_before_its_lock_and_leaves_it_the_grace(server, rql):
    with Folder() as folder:
        process = start_script(rql, folder,
                               f"trap \"'{PROGRAM}' info a > held; echo > told\" TERM; while :; do sleep 0.01; done",
                               "--ttl", "900ms", "--max-hold", "4s", "--kill-after", "3s")
        folder.await_lines("told")
        told_at = time.monotonic()
        result = finish(process)
        check_equal(result.code, 75)
        check_in("rql: a: its --max-hold is nearly over; ending the command\n", result.err)
        check_in("alive", folder.read("held"))
        assert time.monotonic() - told_at > 2, f"killed {time.monotonic() - told_at} s after SIGTERM"


def test_max_hold_is_the_most_whatever_the_ttl(server, rql):
    for flags in ([], ["--no-auto-extend"]):
        with Folder() as folder:
            process = start_script(rql, folder, "trap 'echo TERM > s' TERM; echo $$ > up; while :; do sleep 0.01; done",
                                   "--ttl", "1h", "--max-hold", "3s", *flags)
            wait_until(lambda: server.is_locked("a"), "it holds the lock")
            taken_at = time.monotonic()
            assert server.ask("PTTL", "rql:lock:a") <= 3000
            folder.await_lines("up")
            result = finish(process)
            held_s = time.monotonic() - taken_at
            check_equal((result.code, folder.read("s")), (75, "TERM\n"), result.err)
            assert held_s < 10, f"held for {held_s} s"
            assert not server.is_locked("a")
    check_equal(rql("run", "a", "--max-hold", "forever", "--kill-after", "2s", "--", "true").code, 0)


def test_lock_lost_unnoticed_is_told_at_the_end(server, rql):
    result = rql("run", "a", "--ttl", "1m", "--", "sh", "-c",
                 f"'{PROGRAM}' unlock a --force > /dev/null; exit 3")
    check_equal(result.err, "rql: a: the lock had ended before the command did\n")
    check_equal(result.code, 75)


def test_release_that_fails_keeps_the_commands_code(server, rql):
    with Server() as other:
        with Folder() as folder:
            process = start_script(Program(other.url), folder,
                                   "echo > up; while [ ! -e stop ]; do sleep 0.01; done; exit 6",
                                   "--ttl", "1m", "--io-timeout", "1s")
            folder.await_lines("up")
            os.kill(other.process.pid, signal.SIGKILL)
            other.process.wait()
            folder.touch("stop")
            result = finish(process)
            said = [line for line in result.err.splitlines() if ": waiting: " not in line]  # on a busy machine, at first
            check_equal((result.code, len(said)), (6, 1), result.err)


class Shell(Terminal):
    """Its session leader plays the shell: it starts rql as a job in the foreground."""

    def __init__(self, rql, *words):
        super().__init__(lambda: self.play_shell(environment(rql.url), words))

    @staticmethod
    def play_shell(variables, words):
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        job = os.fork()
        if job == 0:
            signal.signal(signal.SIGTTOU, signal.SIG_DFL)
            os.setpgid(0, 0)
            while os.tcgetpgrp(0) != os.getpid():
                time.sleep(0.001)
            os.execve(PROGRAM, [PROGRAM, *words], variables)
        os.setpgid(job, job)
        while True:
            os.tcsetpgrp(0, job)
            status = os.waitpid(job, os.WUNTRACED)[1]
            os.tcsetpgrp(0, os.getpid())
            if not os.WIFSTOPPED(status):
                os.write(1, b"[end %d]" % os.waitstatus_to_exitcode(status))
                os._exit(0)
            os.write(1, b"[stopped]")
            os.read(0, 1)
            os.tcsetpgrp(0, job)
            os.killpg(job, signal.SIGCONT)


def test_command_can_read_the_terminal(server, rql):
    with Shell(rql, "run", "a", "--", "sh", "-c", "echo up; read x; echo got $x; exit 4") as terminal:
        terminal.read_until("up")
        terminal.type("hello\n")
        terminal.read_until("(?s)got hello.*\\[end 4]")


def test_interrupt_key_reaches_the_command(server, rql):
    for script in ("echo up; exec sleep 60", "echo up; read x; sleep 60"):
        with Shell(rql, "run", "a", "--", "sh", "-c", script) as terminal:
            terminal.read_until("up")
            terminal.type("\x03")
            terminal.read_until("\\[end -2]")
            wait_until(lambda: not server.is_locked("a"), "the lock is released")


def test_interrupt_key_ends_the_shells_script(server, rql):
    """Also where the command has the terminal, so that the key reaches its group alone."""
    for command in "exec sleep 60", "read x; echo has it; exec sleep 60":
        script = f"'{PROGRAM}' run a -- sh -c 'echo up; {command}'; echo went on; sleep 60"
        with Terminal(lambda: os.execvpe("bash", ["bash", "-c", script], environment(rql.url))) as terminal:
            terminal.read_until("up")
            if "read" in command:
                terminal.type("\n")
                terminal.read_until("has it")
            terminal.type("\x03")
            check_equal(terminal.finish(), -signal.SIGINT)
            assert b"went on" not in terminal.written, terminal.written
            assert not server.is_locked("a")


def test_suspend_key_stops_both_and_continues_both(server, rql):
    with Shell(rql, "run", "a", "--ttl", "1m", "--", "sh", "-c",
               "stty -echo; echo up; read x; echo got $x; read y; echo and $y") as terminal:
        terminal.read_until("up")
        terminal.type("1\n")
        terminal.read_until("got 1")
        terminal.type("\x1a")
        terminal.read_until("\\[stopped]")
        assert server.is_locked("a")
        terminal.type("\n2\n")
        terminal.read_until("(?s)and 2.*\\[end 0]")


def test_a_command_that_waits_for_the_terminal_of_another_says_so_once(server, rql):
    """Its rql cannot be stopped either: a shell without job control has no use for that."""
    script = f"trap '' TSTP; '{PROGRAM}' run a -- sh -c 'echo up; read x </dev/tty' & wait"
    with Terminal(lambda: os.execvpe("sh", ["sh", "-m", "-c", script], environment(rql.url))) as terminal:
        terminal.read_until("not stopped: no shell could continue it; the command waits for the terminal")
        check_equal(rql("run", "b", "--", "sleep", "0.3").code, 0)
        end_s = time.monotonic() + 1
        while time.monotonic() < end_s and select.select([terminal.fd], [], [], 0)[0]:
            terminal.read()
        check_equal(terminal.written.count(b"not stopped"), 1)
        assert server.is_locked("a")


def test_command_whose_lock_ended_while_stopped_does_not_go_on(server, rql):
    # No shell: dash waits for its vfork, and never stops when ^Z meets the new process before exec.
    script = "import time; print('up', flush=True); time.sleep(60); print('went on')"
    with Shell(rql, "run", "a", "--ttl", f"{2 * SLOW}s", "--", sys.executable, "-c", script) as terminal:
        terminal.read_until("up")
        terminal.type("\x1a")
        terminal.read_until("\\[stopped]")
        wait_until(lambda: not server.is_locked("a"), "the lock ends")
        terminal.type("\n")
        terminal.read_until("(?s)the lock is lost.*\\[end 75]")


if __name__ == "__main__":
    main()
