#ifndef CLI_HELD_H
#define CLI_HELD_H

/* What a command runs under: one lock, or a series of them; how it is waited for and acquired. */

#include "cmd.h"

#include <signal.h>

struct cli_held {
    const char *label;  /* the name or names, for messages; borrowed */
    rql_lock *lock;     /* one of these two, owned */
    rql_series *series; /* */
    sigset_t mask;      /* of signals, as it was before the wait: for the command */
};

/* Acquires the lock or the series that the arguments name, as the flags say. If that is held, it is
 * in *held; the signals that end a wait stay blocked. Else returns the exit code, after a line on
 * stderr; or, without a line, minus the signal that ended the wait and is to end the program.
 *
 * SIGINT, SIGTERM and SIGHUP take the request out of its queue, a second one ends the program at
 * once. What keeps the server from serving the request is said on stderr, once, and again when it
 * changes. */
int cli_acquire(struct cli_session *session, struct cli_held *held);

size_t cli_held_count(const struct cli_held *self);
const rql_lock *cli_held_lock(const struct cli_held *self, size_t index);

rql_lock_state cli_held_state(const struct cli_held *self);
int64_t cli_held_remaining_ms(const struct cli_held *self);
int64_t cli_held_ttl_ms(const struct cli_held *self); /* the shortest that was asked for */

/* Becomes readable when something is lost. */
rql_status cli_held_lost_fd(const struct cli_held *self, int *out, rql_error *error);

/* Releases what is held, once. */
rql_status cli_held_release(struct cli_held *self, rql_error *error);

/* These signals, without those that nohup or a shell has ignored: they stay ignored. */
sigset_t cli_signals(const int *numbers, size_t count);

/* Ends the program as this signal does. */
_Noreturn void cli_die_by(int signal_number);

#endif
