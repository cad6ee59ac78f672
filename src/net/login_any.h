#ifndef RQLI_LOGIN_ANY_H
#define RQLI_LOGIN_ANY_H

#include "net/login.h"

/* Logs in as rqli_login() does, at any address of the name: while a server there is a replica, is
 * loading or does not answer, the next address is tried, in this attempt or the next one. If none
 * is a master, a replica is taken, as the socket says. The fault names the address. */
rql_status rqli_login_any(struct rqli_socket *sock, const struct rqli_seat *predecessor,
                          int64_t deadline_us, struct rqli_clock_reading *reading_out,
                          rql_error *error);

#endif
