#!/usr/bin/env python3
"""rql run --agent: an agent holds the lock as long as any of rql, its guard, the command and what it has started lives."""
import contextlib
import os
import re
import signal
import socket
import sys
import threading
import time

from agent import Agent, await_free
from harness import PROGRAM, Folder, check_equal, check_in, finish, is_cluster, is_gone, main, wait_until
from test_guard import FAMILY, IGNORES, Job, await_looks, await_next, must_be_root, start_next

SLEEPS = "echo $$ >> $PIDS; exec sleep 600"
# Closes what it has inherited.
CLOSES = "import os, sys; os.closerange(3, 1000); os.execvp('sh', ['sh', '-c', sys.argv[1]])"
TELLS = "trap 'date +%s%N >> $SIGNS/told; exit 3' TERM; echo $$ >> $PIDS; while :; do sleep 0.01; done"


def run_under(agent, *flags, name="a"):
    return ("run", name, f"--agent={agent.path}", *flags)


def token_of(server):
    return int(server.ask("HGET", "rql:lock:a", "rql_token"))


def test_the_command_runs_under_a_lock_of_the_agent(server, rql):
    with Agent(rql) as agent:
        done = rql(*run_under(agent, "--meta", "build=7", "--reason", "nightly"), "--", "sh", "-c",
                   f"echo $RQL_LOCK $RQL_TOKEN $RQL_URL; {PROGRAM} info a --json; exit 3")
        check_equal((done.code, done.err), (3, ""))
        first, shown = done.out.split("\n", 1)
        check_in(f'"token":\t{first.split()[1]}', shown)
        check_equal(first.split()[::2], ["a", server.url])
        check_equal(re.findall(r'"(build|reason)":\t"(.*)"', shown), [("build", "7"), ("reason", "nightly")])
        check_in("rql[", shown)  # the holder, not the agent
        assert not server.is_locked("a")


def test_an_agent_may_be_named_by_the_environment(server, rql):
    with Agent(rql) as agent:
        with Folder() as folder:
            os.rename(agent.path, folder.path("agent.sock"))
            for value, holds in (("1", True), (folder.path("agent.sock"), True), ("0", False), ("", False)):
                out = rql("run", "a", "--", PROGRAM, "info", "a", "--json", RQL_AGENT=value, RQL_LOCAL_DIR=folder.path("")).out
                check_equal('"holder":' in out, holds, value)
            check_equal(rql("run", "a", "--agent", "--", "true", RQL_LOCAL_DIR=folder.path("")).code, 0)
            check_equal(rql("once", "b", "--window", "1m", "--", "true", RQL_AGENT=folder.path("none")).code, 0)
            os.rename(folder.path("agent.sock"), agent.path)


def test_permits_have_their_numbers(server, rql):
    with Agent(rql) as agent:
        other = agent.connect()
        check_equal(other.call("RQL.LOCK", "a", "PERMITS", 3, "SLOTS")[2], [0])
        done = rql(*run_under(agent, "--permits", "3", "--units", "2", "--slots"), "--", "sh", "-c", "echo $RQL_SLOTS {slot}")
        check_equal((done.code, done.out), (0, "1,2 1\n"))
        check_equal(rql(*run_under(agent, "--permits", "3", "--units", "3", "--try", "-E", "9"), "--", "true").code, 9)


def test_a_lock_that_is_not_had_is_said(server, rql):
    with Agent(rql) as agent:
        other = agent.connect()
        other.call("RQL.LOCK", "a")
        for flags, said in ((("--try",), "rql: a: not acquired: it is held\n"),
                            (("--wait", "0ms"), "rql: a: not acquired: it is held\n"),
                            (("--wait", "100ms"), "rql: a: not acquired within 0.1 s\n")):
            refused = rql(*run_under(agent, *flags, "-E", "9"), "--", "true")
            check_equal((refused.code, refused.out, refused.err), (9, "", said))
        for flag in (("--priority", "high"), ("--head-start", "1s"), ("--max-waiters", "3"), ("--hold-at-least", "1s"),
                     ("--url", "redis://h"), ("--replicas", "1"), ("--fsync", "true"), ("--retry-count", "2"),
                     ("--access-strategy", "random")):
            refused = rql(*run_under(agent, *flag), "--", "true")
            check_equal(refused.code, 64)
            check_in(f"an agent does not take {flag[0]}", refused.err)
        check_equal([rql(*run_under(agent, *flags), "--", "true", RQL_PROFILE="gem").code
                     for flags in ((), ("--try", "-E", "9"), ("--wait", "100ms", "-E", "9"))], [64, 9, 9])
        check_equal(rql(*run_under(agent, name="b" * 1000), "--", "true").code, 64)
        check_equal([rql(*run_under(agent, "--ttl", ttl), "--", "true").code for ttl in ("0s", "721h")], [64, 64])
        for words in (("a", "--agent", agent.path), ("--agent", agent.path, "a")):
            refused = rql("run", *words, "--", "true")
            check_equal(refused.code, 64)
            check_in("write --agent=SOCKET", refused.err)
        for refused in rql("run", "a", "--agent=6390", "--", "true"), rql("run", "a", "--", "true", RQL_AGENT="yes"):
            check_equal(refused.code, 64)
            check_in("the socket of an agent is a path with a slash, not ", refused.err)
        check_in("is too long for the path", rql("run", "a", f"--agent={agent.path:/<108}", "--", "true").err)
    refused = rql("run", "a", "--agent=/no/such", "--", "true")
    check_equal((refused.code, refused.err),
                (69, "rql: no agent at /no/such: No such file or directory; start one with rql agent\n"))


def test_an_agent_that_may_not_be_used_is_not_said_to_be_absent(_server, rql):
    must_be_root()
    with Agent(rql) as agent:
        os.chmod(agent.path, 0)
        refused = finish(rql.start(*run_under(agent), "--", "true", under=("setpriv", "--bounding-set=-all")))
        check_equal((refused.code, refused.err),
                    (69, f"rql: the agent at {agent.path} may not be used by this user: Permission denied\n"))


def test_an_agent_that_stands_still_is_not_said_to_be_absent(_server, rql):
    """The clients that it has not accepted are as many as the system allows."""
    with Folder() as folder, socket.socket(socket.AF_UNIX) as line, socket.socket(socket.AF_UNIX) as first:
        line.bind(folder.path("s"))
        line.listen(0)
        first.connect(folder.path("s"))
        refused = rql("run", "a", f"--agent={folder.path('s')}", "--", "true")
        check_equal((refused.code, refused.err),
                    (69, f"rql: the agent at {folder.path('s')} has accepted no client for 5 s\n"))


def test_a_refusal_whose_exit_code_is_0_runs_nothing(server, rql):
    with Agent(rql) as agent:
        other = agent.connect()
        other.call("RQL.LOCK", "a")
        for flags, said in ((("--try",), "not acquired: it is held"), (("--wait", "100ms"), "not acquired within 0.1 s")):
            refused = rql(*run_under(agent, *flags, "-E", "0"), "--", "echo", "it runs")
            check_equal((refused.code, refused.out, refused.err), (0, "", f"rql: a: {said}\n"))
        other.call("RQL.UNLOCK", "a")
        refused = rql(*run_under(agent), "--", PROGRAM, *run_under(agent, "-E", "0"), "--", "echo", "it runs")
        check_equal((refused.code, refused.out), (0, ""))
        check_in("this command already runs under the lock", refused.err)


def test_a_run_inside_of_one_with_the_same_lock_is_refused(server, rql):
    """Whoever holds it: the agent, or the outer rql itself; alone, or with others."""
    with Agent(rql) as agent:
        for share in ((), ("--permits", "2", "--units", "2")):
            for outer in (run_under(agent), ("run", "a")):
                for inner in (run_under(agent), ("run", "a")):
                    refused = rql(*outer, *share, "--", PROGRAM, *inner, *share, "--", "true")
                    check_equal(refused.code, 1, f"{outer} {inner}")
                    check_in("rql: a: not acquired: this command already runs under the lock", refused.err)
        for outer in (run_under(agent), ("run", "a")):
            check_equal(rql(*outer, "--", PROGRAM, *run_under(agent, name="c"), "--", "true").code, 0)


def test_the_connection_has_a_number_that_scripts_do_not_use(server, rql):
    with Agent(rql) as agent:
        numbers = rql(*run_under(agent), "-c", "ls /proc/$$/fd").out.split()
        check_equal([int(number) for number in numbers if 2 < int(number) < 10], [])
        assert any(int(number) >= 64 for number in numbers), numbers


def test_a_lock_that_was_handed_over_is_held_for_its_whole_ttl(server, rql):
    with Agent(rql) as agent:
        with Job(rql, "sh", "-c", "echo $$ >> $PIDS; while [ ! -e $SIGNS/stop ]; do sleep 0.01; done") as job:
            job.pids(1)
            waiting = rql.start(*run_under(agent), "--", "sh", "-c", f"{PROGRAM} info a --json; sleep 0.5; exit 7")
            wait_until(lambda: server.queue_length("a") == 1, "it waits")
            job.touch("stop")
            done = finish(waiting)
            check_equal((done.code, done.err), (7, ""))
            assert int(re.search(r'"remaining_ms":\t(\d+)', done.out)[1]) > 10000, done.out


def test_rql_may_stand_still_for_longer_than_the_ttl(server, rql):
    with Agent(rql) as agent:
        with Job(rql, "sh", "-c", "echo $$ >> $PIDS; while [ ! -e $SIGNS/stop ]; do sleep 0.01; done; exit 7",
                 words=run_under(agent), ttl=("--ttl", "2s")) as job:
            job.pids(1)
            job.process.send_signal(signal.SIGSTOP)
            time.sleep(2.2)
            job.process.send_signal(signal.SIGCONT)
            time.sleep(0.3)
            job.touch("stop")
            check_equal((job.process.wait(), job.process.stderr.read()), (7, ""))


class Played:
    """An agent that gives these answers, one for each request, and then none."""

    def __init__(self, path, *answers):
        self.line, self.answers = socket.socket(socket.AF_UNIX), answers
        self.line.bind(path)
        self.line.listen()
        self.thread = threading.Thread(target=self.play)
        self.thread.start()

    def play(self):
        peer, _ = self.line.accept()
        answers = list(self.answers)
        while received := peer.recv(4096):
            for _ in range(received.count(b"*")):
                peer.sendall(answers.pop(0) if answers else b"")
        peer.close()

    def end(self):
        self.thread.join()
        self.line.close()


SHORT, LONG = "200ms", "1m"  # how long an answer is awaited where none comes, and where each comes


def granted(ttl_ms):
    return b"*3\r\n:1700000000000000\r\n:%d\r\n*0\r\n" % ttl_ms


def test_an_agent_that_does_not_answer_as_it_should(_server, rql):
    with Folder() as folder:
        for i, (answers, patience, flags, code, said) in enumerate((
                ((), SHORT, ("--try",), 69, "the agent does not answer"),
                ((), SHORT, ("--wait", "100ms"), 69, "the agent does not answer"),
                ((b"+OK\r\n",), SHORT, ("--try",), 69, "the agent does not answer"),
                ((b"+OK\r\n", b"*3\r\n:170000"), SHORT, ("--try",), 69, "the agent does not answer"),
                ((b"+OK\r\n", b"+OK\r\n"), LONG, (), 69, "the agent has sent an answer of another kind"),
                ((b"+OK\r\n", b"x\r\n"), LONG, (), 69, "the agent has closed the connection"),
                ((b"-ERR no\r\n",), LONG, (), 69, "the agent answers: ERR no"),
                ((b"+OK\r\n", granted(1000)), LONG, ("--ttl", "1s"), 75, "lost as soon as it was acquired"),
                ((b"+OK\r\n", granted(60000), b":0\r\n"), LONG, (), 75, "lost as soon as it was acquired"),
                ((b"+OK\r\n", granted(60000), b":9223372036854775807\r\n", b":1\r\n"), LONG, (), 0, ""))):
            played = Played(folder.path(f"s{i}"), *answers)
            done = rql("run", "a", f"--agent={folder.path(f's{i}')}", "--io-timeout", patience,
                       "--connect-timeout", patience, *flags, "--", "true")
            played.end()
            check_equal(done.code, code, f"{answers} {done.err}")
            check_in(said, done.err)


def test_a_run_inside_of_one_waits_for_the_answer_whether_it_has_the_same_lock(_server, rql):
    """Without that answer it would wait for itself, or take the late answer for that to its request."""
    with Folder() as folder:
        for i, (answer, patience, said) in enumerate(((b"-UNREACHABLE no server\r\n", LONG, "UNREACHABLE no server"),
                                                      (b"", SHORT, "the agent does not answer"))):
            played = Played(folder.path(f"s{i}"), answer, b"+OK\r\n", granted(60000), b":60000\r\n", b":1\r\n")
            done = rql("run", "a", f"--agent={folder.path(f's{i}')}", "--io-timeout", patience, "--connect-timeout", patience,
                       "--try", "--", "echo", "it runs", RQL_LOCK="a", RQL_TOKEN="7")
            played.end()
            check_equal((done.code, done.out), (69, ""))
            check_in(said, done.err)


def test_runs_inside_of_one_are_not_made_while_the_server_is_away(server, rql):
    """The agent asks the server for one of them after the other."""
    limits = ("--io-timeout", SHORT, "--connect-timeout", SHORT)
    with Agent(rql, *limits) as agent:
        token = agent.connect().call("RQL.LOCK", "a", "TTL", 600000)[0]
        with server.frozen():
            inner = [rql.start(*run_under(agent, "--wait", LONG, *limits), "--", "echo", "it runs", RQL_LOCK="a",
                               RQL_TOKEN=str(token)) for _ in range(4)]
            for one in inner:
                done = finish(one)
                check_equal((done.code, done.out), (69, ""))
                assert re.search(r"\b(UNKNOWN|UNREACHABLE) ", done.err), done.err


def test_what_an_agent_has_sent_before_it_closed_the_connection_is_said(_server, rql):
    """Also if it was closed before the request was sent, which happens now and then."""
    with Agent(rql, under=("sh", "-c", 'ulimit -n 80 && exec "$@"', "sh")) as agent:
        for _ in range((80 - 64) // 2 // 2):
            agent.connect().call("PING")
        for _ in range(20):
            refused = rql(*run_under(agent), "--", "true")
            check_equal((refused.code, refused.err), (69, "rql: a: the agent answers: ERR max number of clients reached\n"))


def test_a_run_that_waits_is_withdrawn_when_it_ends(server, rql):
    with Agent(rql) as agent:
        other = agent.connect()
        other.call("RQL.LOCK", "a")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            waiting = rql.start(*run_under(agent), "--", "true")
            wait_until(lambda: server.queue_length("a") == 1, "it waits")
            waiting.send_signal(number)
            check_equal(finish(waiting).code, -number)
            wait_until(lambda: server.queue_length("a") == 0, "it is withdrawn")


def test_the_next_gets_the_lock_of_a_killed_rql_when_its_command_has_ended(server, rql):
    with Agent(rql) as agent:
        for command, script, count in ((("sh", "-c"), IGNORES, 1), (("setsid", "sh", "-c"), IGNORES, 1), (("sh", "-c"), FAMILY, 3)):
            with Job(rql, *command, script, words=run_under(agent)) as job:
                pids = job.pids(count)
                start_next(server, rql, job)
                job.kill()
                await_next(rql, job, pids)


def test_a_kill_of_all_of_them_frees_the_lock_at_once(server, rql):
    with Agent(rql) as agent:
        with Job(rql, "sh", "-c", SLEEPS, words=run_under(agent)) as job:
            pids, guard, leader = job.pids(1), job.guard(), job.leader()
            start_next(server, rql, job)
            for pid in (guard, job.process.pid, leader, *pids):
                with contextlib.suppress(ProcessLookupError):  # the end of the guard ends others
                    os.kill(pid, signal.SIGKILL)
            job.process.wait()
            await_next(rql, job, [])  # a process closes its descriptors just before it is seen to have ended


def test_a_descendant_that_lives_keeps_the_lock(server, rql):
    """Also without rql and its guard, and beyond the TTL, because the agent renews it. If it has closed the connection, the
    guard keeps it."""
    script = "setsid sh -c 'echo $$ >> $PIDS; while [ ! -e $SIGNS/stop ]; do sleep 0.01; done' & echo $$ >> $PIDS; wait"
    with Agent(rql) as agent:
        for kills_guard, kills_leader, closes in ((False, False, False), (True, False, False), (False, False, True),
                                                  (False, True, True)):
            command = (sys.executable, "-c", CLOSES, script) if closes else ("sh", "-c", script)
            with Job(rql, *command, words=run_under(agent), ttl=("--ttl", "2s")) as job:
                pids = job.pids(2)
                guard = job.guard()
                if kills_leader:
                    os.kill(job.leader(), signal.SIGKILL)
                token = token_of(server)
                start_next(server, rql, job)
                job.process.kill()
                if kills_guard:
                    os.kill(guard, signal.SIGKILL)
                job.process.wait()
                wait_until(lambda p=pids: sum(map(is_gone, p)) == 1, "all but one have ended")
                if not kills_guard:
                    await_looks(guard)
                time.sleep(2.2 if kills_guard else 0.5)  # the TTL is over; nobody else gets it meanwhile
                check_equal(token_of(server), token)
                job.touch("stop")
                await_next(rql, job, [] if kills_guard else pids)


def test_what_a_command_leaves_behind_keeps_no_lock(server, rql):
    with Agent(rql) as agent:
        agent.connect().call("RQL.LOCK", "b")  # it has all of its own descriptors

        def descriptors():
            return len(os.listdir(f"/proc/{agent.process.pid}/fd"))

        before = descriptors()
        with Job(rql, "sh", "-c", "setsid sleep 600 & echo $! >> $PIDS", words=run_under(agent)) as job:
            pids = job.pids(1)
            check_equal(job.process.wait(), 0)
            assert not server.is_locked("a")
            assert not is_gone(pids[0])
            wait_until(lambda: descriptors() == before, "the connection is closed")


def check_ended_in_time(job, end_ms, said):
    """The command was told, and had ended before the lock did."""
    check_equal(job.process.wait(), 75)
    check_in(said, job.process.stderr.read())
    told_ms = int(job.read("told")) / 1e6
    assert told_ms < end_ms, f"told {told_ms - end_ms} ms after the end of the lock"


def end_of_lock_ms(server):
    """When it is renewed next is far away."""
    wait_until(lambda: server.ask("PTTL", "rql:lock:a") > 2800, "it is renewed")
    return time.time() * 1000 + server.ask("PTTL", "rql:lock:a")


def job_told(rql, agent):
    return Job(rql, "sh", "-c", TELLS, words=run_under(agent, "--kill-after", "1s"), ttl=("--ttl", "3s"))


def test_a_command_ends_before_its_lock_when_the_agent_stands_still(server, rql):
    with Agent(rql) as agent, job_told(rql, agent) as job:
        job.pids(1)
        end_ms = end_of_lock_ms(server)
        agent.process.send_signal(signal.SIGSTOP)
        check_ended_in_time(job, end_ms, "the lock cannot be kept; ending the command")
        agent.process.send_signal(signal.SIGCONT)


def test_a_command_ends_before_its_lock_when_the_server_stands_still(server, rql):
    with Agent(rql) as agent, job_told(rql, agent) as job:
        job.pids(1)
        end_ms = end_of_lock_ms(server)
        with server.frozen():
            check_ended_in_time(job, end_ms, "the lock cannot be kept; ending the command")


def test_a_command_ends_when_its_agent_is_killed(server, rql):
    agent = Agent(rql)
    with job_told(rql, agent) as job:
        job.pids(1)
        end_ms = end_of_lock_ms(server)
        agent.process.kill()
        check_ended_in_time(job, end_ms, "a: the lock is lost, or the agent has ended; ending the command")
        assert server.is_locked("a")  # until its TTL
    finish(agent.process)
    agent.folder.cleanup()


def test_a_command_ends_when_its_lock_is_lost(server, rql):
    with Agent(rql) as agent:
        with Job(rql, "sh", "-c", TELLS, words=run_under(agent), ttl=("--ttl", "2s")) as job:
            job.pids(1)
            check_equal(rql("unlock", "a", "--force").code, 0)
            check_equal(job.process.wait(), 75)
            check_in("ending the command", job.process.stderr.read())
            assert job.read("told")


def test_a_command_ends_at_the_limits_of_its_hold(server, rql):
    with Agent(rql) as agent:
        for flags in (("--max-hold", "2s"), ("--no-auto-extend", "--ttl", "2s")):
            with Job(rql, "sh", "-c", TELLS, words=run_under(agent, "--kill-after", "1s", *flags), ttl=()) as job:
                begun_ms = time.time() * 1000
                check_equal(job.process.wait(), 75)
                assert int(job.read("told")) / 1e6 - begun_ms < 2000, "it was told in time"
        await_free(server, "a")


def test_why_a_lock_of_an_agent_has_ended_is_said(server, rql):
    """An agent that loses a lock closes the connection, whatever the reason."""
    with Agent(rql) as agent:
        for limit in (("--kill-after", "0s", "--max-hold", "1s"), ("--kill-after", "0s", "--max-hold", "1s", "--ttl", "1s"),
                      ("--max-hold", "2s"), ("--max-hold", "4s", "--ttl", "3s")):
            done = rql(*run_under(agent, *limit), "--", "sleep", "600")
            check_equal((done.code, done.err), (75, "rql: a: its --max-hold is nearly over; ending the command\n"))
        for limit in ("--ttl", "1s", "--max-hold", "10m"), ("--ttl", "6s", "--max-hold", "6s", "--kill-after", "100ms"):
            with Job(rql, "sh", "-c", SLEEPS, words=run_under(agent), ttl=limit) as job:
                job.pids(1)
                check_equal(rql("unlock", "a", "--force").code, 0)
                check_equal(job.process.wait(), 75)
                check_in("a: the lock is lost, or the agent has ended; ending", job.process.stderr.read())


def test_a_lock_is_held_for_longer_than_its_ttl(server, rql):
    with Agent(rql) as agent:
        done = rql(*run_under(agent, "--ttl", "2s"), "-c", f"sleep 2.2; {PROGRAM} info a --json")
        check_equal((done.code, done.err), (0, ""))
        check_in('"token"', done.out)


def listen_as_nobody(line):
    """Who has called listen() is the user of the socket. Returns the process that has."""
    told, tells = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setuid(65534)
        line.listen()
        os.write(tells, b".")
        signal.pause()
    os.read(told, 1)
    os.close(told)
    os.close(tells)
    return pid


def test_another_users_socket_at_the_usual_path_is_not_trusted(_server, rql):
    must_be_root()
    with Folder() as folder, socket.socket(socket.AF_UNIX) as line:
        line.bind(folder.path("agent.sock"))
        pid = listen_as_nobody(line)
        refused = rql("run", "a", "--agent", "--", "true", RQL_LOCAL_DIR=folder.path(""))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        check_equal(refused.code, 69)
        check_in("is another user's", refused.err)


if __name__ == "__main__":
    main(skip="the agent is tested on a single server" if is_cluster() else None)
