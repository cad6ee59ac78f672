#ifndef CLI_SYSTEMD_H
#define CLI_SYSTEMD_H

/* What a service and systemd tell each other, as in sd_notify(3) and sd_listen_fds(3). */

/* Sends one message. It is ignored if nobody listens. */
void cli_systemd_notify(const char *text);

/* Returns the socket that systemd has opened for this service; -1: none. */
int cli_systemd_socket(void);

#endif
