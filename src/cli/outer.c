#include "outer.h"

#include "messages.h"
#include "names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for a token and what separates it from the next. */
enum { CLI_TOKEN_SIZE = 21 };

/* Returns the next of the lines; NULL: there is none. No name has a line feed. */
static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');

    return end ? end + 1 : NULL;
}

static bool is_line(const char *line, const char *text)
{
    const size_t length = strlen(text);

    return strcspn(line, "\n") == length && strncmp(line, text, length) == 0;
}

/* Of the innermost run: both variables have a line for each of its locks. */
static int64_t inner_token(const char *name)
{
    const char *names = getenv("RQL_LOCK");   /* NOLINT(concurrency-mt-unsafe) */
    const char *tokens = getenv("RQL_TOKEN"); /* NOLINT(concurrency-mt-unsafe) */

    while (names && tokens && !is_line(names, name)) {
        names = next_line(names);
        tokens = next_line(tokens);
    }
    return names && tokens ? strtoll(tokens, NULL, 10) : 0;
}

/* Of the runs around it: lines of "TOKEN NAME". */
static int64_t outer_token(const char *name)
{
    const char *line = getenv("RQL_OUTER"); /* NOLINT(concurrency-mt-unsafe) */

    while (line) {
        char *at = NULL;
        const long long token = strtoll(line, &at, 10);

        if (*at == ' ' && is_line(at + 1, name)) {
            return token;
        }
        line = next_line(line);
    }
    return 0;
}

int64_t cli_outer_token(const char *name)
{
    const int64_t token = inner_token(name);

    return token > 0 ? token : outer_token(name);
}

char *cli_outer_locks(void)
{
    const char *names = getenv("RQL_LOCK");   /* NOLINT(concurrency-mt-unsafe) */
    const char *tokens = getenv("RQL_TOKEN"); /* NOLINT(concurrency-mt-unsafe) */
    const char *outer = getenv("RQL_OUTER");  /* NOLINT(concurrency-mt-unsafe) */
    char *text = NULL;
    size_t size = 0;
    FILE *out;

    if (!cli_is_nested()) {
        return NULL;
    }
    out = cli_must(open_memstream(&text, &size));
    for (; names && tokens; names = next_line(names), tokens = next_line(tokens)) {
        (void)fprintf(out, "%.*s %.*s\n", (int)strcspn(tokens, "\n"), tokens,
                      (int)strcspn(names, "\n"), names);
    }
    (void)fputs(outer ? outer : "", out);
    return cli_must(fclose(out) == 0 ? text : NULL);
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

    for (size_t i = 0; i < cli_args_count(args); i++) {
        const char *name = cli_args_name(args, i);
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
