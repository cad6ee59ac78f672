#include "net/local.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "net/connect.h"
#include "net/fd.h"
#include "net/local_start.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

/*
 * Everything is decided under a lock on the folder itself, which nobody can remove and make anew:
 * joiners hold it until they are connected, the guard for its last look and the shutdown. So nobody
 * connects to a server that is about to end, and the guard counts every joiner.
 */

#define SOCKET_NAME "redis.sock"
#define POST_NAME "guard.lock"

enum { STEP_MS = 2, WAIT_MS_MAX = 60000 };

struct visit {
    const char *path; /* of the socket */
    char folder[sizeof((struct sockaddr_un *)NULL)->sun_path];
    int64_t deadline_us;
    int folder_fd;
};

/* Released by name: a child that some thread forks meanwhile shares the descriptor. */
static void unlock_folder_p(const struct visit *visit)
{
    int saved = errno;

    if (visit->folder_fd >= 0) {
        (void)flock(visit->folder_fd, LOCK_UN);
        (void)close(visit->folder_fd);
    }
    errno = saved;
}

static const char *environment(const char *name)
{
    const char *value = secure_getenv(name);

    return value && value[0] != '\0' ? value : NULL;
}

char *rqli_local_path(void)
{
    const char *own = environment("RQL_LOCAL_DIR");
    const char *runtime = environment("XDG_RUNTIME_DIR");
    char *path = NULL;
    int length;

    if (own) {
        length = asprintf(&path, "%s/" SOCKET_NAME, own);
    } else if (runtime) {
        length = asprintf(&path, "%s/rql/" SOCKET_NAME, runtime);
    } else {
        length = asprintf(&path, "/tmp/rql-%ju/" SOCKET_NAME, (uintmax_t)geteuid());
    }
    return length < 0 ? NULL : path;
}

static rql_status fail_at(const char *place, const char *what, rql_error *error)
{
    char text[128];

    return rqli_fail(error, RQL_E_IO, "local: %s %.120s: %s", what, place,
                     strerror_r(errno, text, sizeof text));
}

/* In /tmp anybody can make a folder or a link of that name before us. */
static rql_status open_folder(struct visit *visit, rql_error *error)
{
    struct stat info;

    if (mkdir(visit->folder, S_IRWXU) != 0 && errno != EEXIST) {
        return fail_at(visit->folder, "cannot make the folder", error);
    }
    visit->folder_fd = open(visit->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (visit->folder_fd < 0 || fstat(visit->folder_fd, &info) != 0) {
        return fail_at(visit->folder, "cannot use the folder", error);
    }
    errno = EPERM;
    if (info.st_uid != geteuid()) {
        return rqli_fail(error, RQL_E_IO, "local: the folder %.120s belongs to another user",
                         visit->folder);
    }
    if (info.st_mode & (S_IWGRP | S_IWOTH)) {
        return rqli_fail(error, RQL_E_IO, "local: the folder %.120s can be written by others",
                         visit->folder);
    }
    return RQL_OK;
}

/* One look later. False: the deadline has passed. */
static bool wait_a_step(int64_t deadline_us)
{
    const struct timespec step = {.tv_nsec = STEP_MS * 1000000L};

    (void)nanosleep(&step, NULL);
    return rqli_now_us() < deadline_us;
}

/* flock() knows no deadline. */
static rql_status lock_folder(const struct visit *visit, rql_error *error)
{
    while (flock(visit->folder_fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            return fail_at(visit->folder, "cannot lock the folder", error);
        }
        if (!wait_a_step(visit->deadline_us)) {
            errno = ETIMEDOUT;
            return fail_at(visit->folder, "another process is busy in the folder", error);
        }
    }
    return RQL_OK;
}

static bool has_guard(const struct visit *visit)
{
    RQLI_AUTO(rqli_fd_close)
    int fd = openat(visit->folder_fd, POST_NAME, O_RDWR | O_NOFOLLOW | O_CLOEXEC);

    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0;
}

static bool receive_within(int fd, int64_t deadline_us)
{
    int64_t left_us = deadline_us - rqli_now_us();
    int64_t left_ms = left_us <= 0 ? 0 : (left_us + 999) / 1000;
    struct pollfd wanted = {.fd = fd, .events = POLLIN};

    return poll(&wanted, 1, left_ms > WAIT_MS_MAX ? WAIT_MS_MAX : (int)left_ms) > 0;
}

/* Nothing else is in the stream of a fresh connection, so nothing of a PONG is left behind. */
static bool answers(int fd, int64_t deadline_us)
{
    static const char pong[] = "+PONG\r\n";
    size_t length = sizeof pong - 1;
    char reply[sizeof pong - 1];

    return send(fd, "PING\r\n", 6, MSG_NOSIGNAL) == 6 && receive_within(fd, deadline_us) &&
           recv(fd, reply, length, MSG_DONTWAIT) == (ssize_t)length &&
           memcmp(reply, pong, length) == 0;
}

static rql_status start_server(const struct visit *visit, int *out_fd, rql_error *error)
{
    rql_status status = rqli_local_start(RQLI_LOCAL_START, visit->folder, error);

    if (status) {
        return status;
    }
    do {
        RQLI_AUTO(rqli_fd_close) int fd = rqli_connect_unix(visit->path, visit->deadline_us);

        if (fd >= 0 && answers(fd, visit->deadline_us)) {
            *out_fd = rqli_fd_give(&fd);
            return RQL_OK;
        }
    } while (wait_a_step(visit->deadline_us));
    errno = ETIMEDOUT;
    return rqli_fail(error, RQL_E_IO,
                     "local: the server did not answer in time at %.120s; redis.log beside it may "
                     "say why",
                     visit->path);
}

static rql_status join(const struct visit *visit, int *out_fd, rql_error *error)
{
    RQLI_AUTO(rqli_fd_close) int fd = rqli_connect_unix(visit->path, visit->deadline_us);
    rql_status status = RQL_OK;

    if (fd < 0 && (errno == ENOENT || errno == ECONNREFUSED)) {
        return start_server(visit, out_fd, error);
    }
    if (fd < 0) {
        return fail_at(visit->path, "cannot connect to", error);
    }
    if (!has_guard(visit)) {
        status = rqli_local_start(RQLI_LOCAL_ADOPT, visit->folder, error);
    }
    if (!status) {
        *out_fd = rqli_fd_give(&fd);
    }
    return status;
}

rql_status rqli_local_join(const char *path, int64_t deadline_us, int *out_fd, rql_error *error)
{
    RQLI_AUTO(unlock_folder)
    struct visit visit = {.path = path, .deadline_us = deadline_us, .folder_fd = -1};
    const char *slash = strrchr(path, '/');
    rql_status status;

    if (!slash || slash - path >= (ptrdiff_t)sizeof visit.folder) {
        errno = ENAMETOOLONG;
        return fail_at(path, "cannot use the path", error);
    }
    memcpy(visit.folder, path, (size_t)(slash - path));
    status = open_folder(&visit, error);
    if (!status) {
        status = lock_folder(&visit, error);
    }
    return status ? status : join(&visit, out_fd, error);
}
