#include "net/login/rights.h"

#include "base/error.h"
#include "wire/keys.h"

#include <stdio.h>
#include <string.h>

enum { RULE_SIZE = 32 };

bool rqli_rights_may_ask(const struct rqli_site *site, unsigned number)
{
    const _Atomic uint32_t *refused = site->session->refused;

    return !refused ||
           (atomic_load_explicit(refused, memory_order_relaxed) & UINT32_C(1) << number) == 0;
}

void rqli_rights_note(const struct rqli_site *site, unsigned number, const struct rqli_reply *reply)
{
    if (site->session->refused && reply->type == RQLI_REPLY_ERROR &&
        rqli_reply_says(reply, "NOPERM")) {
        (void)atomic_fetch_or(site->session->refused, UINT32_C(1) << number);
    }
}

static char letter_of_rule(char letter)
{
    if (letter >= 'A' && letter <= 'Z') {
        return (char)(letter - 'A' + 'a');
    }
    if (letter == ' ') {
        return '|';
    }
    return letter;
}

/* Writes the missing ACL rule: "CLIENT ID" becomes "+client|id". A refused command may be named
 * together with the user, whose name may contain "channel". */
static void write_rule(char out[RULE_SIZE], const char *command, const struct rqli_reply *reply)
{
    bool is_command = strstr(reply->text.data, "permissions to run");

    if (!is_command && strstr(reply->text.data, "channel")) {
        (void)snprintf(out, RULE_SIZE, "'&%s*'", RQLI_CHANNEL);
        return;
    }
    (void)snprintf(out, RULE_SIZE, "+%s", command);
    for (char *at = out; *at; at++) {
        *at = letter_of_rule(*at);
    }
}

rql_status rqli_rights_check(const struct rqli_site *site, const char *user, const char *command,
                             const struct rqli_reply *reply, rql_error *error)
{
    char rule[RULE_SIZE];

    user = user ? user : "default";
    write_rule(rule, command, reply);
    return rqli_fail(error, RQL_E_AUTH,
                     "cannot log in to %.90s: NOPERM: user %.32s lacks a right: ACL SETUSER %.32s "
                     "%s; rql doctor names all that are missing",
                     site->where, user, user, rule);
}
