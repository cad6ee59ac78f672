#ifndef CLI_NOTIFY_H
#define CLI_NOTIFY_H

/* The notification protocol of systemd (sd_notify(3)): one datagram to $NOTIFY_SOCKET. */

#include <stdint.h>

/* Without the variable nothing happens; what cannot be sent is not missed. */
void cli_notify(const char *text);

/* How often to say WATCHDOG=1, in ms: half of $WATCHDOG_USEC. 0: nobody waits for it. */
int64_t cli_notify_watchdog_ms(void);

#endif
