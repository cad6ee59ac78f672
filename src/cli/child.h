#ifndef CLI_CHILD_H
#define CLI_CHILD_H

/* The command that runs under the lock: a process group of its own, so that what it started can be
 * signalled with it, and never without its parent.
 *
 * Two things end it when this program is killed. The kernel kills the command itself (its parent
 * death signal). A guard, a second child that only waits for a pipe to close, kills the group: a
 * shell script's current step would go on otherwise, without the lock. What leaves the
 * group (setsid) is not found. */

#include "held.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cli_child {
    pid_t pid; /* also its group */
    pid_t guard;
    int guard_fd; /* the guard waits for this to close */
    bool has_ended;
    int status; /* from waitpid, when it has ended */
};

/* Runs the command of the arguments, found along PATH, without a shell, with the signal mask from
 * before the wait. CLI_DONE, or the exit code after a line on stderr.
 *
 * Its environment is this program's, with its own RQL_LOCK, RQL_TOKEN and RQL_URL. The URL is the
 * one that this program uses, login included: an rql or a worker inside the command has to find the
 * same server, and would silently lock on another one. Other users cannot read it: unlike a command
 * line, an environment is its owner's. */
int cli_child_start(struct cli_child *out, const struct cli_args *args,
                    const struct cli_held *held);

/* To the whole group. Harmless when it has ended. */
void cli_child_signal(const struct cli_child *self, int signal_number);

/* Dismisses the guard. */
void cli_child_fini(struct cli_child *self);

/* The exit code that says how the command ended, as a shell would. */
int cli_child_code(const struct cli_child *self);

#endif
