#ifndef RQLI_CONNECT_H
#define RQLI_CONNECT_H

/* One connect() to one address, before an absolute deadline, signals or not (F-66). Both return a
 * descriptor in blocking mode, close-on-exec; or -1 with errno, ETIMEDOUT after the deadline. */

#include <stdint.h>

struct addrinfo;

int rqli_connect_tcp(const struct addrinfo *address, int64_t deadline_us);
int rqli_connect_unix(const char *path, int64_t deadline_us);

#endif
