#include "clients.h"

#include "base/text.h"
#include "lock/client.h"
#include "net/subscription.h"
#include "threads.h"

enum { CROWD = 16, ROUNDS = 20 };

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
    bool is_listening;
    int i;

    (void)state;
    CHECK_OK(rqli_push_threads_join(client->pushes, &first, &is_listening));
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
        TEST(a_contended_lock_costs_two_commands),
        TEST(an_acquirer_that_waits_already_is_busy),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
