#ifndef RQLI_RIGHTS_H
#define RQLI_RIGHTS_H

/* The rights that a client's user lacks, as its servers report at login. */

#include "net/sock/site.h"
#include "wire/reply.h"

/* A server logs each refusal (ACL LOG), so a client does not repeat an optional question that was
 * refused. number: that of the question, below 32. */
bool rqli_rights_may_ask(const struct rqli_site *site, unsigned number);
void rqli_rights_note(const struct rqli_site *site, unsigned number,
                      const struct rqli_reply *reply);

/* Called when the server has refused a command that no login can do without: "TIME", "CLIENT ID".
 * The message has the rule that the user (NULL: the default one) needs, because the server's own
 * text names no rule. Returns RQL_E_AUTH. */
rql_status rqli_rights_check(const struct rqli_site *site, const char *user, const char *command,
                             const struct rqli_reply *reply, rql_error *error);

#endif
