#include "fixture.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct redis_server server;
redisContext *raw;
SKIP_UNLESS(redis_server_available(), "no redis-server");

redisReply *ask_reply(const char *text)
{
    redisReply *reply = redisCommand(raw, text);

    if (!reply || reply->type == REDIS_REPLY_ERROR) {
        fail_msg("%s: %s", text, reply ? reply->str : raw->errstr);
        abort(); /* not reached; cmocka does not say that it never returns */
    }
    return reply;
}

void ask(const char *format, ...)
{
    char text[TEXT_SIZE];

    FORMAT_COMMAND(text, format);
    freeReplyObject(ask_reply(text));
}

static int64_t number_of(const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_NIL) {
        return INT64_MIN;
    }
    return reply->type == REDIS_REPLY_INTEGER ? reply->integer : strtoll(reply->str, NULL, 10);
}

int64_t ask_int(const char *format, ...)
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

bool is_as_expected(void *data)
{
    const struct expected *expected = data;
    redisReply *reply = ask_reply(expected->text);
    bool is_equal = number_of(reply) == expected->value;

    freeReplyObject(reply);
    return is_equal;
}

void await_int(int64_t value, const char *format, ...)
{
    struct expected expected = {.value = value};

    FORMAT_COMMAND(expected.text, format);
    if (!wait_until(is_as_expected, &expected, AWAIT_MS)) {
        fail_msg("%s did not become %lld", expected.text, (long long)value);
    }
}

void expect_nothing_left(const char *name)
{
    await_int(0, "EXISTS rql:lock:%s", name);
    await_int(0, "ZCARD rql:lock_queue:%s", name);
    await_int(0, "HLEN rql:req:%s", name);
}

static int64_t number_in_info(const char *section, const char *before)
{
    char command[64];
    redisReply *reply;
    const char *at;
    int64_t number;

    (void)snprintf(command, sizeof command, "INFO %s", section);
    reply = ask_reply(command);
    at = strstr(reply->str, before);
    number = at ? strtoll(at + strlen(before), NULL, 10) : 0;
    freeReplyObject(reply);
    return number;
}

int64_t calls_of(const char *command)
{
    char before[64];

    (void)snprintf(before, sizeof before, "cmdstat_%s:calls=", command);
    return number_in_info("commandstats", before);
}

int64_t info_of(const char *section, const char *name)
{
    char before[64];

    (void)snprintf(before, sizeof before, "%s:", name);
    return number_in_info(section, before);
}

int count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    assert_non_null(folder);
    while (readdir(folder)) {
        count++;
    }
    (void)closedir(folder);
    return count;
}

static bool are_open(void *least)
{
    return count_descriptors() >= *(int *)least;
}

void await_descriptors(int least)
{
    assert_true(wait_until(are_open, &least, AWAIT_MS));
}

bool is_past(void *us)
{
    return wait_clock_us() > *(const int64_t *)us;
}

rql_options client_options(void)
{
    rql_options options;

    rql_options_init_gem(&options); /* a test says what is to be renewed */
    options.url = server.url;
    options.connect_timeout_ms = 20000;
    options.io_timeout_ms = 20000;
    return options;
}

rql_client *new_client_with(const rql_options *options)
{
    rql_client *made = NULL;
    rql_error error = {0};

    if (rql_client_new(options, &made, &error)) {
        fail_msg("%s", error.message);
    }
    return made;
}

rql_client *new_client(void)
{
    rql_options options = client_options();

    return new_client_with(&options);
}

rql_series_options series_of(const char *const *names, size_t count)
{
    rql_series_options options;

    rql_series_options_init(&options);
    options.names = names;
    options.n_names = count;
    return options;
}

rql_lock_options patient(const rql_client *of)
{
    rql_lock_options options;

    rql_lock_options_init(of, &options);
    options.ttl_ms = 60000;
    options.timeout_ms = 30000;
    options.retry_count = RQL_FOREVER;
    return options;
}

rql_lock *hold_with(rql_client *by, const char *name, const rql_lock_options *options)
{
    rql_lock *lock = NULL;
    rql_error error = {0};
    rql_status status = rql_lock_acquire(by, name, options, &lock, &error);

    if (status) {
        fail_msg("%s: %s %s", name, rql_status_text(status), error.message);
    }
    return lock;
}

rql_lock *hold(rql_client *by, const char *name)
{
    rql_lock_options options = patient(by);

    return hold_with(by, name, &options);
}

void *run_waiter(void *waiter)
{
    struct waiter *self = waiter;

    self->status =
        rql_lock_acquire(self->client, self->name, &self->options, &self->lock, &self->error);
    if (self->releases && self->status == RQL_OK) {
        self->status = rql_lock_release(self->lock, &self->error);
        self->lock = NULL;
    }
    return NULL;
}

void waiter_start(struct waiter *self)
{
    assert_int_equal(pthread_create(&self->thread, NULL, run_waiter, self), 0);
}

void waiter_start_as(struct waiter *self, int64_t count)
{
    waiter_start(self);
    await_int(count, "ZCARD rql:lock_queue:%s", self->name);
}

rql_status waiter_join(struct waiter *self)
{
    assert_int_equal(pthread_join(self->thread, NULL), 0);
    return self->status;
}

void start_server(void)
{
    assert_int_equal(redis_server_start(&server), 0);
    raw = redis_server_connect(&server);
    assert_non_null(raw);
}

void stop_server(void)
{
    redisFree(raw);
    redis_server_stop(&server);
}

void empty_server(void)
{
    ask("FLUSHALL");
}

rql_client *client;
rql_client *other;

void make_clients(void)
{
    empty_server();
    client = new_client();
    other = new_client();
}

void free_clients(void)
{
    client = rql_client_free(client);
    other = rql_client_free(other);
}
