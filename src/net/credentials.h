#ifndef RQLI_CREDENTIALS_H
#define RQLI_CREDENTIALS_H

/* Credentials that the caller's function gives, and their end: shortly before it AUTH is repeated
 * on the open connection. One that listens cannot say it, and is made anew. */

#include <rql/options.h>
#include <rql/status.h>
#include <stdint.h>

struct rqli_command;
struct rqli_endpoint;

/* Of an endpoint that has the function. *renew_us_out: when they are to be asked for again; 0:
 * never. Wipe *out. RQL_E_AUTH: there are none. */
rql_status rqli_credentials_ask(const struct rqli_endpoint *endpoint, int64_t deadline_us,
                                rql_credentials *out, int64_t *renew_us_out, rql_error *error);

/* When to try again after it was in vain. */
int64_t rqli_credentials_retry_us(int64_t now_us);

/* AUTH. user: NULL or "" is the default one. */
void rqli_credentials_write(const char *user, const char *password, struct rqli_command *command);

#endif
