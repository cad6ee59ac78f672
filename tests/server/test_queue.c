#include "clients.h"

/* Places in the queue: put back when somebody empties it, moved to the tail by queue_ttl. */

enum { FIVE = 5 };

static struct waiter waiter_of(rql_client *own)
{
    struct waiter waiter = {.client = own, .name = "x", .options = patient(own)};

    waiter.options.retry_delay_ms = 50;
    waiter.options.retry_jitter_ms = 0;
    waiter.options.queue_ttl_ms = RQL_FOREVER;
    return waiter;
}

/* Members and scores of the queue, in its order. */
static redisReply *look_at_queue(void)
{
    return ask_reply("ZRANGE rql:lock_queue:x 0 -1 WITHSCORES");
}

static void check_same(const redisReply *before, const redisReply *after)
{
    size_t i;

    assert_int_equal(before->elements, after->elements);
    for (i = 0; i < before->elements; i++) {
        assert_string_equal(before->element[i]->str, after->element[i]->str);
    }
}

static void waiters_of_an_emptied_queue_come_back_with_their_scores(void **state)
{
    rql_lock *held = hold(other, "x");
    struct waiter waiters[6];
    redisReply *before;
    redisReply *after;
    int i;

    (void)state;
    for (i = 0; i < 6; i++) {
        waiters[i] = waiter_of(i % 2 ? client : other);
        waiters[i].releases = true;
        waiter_start_as(&waiters[i], i + 1);
    }
    before = look_at_queue();
    ask("ZREMRANGEBYSCORE rql:lock_queue:x -inf +inf");
    await_int(6, "ZCARD rql:lock_queue:x");
    after = look_at_queue();
    check_same(before, after);
    freeReplyObject(before);
    freeReplyObject(after);
    CHECK_OK(rql_lock_release(held, NULL));
    for (i = 0; i < 6; i++) {
        CHECK_OK(waiter_join(&waiters[i]));
    }
    for (i = 1; i < 6; i++) {
        assert_true(waiters[i - 1].token < waiters[i].token);
    }
    CHECK_QUEUE_IS_EMPTY("x");
}

/* The gem's unlock and FLUSHALL take the lock and the queue; a live waiter then has the lock. */
static void a_waiter_survives_that_everything_is_deleted(void **state)
{
    static const char *const ends[] = {"DEL rql:lock:x rql:lock_queue:x", "FLUSHALL",
                                       "DEL rql:lock:x rql:lock_queue:x rql:req:x rql:live"};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        rql_lock *held = hold(other, "x");
        struct waiter waiter = waiter_of(client);

        waiter_start_as(&waiter, 1);
        ask("%s", ends[i]);
        CHECK_OK(waiter_join(&waiter));
        assert_int_equal(rql_lock_release(held, NULL), RQL_NOT_HELD);
        CHECK_OK(rql_lock_release(waiter.lock, NULL));
        CHECK_QUEUE_IS_EMPTY("x");
    }
}

static void queue_ttl_moves_a_request_to_the_tail(void **state)
{
    rql_lock *held = hold(other, "x");
    struct waiter old = waiter_of(client);
    struct waiter young = waiter_of(other);
    char tail[TEXT_SIZE];
    redisReply *queue;

    (void)state;
    old.options.queue_ttl_ms = 300;
    old.releases = true;
    young.releases = true;
    waiter_start_as(&old, 1);
    queue = look_at_queue();
    (void)snprintf(tail, sizeof tail, "%s", queue->element[0]->str);
    freeReplyObject(queue);
    waiter_start_as(&young, 2);
    assert_int_equal(ask_int("ZRANK rql:lock_queue:x %s", tail), 0);
    await_int(1, "ZRANK rql:lock_queue:x %s", tail);
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&young));
    CHECK_OK(waiter_join(&old));
    assert_true(young.token < old.token);
}

/* As seen by the server: it has polled often enough to have moved. */
static void queue_ttl_forever_keeps_the_place(void **state)
{
    rql_lock *held = hold(other, "x");
    struct waiter old = waiter_of(client);
    struct waiter young = waiter_of(other);
    redisReply *before;
    redisReply *after;
    int64_t polls;

    (void)state;
    waiter_start_as(&old, 1);
    waiter_start_as(&young, 2);
    before = look_at_queue();
    polls = calls_of("evalsha");
    while (calls_of("evalsha") < polls + 8) {
        assert_int_equal(ask_int("ZCARD rql:lock_queue:x"), 2);
    }
    after = look_at_queue();
    check_same(before, after);
    freeReplyObject(before);
    freeReplyObject(after);
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&old));
    CHECK_OK(rql_lock_release(old.lock, NULL));
    CHECK_OK(waiter_join(&young));
    CHECK_OK(rql_lock_release(young.lock, NULL));
}

/* At queue_ttl a grant is tried first: the turn is not lost to the very moment. */
static void an_old_request_still_takes_a_free_lock(void **state)
{
    rql_lock *held = hold(other, "x");
    struct waiter old = waiter_of(client);

    (void)state;
    old.options.queue_ttl_ms = 1;
    waiter_start_as(&old, 1);
    ask("DEL rql:lock:x");
    CHECK_OK(waiter_join(&old));
    CHECK_OK(rql_lock_release(old.lock, NULL));
    assert_int_equal(rql_lock_release(held, NULL), RQL_NOT_HELD);
    CHECK_QUEUE_IS_EMPTY("x");
}

/* A score from the future (another's clock) does not pull later ones with it: one wrong clock would
 * delay all who come after. */
static void scores_are_the_servers_time(void **state)
{
    rql_lock *held = hold(other, "x");
    struct waiter waiter = waiter_of(client);
    redisReply *queue;
    double now = (double)time(NULL);

    (void)state;
    ask("ZADD rql:lock_queue:x %lld rql:acq:1/2/3/4/0123456789abcdef",
        (long long)time(NULL) + 3600);
    waiter.releases = true;
    waiter_start_as(&waiter, 2);
    queue = look_at_queue();
    assert_true(strtod(queue->element[1]->str, NULL) > now - 5.0);
    assert_true(strtod(queue->element[1]->str, NULL) < now + 30.0);
    freeReplyObject(queue);
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&waiter));
    assert_int_equal(ask_int("ZCARD rql:lock_queue:x"), 1);
}

/* Redis walks a list for each newcomer: a fifth waiter makes it a tree. Nothing else changes. */
static void queue_of_five_is_no_list_any_more(void **state)
{
    rql_lock *held = hold(other, "x");
    struct waiter waiters[FIVE + 1];
    char encoding[TEXT_SIZE];

    (void)state;
    for (int i = 0; i <= FIVE; i++) {
        waiters[i] = waiter_of(client);
        waiters[i].releases = true;
        waiter_start_as(&waiters[i], i + 1);
        (void)ask_text(encoding, "OBJECT ENCODING rql:lock_queue:x");
        assert_string_equal(encoding, i + 1 < FIVE ? "listpack" : "skiplist");
        assert_int_equal(ask_int("HLEN rql:req:x"), i + 1);
    }
    assert_true(ask_int("PTTL rql:lock_queue:x") > 0);
    CHECK_OK(rql_lock_release(held, NULL));
    for (int i = 0; i <= FIVE; i++) {
        CHECK_OK(waiter_join(&waiters[i]));
        assert_true(i == 0 || waiters[i - 1].token < waiters[i].token);
    }
    CHECK_QUEUE_IS_EMPTY("x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(waiters_of_an_emptied_queue_come_back_with_their_scores),
        TEST(a_waiter_survives_that_everything_is_deleted),
        TEST(queue_ttl_moves_a_request_to_the_tail),
        TEST(queue_ttl_forever_keeps_the_place),
        TEST(an_old_request_still_takes_a_free_lock),
        TEST(scores_are_the_servers_time),
        TEST(queue_of_five_is_no_list_any_more),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
