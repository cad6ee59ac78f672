#include "fixture.h"

#include "proxy.h"

#include "lock/client.h"
#include "lock/leases.h"
#include "lock/lock.h"
#include "lock/withdraw.h"

/* What the background thread gives back for others, beside the locks that it keeps. RQL_TEST_CROWD:
 * how many withdrawals. */

enum { USUAL = 2000, FULL = 100000, TTL_MS = 2000, IO_MS = 500 };

static struct proxy *proxy;
static long n_withdrawals;

static void set_up(void)
{
    ask("FLUSHALL");
    ask("CONFIG RESETSTAT");
    proxy = proxy_start(server.socket_path);
}

static void tear_down(void)
{
    proxy = proxy_stop(proxy);
}

static rql_client *client_through_proxy(int64_t io_timeout_ms)
{
    rql_options options = client_options();

    options.url = proxy_url(proxy);
    options.io_timeout_ms = io_timeout_ms;
    return new_client_with(&options);
}

static void withdraw(rql_client *client, long count)
{
    const struct rqli_withdrawal_of what = {&rqli_key_sets[RQLI_WHOLE], "y", "nobody",
                                            "0123456789abcdef0123456789abcdef"};

    for (long i = 0; i < count; i++) {
        rqli_leases_withdraw(client->leases, &what, 600000);
    }
}

static int64_t end_ms(void)
{
    return ask_int("PEXPIRETIME rql:lock:x");
}

static int64_t now_ms(void)
{
    return ask_int("EVAL return(redis.call('time')[1]*1000) 0");
}

static bool ends_later_or_never(void *data)
{
    int64_t ends_ms = end_ms();

    return ends_ms < 0 || ends_ms > *(int64_t *)data;
}

static void await_end_after(int64_t ends_ms)
{
    assert_true(wait_until(ends_later_or_never, &ends_ms, AWAIT_MS));
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 1);
}

struct seen {
    const rql_lock *lock;
    int64_t left_ms;
};

static bool has_more_left(void *data)
{
    struct seen *seen = data;
    int64_t before_ms = seen->left_ms;

    seen->left_ms = rql_lock_remaining_ms(seen->lock);
    return seen->left_ms > before_ms;
}

/* The background thread has renewed it, and has its answer. */
static rql_lock *hold_renewed(rql_client *client)
{
    rql_lock_options options = patient(client);
    struct seen seen = {.left_ms = INT64_MAX};
    rql_lock *lock;

    options.ttl_ms = wait_stretched(TTL_MS);
    options.auto_extend = true;
    lock = hold_with(client, "x", &options);
    seen.lock = lock;
    assert_true(wait_until(has_more_left, &seen, AWAIT_MS));
    return lock;
}

static void on_lost(rql_lock *lock, void *data)
{
    (void)lock;
    (void)data;
}

static rql_lock *enter(rql_client *client, rql_conflict_strategy strategy, int64_t ttl_ms)
{
    rql_lock_options options = patient(client);

    options.conflict_strategy = strategy;
    options.ttl_ms = ttl_ms;
    options.on_lost = on_lost;
    return hold_with(client, "x", &options);
}

static bool has_no_more_left(void *data)
{
    return rql_lock_get_state(data) == RQL_HELD &&
           rql_lock_remaining_ms(data) <= end_ms() - now_ms();
}

/* An extendable re-entry that nobody heard of is undone late. Who entered in between was told how
 * long the lock lives with what that had added. */
TEST(who_counts_on_what_was_taken_back_asks_the_server)
{
    rql_client *client = new_client();
    rql_lock *outer = enter(client, RQL_WAIT_FOR_LOCK, 20000);
    rql_lock *unheard = enter(client, RQL_EXTENDABLE_WORK_THROUGH, 100000);
    rql_lock *inner = enter(client, RQL_WORK_THROUGH, 20000);
    const struct rqli_withdrawal_of what = {&rqli_key_sets[RQLI_WHOLE], "x", unheard->acquirer,
                                            unheard->nonce};

    assert_true(rql_lock_remaining_ms(inner) > 60000);
    rqli_leases_withdraw(client->leases, &what, 600000);
    await_int(0, "HEXISTS rql:lock:x rql_ext:%s", unheard->nonce);
    assert_true(wait_until(has_no_more_left, inner, AWAIT_MS));
    CHECK_OK(rql_lock_release(inner, NULL));
    (void)rql_lock_release(unheard, NULL);
    CHECK_OK(rql_lock_release(outer, NULL));
    rql_client_free(client);
}

static bool all_are_withdrawn(void *data)
{
    return calls_of("evalsha") >= n_withdrawals + *(int64_t *)data;
}

/* So far that batches of them all, one after the other, take longer than the lock lives. */
static int64_t far_ms(void)
{
    return 1 + INT64_C(200000) / n_withdrawals;
}

/* One by one, and all before the next renewal, they would take longer than the lock lives. */
TEST(a_crowd_of_withdrawals_costs_no_renewed_lock_its_life)
{
    rql_client *client = client_through_proxy(20000);
    rql_lock *lock = hold_renewed(client);
    int64_t before = calls_of("evalsha");

    proxy_delay(proxy, PROXY_DOWN, far_ms());
    withdraw(client, n_withdrawals);
    for (int i = 0; i < 3; i++) {
        await_end_after(end_ms());
    }
    CHECK_OK(rql_lock_verify(lock, NULL));
    assert_true(wait_until(all_are_withdrawn, &before, AWAIT_MS));
    CHECK_OK(rql_lock_release(lock, NULL));
    rql_client_free(client);
}

TEST(a_withdrawal_without_answer_holds_up_no_renewal)
{
    rql_client *client = client_through_proxy(20000);
    rql_lock *lock = hold_renewed(client);
    int64_t ends_ms = end_ms();

    proxy_freeze(proxy, PROXY_DOWN, true);
    withdraw(client, 1);
    await_end_after(ends_ms);
    proxy_freeze(proxy, PROXY_DOWN, false);
    await_end_after(end_ms());
    CHECK_OK(rql_lock_verify(lock, NULL));
    CHECK_OK(rql_lock_release(lock, NULL));
    rql_client_free(client);
}

TEST(the_end_of_a_client_waits_for_its_time_out_and_not_for_a_crowd)
{
    rql_client *client = client_through_proxy(wait_stretched(IO_MS));
    rql_lock *lock = hold_renewed(client);
    int64_t begun_us;

    CHECK_OK(rql_lock_release(lock, NULL));
    proxy_delay(proxy, PROXY_DOWN, wait_stretched(IO_MS) / 4);
    withdraw(client, n_withdrawals);
    begun_us = wait_clock_us();
    rql_client_free(client);
    assert_true(wait_clock_us() - begun_us < 2 * IO_MS * 1000 * wait_slowness());
}

static void start(void)
{
    const char *text = getenv("RQL_TEST_CROWD");
    long wanted = text ? strtol(text, NULL, 10) : USUAL;

    n_withdrawals = wanted > 0 && wanted <= FULL ? wanted : USUAL;
    start_server();
}

FIXTURE(start, stop_server, set_up, tear_down);
