#ifndef CLI_SYSTEMD_H
#define CLI_SYSTEMD_H

#include <stdbool.h>

/* What a service and systemd tell each other, as in sd_notify(3) and sd_listen_fds(3). */

/* Sends one message. Without a listener it is ignored. */
void cli_systemd_notify(const char *text);

/* Gets the socket that systemd has opened for this service; -1: none. Returns false after a message
 * on stderr if there are several. */
bool cli_systemd_socket(int *out);

#endif
