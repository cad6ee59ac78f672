#include "async_fixture.h"

/* What calls make of arguments that only C can pass: NULL, structs of other versions, locks of
 * another client. */

static const char *const names[] = {"a", "b"};

#define REFUSED(call) assert_int_equal(call, RQL_E_INVALID)

/* For valgrind, which sees no scenario: calls that no other program of the suite `memory` makes. */
TEST(calls_that_only_scenarios_make_leave_no_memory)
{
    rql_series_options options = series_of(names, 2);
    rql_lock *lock = hold(client, "x");
    rql_lock_info_list *locks = NULL;
    rql_queue_info_list *queues = NULL;
    rql_client_info_list *clients = NULL;
    rql_text_list *texts = NULL;
    rql_zombies *zombies = NULL;
    rql_series *series = NULL;
    rql_unlock_result result;
    int fd;

    CHECK_OK(rql_lock_lost_fd(lock, &fd, NULL));
    CHECK_OK(rql_lock_force_extend(other, "x", AWAIT_MS, NULL));
    CHECK_OK(rql_lock_extend_by_secret(other, "x", rql_lock_secret(lock), AWAIT_MS, NULL));
    ask("ZADD rql:lock_queue:x 1 rql:acq:1/2/3/4/0123456789abcdef");
    CHECK_OK(rql_locks_inspect(client, &locks, NULL));
    CHECK_OK(rql_queues_inspect(client, &queues, NULL));
    CHECK_OK(rql_locks_list(client, &texts, NULL));
    assert_int_equal(locks->count + queues->count + texts->count, 3);
    (void)rql_free(locks);
    (void)rql_free(queues);
    CHECK_OK(rql_locks_read(client, texts->item, texts->count, &locks, NULL));
    CHECK_OK(rql_queues_read(client, texts->item, texts->count, &queues, NULL));
    assert_int_equal(locks->count + queues->count, 2);
    (void)rql_free(locks);
    (void)rql_free(queues);
    (void)rql_free(texts);
    CHECK_OK(rql_clients_list(client, &clients, NULL));
    assert_non_null(rql_clients_find(clients, rql_client_identity(client)));
    assert_null(rql_clients_find(clients, "rql:acq:1/2/3/4/0123456789abcdef"));
    assert_null(rql_clients_find(clients, NULL));
    assert_null(rql_free(clients));
    CHECK_OK(rql_lock_force_unlock(other, "x", &result, NULL));
    assert_int_equal(rql_lock_release(lock, NULL), RQL_NOT_HELD);
    CHECK_OK(rql_lock_wait_until_free(client, "x", NULL, NULL));
    CHECK_OK(rql_series_acquire(client, &options, &series, NULL));
    CHECK_OK(rql_series_extend(series, AWAIT_MS, NULL));
    CHECK_OK(rql_series_release(series, NULL, NULL));
    CHECK_OK(rql_swarm_flush(client, NULL, &zombies, NULL));
    assert_null(rql_free(zombies));
}

static void on_series(rql_status status, rql_series *series, const rql_error *error, void *data)
{
    (void)status;
    (void)series;
    (void)error;
    (void)data;
}

TEST(calls_for_a_lock_or_a_series_refuse_null)
{
    static const char *const holes[] = {"a", NULL};
    const rql_series_options bad[] = {series_of(holes, 2), series_of(holes, 0), series_of(NULL, 3)};
    rql_series_acquiring what = {.done = on_series};
    rql_series_options good = series_of(names, 2);
    rql_series_block block_of_series = {.run = NULL};
    rql_block block = {.run = NULL};
    rql_series *series = NULL;
    rql_lock_facts facts;
    rql_lock *lock = NULL;

    REFUSED(rql_lock_acquire(NULL, "x", NULL, &lock, NULL));
    REFUSED(rql_lock_acquire(client, NULL, NULL, &lock, NULL));
    REFUSED(rql_lock_acquire(client, "x", NULL, NULL, NULL));
    REFUSED(rql_lock_try(NULL, "x", NULL, &lock, NULL));
    REFUSED(rql_lock_try(client, "x", NULL, NULL, NULL));
    REFUSED(rql_lock_extend(NULL, 1, NULL));
    REFUSED(rql_lock_verify(NULL, NULL));
    REFUSED(rql_lock_release_by_secret(client, "x", NULL, NULL));
    REFUSED(rql_lock_run(client, "x", NULL, NULL, NULL));
    REFUSED(rql_lock_run(client, "x", NULL, &block, NULL));
    assert_null(lock);
    assert_int_equal(rql_lock_get_state(NULL), RQL_GONE);
    assert_int_equal(rql_lock_remaining_ms(NULL), 0);
    assert_int_equal(rql_lock_token(NULL), 0);
    assert_null(rql_lock_secret(NULL));
    rql_lock_describe(NULL, &facts);
    assert_null(facts.name);
    assert_int_equal(facts.size, sizeof facts);
    /* An older program has fewer facts: those behind its own are left alone. */
    facts.replicas_acked = 7;
    rql_lock_describe_sized(NULL, &facts, offsetof(rql_lock_facts, process));
    CHECK_ALL(EQ(facts.size, offsetof(rql_lock_facts, process)), EQ(facts.replicas_acked, 7));
    assert_null(rql_lock_name(NULL));
    assert_null(rql_lock_node(NULL));
    EACH (row, bad) {
        REFUSED(rql_series_acquire(client, row, &series, NULL));
        REFUSED(rql_series_acquire_async(loop, row, &what, NULL));
    }
    REFUSED(rql_series_acquire(client, NULL, NULL, NULL));
    REFUSED(rql_series_run(client, &good, &block_of_series, NULL));
    good.mode = (rql_series_mode)7;
    REFUSED(rql_series_acquire(client, &good, &series, NULL));
    assert_int_equal(rql_series_get_state(NULL), RQL_GONE);
    assert_int_equal(rql_series_remaining_ms(NULL), 0);
    assert_int_equal(rql_series_count(NULL), 0);
    assert_null(rql_series_lock(NULL, 0));
    assert_int_equal(ask_int("DBSIZE"), 0);
}

struct seen {
    pthread_t by;
    atomic_llong share_units; /* of the last change */
    atomic_llong share_limit;
    atomic_int changes[RQL_CHANGE_BACK + 1];
};

static void on_change(const rql_change *change, void *user_data)
{
    struct seen *seen = user_data;

    seen->by = pthread_self();
    atomic_store(&seen->share_units, change->share_units);
    atomic_store(&seen->share_limit, change->share_limit);
    atomic_fetch_add(&seen->changes[change->kind], 1);
}

static bool is_seen(void *count)
{
    return atomic_load((atomic_int *)count) > 0;
}

#define AWAIT_CHANGE(seen, kind) assert_true(wait_until(is_seen, &(seen).changes[kind], AWAIT_MS))

/* A newer program has a longer struct. */
TEST(a_watch_refuses_options_that_it_does_not_know)
{
    struct {
        rql_watch_options options; /* first */
        void *newer;
    } given = {.newer = NULL};

    rql_watch *watch = NULL;
    rql_error error;

    rql_watch_options_init_sized(&given.options, sizeof given);
    given.options.on_change = on_change;
    given.options.user_data = &(struct seen){0};
    given.options.names = names;
    CHECK_OK(rql_watch_open(client, &given.options, &watch, NULL));
    watch = rql_watch_close(watch);
    given.newer = &given;
    assert_int_equal(rql_watch_open(client, &given.options, &watch, &error), RQL_E_INVALID);
    assert_string_equal(error.message, "options: has fields this library does not know");
    assert_null(watch);
}

TEST(a_watch_calls_from_its_own_thread_until_it_is_closed)
{
    static const char *const holes[] = {"a", NULL};
    struct seen seen = {0};
    rql_lock *lock = hold(other, "a");
    rql_watch_options options;
    rql_watch *watch = NULL;

    rql_watch_options_init(&options);
    REFUSED(rql_watch_open(client, &options, &watch, NULL));
    options.on_change = on_change;
    options.user_data = &seen;
    REFUSED(rql_watch_open(NULL, &options, &watch, NULL));
    REFUSED(rql_watch_open(client, NULL, &watch, NULL));
    REFUSED(rql_watch_open(client, &options, NULL, NULL));
    options.names = holes;
    options.n_names = 2;
    REFUSED(rql_watch_open(client, &options, &watch, NULL));
    assert_null(watch);
    assert_null(rql_watch_close(NULL));

    options.names = names;
    CHECK_OK(rql_watch_open(client, &options, &watch, NULL));
    AWAIT_CHANGE(seen, RQL_CHANGE_NOW);
    assert_false(pthread_equal(seen.by, pthread_self()));
    CHECK_OK(rql_lock_release(lock, NULL));
    AWAIT_CHANGE(seen, RQL_CHANGE_RELEASED);
    assert_null(rql_watch_close(watch));
    lock = hold(other, "a");
    assert_int_equal(atomic_load(&seen.changes[RQL_CHANGE_GRANTED]), 0);
    CHECK_OK(rql_lock_release(lock, NULL));
}

TEST(a_server_that_does_not_answer_has_no_share)
{
    rql_options of_client = client_options();
    struct seen seen = {.share_units = 0};
    rql_watch_options options;
    rql_watch *watch = NULL;
    rql_client *lost;

    of_client.url = "unix:///nonexistent/rql";
    lost = new_client_with(&of_client);
    rql_watch_options_init(&options);
    options.on_change = on_change;
    options.user_data = &seen;
    CHECK_OK(rql_watch_open(lost, &options, &watch, NULL));
    AWAIT_CHANGE(seen, RQL_CHANGE_AWAY);
    assert_null(rql_watch_close(watch));
    CHECK_ALL(EQ(seen.share_units, -1), EQ(seen.share_limit, -1));
    assert_null(rql_client_free(lost));
}

TEST(a_master_that_is_not_known_has_no_address)
{
    rql_options options = client_options();
    rql_client *lost;
    rql_server_info info;

    options.url = "redis+sentinel://127.0.0.1:1/m";
    lost = new_client_with(&options);
    assert_true(rql_client_ping(lost, &info, NULL) < 0);
    assert_string_equal(info.master, "m");
    assert_string_equal(info.node, "");
    assert_null(rql_client_free(lost));
}

TEST(a_server_that_is_not_known_is_named_by_its_index)
{
    static const char *const words[] = {"PING"};
    const rql_command command = {.argc = 1, .argv = words};
    static const size_t indices[] = {1, SIZE_MAX};
    rql_reply *reply = NULL;
    rql_server_info info;
    rql_error error;

    EACH (index, indices) {
        char name[TEXT_SIZE];

        (void)snprintf(name, sizeof name, "index %zu", *index);
        assert_int_equal(rql_client_ping_node(client, *index, &info, &error), RQL_NOT_FOUND);
        assert_non_null(strstr(error.message, name));
        assert_int_equal(rql_client_command(client, *index, &command, &reply, &error),
                         RQL_NOT_FOUND);
        assert_non_null(strstr(error.message, name));
    }
}

TEST(inspections_and_sweeps_refuse_null)
{
    const rql_sweep_owner nobody = {.acquirer_id = "a", .host_id = NULL};
    rql_sweep_result result = {.released = 77}; /* not set up */
    static const char *const holes[] = {"a", NULL};
    rql_client_info_list *clients = NULL;
    rql_lock_info_list *locks = NULL;
    bool answer = true;

    REFUSED(rql_locks_read(NULL, NULL, 0, &locks, NULL));
    REFUSED(rql_locks_read(client, NULL, 1, &locks, NULL));
    REFUSED(rql_locks_read(client, holes, 2, &locks, NULL));
    REFUSED(rql_queues_read(client, holes, 2, NULL, NULL));
    REFUSED(rql_lock_end_grant(client, "", 1, NULL));
    REFUSED(rql_lock_end_grant(client, "a", 0, NULL));
    assert_int_equal(rql_lock_end_grant(client, "a", 1, NULL), RQL_NOT_HELD);
    REFUSED(rql_request_remove(client, "a", NULL, NULL));
    REFUSED(rql_request_remove(client, "a", "", NULL));
    assert_int_equal(rql_request_remove(client, "a", "b", NULL), RQL_NOT_FOUND);
    REFUSED(rql_locks_clear(NULL, NULL, &result, NULL));
    REFUSED(rql_locks_clear(client, NULL, &result, NULL));
    REFUSED(rql_requests_clear_dead(NULL, NULL, NULL, NULL, NULL));
    REFUSED(rql_locks_clear_of(client, NULL, NULL, NULL, NULL));
    REFUSED(rql_locks_clear_of(client, &nobody, NULL, &result, NULL));
    REFUSED(rql_lock_exists(client, NULL, &answer, NULL));
    REFUSED(rql_lock_exists(NULL, "a", &answer, NULL));
    REFUSED(rql_lock_inspect(client, "a", NULL, NULL));
    REFUSED(rql_keys_list(client, NULL, NULL));
    REFUSED(rql_swarm_start(client, NULL, NULL, NULL));
    REFUSED(rql_clients_list(NULL, &clients, NULL));
    REFUSED(rql_clients_list(client, NULL, NULL));
    assert_int_equal(result.released, 77);
    assert_true(answer);
}

TEST(null_is_freed_and_a_refusal_is_cleared_twice)
{
    rql_refusal refusal;

    rql_result_init(&refusal);
    refusal.tries = 3;
    assert_null(rql_clients_find(NULL, "x"));
    assert_null(rql_free(NULL));
    assert_null(rql_swarm_free(NULL));
    rql_swarm_stop(NULL);
    rql_refusal_clear(NULL);
    ask("HSET rql:lock:a acq_id a hst_id h ts 1.5 ini_ttl 9000");
    CHECK_OK(rql_lock_inspect(client, "a", &refusal.holder, NULL));
    for (int i = 0; i < 2; i++) {
        rql_refusal_clear(&refusal);
        assert_null(refusal.holder);
        assert_int_equal(refusal.tries, 0);
        assert_int_equal(refusal.size, sizeof refusal);
    }
}

TEST(calls_on_a_loop_refuse_null_and_locks_of_others)
{
    rql_acquiring nobody = {0};
    rql_acquiring what = {.done = on_asked};
    rql_series_acquiring no_series = {0};
    rql_series_options series = series_of(names, 2);
    rql_lock *foreign = hold(other, "x");
    rql_series *foreign_series = NULL;
    rql_error error = {0};
    rql_work work = {0};
    rql_async_block block = {0};
    rql_series_result not_set_up = {.size = 8};
    rql_loop *made = NULL;

    CHECK_OK(rql_series_acquire(other, &series, &foreign_series, NULL));
    REFUSED(rql_loop_open(client, &uv, NULL, NULL));
    REFUSED(rql_loop_open(NULL, &uv, &made, NULL));
    REFUSED(rql_loop_close(NULL, NULL, NULL, NULL));
    REFUSED(rql_lock_acquire_async(NULL, "x", NULL, &what, NULL));
    REFUSED(rql_lock_acquire_async(loop, "x", NULL, NULL, NULL));
    REFUSED(rql_lock_acquire_async(loop, "x", NULL, &nobody, NULL));
    REFUSED(rql_series_acquire_async(loop, &series, &no_series, NULL));
    REFUSED(rql_request_cancel(NULL));
    REFUSED(rql_request_fault(NULL, &error));
    assert_string_equal(error.message, "fault: no request");
    REFUSED(rql_lock_release_async(loop, foreign, NULL, NULL));
    REFUSED(rql_series_release_async(loop, foreign_series, NULL, NULL, NULL));
    CHECK_OK(release_and_wait(NULL));
    REFUSED(rql_lock_extend_async(loop, foreign, 1000, NULL, NULL));
    REFUSED(rql_lock_extend_async(loop, foreign, 0, NULL, NULL));
    REFUSED(rql_lock_extend_async(loop, NULL, 1000, NULL, NULL));
    REFUSED(rql_lock_run_async(loop, "x", NULL, &block, NULL));
    REFUSED(rql_hold_end(NULL, 0));
    REFUSED(rql_loop_run(loop, &work, NULL));
    CHECK_OK(rql_lock_verify(foreign, NULL));
    CHECK_OK(rql_lock_release(foreign, NULL));
    REFUSED(rql_series_release(foreign_series, &not_set_up, NULL));
    CHECK_OK(rql_series_release(foreign_series, NULL, NULL));
}

static rql_status read_stats(void *out, size_t size)
{
    return rql_client_stats_sized(client, out, size);
}

static rql_status read_server(void *out, size_t size)
{
    return rql_client_ping_sized(client, out, size, NULL);
}

static rql_status read_swarm(void *out, size_t size)
{
    return rql_swarm_get_status_sized(client, out, size, NULL);
}

static rql_status read_unlocked(void *out, size_t size)
{
    return rql_lock_force_unlock_sized(client, "x", out, size, NULL);
}

/* A program that was built with fewer fields, up to the one at `cut`, or with more. */
TEST(a_program_of_another_age_gets_the_fields_that_it_knows)
{
    enum { MORE = 64, UNTOUCHED = 0xA5 };

    static const struct {
        const char *name;
        rql_status (*read)(void *out, size_t size);
        size_t cut, size;
    } structs[] = {
        {"rql_stats", read_stats, offsetof(rql_stats, hand_overs), sizeof(rql_stats)},
        {"rql_server_info", read_server, offsetof(rql_server_info, round_trip_us),
         sizeof(rql_server_info)},
        {"rql_swarm_status", read_swarm, offsetof(rql_swarm_status, hosts),
         sizeof(rql_swarm_status)},
        {"rql_unlock_result", read_unlocked, offsetof(rql_unlock_result, duration_us),
         sizeof(rql_unlock_result)},
    };

    union {
        size_t size; /* the first field of each */
        unsigned char bytes[sizeof(rql_stats) + sizeof(rql_server_info) + MORE];
    } out;

    EACH_ROW (row, structs) {
        memset(&out, UNTOUCHED, sizeof out);
        CHECK_OK(row->read(&out, row->cut));
        assert_int_equal(out.size, row->cut);
        assert_int_equal(out.bytes[row->cut], UNTOUCHED);
        CHECK_OK(row->read(&out, row->size + MORE));
        assert_int_equal(out.size, row->size);
        assert_int_equal(out.bytes[row->size + MORE - 1], 0);
        REFUSED(row->read(&out, 1));
        REFUSED(row->read(NULL, row->size));
    }
    memset(&out, UNTOUCHED, sizeof out);
    rql_result_init_sized(&out, sizeof(rql_sweep_result) + MORE);
    CHECK_OK(rql_locks_clear(client, NULL, (rql_sweep_result *)&out, NULL));
    assert_int_equal(out.size, sizeof(rql_sweep_result));
    assert_int_equal(out.bytes[sizeof(rql_sweep_result) + MORE - 1], 0);
    assert_int_equal(out.bytes[sizeof(rql_sweep_result) + MORE], UNTOUCHED);
    REFUSED(rql_client_stats(NULL, (rql_stats *)&out));
    REFUSED(rql_client_ping_node(NULL, 0, (rql_server_info *)&out, NULL));
    assert_int_equal(rql_client_ping_node_sized(client, 1, (rql_server_info *)&out,
                                                sizeof(rql_server_info), NULL),
                     RQL_NOT_FOUND);
}

LOOP_FIXTURE;
