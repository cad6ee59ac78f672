#include "fixture.h"

#include "lock/client.h"
#include "lock/leases.h"

/* What a call and a renewal cost beside many renewed locks. In processor time of one thread, which
 * does not depend on what else the machine does. RQL_TEST_HELD: beside how many. */

enum { USUAL = 20000, FULL = 100000, LONG_MS = 3600000, BRIEF_MS = 900 };

enum { ROUNDS = 21, PAIRS = 50, RENEWALS = 3 };

static const double PAIR_MOST = 1.5;

static long n_held;
static rql_series **held;
static size_t n_series;

static rql_lock_options renewed(int64_t ttl_ms)
{
    rql_lock_options options = patient(client);

    options.ttl_ms = ttl_ms;
    options.auto_extend = true;
    return options;
}

static void hold_one_series(rql_series **out)
{
    static char names[RQL_SERIES_MAX][24];
    static const char *list[RQL_SERIES_MAX];
    rql_lock_options lock = renewed(LONG_MS);
    rql_series_options options;
    rql_error error = {0};

    for (size_t i = 0; i < RQL_SERIES_MAX; i++) {
        (void)snprintf(names[i], sizeof names[i], "held-%zu-%zu", n_series, i);
        list[i] = names[i];
    }
    options = series_of(list, RQL_SERIES_MAX);
    options.lock = &lock;
    if (rql_series_acquire(client, &options, out, &error)) {
        fail_msg("series: %s", error.message);
    }
}

static void hold_many(void)
{
    for (n_series = 0; n_series < (size_t)n_held / RQL_SERIES_MAX; n_series++) {
        hold_one_series(&held[n_series]);
    }
}

static void let_go(void)
{
    while (n_series > 0) {
        (void)rql_series_forget(held[--n_series]);
    }
}

static int64_t clock_us(clockid_t clock)
{
    struct timespec now;

    assert_int_equal(clock_gettime(clock, &now), 0);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

static int64_t pairs_us(rql_client *of, clockid_t clock)
{
    int64_t begun_us = clock_us(clock);

    for (int k = 0; k < PAIRS; k++) {
        CHECK_OK(rql_lock_release(hold(of, "y"), NULL));
    }
    return clock_us(clock) - begun_us;
}

static int order(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;

    return a < b ? -1 : a > b;
}

/* What pairs cost beside those held, over what they cost alone: in turn, for the machine is not
 * always equally fast. */
static double ratio_of(rql_client *alone, clockid_t clock)
{
    double ratios[ROUNDS];

    for (int i = 0; i < ROUNDS; i++) {
        double alone_us = (double)pairs_us(alone, clock);

        ratios[i] = (double)pairs_us(client, clock) / alone_us;
    }
    qsort(ratios, ROUNDS, sizeof ratios[0], order);
    return ratios[ROUNDS / 2];
}

TEST(a_pair_beside_many_renewed_locks_costs_what_it_costs_alone)
{
    rql_client *alone = new_client();
    double of_processor;
    double of_time;

    hold_many();
    of_processor = ratio_of(alone, CLOCK_THREAD_CPUTIME_ID);
    of_time = ratio_of(alone, CLOCK_MONOTONIC);
    (void)rql_client_free(alone);
    print_message("# %d pairs beside %ld over %d alone: %.2f of the processor, %.2f of the time\n",
                  PAIRS, n_held, PAIRS, of_processor, of_time);
    assert_true(of_processor <= PAIR_MOST);
    assert_true(!getenv("RQL_TEST_HELD") || of_time <= PAIR_MOST);
}

static bool has_run(void *data)
{
    return calls_of("evalsha") >= *(int64_t *)data;
}

/* Processor time of the background thread for some renewals of a short lock. */
static int64_t renewals_us(void)
{
    int64_t until = calls_of("evalsha") + RENEWALS;
    clockid_t clock;
    int64_t begun_us;

    assert_int_equal(pthread_getcpuclockid(client->leases->worker.thread, &clock), 0);
    begun_us = clock_us(clock);
    assert_true(wait_until(has_run, &until, AWAIT_MS));
    return clock_us(clock) - begun_us;
}

TEST(a_renewal_beside_many_costs_what_it_costs_alone)
{
    rql_lock_options options = renewed(wait_stretched(BRIEF_MS));
    rql_lock *lock = hold_with(client, "y", &options);
    int64_t alone_us = renewals_us();
    int64_t beside_us;

    hold_many();
    beside_us = renewals_us();
    print_message("# %d renewals: alone %lld us, beside %ld %lld us\n", RENEWALS,
                  (long long)alone_us, n_held, (long long)beside_us);
    assert_true(beside_us <= alone_us * 5);
    CHECK_OK(rql_lock_release(lock, NULL));
}

static void tear_down(void)
{
    let_go();
    free_clients();
}

static void start(void)
{
    const char *text = getenv("RQL_TEST_HELD");
    long wanted = text ? strtol(text, NULL, 10) : USUAL;

    n_held = wanted >= RQL_SERIES_MAX && wanted <= FULL ? wanted : USUAL;
    held = calloc((size_t)n_held / RQL_SERIES_MAX, sizeof(rql_series *));
    assert_non_null(held);
    start_server();
}

static void stop(void)
{
    free(held);
    stop_server();
}

FIXTURE(start, stop, make_clients, tear_down);
