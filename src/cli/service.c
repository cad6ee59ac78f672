#include "service.h"

#include "format.h"
#include "signals.h"
#include "systemd.h"

#include <errno.h>
#include <rql/status.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* How often a service is checked if systemd does not require it more often. */
enum { CHECK_MS = 60000, STATUS_SIZE = 64 + RQL_ERROR_MESSAGE_SIZE };

static const char status_key[] = "STATUS=";

/* Returns the signals by which systemd stops a service, and that of ^C. */
static sigset_t ending_signals(void)
{
    static const int ending[] = {SIGTERM, SIGINT};

    return cli_signals(ending, sizeof ending / sizeof ending[0]);
}

void cli_service_prepare(void)
{
    const sigset_t ending = ending_signals();

    (void)pthread_sigmask(SIG_BLOCK, &ending, NULL);
}

/* Reports first that this process is alive, because a request to the server may take some time. */
static void notify_again(const struct cli_service *self, bool is_watched)
{
    char text[STATUS_SIZE];
    const int length = snprintf(text, sizeof text, "%s", status_key);

    if (is_watched && self->is_well(self->data)) {
        cli_systemd_notify("WATCHDOG=1");
    }
    self->describe(self->data, text + length, sizeof text - (size_t)length);
    cli_systemd_notify(text);
}

void cli_service_wait(const struct cli_service *self)
{
    const sigset_t ending = ending_signals();
    const bool is_notified = getenv("NOTIFY_SOCKET") != NULL; /* NOLINT(concurrency-mt-unsafe) */
    const char *watchdog = getenv("WATCHDOG_USEC");           /* NOLINT(concurrency-mt-unsafe) */
    const int64_t watchdog_us = watchdog ? strtoll(watchdog, NULL, 10) : 0;
    const int64_t watchdog_ms = watchdog_us > 0 ? watchdog_us / 2000 + 1 : 0; /* half of it */
    const int64_t check_ms = watchdog_ms > 0 ? watchdog_ms : CHECK_MS;
    const struct timespec pause = cli_timespec(check_ms);
    int signal = -1;

    while (signal < 0) {
        /* EAGAIN: the time is over. Any other error, such as EINTR, only starts the pause again. */
        signal = sigtimedwait(&ending, NULL, &pause);
        if (signal < 0 && errno == EAGAIN && is_notified) {
            notify_again(self, watchdog_ms > 0);
        }
    }
}
