#ifndef RQLI_LOGIN_H
#define RQLI_LOGIN_H

/* The first words on a new connection, in one write; what would fail later fails here, with a name.
 */

#include "net/socket.h"
#include "wire/command.h"

/* As rqli_socket_open(), of a wire that is connected. */
rql_status rqli_login(struct rqli_socket *sock, const struct rqli_seat *predecessor,
                      int64_t deadline_us, struct rqli_clock_reading *reading_out,
                      rql_error *error);

/* A write that changes nothing, for no client has the identity "-"; a replica refuses it all the
 * same. */
void rqli_login_write_probe(struct rqli_command *command);

#endif
