#ifndef ABORTS_H
#define ABORTS_H

/* For RQLI_MUST: does this end the process? Asked of a child, which says nothing on its way. */

#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

static inline bool aborts(void (*act)(void *data), void *data)
{
    pid_t child = fork();
    int how = 0;

    if (child == 0) {
        (void)signal(SIGABRT, SIG_DFL);
        (void)close(STDERR_FILENO);
        act(data);
        _exit(0);
    }
    return child > 0 && waitpid(child, &how, 0) == child && WIFSIGNALED(how) &&
           WTERMSIG(how) == SIGABRT;
}

#endif
