#!/usr/bin/env python3
"""rql top: what it shows on a terminal, what its keys do, and how it leaves the terminal; tables and JSON without one."""
import fcntl
import os
import re
import select
import signal
import struct
import termios
import time

from harness import (HOST, PROGRAM, Failure, Program, Server, Terminal, check_equal, check_in, environment, finish, main,
                     read_line, share_as, start_waiting, wait_until)

WIDTH, HEIGHT = 100, 24


def be_shell():
    """Lets a child have the terminal, and says when it has stopped. Returns in the child."""
    pid = os.fork()
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    if pid == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        return
    while True:
        _, status = os.waitpid(pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            os._exit(os.waitstatus_to_exitcode(status))
        os.write(1, b"STOPPED %d;" % pid)


class Screen(Terminal):
    """rql top at a terminal of this size; `lines` are those that are shown."""

    def __init__(self, rql, *words, width=WIDTH, height=HEIGHT, has_shell=False, url=None, **more):
        def begin():
            self.resize_of(0, width, height)
            if has_shell:
                be_shell()
            os.execve(PROGRAM, [PROGRAM, "top", "--every", "100ms", *words], environment(url or rql.url, TERM="xterm", **more))

        super().__init__(begin)
        self.width, self.height, self.lines, self.is_other = width, height, [""] * height, False
        self.rest = ""

    def __exit__(self, *_):
        if self.fd >= 0:
            super().__exit__()

    @staticmethod
    def resize_of(fd, width, height):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def resize(self, width, height):
        self.resize_of(self.fd, width, height)
        self.width, self.height, self.lines = width, height, [""] * height

    def look(self):
        """Reads what has come, and shows it."""
        while select.select([self.fd], [], [], 0.05)[0]:
            try:
                more = os.read(self.fd, 65536)
            except OSError:
                return
            self.written += more
            self.show(more.decode(errors="replace"))
            if not more:
                return

    def show(self, text):
        self.rest += text
        place = 0
        for found in re.finditer(r"\x1b\[(\?1049[hl])|\x1b\[2J|\x1b\[(\d+);1H\x1b\[K(.*?)\x1b\[0m", self.rest, re.S):
            place = found.end()
            if found[1]:
                self.is_other = found[1] == "?1049h"
            if found[2] and int(found[2]) <= self.height:
                self.lines[int(found[2]) - 1] = re.sub(r"\x1b\[\d*m", "", found[3])
            elif not found[2]:
                self.lines = [""] * self.height
        self.rest = self.rest[place:]

    def await_line(self, pattern):
        """The first line that has it."""
        end_s = time.monotonic() + 20
        while True:
            self.look()
            for line in self.lines:
                if re.search(pattern, line):
                    return line
            if time.monotonic() > end_s:
                raise Failure(f"{pattern} is not on the screen: {self.lines}")

    def await_rows(self, names):
        """The list shows these locks, and no others."""
        def shown():
            self.look()
            at = next((i for i, line in enumerate(self.lines) if line.startswith("NAME ")), HEIGHT)
            return [line.split()[0] for line in self.lines[at + 1:-1] if line.strip()]

        wait_until(lambda: shown() == names, f"{names} are shown")

    def quit(self, keys="q"):
        self.type(keys)
        code = self.finish()
        self.show(self.written.decode(errors="replace"))
        return code


def hold(rql, server, name, *words):
    """A process that holds the lock, and its name."""
    process = rql.start("run", name, *words, "--", "sleep", "60")
    wait_until(lambda: server.is_locked(name), "it is held")
    return process, rf"{re.escape(HOST)} rql\[{process.pid}\]"


def test_the_list_says_who_holds_what_and_how_many_wait(server, rql):
    _, holder = hold(rql, server, "orders:42", "--reason", "nightly export")
    for _ in range(2):
        start_waiting(server, rql, "run", "orders:42", "--", "true", name="orders:42")
    share_as(server, "gpu", 8, ("2", ""), ("1", ""))
    with Screen(rql) as screen:
        screen.await_line(r"^locks 2   waiting 2   served/s 0\.0")
        line = screen.await_line(rf"^orders:42 +1 +2 +0\.0 +\S+s +1\d\.\ds +\? +{holder}  nightly export")
        assert line.rstrip() and len(line) == WIDTH, line
        screen.await_line(r"^gpu +3/8 +0 +0\.0 .* 2 holders")
        screen.await_line(r"^NAME +HOLDERS +WAITING +SERVED/S +HELD +LEFT +EXPECT +HOLDER")
        screen.await_line(r"^rql top - \S+   \d\d:\d\d:\d\d   every 100ms")
        check_in("[q]uit  [enter] look  [b]locked  [h]osts  [u]nlock  [/] filter  [s]ort: waiting  [space] pause", screen.lines[-1])
        check_equal((screen.quit(), screen.is_other), (0, False))


def test_who_and_why_is_two_keys_away(server, rql):
    process, holder = hold(rql, server, "a", "--reason", "why not", "--meta", "job=7")
    waiting = start_waiting(server, rql, "run", "a", "--", "true")
    share_as(server, "b", 8, ("1", ""), ("1", ""))
    with Screen(rql) as screen:
        screen.await_line(r"^a +1 +1")
        screen.type("\r")
        screen.await_line(rf"^held by {holder}")
        screen.await_line(r"^  token \d+   for \S+s   left \S+s   alive -")
        screen.await_line("^  reason=why not")
        screen.await_line("^  job=7")
        screen.await_line(rf"^ +1 +\S+s +\? +- +alone +{re.escape(HOST)} rql\[{waiting.pid}\]")
        screen.type("\x1b")
        screen.await_line(r"^NAME ")
        screen.type("j\n")
        screen.await_line(r"^b *$")
        screen.await_line(r"no waiters")
        process.kill()
        check_equal(screen.quit(), 0)


def test_a_circle_of_waiters_is_a_deadlock(server, rql):
    """Two acquirers, each of which holds what the other wants, as the scripts write them; and a third that waits for one
    of them. It holds c, for which a fourth waits."""
    for name, own, other in (("a", 1, 2), ("b", 2, 1), ("c", 3, 4)):
        who = [f"rql:acq:{i}/1/0/0/{i:032x}" for i in (own, other)]
        server.ask("HSET", f"rql:lock:{name}", "acq_id", who[0], "hst_id", f"rql:hst:{own}/1/0/{own:032x}", "ts",
                   server.now_us() / 1e6, "ini_ttl", 60000, "rql_nonce", f"{own:032x}", "rql_token", server.now_us())
        server.ask("PEXPIRE", f"rql:lock:{name}", 60000)
        server.ask("ZADD", f"rql:lock_queue:{name}", server.now_us() / 1e6, who[1])
    server.ask("ZADD", "rql:lock_queue:a", server.now_us() / 1e6, f"rql:acq:3/1/0/0/{3:032x}")
    with Screen(rql) as screen:
        screen.await_line(r"^a ")
        screen.type("b")
        screen.await_line(r"^a  rql:acq:1/.*, for ")
        screen.await_line(r"^   waits behind rql:acq:1/\S+, which waits for b, held for \S+")
        screen.await_line(r"^c  rql:acq:3/.*, for ")
        wait_until(lambda: screen.look() or sum("DEADLOCK" in line for line in screen.lines) == 3, "three lead into it")
        screen.type("b")
        screen.await_line(r"^NAME ")


def test_rows_are_sorted_and_moved_through(server, rql):
    names = [f"l{i:02}" for i in range(40)]
    for i, name in enumerate(names):
        server.ask("HSET", f"rql:lock:{name}", "acq_id", "rql:acq:1/1/0/0/0", "hst_id", "rql:hst:1/1/0/0", "ts",
                   server.now_us() / 1e6 - i, "ini_ttl", 60000, "rql_nonce", "0", "rql_token", server.now_us())
        server.ask("PEXPIRE", f"rql:lock:{name}", 600000 - 1000 * i)

    def shown(screen):
        return [line.split()[0] for line in screen.lines if re.match(r"l\d\d ", line)]

    with Screen(rql, "--sort", "name") as screen:
        screen.await_line("^l00 ")
        check_equal(shown(screen), names[:HEIGHT - 5])
        screen.type("G")
        screen.await_line("^l39 ")
        check_equal(shown(screen), names[-(HEIGHT - 5):])
        screen.type("g")
        screen.await_line("^l00 ")
        screen.type("S")
        screen.await_line("^l18 ")
        check_equal(shown(screen)[-1], "l00")  # chosen: it stays on the screen
        screen.type("Sss")  # waiting, held
        screen.await_line(r"ort: held")
        screen.type("g")
        screen.await_line("^l39 ")
        check_equal(shown(screen), names[::-1][:HEIGHT - 5])
        screen.resize(60, 12)
        screen.await_line("^l39 ")
        assert all(len(line) <= 60 for line in screen.lines), screen.lines
        check_equal(shown(screen), names[::-1][:7])


def test_no_row_is_hidden_while_there_is_room(server, rql):
    for i in range(30):
        write_lock(server, f"l{i:02}", i)
    with Screen(rql, "--sort", "name", height=12) as screen:
        screen.await_line("^l00 ")
        screen.type("G")
        screen.await_line("^l29 ")
        screen.resize(WIDTH, 20)
        screen.await_rows([f"l{i}" for i in range(15, 30)])
        server.ask("DEL", *(f"rql:lock:l{i:02}" for i in range(25)))
        screen.await_rows([f"l{i}" for i in range(25, 30)])


def test_what_was_served_between_two_looks_is_counted(server, rql):
    first, _ = hold(rql, server, "a")
    with Screen(rql) as screen:
        waiting = [start_waiting(server, rql, "run", "a", "--", "sleep", "0.3") for _ in range(4)]
        screen.await_line(r"^a +1 +4 +0\.0")
        waiting[0].terminate()  # who goes was not served
        line = screen.await_line(r"^a +1 +3 ")
        check_in(" 0.0 ", line)
        first.terminate()
        finish(first)
        screen.await_line(r"^a +1 +[12] +[1-9]\d*\.\d\+? +\S+ +\S+ +\d\S*s")
        screen.await_line(r"^a +1 +0 ")


def test_damaged_keys_are_shown_and_count_as_no_locks(server, rql):
    write_lock(server, "a", 1)
    server.ask("SET", "rql:lock:b", "x")
    server.ask("HSET", "rql:lock:c", "rql_token", "x")
    server.ask("SET", "rql:lock_queue:d", "x")
    damage = {"b": "wrong type", "c": "malformed", "d": "queue: wrong type"}
    with Screen(rql, "--sort", "name") as screen:
        screen.await_line("^locks 1 ")
        for name, said in damage.items():
            screen.await_line(rf"^{name} .*  {said} *$")
        for name, line in ("b", "its key is not a lock: wrong type"), ("c", "its key is not a lock: malformed"), ("d", "its key is not a queue: wrong type"):
            screen.type("j\r")
            screen.await_line(rf"^{name} *$")
            screen.await_line(f"^{line}")
            assert not any(line.startswith("held by") for line in screen.lines), screen.lines
            screen.type("\x1b")
            screen.await_line("^NAME ")
        check_equal(screen.quit(), 0)
    printed = [re.split(r"  +", line) for line in rql("top", "-n", "1", "--sort", "name").out.splitlines()[1:]]
    check_equal({row[0]: row[7] for row in printed[1:]}, damage)
    check_equal(rql("top", "--json", "-n", "1").json()["n_locks"], 1)


def test_names_of_others_do_not_write_to_the_terminal(server, rql):
    hostile = "x\x1b[2J\x07\u202e"
    server.ask("HSET", f"rql:lock:{hostile}", "acq_id", "rql:acq:1\x1b]0;y\x07/1/0/0/0", "hst_id", "h", "ts", 1, "ini_ttl", 1,
               "rql_nonce", "0", "reason", "\x1b[31mred")
    with Screen(rql, width=200) as screen:
        line = screen.await_line(r"^x\\x1b\[2J")
        check_in("\\x1b[31mred", line)
        screen.type("\r")
        screen.await_line(r"^  reason=\\x1b\[31mred")
        screen.quit()
        assert "\x07" not in screen.written.decode() and "\x1b[31m" not in screen.written.decode()


def test_a_server_that_has_gone_is_missed_without_locks_too(_server, _rql):
    """A look that knows no name asks for none. The second one comes before all names are read again."""
    with Server() as own:
        rql = Program(own.url)
        looking = rql.start("top", "-b", "--every", "1s", "-n", "2")
        check_in("NAME", read_line(looking.stdout))
        own.kill()
        result = finish(looking)
        check_equal(result.code, 69)
        check_equal(len(result.err.splitlines()), 1)
        rql.clean()


def test_a_server_that_does_not_answer_leaves_the_last_picture(server, rql):
    hold(rql, server, "a")
    with Screen(rql, "--io-timeout", "200ms", "--connect-timeout", "200ms") as screen:
        screen.await_line("^a ")
        with server.frozen():
            screen.await_line("^no answer for .*: ")
            screen.await_line("^a ")
            screen.type("\r")  # a key has its effect meanwhile
            screen.await_line(r"\[esc\] back")
        screen.type("\x1b")
        wait_until(lambda: screen.look() or not any(line.startswith("no answer") for line in screen.lines), "it answers")
        screen.await_line("^a ")


def test_the_age_of_a_fault_grows_in_a_pause(server, rql):
    with Screen(rql, "--io-timeout", "200ms", "--connect-timeout", "200ms") as screen:
        screen.await_line("^locks 0")
        with server.frozen():
            screen.await_line("^no answer for .*: ")
            screen.type(" ")
            screen.await_line("PAUSED")
            time.sleep(0.5)  # the look that was under way has ended
            seen = set()
            wait_until(lambda: seen.add(screen.await_line("^no answer for ").split(":")[0]) or len(seen) > 3, "it grows")


def test_it_can_be_left_while_the_server_does_not_answer(server, rql):
    with Screen(rql, "--io-timeout", "60s") as screen:
        screen.await_line("^locks 0")
        with server.frozen():
            time.sleep(0.3)  # a look is under way
            check_equal(screen.quit(), 0)
            check_equal(screen.is_other, False)


def test_a_pause_stops_the_looks(server, rql):
    with Screen(rql) as screen:
        screen.await_line("^locks 0")
        screen.type(" ")
        screen.await_line("PAUSED")
        hold(rql, server, "a")
        time.sleep(0.4)
        screen.look()
        check_equal([line for line in screen.lines if line.startswith("a ")], [])
        screen.type(" ")
        screen.await_line("^a ")


def test_the_terminal_is_as_it_was_on_every_way_out(server, rql):
    for end in ("q", "\x03", signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        with Screen(rql) as screen:
            screen.await_line("^locks 0")
            before = termios.tcgetattr(screen.fd)
            assert not before[3] & termios.ECHO
            if isinstance(end, str):
                check_equal(screen.quit(end), 0)
            else:
                os.kill(screen.pid, end)
                check_equal(screen.quit(""), -end)
            assert screen.written.decode().endswith("\x1b[?25h\x1b[?1049l"), screen.written[-80:]
            after = termios.tcgetattr(screen.fd)
            assert after[3] & termios.ECHO and after[3] & termios.ICANON


def test_it_stops_and_goes_on(_server, rql):
    with Screen(rql, has_shell=True) as screen:
        screen.await_line("^locks 0")
        screen.type("\x1a")
        pid = int(screen.read_until(r"STOPPED (\d+);")[1])
        screen.show(screen.written.decode())
        assert not screen.is_other, "the terminal is as it was"
        os.kill(pid, signal.SIGCONT)
        wait_until(lambda: screen.look() or screen.is_other, "the screen is back")
        screen.await_line("^locks 0")
        check_equal(screen.quit(), 0)
    with Screen(rql) as screen:  # without a shell nothing would continue it: it goes on
        screen.await_line("^locks 0")
        screen.type("\x1a")
        screen.type("b")
        screen.await_line("no waiters")
        check_equal(screen.quit(), 0)


def test_a_terminal_that_was_stopped_holds_up_no_end(server, rql):
    """As by ^S."""
    for end in ("q", signal.SIGTERM):
        with Screen(rql) as screen:
            screen.await_line("^locks 0")
            screen.type("\x13")
            time.sleep(0.3)
            if isinstance(end, str):
                screen.type(end)
            else:
                os.kill(screen.pid, end)
            done = os.waitid(os.P_PID, screen.pid, os.WEXITED | os.WNOWAIT)
            check_equal(done.si_status, 0 if isinstance(end, str) else end)


def test_a_page_that_is_longer_than_the_screen_is_scrolled(server, rql):
    hold(rql, server, "a")
    for i in range(60):
        server.ask("ZADD", "rql:lock_queue:a", server.now_us() / 1e6 + i, f"rql:acq:{i}/1/0/0/{i:032x}")
    with Screen(rql) as screen:
        screen.await_line("^a ")
        screen.type("\r")
        screen.await_line("^  token ")  # the holders are read: from now on one line is chosen
        screen.await_line("^… more: down, page down")
        screen.await_line(r"^ +1 +\S+ +\? +- +alone +rql:acq:0/")
        for _ in range(6):
            screen.type("\x1b[6~")
        screen.await_line(r"^ +60 +\S+ +\? +- +alone +rql:acq:59/")
        screen.type("g")
        screen.await_line(r"^ +1 +\S+ +\? +- +alone +rql:acq:0/")


def test_a_server_that_was_slow_once_is_looked_at_as_often_as_before(server, rql):
    with Screen(rql, "--io-timeout", "10s") as screen:
        for _ in range(6):
            screen.await_line("^locks 0")
            time.sleep(0.2)
            screen.look()
        with server.frozen():
            time.sleep(1)
        hold(rql, server, "a")
        screen.await_line("^a ")
        screen.await_line("every 100ms")


def test_a_row_that_ends_leaves_its_place_to_the_next(server, rql):
    for name in "abcd":
        server.ask("HSET", f"rql:lock:{name}", "acq_id", "rql:acq:1/1/0/0/0", "hst_id", "h", "ts", 1, "ini_ttl", 1,
                   "rql_nonce", "0")
    with Screen(rql, "--sort", "name") as screen:
        screen.await_line("^d ")
        screen.type("jj")
        time.sleep(0.3)
        server.ask("DEL", "rql:lock:c")
        wait_until(lambda: screen.look() or not any(line.startswith("c ") for line in screen.lines), "it is gone")
        screen.type("\r")
        screen.await_line("^d *$")


def test_a_slow_terminal_delays_no_key(server, rql):
    """Nobody reads: q ends it all the same."""
    for i in range(200):
        server.ask("HSET", f"rql:lock:{i}" + "x" * 60, "acq_id", "rql:acq:1/1/0/0/0", "hst_id", "h", "ts", i, "ini_ttl", 1,
                   "rql_nonce", "0")
    with Screen(rql, width=900, height=200) as screen:
        time.sleep(1)  # the terminal's buffer is full
        screen.type("q")
        check_equal(screen.finish(), 0)


def test_without_a_terminal_each_look_is_a_table_or_an_object(server, rql):
    _, holder = hold(rql, server, "orders:42", "--reason", "nightly")
    hold(rql, server, "b")
    done = rql("top", "orders:*", "-n", "2", "--every", "100ms")
    rows = [re.split(r"  +", line) for line in done.out.splitlines() if line]
    check_equal([row[0] for row in rows], ["NAME", "orders:42"] * 2)
    check_equal((rows[1][3], rows[3][3], rows[1][-1]), ("-", "0.0", "nightly"))
    assert re.search(holder, done.out)
    seen = rql("top", "--json", "-n", "1", "--sort", "name").json()
    check_equal((seen["n_locks"], seen["waiting"], seen["served_per_s"]), (2, 0, None))
    check_equal([(one["name"], one["waiting"], one["expected_wait_ms"]) for one in seen["locks"]], [("b", 0, None), ("orders:42", 0, None)])
    check_equal(seen["locks"][1]["client"]["program"], "rql")
    check_equal([(one["requests"], seen["hosts"]) for one in seen["locks"]], [([], []), ([], [])])
    server.ask("ZADD", "rql:lock_queue:b", *(word for i in range(120) for word in (f"{i + 1}", f"rql:acq:{i}/1/0/0/0123456789abcdef")))
    seen = rql("top", "b", "--json", "-n", "1").json()
    check_equal((seen["waiting"], [one["position"] for one in seen["locks"][0]["requests"]]), (120, list(range(1, 101))))


def test_a_lock_without_a_ttl_is_left_forever(server, rql):
    write_lock(server, "a", 1)
    server.ask("PERSIST", "rql:lock:a")
    printed = [re.split(r"  +", line) for line in rql("top", "-n", "1").out.splitlines()]
    check_equal(dict(zip(*printed))["LEFT"], "forever")


def write_lock(server, name, number, token=None, ttl_ms=60000):
    """A lock of the acquirer of this number, as the scripts write it. Returns its token."""
    token = token or server.now_us()
    server.ask("HSET", f"rql:lock:{name}", "acq_id", f"rql:acq:{number}/1/0/0/{number:032x}", "hst_id",
               f"rql:hst:{number}/1/0/{number:032x}", "ts", server.now_us() / 1e6, "ini_ttl", ttl_ms, "rql_nonce",
               f"{number:032x}", "rql_token", token)
    server.ask("PEXPIRE", f"rql:lock:{name}", ttl_ms)
    return token


def test_between_two_passes_only_known_names_are_read(server, rql):
    for name in "abc":
        write_lock(server, name, 1)
    server.ask("CONFIG", "RESETSTAT")
    with Screen(rql) as screen:
        screen.await_line("^a ")
        begin_s = time.monotonic()
        server.ask("DEL", "rql:lock:b")  # a look shows it
        wait_until(lambda: screen.look() or not any(line.startswith("b ") for line in screen.lines), "it is gone")
        write_lock(server, "b", 2)  # its name is known
        screen.await_line("^b ")
        stats = server.ask("INFO", "commandstats")
        calls = {command: int(count) for command, count in re.findall(r"cmdstat_(\w+):calls=(\d+)", stats)}
        assert calls["hgetall"] >= 9, calls
        # A pass is one call here, and the walk over the clients another kind.
        assert calls["scan"] <= 1 + (time.monotonic() - begin_s) / 10 + 1, calls


def test_names_are_filtered(server, rql):
    for name in ("apple", "banana", "cherry"):
        write_lock(server, name, 1)
    with Screen(rql, "--sort", "name") as screen:
        screen.await_line("^apple ")
        screen.type("/*anx")
        screen.await_line(r"^names like: \*anx_")
        screen.type("\x7fq")
        screen.await_line(r"^names like: \*anq_")  # q is a letter here
        screen.type("\x7fa*\r")
        wait_until(lambda: screen.look() or not any(line.startswith("apple") for line in screen.lines), "it is not shown")
        screen.await_line("^banana ")
        check_in("[/] *ana*", screen.lines[-1])
        check_in("locks 3 ", screen.lines[1])
        screen.type("\r")
        screen.await_line("^held by rql:acq:1/")
        screen.type("\x1b/\x1b")
        screen.await_line("^cherry ")
        check_in("[/] filter", screen.lines[-1])


def test_no_lock_that_is_not_shown_is_unlocked(server, rql):
    for name in ("apple", "banana"):
        write_lock(server, name, 1)
    with Screen(rql, "--sort", "name") as screen:
        screen.await_line("^apple ")
        for keys in ("/no\r", "/no\rjku"):  # with a picture before the key, and without one
            screen.type(keys)
            screen.await_rows([])
            screen.type("u")
            screen.await_line("^no lock is chosen")
            screen.type("y\r")
            screen.await_line(r"\[enter\] look")
            screen.type("/\x1b")
            screen.await_rows(["apple", "banana"])
        assert server.is_locked("apple") and server.is_locked("banana")
        screen.type("/b*\ru")  # another row is the chosen one
        screen.await_line(r"^unlock banana\?")
        screen.type("n")
        check_equal(screen.quit(), 0)


def test_only_locks_that_are_held_for_long_are_shown(server, rql):
    write_lock(server, "new", 1)
    write_lock(server, "old", 2)
    write_lock(server, "waited", 3)
    server.ask("HSET", "rql:lock:old", "ts", server.now_us() / 1e6 - 7200)
    server.ask("ZADD", "rql:lock_queue:waited", server.now_us() / 1e6 - 7200, f"rql:acq:4/1/0/0/{4:032x}")
    done = rql("top", "-n", "1", "--older-than", "1h", "--json").json()
    check_equal((sorted(one["name"] for one in done["locks"]), done["n_locks"]), (["old", "waited"], 3))


def test_hosts_are_shown_with_those_that_are_dead(server, rql):
    identity = f"{1:032x}"
    for number, silent_s in ((1, 1), (2, 100)):
        server.ask("HSET", "rql:swarm:hsts", f"rql:hst:{number}/1/0/{number:032x}", f"{server.now_us() / 1e6 - silent_s:.6f}")
    write_lock(server, "a", 1)
    server.ask("ZADD", "rql:lock_queue:a", server.now_us() / 1e6, f"rql:acq:2/1/0/0/{2:032x}")
    server.ask("HSET", "rql:req:a", f"rql:acq:2/1/0/0/{2:032x}", f"rql:hst:2/1/0/{2:032x} 5000 {2:032x} 0 q 0 ")
    with Screen(rql, width=200) as screen:
        screen.await_line(rf"hosts 2 \(1 dead: rql:hst:2/1/0/{2:032x}, 1m\d\ds\)")
        screen.type("h")
        screen.await_line(rf"^dead +1m\d\ds  rql:hst:2/")
        screen.await_line(rf"^alive +\d\S*s  rql:hst:1/1/0/{identity}")
        screen.await_line("^flusher: none")
        screen.type("h\r")
        screen.await_line(r"^  token .*   alive \d")
        screen.await_line(r"^ +1 +\S+ +\? +dead 1m\d\ds  alone +rql:acq:2/")
    seen = rql("top", "--json", "-n", "1").json()
    check_equal((seen["n_hosts"], seen["zombie_hosts"]), (2, 1))


def test_a_question_is_whole_on_a_narrow_terminal(server, rql):
    token = write_lock(server, "orders:1", 1)
    write_lock(server, "other", 1)
    with Screen(rql, "orders*", width=40, height=14) as screen:
        screen.await_line(r"^rql top orders\* - ")
        screen.await_line("^orders:1 ")
        screen.await_line(r"^\[q\]uit ")
        screen.type("u")
        screen.await_line(r"^\[y\]es  \[n\]o")
        shown = " ".join(" ".join(screen.lines).split())
        check_in("It is not told before its next renewal.", shown)
        check_in(f"same as: rql unlock --force --token {token} -- orders:1 [y]es", shown)
        screen.type("n")
        check_equal(screen.quit(), 0)


def test_a_long_name_leaves_room_for_the_answers(server, rql):
    write_lock(server, "\x01" * 500, 1)
    with Screen(rql, width=80) as screen:
        screen.await_line(r"^\\x01")
        screen.type("u")
        screen.await_line(r"^\[y\]es  \[n\]o")
        shown = " ".join("".join(screen.lines).split())
        assert re.search(r"unlock (\\x01)+.{1,4}\? rql:acq:1/\S+ has held it for", shown), shown
        screen.type("n")
        check_equal(screen.quit(), 0)


def test_the_command_for_a_name_like_a_flag_works(server, rql):
    write_lock(server, "-x", 1)
    with Screen(rql) as screen:
        screen.await_line("^-x ")
        screen.type("u")
        command = screen.await_line("^  rql unlock ").split()
        screen.type("n")
        check_equal(screen.quit(), 0)
    check_equal(rql(*command[1:]).code, 0)
    assert not server.is_locked("-x")


def test_a_low_terminal_shows_no_line_outside_of_it(server, rql):
    write_lock(server, "a", 1)
    for height in range(1, 8):
        with Screen(rql, width=40, height=height) as screen:
            screen.await_line(r"^\[q\]uit")
            if height > 4:
                screen.await_line("^a ")
            screen.type("u")
            screen.await_line(r"^\[y\]es")
            screen.type("n\r")
            screen.await_line(r"^\[q\]uit  \[esc\]")
            check_in("[q]uit  [esc] back", screen.lines[-1])
            check_equal(screen.quit(), 0)
            places = [int(line) for line in re.findall(r"\x1b\[(\d+);1H", screen.written.decode())]
            check_equal(max(places), height)


def test_the_name_of_a_lock_is_shown_first(server, rql):
    """Also on a terminal with room for less than its page, before its holders are read and after that."""
    hold(rql, server, "a", "--reason", "why")
    for _ in range(4):
        start_waiting(server, rql, "run", "a", "--", "true", name="a")
    with Screen(rql, width=60, height=10) as screen:
        screen.await_line("^a ")
        screen.type("\r")
        screen.await_line(r"^a$|^a +$")
        screen.await_line("token")
        screen.await_line(r"^a$|^a +$")
        check_equal(screen.quit(), 0)


def test_unlock_ends_the_grant_that_was_seen(server, rql):
    token = write_lock(server, "it's", 1)
    with Screen(rql, width=160) as screen:
        screen.await_line("^it's ")
        screen.type("u")
        screen.await_line(r"^unlock it's\? rql:acq:1/\S+ has held it for \S+ and 0 wait\. It is not told before")
        screen.await_line(rf"^  rql unlock --force --token {token} -- 'it'\\''s'")
        screen.type("n")
        screen.await_line(r"\[u\]nlock")
        assert server.is_locked("it's")
        screen.type("u")
        screen.await_line("^unlock ")
        screen.type("y")
        screen.await_line("^it's: that grant was ended")
        assert not server.is_locked("it's")
        check_equal(screen.quit(), 0)
    refused = rql("unlock", "it's", "--force", "--token", str(token))
    check_equal((refused.code, refused.err), (1, "rql: it's: not released: no grant with this token is in force\n"))


def test_a_change_that_was_confirmed_is_made_before_the_end(server, rql):
    write_lock(server, "a", 1)
    with Screen(rql) as screen:
        screen.await_line("^a ")
        screen.type("u")
        screen.await_line("^unlock a")
        check_equal(screen.quit("yq"), 0)
        check_in("\x1b[?1049lrql: a: that grant was ended", screen.written.decode())
        assert not server.is_locked("a")


def test_the_end_says_what_has_become_of_a_change_without_an_answer(server, rql):
    for is_paused, said in ((True, "a: no answer: it is not known whether it was unlocked"), (False, "a: no answer: not unlocked")):
        write_lock(server, "a", 1)
        with Screen(rql, "--io-timeout", "60s") as screen:
            screen.await_line("^a ")
            screen.type(" " if is_paused else "")
            screen.await_line("PAUSED" if is_paused else "every 100ms")
            time.sleep(0.3)  # in a pause no look is under way
            with server.frozen():
                time.sleep(0.3)  # otherwise one is
                screen.type("u")
                screen.await_line("^unlock a")
                screen.type("y")
                screen.await_line(r"^a: being unlocked \.\.\.")
                check_equal(screen.quit(), 69)
            check_in(f"\x1b[?1049lrql: {said}\r\n", screen.written.decode())


def test_unlock_of_a_lock_that_has_changed_hands_ends_nothing(server, rql):
    write_lock(server, "a", 1, token=77)
    with Screen(rql) as screen:
        screen.await_line("^a ")
        screen.type(" \r")
        screen.await_line("^  token 77 ")
        screen.type("u")
        screen.await_line("^unlock a")
        server.ask("DEL", "rql:lock:a")
        write_lock(server, "a", 1, token=78)  # the same acquirer, once more
        server.ask("HSET", "rql:lock:a", "rql_nonce", f"{9:032x}")
        screen.type("y")
        screen.await_line("^a: that grant had ended already; nothing was changed")
        check_equal(server.ask("HGET", "rql:lock:a", "rql_token"), "78")


def test_one_of_several_holders_is_unlocked(server, rql):
    share_as(server, "gpu", 8, ("2", ""), ("1", ""))
    with Screen(rql) as screen:
        screen.await_line("^gpu +3/8")
        screen.type("u")
        screen.await_line(r"^several hold it: \[enter\], then choose one")
        screen.type("\r")
        screen.await_line("^  token ")
        screen.type("ju")
        screen.await_line("^unlock gpu")
        screen.type("y")
        screen.await_line("^gpu: that grant was ended")
        screen.type("\x1b")
        screen.await_line("^gpu +2/8")


def test_a_request_is_removed(server, rql):
    write_lock(server, "a", 1)
    for number in (2, 3):
        server.ask("ZADD", "rql:lock_queue:a", server.now_us() / 1e6 + number, f"rql:acq:{number}/1/2/3/0123456789abcdef")
    with Screen(rql, width=140) as screen:
        screen.await_line("^a +1 +2")
        screen.type("\r")
        screen.await_line("^  token ")
        screen.await_line(r"alone +ruby\[2\]")
        screen.type("x")
        screen.await_line("^choose a waiter first")
        screen.type("ju")
        screen.await_line("^choose a holder first")
        screen.type("x")
        screen.await_line(r"^remove the request of ruby\[2\] for a\?")
        screen.type("y")
        screen.await_line("^a: the request was removed")
        check_equal(server.ask("ZRANGE", "rql:lock_queue:a", 0, -1), ["rql:acq:3/1/2/3/0123456789abcdef"])


def test_keys_that_change_something_are_offered_to_those_who_may(server, rql):
    write_lock(server, "a", 1)
    reader = server.add_user("reader", "~*", "+@read", "+@connection", "+info", "+time", "+dbsize", "+evalsha", "+script|exists", "-@write",
                             "&*", "+publish", "+cluster|slots")
    for words, url in ((("--read-only",), rql.url), ((), reader)):
        with Screen(rql, *words, url=url) as screen:
            screen.await_line("^a ")
            screen.await_line(r"\[h\]osts  \[/\] filter")
            screen.type("u")
            time.sleep(0.3)
            screen.look()
            assert not any("unlock" in line for line in screen.lines), screen.lines
            check_equal(screen.quit(), 0)


def test_without_colours_only_the_chosen_line_is_marked(server, rql):
    write_lock(server, "a", 1)
    with Screen(rql, "--no-color") as screen:
        screen.await_line("^a ")
        screen.quit()
        assert "\x1b[7m" in screen.written.decode() and "\x1b[1m" not in screen.written.decode()


def test_an_empty_no_color_means_colours(server, rql):
    """As in the tables of the other commands."""
    write_lock(server, "a", 1)
    with Screen(rql, NO_COLOR="") as screen:
        screen.await_line("^a ")
        screen.quit()
        assert "\x1b[1m" in screen.written.decode()


def test_a_circle_of_nested_runs_is_a_deadlock(server, rql):
    """Each of two runs holds a lock, and its command waits for the other one."""
    for own, other in ("ab", "ba"):
        rql.start("run", own, "--", "sh", "-c", f"until [ -e go ]; do sleep 0.1; done; exec {PROGRAM} run {other} -- true")
        wait_until(lambda own=own: server.is_locked(own), "it is held")
    open("go", "w").close()
    wait_until(lambda: server.ask("ZCARD", "rql:lock_queue:a") == server.ask("ZCARD", "rql:lock_queue:b") == 1, "both wait")
    with Screen(rql) as screen:
        screen.type("b")
        wait_until(lambda: screen.look() or sum("DEADLOCK" in line for line in screen.lines) == 2, "both are in it")
        check_equal(screen.quit(), 0)


def test_words_that_cannot_be(_server, rql):
    for words, said in ((("--sort", "size"), "sorted by"), (("--every", "1ms"), "--every is 100ms or more"), (("[a",), "bad pattern")):
        refused = rql("top", *words)
        check_equal(refused.code, 64)
        check_in(said, refused.err)
    refused = rql("top", "-n", "1", RQL_URL="unix:///no/such")
    check_equal(refused.code, 69)


if __name__ == "__main__":
    main()
