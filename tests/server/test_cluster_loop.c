#include "async_fixture.h"
#include "children.h"
#include "lock/async.h"

/* The asynchronous calls in a cluster: each lock is had of the node that has its keys. */

enum {
    NODES = 2,
    NAMES = 20,
    SERIES = 12,
    TOLD_MS = 1000, /* who polls for a lock that was released finds it later */
    NO_POLL_MS = 600000,
    TTL_MS = 90000,
    BRIEF_MS = 300,
};

#include "cluster.h"

static rql_loop *second; /* of the other client, on the same uv loop */

static int set_up_loops(void **state)
{
    (void)set_up(state);
    (void)open_loop_of(client);
    CHECK_OK(rql_loop_open(&second, other, &uv, NULL));
    return 0;
}

static int tear_down_loops(void **state)
{
    bool closed = false;

    CHECK_OK(rql_loop_close(second, on_closed, &closed, NULL));
    run_until(is_true, &closed);
    return tear_down_loop(state);
}

/* On the second loop. */
static void start_asking_on_second(struct asked *asked, const char *name)
{
    rql_loop *first = loop;

    loop = second;
    start_asking(asked, name);
    loop = first;
}

static struct asked asked_without_polls(void)
{
    struct asked asked = asked_for();

    asked.options.retry_delay_ms = NO_POLL_MS;
    return asked;
}

static void run_until_queue(const char *name, int64_t count)
{
    run_until_int(count, "ZCARD %slock_queue:%s", set_of(name)->prefix.data, name);
}

/* How often a node has given an error that begins so. */
static int64_t errors_of(const char *code)
{
    int64_t count = 0;

    for (size_t i = 0; i < NODES; i++) {
        redisReply *reply;
        char row[64];
        const char *at;

        look_at(i);
        reply = ask_reply("INFO errorstats");
        (void)snprintf(row, sizeof row, "errorstat_%s:count=", code);
        at = strstr(reply->str, row);
        count += at ? strtoll(at + strlen(row), NULL, 10) : 0;
        freeReplyObject(reply);
    }
    return count;
}

static bool all_done(const void *data)
{
    const struct asked *asked = data;

    for (size_t i = 0; i < NAMES; i++) {
        if (asked[i].n_done == 0) {
            return false;
        }
    }
    return true;
}

static void extend_and_wait(rql_lock *lock)
{
    int status = INT_MAX;
    const rql_done done = {on_released_status, &status};

    CHECK_OK(rql_extend_async(loop, lock, TTL_MS, &done, NULL));
    run_until(is_told, &status);
    CHECK_OK((rql_status)status);
}

/* All at once; the second time it is known which node has which. */
static void locks_of_all_nodes_are_had_by_one_loop(void **state)
{
    int64_t before = 0;

    (void)state;
    for (int round = 0; round < 2; round++) {
        struct asked asked[NAMES];
        char names[NAMES][16];
        unsigned from = 0;

        for (size_t i = 0; i < NAMES; i++) {
            draw_name(names[i], "n", i % NODES, &from);
            asked[i] = asked_for();
            start_asking(&asked[i], names[i]);
        }
        run_until(all_done, asked);
        for (size_t i = 0; i < NAMES; i++) {
            CHECK_OK(asked[i].status);
            look_at(i % NODES);
            assert_int_equal(ask_int("EXISTS %slock:%s", set_of(names[i])->prefix.data, names[i]),
                             1);
            extend_and_wait(asked[i].lock);
            CHECK_OK(release_and_wait(asked[i].lock));
            assert_int_equal(ask_int("EXISTS %slock:%s", set_of(names[i])->prefix.data, names[i]),
                             0);
        }
        if (round > 0) {
            assert_int_equal(errors_of("MOVED"), before);
        }
        before = errors_of("MOVED");
    }
}

/* It is listened to, and asks nothing just now: it can be handed the lock. */
static bool sleeps(const void *data)
{
    const rql_request *request = data;
    const struct rqli_acquire *acquire = &request->acquire;

    return acquire->waiter.sleeps &&
           rqli_push_loop_view(&acquire->at->pushes, &acquire->waiter).delivers;
}

/* In its callback whoever is granted the lock releases it: the next one has it in this client, and
 * the one behind that in another. */
static void a_lock_goes_from_loop_to_loop_and_thread(void **state)
{
    unsigned from = 0;

    (void)state;
    for (size_t i = 0; i < NODES; i++) {
        char name[16];
        struct asked first = asked_for();
        struct asked behind = asked_without_polls();
        struct asked elsewhere = asked_without_polls();
        struct waiter thread = {.client = other, .options = patient(other), .releases = true};
        rql_stats stats;
        int64_t local;

        draw_name(name, "h", i, &from);
        look_at(i);
        thread.name = name;
        start_asking(&first, name);
        await_asked(&first);
        behind.releases = true;
        start_asking(&behind, name);
        run_until_queue(name, 1);
        start_asking_on_second(&elsewhere, name);
        run_until_queue(name, 2);
        waiter_start(&thread);
        run_until_queue(name, 3);
        run_until(sleeps, behind.what.request);
        CHECK_OK(rql_client_stats(client, &stats));
        local = stats.local_hand_overs;
        CHECK_OK(release_and_wait(first.lock));
        await_asked(&behind);
        await_asked(&elsewhere);
        CHECK_OK(elsewhere.status);
        run_until(is_released, &behind);
        CHECK_OK(behind.release_status);
        CHECK_OK(rql_client_stats(client, &stats));
        assert_int_equal(stats.local_hand_overs, local + 1);
        CHECK_OK(rql_lock_release(elsewhere.lock, NULL));
        CHECK_OK(waiter_join(&thread));
    }
}

/* There and back. Those who do not lead ask nobody by themselves. */
static void what_waits_on_a_loop_goes_with_a_slot_that_moves(void **state)
{
    unsigned from = 0;
    char name[16];

    (void)state;
    draw_name(name, "m", 0, &from);
    for (size_t to = 1; to < 3; to++) {
        struct asked asked[NAMES];
        rql_lock *lock = hold(other, name);

        look_at(1 - to % 2);
        for (size_t i = 0; i < NAMES; i++) {
            asked[i] = asked_without_polls();
            asked[i].releases = true;
            start_asking(&asked[i], name);
            run_until_queue(name, (int64_t)i + 1);
        }
        move_slot(slot_of(name), 1 - to % 2, to % 2);
        run_for_ms(BRIEF_MS);
        CHECK_OK(rql_lock_release(lock, NULL));
        run_until(all_done, asked);
        for (size_t i = 0; i < NAMES; i++) {
            run_until(is_released, &asked[i]);
            CHECK_OK(asked[i].status);
            CHECK_OK(asked[i].release_status);
        }
        run_until_queue(name, 0);
    }
}

static bool was_told_to_wait(const void *data)
{
    (void)data;
    return errors_of("TRYAGAIN") + errors_of("ASK") > 1;
}

/* While it moves neither node does anything. */
static void a_lock_is_had_as_soon_as_its_slot_has_moved(void **state)
{
    struct asked asked = asked_for();
    unsigned from = 0;
    char name[16];
    unsigned slot;

    (void)state;
    draw_name(name, "a", 0, &from);
    slot = slot_of(name);
    begin_move(slot, 0, 1);
    start_asking(&asked, name);
    run_until(was_told_to_wait, NULL);
    assert_int_equal(asked.n_done, 0);
    move_slot(slot, 0, 1);
    await_asked(&asked);
    CHECK_OK(asked.status);
    CHECK_OK(release_and_wait(asked.lock));
    move_slot(slot, 1, 0);
}

/* More of them than a call may be sent on: by a thread, then by the loop. */
static void all_locks_of_a_series_go_with_their_slot(void **state)
{
    char texts[SERIES][16];
    const char *names[SERIES];
    rql_lock_options lock = patient(client);
    rql_series_options options;
    rql_series *series = NULL;
    rql_error error = {0};
    int status = INT_MAX;
    const rql_done done = {on_released_status, &status};
    unsigned from = 0;

    (void)state;
    for (size_t i = 0; i < SERIES; i++) {
        do {
            draw_name(texts[i], "g", 0, &from);
        } while (set_of(texts[i]) != set_of(texts[0]));
        names[i] = texts[i];
    }
    rql_series_options_init(&options);
    options.names = names;
    options.n_names = SERIES;
    options.lock = &lock;
    if (rql_series_acquire(client, &options, &series, &error)) {
        fail_msg("%s", error.message);
    }
    move_slot(slot_of(names[0]), 0, 1);
    if (rql_series_extend(series, TTL_MS, &error)) {
        fail_msg("%s", error.message);
    }
    move_slot(slot_of(names[0]), 1, 0);
    CHECK_OK(rql_series_release_async(loop, series, NULL, &done, NULL));
    run_until(is_told, &status);
    CHECK_OK((rql_status)status);
}

static void a_node_that_is_silent_holds_up_nobody_else(void **state)
{
    struct asked asked[NODES];
    char name[NODES][16];
    unsigned from = 0;

    (void)state;
    for (size_t i = 0; i < NODES; i++) { /* each is connected */
        draw_name(name[i], "s", i, &from);
        asked[i] = asked_for();
        asked[i].releases = true;
        start_asking(&asked[i], name[i]);
        run_until(is_released, &asked[i]);
    }
    redis_server_pause(&nodes[1]);
    for (size_t i = 0; i < NODES; i++) {
        asked[i] = asked_for();
        asked[i].options.timeout_ms = BRIEF_MS;
        start_asking(&asked[i], name[i]);
    }
    for (size_t i = 0; i < NODES; i++) {
        await_asked(&asked[i]);
    }
    redis_server_resume(&nodes[1]);
    assert_true(asked[0].order < asked[1].order);
    CHECK_OK(asked[0].status);
    assert_int_equal(asked[1].status, RQL_E_UNKNOWN);
    CHECK_OK(release_and_wait(asked[0].lock));
    look_at(1);
    run_until_int(0, "EXISTS %slock:%s", set_of(name[1])->prefix.data, name[1]);
}

/* What is pushed, or answered, to the parent stays for the parent. */
static void run_copy(void)
{
    rql_acquiring what = {.done = on_asked};

    must(rql_acquire_async(loop, "x", NULL, &what, NULL) == RQL_E_FORKED, LEAST_CODE);
    (void)uv_run(&uv, UV_RUN_NOWAIT);
    (void)uv_run(&uv, UV_RUN_NOWAIT);
}

static void a_child_touches_the_connections_to_no_node(void **state)
{
    struct asked asked[NODES];
    char name[NODES][16];
    unsigned from = 0;

    (void)state;
    for (size_t i = 0; i < NODES; i++) {
        draw_name(name[i], "f", i, &from);
        asked[i] = asked_for();
        start_asking(&asked[i], name[i]);
        await_asked(&asked[i]);
        CHECK_OK(asked[i].status);
    }
    expect_good_end(start_limited_child(run_copy));
    for (size_t i = 0; i < NODES; i++) {
        CHECK_OK(release_and_wait(asked[i].lock));
    }
}

static bool has_failed(const void *request)
{
    return rql_request_fault(request, NULL) != RQL_OK;
}

/* Of clients that have spoken to the other node alone. */
static void a_node_that_is_down_is_waited_for(void **state)
{
    struct asked asked = asked_for();
    struct waiter thread = {.client = other, .options = patient(other), .releases = true};
    unsigned from = 0;
    char name[NODES][16];

    (void)state;
    for (size_t i = 0; i < NODES; i++) {
        draw_name(name[i], "d", 1, &from);
    }
    thread.name = name[0];
    redisFree(raws[1]);
    redis_server_kill(&nodes[1]);
    waiter_start(&thread);
    start_asking(&asked, name[1]);
    run_until(has_failed, asked.what.request);
    assert_int_equal(redis_server_restart(&nodes[1]), 0);
    raws[1] = redis_server_connect(&nodes[1]);
    await_asked(&asked);
    CHECK_OK(asked.status);
    CHECK_OK(release_and_wait(asked.lock));
    CHECK_OK(waiter_join(&thread));
}

#define LOOPS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_loops, tear_down_loops)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOOPS_TEST(locks_of_all_nodes_are_had_by_one_loop),
        LOOPS_TEST(a_lock_goes_from_loop_to_loop_and_thread),
        LOOPS_TEST(what_waits_on_a_loop_goes_with_a_slot_that_moves),
        LOOPS_TEST(a_lock_is_had_as_soon_as_its_slot_has_moved),
        LOOPS_TEST(all_locks_of_a_series_go_with_their_slot),
        LOOPS_TEST(a_node_that_is_silent_holds_up_nobody_else),
        LOOPS_TEST(a_child_touches_the_connections_to_no_node),
        LOOPS_TEST(a_node_that_is_down_is_waited_for),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_nodes, stop_nodes);
}
