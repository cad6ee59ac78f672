#ifndef SERVE_SERVE_H
#define SERVE_SERVE_H

/* An HTTP server for figures of the locks, and for a page that shows them, next to the work of
 * this program. It has threads of its own, and changes nothing. */

#include "cmd.h"

/* Where `rql serve` listens: 127.0.0.1 and this port. On a keypad 775 is rql. */
#define SERVE_DEFAULT_ADDRESS "127.0.0.1:9775"

struct serve_wish {
    const struct cli_args *args;
    const char *listen; /* an address, or unix:PATH */
    /* Whether /healthz may answer 200, as far as this program is concerned, in a sentence
     * otherwise: NULL if it is well. Called by a thread of the server. May be NULL. */
    const char *(*what_is_wrong)(void *data);
    void *data;
};

struct serve;

enum { SERVE_FDS = 32 }; /* descriptors that it needs at most */

/* Checks the flags of a command that takes an address; address: NULL: it was not given. Returns
 * CLI_DONE, or CLI_USAGE after a line on stderr. */
int serve_check(const struct cli_command *command, const struct cli_args *args,
                const char *address);

/* Starts the server. Returns CLI_DONE, or the exit code after a line on stderr. Everything in
 * `wish` must outlive the server. */
int serve_start(const struct serve_wish *wish, struct serve **out);

/* Ends the server; NULL: there is none. */
void serve_stop(struct serve *self);

#endif
