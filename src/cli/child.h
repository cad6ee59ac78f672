#ifndef CLI_CHILD_H
#define CLI_CHILD_H

/* The command that runs under the lock. It has a process group of its own, so that processes that
 * it started can be signalled with it. Its parent is always its guard (guard.h). The guard ends the
 * command if this program is killed; the kernel kills the command if the guard is killed. */

#include "held.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cli_child {
    pid_t pid;
    int pid_fd;  /* or -1 */
    pid_t group; /* the group in which it begins */
    pid_t guard;
    int guard_fd; /* readable when the command has stopped or ended; or -1 */
    bool has_ended;
    int status; /* as from wait(), once it has ended */
};

/* A command that has not been started. */
#define CLI_CHILD_NONE                                                                             \
    (struct cli_child)                                                                             \
    {                                                                                              \
        .pid = -1, .pid_fd = -1, .guard = -1, .guard_fd = -1                                       \
    }

/* Runs the command of the arguments without a shell. The command is found along PATH and gets the
 * signal mask from before the wait. Returns CLI_DONE, or the exit code after printing a line on
 * stderr.
 *
 * Its environment is this program's, with its own RQL_LOCK, RQL_TOKEN, RQL_OUTER and RQL_URL, with
 * TRACEPARENT if there is a trace, and with RQL_SLOTS if the lock has slots. In its words each
 * "{slot}" is then the first of them. The URL is the one that this program uses, including the
 * login: an rql or a worker inside the command must find the same server, and would otherwise
 * silently lock on another one. Other users cannot read it: unlike a command line, an environment
 * is private to its owner. `out` has not been started before. */
int cli_child_start(struct cli_child *out, const struct cli_args *args,
                    const struct cli_held *held);

/* Signals the whole group, and the command if it has left the group. Does nothing if the command
 * has ended. Returns false if the kernel does not let this program signal the command, because the
 * command has other rights. */
bool cli_child_signal(const struct cli_child *self, int signal_number);

/* Reads the state of the command without waiting. Returns the signal that has stopped it, or 0.
 * Call it again while it returns a signal. */
int cli_child_read_stop(struct cli_child *self);

/* Ends the guard. Does nothing if there is none. */
void cli_child_fini(struct cli_child *self);

/* Returns the signal that has ended the command; 0: it has ended by itself. */
int cli_child_signal_of_end(const struct cli_child *self);

/* Returns the exit code that says how the command ended, as a shell would. */
int cli_child_code(const struct cli_child *self);

#endif
