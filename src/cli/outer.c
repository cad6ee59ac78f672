#include "outer.h"

#include "messages.h"
#include "names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for a token and what separates it from the next. */
enum { CLI_TOKEN_SIZE = 21 };

/* Both variables have a line for each lock; no name has a line feed. */
int64_t cli_outer_token(const char *name)
{
    const char *names = getenv("RQL_LOCK");   /* NOLINT(concurrency-mt-unsafe) */
    const char *tokens = getenv("RQL_TOKEN"); /* NOLINT(concurrency-mt-unsafe) */
    const size_t length = strlen(name);

    while (names && tokens) {
        if (strcspn(names, "\n") == length && strncmp(names, name, length) == 0) {
            return strtoll(tokens, NULL, 10);
        }
        names = strchr(names, '\n');
        names = names ? names + 1 : NULL;
        tokens = strchr(tokens, '\n');
        tokens = tokens ? tokens + 1 : NULL;
    }
    return 0;
}

static bool is_in_force(const struct cli_session *session, const char *name, int64_t token)
{
    CLI_AUTO(rql_free) rql_holder_list *list = NULL;
    bool is_found = false;

    if (rql_lock_holders(session->client, name, &list, NULL) != RQL_OK) {
        return false;
    }
    for (size_t i = 0; i < list->count; i++) {
        is_found |= list->item[i]->token == token;
    }
    return is_found;
}

const char *cli_find_outer_lock(const struct cli_session *session)
{
    const struct cli_args *args = session->args;
    const size_t count = args->n_names > 0 ? args->n_names : 1;

    for (size_t i = 0; i < count; i++) {
        /* A single lock has its name in `name` alone. */
        const char *name = args->n_names > 0 ? args->names[i] : args->name;
        const int64_t token = cli_outer_token(name);

        if (token > 0 && is_in_force(session, name, token)) {
            return name;
        }
    }
    return NULL;
}

int cli_refuse_outer_lock(const struct cli_args *args, const char *name)
{
    cli_say("%s: not acquired: this command already runs under the lock; a wait would never end",
            name);
    return cli_code_of_refusal(args, CLI_REFUSED);
}

/* A command holds at most one series. */
static char outer_tokens[RQL_SERIES_MAX * CLI_TOKEN_SIZE];

void cli_add_outer_tokens(struct cli_args *args)
{
    const char *tokens = getenv("RQL_TOKEN"); /* NOLINT(concurrency-mt-unsafe) */

    if (!cli_is_nested() || !tokens || strlen(tokens) >= sizeof outer_tokens ||
        tokens[strspn(tokens, "0123456789\n")] != '\0' || args->n_meta == RQL_META_MAX_PAIRS ||
        cli_meta_value(args->meta, args->n_meta, CLI_UNDER)) {
        return;
    }
    (void)snprintf(outer_tokens, sizeof outer_tokens, "%s", tokens);
    for (char *at = outer_tokens; (at = strchr(at, '\n')) != NULL;) {
        *at = ' ';
    }
    args->meta[args->n_meta++] = (rql_meta){.name = CLI_UNDER, .value = outer_tokens};
}

bool cli_is_nested(void)
{
    const char *names = getenv("RQL_LOCK"); /* NOLINT(concurrency-mt-unsafe) */

    return names && *names;
}
