/* What waiting costs: while nothing happens, and when many begin at once. */

#include "async_fixture.h"

#include "threads.h"

#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    CROWD = 200,
    CROWD_MAX = 1000,
    NAME_SIZE = 24,
    QUIET_US = 50000,
    WINDOW_MS = 3400, /* in which whoever leads polls twice */
    WINDOWS = 4,
    WINDOW_POLLS = 3, /* of each that leads, at most */
    ROUNDS = 200,
    MANY = 32,
};

static struct one {
    char name[NAME_SIZE];
    pid_t tid;
    rql_status status;
} ones[CROWD_MAX];

static struct asked requests[CROWD_MAX];
static struct threads *threads;
static size_t n_locks; /* that the crowd waits for */
static rql_lock *held[CROWD_MAX];

/* RQL_TEST_CROWD: another number. */
static size_t crowd(void)
{
    const char *text = getenv("RQL_TEST_CROWD");
    size_t count = text ? strtoul(text, NULL, 10) : CROWD;

    return count < CROWD_MAX ? count : CROWD_MAX;
}

static void hold_all(size_t count)
{
    n_locks = count;
    for (size_t i = 0; i < crowd(); i++) {
        (void)snprintf(ones[i].name, NAME_SIZE, "x%zu", i % n_locks);
    }
    for (size_t i = 0; i < n_locks; i++) {
        held[i] = hold(other, ones[i].name);
    }
}

static void wait_in_thread(size_t index, void *data)
{
    struct one *one = &ones[index];
    rql_lock_options options = patient(client);
    rql_lock *lock = NULL;

    (void)data;
    one->tid = (pid_t)syscall(SYS_gettid);
    options.timeout_ms = RQL_FOREVER;
    one->status = rql_lock_acquire(client, one->name, &options, &lock, NULL);
    if (!one->status) {
        one->status = rql_lock_release(lock, NULL);
    }
}

/* All wait, and the server knows. */
static void begin_waiting(size_t count)
{
    hold_all(count);
    threads = threads_start(crowd(), wait_in_thread, NULL);
    for (size_t i = 0; i < n_locks; i++) {
        await_int((int64_t)(crowd() / n_locks), "ZCARD rql:lock_queue:x%zu", i);
    }
    await_int(1, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0");
}

static void end_waiting(void)
{
    for (size_t i = 0; i < n_locks; i++) {
        CHECK_OK(rql_lock_release(held[i], NULL));
    }
    threads_join(threads);
    for (size_t i = 0; i < crowd(); i++) {
        CHECK_OK(ones[i].status);
    }
}

/* How often one of those who wait has gone to sleep. */
static int64_t sleeps(void)
{
    int64_t total = 0;

    for (size_t i = 0; i < crowd(); i++) {
        char line[128];
        FILE *file;

        (void)snprintf(line, sizeof line, "/proc/self/task/%d/status", (int)ones[i].tid);
        file = fopen(line, "r");
        assert_non_null(file);
        while (fgets(line, sizeof line, file)) {
            if (strncmp(line, "voluntary_ctxt_switches:", 24) == 0) {
                total += strtoll(line + 24, NULL, 10);
            }
        }
        (void)fclose(file);
    }
    return total;
}

static bool is_past(void *data)
{
    return wait_clock_us() >= *(const int64_t *)data;
}

/* What the crowd does in a second in which nothing happens to it: the least of some windows, for
 * the machine may still have to do with its beginning. */
struct rates {
    double sleeps;
    double polls; /* and other scripts */
};

static struct rates idle_rates(const struct rates *enough)
{
    struct rates least = {1e9, 1e9};

    for (int i = 0; i < WINDOWS && (least.sleeps > enough->sleeps || least.polls > enough->polls);
         i++) {
        int64_t n_sleeps = sleeps();
        int64_t n_polls = calls_of("evalsha");
        int64_t begun_us = wait_clock_us();
        int64_t end_us = begun_us + WINDOW_MS * INT64_C(1000);
        struct rates now;

        (void)wait_until(is_past, &end_us, 10 * WINDOW_MS);
        now.sleeps = (double)(sleeps() - n_sleeps);
        now.polls = (double)(calls_of("evalsha") - n_polls);
        now.sleeps *= 1e6 / (double)(wait_clock_us() - begun_us);
        now.polls *= 1e6 / (double)(wait_clock_us() - begun_us);
        least = now.sleeps < least.sleeps ? now : least;
    }
    print_message("# %zu threads, %zu locks: %.1f sleeps/s, %.1f scripts/s\n", crowd(), n_locks,
                  least.sleeps, least.polls);
    return least;
}

TEST(who_waits_for_one_lock_sleeps)
{
    static const struct rates most = {.sleeps = 50, .polls = 2};
    struct rates rates;

    begin_waiting(1);
    rates = idle_rates(&most);
    assert_true(rates.sleeps <= most.sleeps);
    assert_true(rates.polls <= most.polls);
    end_waiting();
}

/* One poll each 5/3 s for each lock, and a few sleeps for each poll. */
TEST(who_leads_polls_seldom)
{
    struct rates rates;
    struct rates most;

    most.polls = (double)crowd() * WINDOW_POLLS * 1000 / WINDOW_MS;
    most.sleeps = most.polls * 5;
    begin_waiting(crowd());
    rates = idle_rates(&most);
    assert_true(rates.sleeps <= most.sleeps);
    assert_true(rates.polls <= most.polls);
    end_waiting();
}

/* A script that the server may not know yet is sent as a text: the first hand-overs inside a
 * client. What the test itself asks by a text comes before. */
static int64_t served(int64_t n_texts_before)
{
    return calls_of("evalsha") + calls_of("eval") - n_texts_before;
}

/* Nobody was woken for a while. */
static bool are_asleep(void *data)
{
    int64_t *last = data;
    int64_t now = sleeps();
    bool are = now == *last;

    *last = now;
    (void)usleep(QUIET_US);
    return are;
}

/* One of the client waits for a moment. */
static void be_listening_in_threads(void)
{
    n_locks = 1;
    (void)snprintf(ones[0].name, NAME_SIZE, "y");
    held[0] = hold(other, "y");
    threads = threads_start(1, wait_in_thread, NULL);
    await_int(1, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0");
    await_int(1, "ZCARD rql:lock_queue:y");
    CHECK_OK(rql_lock_release(held[0], NULL));
    threads_join(threads);
    CHECK_OK(ones[0].status);
}

/* Whoever leads may poll meanwhile. */
static int64_t polls_since(int64_t begun_us)
{
    return 10 + (wait_clock_us() - begun_us) / (WINDOW_MS * INT64_C(1000) / WINDOW_POLLS);
}

/* Then each is released: hand-overs may be told together. */
TEST(a_burst_in_threads_asks_once_each)
{
    int64_t calls;
    int64_t begun_us;
    int64_t texts;

    be_listening_in_threads();
    begun_us = wait_clock_us();
    calls = calls_of("evalsha");
    texts = calls_of("eval");
    hold_all(1);
    threads = threads_start(crowd(), wait_in_thread, NULL);
    await_int((int64_t)crowd(), "ZCARD rql:lock_queue:x0");
    assert_in_range(served(texts) - calls, (int64_t)crowd(),
                    (int64_t)crowd() + polls_since(begun_us));
    end_waiting();
    assert_in_range(served(texts) - calls, 0, 2 * (int64_t)crowd() + polls_since(begun_us));
}

/* The subscription cannot be opened at first. Each is refused once, enters the queue with its
 * second try, and asks once more when pushes have begun to come. Whoever leads asks after each
 * delay until then. */
TEST(a_burst_that_cannot_listen_yet_asks_three_times_each)
{
    rql_options options = client_options();
    rql_lock_options each;
    int64_t last = -1;
    int64_t begun_us;
    int64_t polls;
    int64_t calls;
    int64_t texts;

    rql_client_free(client);
    options.client_names = false; /* each login would bring a script */
    client = new_client_with(&options);
    CHECK_OK(rql_lock_release(hold(client, "connects"), NULL)); /* the script is known */
    hold_all(1);
    redis_server_hide(&server);
    calls = calls_of("evalsha");
    begun_us = wait_clock_us();
    threads = threads_start(crowd(), wait_in_thread, NULL);
    await_int((int64_t)crowd(), "ZCARD rql:lock_queue:x0");
    assert_true(wait_until(are_asleep, &last, 10000));
    each = patient(client);
    polls = 10 + (wait_clock_us() - begun_us) / 1000 / each.retry_delay_ms;
    texts = calls_of("eval");
    assert_in_range(served(texts) - calls, (int64_t)crowd(), 2 * (int64_t)crowd() + polls);
    redis_server_show(&server);
    await_int(1, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0");
    last = -1;
    assert_true(wait_until(are_asleep, &last, 10000));
    polls = 10 + (wait_clock_us() - begun_us) / 1000 / each.retry_delay_ms;
    texts = calls_of("eval");
    assert_in_range(served(texts) - calls, 2 * (int64_t)crowd(), 3 * (int64_t)crowd() + polls);
    end_waiting();
    assert_in_range(served(texts) - calls, 0, 4 * (int64_t)crowd() + polls);
}

static bool are_released(const void *data)
{
    size_t n = 0;

    (void)data;
    while (n < crowd() && requests[n].n_released > 0) {
        n++;
    }
    return n == crowd();
}

/* n_tries: of each, until it is in the queue. Each is handed the lock, and releases it. */
static void check_burst_on_a_loop(int n_tries)
{
    int64_t calls = calls_of("evalsha");
    int64_t texts;

    hold_all(1);
    for (size_t i = 0; i < crowd(); i++) {
        requests[i] = asked_for();
        requests[i].releases = true;
        start_asking(&requests[i], "x0");
    }
    run_until_int((int64_t)crowd(), "ZCARD rql:lock_queue:x0");
    run_until_int(1, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0");
    texts = calls_of("eval");
    CHECK_OK(rql_lock_release(held[0], NULL));
    run_until(are_released, NULL);
    assert_in_range(served(texts) - calls, (n_tries + 1) * (int64_t)crowd(),
                    (n_tries + 1) * (int64_t)crowd() + 10 * wait_slowness());
}

/* The second finds a loop that listens. */
TEST_BETWEEN(a_burst_on_a_loop_asks_twice_each_at_first_and_then_once, set_up_loop, tear_down_loop)
{
    check_burst_on_a_loop(2);
    check_burst_on_a_loop(1);
}

static void acquire_and_release(size_t index, void *data)
{
    rql_lock_options options = patient(client);

    (void)data;
    ones[index].status = RQL_OK;
    for (int i = 0; i < ROUNDS && !ones[index].status; i++) {
        rql_lock *lock = NULL;

        ones[index].status = rql_lock_acquire(client, "x", &options, &lock, NULL);
        if (!ones[index].status) {
            ones[index].status = rql_lock_release(lock, NULL);
        }
    }
}

/* Their client has never waited before. */
TEST(two_in_turn_ask_once_for_each_acquisition)
{
    int64_t calls = calls_of("evalsha");
    int64_t texts = calls_of("eval");

    threads_run(2, acquire_and_release, NULL);
    CHECK_OK(ones[0].status);
    CHECK_OK(ones[1].status);
    assert_in_range(served(texts) - calls, 0, 2 * 2 * ROUNDS + 10 * wait_slowness());
}

/* Hand-overs that stand behind each other unsent are told by one call. */
TEST(many_in_turn_tell_several_hand_overs_together)
{
    int64_t calls = calls_of("evalsha");
    int64_t texts = calls_of("eval");
    int64_t n_told;

    threads_run(MANY, acquire_and_release, NULL);
    for (size_t i = 0; i < MANY; i++) {
        CHECK_OK(ones[i].status);
    }
    n_told = served(texts) - calls;
    print_message("# %.2f scripts an acquisition\n", (double)n_told / (MANY * ROUNDS));
    assert_in_range(n_told, MANY * ROUNDS, 195 * MANY * ROUNDS / 100);
}

FIXTURE(start_server, stop_server, make_clients, free_clients);
