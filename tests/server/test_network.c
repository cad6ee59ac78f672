#include "fixture.h"

#include "proxy.h"

/* A network that loses, cuts and holds up words between a client and its server. */

enum {
    CROWD = 16,
    PLACES = 3,       /* of a reply in a call: the script is unknown, then it is not */
    LATE_PLACES = 10, /* the same after the login of a new connection */
    WAIT_PLACES = 10, /* of a word to a waiter, on either connection */
    RUBY_PLACES = 16, /* with the login of the subscriber, and the notice */
    SILENCE_MS = 100, /* that a client takes for a broken connection */
    CONNECT_MS = 20000,
    IMPATIENT_MS = 300,
    LONGER_MS = 1000,
    UNUSED_MS = 1200, /* after which a connection is looked at before it is used */
    GRACE_MS = 50,    /* after the deadline */
    SLACK_MS = 100,   /* of the machine */
};

static struct proxy *proxy;

static int set_up(void **state)
{
    (void)state;
    ask("FLUSHALL");
    proxy = proxy_start(server.socket_path);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    proxy = proxy_stop(proxy);
    return 0;
}

static rql_client *client_through_proxy(int64_t connect_timeout_ms, int64_t io_timeout_ms)
{
    rql_options options = client_options();

    options.url = proxy_url(proxy);
    options.connect_timeout_ms = wait_stretched(connect_timeout_ms);
    options.io_timeout_ms = wait_stretched(io_timeout_ms);
    return new_client_with(&options);
}

/* Token of the grant in force on the server. */
static int64_t token_on_server(const char *name)
{
    return ask_int("HGET rql:lock:%s rql_token", name);
}

typedef void (*lose_fn)(struct proxy *proxy, int64_t n);

/* A call of which one reply is lost. It begins with what nothing may be lost of. */
struct victim {
    rql_client *client;
    rql_client *other;
    rql_lock *lock;
    rql_lock *inner; /* a re-entry that extends it */
    rql_lock *innermost;
    void (*prepare)(struct victim *self);
    void (*call)(struct victim *self);
};

/* SCRIPT FLUSH makes a call two exchanges; a cut connection adds a login. */
static void lose_reply(struct victim *self, lose_fn lose, int64_t place, bool cuts_first)
{
    self->client = client_through_proxy(CONNECT_MS, SILENCE_MS);
    CHECK_OK(rql_client_connect(self->client, NULL));
    self->prepare(self);
    ask("SCRIPT FLUSH");
    if (cuts_first) {
        proxy_cut(proxy);
    }
    lose(proxy, place);
    self->call(self);
    proxy_heal(proxy);
    await_int(0, "ZCARD rql:lock_queue:x");
    expect_nothing_left("x");
    rql_client_free(self->client);
}

static void lose_each_reply(struct victim *self)
{
    self->other = new_client();
    for (int64_t place = 1; place <= PLACES; place++) {
        lose_reply(self, proxy_drop_reply, place, false);
        lose_reply(self, proxy_cut_reply, place, false);
    }
    for (int64_t place = 1; place <= LATE_PLACES; place++) {
        lose_reply(self, proxy_cut_reply, place, true);
    }
    rql_client_free(self->other);
}

static void prepare_nothing(struct victim *self)
{
    (void)self;
}

static void hold_x(struct victim *self)
{
    self->lock = hold(self->client, "x");
}

static void let_other_hold_x(struct victim *self)
{
    self->lock = hold(self->other, "x");
}

static void acquire_and_release(struct victim *self)
{
    self->lock = hold(self->client, "x");
    assert_int_equal(rql_lock_token(self->lock), token_on_server("x"));
    CHECK_OK(rql_lock_release(self->lock, NULL));
}

static void release(struct victim *self)
{
    CHECK_OK(rql_lock_release(self->lock, NULL));
}

/* It may be repeated until there is an answer, and does not add up: it sets what is left, it does
 * not add to it. */
static void extend_and_release(struct victim *self)
{
    rql_error error = {0};
    rql_status status = rql_lock_extend(self->lock, 90000, &error);

    while (status == RQL_E_UNKNOWN || status == RQL_E_IO) {
        assert_int_equal(error.status, status);
        assert_int_equal(rql_lock_get_state(self->lock), RQL_HELD);
        status = rql_lock_extend(self->lock, 90000, &error);
    }
    CHECK_OK(status);
    assert_true(ask_int("PTTL rql:lock:x") <= 90000);
    CHECK_OK(rql_lock_release(self->lock, NULL));
}

static void give_up_waiting(struct victim *self)
{
    rql_lock_options options = patient(self->client);
    rql_lock *lock = NULL;
    rql_status status;

    options.retry_count = 1;
    status = rql_lock_acquire(self->client, "x", &options, &lock, NULL);
    if (status != RQL_RETRY_LIMIT && status != RQL_E_UNKNOWN) {
        fail_msg("%s", rql_status_text(status));
    }
    await_int(0, "ZCARD rql:lock_queue:x");
    CHECK_OK(rql_lock_release(self->lock, NULL));
}

static void lost_reply_of_an_acquisition_changes_nothing(void **state)
{
    (void)state;
    lose_each_reply(&(struct victim){.prepare = prepare_nothing, .call = acquire_and_release});
}

static void lost_reply_of_a_release_changes_nothing(void **state)
{
    (void)state;
    lose_each_reply(&(struct victim){.prepare = hold_x, .call = release});
}

static void enter_x_again(struct victim *self)
{
    rql_lock_options options = patient(self->client);

    hold_x(self);
    options.conflict_strategy = RQL_EXTENDABLE_WORK_THROUGH;
    self->inner = hold_with(self->client, "x", &options);
    options.conflict_strategy = RQL_WORK_THROUGH;
    self->innermost = hold_with(self->client, "x", &options);
}

static void leave_and_release(struct victim *self)
{
    int64_t left_ms;

    CHECK_OK(rql_lock_release(self->inner, NULL));
    left_ms = ask_int("PTTL rql:lock:x");
    assert_true(rql_lock_remaining_ms(self->innermost) <= left_ms);
    CHECK_OK(rql_lock_release(self->innermost, NULL));
    CHECK_OK(rql_lock_release(self->lock, NULL));
}

/* Nor does another re-entry believe in what was taken back. */
static void lost_reply_of_a_re_entrys_end_changes_nothing(void **state)
{
    (void)state;
    lose_each_reply(&(struct victim){.prepare = enter_x_again, .call = leave_and_release});
}

static void lost_reply_of_an_extension_changes_nothing(void **state)
{
    (void)state;
    lose_each_reply(&(struct victim){.prepare = hold_x, .call = extend_and_release});
}

static void lost_reply_of_a_withdrawal_changes_nothing(void **state)
{
    (void)state;
    lose_each_reply(&(struct victim){.prepare = let_other_hold_x, .call = give_up_waiting});
}

/* Replies, confirmations and pushes: any one of them, on either connection. */
static void lose_word_to_a_waiter(rql_client *other, lose_fn lose, int64_t place)
{
    rql_client *client = client_through_proxy(SILENCE_MS, SILENCE_MS);
    struct waiter waiter = {.client = client, .name = "x", .options = patient(client)};
    rql_lock *held = hold(other, "x");

    CHECK_OK(rql_client_connect(client, NULL));
    lose(proxy, place);
    waiter_start_as(&waiter, 1);
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&waiter));
    assert_int_equal(waiter.token, token_on_server("x"));
    proxy_heal(proxy);
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
    expect_nothing_left("x");
    rql_client_free(client);
}

static void lost_word_to_a_waiter_costs_no_grant(void **state)
{
    rql_client *other = new_client();

    (void)state;
    for (int64_t place = 1; place <= WAIT_PLACES; place++) {
        lose_word_to_a_waiter(other, proxy_drop_reply, place);
        lose_word_to_a_waiter(other, proxy_cut_reply, place);
    }
    rql_client_free(other);
}

static void push_that_comes_byte_by_byte_is_a_push(void **state)
{
    rql_client *other = new_client();
    rql_client *client = client_through_proxy(CONNECT_MS, CONNECT_MS);
    struct waiter waiter = {.client = client, .name = "x", .options = patient(client)};
    rql_lock *held = hold(other, "x");

    (void)state;
    waiter.options.retry_delay_ms = 20000;
    proxy_dribble(proxy, PROXY_BOTH, true);
    waiter_start_as(&waiter, 1);
    await_int(1, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0");
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&waiter));
    assert_true(waiter.handed_over);
    proxy_heal(proxy);
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
    rql_client_free(client);
    rql_client_free(other);
}

static bool has_reconnected(void *data)
{
    const int64_t *before = data;

    return proxy_counts(proxy).connections > *before;
}

static void expect_pushes_again(rql_client *client, rql_client *other)
{
    struct waiter waiter = {.client = client, .name = "x", .options = patient(client)};
    int64_t before = proxy_counts(proxy).connections;
    rql_lock *held = hold(other, "x");

    waiter.options.retry_delay_ms = 20000;
    waiter_start_as(&waiter, 1);
    assert_true(wait_until(has_reconnected, &before, AWAIT_MS));
    await_int(1, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0");
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&waiter));
    assert_true(waiter.handed_over);
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
}

/* The server knows of it or not: who waits is granted what it never hears of, or passed over. */
static void subscriber_that_hears_nothing_is_replaced(void **state)
{
    rql_client *other = new_client();

    (void)state;
    for (int is_known = 0; is_known <= 1; is_known++) {
        rql_client *client = client_through_proxy(CONNECT_MS, LONGER_MS);

        make_listen(client, other);
        proxy_mute_last(proxy);
        if (!is_known) {
            ask("CLIENT KILL TYPE pubsub");
        }
        expect_pushes_again(client, other);
        rql_client_free(client);
    }
    rql_client_free(other);
}

static bool ended_in_time(const struct waiter *waiter, int64_t begun_us)
{
    int64_t limit_ms = IMPATIENT_MS + (GRACE_MS + SLACK_MS) * wait_slowness();

    return waiter->ended_us - begun_us <= limit_ms * 1000;
}

static void expect_definite_end(struct waiter *waiter, int64_t begun_us)
{
    rql_status status = waiter_join(waiter);

    if (status != RQL_E_UNKNOWN && status != RQL_TIMED_OUT) {
        fail_msg("%s: %s", rql_status_text(status), waiter->error.message);
    }
    assert_int_equal(waiter->error.status, status < 0 ? status : 0);
    if (!ended_in_time(waiter, begun_us)) {
        fail_msg("after %lld us", (long long)(waiter->ended_us - begun_us));
    }
}

static void start_impatient(struct waiter *waiters, rql_client *client)
{
    for (size_t i = 0; i < CROWD; i++) {
        waiters[i] = (struct waiter){.client = client, .name = "x", .options = patient(client)};
        waiters[i].options.timeout_ms = IMPATIENT_MS;
        waiter_start(&waiters[i]);
    }
}

/* Servers, and those between, end what is not used for long; it is seen before it is used. */
static void connection_that_ended_unused_is_made_anew(void **state)
{
    rql_client *client = client_through_proxy(CONNECT_MS, CONNECT_MS);
    rql_lock *lock = hold(client, "x");

    (void)state;
    proxy_cut(proxy);
    (void)usleep(UNUSED_MS * 1000);
    CHECK_OK(rql_lock_extend(lock, 90000, NULL));
    proxy_cut(proxy);
    (void)usleep(UNUSED_MS * 1000);
    assert_int_equal(rql_force_extend(client, "y", 1000, NULL), RQL_NOT_FOUND);
    CHECK_OK(rql_lock_release(lock, NULL));
    rql_client_free(client);
}

/* Connecting the subscriber is for all waiters, but on the time of one of them. */
static void subscriber_that_cannot_connect_holds_up_nobody(void **state)
{
    rql_client *client = client_through_proxy(CONNECT_MS, CONNECT_MS);
    rql_client *other = new_client();
    struct waiter first = {.client = client, .name = "x", .options = patient(client)};
    struct waiter waiter = {.client = client, .name = "y", .options = patient(client)};
    rql_lock *held = hold(other, "x");
    rql_lock *held_too = hold(other, "y");
    int64_t begun_us;

    (void)state;
    waiter_start_as(&first, 1);
    await_int(1, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0");
    waiter.options.timeout_ms = IMPATIENT_MS;
    begun_us = wait_clock_us();
    waiter_start_as(&waiter, 1);
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&first));
    proxy_freeze(proxy, PROXY_DOWN, true);
    ask("CLIENT KILL TYPE pubsub");
    expect_definite_end(&waiter, begun_us);
    proxy_heal(proxy);
    CHECK_OK(rql_lock_release(first.lock, NULL));
    CHECK_OK(rql_lock_release(held_too, NULL));
    expect_nothing_left("y");
    rql_client_free(client);
    rql_client_free(other);
}

/* A Ruby worker holds the lock, so the server is asked for more than a place in the queue . */
static void lost_word_about_ruby_holds_up_nobody(void **state)
{
    (void)state;
    for (int64_t place = 1; place <= RUBY_PLACES; place++) {
        rql_client *client = client_through_proxy(CONNECT_MS, CONNECT_MS);
        rql_lock_options options = patient(client);
        rql_lock *lock = NULL;
        int64_t begun_us;

        CHECK_OK(rql_lock_release(hold(client, "y"), NULL)); /* the script is known */
        ask("HSET rql:lock:x acq_id rql:acq:1/2/3/4/0123456789abcdef");
        options.timeout_ms = SILENCE_MS;
        begun_us = wait_clock_us();
        proxy_drop_reply(proxy, place);
        assert_true(rql_lock_acquire(client, "x", &options, &lock, NULL) != RQL_OK);
        assert_true(wait_clock_us() - begun_us < CONNECT_MS * 1000 / 2);
        proxy_heal(proxy);
        rql_client_free(client);
        assert_int_equal(ask_int("ZCARD rql:lock_queue:x"), 0);
        ask("DEL rql:lock:x");
    }
}

/* The first attempt may have released it, whatever kept the others from being made. */
static void release_that_got_no_answer_is_unknown(void **state)
{
    rql_client *client = client_through_proxy(IMPATIENT_MS, IMPATIENT_MS);
    rql_lock *lock = hold(client, "x");
    rql_error error = {0};

    (void)state;
    proxy_refuse(proxy, true);
    proxy_cut_reply(proxy, 1);
    assert_int_equal(rql_lock_release(lock, &error), RQL_E_UNKNOWN);
    assert_int_equal(error.status, RQL_E_UNKNOWN);
    assert_non_null(strstr(error.message, "rql:lock:x"));
    proxy_heal(proxy);
    rql_client_free(client);
    expect_nothing_left("x");
}

/* Its request was sent and no answer came; then there was no connection to withdraw it on. */
static void freeing_a_client_withdraws_what_is_open(void **state)
{
    rql_client *client = client_through_proxy(1000, 1000);
    struct waiter waiter = {.client = client, .name = "x", .options = patient(client)};

    (void)state;
    CHECK_OK(rql_client_connect(client, NULL));
    waiter.options.timeout_ms = LONGER_MS;
    proxy_freeze(proxy, PROXY_DOWN, true);
    waiter_start(&waiter);
    await_int(1, "EXISTS rql:lock:x");
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    assert_int_equal(waiter_join(&waiter), RQL_E_UNKNOWN);
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 1);
    proxy_heal(proxy);
    rql_client_free(client);
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
}

/* However many requests are open: they share the time. */
static void freeing_a_client_without_a_server_ends_soon(void **state)
{
    rql_client *client = client_through_proxy(400, 400);
    struct waiter waiters[CROWD];
    int64_t begun_us;

    (void)state;
    CHECK_OK(rql_client_connect(client, NULL));
    proxy_freeze(proxy, PROXY_DOWN, true);
    start_impatient(waiters, client);
    for (size_t i = 0; i < CROWD; i++) {
        assert_true(waiter_join(&waiters[i]) < 0);
    }
    begun_us = wait_clock_us();
    rql_client_free(client);
    assert_true(wait_clock_us() - begun_us < 1500000 * wait_slowness());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(lost_reply_of_an_acquisition_changes_nothing),
        TEST(lost_reply_of_a_release_changes_nothing),
        TEST(lost_reply_of_a_re_entrys_end_changes_nothing),
        TEST(lost_reply_of_an_extension_changes_nothing),
        TEST(lost_reply_of_a_withdrawal_changes_nothing),
        TEST(lost_word_to_a_waiter_costs_no_grant),
        TEST(push_that_comes_byte_by_byte_is_a_push),
        TEST(subscriber_that_hears_nothing_is_replaced),
        TEST(subscriber_that_cannot_connect_holds_up_nobody),
        TEST(connection_that_ended_unused_is_made_anew),
        TEST(lost_word_about_ruby_holds_up_nobody),
        TEST(release_that_got_no_answer_is_unknown),
        TEST(freeing_a_client_withdraws_what_is_open),
        TEST(freeing_a_client_without_a_server_ends_soon),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
