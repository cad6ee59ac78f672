#include "child.h"
#include "messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "RQL_LOCK=a\nb": names or tokens, one a line, in the given order. */
static char *join(const char *variable, const struct cli_held *held, bool as_tokens)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = cli_must(open_memstream(&text, &size));

    (void)fputs(variable, out);
    for (size_t i = 0; i < cli_held_count(held); i++) {
        const rql_lock *lock = cli_held_lock(held, i);

        (void)fputs(i > 0 ? "\n" : "", out);
        if (as_tokens) {
            (void)fprintf(out, "%lld", (long long)rql_lock_token(lock));
        } else {
            (void)fputs(rql_lock_describe(lock).name, out);
        }
    }
    return cli_must(fclose(out) == 0 ? text : NULL);
}

/* An outer `rql run` has set them, too: theirs are replaced, not doubled. */
static bool is_own(const struct cli_environment *self, const char *entry)
{
    for (size_t i = 0; i < CLI_OWN_VARIABLES; i++) {
        if (strncmp(entry, self->own[i], strcspn(self->own[i], "=") + 1) == 0) {
            return true;
        }
    }
    return false;
}

void cli_environment_init(struct cli_environment *self, const struct cli_held *held,
                          const char *url)
{
    size_t count = 0;

    self->own[0] = join("RQL_LOCK=", held, false);
    self->own[1] = join("RQL_TOKEN=", held, true);
    if (asprintf(&self->own[2], "RQL_URL=%s", url) < 0) {
        cli_die_nomem();
    }
    while (environ[count]) {
        count++;
    }
    self->items = cli_must(calloc(count + CLI_OWN_VARIABLES + 1, sizeof *self->items));
    count = 0;
    for (char **entry = environ; *entry; entry++) {
        if (!is_own(self, *entry)) {
            self->items[count++] = *entry;
        }
    }
    (void)memcpy(self->items + count, self->own, sizeof self->own);
}

void cli_environment_fini_p(struct cli_environment *self)
{
    for (size_t i = 0; i < CLI_OWN_VARIABLES; i++) {
        free(self->own[i]);
    }
    free(self->items);
}
