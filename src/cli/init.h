#ifndef CLI_INIT_H
#define CLI_INIT_H

/* Corrections of the process that the program makes before anything else. */

/* Opens each standard descriptor that is closed. Otherwise the next file or socket gets its number,
 * and messages for stderr are written into a connection. Stdout stays unwritable, so that a command
 * with a result still fails when there is no place to write it to. */
void cli_open_standard_descriptors(void);

/* Returns in a process that is not the first of its PID namespace. The kernel withholds from the
 * first process each signal that it does not handle, and makes it the parent of all orphans. If
 * this is the first process, as in a container, it starts a child that returns from here, passes
 * its signals on to the child, reaps the orphans, and ends as the child ends. */
void cli_leave_first_process(void);

#endif
