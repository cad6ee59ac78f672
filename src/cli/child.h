#ifndef CLI_CHILD_H
#define CLI_CHILD_H

/* The command that runs under the lock: in a process group of its own, so that what it started can
 * be signalled with it, and never without its guard (guard.h), which is its parent. The guard ends
 * the command when this program is killed; the kernel kills the command when the guard is. */

#include "held.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cli_child {
    pid_t pid;
    int pid_fd;  /* or -1 */
    pid_t group; /* that it begins in */
    pid_t guard;
    int guard_fd; /* readable when something has become of the command; or -1 */
    bool has_ended;
    int status; /* as from wait(), when it has ended */
};

/* One that has not been started. */
#define CLI_CHILD_NONE                                                                             \
    (struct cli_child)                                                                             \
    {                                                                                              \
        .pid = -1, .pid_fd = -1, .guard = -1, .guard_fd = -1                                       \
    }

/* Runs the command of the arguments, found along PATH, without a shell, with the signal mask from
 * before the wait. CLI_DONE, or the exit code after a line on stderr.
 *
 * Its environment is this program's, with its own RQL_LOCK, RQL_TOKEN and RQL_URL. The URL is the
 * one that this program uses, login included: an rql or a worker inside the command has to find the
 * same server, and would silently lock on another one. Other users cannot read it: unlike a command
 * line, an environment is its owner's. `out` has not been started before. */
int cli_child_start(struct cli_child *out, const struct cli_args *args,
                    const struct cli_held *held);

/* To the whole group, and to the command if it has left the group. Harmless when it has ended.
 * False: the kernel does not let this program signal the command, which has other rights. */
bool cli_child_signal(const struct cli_child *self, int signal_number);

/* Reads what has become of the command. Returns the signal that has stopped it, or 0; does not
 * wait. Repeat it while it returns a signal. */
int cli_child_read_stop(struct cli_child *self);

/* Dismisses the guard. Harmless when there is none. */
void cli_child_fini(struct cli_child *self);

/* The exit code that says how the command ended, as a shell would. */
int cli_child_code(const struct cli_child *self);

#endif
