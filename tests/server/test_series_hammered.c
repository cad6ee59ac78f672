#include "series_fixture.h"

#include "base/random.h"

/* Series beside a crowd that takes the same locks one by one, and beside series of the gem's:
 * nobody starves, nobody stalls. RQL_TEST_LONG: also with holds of three seconds, for two minutes.
 */

enum {
    N_LOCKS = 8,
    N_CLIENTS = 4,
    N_THREADS = 16,
    WORKERS_MAX = N_THREADS + 1,
    TTL_MS = 5000,
    RUN_S = 4,
    LONG_RUN_S = 100,
    STALL_US = 1500000,
    LONG_WAIT_US = 40000000,
};

static const char *const all[N_LOCKS] = {"a", "b", "c", "d", "e", "f", "g", "h"};

/* Takes and gives back for as long as the field is open. */
struct worker {
    rql_client *client;
    const char *const *names; /* of a series; NULL: one lock of all, at random */
    size_t n_names;
    rql_series_mode mode;
    int64_t hold_us;
    bool holds_another; /* lock all the time, which nobody else wants */
    pthread_t thread;
    int64_t n_taken;
    int64_t n_lost;
    int64_t n_failed;
    int64_t longest_us;
    int64_t sum_us;
};

static struct {
    struct worker workers[WORKERS_MAX];
    size_t n_workers;
    rql_client *clients[N_CLIENTS];
    int64_t until_us;
} field;

static void sleep_us(int64_t us)
{
    const struct timespec time = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

    (void)nanosleep(&time, NULL);
}

static void note_wait(struct worker *self, int64_t begun_us)
{
    int64_t took_us = wait_clock_us() - begun_us;

    self->n_taken++;
    self->sum_us += took_us;
    self->longest_us = took_us > self->longest_us ? took_us : self->longest_us;
}

static void note_end(struct worker *self, rql_status status)
{
    self->n_lost += status == RQL_NOT_HELD;
    self->n_failed += status < 0;
}

static void take_one(struct worker *self)
{
    rql_lock_options options = patient(self->client);
    rql_lock *lock = NULL;
    int64_t begun_us = wait_clock_us();

    options.ttl_ms = TTL_MS;
    options.timeout_ms = RQL_FOREVER;
    options.queue_ttl_ms = RQL_FOREVER;
    if (rql_lock_acquire(self->client, all[rqli_random_below(N_LOCKS)], &options, &lock, NULL)) {
        self->n_failed++;
        return;
    }
    note_wait(self, begun_us);
    sleep_us(self->hold_us);
    note_end(self, rql_lock_release(lock, NULL));
}

static void take_several(struct worker *self)
{
    struct wish wish;
    rql_series *series = NULL;
    int64_t begun_us = wait_clock_us();

    wish_for(&wish, self->client, self->names, self->n_names);
    wish.options.mode = self->mode;
    wish.lock.ttl_ms = TTL_MS;
    wish.lock.timeout_ms = RQL_FOREVER;
    wish.lock.queue_ttl_ms = RQL_FOREVER;
    if (rql_series_acquire(self->client, &wish.options, &series, NULL)) {
        self->n_failed++;
        return;
    }
    note_wait(self, begun_us);
    sleep_us(self->hold_us);
    note_end(self, rql_series_release(series, NULL, NULL));
}

static rql_lock *take_another(struct worker *self)
{
    rql_lock_options options = patient(self->client);
    rql_lock *lock = NULL;
    char name[32];

    (void)snprintf(name, sizeof name, "of worker %td", self - field.workers);
    self->n_failed += rql_lock_acquire(self->client, name, &options, &lock, NULL) != RQL_OK;
    return lock;
}

static void *work(void *data)
{
    struct worker *self = data;
    rql_lock *another = self->holds_another ? take_another(self) : NULL;

    while (wait_clock_us() < field.until_us) {
        (self->names ? take_several : take_one)(self);
    }
    (void)rql_lock_release(another, NULL);
    return NULL;
}

static void add(struct worker worker)
{
    worker.client = field.clients[field.n_workers % N_CLIENTS];
    field.workers[field.n_workers++] = worker;
}

static void add_series(const char *const *names, size_t count, rql_series_mode mode,
                       int64_t hold_us)
{
    add((struct worker){.names = names, .n_names = count, .mode = mode, .hold_us = hold_us});
}

static void run_all(int64_t run_s)
{
    field.until_us = wait_clock_us() + run_s * 1000000;
    for (size_t i = 0; i < field.n_workers; i++) {
        assert_int_equal(pthread_create(&field.workers[i].thread, NULL, work, &field.workers[i]),
                         0);
    }
    for (size_t i = 0; i < field.n_workers; i++) {
        assert_int_equal(pthread_join(field.workers[i].thread, NULL), 0);
    }
}

/* Of the workers from `first` on. */
static void tell(const char *text, size_t first, size_t end)
{
    struct worker all_of_them = {.n_taken = 0};

    for (size_t i = first; i < end; i++) {
        const struct worker *one = &field.workers[i];

        all_of_them.n_taken += one->n_taken;
        all_of_them.sum_us += one->sum_us;
        all_of_them.longest_us =
            one->longest_us > all_of_them.longest_us ? one->longest_us : all_of_them.longest_us;
    }
    print_message("# %s: %lld times, %lld us on average, %lld at most\n", text,
                  (long long)all_of_them.n_taken,
                  (long long)(all_of_them.sum_us / (all_of_them.n_taken + !all_of_them.n_taken)),
                  (long long)all_of_them.longest_us);
}

static void check_all_worked(int64_t longest_us)
{
    for (size_t i = 0; i < field.n_workers; i++) {
        assert_int_equal(field.workers[i].n_failed, 0);
        assert_int_equal(field.workers[i].n_lost, 0);
        assert_true(field.workers[i].n_taken > 0);
        assert_true(field.workers[i].longest_us < longest_us);
    }
}

static int set_up(void **state)
{
    (void)empty_server(state);
    field.n_workers = 0;
    for (size_t i = 0; i < N_CLIENTS; i++) {
        field.clients[i] = new_client();
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_CLIENTS; i++) {
        field.clients[i] = rql_client_free(field.clients[i]);
    }
    return 0;
}

static void hammer(int64_t hold_us, int64_t run_s, int64_t longest_us, bool all_hold_another)
{
    char text[TEXT_SIZE];

    for (int i = 0; i < N_THREADS; i++) {
        add((struct worker){.hold_us = hold_us, .holds_another = all_hold_another});
    }
    add_series(all, N_LOCKS, RQL_SERIES_ATOMIC, 1000);
    run_all(run_s);
    (void)snprintf(text, sizeof text, "holds of %lld ms: single locks", (long long)hold_us / 1000);
    tell(text, 0, N_THREADS);
    tell("a series of all eight", N_THREADS, N_THREADS + 1);
    check_all_worked(longest_us);
}

static void a_series_of_all_is_had_beside_short_holds(void **state)
{
    (void)state;
    hammer(1000, RUN_S, STALL_US * wait_slowness(), false);
}

static void a_series_of_all_is_had_beside_long_holds(void **state)
{
    (void)state;
    if (getenv("RQL_TEST_LONG")) {
        hammer(3000000, LONG_RUN_S, LONG_WAIT_US, false);
    } else {
        hammer(300000, 2 * RUN_S, LONG_WAIT_US / 4, false);
    }
}

/* They may be parts of a circle with the series, for all that is known of them, and are not. */
static void a_series_of_all_is_had_beside_holders_of_other_locks(void **state)
{
    (void)state;
    hammer(1000, RUN_S, LONG_WAIT_US / 4, true);
}

/* Each holds what another waits for at some time. */
static void atomic_series_and_one_of_the_gems_do_not_stall(void **state)
{
    static const char *const ab[] = {"a", "b"};
    static const char *const bc[] = {"b", "c"};

    (void)state;
    add_series(ab, 2, RQL_SERIES_ATOMIC, 1000);
    add_series(bc, 2, RQL_SERIES_ATOMIC, 1000);
    add_series(cba, 3, RQL_SERIES_GEM, 1000);
    run_all(RUN_S);
    tell("two atomic series", 0, 2);
    tell("one of the gem's", 2, 3);
    check_all_worked(STALL_US);
}

/* They take turns as if there were no others. */
static void series_alone_hand_on(void **state)
{
    static const char *const cde[] = {"c", "d", "e"};
    static const char *const dcb[] = {"d", "c", "b"};
    static const char *const eda[] = {"e", "d", "a"};

    (void)state;
    add_series(abc, 3, RQL_SERIES_ATOMIC, 0);
    add_series(cde, 3, RQL_SERIES_ATOMIC, 0);
    add_series(dcb, 3, RQL_SERIES_ATOMIC, 0);
    add_series(eda, 3, RQL_SERIES_ATOMIC, 0);
    run_all(RUN_S);
    tell("four series alone", 0, 4);
    check_all_worked(STALL_US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(a_series_of_all_is_had_beside_short_holds),
        TEST(a_series_of_all_is_had_beside_long_holds),
        TEST(a_series_of_all_is_had_beside_holders_of_other_locks),
        TEST(atomic_series_and_one_of_the_gems_do_not_stall),
        TEST(series_alone_hand_on),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
