#ifndef RQLI_RIGHTS_H
#define RQLI_RIGHTS_H

/* What the user of a client may not do, as its servers say at login. */

#include "net/url.h"
#include "wire/reply.h"

/* A server logs each refusal (ACL LOG). An optional question that it has refused is not asked again
 * by the same client. number: below 32. */
bool rqli_rights_may_ask(const struct rqli_endpoint *endpoint, unsigned number);
void rqli_rights_note(const struct rqli_endpoint *endpoint, unsigned number,
                      const struct rqli_reply *reply);

/* The server has refused what nobody can log in without: "TIME", "CLIENT ID". The message has the
 * rule that the user (NULL: the default one) needs: the server's own words name no rule. RQL_OK:
 * the connection is one that looks at the rights. */
rql_status rqli_rights_check(const struct rqli_endpoint *endpoint, const char *user,
                             const char *command, const struct rqli_reply *reply, rql_error *error);

#endif
