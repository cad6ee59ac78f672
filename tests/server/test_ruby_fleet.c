#include "clients.h"

#include "ruby.h"

#include <stdatomic.h>

/* Processes of the gem and of ours take one lock in turn. Ruby finds out by its polls; ours is
 * told, so a lock that Ruby has released does not lie idle while ours is next. */

enum { LONG_MS = 12000 };

enum { N_WORKERS = 4, RUN_S = 6, WORK_MS = 20, EVENTS_MAX = 4096, IDLE_MAX_PERCENT = 10 };

/* When a lock was had or given back, and by whom. */
struct event {
    int64_t at_us;
    int worker; /* Ruby's from N_WORKERS on */
    bool is_grant;
};

static struct {
    pthread_mutex_t mutex;
    struct event events[EVENTS_MAX];
    size_t n_events;
    int64_t until_us;
    rql_client *clients[N_WORKERS];
    pthread_t threads[2 * N_WORKERS];
    atomic_bool has_failed;
} field = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void note(int worker, bool is_grant)
{
    (void)pthread_mutex_lock(&field.mutex);
    if (field.n_events < EVENTS_MAX) {
        field.events[field.n_events++] = (struct event){wait_clock_us(), worker, is_grant};
    }
    (void)pthread_mutex_unlock(&field.mutex);
}

static void *work_in_ruby(void *data)
{
    int number = (int)(intptr_t)data;
    struct ruby ruby;

    ruby_open(&ruby, number);
    while (wait_clock_us() < field.until_us && ruby_lock(&ruby, "x", 60000, LONG_MS)) {
        note(number, true);
        ruby_sleep_ms(WORK_MS);
        note(number, false);
        ruby_release(&ruby, "x");
    }
    ruby_close(&ruby);
    return NULL;
}

static void *work_in_c(void *data)
{
    int number = (int)(intptr_t)data;
    rql_client *own = field.clients[number];
    rql_lock_options options = patient(own);

    while (wait_clock_us() < field.until_us) {
        rql_lock *lock = NULL;
        rql_status status = rql_lock_acquire(own, "x", &options, &lock, NULL);

        note(number, true);
        ruby_sleep_ms(WORK_MS);
        note(number, false);
        if (status || rql_lock_release(lock, NULL)) {
            field.has_failed = true;
        }
    }
    return NULL;
}

static bool is_ruby(const struct event *event)
{
    return event->worker >= N_WORKERS;
}

/* One holds the lock at a time: what is noted is within each hold. */
static void check_nobody_overlaps(void)
{
    for (size_t i = 0; i < field.n_events; i++) {
        assert_int_equal(field.events[i].is_grant, i % 2 == 0);
        assert_true(i % 2 == 0 || field.events[i].worker == field.events[i - 1].worker);
    }
}

static void check_all_have_their_share(void)
{
    int64_t counts[2 * N_WORKERS] = {0};

    for (size_t i = 0; i < field.n_events; i += 2) {
        counts[field.events[i].worker]++;
    }
    for (int i = 0; i < 2 * N_WORKERS; i++) {
        assert_true(counts[i] * 2 * N_WORKERS * 2 >= (int64_t)field.n_events / 2);
    }
}

/* From a release to the next grant; of those from one kind to the other. */
static int64_t idle_between(bool from_ruby, bool to_ruby, int64_t *count)
{
    int64_t idle_us = 0;

    *count = 0;
    for (size_t i = 1; i < field.n_events; i++) {
        const struct event *end = &field.events[i - 1];
        const struct event *begin = &field.events[i];

        if (!end->is_grant && begin->is_grant && is_ruby(end) == from_ruby &&
            is_ruby(begin) == to_ruby) {
            idle_us += begin->at_us - end->at_us;
            ++*count;
        }
    }
    return idle_us;
}

static void run_both(void)
{
    field.n_events = 0;
    field.has_failed = false;
    field.until_us = wait_clock_us() + RUN_S * INT64_C(1000000);
    for (int i = 0; i < N_WORKERS; i++) {
        field.clients[i] = new_client();
        assert_int_equal(pthread_create(&field.threads[i], NULL, work_in_c, (void *)(intptr_t)i),
                         0);
        assert_int_equal(pthread_create(&field.threads[N_WORKERS + i], NULL, work_in_ruby,
                                        (void *)(intptr_t)(N_WORKERS + i)),
                         0);
    }
    for (int i = 0; i < 2 * N_WORKERS; i++) {
        assert_int_equal(pthread_join(field.threads[i], NULL), 0);
    }
    for (int i = 0; i < N_WORKERS; i++) {
        field.clients[i] = rql_client_free(field.clients[i]);
    }
}

static void four_of_each_hand_over_without_idling(void **state)
{
    static const char *const kinds[] = {"C", "Ruby"};
    int64_t wall_us = wait_clock_us();
    int64_t counts[2][2];
    int64_t idle_us[2][2];

    (void)state;
    run_both();
    wall_us = wait_clock_us() - wall_us;
    for (int from = 0; from < 2; from++) {
        for (int to = 0; to < 2; to++) {
            idle_us[from][to] = idle_between(from == 1, to == 1, &counts[from][to]);
            print_message("# %s to %s: %lld times, idle for %lld.%lld %% of the time\n",
                          kinds[from], kinds[to], (long long)counts[from][to],
                          (long long)(100 * idle_us[from][to] / wall_us),
                          (long long)(1000 * idle_us[from][to] / wall_us % 10));
        }
    }
    assert_false(field.has_failed);
    check_nobody_overlaps();
    check_all_have_their_share();
    assert_true(counts[1][0] > 0);
    assert_true(100 * idle_us[1][0] / wall_us < IDLE_MAX_PERCENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(four_of_each_hand_over_without_idling),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
