#include "async_fixture.h"

/* Each part of the library once: for valgrind, which sees no scenario. And what a call refuses that
 * no scenario can say: pointers that are NULL. */

enum { TTL_MS = 60000 };

static char many_names[RQL_SERIES_MAX + 1][8];
static const char *many[RQL_SERIES_MAX + 1];

static rql_series_options series_of(const char *const *names, size_t count)
{
    rql_series_options options;

    rql_series_options_init(&options);
    options.names = names;
    options.n_names = count;
    return options;
}

/* ---- once ---- */

static void a_lock_by_each_of_its_calls(void **state)
{
    const rql_meta meta[] = {{"colour", "blue"}, {"shape", "round"}};
    rql_lock_options options = patient(client);
    rql_unlock_result result;
    rql_stats stats;
    rql_lock *inner;
    rql_lock *lock;
    int fd;

    (void)state;
    assert_int_equal(rql_lock_options_size(), options.size);
    assert_true(rql_options_size() > 0);
    options.meta = meta;
    options.n_meta = 2;
    CHECK_OK(rql_lock_options_set(&options, "auto-extend", "true", NULL));
    CHECK_OK(rql_lock_options_set_lost(&options, NULL, NULL, NULL));
    CHECK_OK(rql_client_connect(client, NULL));
    CHECK_OK(rql_lock_try(client, "x", &options, &lock, NULL));
    options.conflict_strategy = RQL_EXTENDABLE_WORK_THROUGH;
    inner = hold_with(client, "x", &options);
    CHECK_OK(rql_lock_lost_fd(lock, &fd, NULL));
    CHECK_OK(rql_lock_verify(inner, NULL));
    CHECK_OK(rql_lock_release(inner, NULL));
    CHECK_OK(rql_lock_extend(lock, 2 * TTL_MS, NULL));
    CHECK_OK(rql_force_extend(other, "x", TTL_MS, NULL));
    CHECK_OK(rql_extend_by_secret(other, "x", rql_lock_secret(lock), TTL_MS, NULL));
    CHECK_OK(rql_release_by_secret(other, "x", rql_lock_secret(lock), NULL));
    assert_int_equal(rql_lock_release(lock, NULL), RQL_NOT_HELD);
    rql_lock_forget(hold(client, "x"));
    CHECK_OK(rql_force_unlock(other, "x", &result, NULL));
    assert_true(result.lock_released);
    CHECK_OK(rql_check_until_free(client, "x", NULL, NULL));
    CHECK_OK(rql_client_stats(client, &stats));
    assert_int_equal(stats.acquisitions, 2);
    CHECK_QUEUE_IS_EMPTY("x");
}

/* The handle stays as it is, whatever is done to it. */
static void on_lost_late(rql_lock *lock, void *data)
{
    int fd = -1;

    if (strcmp(rql_lock_describe(lock).name, "x") == 0 && rql_lock_get_state(lock) == RQL_GONE &&
        rql_lock_lost_fd(lock, &fd, NULL) == RQL_OK &&
        rql_lock_extend(lock, TTL_MS, NULL) == RQL_NOT_HELD &&
        rql_lock_release(lock, NULL) == RQL_NOT_HELD && !rql_lock_forget(lock)) {
        atomic_store((atomic_bool *)data, true);
    }
}

static bool loss_was_told(void *data)
{
    return atomic_load((atomic_bool *)data);
}

enum { TRIES = 10 };

static void a_lazy_release_that_comes_too_late(void **state)
{
    rql_lock_options options = patient(client);
    rql_unlock_result result;
    atomic_bool was_told = false;
    rql_status status = RQL_NOT_HELD;
    rql_stats stats;

    (void)state;
    options.lazy_release = true;
    options.on_lost = on_lost_late;
    options.user_data = &was_told;
    /* Where the thread that looks after it has not begun to run, a release waits for the server. */
    for (int i = 0; i < TRIES && status == RQL_NOT_HELD; i++) {
        rql_lock *lock = hold_with(client, "x", &options);

        CHECK_OK(rql_force_unlock(other, "x", &result, NULL));
        status = rql_lock_release(lock, NULL);
    }
    assert_int_equal(status, RQL_OK);
    assert_true(wait_until(loss_was_told, &was_told, AWAIT_MS));
    CHECK_OK(rql_client_stats(client, &stats));
    assert_int_equal(stats.lost_releases, 1);
    CHECK_OK(rql_lock_release(hold_with(client, "x", &options), NULL));
    expect_nothing_left("x");
}

static void a_lock_that_is_handed_over(void **state)
{
    struct waiter waiter = {
        .client = client, .name = "x", .options = patient(client), .releases = true};
    rql_lock_options options = patient(client);
    rql_lock *held = hold(other, "x");
    rql_refusal refusal = {0};
    rql_lock *lock;

    (void)state;
    options.timeout_ms = 0;
    options.detailed_acq_timeout_error = true;
    options.refusal = &refusal;
    assert_true(has_timed_out(rql_lock_acquire(client, "x", &options, &lock, NULL)));
    rql_refusal_clear(&refusal);
    waiter_start_as(&waiter, 1);
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&waiter));
    CHECK_QUEUE_IS_EMPTY("x");
}

static void series_of_all_kinds(void **state)
{
    static const char *const names[] = {"a", "b", "c"};
    rql_series_options options = series_of(names, 3);
    rql_series_result result;

    (void)state;
    options.result = &result;
    for (options.mode = RQL_SERIES_ATOMIC; options.mode <= RQL_SERIES_SORTED; options.mode++) {
        rql_series *series = NULL;

        CHECK_OK(rql_series_acquire(client, &options, &series, NULL));
        CHECK_OK(rql_series_extend(series, TTL_MS, NULL));
        CHECK_OK(rql_series_release(series, &result, NULL));
        assert_int_equal(result.n_acquired, 3);
    }
    assert_int_equal(ask_int("EXISTS rql:lock:a rql:lock:b rql:lock:c"), 0);
}

static bool is_given_back(const void *data)
{
    return ask_int("EXISTS rql:lock:a rql:lock:b") == 0 && *(const int *)data != INT_MAX;
}

static void on_series(rql_status status, rql_series *series, const rql_error *error, void *data)
{
    const rql_done done = {on_released_status, data};

    (void)error;
    CHECK_OK(status);
    CHECK_OK(rql_series_release_async(loop, series, NULL, &done, NULL));
}

static void locks_and_series_on_a_loop(void **state)
{
    static const char *const names[] = {"a", "b"};
    rql_series_options options = series_of(names, 2);
    rql_lock *held = hold(other, "x");
    struct asked asked = asked_for();
    char acquirer[RQL_ID_SIZE];
    int status = INT_MAX;
    rql_series_acquiring what = {.done = on_series, .user_data = &status};
    const rql_done done = {on_released_status, &status};

    (void)state;
    start_asking(&asked, "x");
    run_until_int(1, "ZCARD rql:lock_queue:x");
    CHECK_OK(rql_request_fault(asked.what.request, NULL));
    CHECK_OK(rql_lock_release(held, NULL));
    await_asked(&asked);
    CHECK_OK(asked.status);
    CHECK_OK(rql_extend_async(loop, asked.lock, 2 * TTL_MS, &done, NULL));
    run_until(is_told, &status);
    CHECK_OK(status);
    CHECK_OK(release_and_wait(asked.lock));
    status = INT_MAX;
    CHECK_OK(rql_series_acquire_async(loop, &options, &what, NULL));
    run_until(is_given_back, &status);
    CHECK_OK(status);
    held = hold(client, "a"); /* its handle was used before, for the loop */
    assert_string_equal(rql_lock_describe(held).acq_id,
                        rql_current_acquirer_id(client, 0, acquirer));
    CHECK_OK(rql_lock_release(held, NULL));
}

static void looks_and_sweeps(void **state)
{
    rql_lock *held = hold(client, "x");
    rql_lock_info_list *locks = NULL;
    rql_queue_info_list *queues = NULL;
    rql_text_list *texts = NULL;
    rql_sweep_result result;
    rql_zombies *zombies = NULL;
    rql_swarm *swarm = NULL;

    (void)state;
    ask("ZADD rql:lock_queue:x 1 rql:acq:1/2/3/4/0123456789abcdef");
    CHECK_OK(rql_list_locks_info(client, &locks, NULL));
    CHECK_OK(rql_list_queues_info(client, &queues, NULL));
    CHECK_OK(rql_list_keys(client, &texts, NULL));
    assert_int_equal(locks->count + queues->count, 2);
    locks = rql_lock_info_list_free(locks);
    queues = rql_queue_info_list_free(queues);
    texts = rql_text_list_free(texts);
    CHECK_OK(rql_swarm_start(client, NULL, &swarm, NULL));
    CHECK_OK(rql_flush_zombies(client, NULL, &zombies, NULL));
    zombies = rql_zombies_free(zombies);
    swarm = rql_swarm_free(swarm);
    CHECK_OK(rql_clear_current_locks(other, 0, NULL, &result, NULL));
    CHECK_OK(rql_clear_dead_requests(client, NULL, &result, NULL, NULL));
    CHECK_OK(rql_clear_locks(client, NULL, &result, NULL));
    assert_int_equal(result.rel_key_cnt, 1);
    assert_int_equal(rql_lock_release(held, NULL), RQL_NOT_HELD);
}

/* ---- calls that block, aside ---- */

struct listing {
    rql_text_list *locks;
    pthread_t thread;
    int n_done;
    rql_status status;
    char message[RQL_ERROR_MESSAGE_SIZE];
};

static rql_status list_locks(void *data, rql_error *error)
{
    struct listing *listing = data;

    listing->thread = pthread_self();
    return rql_list_locks(client, &listing->locks, error);
}

static rql_status list_nothing(void *data, rql_error *error)
{
    (void)data;
    return rql_list_locks(NULL, NULL, error);
}

static void on_listed(rql_status status, const rql_error *error, void *data)
{
    struct listing *listing = data;

    check_callback();
    listing->status = status;
    (void)snprintf(listing->message, sizeof listing->message, "%s", error ? error->message : "");
    listing->n_done++;
}

static bool is_listed(const void *data)
{
    return ((const struct listing *)data)->n_done > 0;
}

static void a_call_that_blocks_runs_aside(void **state)
{
    rql_lock *lock = hold(client, "x");
    struct listing listing = {0};
    rql_work work = {list_locks, on_listed, &listing};

    (void)state;
    CHECK_OK(rql_run_async(loop, &work, NULL));
    run_until(is_listed, &listing);
    CHECK_OK(listing.status);
    assert_false(pthread_equal(listing.thread, pthread_self()));
    assert_int_equal(listing.locks->count, 1);
    rql_text_list_free(listing.locks);
    listing = (struct listing){0};
    work.run = list_nothing;
    CHECK_OK(rql_run_async(loop, &work, NULL));
    run_until(is_listed, &listing);
    assert_int_equal(listing.status, RQL_E_INVALID);
    assert_true(listing.message[0] != '\0');
    CHECK_OK(release_and_wait(lock));
}

/* ---- nonsense ---- */

#define REFUSED(call) assert_int_equal(call, RQL_E_INVALID)

static void refuse_with_meta(const rql_meta *meta, size_t count)
{
    rql_lock_options options = patient(client);
    rql_lock *lock = NULL;

    options.meta = meta;
    options.n_meta = count;
    REFUSED(rql_lock_acquire(client, "x", &options, &lock, NULL));
}

static void locks_that_make_no_sense_are_refused(void **state)
{
    rql_lock *lock = NULL;
    rql_error error = {0};

    (void)state;
    REFUSED(rql_lock_acquire(NULL, "x", NULL, &lock, &error));
    REFUSED(rql_lock_acquire(client, NULL, NULL, &lock, &error));
    REFUSED(rql_lock_acquire(client, "x", NULL, NULL, &error));
    REFUSED(rql_lock_try(NULL, "x", NULL, &lock, &error));
    REFUSED(rql_lock_try(client, "x", NULL, NULL, &error));
    REFUSED(rql_lock_extend(NULL, 1, &error));
    REFUSED(rql_lock_verify(NULL, &error));
    REFUSED(rql_release_by_secret(client, "x", NULL, NULL));
    refuse_with_meta((const rql_meta[]){{NULL, "v"}}, 1);
    refuse_with_meta((const rql_meta[]){{"m", NULL}}, 1);
    refuse_with_meta((const rql_meta[]){{"m", "1"}, {"n", "2"}, {"m", "3"}}, 3);
    assert_null(lock);
    assert_int_equal(rql_lock_get_state(NULL), RQL_GONE);
    assert_int_equal(rql_lock_remaining_ms(NULL), 0);
    assert_int_equal(rql_lock_token(NULL), 0);
    assert_null(rql_lock_secret(NULL));
    assert_null(rql_lock_describe(NULL).name);
    assert_null(rql_lock_node(NULL));
    assert_int_equal(ask_int("DBSIZE"), 0);
}

static void series_that_make_no_sense_are_refused(void **state)
{
    static const char *const none[] = {"a", NULL};
    const rql_series_options bad[] = {series_of(none, 2), series_of(none, 0), series_of(NULL, 3),
                                      series_of(many, RQL_SERIES_MAX + 1)};
    rql_series_acquiring what = {.done = on_series};
    rql_series_options good = series_of(none, 1);
    rql_series_block block = {.run = NULL};
    rql_series *series = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        REFUSED(rql_series_acquire(client, &bad[i], &series, NULL));
        REFUSED(rql_series_acquire_async(loop, &bad[i], &what, NULL));
    }
    REFUSED(rql_series_acquire(client, NULL, NULL, NULL));
    REFUSED(rql_with_series(client, &good, &block, NULL));
    good.mode = (rql_series_mode)7;
    REFUSED(rql_series_acquire(client, &good, &series, NULL));
    assert_int_equal(rql_series_get_state(NULL), RQL_GONE);
    assert_int_equal(rql_series_remaining_ms(NULL), 0);
    assert_int_equal(rql_series_count(NULL), 0);
    assert_null(rql_series_lock(NULL, 0));
    assert_int_equal(ask_int("DBSIZE"), 0);
}

static void looks_and_sweeps_that_make_no_sense_are_refused(void **state)
{
    const rql_sweep_owner nobody = {.acq_id = "a", .hst_id = NULL};
    rql_refusal refusal = {.reason = RQL_TIMED_OUT, .tries = 3};
    rql_sweep_result result = {.rel_key_cnt = 77};
    rql_lock_info *info = NULL;
    bool answer = true;

    (void)state;
    REFUSED(rql_clear_locks(NULL, NULL, &result, NULL));
    REFUSED(rql_clear_dead_requests(NULL, NULL, NULL, NULL, NULL));
    REFUSED(rql_clear_current_locks(NULL, 0, NULL, NULL, NULL));
    REFUSED(rql_clear_locks_of(client, NULL, NULL, NULL, NULL));
    REFUSED(rql_clear_locks_of(client, &nobody, NULL, &result, NULL));
    REFUSED(rql_is_locked(client, NULL, &answer, NULL));
    REFUSED(rql_is_locked(NULL, "a", &answer, NULL));
    REFUSED(rql_get_lock_info(client, "a", NULL, NULL));
    REFUSED(rql_list_keys(client, NULL, NULL));
    REFUSED(rql_swarm_start(client, NULL, NULL, NULL));
    assert_int_equal(result.rel_key_cnt, 77);
    assert_true(answer);
    assert_null(rql_lock_info_free(NULL));
    assert_null(rql_queue_info_free(NULL));
    assert_null(rql_lock_info_list_free(NULL));
    assert_null(rql_queue_info_list_free(NULL));
    assert_null(rql_text_list_free(NULL));
    assert_null(rql_swarm_free(NULL));
    rql_swarm_stop(NULL);
    rql_refusal_clear(NULL);
    ask("HSET rql:lock:a acq_id a hst_id h ts 1.5 ini_ttl 9000");
    CHECK_OK(rql_get_lock_info(client, "a", &info, NULL));
    refusal.holder = info;
    for (int i = 0; i < 2; i++) {
        rql_refusal_clear(&refusal);
        assert_null(refusal.holder);
        assert_int_equal(refusal.tries, 0);
    }
}

static void calls_of_a_loop_that_make_no_sense_are_refused(void **state)
{
    rql_acquiring nobody = {0};
    rql_acquiring what = {.done = on_asked};
    rql_series_acquiring no_series = {0};
    static const char *const names[] = {"a", "b"};
    rql_series_options series = series_of(names, 2);
    rql_lock_options options = patient(client);
    rql_lock *foreign = hold(other, "x");
    rql_series *foreign_series = NULL;
    rql_error error = {0};
    rql_work work = {0};
    rql_async_block block = {0};
    rql_loop *made = NULL;

    (void)state;
    CHECK_OK(rql_series_acquire(other, &series, &foreign_series, NULL));
    REFUSED(rql_loop_open(NULL, client, &uv, NULL));
    REFUSED(rql_loop_open(&made, NULL, &uv, NULL));
    REFUSED(rql_loop_close(NULL, NULL, NULL, NULL));
    REFUSED(rql_acquire_async(NULL, "x", NULL, &what, NULL));
    REFUSED(rql_acquire_async(loop, "", NULL, &what, NULL));
    REFUSED(rql_acquire_async(loop, "x", NULL, NULL, NULL));
    REFUSED(rql_acquire_async(loop, "x", NULL, &nobody, NULL));
    REFUSED(rql_lock_options_set(&options, "ttl_ms", "0", &error));
    options.ttl_ms = 0;
    REFUSED(rql_acquire_async(loop, "x", &options, &what, NULL));
    REFUSED(rql_series_acquire_async(loop, &series, &no_series, NULL));
    REFUSED(rql_request_cancel(NULL));
    REFUSED(rql_request_fault(NULL, &error));
    assert_string_equal(error.message, "fault: no request");
    REFUSED(rql_release_async(loop, foreign, NULL, NULL));
    REFUSED(rql_series_release_async(loop, foreign_series, NULL, NULL, NULL));
    CHECK_OK(release_and_wait(NULL));
    REFUSED(rql_extend_async(loop, foreign, 1000, NULL, NULL));
    REFUSED(rql_extend_async(loop, foreign, 0, NULL, NULL));
    REFUSED(rql_extend_async(loop, NULL, 1000, NULL, NULL));
    REFUSED(rql_with_async(loop, "x", NULL, &block, NULL));
    REFUSED(rql_hold_end(NULL, 0));
    REFUSED(rql_run_async(loop, &work, NULL));
    CHECK_OK(rql_lock_verify(foreign, NULL));
    CHECK_OK(rql_lock_release(foreign, NULL));
    CHECK_OK(rql_series_release(foreign_series, NULL, NULL));
}

static void a_program_of_another_age_gets_the_counters_it_knows(void **state)
{
    struct {
        rql_stats stats;
        char more[64];
    } longer;

    char shorter[offsetof(rql_stats, hand_overs)];
    rql_stats *older = (rql_stats *)&longer;

    (void)state;
    CHECK_OK(rql_lock_release(hold(client, "x"), NULL));
    memset(&longer, 0xA5, sizeof longer);
    CHECK_OK(rql_client_stats_sized(client, &longer.stats, sizeof shorter));
    assert_int_equal(older->size, sizeof shorter);
    assert_int_equal(older->acquisitions, 1);
    assert_int_not_equal(older->hand_overs, 0); /* not touched */
    CHECK_OK(rql_client_stats_sized(client, &longer.stats, sizeof longer));
    assert_int_equal(longer.stats.size, sizeof longer.stats);
    assert_int_equal(longer.more[63], 0);
    REFUSED(rql_client_stats(NULL, older));
    REFUSED(rql_client_stats_sized(client, NULL, sizeof *older));
    REFUSED(rql_client_stats_sized(client, older, 1));
}

/* The same of what a server says of itself. */
static void the_server_by_programs_of_other_versions(void **state)
{
    struct {
        rql_server_info info;
        char more[64];
    } longer;

    char shorter[offsetof(rql_server_info, round_trip_us)];
    rql_server_info *older = (rql_server_info *)&longer;

    (void)state;
    memset(&longer, 0xA5, sizeof longer);
    CHECK_OK(rql_client_ping_sized(client, older, sizeof shorter, NULL));
    assert_int_equal(older->size, sizeof shorter);
    assert_string_equal(older->role, "master");
    assert_int_equal((uint64_t)older->round_trip_us, 0xA5A5A5A5A5A5A5A5); /* not touched */
    CHECK_OK(rql_client_ping_sized(client, &longer.info, sizeof longer, NULL));
    assert_int_equal(longer.info.size, sizeof longer.info);
    assert_in_range(longer.info.round_trip_us, 1, INT32_MAX);
    assert_int_equal(longer.more[63], 0);
    REFUSED(rql_client_ping(NULL, older, NULL));
    REFUSED(rql_client_ping_sized(client, NULL, sizeof *older, NULL));
    REFUSED(rql_client_ping_sized(client, older, 1, NULL));
    assert_int_equal(longer.info.partitions, -1);
    CHECK_OK(rql_client_ping_node_sized(client, 0, &longer.info, sizeof longer, NULL));
    assert_int_equal(rql_client_ping_node(client, 1, &longer.info, NULL), RQL_NOT_FOUND);
    REFUSED(rql_client_ping_node(NULL, 0, older, NULL));
}

static const rql_check *check_of(const rql_report *report, const char *id)
{
    for (size_t i = 0; i < report->count; i++) {
        if (strcmp(report->check[i]->id, id) == 0) {
            return report->check[i];
        }
    }
    fail_msg("no check %s", id);
    abort(); /* the compiler does not know that nobody comes here */
}

static void a_server_is_diagnosed(void **state)
{
    rql_diagnose_options options;
    rql_report *report = NULL;

    (void)state;
    CHECK_OK(rql_diagnose(client, NULL, &report, NULL));
    assert_string_equal(report->server->role, "master");
    assert_int_equal(report->n_failures, 0);
    assert_string_equal(check_of(report, "use.lock")->group, "use");
    assert_int_equal(check_of(report, "use.lock")->level, RQL_CHECK_OK);
    assert_string_equal(check_of(report, "mem.policy")->found[0].text, "noeviction");
    assert_null(rql_report_free(report));
    assert_null(rql_report_free(NULL));
    rql_diagnose_options_init(&options);
    options.max_keys = -1;
    assert_int_equal(rql_diagnose(client, &options, &report, NULL), RQL_E_INVALID);
    rql_diagnose_options_init(&options);
    options.groups = "mem  dur";
    assert_int_equal(rql_diagnose(client, &options, &report, NULL), RQL_E_INVALID);
    REFUSED(rql_diagnose(NULL, NULL, &report, NULL));
    REFUSED(rql_diagnose(client, NULL, NULL, NULL));
}

static void a_server_is_measured(void **state)
{
    int64_t took_us = -1;
    int64_t before_us = -1;
    int64_t after_us = -1;
    rql_lock *lock = NULL;

    (void)state;
    CHECK_OK(rql_measure(client, RQL_MEASURE_PING, NULL, &took_us, NULL));
    assert_in_range(took_us, 1, INT32_MAX);
    CHECK_OK(rql_measure(client, RQL_MEASURE_SERVER_CPU, NULL, &before_us, NULL));
    for (int i = 0; i < 1000; i++) {
        /* Gone each time: the next one finds no key. */
        CHECK_OK(rql_measure(client, RQL_MEASURE_PLAIN_LOCK, "plain", &took_us, NULL));
    }
    CHECK_OK(rql_measure(client, RQL_MEASURE_SERVER_CPU, NULL, &after_us, NULL));
    assert_in_range(after_us - before_us, 1000, INT32_MAX); /* that of 2000 commands */
    CHECK_OK(rql_lock_acquire(client, "measured", NULL, &lock, NULL));
    took_us = -1;
    assert_int_equal(
        rql_measure(client, RQL_MEASURE_PLAIN_LOCK, "rql:lock:measured", &took_us, NULL),
        RQL_NOT_HELD);
    assert_int_equal(took_us, -1);
    CHECK_OK(rql_lock_release(lock, NULL));
    REFUSED(rql_measure(NULL, RQL_MEASURE_PING, NULL, &took_us, NULL));
    REFUSED(rql_measure(client, RQL_MEASURE_PING, NULL, NULL, NULL));
    REFUSED(rql_measure(client, RQL_MEASURE_PLAIN_LOCK, NULL, &took_us, NULL));
    REFUSED(rql_measure(client, (rql_measured)3, NULL, &took_us, NULL));
}

static void clients_say_who_they_are(void **state)
{
    rql_client_info_list *clients = NULL;
    const rql_client_info *found;
    rql_lock *lock = hold(client, "x");

    (void)state;
    CHECK_OK(rql_list_clients(other, &clients, NULL));
    found = rql_find_client(clients, rql_lock_describe(lock).acq_id);
    assert_non_null(found);
    assert_string_equal(found->identity, rql_client_identity(client));
    assert_int_equal(found->pid, getpid());
    assert_string_equal(found->program, "test_every_call");
    assert_ptr_equal(rql_find_client(clients, rql_client_identity(client)), found);
    assert_null(rql_find_client(clients, "rql:acq:1/2/3/4/0123456789abcdef"));
    assert_null(rql_find_client(clients, NULL));
    assert_null(rql_find_client(NULL, "x"));
    assert_null(rql_client_info_list_free(clients));
    assert_null(rql_client_info_list_free(NULL));
    CHECK_OK(rql_lock_release(lock, NULL));
    REFUSED(rql_list_clients(NULL, &clients, NULL));
    REFUSED(rql_list_clients(client, NULL, NULL));
}

static int start(void **state)
{
    for (size_t i = 0; i <= RQL_SERIES_MAX; i++) {
        (void)snprintf(many_names[i], sizeof many_names[i], "%zu", i);
        many[i] = many_names[i];
    }
    return start_server(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOOP_TEST(a_lock_by_each_of_its_calls),
        LOOP_TEST(a_lazy_release_that_comes_too_late),
        LOOP_TEST(a_lock_that_is_handed_over),
        LOOP_TEST(series_of_all_kinds),
        LOOP_TEST(locks_and_series_on_a_loop),
        LOOP_TEST(looks_and_sweeps),
        LOOP_TEST(a_call_that_blocks_runs_aside),
        LOOP_TEST(locks_that_make_no_sense_are_refused),
        LOOP_TEST(series_that_make_no_sense_are_refused),
        LOOP_TEST(looks_and_sweeps_that_make_no_sense_are_refused),
        LOOP_TEST(calls_of_a_loop_that_make_no_sense_are_refused),
        LOOP_TEST(a_program_of_another_age_gets_the_counters_it_knows),
        LOOP_TEST(the_server_by_programs_of_other_versions),
        LOOP_TEST(a_server_is_diagnosed),
        LOOP_TEST(a_server_is_measured),
        LOOP_TEST(clients_say_who_they_are),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start, stop_server);
}
