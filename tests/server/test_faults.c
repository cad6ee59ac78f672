#include "fixture.h"

#include <stdatomic.h>
#include <stdio.h>

/* A server that says no: rights are missing, memory is full, it is a replica, it is loading. */

enum {
    IMPATIENT_MS = 150,
    IO_TIMEOUT_MS = 300, /* and what the end of a client may take that cannot withdraw */
    LEASE_MS = 1000,
};

static rql_client *admin;

static int set_up(void **state)
{
    (void)state;
    ask("FLUSHALL");
    admin = new_client();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    admin = rql_client_free(admin);
    return 0;
}

static rql_client *client_of(const char *user)
{
    rql_options options = client_options();
    char url[sizeof server.url + 32];

    (void)snprintf(url, sizeof url, "unix://%s:pw@%s", user, server.socket_path);
    options.url = url;
    options.io_timeout_ms = IO_TIMEOUT_MS;
    return new_client_with(&options);
}

/* Everything that the library sends or its scripts call, but for what it cannot log in without. */
static const char *const rights[] = {
    "evalsha", "eval",    "exists", "time",    "hset",    "hmget", "hget",
    "hdel",    "hincrby", "hsetnx", "hexists", "pexpire", "pttl",  "set",
    "zadd",    "zrem",    "zscore", "zrange",  "zrank",   "zcard", "zremrangebyscore",
    "del",     "persist",
};

/* Redis 7.0 does not say which command a script may not call. */
static bool is_named(const char *message, const char *right)
{
    char quoted[32];

    (void)snprintf(quoted, sizeof quoted, "'%s' command", right);
    return strstr(message, quoted) || strstr(message, "can't run this command");
}

static void expect_allowed_or_told(rql_status status, const rql_error *error, const char *right)
{
    if (status < 0 && (status != RQL_E_AUTH || !is_named(error->message, right))) {
        fail_msg("without %s: %s: %s", right, rql_status_text(status), error->message);
    }
}

/* Nothing that would last for ever. */
static void expect_no_residue(const char *right)
{
    static const char *const keys[] = {"rql:lock:x", "rql:lock_queue:x", "rql:req:x"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (ask_int("PTTL %s", keys[i]) == -1) {
            fail_msg("without %s: %s is left without ttl", right, keys[i]);
        }
    }
}

static rql_status extend_until_answered(rql_lock *lock, rql_error *error)
{
    rql_status status = rql_lock_extend(lock, LEASE_MS, error);

    while (status == RQL_E_UNKNOWN) {
        status = rql_lock_extend(lock, LEASE_MS, error);
    }
    return status;
}

static void use_a_free_lock(rql_client *client, const char *right)
{
    rql_lock_options options = patient(client);
    rql_error error = {0};
    rql_lock *lock = NULL;
    rql_status status;

    options.ttl_ms = LEASE_MS;
    status = rql_lock_acquire(client, "x", &options, &lock, &error);
    expect_allowed_or_told(status, &error, right);
    if (!status) {
        expect_allowed_or_told(extend_until_answered(lock, &error), &error, right);
        expect_allowed_or_told(rql_lock_release(lock, &error), &error, right);
    }
    expect_no_residue(right);
}

/* Who may not withdraw either is not told that the request is gone. */
static void wait_for_a_held_lock(rql_client *client, const char *right)
{
    rql_lock_options options = patient(client);
    rql_lock *held = hold(admin, "x");
    rql_error error = {0};
    rql_lock *lock = NULL;
    rql_status status;

    options.timeout_ms = IMPATIENT_MS;
    status = rql_lock_acquire(client, "x", &options, &lock, &error);
    if (status != RQL_E_UNKNOWN) {
        expect_allowed_or_told(status, &error, right);
    }
    assert_int_equal(error.status, status < 0 ? status : 0);
    expect_no_residue(right);
    CHECK_OK(rql_lock_release(held, NULL));
}

/* What it releases goes to another, by its rights. */
static void hand_over(rql_client *client, const char *right)
{
    rql_lock_options options = patient(client);
    struct waiter waiter = {.client = admin, .name = "x", .options = patient(admin)};
    rql_error error = {0};
    rql_lock *held;

    options.ttl_ms = LEASE_MS;
    held = hold_with(client, "x", &options);
    waiter.options.ttl_ms = LEASE_MS; /* so short that it need not be claimed */
    waiter_start_as(&waiter, 1);
    await_int(1, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')>0) 0");
    ask("ACL SETUSER limited -%s", right);
    expect_allowed_or_told(rql_lock_release(held, &error), &error, right);
    expect_no_residue(right);
    CHECK_OK(waiter_join(&waiter));
    (void)rql_lock_release(waiter.lock, NULL); /* it may have ended */
    ask("ACL SETUSER limited +%s", right);
    await_int(0, "EXISTS rql:lock:x");
}

static void user_without_one_right_is_told_and_leaves_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rights / sizeof *rights; i++) {
        rql_client *client;

        ask("FLUSHALL");
        ask("ACL SETUSER limited reset on >pw ~* &* +@all -%s", rights[i]);
        client = client_of("limited");
        use_a_free_lock(client, rights[i]);
        await_int(0, "EXISTS rql:lock:x");
        wait_for_a_held_lock(client, rights[i]);
        rql_client_free(client);
        CHECK_OK(rql_lock_release(hold(admin, "x"), NULL));
    }
}

static void user_who_loses_a_right_hands_over_or_not(void **state)
{
    rql_client *client;

    (void)state;
    ask("ACL SETUSER limited reset on >pw ~* &* +@all");
    client = client_of("limited");
    for (size_t i = 0; i < sizeof rights / sizeof *rights; i++) {
        hand_over(client, rights[i]);
    }
    rql_client_free(client);
}

static void user_without_keys_or_channels_is_told(void **state)
{
    static const char *const limits[] = {"resetkeys ~other:* &*", "~* resetchannels",
                                         "~* &* -publish", "~* &* -time"};

    (void)state;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        rql_lock_options options = patient(admin);
        rql_error error = {0};
        rql_lock *lock = NULL;
        rql_client *client;

        ask("ACL SETUSER limited reset on >pw +@all %s", limits[i]);
        client = client_of("limited");
        assert_int_equal(rql_lock_acquire(client, "x", &options, &lock, &error), RQL_E_AUTH);
        assert_int_equal(error.status, RQL_E_AUTH);
        assert_null(strstr(error.message, "pw"));
        expect_no_residue(limits[i]);
        rql_client_free(client);
    }
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
}

/* Rights that go while a lock is held: it stands until its deadline. */
static void rights_that_come_back_are_used(void **state)
{
    rql_client *client;
    rql_error error = {0};
    rql_lock *lock;

    (void)state;
    ask("ACL SETUSER limited reset on >pw ~* &* +@all");
    client = client_of("limited");
    lock = hold(client, "x");
    ask("ACL SETUSER limited -evalsha -eval");
    assert_int_equal(rql_lock_extend(lock, 90000, &error), RQL_E_AUTH);
    assert_int_equal(rql_lock_get_state(lock), RQL_HELD);
    ask("ACL SETUSER limited +@all");
    CHECK_OK(rql_lock_extend(lock, 90000, NULL));
    CHECK_OK(rql_lock_release(lock, NULL));
    rql_client_free(client);
}

/* A hand-over takes no more memory than was there: a full server would keep a free lock from its
 * waiters. */
static void full_server_still_hands_over(void **state)
{
    rql_client *other = new_client();
    struct waiter waiter = {.client = other, .name = "x", .options = patient(other)};
    rql_lock *held = hold(admin, "x");

    (void)state;
    waiter_start_as(&waiter, 1);
    await_int(1, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0");
    ask("CONFIG SET maxmemory 1");
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&waiter));
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
    ask("CONFIG SET maxmemory 0");
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
    CHECK_QUEUE_IS_EMPTY("x");
    rql_client_free(other);
}

static void lock_on_a_replica_stands_and_is_released_when_it_is_none(void **state)
{
    rql_lock *lock = hold(admin, "x");
    rql_error error = {0};

    (void)state;
    ask("REPLICAOF 127.0.0.1 1");
    assert_int_equal(rql_lock_extend(lock, 90000, &error), RQL_E_READ_ONLY);
    assert_int_equal(error.status, RQL_E_READ_ONLY);
    assert_int_equal(rql_lock_get_state(lock), RQL_HELD);
    ask("REPLICAOF NO ONE");
    CHECK_OK(rql_lock_extend(lock, 90000, NULL));
    CHECK_OK(rql_lock_release(lock, NULL));
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
}

/* One question after another, each of a fresh client, while the server is away and comes back. */
struct knocker {
    pthread_t thread;
    atomic_int stop;
    atomic_int n_loading;
    atomic_int n_others; /* answers that neither a server gives, nor none, nor one that loads */
};

static void knock(struct knocker *self)
{
    rql_client *client = new_client();
    rql_status status = rql_force_extend(client, "y", 1000, NULL);

    if (status == RQL_E_UNAVAILABLE) {
        atomic_fetch_add(&self->n_loading, 1);
    } else if (status != RQL_E_IO && status != RQL_E_UNKNOWN && status != RQL_NOT_FOUND) {
        atomic_fetch_add(&self->n_others, 1);
    }
    rql_client_free(client);
}

static void *knock_again_and_again(void *data)
{
    struct knocker *self = data;

    while (!self->stop) {
        knock(self);
    }
    return NULL;
}

/* It ends by itself, whatever becomes of the test. */
#define BUSY_FOR_10_S                                                                              \
    "local begun = redis.call('TIME')[1] while redis.call('TIME')[1] - begun < 10 do end"

static bool is_busy(void *data)
{
    redisReply *reply = redisCommand(data, "PING");
    bool busy = reply && reply->type == REDIS_REPLY_ERROR;

    freeReplyObject(reply);
    return busy;
}

static rql_series *hold_series_y(rql_client *client)
{
    static const char *const names[] = {"y"};
    rql_series_options options;
    rql_lock_options lock = patient(client);
    rql_series *series = NULL;

    lock.ttl_ms = 600000;
    rql_series_options_init(&options);
    options.names = names;
    options.n_names = 1;
    options.lock = &lock;
    CHECK_OK(rql_series_acquire(client, &options, &series, NULL));
    return series;
}

static void expect_made_up_for(rql_status status, const char *name)
{
    assert_true(status == RQL_E_UNAVAILABLE || status == RQL_E_UNKNOWN); /* it was slow to say so */
    await_int(0, "EXISTS rql:lock:%s", name);
}

/* It says no for longer than the caller waits. The lock would stay for the rest of its ttl. */
static void release_at_a_busy_server_is_made_up_for(void **state)
{
    redisContext *script = redis_server_connect(&server);
    rql_options options = client_options();
    rql_lock_options budget;
    rql_client *client;
    redisReply *ended = NULL;
    rql_status status;
    rql_status status_of_series;
    rql_series *series;
    rql_lock *held;

    (void)state;
    options.connect_timeout_ms = IO_TIMEOUT_MS;
    options.io_timeout_ms = IO_TIMEOUT_MS;
    client = new_client_with(&options);
    budget = patient(client);
    budget.ttl_ms = 600000;
    held = hold_with(client, "x", &budget);
    series = hold_series_y(client);
    ask("CONFIG SET busy-reply-threshold 1");
    assert_int_equal(redisAppendCommand(script, "EVAL %s 0", BUSY_FOR_10_S), REDIS_OK);
    assert_int_equal(redisBufferWrite(script, NULL), REDIS_OK);
    assert_true(wait_until(is_busy, raw, AWAIT_MS));
    status = rql_lock_release(held, NULL);
    status_of_series = rql_series_release(series, NULL, NULL);
    ask("SCRIPT KILL");
    assert_int_equal(redisGetReply(script, (void **)&ended), REDIS_OK);
    freeReplyObject(ended);
    expect_made_up_for(status, "x");
    expect_made_up_for(status_of_series, "y");
    ask("CONFIG SET busy-reply-threshold 5000");
    redisFree(script);
    rql_client_free(client);
}

static void restart_slowly(void)
{
    static const char *const slowly[] = {"--key-load-delay", "300",
                                         "--loading-process-events-interval-bytes", "1024", NULL};
    const char *const *before = server.arguments;

    server.arguments = slowly;
    redis_server_kill(&server);
    assert_int_equal(redis_server_restart(&server), 0);
    server.arguments = before;
    redisFree(raw);
    raw = redis_server_connect(&server);
    assert_non_null(raw);
}

/* What was held and waited for goes on where it was: a server that loads has refused, not lost it.
 */
static void server_that_loads_is_waited_for(void **state)
{
    rql_client *other = new_client();
    struct waiter waiter = {.client = other, .name = "x", .options = patient(other)};
    rql_lock *held = hold(admin, "x");
    struct knocker knocker = {0};
    char path[TEXT_SIZE];

    (void)state;
    waiter_start_as(&waiter, 1);
    ask("EVAL for\ti=1,4000\tdo\tredis.call('set','k'..i,i)\tend 0");
    ask("SAVE");
    assert_int_equal(pthread_create(&knocker.thread, NULL, knock_again_and_again, &knocker), 0);
    restart_slowly();
    knocker.stop = 1;
    assert_int_equal(pthread_join(knocker.thread, NULL), 0);
    (void)snprintf(path, sizeof path, "%s/dump.rdb", server.dir);
    assert_int_equal(unlink(path), 0);
    assert_true(knocker.n_loading > 0);
    assert_int_equal(knocker.n_others, 0);
    assert_int_equal(rql_lock_get_state(held), RQL_HELD);
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&waiter));
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
    CHECK_QUEUE_IS_EMPTY("x");
    rql_client_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(user_without_one_right_is_told_and_leaves_nothing),
        TEST(user_who_loses_a_right_hands_over_or_not),
        TEST(user_without_keys_or_channels_is_told),
        TEST(rights_that_come_back_are_used),
        TEST(full_server_still_hands_over),
        TEST(lock_on_a_replica_stands_and_is_released_when_it_is_none),
        TEST(server_that_loads_is_waited_for),
        TEST(release_at_a_busy_server_is_made_up_for),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
