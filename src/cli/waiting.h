#ifndef CLI_WAITING_H
#define CLI_WAITING_H

/* Waits for a lock or a series on this thread, and hears signals meanwhile: SIGINT, SIGTERM and
 * SIGHUP take the request out of its queue, a second one ends the program at once. What keeps the
 * server from serving the request is said on stderr, once, and again when it changes. */

#include <rql/rql.h>
#include <signal.h>

/* One wait: what to ask for, and how it ended. */
struct cli_waiting {
    const char *label;
    const char *name; /* of one lock; NULL: a series */
    const rql_lock_options *options;
    const rql_series_options *series_options;

    rql_status status;
    rql_error error;
    rql_lock *lock;     /* the caller's, if status is RQL_OK; or */
    rql_series *series; /* */
    int signal;         /* that ended it, or 0: then neither lock nor series is held */
    sigset_t mask;      /* as it was; the three stay blocked after RQL_OK, others are restored */
};

/* Fills in what is under `status`. The status is that of the acquisition. */
void cli_wait(struct cli_waiting *self, rql_client *client);

/* Lets the signals of a wait through again. */
void cli_wait_unblock(const sigset_t *mask);

/* Ends the program as this signal does. */
_Noreturn void cli_die_by(int signal_number);

#endif
