#include "clients.h"

#include "base/text.h"
#include "lock/client.h"
#include "net/subscription.h"
#include "threads.h"

enum { CROWD = 16, ROUNDS = 20 };

static int by_token(const void *left, const void *right)
{
    const struct waiter *a = left;
    const struct waiter *b = right;

    return (a->token > b->token) - (a->token < b->token);
}

static void the_queue_is_served_in_its_order(void **state)
{
    rql_lock *held = hold(client, "x");
    struct waiter crowd[CROWD];
    redisReply *queue;
    size_t i;

    (void)state;
    for (i = 0; i < CROWD; i++) {
        rql_client *own = i % 2 ? client : other;

        crowd[i] = (struct waiter){.client = own, .name = "x", .options = patient(own)};
        crowd[i].releases = true;
        waiter_start(&crowd[i]);
    }
    await_int(CROWD, "ZCARD rql:lock_queue:x");
    await_int(2, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0");
    queue = ask_reply("ZRANGE rql:lock_queue:x 0 -1");
    CHECK_OK(rql_lock_release(held, NULL));
    for (i = 0; i < CROWD; i++) {
        CHECK_OK(waiter_join(&crowd[i]));
        assert_true(crowd[i].handed_over);
    }
    qsort(crowd, CROWD, sizeof crowd[0], by_token);
    for (i = 0; i < CROWD; i++) {
        assert_string_equal(crowd[i].acquirer, queue->element[i]->str);
    }
    freeReplyObject(queue);
    CHECK_QUEUE_IS_EMPTY("x");
}

struct contention {
    rql_status worst[CROWD];
    int handed_over[CROWD];
};

static void contend(size_t index, void *data)
{
    struct contention *contention = data;
    rql_client *own = index % 2 ? client : other;
    rql_lock_options options = patient(own);
    int i;

    options.retry_delay_ms = 3600000;
    for (i = 0; i < ROUNDS; i++) {
        rql_lock *lock = NULL;
        rql_status status = rql_lock_acquire(own, "x", &options, &lock, NULL);

        if (status == RQL_OK) {
            contention->handed_over[index] += rql_lock_describe(lock).handed_over;
            status = rql_lock_release(lock, NULL);
        }
        contention->worst[index] = status ? status : contention->worst[index];
    }
}

static void a_contended_lock_costs_two_commands(void **state)
{
    struct contention contention = {0};
    int64_t handed_over = 0;
    int64_t calls;
    int64_t scripts;
    int64_t pings;
    size_t i;

    (void)state;
    make_listen(client, other);
    make_listen(other, client);
    pings = calls_of("ping");
    calls = calls_of("evalsha");
    scripts = calls_of("eval");
    threads_run(CROWD, contend, &contention);
    for (i = 0; i < CROWD; i++) {
        CHECK_OK(contention.worst[i]);
        handed_over += contention.handed_over[i];
    }
    assert_true(handed_over > CROWD * ROUNDS / 2);
    assert_in_range(calls_of("evalsha") - calls, 2 * CROWD * ROUNDS,
                    2 * CROWD * ROUNDS + CROWD * wait_slowness()); /* a stall: a poll */
    assert_int_equal(calls_of("eval") - scripts, 0);
    assert_int_equal(calls_of("ping") - pings, handed_over); /* the push goes first */
    CHECK_QUEUE_IS_EMPTY("x");
}

/* How long an acquisition takes that ends with `expected`. */
static int64_t time_refusal(const rql_lock_options *options, rql_status expected)
{
    rql_lock *lock = NULL;
    rql_status status;
    int64_t begun_us;
    int64_t took_us;
    int rounds = 0;

    do {
        begun_us = wait_clock_us();
        status = rql_lock_acquire(client, "x", options, &lock, NULL);
        took_us = wait_clock_us() - begun_us;
    } while (is_cut_short(status, "x", &rounds));
    assert_int_equal(status, expected);
    return took_us;
}

static void a_timeout_is_kept_to(void **state)
{
    rql_lock *held = hold(other, "x");
    rql_lock_options options = patient(client);
    int64_t took_us;

    (void)state;
    options.timeout_ms = wait_stretched(300);
    options.retry_delay_ms = 3600000;
    took_us = time_refusal(&options, RQL_TIMED_OUT);
    assert_true(took_us >= options.timeout_ms * 1000 - 1000);
    assert_true(took_us < options.timeout_ms * 1500 * wait_slowness());
    options.timeout_ms = 0;
    assert_true(time_refusal(&options, RQL_TIMED_OUT) < 150000 * wait_slowness());
    CHECK_OK(rql_lock_release(held, NULL));
}

static void three_tries_take_two_delays(void **state)
{
    rql_lock *held = hold(other, "x");
    rql_lock_options options = patient(client);
    rql_refusal refusal = {0};
    int64_t took_us;

    (void)state;
    options.retry_count = 3;
    options.retry_delay_ms = 150;
    options.retry_jitter_ms = 0;
    options.refusal = &refusal;
    took_us = time_refusal(&options, RQL_RETRY_LIMIT);
    assert_true(took_us >= 299000);
    assert_true(took_us < 420000 * wait_slowness());
    assert_int_equal(refusal.tries, 3);
    assert_true(refusal.waited_us >= 299000 && refusal.waited_us <= took_us);
    assert_int_equal(refusal.position, 1);
    rql_refusal_clear(&refusal);
    options.retry_count = 1;
    assert_true(time_refusal(&options, RQL_RETRY_LIMIT) < 150000 * wait_slowness());
    CHECK_OK(rql_lock_release(held, NULL));
}

static void jitter_lengthens_the_delay(void **state)
{
    rql_lock *held = hold(other, "x");
    rql_lock_options options = patient(client);
    int64_t sum_us = 0;
    int i;

    (void)state;
    options.retry_count = 2;
    options.retry_delay_ms = 1;
    options.retry_jitter_ms = 60;
    for (i = 0; i < 20; i++) {
        sum_us += time_refusal(&options, RQL_RETRY_LIMIT);
    }
    assert_true(sum_us > 20 * 10000); /* 30 ms each is expected */
    CHECK_OK(rql_lock_release(held, NULL));
}

/* Counted by timer, whether or not a hand-over ends the wait. */
static void tries_are_counted_while_waiting(void **state)
{
    rql_lock *held = hold(other, "x");
    struct waiter waiter = {.client = client, .name = "x", .options = patient(client)};
    int64_t begun_us = wait_clock_us();

    (void)state;
    waiter.options.retry_delay_ms = 50;
    waiter.options.retry_jitter_ms = 0;
    waiter_start_as(&waiter, 1);
    while (wait_clock_us() < begun_us + 500000) {
        CHECK_OK(rql_lock_verify(held, NULL));
    }
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&waiter));
    assert_true(waiter.handed_over);
    assert_in_range(waiter.tries, wait_slowness() > 1 ? 2 : 5, 11);
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
}

static void random_takes_a_free_lock_past_the_queue(void **state)
{
    rql_lock_options options = patient(client);
    rql_lock *lock = NULL;

    (void)state;
    ask("ZADD rql:lock_queue:x %lld rql:acq:1/2/3/4/0123456789abcdef", (long long)time(NULL));
    assert_int_equal(rql_lock_try(client, "x", &options, &lock, NULL), RQL_FAIL_FAST_AFTER_TRY);
    options.access_strategy = RQL_RANDOM;
    CHECK_OK(rql_lock_try(client, "x", &options, &lock, NULL));
    assert_int_equal(ask_int("ZCARD rql:lock_queue:x"), 1);
    CHECK_OK(rql_lock_release(lock, NULL));
}

/* The head has at least half of the chances, a random waiter behind it some. */
static void random_may_overtake_at_a_hand_over(void **state)
{
    int overtaken = 0;
    int round;

    (void)state;
    for (round = 0; round < 80; round++) {
        rql_lock *held = hold(other, "x");
        struct waiter head = {.client = client, .name = "x", .options = patient(client)};
        struct waiter behind = {.client = client, .name = "x", .options = patient(client)};

        head.releases = true;
        behind.releases = true;
        behind.options.access_strategy = RQL_RANDOM;
        waiter_start_as(&head, 1);
        waiter_start_as(&behind, 2);
        CHECK_OK(rql_lock_release(held, NULL));
        CHECK_OK(waiter_join(&head));
        CHECK_OK(waiter_join(&behind));
        overtaken += behind.token < head.token;
    }
    assert_in_range(overtaken, 1, 40);
}

/* An acquirer waits once for a lock at a time; a second request must not disturb the first. */
static void an_acquirer_that_waits_already_is_busy(void **state)
{
    rql_lock *held = hold(other, "x");
    rql_lock_options options = patient(client);
    char acquirer[RQL_ID_SIZE];
    struct rqli_waiter_nonce nonce = {
        .digits = "0123456789abcdef0123456789abcdef",
        .lock_key = rqli_slice_of("rql:lock:x"),
    };
    struct rqli_waiter first = {
        .lock_key = nonce.lock_key,
        .acquirer = rql_current_acquirer_id(client, 0, acquirer),
        .nonces = &nonce,
        .n_nonces = 1,
    };
    rql_error error = {0};
    rql_lock *lock = NULL;
    int i;

    (void)state;
    CHECK_OK(rqli_push_threads_join(client->pushes, &first));
    for (i = 0; i < 2; i++) {
        assert_int_equal(rql_lock_acquire(client, "x", &options, &lock, &error), RQL_E_BUSY);
        assert_int_equal(error.status, RQL_E_BUSY);
        CHECK_QUEUE_IS_EMPTY("x");
        make_listen(client, other); /* and again while pushes arrive */
    }
    options.task = 1;
    options.timeout_ms = wait_stretched(50);
    assert_true(has_timed_out(rql_lock_acquire(client, "x", &options, &lock, &error)));
    rqli_push_threads_leave(client->pushes, &first);
    CHECK_OK(rql_lock_release(held, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(the_queue_is_served_in_its_order),
        TEST(a_contended_lock_costs_two_commands),
        TEST(a_timeout_is_kept_to),
        TEST(three_tries_take_two_delays),
        TEST(jitter_lengthens_the_delay),
        TEST(tries_are_counted_while_waiting),
        TEST(random_takes_a_free_lock_past_the_queue),
        TEST(random_may_overtake_at_a_hand_over),
        TEST(an_acquirer_that_waits_already_is_busy),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
