#include "async_fixture.h"

#include "proxy.h"

/* A network that loses, cuts and holds up words between a loop and its server. */

enum {
    CROWD = 16,
    PLACES = 3,       /* of a reply in a call: the script is unknown, then it is not */
    LATE_PLACES = 10, /* the same after the login of a new connection */
    WAIT_PLACES = 10, /* of a word to a waiter, on either connection */
    SILENCE_MS = 100, /* that a client takes for a broken connection */
    CONNECT_MS = 20000,
    CLOSING_MS = 3000, /* of connecting: closing may have to wait for it */
    IMPATIENT_MS = 300,
    CUTS = 20,
};

static struct proxy *proxy;

/* A client and its loop, behind the proxy. */
static void begin_trial(int64_t connect_timeout_ms, int64_t io_timeout_ms)
{
    rql_options options = client_options();

    options.url = proxy_url(proxy);
    options.connect_timeout_ms = wait_stretched(connect_timeout_ms);
    options.io_timeout_ms = wait_stretched(io_timeout_ms);
    client = new_client_with(&options);
    CHECK_OK(rql_loop_open(&loop, client, &uv, NULL));
}

static void end_trial(void)
{
    close_loop();
    client = rql_client_free(client);
}

static int set_up_network(void **state)
{
    (void)set_up(state);
    client = rql_client_free(client);
    uv_owner = pthread_self();
    proxy = proxy_start(server.socket_path);
    CHECK_OK(uv_loop_init(&uv));
    CHECK_OK(uv_timer_init(&uv, &budget));
    return 0;
}

static int tear_down_network(void **state)
{
    int failed = tear_down_loop(state);

    proxy = proxy_stop(proxy);
    return failed;
}

static void await_subscription(void)
{
    run_until_int(1, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0");
}

static rql_lock *acquire(const char *name)
{
    struct asked asked = asked_for();

    start_asking(&asked, name);
    await_asked(&asked);
    if (asked.status) {
        fail_msg("%s %s", rql_status_text(asked.status), asked.error.message);
    }
    return asked.lock;
}

typedef void (*lose_fn)(struct proxy *proxy, int64_t n);
typedef void (*trial_fn)(void);

/* SCRIPT FLUSH makes a call two exchanges; a cut connection adds a login. */
static void lose_reply(trial_fn call, lose_fn lose, int64_t place, bool cuts_first)
{
    begin_trial(CLOSING_MS, SILENCE_MS);
    CHECK_OK(release_and_wait(acquire("warm")));
    ask("SCRIPT FLUSH");
    if (cuts_first) {
        proxy_cut(proxy);
    }
    lose(proxy, place);
    call();
    proxy_heal(proxy);
    end_trial();
    expect_nothing_left("x");
}

static void lose_each_reply(trial_fn call)
{
    for (int64_t place = 1; place <= PLACES; place++) {
        lose_reply(call, proxy_drop_reply, place, false);
        lose_reply(call, proxy_cut_reply, place, false);
    }
    for (int64_t place = 1; place <= LATE_PLACES; place++) {
        lose_reply(call, proxy_cut_reply, place, true);
    }
}

static void acquire_and_release(void)
{
    rql_lock *lock = acquire("x");

    assert_int_equal(rql_lock_token(lock), ask_int("HGET rql:lock:x rql_token"));
    CHECK_OK(release_and_wait(lock));
}

/* It may be repeated until there is an answer, and does not add up: it sets what is left, it does
 * not add to it. */
static void extend_and_release(void)
{
    rql_lock *lock = acquire("x");
    int status = RQL_E_IO;
    const rql_done done = {on_released_status, &status};

    while (status == RQL_E_UNKNOWN || status == RQL_E_IO) {
        status = INT_MAX;
        CHECK_OK(rql_extend_async(loop, lock, 90000, &done, NULL));
        run_until(is_told, &status);
    }
    CHECK_OK(status);
    assert_true(ask_int("PTTL rql:lock:x") <= 90000);
    CHECK_OK(release_and_wait(lock));
}

static void give_up_waiting(void)
{
    rql_lock *held = hold(other, "x");
    struct asked asked = asked_for();

    asked.options.retry_count = 1;
    start_asking(&asked, "x");
    await_asked(&asked);
    if (asked.status != RQL_RETRY_LIMIT && asked.status != RQL_E_UNKNOWN) {
        fail_msg("%s", rql_status_text(asked.status));
    }
    await_int(0, "ZCARD rql:lock_queue:x");
    CHECK_OK(rql_lock_release(held, NULL));
}

static void cancel_waiting(void)
{
    rql_lock *held = hold(other, "x");
    struct asked asked = asked_for();

    start_asking(&asked, "x");
    run_for_ms(1);
    CHECK_OK(rql_request_cancel(asked.what.request));
    await_asked(&asked);
    if (asked.status != RQL_CANCELLED && asked.status != RQL_E_UNKNOWN) {
        fail_msg("%s", rql_status_text(asked.status));
    }
    await_int(0, "ZCARD rql:lock_queue:x");
    CHECK_OK(rql_lock_release(held, NULL));
}

static void lost_reply_of_an_acquisition_changes_nothing(void **state)
{
    (void)state;
    lose_each_reply(acquire_and_release);
}

static void lost_reply_of_an_extension_changes_nothing(void **state)
{
    (void)state;
    lose_each_reply(extend_and_release);
}

static void lost_reply_of_a_withdrawal_changes_nothing(void **state)
{
    (void)state;
    lose_each_reply(give_up_waiting);
}

static void lost_reply_of_a_cancellation_changes_nothing(void **state)
{
    (void)state;
    lose_each_reply(cancel_waiting);
}

/* Replies, confirmations and pushes: any one of them, on either connection. */
static void lose_word_to_a_waiter(lose_fn lose, int64_t place)
{
    rql_lock *held = hold(other, "x");
    struct asked asked;

    begin_trial(SILENCE_MS, SILENCE_MS);
    CHECK_OK(release_and_wait(acquire("warm")));
    lose(proxy, place);
    asked = asked_for();
    start_asking(&asked, "x");
    run_until_int(1, "ZCARD rql:lock_queue:x");
    CHECK_OK(rql_lock_release(held, NULL));
    await_asked(&asked);
    CHECK_OK(asked.status);
    assert_int_equal(rql_lock_token(asked.lock), ask_int("HGET rql:lock:x rql_token"));
    proxy_heal(proxy);
    CHECK_OK(release_and_wait(asked.lock));
    end_trial();
    expect_nothing_left("x");
}

static void lost_word_to_a_waiter_costs_no_grant(void **state)
{
    (void)state;
    for (int64_t place = 1; place <= WAIT_PLACES; place++) {
        lose_word_to_a_waiter(proxy_drop_reply, place);
        lose_word_to_a_waiter(proxy_cut_reply, place);
    }
}

static bool is_connected_twice(const void *data)
{
    rql_stats stats;

    (void)data;
    CHECK_OK(rql_client_stats(client, &stats));
    return stats.connections == 2;
}

/* The server knows of a subscription before the client does, whose login waits for more replies. */
static void stand_and_listen(struct asked *asked)
{
    start_asking(asked, "x");
    run_until_int(1, "ZCARD rql:lock_queue:x");
    await_subscription();
    run_until(is_connected_twice, NULL);
}

static void hand_over(rql_lock *held, struct asked *asked)
{
    CHECK_OK(rql_lock_release(held, NULL));
    await_asked(asked);
    CHECK_OK(asked->status);
    CHECK_OK(release_and_wait(asked->lock));
}

/* The push itself, on a connection that stays: a poll finds the grant. */
static void a_lost_push_costs_a_poll(void **state)
{
    rql_lock *held = hold(other, "x");
    struct asked asked;

    (void)state;
    begin_trial(CONNECT_MS, CONNECT_MS);
    asked = asked_for();
    asked.options.retry_delay_ms = 60000;
    stand_and_listen(&asked);
    run_for_ms(100);
    proxy_drop_reply(proxy, 1);
    hand_over(held, &asked);
    end_trial();
    expect_nothing_left("x");
}

static void pushes_may_come_byte_by_byte(void **state)
{
    rql_lock *held = hold(other, "x");
    struct asked asked;

    (void)state;
    begin_trial(CONNECT_MS, CONNECT_MS);
    proxy_dribble(proxy, PROXY_BOTH, true);
    asked = asked_for();
    asked.options.retry_delay_ms = 20000;
    stand_and_listen(&asked);
    hand_over(held, &asked);
    end_trial();
}

static void a_subscriber_that_is_cut_comes_back(void **state)
{
    rql_lock *held = hold(other, "x");
    struct asked asked;

    (void)state;
    begin_trial(CONNECT_MS, CONNECT_MS);
    asked = asked_for();
    stand_and_listen(&asked);
    ask("CLIENT KILL TYPE pubsub");
    await_subscription();
    hand_over(held, &asked);
    end_trial();
    expect_nothing_left("x");
}

static bool has_reconnected(const void *data)
{
    const int64_t *before = data;

    return proxy_counts(proxy).connections > *before;
}

/* The server knows of it or not: who waits is granted what it never hears of, or passed over. */
static void a_subscriber_that_hears_nothing_is_replaced(void **state)
{
    rql_lock *held = hold(other, "x");

    (void)state;
    for (int is_known = 0; is_known <= 1; is_known++) {
        struct asked asked;
        int64_t before;

        begin_trial(CONNECT_MS, 1000);
        asked = asked_for();
        asked.options.retry_delay_ms = 20000;
        stand_and_listen(&asked);
        proxy_mute_last(proxy);
        if (!is_known) {
            ask("CLIENT KILL TYPE pubsub");
        }
        before = proxy_counts(proxy).connections;
        run_until(has_reconnected, &before);
        await_subscription();
        hand_over(held, &asked);
        end_trial();
        held = hold(other, "x");
    }
    CHECK_OK(rql_lock_release(held, NULL));
}

static int64_t n_ticks;

static void count_tick(uv_timer_t *timer)
{
    (void)timer;
    n_ticks++;
}

/* A server that is silent ends a call by its deadline, and holds up nothing else on the loop. */
static void a_frozen_server_does_not_block_the_loop(void **state)
{
    uv_timer_t ticker;
    struct asked asked;
    int64_t begun_us;
    int64_t took_us;

    (void)state;
    begin_trial(CONNECT_MS, CONNECT_MS);
    CHECK_OK(release_and_wait(acquire("warm")));
    CHECK_OK(uv_timer_init(&uv, &ticker));
    CHECK_OK(uv_timer_start(&ticker, count_tick, 1, 1));
    n_ticks = 0;
    proxy_freeze(proxy, PROXY_DOWN, true);
    asked = asked_for();
    asked.options.timeout_ms = IMPATIENT_MS;
    begun_us = wait_clock_us();
    start_asking(&asked, "x");
    await_asked(&asked);
    took_us = wait_clock_us() - begun_us;
    assert_int_equal(asked.status, RQL_E_UNKNOWN);
    assert_int_equal(asked.error.status, RQL_E_UNKNOWN);
    assert_true(n_ticks > 10);
    assert_true(took_us <= (IMPATIENT_MS + 200 * wait_slowness()) * 1000);
    proxy_heal(proxy);
    uv_close((uv_handle_t *)&ticker, NULL);
    end_trial();
    expect_nothing_left("x");
}

static bool is_released_all(const void *data)
{
    const struct asked *crowd = data;

    for (size_t i = 0; i < CROWD; i++) {
        if (crowd[i].n_done == 0 || (crowd[i].status == RQL_OK && crowd[i].n_released == 0)) {
            return false;
        }
    }
    return true;
}

static void start_crowd(struct asked crowd[CROWD])
{
    for (size_t i = 0; i < CROWD; i++) {
        crowd[i] = asked_for();
        crowd[i].releases = true;
        start_asking(&crowd[i], "x");
    }
}

static void check_crowd(const struct asked crowd[CROWD])
{
    for (size_t i = 0; i < CROWD; i++) {
        if (crowd[i].status) {
            fail_msg("%s %s", rql_status_text(crowd[i].status), crowd[i].error.message);
        }
        assert_int_equal(crowd[i].n_done, 1);
    }
}

static void scripts_that_the_server_forgot_are_taught_in_order(void **state)
{
    struct asked crowd[CROWD];

    (void)state;
    begin_trial(CONNECT_MS, CONNECT_MS);
    CHECK_OK(release_and_wait(acquire("warm")));
    ask("SCRIPT FLUSH");
    start_crowd(crowd);
    run_until(is_released_all, crowd);
    check_crowd(crowd);
    for (size_t i = 1; i < CROWD; i++) {
        assert_true(crowd[i].order > crowd[i - 1].order);
    }
    end_trial();
    expect_nothing_left("x");
}

static bool has_come_on(const void *data)
{
    return n_callbacks > *(const int64_t *)data;
}

/* Both connections break again and again while a crowd goes through. */
static void cut_connections_lose_nobody(void **state)
{
    struct asked crowd[CROWD];

    (void)state;
    begin_trial(CONNECT_MS, CONNECT_MS);
    for (int i = 0; i < CUTS; i++) {
        int64_t seen = n_callbacks;

        start_crowd(crowd);
        run_until(has_come_on, &seen);
        proxy_cut(proxy);
        run_until(is_released_all, crowd);
        check_crowd(crowd);
    }
    end_trial();
    expect_nothing_left("x");
}

/* At a server of its own, which may be killed. */
static void begin_trial_at(struct redis_server *second)
{
    rql_options options = client_options();

    CHECK_OK(redis_server_start(second));
    options.url = second->url;
    client = new_client_with(&options);
    CHECK_OK(rql_loop_open(&loop, client, &uv, NULL));
}

static void a_server_that_crashed_is_joined_again(void **state)
{
    struct asked crowd[CROWD];
    struct redis_server second = {0};
    rql_lock *lock;

    (void)state;
    begin_trial_at(&second);
    lock = acquire("x");
    start_crowd(crowd);
    run_for_ms(50);
    redis_server_kill(&second);
    run_for_ms(50);
    CHECK_OK(redis_server_restart(&second));
    run_until(is_released_all, crowd);
    check_crowd(crowd);
    assert_int_equal(release_and_wait(lock), RQL_NOT_HELD);
    end_trial();
    redis_server_stop(&second);
}

/* The server has lost the lock, and no attempt to release it had reached it before. */
static void a_release_that_was_not_sent_released_nothing(void **state)
{
    struct redis_server second = {0};
    int status = INT_MAX;
    const rql_done done = {on_released_status, &status};
    rql_lock *lock;

    (void)state;
    begin_trial_at(&second);
    lock = acquire("x");
    redis_server_kill(&second);
    run_for_ms(50);
    CHECK_OK(rql_release_async(loop, lock, &done, NULL));
    run_for_ms(50);
    CHECK_OK(redis_server_restart(&second));
    run_until(is_told, &status);
    assert_int_equal(status, RQL_NOT_HELD);
    end_trial();
    redis_server_stop(&second);
}

static void a_release_that_got_no_answer_is_unknown(void **state)
{
    int status = INT_MAX;
    const rql_done done = {on_released_status, &status};
    rql_lock *lock;

    (void)state;
    begin_trial(SILENCE_MS, SILENCE_MS);
    lock = acquire("x");
    proxy_refuse(proxy, true);
    proxy_cut_reply(proxy, 1);
    CHECK_OK(rql_release_async(loop, lock, &done, NULL));
    run_until(is_told, &status);
    assert_int_equal(status, RQL_E_UNKNOWN);
    proxy_heal(proxy);
    end_trial();
    await_int(0, "EXISTS rql:lock:x");
}

static void a_server_that_refuses_us_is_a_fault(void **state)
{
    rql_options options = client_options();
    struct asked asked;

    (void)state;
    options.url = "unix:///nonexistent/rql.sock";
    client = new_client_with(&options);
    CHECK_OK(rql_loop_open(&loop, client, &uv, NULL));
    asked = asked_for();
    start_asking(&asked, "x");
    await_asked(&asked);
    assert_int_equal(asked.status, RQL_E_IO);
    assert_int_equal(asked.error.status, RQL_E_IO);
    end_trial();
}

static void a_key_of_another_type_is_a_fault(void **state)
{
    struct asked asked;

    (void)state;
    begin_trial(CONNECT_MS, CONNECT_MS);
    ask("SET rql:lock:x y");
    asked = asked_for();
    start_asking(&asked, "x");
    await_asked(&asked);
    assert_int_equal(asked.status, RQL_E_WRONG_TYPE);
    ask("DEL rql:lock:x");
    end_trial();
    expect_nothing_left("x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_network, tear_down_network)
        TEST(lost_reply_of_an_acquisition_changes_nothing),
        TEST(lost_reply_of_an_extension_changes_nothing),
        TEST(lost_reply_of_a_withdrawal_changes_nothing),
        TEST(lost_reply_of_a_cancellation_changes_nothing),
        TEST(lost_word_to_a_waiter_costs_no_grant),
        TEST(a_lost_push_costs_a_poll),
        TEST(pushes_may_come_byte_by_byte),
        TEST(a_subscriber_that_is_cut_comes_back),
        TEST(a_subscriber_that_hears_nothing_is_replaced),
        TEST(a_frozen_server_does_not_block_the_loop),
        TEST(scripts_that_the_server_forgot_are_taught_in_order),
        TEST(cut_connections_lose_nobody),
        TEST(a_server_that_crashed_is_joined_again),
        TEST(a_release_that_was_not_sent_released_nothing),
        TEST(a_release_that_got_no_answer_is_unknown),
        TEST(a_server_that_refuses_us_is_a_fault),
        TEST(a_key_of_another_type_is_a_fault),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
