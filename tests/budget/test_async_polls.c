/* Requests that wait on a loop, once warm, ask the allocator for nothing however often they ask the
 * server, and leave nothing there. They wait behind Ruby, for then they poll at each retry delay.
 */

#include "async_fixture.h"

#include "counting.h"

enum { WAITERS = 8, WARM_POLLS = 50, POLLS = 200, ROUNDS = 3 };

static int64_t n_wanted;

/* Commands of the client so far; reading them allocates nothing. */
static int64_t commands(void)
{
    rql_stats stats;

    return rql_client_stats(client, &stats) == RQL_OK ? stats.commands : 0;
}

static void run_for_polls(int64_t n_polls)
{
    int64_t end_us = wait_clock_us() + wait_stretched(AWAIT_MS) * 1000;

    n_wanted = commands() + n_polls;
    while (commands() < n_wanted) {
        assert_true(wait_clock_us() < end_us);
        (void)uv_run(&uv, UV_RUN_ONCE);
    }
}

static void ruby_holds(const char *name)
{
    ask("HSET rql:lock:%s acq_id rql:acq:1/2/3/4/0123456789abcdef hst_id "
        "rql:hst:1/2/4/0123456789abcdef "
        "ts 1795254268.468 ini_ttl 600000",
        name);
    ask("PEXPIRE rql:lock:%s 600000", name);
}

TEST(polls)
{
    static struct asked crowd[WAITERS]; /* outlives a failure */
    long n_allocations;
    int n_rounds = 0;

    ruby_holds("x");
    ruby_holds("y");
    for (size_t i = 0; i < WAITERS; i++) {
        crowd[i] = asked_for();
        crowd[i].options.retry_delay_ms = 5;
        crowd[i].options.retry_jitter_ms = 1;
        crowd[i].releases = true;
        start_asking(&crowd[i], i % 2 ? "x" : "y");
    }
    run_until_int(1, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0");
    run_for_polls(WARM_POLLS + WAITERS);
    do { /* memory that is had once, for a batch larger than any before, is no cost of a poll */
        counting_begin();
        run_for_polls(POLLS);
        n_allocations = counting_end();
    } while (n_allocations > 0 && n_allocations < POLLS / 10 && ++n_rounds < ROUNDS);
    assert_int_equal(n_allocations, 0);
    ask("DEL rql:lock:x rql:lock:y");
    for (size_t i = 0; i < WAITERS; i++) {
        run_until(is_released, &crowd[i]);
        CHECK_OK(crowd[i].release_status);
    }
}

static rql_acquiring late;

static void cancel_what_is_over(rql_status status, rql_lock *lock, const rql_error *error,
                                void *data)
{
    (void)lock;
    (void)error;
    *(int *)data = status;
    CHECK_OK(rql_request_cancel(late.request));
}

/* What its callback posts frees it. There is no connection that would have to be closed first. */
TEST(a_loop_that_closes_takes_what_was_posted_last)
{
    int status = INT_MAX;

    late = (rql_acquiring){.done = cancel_what_is_over, .user_data = &status};
    CHECK_OK(rql_lock_acquire_async(loop, "x", NULL, &late, NULL));
    counting_watch(late.request);
    close_loop();
    assert_int_equal(status, RQL_CANCELLED);
    assert_true(counting_was_freed());
}

FIXTURE(start_server, stop_server, set_up_loop, tear_down_loop);
SKIP_UNLESS(counting_works(), "a sanitizer counts for itself");
