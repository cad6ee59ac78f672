#include "async_fixture.h"

/* Two nodes of a cluster: what is pushed to those who wait there, and to those whose slot moves. */

enum {
    NODES = 2,
    WAITERS = 3,
    NO_POLL_MS = 600000, /* between two polls of those who are pushed nothing */
    PUSHED_MS = 1000,    /* what is not pushed takes longer to be found */
};

#include "cluster.h"

static void await_queue(const char *name, int64_t count)
{
    await_int(count, "ZCARD %slock_queue:%s", set_of(name)->prefix.data, name);
}

/* So many listen to a channel of this partition, at the node that is looked at. */
static bool listens(const void *name)
{
    char text[TEXT_SIZE];
    redisReply *reply;
    bool has;

    (void)snprintf(text, sizeof text, "PUBSUB SHARDCHANNELS %s*", set_of(name)->prefix.data);
    reply = ask_reply(text);
    has = reply->elements > 0;
    freeReplyObject(reply);
    return has;
}

static bool has_listener(void *data)
{
    return listens(data);
}

static void await_listener(char *name)
{
    if (!wait_until(has_listener, name, AWAIT_MS)) {
        fail_msg("nobody listens for %s", name);
    }
}

static int64_t pushes_of(rql_client *of)
{
    rql_stats stats;

    CHECK_OK(rql_client_stats(of, &stats));
    return stats.pushes;
}

static void check_is_fast(int64_t begun_us)
{
    assert_in_range(wait_clock_us() - begun_us, 0, PUSHED_MS * INT64_C(1000) * wait_slowness());
}

static struct waiter waiter_for(const char *name)
{
    struct waiter waiter = {.client = client, .name = name, .options = patient(client)};

    waiter.options.retry_delay_ms = NO_POLL_MS;
    waiter.options.timeout_ms = AWAIT_MS;
    waiter.releases = true;
    return waiter;
}

/* Waits for a lock that another client holds until it is told by a push. At first it may have been
 * about to poll, as the channel was just confirmed. */
static void be_told(char *name)
{
    for (int i = 0; i < 2; i++) {
        rql_lock *lock = hold(other, name);
        struct waiter waiter = waiter_for(name);
        int64_t before = pushes_of(client);
        int64_t begun_us;

        waiter_start(&waiter);
        await_queue(name, 1);
        await_listener(name);
        begun_us = wait_clock_us();
        CHECK_OK(rql_lock_release(lock, NULL));
        CHECK_OK(waiter_join(&waiter));
        check_is_fast(begun_us);
        assert_true(i == 0 || pushes_of(client) > before);
    }
}

static void threads_are_told_at_each_node(void **state)
{
    unsigned from = 0;
    char name[16];

    (void)state;
    for (size_t i = 0; i < 3 * NODES; i++) {
        draw_name(name, "w", i % NODES, &from);
        look_at(i % NODES);
        be_told(name);
    }
}

static void a_loop_is_told(void **state)
{
    unsigned from = 0;
    char name[16];
    struct expected queued = {.value = 1};

    (void)state;
    (void)open_loop_of(client);
    look_at(0);
    draw_name(name, "l", 0, &from);
    (void)snprintf(queued.text, sizeof queued.text, "ZCARD %slock_queue:%s",
                   set_of(name)->prefix.data, name);
    for (int i = 0; i < 2; i++) { /* as in be_told() */
        rql_lock *lock = hold(other, name);
        struct asked asked = asked_for();
        int64_t before = pushes_of(client);
        int64_t begun_us;

        asked.options.retry_delay_ms = NO_POLL_MS;
        start_asking(&asked, name);
        run_until(server_says, &queued);
        run_until(listens, name);
        begun_us = wait_clock_us();
        CHECK_OK(rql_lock_release(lock, NULL));
        await_asked(&asked);
        check_is_fast(begun_us);
        CHECK_OK(asked.status);
        CHECK_OK(release_and_wait(asked.lock));
        assert_true(i == 0 || pushes_of(client) > before);
    }
    close_loop();
    uv_close((uv_handle_t *)&budget, NULL);
    CHECK_OK(uv_run(&uv, UV_RUN_DEFAULT));
    CHECK_OK(uv_loop_close(&uv));
}

/* Its first waiter leads; the others ask nobody by themselves. All of them are told by the old node
 * that the slot has gone, long before the next poll. */
static void who_waits_goes_with_a_slot_that_moves(void **state)
{
    struct waiter waiters[WAITERS];
    unsigned from = 0;
    char name[16];
    rql_lock *lock;

    (void)state;
    draw_name(name, "m", 0, &from);
    for (size_t to = 1; to < 3; to++) { /* there and back */
        int64_t begun_us;

        look_at(1 - to % 2);
        lock = hold(other, name);
        for (size_t i = 0; i < WAITERS; i++) {
            waiters[i] = waiter_for(name);
            waiter_start(&waiters[i]);
            await_queue(name, (int64_t)i + 1);
        }
        await_listener(name);
        move_slot(slot_of(name), 1 - to % 2, to % 2);
        begun_us = wait_clock_us();
        await_queue(name, WAITERS);
        await_listener(name);
        check_is_fast(begun_us);
        begun_us = wait_clock_us();
        CHECK_OK(rql_lock_release(lock, NULL));
        for (size_t i = 0; i < WAITERS; i++) {
            CHECK_OK(waiter_join(&waiters[i]));
        }
        check_is_fast(begun_us);
        be_told(name);
    }
}

#define CLIENTS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLIENTS_TEST(threads_are_told_at_each_node),
        CLIENTS_TEST(a_loop_is_told),
        CLIENTS_TEST(who_waits_goes_with_a_slot_that_moves),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_nodes, stop_nodes);
}
