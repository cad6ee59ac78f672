#include "async_fixture.h"

#include <malloc.h>

/* Many requests wait in one process: what one of them costs, and what all of them cost the server
 * while nothing happens. RQL_TEST_CROWD: how many, for a hundredth as many locks. */

enum { USUAL = 5000, FULL = 100000, PER_LOCK = 100, IDLE_MS = 5000, NAME_SIZE = 32 };

static size_t n_requests;
static size_t n_locks;
static struct asked *crowd;
static rql_lock **held;

static char *name_of(char out[NAME_SIZE], size_t lock)
{
    (void)snprintf(out, NAME_SIZE, "crowd-%zu", lock);
    return out;
}

static int64_t count_waiting(void)
{
    /* The command is split at blanks, so the script has tabs. */
    return ask_int("EVAL local\tn=0;for\ti=0,%zu\tdo\tn=n+redis.call('zcard',"
                   "'rql:lock_queue:crowd-'..i)\tend;return\tn 0",
                   n_locks - 1);
}

static size_t allocated(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

static void hold_all(void)
{
    char name[NAME_SIZE];

    for (size_t i = 0; i < n_locks; i++) {
        held[i] = hold(other, name_of(name, i));
    }
}

static void ask_for_all(void)
{
    int64_t end_us;
    char name[NAME_SIZE];

    for (size_t i = 0; i < n_requests; i++) {
        crowd[i] = asked_for();
        crowd[i].options.timeout_ms = RQL_FOREVER;
        crowd[i].options.queue_ttl_ms = RQL_FOREVER;
        crowd[i].options.ttl_ms = 3600000;
        crowd[i].releases = true;
        start_asking(&crowd[i], name_of(name, i % n_locks));
    }
    end_us = wait_clock_us() + AWAIT_MS * INT64_C(1000) * wait_slowness();
    while (count_waiting() < (int64_t)n_requests) {
        assert_true(wait_clock_us() < end_us);
        run_for_ms(50);
    }
}

/* While the loop runs for that long, or longer where it is kept from running. */
static int64_t commands_per_s(int64_t ms)
{
    int64_t begun_us = wait_clock_us();
    int64_t calls = calls_of("evalsha");

    run_for_ms(ms);
    calls = calls_of("evalsha") - calls;
    return calls * 1000000 / (wait_clock_us() - begun_us);
}

/* Until nobody asks who does not lead: the looks after the subscription are over. */
static void await_quiet(int64_t rate)
{
    int64_t end_us = wait_clock_us() + AWAIT_MS * INT64_C(1000) * wait_slowness();

    while (commands_per_s(200) > rate * 6 / 5 + 50) {
        assert_true(wait_clock_us() < end_us);
    }
}

static bool all_released(const void *data)
{
    size_t *at = (size_t *)(uintptr_t)data;

    while (*at < n_requests && crowd[*at].n_released > 0) {
        (*at)++;
    }
    return *at == n_requests;
}

static void a_crowd_waits_for_little(void **state)
{
    size_t before = allocated();
    int64_t most_per_s = (int64_t)n_locks * 3 / 5; /* one each 5/3 s */
    int64_t begun_us = wait_clock_us();
    int64_t idle;
    int64_t calls;
    size_t at = 0;

    (void)state;
    hold_all();
    ask_for_all();
    print_message("# %zu requests for %zu locks: queued after %lld ms, %zu bytes each\n",
                  n_requests, n_locks, (long long)(wait_clock_us() - begun_us) / 1000,
                  (allocated() - before) / n_requests);
    await_quiet(most_per_s);
    idle = commands_per_s(IDLE_MS);
    print_message("# idle: %lld commands a second, with %lld locks\n", (long long)idle,
                  (long long)n_locks);
    assert_true(idle <= most_per_s + most_per_s / 3 + 10);
    assert_true(idle > 0);
    assert_int_equal(ask_int("EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0"), 1);
    calls = calls_of("evalsha");
    begun_us = wait_clock_us();
    for (size_t i = 0; i < n_locks; i++) {
        CHECK_OK(rql_lock_release(held[i], NULL));
    }
    run_until(all_released, &at);
    print_message("# all granted and released: %lld a second, %lld commands in all\n",
                  (long long)((int64_t)n_requests * 1000000 / (wait_clock_us() - begun_us)),
                  (long long)(calls_of("evalsha") - calls));
    for (size_t i = 0; i < n_requests; i++) {
        CHECK_OK(crowd[i].status);
        CHECK_OK(crowd[i].release_status);
    }
    assert_int_equal(count_waiting(), 0);
}

/* Reconnecting with all of them, and then taking all of them back. */
static void a_crowd_survives_its_connections(void **state)
{
    size_t n_cancelled = 0;
    bool closed = false;

    (void)state;
    hold_all();
    ask_for_all();
    ask("CLIENT KILL TYPE pubsub");
    ask("CLIENT KILL TYPE normal SKIPME yes");
    run_for_ms(100);
    await_quiet((int64_t)n_locks * 1000 / 200);
    assert_int_equal(count_waiting(), n_requests);
    CHECK_OK(rql_loop_close(loop, on_closed, &closed, NULL));
    assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0);
    assert_true(closed);
    loop = NULL;
    for (size_t i = 0; i < n_requests; i++) {
        n_cancelled += crowd[i].status == RQL_CANCELLED;
        assert_int_equal(crowd[i].n_done, 1);
    }
    assert_int_equal(n_cancelled, n_requests);
    assert_int_equal(count_waiting(), 0);
    for (size_t i = 0; i < n_locks; i++) {
        CHECK_OK(rql_lock_release(held[i], NULL));
    }
}

static int start_crowd(void **state)
{
    const char *text = getenv("RQL_TEST_CROWD");
    long wanted = text ? strtol(text, NULL, 10) : USUAL;

    n_requests = wanted > 0 && wanted <= FULL ? (size_t)wanted : USUAL;
    n_requests = wait_slowness() > 1 ? n_requests / 10 : n_requests;
    n_locks = n_requests / PER_LOCK > 0 ? n_requests / PER_LOCK : 1;
    crowd = calloc(n_requests, sizeof *crowd);
    held = calloc(n_locks, sizeof(rql_lock *));
    return crowd && held ? start_server(state) : -1;
}

static int stop_crowd(void **state)
{
    free(crowd);
    free(held);
    return stop_server(state);
}

/* Nothing was sent yet: what is asked for last is the first that the server hears of. */
static void what_gives_back_goes_first(void **state)
{
    rql_lock *own = hold(client, "x");
    struct asked asked = asked_for();
    int status = INT_MAX;
    const rql_done done = {on_released_status, &status};

    (void)state;
    CHECK_OK(rql_lock_release(hold(client, "y"), NULL)); /* the server knows the scripts */
    asked.options.fail_fast = true;
    start_asking(&asked, "x");
    CHECK_OK(rql_release_async(loop, own, &done, NULL));
    await_asked(&asked);
    CHECK_OK(asked.status);
    CHECK_OK((rql_status)status);
    CHECK_OK(release_and_wait(asked.lock));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOOP_TEST(what_gives_back_goes_first),
        LOOP_TEST(a_crowd_waits_for_little),
        LOOP_TEST(a_crowd_survives_its_connections),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_crowd, stop_crowd);
}
