#ifndef RQLI_LOGIN_H
#define RQLI_LOGIN_H

#include <rql/status.h>
#include <stdint.h>

struct rqli_command;
struct rqli_seat;
struct rqli_socket;

/* One reply's reading of the server's clock: it showed server_us at some moment between the other
 * two. */
struct rqli_clock_reading {
    int64_t sent_us;
    int64_t received_us; /* 0: no reading */
    int64_t server_us;
};

/*
 * Makes a connection and logs in; blocks. It connects, and asks in one write for everything that
 * could fail later, so that it fails here, with a name: HELLO, SELECT, TIME, the right to publish.
 * A server that does not know HELLO is asked again with AUTH, CLIENT ID, CLIENT SETNAME and a
 * write.
 *
 * The call that a client sends before all its others comes last: arrive.lua (net/login/era.h).
 *
 * A node of a cluster and a sentinel are RQL_E_UNSUPPORTED, a replica is noted in the socket.
 *
 * With a predecessor it also finds out its seat, and has the server end that connection, if it
 * still exists and is surely ours: the commands that were sent on it may still be executed. Without
 * one, NULL, it is subscribed to the client's channel and to changes of Ruby's locks, and will only
 * listen; if there are partitions its owner subscribes it to their channels. Not RQL_OK: the socket
 * is closed.
 */
rql_status rqli_login(struct rqli_socket *sock, const struct rqli_seat *predecessor,
                      int64_t deadline_us, struct rqli_clock_reading *reading_out,
                      rql_error *error);
/* Writes a command that changes nothing, because no client has the identity "-"; a replica refuses
 * it all the same. */
void rqli_login_write_probe(struct rqli_command *command);

/* Logs in as rqli_login() does, at any address of the name: if a server there is a replica, is
 * loading or does not answer, the next address is tried, in this attempt or the next one. If none
 * is a master, a replica is taken, as the socket says. The fault names the address. */
rql_status rqli_login_any(struct rqli_socket *sock, const struct rqli_seat *predecessor,
                          int64_t deadline_us, struct rqli_clock_reading *reading_out,
                          rql_error *error);

#endif
