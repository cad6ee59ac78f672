#include "notify.h"

#include "scope.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

/* False: no address. A leading '@' stands for the abstract name space. */
static int fill_address(struct sockaddr_un *address, socklen_t *size_out)
{
    const char *path = getenv("NOTIFY_SOCKET"); /* NOLINT(concurrency-mt-unsafe) */
    size_t length = path ? strlen(path) : 0;

    if (length < 2 || length >= sizeof address->sun_path || (*path != '/' && *path != '@')) {
        return 0;
    }
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path, path, length);
    if (*path == '@') {
        address->sun_path[0] = '\0';
    }
    *size_out = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    return 1;
}

void cli_notify(const char *text)
{
    struct sockaddr_un address;
    socklen_t size;
    __attribute__((cleanup(cli_close_p))) int fd = -1;

    if (!fill_address(&address, &size)) {
        return;
    }
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        (void)sendto(fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&address, size);
    }
}

int64_t cli_notify_watchdog_ms(void)
{
    const char *text = getenv("WATCHDOG_USEC"); /* NOLINT(concurrency-mt-unsafe) */
    const int64_t us = text ? strtoll(text, NULL, 10) : 0;

    return us > 0 ? us / 2000 + 1 : 0;
}
