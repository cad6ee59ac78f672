#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

/* Signals: which ones the program waits for, how one ends it, and threads that get none. */

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* Returns the set of these signals, without those that nohup or a shell has ignored: they stay
 * ignored. */
sigset_t cli_signals(const int *numbers, size_t count);

/* Starts a thread with all signals blocked: a signal that it took would be lost for the code that
 * waits for it. Returns false if the system refuses. */
bool cli_start_thread(pthread_t *out, void *(*run)(void *), void *data);

/* Lets the program outlive this signal, unless it is ignored already. A command that the program
 * starts does not. */
void cli_outlive(int signal_number);

/* Ends the program as this signal does. */
_Noreturn void cli_die_by(int signal_number);

#endif
