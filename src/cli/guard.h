#ifndef CLI_GUARD_H
#define CLI_GUARD_H

/* The guard: the parent of a command that runs under a lock. It outlives this program's death.
 *
 *     rql ---- rql-guard ---+--- rql-group   leads the command's process group
 *      |    (own group)     +--- COMMAND     in that group
 *      +-- watches the lock, the command and the terminal
 *
 * While rql lives the guard reports what becomes of the command, and reaps orphans. When rql has
 * died, the guard kills the group and the command, waits until nothing of them is left, and
 * releases the locks by their secrets. A lock that an agent holds is free when the guard ends, and
 * with it the last connection to the agent.
 *
 * The guard is a fresh image of the program, because a copy that fork() made may not use the
 * library. It is in a group of its own, so that it does not kill itself, but in the same session: a
 * group whose parents are all in other sessions cannot be stopped from the terminal. As the parent,
 * and as the subreaper of all descendants, it learns from wait() alone when the last of them has
 * ended, whatever group or session that is in. Only processes of the group that are no descendants
 * have to be looked for in /proc.
 *
 * The leader of the group does nothing but exist. So no command leads its group, and each may call
 * setsid(); and the number of the group is not used again, because the guard never reaps the
 * leader. */

#include "held.h"

#include <stdbool.h>
#include <sys/types.h>

#define CLI_GUARD_NAME "rql-guard"

/* The guard's descriptors: the channel to rql, and the connection to an agent that keeps the lock,
 * if there is one. It only stays open. */
enum { CLI_GUARD_FD = 3, CLI_GUARD_AGENT_FD };

/* The guard's first message to rql. After it the guard sends statuses of the command, as from
 * wait(). */
struct cli_guard_report {
    pid_t command;
    pid_t group;
    bool can_release; /* the guard waits for orders */
};

/* Runs the guard of this command, which is its child. `is_fresh` says that it may use the
 * library. */
_Noreturn void cli_guard_run(pid_t command, bool is_fresh);

/* Sends a guard that waits for orders the data that it needs to release the locks: URL and login,
 * names and secrets. They are neither in its arguments nor in its environment. If it releases
 * nothing, it waits for the end of the processes all the same. Returns whether the guard still
 * existed. */
bool cli_guard_order(int channel, const rql_options *options, const struct cli_held *held,
                     bool releases);

#endif
