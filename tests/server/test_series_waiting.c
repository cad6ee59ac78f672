#include "clients.h"
#include "series_fixture.h"

/* A series that waits: it holds nothing, keeps its place in all queues, and is told to look. */

enum { NEVER_MS = 60000 /* no poll within a test */ };

static const char *const ab[] = {"a", "b"};
static const char *const bc[] = {"b", "c"};

static void have_listen(rql_client *own)
{
    make_listen(own, own == client ? other : client);
}

static void wait_patiently(struct series_waiter *self, rql_client *own, const char *const *names,
                           size_t count)
{
    series_waiter_init(self, own, names, count);
    self->wish.lock.retry_delay_ms = NEVER_MS;
    self->wish.lock.queue_ttl_ms = RQL_FOREVER;
}

static struct waiter patient_waiter(rql_client *own, const char *name)
{
    struct waiter waiter = {.client = own, .name = name, .options = patient(own)};

    waiter.options.retry_delay_ms = NEVER_MS;
    return waiter;
}

static void check_score_is_one(size_t count)
{
    char first[TEXT_SIZE];
    char score[TEXT_SIZE];
    char member[TEXT_SIZE];
    redisReply *queue = ask_reply("ZRANGE rql:lock_queue:a 0 0");

    (void)snprintf(member, sizeof member, "%s", queue->element[0]->str);
    freeReplyObject(queue);
    ask_text(first, "ZSCORE rql:lock_queue:a %s", member);
    for (size_t i = 1; i < count; i++) {
        assert_string_equal(ask_text(score, "ZSCORE rql:lock_queue:%s %s", abc[i], member), first);
    }
}

static void a_release_calls_the_series_that_waits(void **state)
{
    (void)state;
    have_listen(client);
    for (size_t held_at = 0; held_at < 3; held_at++) {
        rql_lock *held = hold(other, abc[held_at]);
        struct series_waiter waiter;
        int64_t released_us;

        wait_patiently(&waiter, client, cba, 3);
        series_waiter_start_as(&waiter, 1);
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(ask_int("ZCARD rql:lock_queue:%s", abc[i]), 1);
            assert_int_equal(ask_int("EXISTS rql:lock:%s", abc[i]), i == held_at);
        }
        check_score_is_one(3);
        released_us = wait_clock_us();
        CHECK_OK(rql_lock_release(held, NULL));
        CHECK_OK(series_waiter_join(&waiter));
        assert_true(waiter.ended_us - released_us < 1000000 * wait_slowness());
        CHECK_OK(rql_series_release(waiter.series, NULL, NULL));
        CHECK_NOTHING_OF_ABC();
    }
}

static void series_hand_on_to_each_other_in_order(void **state)
{
    rql_series *held = take_series(other, abc, 3);
    struct series_waiter waiters[4];

    (void)state;
    have_listen(client);
    for (int i = 0; i < 4; i++) {
        wait_patiently(&waiters[i], client, i % 2 ? abc : cba, 3);
        waiters[i].releases = true;
        series_waiter_start_as(&waiters[i], i + 1);
    }
    CHECK_OK(rql_series_release(held, NULL, NULL));
    for (int i = 0; i < 4; i++) {
        CHECK_OK(series_waiter_join(&waiters[i]));
        assert_true(i == 0 || waiters[i - 1].token < waiters[i].token);
    }
    CHECK_NOTHING_OF_ABC();
}

/* What is free stays free for the series in front, and goes to the next when that has had it. */
static void single_waiters_keep_their_turn_behind_a_series(void **state)
{
    rql_lock *held = hold(other, "b");
    struct series_waiter series;
    struct waiter single = patient_waiter(other, "a");
    rql_lock *lock = NULL;
    rql_lock_options options = patient(other);

    (void)state;
    have_listen(client);
    have_listen(other);
    wait_patiently(&series, client, abc, 2);
    series_waiter_start_as(&series, 1);
    assert_int_equal(rql_lock_try(other, "a", &options, &lock, NULL), RQL_FAIL_FAST_AFTER_TRY);
    waiter_start_as(&single, 2);
    assert_int_equal(ask_int("EXISTS rql:lock:a"), 0);
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(series_waiter_join(&series));
    assert_int_equal(ask_int("ZCARD rql:lock_queue:a"), 1);
    CHECK_OK(rql_series_release(series.series, NULL, NULL));
    CHECK_OK(waiter_join(&single));
    assert_true(single.handed_over);
    assert_true(single.token > series.token);
    CHECK_OK(rql_lock_release(single.lock, NULL));
}

static void a_series_keeps_its_turn_behind_single_waiters(void **state)
{
    rql_lock *held = hold(other, "b");
    struct waiter single = patient_waiter(client, "b");
    struct series_waiter series;

    (void)state;
    have_listen(client);
    waiter_start_as(&single, 1);
    wait_patiently(&series, client, ab, 2);
    series_waiter_start_as(&series, 2);
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&single));
    assert_int_equal(ask_int("EXISTS rql:lock:a"), 0);
    CHECK_OK(rql_lock_release(single.lock, NULL));
    CHECK_OK(series_waiter_join(&series));
    CHECK_OK(rql_series_release(series.series, NULL, NULL));
    CHECK_NOTHING_OF_ABC();
}

/* A chain: the first holds a and b, the second wants b and c, the third a and c. */
static void overlapping_series_take_their_turns(void **state)
{
    static const char *const ac[] = {"a", "c"};
    rql_series *first = take_series(other, ab, 2);
    struct series_waiter second;
    struct series_waiter third;

    (void)state;
    have_listen(client);
    wait_patiently(&second, client, bc, 2);
    series_waiter_start_as(&second, 1);
    wait_patiently(&third, client, ac, 2);
    series_waiter_start_as(&third, 2);
    CHECK_OK(rql_series_release(first, NULL, NULL));
    CHECK_OK(series_waiter_join(&second));
    assert_int_equal(ask_int("EXISTS rql:lock:a"), 0);
    CHECK_OK(rql_series_release(second.series, NULL, NULL));
    CHECK_OK(series_waiter_join(&third));
    CHECK_OK(rql_series_release(third.series, NULL, NULL));
    CHECK_NOTHING_OF_ABC();
}

static void a_series_that_gives_up_leaves_all_queues_and_the_next_is_served(void **state)
{
    rql_lock *held = hold(other, "b");
    struct series_waiter series;
    struct waiter single = patient_waiter(client, "a");

    (void)state;
    have_listen(client);
    wait_patiently(&series, client, abc, 3);
    series.wish.lock.timeout_ms = 1500; /* the lock is reserved for longer */
    series_waiter_start_as(&series, 1);
    waiter_start_as(&single, 2);
    assert_true(has_timed_out(series_waiter_join(&series)));
    assert_int_equal(series.wish.result.failed_on, 1);
    CHECK_OK(waiter_join(&single));
    assert_true(single.handed_over);
    CHECK_QUEUE_IS_EMPTY("a");
    CHECK_QUEUE_IS_EMPTY("b");
    CHECK_QUEUE_IS_EMPTY("c");
    CHECK_OK(rql_lock_release(single.lock, NULL));
    CHECK_OK(rql_lock_release(held, NULL));
}

static void a_dead_holders_lock_is_had_when_it_ends(void **state)
{
    struct series_waiter series;

    (void)state;
    ask("HSET rql:lock:a acq_id x hst_id y ts 1.0 ini_ttl 400");
    ask("PEXPIRE rql:lock:a 400");
    ask("HSET rql:lock:b acq_id x hst_id y ts 1.0 ini_ttl 900");
    ask("PEXPIRE rql:lock:b 900");
    wait_patiently(&series, client, abc, 3);
    series_waiter_start(&series);
    CHECK_OK(series_waiter_join(&series));
    CHECK_OK(rql_series_release(series.series, NULL, NULL));
}

/* Nobody tells it: it asks as often as a single request. */
static void polling_is_the_floor(void **state)
{
    struct series_waiter series;

    (void)state;
    ask("HSET rql:lock:b acq_id x hst_id y ts 1.0 ini_ttl 60000");
    series_waiter_init(&series, client, abc, 3);
    series.wish.lock.retry_delay_ms = 50;
    series_waiter_start_as(&series, 1);
    ask("DEL rql:lock:b");
    CHECK_OK(series_waiter_join(&series));
    CHECK_OK(rql_series_release(series.series, NULL, NULL));
}

static void wait_in_child(void)
{
    rql_client *own = new_client();
    struct wish wish;
    rql_series *series = NULL;

    wish_for(&wish, own, abc, 3);
    wish.lock.timeout_ms = RQL_FOREVER;
    (void)!rql_series_acquire(own, &wish.options, &series, NULL);
}

static void await_listeners(int64_t count)
{
    await_int(count, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0");
}

/* Killed while it stands in front of three queues: it stops nobody in any of them. */
static void a_dead_series_is_passed_over_at_once(void **state)
{
    rql_lock *held = hold(other, "b");
    struct waiter singles[3];
    struct series_waiter series;
    rql_lock *lock = NULL;
    rql_lock_options options = patient(other);
    int64_t released_us;
    pid_t child;

    (void)state;
    have_listen(client);
    child = start_child(wait_in_child);
    await_int(1, "ZCARD rql:lock_queue:c");
    await_listeners(2);
    singles[1] = patient_waiter(client, "b");
    waiter_start_as(&singles[1], 2);
    kill_child(child);
    await_listeners(1);
    CHECK_OK(rql_lock_try(other, "a", &options, &lock, NULL));
    CHECK_OK(rql_lock_release(lock, NULL));
    released_us = wait_clock_us();
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&singles[1]));
    assert_true(singles[1].ended_us - released_us < 1000000 * wait_slowness());
    CHECK_OK(rql_lock_release(singles[1].lock, NULL));
    wait_patiently(&series, other, abc, 3);
    series_waiter_start(&series);
    CHECK_OK(series_waiter_join(&series));
    CHECK_OK(rql_series_release(series.series, NULL, NULL));
}

#define DEAF "rql:acq:1/2/0/0/0123456789abcdef0123456789abcdef"

/* A request of a series whose client has no subscriber; heartbeats as given. */
static void put_deaf_series(const char *name, bool is_fresh)
{
    redisReply *reply = redisCommand(raw, "HSET rql:req:%s %s %s", name, DEAF,
                                     "rql:hst:1/2/0/0 1000 fedcba9876543210fedcba9876543210 0 s ");

    assert_non_null(reply);
    freeReplyObject(reply);
    ask("ZADD rql:lock_queue:%s 1.0 " DEAF, name);
    if (is_fresh) {
        reply = ask_reply("TIME");
        ask("ZADD rql:live %s%06lld 0123456789abcdef0123456789abcdef", reply->element[0]->str,
            (long long)strtoll(reply->element[1]->str, NULL, 10));
        freeReplyObject(reply);
    }
}

/* As a single request that nobody hears for: it holds up nobody. */
static void a_series_that_nobody_hears_for_is_passed_over(void **state)
{
    rql_lock_options options = patient(other);

    (void)state;
    for (int is_fresh = 0; is_fresh < 2; is_fresh++) {
        struct wish wish;
        rql_series *series = NULL;
        rql_lock *lock = NULL;

        put_deaf_series("a", is_fresh);
        CHECK_OK(rql_lock_try(other, "a", &options, &lock, NULL));
        CHECK_OK(rql_lock_release(lock, NULL));
        CHECK_QUEUE_IS_EMPTY("a");
        wish_for(&wish, client, abc, 3);
        CHECK_OK(rql_series_try(client, &wish.options, &series, NULL));
        CHECK_OK(rql_series_release(series, NULL, NULL));
    }
}

/* The gem's unlock empties a queue, FLUSHALL all of them: places are kept, in all alike. */
static void an_emptied_queue_gets_its_series_back(void **state)
{
    static const char *const ends[] = {"DEL rql:lock_queue:a", "DEL rql:lock_queue:b rql:req:b",
                                       "FLUSHALL"};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        rql_lock *held = hold(other, "b");
        struct series_waiter series;
        char before[TEXT_SIZE];
        char after[TEXT_SIZE];
        redisReply *queue;

        series_waiter_init(&series, client, abc, 3);
        series.wish.lock.retry_delay_ms = 50;
        series.wish.lock.queue_ttl_ms = RQL_FOREVER;
        series_waiter_start_as(&series, 1);
        queue = ask_reply("ZRANGE rql:lock_queue:c 0 0 WITHSCORES");
        (void)snprintf(before, sizeof before, "%s", queue->element[1]->str);
        if (i < 2) {
            ask("%s", ends[i]);
            await_int(1, "ZCARD rql:lock_queue:%s", abc[i]);
            ask_text(after, "ZSCORE rql:lock_queue:%s %s", abc[i], queue->element[0]->str);
            assert_string_equal(before, after);
            check_score_is_one(3);
            CHECK_OK(rql_lock_release(held, NULL));
        } else {
            ask("%s", ends[i]);
            assert_int_equal(rql_lock_release(held, NULL), RQL_NOT_HELD);
        }
        freeReplyObject(queue);
        CHECK_OK(series_waiter_join(&series));
        CHECK_OK(rql_series_release(series.series, NULL, NULL));
        CHECK_NOTHING_OF_ABC();
    }
}

static void queue_ttl_moves_it_to_the_tail_of_all_queues(void **state)
{
    rql_lock *held = hold(other, "b");
    struct series_waiter old;
    struct series_waiter young;
    redisReply *queue;
    char member[TEXT_SIZE];

    (void)state;
    series_waiter_init(&old, client, abc, 3);
    old.wish.lock.queue_ttl_ms = 300;
    old.wish.lock.retry_delay_ms = 50;
    old.releases = true;
    series_waiter_start_as(&old, 1);
    queue = ask_reply("ZRANGE rql:lock_queue:a 0 0");
    (void)snprintf(member, sizeof member, "%s", queue->element[0]->str);
    freeReplyObject(queue);
    series_waiter_init(&young, client, cba, 3);
    young.wish.lock.queue_ttl_ms = RQL_FOREVER;
    young.releases = true;
    series_waiter_start_as(&young, 2);
    for (size_t i = 0; i < 3; i++) {
        await_int(1, "ZRANK rql:lock_queue:%s %s", abc[i], member);
    }
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(series_waiter_join(&young));
    CHECK_OK(series_waiter_join(&old));
    assert_true(young.token < old.token);
    CHECK_NOTHING_OF_ABC();
}

/* When it moves away from the head of a free lock, whoever is next has it. */
static void moving_to_the_tail_serves_the_next(void **state)
{
    rql_lock *held = hold(other, "b");
    struct series_waiter series;
    struct waiter single = patient_waiter(client, "a");

    (void)state;
    have_listen(client);
    series_waiter_init(&series, client, abc, 3);
    series.wish.lock.queue_ttl_ms =
        1000; /* time for the next to come, and less than the reservation */
    series.wish.lock.retry_delay_ms = 50;
    series_waiter_start_as(&series, 1);
    waiter_start(&single);
    CHECK_OK(waiter_join(&single));
    assert_true(single.handed_over);
    CHECK_OK(rql_lock_release(single.lock, NULL));
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(series_waiter_join(&series));
    CHECK_OK(rql_series_release(series.series, NULL, NULL));
    CHECK_NOTHING_OF_ABC();
}

static void a_random_series_takes_free_locks_whoever_waits(void **state)
{
    rql_lock *held = hold(other, "b");
    struct series_waiter first;
    static const char *const ac[] = {"a", "c"};
    struct wish wish;

    (void)state;
    have_listen(client);
    wait_patiently(&first, client, abc, 3);
    series_waiter_start_as(&first, 1);
    wish_for(&wish, other, ac, 2);
    wish.lock.access_strategy = RQL_RANDOM;
    CHECK_OK(rql_series_release(take_series_with(other, &wish), NULL, NULL));
    assert_int_equal(ask_int("ZCARD rql:lock_queue:a"), 1);
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(series_waiter_join(&first));
    CHECK_OK(rql_series_release(first.series, NULL, NULL));
    CHECK_NOTHING_OF_ABC();
}

/* A Ruby waiter in front of a free lock has two seconds to take it, then it is passed over. */
static void ruby_keeps_its_turn_in_front_of_a_series(void **state)
{
    struct series_waiter series;
    int64_t begun_us = wait_clock_us();

    (void)state;
    ask("ZADD rql:lock_queue:b 1.0 rql:acq:1/2/3/4/0123456789abcdef");
    series_waiter_init(&series, client, abc, 3);
    series.wish.lock.queue_ttl_ms = RQL_FOREVER;
    series.wish.lock.retry_delay_ms = 50;
    series_waiter_start_as(&series, 1);
    assert_int_equal(ask_int("EXISTS rql:lock:a"), 0);
    CHECK_OK(series_waiter_join(&series));
    assert_true(series.ended_us - begun_us > 1900000);
    CHECK_OK(rql_series_release(series.series, NULL, NULL));
}

/* What the gem's readers need is there. */
static void ruby_reads_the_locks_of_a_series(void **state)
{
    static const char *const fields[] = {"acq_id", "hst_id", "ts", "ini_ttl"};
    rql_series *series = take_series(client, ab, 2);

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        rql_lock_info *info = NULL;

        for (size_t k = 0; k < 4; k++) {
            assert_int_equal(ask_int("HEXISTS rql:lock:%s %s", ab[i], fields[k]), 1);
        }
        CHECK_OK(rql_get_lock_info(client, ab[i], &info, NULL));
        assert_int_equal(info->status, RQL_KEY_ALIVE);
        assert_int_equal(info->token, rql_lock_token(rql_series_lock(series, i)));
        rql_lock_info_free(info);
    }
    CHECK_OK(rql_series_release(series, NULL, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(a_release_calls_the_series_that_waits),
        TEST(series_hand_on_to_each_other_in_order),
        TEST(single_waiters_keep_their_turn_behind_a_series),
        TEST(a_series_keeps_its_turn_behind_single_waiters),
        TEST(overlapping_series_take_their_turns),
        TEST(a_series_that_gives_up_leaves_all_queues_and_the_next_is_served),
        TEST(a_dead_holders_lock_is_had_when_it_ends),
        TEST(polling_is_the_floor),
        TEST(a_dead_series_is_passed_over_at_once),
        TEST(a_series_that_nobody_hears_for_is_passed_over),
        TEST(an_emptied_queue_gets_its_series_back),
        TEST(queue_ttl_moves_it_to_the_tail_of_all_queues),
        TEST(moving_to_the_tail_serves_the_next),
        TEST(a_random_series_takes_free_locks_whoever_waits),
        TEST(ruby_keeps_its_turn_in_front_of_a_series),
        TEST(ruby_reads_the_locks_of_a_series),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
