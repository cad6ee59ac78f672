#ifndef RQLI_LOGIN_H
#define RQLI_LOGIN_H

/* A connection from nothing: connects, and says in one write what would fail later, so that it
 * fails here, with a name: AUTH, SELECT, CLIENT SETNAME, CLIENT ID, TIME, the right to publish. */

#include "net/socket.h"
#include "wire/command.h"

/* With a predecessor it also finds out its seat and whether the server takes writes, and has the
 * server end that connection, if it is there and surely ours: what was sent on it may still be
 * done. NULL: it will only listen. Not RQL_OK: the socket is closed. */
rql_status rqli_login(struct rqli_socket *sock, const struct rqli_seat *predecessor,
                      int64_t deadline_us, struct rqli_clock_reading *reading_out,
                      rql_error *error);

/* A write that changes nothing, for no client has the identity "-"; a replica refuses it all the
 * same. */
void rqli_login_write_probe(struct rqli_command *command);

#endif
