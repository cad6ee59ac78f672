#include "terminal.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

void cli_terminal_init(struct cli_terminal *self)
{
    self->is_given = false;
    self->fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
}

void cli_terminal_fini(struct cli_terminal *self)
{
    cli_terminal_take(self);
    if (self->fd >= 0) {
        (void)close(self->fd);
    }
    self->fd = -1;
}

/* Only the foreground can give it: in the background it is somebody else's. */
bool cli_terminal_give(struct cli_terminal *self, pid_t group)
{
    if (self->fd < 0 || tcgetpgrp(self->fd) != getpgrp()) {
        return false;
    }
    self->is_given = tcsetpgrp(self->fd, group) == 0;
    return self->is_given;
}

void cli_terminal_take(struct cli_terminal *self)
{
    if (self->is_given) {
        (void)tcsetpgrp(self->fd, getpgrp());
    }
    self->is_given = false;
}

/* The signal is blocked, so it takes effect when it is let through: on the spot. */
void cli_terminal_suspend(void)
{
    sigset_t stop;

    (void)sigemptyset(&stop);
    (void)sigaddset(&stop, SIGTSTP);
    (void)kill(0, SIGTSTP);
    (void)pthread_sigmask(SIG_UNBLOCK, &stop, NULL);
    (void)pthread_sigmask(SIG_BLOCK, &stop, NULL);
}
