#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

/* The terminal, for a command in a process group of its own.
 *
 * The command starts in the background of the terminal, where it can write but not read. When it
 * needs more the kernel stops it (SIGTTIN, SIGTTOU), and it is given the terminal then. Giving it
 * from the start would take the keyboard from `rql run a -- b | less`, whose pager is in our group;
 * sharing our group would leave no group to kill when the lock is lost. */

#include <stdbool.h>
#include <sys/types.h>

struct cli_terminal {
    int fd; /* the controlling terminal, or -1 */
    bool is_given;
};

void cli_terminal_init(struct cli_terminal *self);
void cli_terminal_fini(struct cli_terminal *self);

/* False if this program does not have it to give. */
bool cli_terminal_give(struct cli_terminal *self, pid_t group);

/* Takes it back if it was given. SIGTTOU has to be blocked. */
void cli_terminal_take(struct cli_terminal *self);

/* Stops this program's whole group as ^Z does, for the shell to notice; returns when continued. */
void cli_terminal_suspend(void);

#endif
