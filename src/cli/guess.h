#ifndef CLI_GUESS_H
#define CLI_GUESS_H

/* "did you mean ...?": the known word that is nearest to one that was mistyped. */

#include <stdbool.h>
#include <stddef.h>

enum { CLI_GUESS_SIZE = 96 };

struct cli_guess {
    const char *word; /* as typed; borrowed */
    size_t length;
    const char *best; /* borrowed from who proposed it, or NULL */
    size_t distance;
    char text[CLI_GUESS_SIZE];
};

void cli_guess_init(struct cli_guess *self, const char *word, size_t length);

/* A word that would have been right. '-' and '_' are the same. */
void cli_guess_propose(struct cli_guess *self, const char *word);

/* " (did you mean <prefix><word>?)"; empty if nothing is near. */
const char *cli_guess_text(struct cli_guess *self, const char *prefix);

/* Says of each variable RQL_... of the environment that nothing reads it: one that is mistyped is a
 * setting that is not in force, and nobody would know. */
void cli_say_unknown_variables(void);

#endif
