#include "net/sock/local.h"

#include "base/cancel_fd.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/futex.h"
#include "base/os.h"
#include "base/scope.h"
#include "base/text.h"
#include "net/sock/connect.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

/*
 * Everything is decided under a lock on the folder itself, which no process can remove and make
 * again: joiners hold the lock until they are connected, the guard holds it for its last check and
 * the shutdown. So no client connects to a server that is about to end, and the guard counts every
 * joiner.
 */

#define GUARD_LOCK_NAME "guard.lock"
#define LOG_NAME "redis.log"
#define DEFAULT_IDLE_S "60"
#define DEFAULT_FOLDERS "/usr/local/bin:/usr/bin:/bin:/usr/sbin"

enum { STEP_MS = 2, IDLE_S_MAX = 86400 };

extern const char rqli_local_guard[]; /* local_guard.sh */

/* The programs and settings that the guard needs. */
struct plan {
    char *server;
    char *client;
    char *path; /* "PATH=..." */
    const char *idle_s;
};

static void plan_fini_p(const struct plan *self)
{
    free(self->server);
    free(self->client);
    free(self->path);
}

/* Returns the first `name` in a list of folders; the caller frees it. NULL: there is none, or no
 * memory. Relative folders are skipped, because the guard runs in another folder. */
static char *find_in(const char *folders, const char *name)
{
    for (;;) {
        int length = (int)strcspn(folders, ":");
        char *path = NULL;
        struct stat info;

        if (asprintf(&path, "%.*s/%s", length, folders, name) < 0) {
            return NULL;
        }
        if (path[0] == '/' && length > 0 && stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
            access(path, X_OK) == 0) {
            return path;
        }
        free(path);
        if (folders[length] == '\0') {
            return NULL;
        }
        folders += length + 1;
    }
}

/* Returns the folders to search. A program with more rights than its user must not run a program
 * that the environment names. */
static const char *search_path(void)
{
    const char *path = secure_getenv("PATH");

    return path && path[0] != '\0' ? path : DEFAULT_FOLDERS;
}

static char *find_either(const char *name, const char *other)
{
    char *path = find_in(search_path(), name);

    return path ? path : find_in(search_path(), other);
}

/* Finds the programs that the guard, a shell script, uses: better a message now than a server
 * without a guard. The user's PATH chooses server and client; flock is the system's. */
static rql_status find_programs(struct plan *out, rql_error *error)
{
    char *flock = find_in(DEFAULT_FOLDERS, "flock");
    bool has_flock = flock != NULL;

    free(flock);
    errno = ENOENT;
    out->server = find_either("redis-server", "valkey-server");
    if (!out->server) {
        return rqli_fail(error, RQL_E_IO,
                         "local: no redis-server or valkey-server in PATH; install redis-server or "
                         "set RQL_URL");
    }
    out->client = find_either("redis-cli", "valkey-cli");
    if (!out->client) {
        return rqli_fail(error, RQL_E_IO,
                         "local: no redis-cli or valkey-cli in PATH; install redis-tools or set "
                         "RQL_URL");
    }
    if (!has_flock) {
        return rqli_fail(error, RQL_E_IO,
                         "local: no program flock; install util-linux or set RQL_URL");
    }
    return RQL_OK;
}

/* Reads RQL_LOCAL_IDLE. It is checked here, because the guard has no way left to report an error. A
 * leading zero would make it octal for the shell. The text is the environment's, or a literal. */
static rql_status read_idle(struct plan *out, rql_error *error)
{
    const char *text = secure_getenv("RQL_LOCAL_IDLE");
    int64_t idle_s;

    out->idle_s = text && text[0] != '\0' ? text : DEFAULT_IDLE_S;
    if (rqli_parse_int(rqli_slice_of(out->idle_s), &idle_s) && idle_s >= 1 &&
        idle_s <= IDLE_S_MAX && out->idle_s[0] != '0') {
        return RQL_OK;
    }
    errno = EINVAL;
    return rqli_fail(error, RQL_E_IO,
                     "local: RQL_LOCAL_IDLE must be a number of seconds from 1 to %d", IDLE_S_MAX);
}

/* Sets up the child: signals as a fresh program has them, the three standard streams at /dev/null,
 * no other descriptor open. Returns 0 unless something fails. */
static int set_up_child(posix_spawnattr_t *attributes, posix_spawn_file_actions_t *actions)
{
    sigset_t none;
    sigset_t all;
    int code = 0;
    int fd;

    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    code |= posix_spawnattr_setsigmask(attributes, &none);
    code |= posix_spawnattr_setsigdefault(attributes, &all);
    code |= posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
                                                     POSIX_SPAWN_SETSIGDEF);
    for (fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        code |= posix_spawn_file_actions_addopen(actions, fd, "/dev/null", O_RDWR, 0);
    }
    return code | rqli_os_close_in_child(actions, STDERR_FILENO + 1);
}

/* posix_spawn() does not change its lists, but its prototype does not say so. */
static char *const *without_const(const char *const *list)
{
    union {
        const char *const *given;
        char *const *wanted;
    } list_as = {.given = list};

    return list_as.wanted;
}

/* Returns an errno. */
static int spawn_shell(pid_t *out, const char *const *arguments, const char *const *environment)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int code = posix_spawnattr_init(&attributes);

    if (code != 0) {
        return code;
    }
    code = posix_spawn_file_actions_init(&actions);
    if (code == 0) {
        code = set_up_child(&attributes, &actions) != 0 ? ENOMEM : 0;
        if (code == 0) {
            code = posix_spawn(out, "/bin/sh", &actions, &attributes, without_const(arguments),
                               without_const(environment));
        }
        (void)posix_spawn_file_actions_destroy(&actions);
    }
    (void)posix_spawnattr_destroy(&attributes);
    return code;
}

/* Starts the guard of the private server: detached from this process, in a session of its own, with
 * none of its descriptors, and no child of it. task: "start", no server is there and the caller
 * holds the lock of the folder; "adopt", a server is there that has lost its guard. RQL_OK: the
 * socket will show whether it succeeds. */
static rql_status start_guard(const char *task, const char *folder, rql_error *error)
{
    RQLI_AUTO(plan_fini) struct plan plan = {0};
    rql_status status = read_idle(&plan, error);
    char text[128];
    pid_t pid;
    int code;

    if (!status) {
        status = find_programs(&plan, error);
    }
    if (!status && asprintf(&plan.path, "PATH=%s", search_path()) < 0) {
        plan.path = NULL;
        status = rqli_fail_nomem(error);
    }
    if (status) {
        return status;
    }
    /* The script is followed by its $0, then $1 to $5. Of our environment it gets PATH alone. */
    code = spawn_shell(&pid,
                       (const char *const[]){"sh", "-c", rqli_local_guard, "rql-local-guard", task,
                                             folder, plan.server, plan.client, plan.idle_s, NULL},
                       (const char *const[]){plan.path, "LC_ALL=C", NULL});
    if (code != 0) {
        errno = code;
        return rqli_fail(error, RQL_E_IO, "local: cannot start /bin/sh: %s",
                         rqli_os_strerror(code, text, sizeof text));
    }
    /* The shell puts the guard in its background and ends, so that the caller is left with no
     * zombie. ECHILD: the program has collected the shell already, with a handler or by ignoring
     * SIGCHLD. */
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
    return RQL_OK;
}

struct visit {
    const char *path; /* of the socket */
    bool may_start;
    char folder[sizeof((struct sockaddr_un *)NULL)->sun_path];
    int64_t deadline_us;
    int folder_fd;
};

/* Unlocks the folder explicitly, because a child that another thread forks meanwhile shares the
 * descriptor. */
static void unlock_folder_p(const struct visit *visit)
{
    int saved = errno;

    if (visit->folder_fd >= 0) {
        (void)flock(visit->folder_fd, LOCK_UN);
        (void)close(visit->folder_fd);
    }
    errno = saved;
}

static rql_status fail_at(const char *place, const char *what, rql_error *error)
{
    char text[128];

    return rqli_fail(error, RQL_E_IO, "local: %s %.120s: %s", what, place,
                     rqli_os_strerror(errno, text, sizeof text));
}

/* Checks the folder. Any user can make something of that name in /tmp first, so the folder must be
 * a real one, owned by this user, and no other user may write to it. A user who can only read it
 * does no harm: the socket has mode 700. */
static rql_status check_folder(const char *folder, const struct stat *info, rql_error *error)
{
    errno = EPERM;
    if (info->st_uid != geteuid()) {
        return rqli_fail(error, RQL_E_IO,
                         "local: the folder %.120s belongs to another user (%ju); have it removed, "
                         "or set RQL_LOCAL_DIR",
                         folder, (uintmax_t)info->st_uid);
    }
    if (!S_ISDIR(info->st_mode)) {
        return rqli_fail(error, RQL_E_IO, "local: %.120s is %s, not a folder; remove it", folder,
                         S_ISLNK(info->st_mode) ? "a symbolic link" : "a file");
    }
    if (info->st_mode & (S_IWGRP | S_IWOTH)) {
        return rqli_fail(error, RQL_E_IO,
                         "local: other users can write to the folder %.120s; use chmod 700",
                         folder);
    }
    return RQL_OK;
}

static rql_status fail_without_server(rql_error *error)
{
    return rqli_fail(error, RQL_E_IO, "local: no server is running; set RQL_URL to use another");
}

/* Opens the folder, and makes it if there is none and a server may be started. The path is checked
 * first only for a clear message: open() reports "Permission denied" for another user's folder. The
 * check of the opened folder is the one that counts. */
static rql_status open_folder(struct visit *visit, rql_error *error)
{
    struct stat info;
    rql_status status;

    if (visit->may_start && mkdir(visit->folder, S_IRWXU) != 0 && errno != EEXIST) {
        return fail_at(visit->folder, "cannot make the folder", error);
    }
    if (lstat(visit->folder, &info) != 0) {
        return errno == ENOENT ? fail_without_server(error)
                               : fail_at(visit->folder, "cannot use the folder", error);
    }
    status = check_folder(visit->folder, &info, error);
    if (status) {
        return status;
    }
    visit->folder_fd =
        rqli_fd_lift(open(visit->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (visit->folder_fd < 0 || fstat(visit->folder_fd, &info) != 0) {
        return fail_at(visit->folder, "cannot use the folder", error);
    }
    return check_folder(visit->folder, &info, error);
}

/* Sleeps for one step. False: the time is up. */
static bool wait_a_step(int64_t deadline_us)
{
    rqli_sleep_until(rqli_after_ms(rqli_now_us(), STEP_MS));
    return !rqli_time_is_up(deadline_us);
}

/* Locks the folder by polling, because flock() has no timeout. */
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

/* True: the folder has a guard, which holds this lock as long as it lives. If there is none we get
 * the lock, until the descriptor is closed on return. */
static bool has_guard(const struct visit *visit)
{
    RQLI_AUTO(rqli_fd_close)
    int fd =
        rqli_fd_lift(openat(visit->folder_fd, GUARD_LOCK_NAME, O_RDWR | O_NOFOLLOW | O_CLOEXEC));

    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0;
}

/* Sends PING and reads the answer. A fresh connection has nothing else in its stream, so no part of
 * a PONG is left behind. */
static bool answers_ping(int fd, int64_t deadline_us)
{
    static const char pong[] = "+PONG\r\n";
    size_t length = sizeof pong - 1;
    char reply[sizeof pong - 1];

    return send(fd, "PING\r\n", 6, MSG_NOSIGNAL) == 6 &&
           rqli_fd_await(fd, POLLIN, deadline_us - rqli_now_us()) > 0 &&
           recv(fd, reply, length, MSG_DONTWAIT) == (ssize_t)length &&
           memcmp(reply, pong, length) == 0;
}

/* Returns true if there is something to read, which a disk that is full has no room for. */
static bool has_log(const struct visit *visit)
{
    struct stat info;

    return fstatat(visit->folder_fd, LOG_NAME, &info, AT_SYMLINK_NOFOLLOW) == 0 && info.st_size > 0;
}

/* Starts a server and waits for its first PONG: the socket may exist before the server answers, or
 * may be left by a dead one. */
static rql_status start_server(const struct visit *visit, int *out_fd, rql_error *error)
{
    rql_status status;

    if (faccessat(visit->folder_fd, ".", W_OK, AT_EACCESS) != 0) {
        return fail_at(visit->folder, "cannot write to the folder", error);
    }
    status = start_guard("start", visit->folder, error);
    if (status) {
        return status;
    }
    do {
        RQLI_AUTO(rqli_fd_close) int fd = rqli_connect_unix(visit->path, visit->deadline_us);

        if (fd >= 0 && answers_ping(fd, visit->deadline_us)) {
            *out_fd = rqli_fd_give(&fd);
            return RQL_OK;
        }
    } while (wait_a_step(visit->deadline_us));
    errno = ETIMEDOUT;
    return rqli_fail(error, RQL_E_IO, "local: the server did not answer in time at %.120s%s",
                     visit->path, has_log(visit) ? "; " LOG_NAME " beside it may say why" : "");
}

/* Caller holds the lock of the folder. Starts a server if there is no socket (ENOENT), or one
 * without a listener (ECONNREFUSED). Any other failure may be that of a living server, and there
 * must not be two. A server whose guard was killed gets a new guard. */
static rql_status join_locked(const struct visit *visit, int *out_fd, rql_error *error)
{
    RQLI_AUTO(rqli_fd_close) int fd = rqli_connect_unix(visit->path, visit->deadline_us);
    rql_status status = RQL_OK;

    if (fd < 0 && (errno == ENOENT || errno == ECONNREFUSED)) {
        return visit->may_start ? start_server(visit, out_fd, error) : fail_without_server(error);
    }
    if (fd < 0) {
        return fail_at(visit->path, "cannot connect to", error);
    }
    if (!has_guard(visit)) {
        status = start_guard("adopt", visit->folder, error);
    }
    if (!status) {
        *out_fd = rqli_fd_give(&fd);
    }
    return status;
}

/* The folder is unlocked on return. By then we are connected, and the guard counts us. */
rql_status rqli_local_join(const char *path, bool may_start, int64_t deadline_us, int *out_fd,
                           rql_error *error)
{
    RQLI_AUTO(unlock_folder)
    struct visit visit = {
        .path = path, .may_start = may_start, .deadline_us = deadline_us, .folder_fd = -1};
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
    return status ? status : join_locked(&visit, out_fd, error);
}
