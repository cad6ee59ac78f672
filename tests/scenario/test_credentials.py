#!/usr/bin/env python3
"""Credentials that a client asks for at each login: a user whose password is changed while the client is connected."""
from harness import FOREVER, check, check_equal, let_pass, main, scenario, wait_until

VALID_MS = 400
UNUSED_S = 1.1  # a connection that was unused for a second is looked at before anything is sent over it
CONNECTIONS = 4  # one for commands, and three after each other for pushes


class Login:
    """A client that has them from the scenario, and its actors."""

    def __init__(self, world, kind, valid_ms):
        self.world, self.valid_ms = world, valid_ms
        self.set_password(1)
        world.ask("CONFIG", "RESETSTAT")
        world.ask("ACL", "LOG", "RESET")
        self.client = world.client(also={"credentials": self.words})
        self.actor, self.other = world.actor(kind, self.client), world.actor(kind, self.client)

    def set_password(self, number):
        self.world.ask("ACL", "SETUSER", "app", "reset", "on", f">sesame{number}", "~*", "&*", "+@all")
        self.words = {"user": "app", "password": f"sesame{number}", "valid_ms": self.valid_ms}

    def give(self, **words):
        """For logins from now on."""
        self.client.remote.do("credentials", client=self.client.name, **words).check()

    def n_asked(self):
        return self.client.stats().n_asked

    def n_renewed(self):
        return self.world.n_calls("auth")

    def n_connections(self):
        lines = self.world.ask("INFO", "stats").splitlines()
        return next(int(line.split(":")[1]) for line in lines if line.startswith("total_connections_received:"))

    def use(self, *names):
        self.actor.acquire(*names).release().check()

    def use_until(self, condition, what):
        """A login is renewed by the next user of its connection."""
        wait_until(lambda: self.use("x") or condition(), what)

    def check_never_refused(self):
        check_equal(self.world.ask("ACL", "LOG"), [])


@scenario(counts=[1], in_cluster=False)
def every_connection_asks_again(world, kind, names):
    """To change a user's password ends none of its connections, so the scenario does. That of commands is made anew by
    the next call; the one that listens may not be needed so soon."""
    login = Login(world, kind, 0)
    for number in range(1, 4):
        before = login.n_asked()
        login.set_password(number)
        login.give(**login.words)
        world.ask("CLIENT", "KILL", "USER", "app")
        held = login.actor.acquire(*names, timeout_ms=FOREVER)
        asking = login.other.ask(*names, timeout_ms=FOREVER)
        world.await_queue(names, 1)
        held.release().check()
        asking.hold().release().check()
        check(number == 1 or login.n_asked() > before, "it did not ask again")
    world.await_nothing_left()


@scenario(counts=[1], in_cluster=False)
def a_login_that_ends_is_renewed_on_its_connection(world, kind, names):
    """By AUTH, with what is in force then."""
    login = Login(world, kind, VALID_MS)
    login.use(*names)
    login.set_password(2)
    login.give(**login.words)
    login.use_until(lambda: login.n_renewed() >= 2, "it is renewed twice")
    check_equal((login.n_asked(), login.n_connections()), (3, 1))
    login.check_never_refused()


@scenario(counts=[1], in_cluster=False)
def a_renewal_in_vain_is_tried_again(world, kind, names):
    """A second later, and meanwhile all goes on."""
    login = Login(world, kind, VALID_MS)
    login.use(*names)
    login.give()
    login.use_until(lambda: login.n_asked() >= 2, "it has asked twice")
    login.give(**login.words)
    login.use_until(lambda: login.n_renewed() >= 1, "it is renewed")
    check_equal((login.n_asked(), login.n_connections()), (3, 1))


@scenario(counts=[1], in_cluster=False)
def who_listens_connects_anew(world, kind, names):
    """A subscriber may not send AUTH."""
    held = world.held_by_another(*names)
    login = Login(world, kind, VALID_MS)
    asking = login.actor.ask(*names, timeout_ms=FOREVER)
    wait_until(lambda: login.n_connections() >= CONNECTIONS, "it has connected again, twice")
    held.release().check()
    asking.hold().release().check()
    login.check_never_refused()


@scenario(in_cluster=False)
def a_refused_login_leaves_nothing_to_withdraw(world, kind, names):
    """The server has refused the login before anything was sent: it is asked for no withdrawal, not at the end of the
    client either. The connection was lost, or never made."""
    login = Login(world, kind, 0)
    login.actor.acquire(*names, lazy_release=False).release().check()  # nothing is left to repeat
    login.set_password(2)
    lost, never = login.actor, world.actor(kind, also={"credentials": {"user": "app", "password": "wrong"}})
    world.ask("CLIENT", "KILL", "USER", "app")
    login.give(user="app", password="wrong")
    let_pass(UNUSED_S)
    for actor in (lost, never):
        actor.refused(*names).check("E_AUTH")
    n_logins = login.n_connections()
    world.free(lost.client)
    world.free(never.client)
    check_equal(login.n_connections(), n_logins)


@scenario(kinds=["thread"], counts=[1])
def whoever_gets_none_is_told(world, kind, names):
    client = world.client(also={"credentials": {}})
    outcome = world.actor(kind, client).begin("connect").outcome().check("E_AUTH")
    check("no credentials to log in with" in outcome.error, outcome.error)


if __name__ == "__main__":
    main()
