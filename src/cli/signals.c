#include "signals.h"

#include "exit.h"

sigset_t cli_signals(const int *numbers, size_t count)
{
    struct sigaction action;
    sigset_t set;

    (void)sigemptyset(&set);
    for (size_t i = 0; i < count; i++) {
        if (sigaction(numbers[i], NULL, &action) != 0 || action.sa_handler != SIG_IGN) {
            (void)sigaddset(&set, numbers[i]);
        }
    }
    return set;
}

bool cli_start_thread(pthread_t *out, void *(*run)(void *), void *data)
{
    sigset_t before;
    sigset_t all;
    bool has_started;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    has_started = pthread_create(out, NULL, run, data) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return has_started;
}

static void do_nothing(int signal_number)
{
    (void)signal_number;
}

/* A command does not inherit a handler, as it would SIG_IGN or a blocked signal. */
void cli_outlive(int signal_number)
{
    struct sigaction action;

    if (sigaction(signal_number, NULL, &action) == 0 && action.sa_handler == SIG_DFL) {
        action = (struct sigaction){.sa_handler = do_nothing, .sa_flags = SA_RESTART};
        (void)sigaction(signal_number, &action, NULL);
    }
}

/* Ends by the default action, so that a shell or a supervisor sees which signal ended the program.
 * The exit is for signals that do not end a program. */
_Noreturn void cli_die_by(int signal_number)
{
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t set;

    (void)sigaction(signal_number, &plain, NULL);
    (void)raise(signal_number);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, signal_number);
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    _Exit(CLI_SIGNALLED + signal_number);
}
