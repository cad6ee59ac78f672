#include "guess.h"

#include "messages.h"

#include <rql/rql.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LENGTH_MAX = 64 };

void cli_guess_init(struct cli_guess *self, const char *word, size_t length)
{
    *self = (struct cli_guess){.word = word, .length = length, .distance = LENGTH_MAX};
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool is_same(char a, char b)
{
    return a == b || (a == '-' && b == '_') || (a == '_' && b == '-');
}

/* Letters to add, drop, change or swap with their neighbour to come from one word to the other:
 * cell [i][j] is that of their first i and j letters. */
static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t cell[LENGTH_MAX + 1][LENGTH_MAX + 1];

    for (size_t j = 0; j <= b_length; j++) {
        cell[0][j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        cell[i][0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            const bool is_swap =
                i > 1 && j > 1 && is_same(a[i - 1], b[j - 2]) && is_same(a[i - 2], b[j - 1]);
            const size_t changed = cell[i - 1][j - 1] + !is_same(a[i - 1], b[j - 1]);
            const size_t longer = least(cell[i - 1][j], cell[i][j - 1]) + 1;

            cell[i][j] = least(least(changed, longer), is_swap ? cell[i - 2][j - 2] + 1 : longer);
        }
    }
    return cell[a_length][b_length];
}

/* The first of several that are equally near stays. */
void cli_guess_propose(struct cli_guess *self, const char *word)
{
    const size_t length = strlen(word);
    size_t found;

    if (self->length > LENGTH_MAX || length > LENGTH_MAX) {
        return;
    }
    found = distance(self->word, self->length, word, length);
    if (found < self->distance) {
        self->distance = found;
        self->best = word;
    }
}

/* A quarter of the letters may be wrong, and one in short words; what shares no letter is no guess.
 */
const char *cli_guess_text(struct cli_guess *self, const char *prefix)
{
    if (self->best && self->distance <= 1 + self->length / 4 && self->distance < self->length) {
        (void)snprintf(self->text, sizeof self->text, " (did you mean %s%s?)", prefix, self->best);
    }
    return self->text;
}

/* What rql run gives to its command, and what the server of local: is found and kept by. */
static const char *const own_variables[] = {"RQL_LOCK", "RQL_TOKEN", "RQL_LOCAL_DIR",
                                            "RQL_LOCAL_IDLE"};

static bool is_named(const char *entry, size_t length, const char *name)
{
    return strlen(name) == length && strncmp(entry, name, length) == 0;
}

static bool is_known(const char *entry, size_t length, struct cli_guess *guess)
{
    const rql_option_row *row;

    for (size_t i = 0; (row = rql_option_row_at(i)) != NULL; i++) {
        if (is_named(entry, length, row->env)) {
            return true;
        }
        cli_guess_propose(guess, row->env);
    }
    for (size_t i = 0; i < sizeof own_variables / sizeof own_variables[0]; i++) {
        if (is_named(entry, length, own_variables[i])) {
            return true;
        }
    }
    return false;
}

void cli_say_unknown_variables(void)
{
    for (char **entry = environ; *entry; entry++) {
        const size_t length = strcspn(*entry, "=");
        struct cli_guess guess;

        cli_guess_init(&guess, *entry, length);
        if (strncmp(*entry, "RQL_", 4) == 0 && !is_known(*entry, length, &guess)) {
            cli_say("unknown variable %.*s is ignored%s", (int)length, *entry,
                    cli_guess_text(&guess, ""));
        }
    }
}
