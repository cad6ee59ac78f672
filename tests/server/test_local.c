#include "check.h"

#include "base/clock.h"
#include "net/connect.h"
#include "net/url.h"
#include "wait.h"

#include <dirent.h>
#include <fcntl.h>
#include <hiredis.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { N_JOINERS = 20 };

static const int64_t join_ms = 30000; /* it starts a server by a shell, on whatever machine */
static const int64_t end_ms = 15000;
static const int64_t short_ms = 200;
static const int64_t slack_ms = 1000;

/* A folder of its own for each test: <base>/local for the server, <base>/bin for programs, and
 * <base>/tested, where the server under test has the name that is looked for first. */
static struct {
    char base[32];
    char folder[48];
    char bin[48];
    char tested[48];
    char socket[64];
    char post[64];
    char path[128]; /* PATH with the server under test in front */
} place;

static void set_environment(void)
{
    (void)snprintf(place.path, sizeof place.path, "%s:/usr/bin:/bin", place.tested);
    (void)setenv("PATH", place.path, 1);
    (void)setenv("RQL_LOCAL_DIR", place.folder, 1);
    (void)setenv("RQL_LOCAL_IDLE", "1", 1);
}

static bool cannot_link_server(void)
{
    const char *server = getenv("RQL_TEST_REDIS");
    char name[80];

    (void)snprintf(place.tested, sizeof place.tested, "%s/tested", place.base);
    (void)snprintf(name, sizeof name, "%s/redis-server", place.tested);
    return !server || mkdir(place.tested, 0700) || symlink(server, name);
}

static int make_place(void **state)
{
    (void)state;
    (void)snprintf(place.base, sizeof place.base, "/tmp/rql-local-XXXXXX");
    if (!mkdtemp(place.base)) {
        return -1;
    }
    (void)snprintf(place.folder, sizeof place.folder, "%s/local", place.base);
    (void)snprintf(place.bin, sizeof place.bin, "%s/bin", place.base);
    (void)snprintf(place.socket, sizeof place.socket, "%s/redis.sock", place.folder);
    (void)snprintf(place.post, sizeof place.post, "%s/guard.lock", place.folder);
    if (cannot_link_server()) {
        return -1;
    }
    set_environment();
    return mkdir(place.bin, 0700);
}

static rql_status join(int64_t within_ms, int *out_fd, rql_error *error)
{
    RQLI_AUTO(rqli_fd_close) int fd = -1;
    struct rqli_endpoint endpoint = {0};
    rql_status status = rqli_url_parse(&endpoint, "local:", error);

    if (!status) {
        status =
            rqli_local_join(endpoint.path, rqli_after_ms(rqli_now_us(), within_ms), &fd, error);
    }
    rqli_endpoint_fini(&endpoint);
    *out_fd = rqli_fd_give(&fd);
    return status;
}

static redisContext *join_or_fail(void)
{
    rql_error error = {0};
    int fd;

    if (join(join_ms, &fd, &error)) {
        fail_msg("%s", error.message);
    }
    return redisConnectFd(fd);
}

/* A number of INFO. */
static long ask_info(redisContext *context, const char *name)
{
    redisReply *reply = redisCommand(context, "INFO");
    const char *found = reply ? strstr(reply->str, name) : NULL;
    long value = found ? strtol(found + strlen(name), NULL, 10) : -1;

    if (reply) {
        freeReplyObject(reply);
    }
    return value;
}

static pid_t server_of(redisContext *context)
{
    pid_t pid = (pid_t)ask_info(context, "process_id:");

    assert_true(pid > 0);
    return pid;
}

static bool process_is_gone(void *data)
{
    const pid_t *pid = data;

    return kill(*pid, 0) != 0;
}

static bool post_is_held(void *data)
{
    RQLI_AUTO(rqli_fd_close) int fd = open(place.post, O_RDWR | O_CLOEXEC);

    (void)data;
    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0;
}

static bool post_is_free(void *data)
{
    return !post_is_held(data);
}

static bool folder_is_empty(void *data)
{
    DIR *dir = opendir(place.folder);
    int n = 0;

    (void)data;
    while (dir && readdir(dir)) {
        n++;
    }
    if (dir) {
        (void)closedir(dir);
    }
    return n == 2; /* . and .. */
}

static void expect_orderly_end(pid_t server)
{
    assert_true(wait_until(process_is_gone, &server, end_ms));
    assert_true(wait_until(folder_is_empty, NULL, end_ms));
    assert_true(wait_until(post_is_free, NULL, end_ms));
}

static void remove_all_in(const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;

    if (!dir) {
        return;
    }
    for (entry = readdir(dir); entry; entry = readdir(dir)) {
        (void)unlinkat(dirfd(dir), entry->d_name, 0);
    }
    (void)closedir(dir);
    (void)rmdir(folder);
}

/* Whatever a failed test has left behind goes too. */
static int remove_place(void **state)
{
    redisContext *context = redisConnectUnix(place.socket);

    (void)state;
    if (!context->err) {
        redisReply *reply = redisCommand(context, "SHUTDOWN NOSAVE");

        if (reply) {
            freeReplyObject(reply);
        }
    }
    redisFree(context);
    set_environment();
    if (!wait_until(post_is_free, NULL, end_ms)) {
        return -1;
    }
    (void)unlink(place.folder); /* in case it is a link */
    remove_all_in(place.folder);
    remove_all_in(place.bin);
    remove_all_in(place.tested);
    return rmdir(place.base);
}

static void the_server_ends_when_unused(void **state)
{
    redisContext *context = join_or_fail();
    pid_t server = server_of(context);

    (void)state;
    redisFree(context);
    expect_orderly_end(server);
}

static void the_folder_and_socket_are_private(void **state)
{
    redisContext *context = join_or_fail();
    struct stat info;

    (void)state;
    assert_int_equal(stat(place.folder, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    assert_int_equal(stat(place.socket, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    redisFree(context);
}

static void check_setting(redisContext *context, const char *name, const char *wanted)
{
    redisReply *reply = redisCommand(context, "CONFIG GET %s", name);

    assert_non_null(reply);
    assert_int_equal(reply->elements, 2);
    assert_string_equal(reply->element[1]->str, wanted);
    freeReplyObject(reply);
}

static void the_server_keeps_nothing_and_evicts_nothing(void **state)
{
    redisContext *context = join_or_fail();

    (void)state;
    check_setting(context, "port", "0");
    check_setting(context, "save", "");
    check_setting(context, "appendonly", "no");
    check_setting(context, "maxmemory-policy", "noeviction");
    check_setting(context, "dir", place.folder);
    redisFree(context);
}

/* The read end reports the end only when nobody else has the write end. */
static void the_server_is_detached(void **state)
{
    int ends[2];
    redisContext *context;
    pid_t server;
    char byte;

    (void)state;
    assert_int_equal(pipe(ends), 0); /* NOLINT: inheritable on purpose */
    context = join_or_fail();
    server = server_of(context);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_not_equal(getsid(server), getsid(0));
    assert_int_not_equal(getpgid(server), getpgid(0));
    (void)close(ends[1]);
    assert_true(wait_readable(ends[0], join_ms));
    assert_int_equal(read(ends[0], &byte, 1), 0);
    (void)close(ends[0]);
    redisFree(context);
}

/* In a child: joins when `start` is closed, reports its server, and stays until `stop` is closed.
 */
static void run_joiner(const int start[2], const int stop[2], int report)
{
    pid_t server = -1;
    char byte;
    int fd;

    (void)close(start[1]);
    (void)close(stop[1]);
    (void)!read(start[0], &byte, 1);
    if (join(join_ms, &fd, NULL) == RQL_OK) {
        server = (pid_t)ask_info(redisConnectFd(fd), "process_id:");
    }
    (void)!write(report, &server, sizeof server);
    (void)!read(stop[0], &byte, 1);
    _exit(0);
}

static void joiners_at_once_share_one_server(void **state)
{
    pid_t children[N_JOINERS];
    pid_t server = 0;
    int report[2];
    int start[2];
    int stop[2];
    int i;

    (void)state;
    assert_int_equal(pipe2(start, O_CLOEXEC) | pipe2(stop, O_CLOEXEC), 0);
    assert_int_equal(pipe2(report, O_CLOEXEC), 0);
    for (i = 0; i < N_JOINERS; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            run_joiner(start, stop, report[1]);
        }
    }
    (void)close(start[1]);
    for (i = 0; i < N_JOINERS; i++) {
        pid_t joined = -1;

        assert_int_equal(read(report[0], &joined, sizeof joined), sizeof joined);
        assert_true(joined > 0);
        assert_true(i == 0 || joined == server);
        server = joined;
    }
    (void)close(stop[1]);
    for (i = 0; i < N_JOINERS; i++) {
        assert_int_equal(waitpid(children[i], NULL, 0), children[i]);
    }
    (void)close(start[0]);
    (void)close(stop[0]);
    (void)close(report[0]);
    (void)close(report[1]);
    expect_orderly_end(server);
}

/* As a terminal or a service manager would end it: the whole process group. */
static void the_server_outlives_who_started_it(void **state)
{
    int report[2];
    redisContext *context;
    pid_t server = -1;
    pid_t child;
    int fd;

    (void)state;
    assert_int_equal(pipe2(report, O_CLOEXEC), 0);
    child = fork();
    if (child == 0) {
        (void)setpgid(0, 0);
        if (join(join_ms, &fd, NULL) == RQL_OK) {
            server = (pid_t)ask_info(redisConnectFd(fd), "process_id:");
        }
        (void)!write(report[1], &server, sizeof server);
        (void)pause();
        _exit(0);
    }
    assert_int_equal(read(report[0], &server, sizeof server), sizeof server);
    assert_true(server > 0);
    assert_int_equal(kill(-child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    context = join_or_fail();
    assert_int_equal(server_of(context), server);
    redisFree(context);
    (void)close(report[0]);
    (void)close(report[1]);
}

static bool guard_looked_often(void *data)
{
    enum { OWN_CONNECTIONS = 12 }; /* two a second */

    return ask_info(data, "total_connections_received:") >= OWN_CONNECTIONS;
}

static void a_client_keeps_the_server(void **state)
{
    redisContext *context = join_or_fail();

    (void)state;
    assert_true(wait_until(guard_looked_often, context, 3 * end_ms));
    redisFree(context);
}

static void a_lock_keeps_the_server_until_it_expires(void **state)
{
    const int64_t ttl_ms = 4000;
    redisContext *context = join_or_fail();
    pid_t server = server_of(context);
    int64_t start_us = rqli_now_us();
    redisReply *reply = redisCommand(context, "SET rql:lock:a x PX %lld", (long long)ttl_ms);

    (void)state;
    assert_non_null(reply);
    freeReplyObject(reply);
    redisFree(context);
    expect_orderly_end(server);
    assert_true(rqli_now_us() - start_us >= ttl_ms * 1000);
}

static pid_t parent_of(pid_t pid)
{
    char path[64];
    char line[256] = "";
    int parent = -1;
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    (void)fclose(file);
    assert_int_equal(sscanf(strrchr(line, ')'), ") %*c %d", &parent), 1); /* NOLINT */
    return parent;
}

static void the_next_joiner_replaces_a_lost_guard(void **state)
{
    redisContext *context = join_or_fail();
    pid_t server = server_of(context);
    pid_t guard = parent_of(server);

    (void)state;
    assert_int_equal(kill(guard, SIGKILL), 0);
    assert_true(wait_until(post_is_free, NULL, end_ms));
    redisFree(context);
    context = join_or_fail();
    assert_int_equal(server_of(context), server);
    assert_true(wait_until(post_is_held, NULL, end_ms));
    redisFree(context);
    expect_orderly_end(server);
}

static void the_next_joiner_replaces_a_lost_server(void **state)
{
    redisContext *context = join_or_fail();
    pid_t server = server_of(context);

    (void)state;
    assert_int_equal(kill(server, SIGKILL), 0);
    assert_true(wait_until(process_is_gone, &server, end_ms));
    redisFree(context);
    context = join_or_fail();
    assert_int_not_equal(server_of(context), server);
    server = server_of(context);
    redisFree(context);
    expect_orderly_end(server);
}

/* Clients of both would hold the same locks. */
static void a_server_without_its_socket_ends(void **state)
{
    redisContext *before = join_or_fail();
    pid_t server = server_of(before);
    redisContext *after;

    (void)state;
    assert_int_equal(unlink(place.socket), 0);
    after = join_or_fail();
    assert_int_not_equal(server_of(after), server);
    assert_true(wait_until(process_is_gone, &server, end_ms));
    redisFree(before);
    redisFree(after);
}

static void a_server_whose_folder_was_emptied_ends(void **state)
{
    redisContext *before = join_or_fail();
    pid_t server = server_of(before);
    redisContext *after;

    (void)state;
    assert_int_equal(unlink(place.socket) | unlink(place.post), 0);
    after = join_or_fail();
    assert_int_not_equal(server_of(after), server);
    assert_true(wait_until(process_is_gone, &server, end_ms));
    redisFree(before);
    redisFree(after);
}

/* Fails the test unless joining fails within the time with a message that has this text. */
static void refused(const char *text, int64_t within_ms)
{
    int64_t start_us = rqli_now_us();
    rql_error error = {0};
    int fd;

    assert_int_equal(join(within_ms, &fd, &error), RQL_E_IO);
    assert_int_equal(fd, -1);
    assert_in_range(rqli_now_us() - start_us, 0, (within_ms + slack_ms) * 1000 * wait_slowness());
    if (!strstr(error.message, text) || strncmp(error.message, "local: ", 7) != 0 ||
        strchr(error.message, '\n')) {
        fail_msg("\"%s\" is not: %s", error.message, text);
    }
    assert_int_not_equal(error.sys_errno, 0);
}

static void a_folder_that_others_can_write_is_refused(void **state)
{
    (void)state;
    assert_int_equal(mkdir(place.folder, 0700), 0);
    assert_int_equal(chmod(place.folder, 0702), 0);
    refused("can be written by others", join_ms);
    assert_int_equal(chmod(place.folder, 0720), 0);
    refused("can be written by others", join_ms);
}

static void a_folder_of_another_user_is_refused(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        skip();
    }
    assert_int_equal(mkdir(place.folder, 0700), 0);
    assert_int_equal(chown(place.folder, 12345, 12345), 0);
    refused("belongs to another user", join_ms);
}

static void a_link_in_place_of_the_folder_is_refused(void **state)
{
    (void)state;
    assert_int_equal(symlink(place.bin, place.folder), 0);
    refused("cannot use the folder", join_ms);
}

static void a_folder_that_cannot_be_made_is_named(void **state)
{
    (void)state;
    (void)setenv("RQL_LOCAL_DIR", "/nonexistent/rql", 1);
    refused("cannot make the folder /nonexistent/rql: No such file or directory", join_ms);
}

static void a_busy_folder_costs_the_deadline(void **state)
{
    int fd;

    (void)state;
    assert_int_equal(mkdir(place.folder, 0700), 0);
    fd = open(place.folder, O_RDONLY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    refused("another process is busy in the folder", short_ms);
    (void)close(fd);
}

static void a_wrong_idle_time_is_refused(void **state)
{
    static const char *const values[] = {"0", "-1", "x", "1s", "86401", "01"};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof values / sizeof *values; i++) {
        (void)setenv("RQL_LOCAL_IDLE", values[i], 1);
        refused("RQL_LOCAL_IDLE", join_ms);
    }
}

static void make_program(const char *name, const char *text)
{
    char path[96];
    int fd;

    (void)snprintf(path, sizeof path, "%s/%s", place.bin, name);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    (void)close(fd);
}

static void a_missing_server_program_is_said(void **state)
{
    (void)state;
    (void)setenv("PATH", place.bin, 1);
    refused("local: no redis-server or valkey-server in PATH; install redis-server or set RQL_URL",
            join_ms);
}

static void a_missing_client_program_is_said(void **state)
{
    (void)state;
    make_program("valkey-server", "#!/bin/sh\n");
    (void)setenv("PATH", place.bin, 1);
    refused("local: no redis-cli or valkey-cli in PATH; install redis-tools or set RQL_URL",
            join_ms);
}

static void a_server_that_does_not_come_up_costs_the_deadline(void **state)
{
    (void)state;
    make_program("redis-server", "#!/bin/sh\nexit 1\n");
    make_program("redis-cli", "#!/bin/sh\nexit 1\n");
    (void)setenv("PATH", place.bin, 1);
    refused("the server did not answer in time", short_ms);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, make_place, remove_place)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_server_ends_when_unused),
        TEST(the_folder_and_socket_are_private),
        TEST(the_server_keeps_nothing_and_evicts_nothing),
        TEST(the_server_is_detached),
        TEST(joiners_at_once_share_one_server),
        TEST(the_server_outlives_who_started_it),
        TEST(a_client_keeps_the_server),
        TEST(a_lock_keeps_the_server_until_it_expires),
        TEST(the_next_joiner_replaces_a_lost_guard),
        TEST(the_next_joiner_replaces_a_lost_server),
        TEST(a_server_without_its_socket_ends),
        TEST(a_server_whose_folder_was_emptied_ends),
        TEST(a_folder_that_others_can_write_is_refused),
        TEST(a_folder_of_another_user_is_refused),
        TEST(a_link_in_place_of_the_folder_is_refused),
        TEST(a_folder_that_cannot_be_made_is_named),
        TEST(a_busy_folder_costs_the_deadline),
        TEST(a_wrong_idle_time_is_refused),
        TEST(a_missing_server_program_is_said),
        TEST(a_missing_client_program_is_said),
        TEST(a_server_that_does_not_come_up_costs_the_deadline),
    };

    if (!getenv("RQL_TEST_REDIS")) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests_name("local", tests, NULL, NULL);
}
