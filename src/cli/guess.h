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
};

void cli_guess_init(struct cli_guess *self, const char *word, size_t length);

/* A word that would have been right. '-' and '_' are the same. */
void cli_guess_propose(struct cli_guess *self, const char *word);

/* " (did you mean <prefix><word>?)" with '-' for '_' if it `is_dashed`; empty if nothing is near.
 */
const char *cli_guess_text(const struct cli_guess *self, const char *prefix, bool is_dashed,
                           char out[CLI_GUESS_SIZE]);

#endif
