#ifndef CLI_SERVICE_H
#define CLI_SERVICE_H

#include <stdbool.h>
#include <stddef.h>

/* A service, which runs in threads of its own until a signal ends it, and what it reports to
 * systemd meanwhile. */

/* Blocks the signals that end a service, so that they stay pending for cli_service_wait(),
 * including those that come while the program connects. Call it before any thread is started,
 * because threads inherit the mask. */
void cli_service_prepare(void);

struct cli_service {
    void *data; /* for both functions */
    /* Returns whether no part hangs. Otherwise systemd is not notified, and restarts the silent
     * service. */
    bool (*is_well)(void *data);
    /* Writes the line that `systemctl status` shows. */
    void (*describe)(void *data, char *out, size_t size);
};

/* Waits for SIGTERM or SIGINT, and reports to systemd until then. */
void cli_service_wait(const struct cli_service *self);

#endif
