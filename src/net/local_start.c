#include "net/local_start.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEFAULT_IDLE_S "60"
#define DEFAULT_FOLDERS "/usr/local/bin:/usr/bin:/bin:/usr/sbin"

enum { IDLE_S_MAX = 86400 };

extern const char rqli_local_guard[];

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

static bool is_program(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

/* The first `name` in a list of folders. NULL: there is none. */
static char *find_in(const char *folders, const char *name)
{
    for (;;) {
        int length = (int)strcspn(folders, ":");
        char *path = NULL;

        if (asprintf(&path, "%.*s/%s", length, folders, name) < 0) {
            return NULL;
        }
        if (path[0] == '/' && length > 0 && is_program(path)) {
            return path;
        }
        free(path);
        if (folders[length] == '\0') {
            return NULL;
        }
        folders += length + 1;
    }
}

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
    return rqli_fail(error, RQL_E_IO, "local: RQL_LOCAL_IDLE is no number of seconds from 1 to %d",
                     IDLE_S_MAX);
}

/* Signals as a fresh program has them, the three standard streams nowhere, nothing else open. */
static int set_up(posix_spawnattr_t *attributes, posix_spawn_file_actions_t *actions)
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
    code |= posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1);
    return code | posix_spawn_file_actions_addchdir_np(actions, "/");
}

/* posix_spawn() changes nothing of its lists, but does not say so. */
static char *const *own(const char *const *list)
{
    union {
        const char *const *given;
        char *const *wanted;
    } list_as = {.given = list};

    return list_as.wanted;
}

static int spawn(pid_t *out, const char *const *arguments, const char *const *environment)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int code = posix_spawnattr_init(&attributes);

    if (code != 0) {
        return code;
    }
    code = posix_spawn_file_actions_init(&actions);
    if (code == 0) {
        code = set_up(&attributes, &actions) != 0 ? ENOMEM : 0;
        if (code == 0) {
            code = posix_spawn(out, "/bin/sh", &actions, &attributes, own(arguments),
                               own(environment));
        }
        (void)posix_spawn_file_actions_destroy(&actions);
    }
    (void)posix_spawnattr_destroy(&attributes);
    return code;
}

/* The shell puts the guard in its background and ends: no zombie stays with the caller. ECHILD: the
 * program has collected it already, with a handler or by ignoring SIGCHLD. */
static void collect(pid_t pid)
{
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
}

static rql_status make_plan(struct plan *out, rql_error *error)
{
    rql_status status = read_idle(out, error);

    if (!status) {
        status = find_programs(out, error);
    }
    if (!status && asprintf(&out->path, "PATH=%s", search_path()) < 0) {
        out->path = NULL;
        status = rqli_fail_nomem(error);
    }
    return status;
}

rql_status rqli_local_start(enum rqli_local_task task, const char *folder, rql_error *error)
{
    RQLI_AUTO(plan_fini) struct plan plan = {0};
    rql_status status = make_plan(&plan, error);
    char text[128];
    pid_t pid;
    int code;

    if (status) {
        return status;
    }
    code = spawn(&pid,
                 (const char *const[]){"sh", "-c", rqli_local_guard, "rql-local-guard",
                                       task == RQLI_LOCAL_START ? "start" : "adopt", folder,
                                       plan.server, plan.client, plan.idle_s, NULL},
                 (const char *const[]){plan.path, "LC_ALL=C", NULL});
    if (code != 0) {
        errno = code;
        return rqli_fail(error, RQL_E_IO, "local: cannot start /bin/sh: %s",
                         strerror_r(code, text, sizeof text));
    }
    collect(pid);
    return RQL_OK;
}
