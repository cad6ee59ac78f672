#include "systemd.h"

#include "exit.h"
#include "messages.h"
#include "os.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { FIRST_PASSED = 3 /* SD_LISTEN_FDS_START */ };

/* One datagram; '@' stands for the abstract name space. A failed send is ignored. */
void cli_systemd_notify(const char *text)
{
    const char *path = getenv("NOTIFY_SOCKET"); /* NOLINT(concurrency-mt-unsafe) */
    const size_t length = path ? strlen(path) : 0;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    /* Without a terminator: in the abstract name space it would be part of the name. */
    const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    __attribute__((cleanup(cli_close_p))) int fd = -1;

    /* Without a socket, or if its name is too long for an address, there is no one to notify. */
    if (length < 2 || length >= sizeof address.sun_path || (*path != '/' && *path != '@')) {
        return;
    }
    (void)memcpy(address.sun_path, path, length);
    if (*path == '@') {
        address.sun_path[0] = '\0';
    }
    fd = cli_os_datagram_socket(AF_UNIX);
    if (fd >= 0) {
        (void)sendto(fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&address, size);
    }
}

/* The number of the process says for whom it is: a program that systemd has not started itself may
 * inherit the variables. The first process of a container forks this one (init.c). */
bool cli_systemd_socket(int *out)
{
    const char *pid = getenv("LISTEN_PID");   /* NOLINT(concurrency-mt-unsafe) */
    const char *count = getenv("LISTEN_FDS"); /* NOLINT(concurrency-mt-unsafe) */
    const long long wanted = pid ? strtoll(pid, NULL, 10) : 0;
    const bool is_mine = wanted == getpid() || (wanted == 1 && getppid() == 1);

    *out = count && is_mine ? FIRST_PASSED : -1;
    if (*out >= 0 && strcmp(count, "1") != 0) {
        cli_say("LISTEN_FDS is %s; one socket is taken", count);
        return false;
    }
    return true;
}
