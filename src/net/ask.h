#ifndef RQLI_ASK_H
#define RQLI_ASK_H

/*
 * Questions and answers, one after the other, on a connection that nobody else uses: what is said
 * before it carries calls, and all that is said to a sentinel. Blocks, until a deadline.
 *
 * RQL_E_IO: connecting failed, it broke, or the deadline came; RQL_E_TLS, RQL_E_NOMEM.
 */

#include "wire/command.h"
#include "wire/reply.h"

#include <rql/status.h>
#include <stdint.h>

struct rqli_arena;
struct rqli_socket;

/* Connects it to its node, or to the path of its endpoint, with a decoder and with TLS where the
 * endpoint has it. Not RQL_OK: it is closed. */
rql_status rqli_ask_open(struct rqli_socket *sock, int64_t deadline_us, rql_error *error);

rql_status rqli_ask_send(struct rqli_socket *sock, const struct rqli_command *command,
                         int64_t deadline_us, rql_error *error);

/* The next reply, in memory of the arena. RQL_E_PROTOCOL: it is none. */
rql_status rqli_ask_read(struct rqli_socket *sock, struct rqli_arena *arena,
                         struct rqli_reply *reply, int64_t deadline_us, rql_error *error);

#endif
