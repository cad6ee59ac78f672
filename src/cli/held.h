#ifndef CLI_HELD_H
#define CLI_HELD_H

/* What a command runs under: one lock, or a series of them. */

#include <rql/rql.h>
#include <signal.h>

struct cli_held {
    const char *label;  /* the name or names, for messages; borrowed */
    rql_lock *lock;     /* one of these two, owned */
    rql_series *series; /* */
    sigset_t mask;      /* of signals, as it was before the wait: for the command */
};

rql_lock_state cli_held_state(const struct cli_held *self);
int64_t cli_held_remaining_ms(const struct cli_held *self);
int64_t cli_held_ttl_ms(const struct cli_held *self); /* the shortest that was asked for */

/* Becomes readable when something is lost. */
rql_status cli_held_lost_fd(const struct cli_held *self, int *out, rql_error *error);

/* Releases what is held, once. */
rql_status cli_held_release(struct cli_held *self, rql_error *error);

/* malloc'd: for the command's environment, one a line, in the given order. */
char *cli_held_names(const struct cli_held *self);
char *cli_held_tokens(const struct cli_held *self);

#endif
