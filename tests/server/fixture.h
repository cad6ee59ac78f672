#ifndef FIXTURE_H
#define FIXTURE_H

/* What the tests of the lock calls share: a server, a second look at it behind the library's back,
 * clients, and acquisitions that wait in a thread of their own. One test program, one server. */

#include "check.h"
#include "redis_server.h"
#include "wait.h"

#include <rql/rql.h>

#include <hiredis.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TEXT_SIZE = 1024, AWAIT_MS = 10000, SHORT_MS = 2500 };

static struct redis_server server;
static redisContext *raw;

static inline redisReply *ask_reply(const char *text)
{
    redisReply *reply = redisCommand(raw, text);

    if (!reply || reply->type == REDIS_REPLY_ERROR) {
        fail_msg("%s: %s", text, reply ? reply->str : raw->errstr);
        abort(); /* not reached; cmocka does not say that it never returns */
    }
    return reply;
}

#define FORMAT_COMMAND(text, format)                                                               \
    do {                                                                                           \
        va_list args;                                                                              \
                                                                                                   \
        va_start(args, format);                                                                    \
        (void)vsnprintf(text, sizeof text, format, args);                                          \
        va_end(args);                                                                              \
    } while (0)

/* The command is split at blanks. */
static inline void ask(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline void ask(const char *format, ...)
{
    char text[TEXT_SIZE];

    FORMAT_COMMAND(text, format);
    freeReplyObject(ask_reply(text));
}

/* The integer, or the integer in a text, that is answered; INT64_MIN for nil. */
static inline int64_t number_of(const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_NIL) {
        return INT64_MIN;
    }
    return reply->type == REDIS_REPLY_INTEGER ? reply->integer : strtoll(reply->str, NULL, 10);
}

static inline int64_t ask_int(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline int64_t ask_int(const char *format, ...)
{
    char text[TEXT_SIZE];
    redisReply *reply;
    int64_t value;

    FORMAT_COMMAND(text, format);
    reply = ask_reply(text);
    value = number_of(reply);
    freeReplyObject(reply);
    return value;
}

struct expected {
    char text[TEXT_SIZE];
    int64_t value;
};

static inline bool is_as_expected(void *data)
{
    const struct expected *expected = data;
    redisReply *reply = ask_reply(expected->text);
    bool is_equal = number_of(reply) == expected->value;

    freeReplyObject(reply);
    return is_equal;
}

/* Until the command answers the value. */
static inline void await_int(int64_t value, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static inline void await_int(int64_t value, const char *format, ...)
{
    struct expected expected = {.value = value};

    FORMAT_COMMAND(expected.text, format);
    if (!wait_until(is_as_expected, &expected, AWAIT_MS)) {
        fail_msg("%s did not become %lld", expected.text, (long long)value);
    }
}

/* Nobody waits for the lock, and nothing is left of anybody who did. */
#define CHECK_QUEUE_IS_EMPTY(name)                                                                 \
    do {                                                                                           \
        assert_int_equal(ask_int("ZCARD rql:lock_queue:%s", name), 0);                             \
        assert_int_equal(ask_int("HLEN rql:req:%s", name), 0);                                     \
    } while (0)

/* In a while neither lock nor queue nor requests are there. */
static inline void expect_nothing_left(const char *name)
{
    await_int(0, "EXISTS rql:lock:%s", name);
    await_int(0, "ZCARD rql:lock_queue:%s", name);
    await_int(0, "HLEN rql:req:%s", name);
}

/* How often the server has run a command, by clients and by scripts. */
static inline int64_t calls_of(const char *command)
{
    redisReply *reply = ask_reply("INFO commandstats");
    char row[64];
    const char *at;
    int64_t calls = 0;

    (void)snprintf(row, sizeof row, "cmdstat_%s:calls=", command);
    at = strstr(reply->str, row);
    if (at) {
        calls = strtoll(at + strlen(row), NULL, 10);
    }
    freeReplyObject(reply);
    return calls;
}

static inline rql_options client_options(void)
{
    rql_options options;

    rql_options_init(&options);
    options.url = server.url;
    options.connect_timeout_ms = 20000;
    options.io_timeout_ms = 20000;
    return options;
}

static inline rql_client *new_client_with(const rql_options *options)
{
    rql_client *made = NULL;
    rql_error error = {0};

    if (rql_client_new(&made, options, &error)) {
        fail_msg("%s", error.message);
    }
    return made;
}

static inline rql_client *new_client(void)
{
    rql_options options = client_options();

    return new_client_with(&options);
}

/* As long as it takes, with a ttl that does not end within a test. */
static inline rql_lock_options patient(const rql_client *client)
{
    rql_lock_options options;

    rql_lock_options_init(client, &options);
    options.ttl_ms = 60000;
    options.timeout_ms = 30000;
    options.retry_count = RQL_FOREVER;
    return options;
}

static inline rql_lock *hold_with(rql_client *client, const char *name,
                                  const rql_lock_options *options)
{
    rql_lock *lock = NULL;
    rql_error error = {0};
    rql_status status = rql_lock_acquire(client, name, options, &lock, &error);

    if (status) {
        fail_msg("%s: %s %s", name, rql_status_text(status), error.message);
    }
    return lock;
}

static inline rql_lock *hold(rql_client *client, const char *name)
{
    rql_lock_options options = patient(client);

    return hold_with(client, name, &options);
}

/* An acquisition in a thread of its own. */
struct waiter {
    rql_client *client;
    const char *name;
    rql_lock_options options;
    bool releases; /* at once, in its thread */
    pthread_t thread;
    rql_lock *lock;
    rql_status status;
    rql_error error;
};

static inline void *run_waiter(void *data)
{
    struct waiter *self = data;

    self->status =
        rql_lock_acquire(self->client, self->name, &self->options, &self->lock, &self->error);
    if (self->releases && self->status == RQL_OK) {
        self->status = rql_lock_release(self->lock, &self->error);
        self->lock = NULL;
    }
    return NULL;
}

static inline void waiter_start(struct waiter *self)
{
    assert_int_equal(pthread_create(&self->thread, NULL, run_waiter, self), 0);
}

/* Returns when the server knows of all waiters: there are `count` of them. */
static inline void waiter_start_as(struct waiter *self, int64_t count)
{
    waiter_start(self);
    await_int(count, "ZCARD rql:lock_queue:%s", self->name);
}

/* Also without an answer to its withdrawal (50 ms) where it is kept from running. */
static inline bool has_timed_out(rql_status status)
{
    if (status == RQL_E_UNKNOWN) {
        print_message("# its withdrawal got no answer; slowness %lld\n",
                      (long long)wait_slowness());
    }
    return status == RQL_TIMED_OUT || (status == RQL_E_UNKNOWN && wait_slowness() > 1);
}

static inline rql_status waiter_join(struct waiter *self)
{
    assert_int_equal(pthread_join(self->thread, NULL), 0);
    return self->status;
}

/* In a fresh process, which ends with this one; ended by kill_child(). */
static inline pid_t start_child(void (*body)(void))
{
    pid_t parent = getpid();
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent) {
            body();
        }
        _exit(0);
    }
    return child;
}

static inline void kill_child(pid_t child)
{
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
}

static inline int start_server(void **state)
{
    (void)state;
    if (redis_server_start(&server)) {
        return -1;
    }
    raw = redis_server_connect(&server);
    return raw ? 0 : -1;
}

/* What most tests begin with. */
static inline int empty_server(void **state)
{
    (void)state;
    ask("FLUSHALL");
    return 0;
}

static inline int stop_server(void **state)
{
    (void)state;
    redisFree(raw);
    redis_server_stop(&server);
    return 0;
}

#endif
