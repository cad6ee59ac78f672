#include "async_fixture.h"

/* A loop beside the gem, beside other loops of its client, and beside the background thread. */

#define RUBY "rql:acq:1/2/3/4/0123456789abcdef"

enum { CROWD = 8, MESSAGES = 400, MESSAGE_SIZE = 8000 };

static void ruby_holds(void)
{
    ask("HSET rql:lock:x acq_id " RUBY " hst_id rql:hst:1/2/4/0123456789abcdef ts %lld.5 "
        "ini_ttl 60000",
        (long long)time(NULL));
    ask("PEXPIRE rql:lock:x 60000");
}

/* The server would tell somebody about a key. */
static void await_tracking(void)
{
    run_until_int(1, "EVAL return(tonumber(redis.call('info','stats'):match('tracking_total_keys:("
                     "[0-9]+)'))) 0");
}

/* No push comes from Ruby. Twice: a notice comes once for each time that it was asked for. */
static void a_release_of_rubys_wakes_who_waits(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct asked asked = asked_for();
        struct asked behind = asked_for();
        int64_t released_us;

        asked.options.retry_delay_ms = 5000;
        asked.releases = true;
        behind.options.retry_delay_ms = 5000;
        ruby_holds();
        start_asking(&asked, "x");
        start_asking(&behind, "x");
        run_until_int(2, "ZCARD rql:lock_queue:x");
        await_tracking();
        released_us = wait_clock_us();
        ask("EXPIRE rql:lock:x 0");
        await_asked(&behind);
        CHECK_OK(asked.status);
        CHECK_OK(behind.status);
        assert_true(wait_clock_us() - released_us < 1000000 * wait_slowness());
        CHECK_OK(release_and_wait(behind.lock));
    }
    CHECK_QUEUE_IS_EMPTY("x");
}

/* Somebody empties a queue, as the gem's unlock does: all put themselves back, in their order. */
static void who_was_removed_puts_itself_back(void **state)
{
    rql_lock *held = hold(other, "x");
    struct asked crowd[CROWD];

    (void)state;
    for (size_t i = 0; i < CROWD; i++) {
        crowd[i] = asked_for();
        crowd[i].releases = true;
        start_asking(&crowd[i], "x");
    }
    run_until_int(CROWD, "ZCARD rql:lock_queue:x");
    run_until_int(1, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0");
    ask("DEL rql:lock_queue:x");
    run_until_int(CROWD, "ZCARD rql:lock_queue:x");
    CHECK_OK(rql_lock_release(held, NULL));
    for (size_t i = 0; i < CROWD; i++) {
        run_until(is_released, &crowd[i]);
        assert_true(i == 0 || crowd[i].order > crowd[i - 1].order);
    }
    CHECK_QUEUE_IS_EMPTY("x");
}

/* Both hear every push to the client; each takes its own. */
static void two_loops_of_a_client_share_its_queue(void **state)
{
    rql_loop *first = loop;
    rql_loop *second = NULL;
    struct asked crowd[CROWD];
    rql_lock *held = hold(other, "x");
    bool closed = false;

    (void)state;
    CHECK_OK(rql_loop_open(&second, client, &uv, NULL));
    for (size_t i = 0; i < CROWD; i++) {
        crowd[i] = asked_for();
        crowd[i].releases = true;
        loop = i % 2 ? first : second;
        start_asking(&crowd[i], "x");
        run_until_int((int64_t)i + 1, "ZCARD rql:lock_queue:x");
    }
    CHECK_OK(rql_lock_release(held, NULL));
    for (size_t i = 0; i < CROWD; i++) {
        run_until(is_released, &crowd[i]);
        CHECK_OK(crowd[i].status);
        assert_true(i == 0 || crowd[i].order > crowd[i - 1].order);
    }
    CHECK_OK(rql_loop_close(second, on_closed, &closed, NULL));
    run_until(is_true, &closed);
    loop = first;
    CHECK_QUEUE_IS_EMPTY("x");
}

static void note_loss(rql_lock *lock, void *data)
{
    (void)lock;
    *(atomic_int *)data += 1;
}

static bool is_lost(const void *data)
{
    return *(const atomic_int *)data > 0;
}

static void a_lock_that_is_lost_is_told(void **state)
{
    struct asked asked = asked_for();
    atomic_int losses = 0;

    (void)state;
    asked.options.auto_extend = true;
    asked.options.ttl_ms = wait_stretched(300); /* a renewal has two thirds of it */
    asked.options.on_lost = note_loss;
    asked.options.user_data = &losses;
    start_asking(&asked, "x");
    await_asked(&asked);
    CHECK_OK(asked.status);
    run_for_ms(2 * asked.options.ttl_ms); /* renewed meanwhile */
    assert_int_equal(losses, 0);
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 1);
    ask("DEL rql:lock:x");
    run_until(is_lost, &losses);
    assert_int_equal(rql_lock_get_state(asked.lock), RQL_GONE);
    assert_int_equal(release_and_wait(asked.lock), RQL_NOT_HELD);
    assert_int_equal(losses, 1);
}

/* What was handed over lives for a second unless its owner is heard of. */
static void a_lock_that_was_handed_over_is_claimed(void **state)
{
    rql_lock *held = hold(other, "x");
    struct asked asked = asked_for();

    (void)state;
    start_asking(&asked, "x");
    run_until_int(1, "ZCARD rql:lock_queue:x");
    run_until_int(1, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0");
    CHECK_OK(rql_lock_release(held, NULL));
    await_asked(&asked);
    assert_true(rql_lock_describe(asked.lock).handed_over);
    run_for_ms(1500);
    assert_int_equal(rql_lock_get_state(asked.lock), RQL_HELD);
    CHECK_OK(rql_lock_verify(asked.lock, NULL));
    CHECK_OK(release_and_wait(asked.lock));
}

/* A thread of the client waits, and has what it waited for. */
static void let_a_thread_wait(void)
{
    rql_lock *held = hold(other, "thread");
    struct waiter waiter = {
        .client = client, .name = "thread", .options = patient(client), .releases = true};

    waiter_start_as(&waiter, 1);
    await_int(1, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0");
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&waiter));
}

/* Each as large as the pushes of many hand-overs: all on the client's channel. */
static void publish_much(void)
{
    static char text[MESSAGE_SIZE];

    memset(text, 'x', sizeof text);
    for (int i = 0; i < MESSAGES; i++) {
        redisReply *reply = redisCommand(raw, "PUBLISH rql:wake:%s %b", rql_client_identity(client),
                                         text, sizeof text);

        assert_non_null(reply);
        freeReplyObject(reply);
    }
}

/* What the server keeps for those who do not read. */
static bool nothing_is_kept(const void *data)
{
    redisReply *reply = ask_reply("CLIENT LIST TYPE pubsub");
    int64_t kept = 0;

    (void)data;
    for (const char *at = reply->str; (at = strstr(at, " omem=")); at++) {
        kept += strtoll(at + strlen(" omem="), NULL, 10);
    }
    freeReplyObject(reply);
    return kept == 0;
}

static void a_loop_reads_what_no_thread_reads(void **state)
{
    rql_lock *held = hold(other, "x");
    struct asked asked = asked_for();

    (void)state;
    let_a_thread_wait();
    start_asking(&asked, "x");
    run_until_int(2, "EVAL return(redis.call('pubsub','numsub','rql:wake:%s')[2]) 0",
                  rql_client_identity(client));
    publish_much();
    run_until(nothing_is_kept, NULL);
    CHECK_OK(rql_lock_release(held, NULL));
    await_asked(&asked);
    CHECK_OK(release_and_wait(asked.lock));
    let_a_thread_wait(); /* on the same connection */
    assert_int_equal(ask_int("EVAL return(redis.call('pubsub','numsub','rql:wake:%s')[2]) 0",
                             rql_client_identity(client)),
                     2);
}

/* A loop of the program's that has nothing more to do may never be run again. */
static void a_loop_that_ends_does_not_listen(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        rql_lock *held = hold(other, "x");
        struct asked asked = asked_for();

        start_asking(&asked, "x");
        run_until_int(1, "EVAL return(redis.call('pubsub','numsub','rql:wake:%s')[2]) 0",
                      rql_client_identity(client));
        CHECK_OK(rql_lock_release(held, NULL));
        await_asked(&asked);
        CHECK_OK(release_and_wait(asked.lock));
        assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0);
        await_int(0, "EVAL return(redis.call('pubsub','numsub','rql:wake:%s')[2]) 0",
                  rql_client_identity(client));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOOP_TEST(a_release_of_rubys_wakes_who_waits),
        LOOP_TEST(who_was_removed_puts_itself_back),
        LOOP_TEST(two_loops_of_a_client_share_its_queue),
        LOOP_TEST(a_lock_that_is_lost_is_told),
        LOOP_TEST(a_lock_that_was_handed_over_is_claimed),
        LOOP_TEST(a_loop_reads_what_no_thread_reads),
        LOOP_TEST(a_loop_that_ends_does_not_listen),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
