#ifndef RQLI_CREDENTIALS_H
#define RQLI_CREDENTIALS_H

/* Credentials that the caller's function gives, and their end: shortly before they expire AUTH is
 * repeated on the open connection. A subscribed connection cannot send it, and is opened again. */

#include <rql/options.h>
#include <rql/status.h>
#include <stdint.h>

struct rqli_command;
struct rqli_site;

/* Asks the caller's function, if the session has one. *renew_us_out: when to ask again; 0: never.
 * The caller wipes *out. RQL_E_AUTH: the function has no credentials. */
rql_status rqli_credentials_ask(const struct rqli_site *site, int64_t deadline_us,
                                rql_credentials *out, int64_t *renew_us_out, rql_error *error);

/* Returns when to try again after a failure. */
int64_t rqli_credentials_retry_us(int64_t now_us);

/* Writes AUTH. user: NULL or "" is the default user. */
void rqli_credentials_write(const char *user, const char *password, struct rqli_command *command);

#endif
