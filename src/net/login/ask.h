#ifndef RQLI_ASK_H
#define RQLI_ASK_H

/*
 * Questions and answers, one after the other, on a connection with a single user: everything that
 * is sent before a connection carries calls, and everything that is sent to a sentinel. Each
 * function blocks until its deadline at most.
 *
 * RQL_E_IO: connecting failed, the connection broke, or the deadline passed; RQL_E_TLS,
 * RQL_E_NOMEM.
 */

#include "wire/command.h"
#include "wire/reply.h"

#include <rql/status.h>
#include <stdint.h>

struct rqli_arena;
struct rqli_socket;

/* Connects the socket to its node, or to the path of its site, with a decoder and with TLS if the
 * site has it. If the result is not RQL_OK, the socket is closed. */
rql_status rqli_ask_open(struct rqli_socket *sock, int64_t deadline_us, rql_error *error);

rql_status rqli_ask_send(struct rqli_socket *sock, const struct rqli_command *command,
                         int64_t deadline_us, rql_error *error);

/* Reads the next reply into memory of the arena. RQL_E_PROTOCOL: the bytes are not a reply. */
rql_status rqli_ask_read(struct rqli_socket *sock, struct rqli_arena *arena,
                         struct rqli_reply *reply, int64_t deadline_us, rql_error *error);

#endif
