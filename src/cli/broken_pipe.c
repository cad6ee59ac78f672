#include "broken_pipe.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

static struct sigaction before = {.sa_handler = SIG_DFL};

void cli_broken_pipe_init(void)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};

    (void)sigaction(SIGPIPE, &ignore, &before);
}

void cli_broken_pipe_restore(void)
{
    (void)sigaction(SIGPIPE, &before, NULL);
}

bool cli_broken_pipe_is_deadly(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};

    return before.sa_handler == SIG_DFL && poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}
