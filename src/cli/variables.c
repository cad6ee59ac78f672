#include "cmd.h"
#include "guess.h"
#include "output.h"

#include <string.h>
#include <unistd.h>

/* A mistyped variable would be a setting that is not in force, and nobody knows. */

static const char prefix[] = "RQL_";

/* What rql run gives to its command, and what the server of local: is found and kept by. */
static const char *const own[] = {"RQL_LOCK", "RQL_TOKEN", "RQL_LOCAL_DIR", "RQL_LOCAL_IDLE"};

static bool is_same(const char *name, size_t length, const char *known)
{
    return strlen(known) == length && strncmp(name, known, length) == 0;
}

static bool is_known(const char *name, size_t length, struct cli_guess *guess)
{
    const rql_option_row *row;
    size_t i;

    for (i = 0; (row = rql_option_row_at(i)) != NULL; i++) {
        if (is_same(name, length, row->env)) {
            return true;
        }
        cli_guess_propose(guess, row->env);
    }
    for (i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (is_same(name, length, own[i])) {
            return true;
        }
    }
    return false;
}

void cli_say_unknown_variables(void)
{
    char **entry;

    for (entry = environ; *entry; entry++) {
        const size_t length = strcspn(*entry, "=");
        struct cli_guess guess;
        char meant[CLI_GUESS_SIZE];

        cli_guess_init(&guess, *entry, length);
        if (strncmp(*entry, prefix, sizeof prefix - 1) == 0 && !is_known(*entry, length, &guess)) {
            cli_say("unknown variable %.*s is ignored%s", (int)length, *entry,
                    cli_guess_text(&guess, "", false, meant));
        }
    }
}
