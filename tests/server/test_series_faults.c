#include "series_fixture.h"

#include "proxy.h"

/* All or nothing at every point where a series can fail. */

enum {
    PLACES = 7,       /* of a reply in a call: three scripts are unknown, then they are not */
    LATE_PLACES = 14, /* the same after the login of a new connection */
    SILENCE_MS = 100, /* that a client takes for a broken connection */
    CONNECT_MS = 20000,
    IMPATIENT_MS = 200,
};

static struct proxy *proxy;
static rql_client *other;

static int set_up(void **state)
{
    (void)state;
    ask("FLUSHALL");
    proxy = proxy_start(server.socket_path);
    other = new_client();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    other = rql_client_free(other);
    proxy = proxy_stop(proxy);
    return 0;
}

static rql_client *client_that_connects_within(int64_t connect_timeout_ms)
{
    rql_options options = client_options();

    options.url = proxy_url(proxy);
    options.connect_timeout_ms = connect_timeout_ms;
    options.io_timeout_ms = SILENCE_MS * wait_slowness();
    return new_client_with(&options);
}

static rql_client *client_through_proxy(void)
{
    return client_that_connects_within(CONNECT_MS);
}

static void await_nothing_of_abc(void)
{
    for (size_t i = 0; i < 3; i++) {
        await_int(0, "EXISTS rql:lock:%s", abc[i]);
        await_int(0, "ZCARD rql:lock_queue:%s", abc[i]);
        await_int(0, "HLEN rql:req:%s", abc[i]);
    }
}

typedef void (*lose_fn)(struct proxy *proxy, int64_t n);

/* A call of which one reply is lost. It begins with what nothing may be lost of. */
struct victim {
    rql_client *client;
    rql_series *series;
    rql_lock *held;
    void (*prepare)(struct victim *self);
    void (*call)(struct victim *self);
};

static void lose_reply(struct victim *self, lose_fn lose, int64_t place, bool cuts_first)
{
    self->client = client_through_proxy();
    CHECK_OK(rql_client_connect(self->client, NULL));
    self->prepare(self);
    ask("SCRIPT FLUSH");
    if (cuts_first) {
        proxy_cut(proxy);
    }
    lose(proxy, place);
    self->call(self);
    proxy_heal(proxy);
    await_nothing_of_abc();
    rql_client_free(self->client);
}

static void lose_each_reply(struct victim *self)
{
    for (int64_t place = 1; place <= PLACES; place++) {
        lose_reply(self, proxy_drop_reply, place, false);
        lose_reply(self, proxy_cut_reply, place, false);
    }
    for (int64_t place = 1; place <= LATE_PLACES; place++) {
        lose_reply(self, proxy_cut_reply, place, true);
    }
}

static void prepare_nothing(struct victim *self)
{
    (void)self;
}

static void hold_series(struct victim *self)
{
    self->series = take_series(self->client, abc, 3);
}

static void let_other_hold_b(struct victim *self)
{
    self->held = hold(other, "b");
}

static void acquire_and_release(struct victim *self)
{
    hold_series(self);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(rql_lock_token(rql_series_lock(self->series, i)),
                         ask_int("HGET rql:lock:%s rql_token", abc[i]));
    }
    CHECK_OK(rql_series_release(self->series, NULL, NULL));
}

static void release(struct victim *self)
{
    CHECK_OK(rql_series_release(self->series, NULL, NULL));
}

static void extend_and_release(struct victim *self)
{
    rql_error error = {0};
    rql_status status = rql_series_extend(self->series, 90000, &error);

    while (status == RQL_E_UNKNOWN || status == RQL_E_IO) {
        assert_int_equal(error.status, status);
        assert_int_equal(rql_series_get_state(self->series), RQL_HELD);
        status = rql_series_extend(self->series, 90000, &error);
    }
    CHECK_OK(status);
    assert_true(ask_int("PTTL rql:lock:c") <= 90000);
    CHECK_OK(rql_series_release(self->series, NULL, NULL));
}

static void give_up_waiting(struct victim *self)
{
    struct wish wish;
    rql_series *series = NULL;
    rql_status status;

    wish_for(&wish, self->client, abc, 3);
    wish.lock.retry_count = 1;
    status = rql_series_acquire(self->client, &wish.options, &series, NULL);
    if (status != RQL_RETRY_LIMIT && status != RQL_E_UNKNOWN) {
        fail_msg("%s", rql_status_text(status));
    }
    for (size_t i = 0; i < 3; i++) {
        await_int(0, "ZCARD rql:lock_queue:%s", abc[i]);
    }
    CHECK_OK(rql_lock_release(self->held, NULL));
}

static void lost_reply_of_an_acquisition_changes_nothing(void **state)
{
    (void)state;
    lose_each_reply(&(struct victim){.prepare = prepare_nothing, .call = acquire_and_release});
}

static void lost_reply_of_a_release_changes_nothing(void **state)
{
    (void)state;
    lose_each_reply(&(struct victim){.prepare = hold_series, .call = release});
}

static void lost_reply_of_an_extension_changes_nothing(void **state)
{
    (void)state;
    lose_each_reply(&(struct victim){.prepare = hold_series, .call = extend_and_release});
}

static void lost_reply_of_a_withdrawal_changes_nothing(void **state)
{
    (void)state;
    lose_each_reply(&(struct victim){.prepare = let_other_hold_b, .call = give_up_waiting});
}

static void a_release_that_got_no_answer_is_unknown(void **state)
{
    rql_client *client = client_that_connects_within(IMPATIENT_MS);
    rql_series *series = take_series(client, abc, 3);
    rql_error error = {0};

    (void)state;
    proxy_refuse(proxy, true);
    proxy_cut_reply(proxy, 1);
    assert_int_equal(rql_series_release(series, NULL, &error), RQL_E_UNKNOWN);
    assert_int_equal(error.status, RQL_E_UNKNOWN);
    assert_non_null(strstr(error.message, "rql:lock:"));
    proxy_heal(proxy);
    rql_client_free(client);
    await_nothing_of_abc();
}

/* The grant was made, but nobody heard of it in time: all of it is given back. */
static void a_grant_without_an_answer_is_given_back(void **state)
{
    rql_client *client = client_through_proxy();
    struct wish wish;
    rql_series *series = NULL;

    (void)state;
    CHECK_OK(rql_client_connect(client, NULL));
    wish_for(&wish, client, abc, 3);
    wish.lock.timeout_ms = IMPATIENT_MS;
    proxy_freeze(proxy, PROXY_DOWN, true);
    assert_int_equal(rql_series_acquire(client, &wish.options, &series, NULL), RQL_E_UNKNOWN);
    proxy_heal(proxy);
    await_nothing_of_abc();
    rql_client_free(client);
}

/* A part of the grant was taken away before its answer came: the rest is not kept without it. */
static void a_grant_that_lost_a_part_on_the_way_is_made_anew(void **state)
{
    for (size_t lost = 0; lost < 3; lost++) {
        rql_client *client = client_through_proxy();
        struct series_waiter waiter;
        rql_lock *held;

        (void)state;
        CHECK_OK(rql_client_connect(client, NULL));
        proxy_freeze(proxy, PROXY_DOWN, true);
        series_waiter_init(&waiter, client, abc, 3);
        series_waiter_start(&waiter);
        await_int(1, "EXISTS rql:lock:c");
        ask("DEL rql:lock:%s", abc[lost]);
        held = hold(other, abc[lost]);
        proxy_cut(proxy);
        proxy_heal(proxy);
        for (size_t i = 0; i < 3; i++) {
            await_int(1, "ZCARD rql:lock_queue:%s", abc[i]);
            await_int(i == lost, "EXISTS rql:lock:%s", abc[i]);
        }
        CHECK_OK(rql_lock_release(held, NULL));
        CHECK_OK(series_waiter_join(&waiter));
        CHECK_OK(rql_series_release(waiter.series, NULL, NULL));
        await_nothing_of_abc();
        rql_client_free(client);
    }
}

/* A key of a foreign type under the k-th name, of each kind: nothing else is touched. */
static void a_foreign_key_under_any_name_ends_it(void **state)
{
    static const char *const kinds[] = {"rql:lock", "rql:lock_queue", "rql:req"};

    (void)state;
    for (size_t i = 0; i < 9; i++) {
        rql_client *client = client_through_proxy();
        struct wish wish;
        rql_series *series = NULL;
        rql_error error = {0};

        ask("SET %s:%s foreign", kinds[i / 3], abc[i % 3]);
        wish_for(&wish, client, abc, 3);
        assert_int_equal(rql_series_acquire(client, &wish.options, &series, &error),
                         RQL_E_WRONG_TYPE);
        assert_int_equal(error.status, RQL_E_WRONG_TYPE);
        assert_int_equal(wish.result.reason, RQL_E_WRONG_TYPE);
        ask("DEL %s:%s", kinds[i / 3], abc[i % 3]);
        await_nothing_of_abc();
        rql_client_free(client);
    }
}

/* The keys that all locks share. */
static void a_foreign_fence_or_list_of_the_living_ends_it(void **state)
{
    static const char *const keys[] = {"rql:fence", "rql:live"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        rql_client *client = client_through_proxy();
        rql_lock *held = hold(other, "b");
        struct wish wish;
        rql_series *series = NULL;

        ask("DEL %s", keys[i]);
        ask("LPUSH %s foreign", keys[i]);
        if (i == 0) {
            CHECK_OK(rql_lock_release(held, NULL));
        }
        wish_for(&wish, client, abc, 3);
        assert_int_equal(rql_series_acquire(client, &wish.options, &series, NULL),
                         RQL_E_WRONG_TYPE);
        ask("DEL %s", keys[i]);
        if (i == 1) {
            CHECK_OK(rql_lock_release(held, NULL));
        }
        await_nothing_of_abc();
        rql_client_free(client);
    }
}

static void a_server_that_is_gone_is_told_and_nothing_is_left(void **state)
{
    rql_client *client = client_that_connects_within(SILENCE_MS * wait_slowness());
    rql_series *series = take_series(client, abc, 3);
    rql_series_result result = {.count = 0};
    rql_error error = {0};
    rql_status status;

    (void)state;
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    status = rql_series_release(series, &result, &error);
    assert_true(status == RQL_E_IO || status == RQL_E_UNKNOWN);
    assert_int_equal(error.status, status);
    assert_int_equal(result.ending, RQL_SERIES_NOT_ENDED);
    proxy_heal(proxy);
    await_nothing_of_abc();
    rql_client_free(client);
}

/* Rights of which one is missing: told, and nothing stays that would last for ever. */
static void a_missing_right_is_told_and_leaves_nothing(void **state)
{
    static const char *const rights[] = {"exists",  "hset",   "hmget", "hget", "hdel",
                                         "pexpire", "pttl",   "set",   "zadd", "zrem",
                                         "zscore",  "zrange", "zrank", "del",  "zremrangebyscore"};

    (void)state;
    for (size_t i = 0; i < sizeof rights / sizeof *rights; i++) {
        rql_options options = client_options();
        char url[sizeof server.url + 32];
        rql_client *client;
        struct wish wish;
        rql_series *series = NULL;
        rql_error error = {0};

        ask("FLUSHALL");
        ask("ACL SETUSER limited reset on >pw ~* &* +@all -%s", rights[i]);
        (void)snprintf(url, sizeof url, "unix://limited:pw@%s", server.socket_path);
        options.url = url;
        options.io_timeout_ms = SILENCE_MS * wait_slowness();
        client = new_client_with(&options);
        wish_for(&wish, client, abc, 3);
        wish.lock.ttl_ms = 1000;
        wish.lock.timeout_ms = IMPATIENT_MS * wait_slowness();
        if (rql_series_acquire(client, &wish.options, &series, &error) == RQL_OK) {
            (void)rql_series_release(series, NULL, NULL);
        } else {
            assert_true(error.status == RQL_E_AUTH || error.status == RQL_E_UNKNOWN);
        }
        ask("ACL SETUSER limited reset on >pw ~* &* +@all");
        await_nothing_of_abc();
        rql_client_free(client);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(lost_reply_of_an_acquisition_changes_nothing),
        TEST(lost_reply_of_a_release_changes_nothing),
        TEST(lost_reply_of_an_extension_changes_nothing),
        TEST(lost_reply_of_a_withdrawal_changes_nothing),
        TEST(a_release_that_got_no_answer_is_unknown),
        TEST(a_grant_without_an_answer_is_given_back),
        TEST(a_grant_that_lost_a_part_on_the_way_is_made_anew),
        TEST(a_foreign_key_under_any_name_ends_it),
        TEST(a_foreign_fence_or_list_of_the_living_ends_it),
        TEST(a_server_that_is_gone_is_told_and_nothing_is_left),
        TEST(a_missing_right_is_told_and_leaves_nothing),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
