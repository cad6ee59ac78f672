#include "clock_fixture.h"
#include "scripts_fixture.h"

/* Whose turn it is at a free lock, by the scripts alone. The server's clock stands still unless a
 * test lets time pass, so what they answer is known to the millisecond. */

enum {
    HOLDER = 1,
    SERIES = 5,
    SUBSCRIBED = 10, /* and so many less one */
    WHILE_MS = 2000, /* that a lock is kept free for a series or a Ruby */
    LONGEST_MS = 60000,
    MARKED = 16,
    HOUR_MS = 3600000,
    STEP_MS = 4000, /* less than what a client may be silent for */
    MANY = 40,      /* more than are looked at in one go */
    MESSAGE_S = 2,
};

#define FIRST_US INT64_C(1700000000000000)
#define FOR_EVER "w- -1 0 600000 40000"
#define RUBY "rql:acq:9/%d/0/0/0123456789abcdef"

static redisContext *subscriber;

static int start_still_server(void **state)
{
    return start_server_with_clock_at(state, FIRST_US);
}

static int set_up_subscriber(void **state)
{
    const struct timeval budget = {.tv_sec = MESSAGE_S};

    *server_clock_us = FIRST_US;
    subscriber = redis_server_connect(&server);
    assert_non_null(subscriber);
    (void)redisSetTimeout(subscriber, budget);
    for (int i = 1; i < SUBSCRIBED; i++) {
        freeReplyObject(redisCommand(subscriber, "SUBSCRIBE rql:wake:%032d", i));
    }
    return set_up(state);
}

static int tear_down_subscriber(void **state)
{
    (void)state;
    redisFree(subscriber);
    subscriber = NULL;
    return 0;
}

static void pass_ms(int64_t ms)
{
    *server_clock_us += ms * 1000;
}

/* Whose client is told to look; -1: the next message is another one. */
static int next_to_look(void)
{
    redisReply *message = NULL;
    const char *end;
    int i = -1;

    if (redisGetReply(subscriber, (void **)&message) != REDIS_OK || message->elements != 3) {
        fail_msg("nobody was told");
        return -1;
    }
    end = strchr(message->element[2]->str, ' ');
    if (end && strcmp(end, " look") == 0) {
        i = (int)strtol(message->element[1]->str + strlen("rql:wake:"), NULL, 10);
    }
    freeReplyObject(message);
    return i;
}

/* For a; true: it has it. Else how long that may last. */
static bool takes(int i, const char *how, int64_t *wait_ms)
{
    redisReply *reply = ask_as(RQLI_SCRIPT_ACQUIRE, i, 100 + i, how);
    char *rest;
    bool has_it;

    assert_int_equal(reply->type, REDIS_REPLY_STRING);
    has_it = strtoll(reply->str, &rest, 10) == 1;
    (void)strtoll(rest, &rest, 10);
    if (wait_ms) {
        *wait_ms = strtoll(rest, NULL, 10);
    }
    freeReplyObject(reply);
    return has_it;
}

static int64_t waits(int i, const char *how)
{
    int64_t wait_ms = 0;

    assert_false(takes(i, how, &wait_ms));
    return wait_ms;
}

static bool takes_series(int i, size_t n_locks, const char *how)
{
    redisReply *reply = ask_for(RQLI_SCRIPT_ACQUIRE_SERIES, n_locks, i, 100 + i, how);
    bool has_it;

    assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
    has_it = reply->element[0]->integer == 1;
    freeReplyObject(reply);
    return has_it;
}

static void leave(int i)
{
    char acquirer[WORD_SIZE];
    char nonce[WORD_SIZE];
    const char *const args[] = {acquirer, nonce, "40000"};

    (void)snprintf(acquirer, sizeof acquirer, "rql:acq:1/%d/0/0/%032d", i, i);
    (void)snprintf(nonce, sizeof nonce, "%032d", 100 + i);
    freeReplyObject(eval(RQLI_SCRIPT_LEAVE, 1, args, sizeof args / sizeof args[0]));
}

/* A series of a, b and c; somebody holds b. */
static void let_a_series_wait(void)
{
    ask("HSET rql:lock:b acq_id somebody");
    assert_false(takes_series(SERIES, 3, "q" FOR_EVER));
}

/* It lives on. */
static void pass_beside_a_series(int64_t ms)
{
    while (ms > 0) {
        pass_ms(ms < STEP_MS ? ms : STEP_MS);
        ms -= STEP_MS;
        assert_false(takes_series(SERIES, 3, "q" FOR_EVER));
    }
}

static void let_a_ruby_wait(int number)
{
    ask("ZADD rql:lock_queue:a %.6f " RUBY, (double)*server_clock_us / 1e6, number);
    pass_ms(1);
}

/* It is let past when the reservation lapses, and each time that takes twice as long. */
static void a_reservation_is_twice_as_long_each_time_up_to_a_minute(void **state)
{
    int64_t expected_ms = WHILE_MS;

    (void)state;
    let_a_series_wait();
    for (int i = 0; i < 7; i++) {
        assert_int_equal(waits(6, "q" FOR_EVER), expected_ms);
        pass_beside_a_series(expected_ms - 1);
        assert_int_equal(waits(6, "q" FOR_EVER), 1);
        pass_ms(1);
        assert_true(takes(6, "q" FOR_EVER, NULL));
        pass_ms(WHILE_MS); /* however long it holds the lock */
        release_a_of(6);
        expected_ms = 2 * expected_ms < LONGEST_MS ? 2 * expected_ms : LONGEST_MS;
    }
}

static void a_reservation_of_the_future_begins_anew(void **state)
{
    (void)state;
    let_a_series_wait();
    assert_int_equal(waits(6, "q" FOR_EVER), WHILE_MS);
    pass_ms(-HOUR_MS);
    assert_int_equal(waits(6, "q" FOR_EVER), WHILE_MS);
    pass_ms(WHILE_MS);
    assert_true(takes(6, "q" FOR_EVER, NULL));
}

static void a_series_counts_whom_the_lock_is_handed_to(void **state)
{
    (void)state;
    let_a_series_wait();
    assert_int_equal(waits(6, "q" FOR_EVER), WHILE_MS);
    pass_ms(WHILE_MS);
    (void)waits(7, "q" FOR_EVER); /* it asks, and 6 is served */
    check_holder("a", 106);
    release_a_of(6);
    assert_int_equal(waits(7, "q" FOR_EVER), 2 * WHILE_MS);
}

static void a_series_counts_another_that_is_let_past(void **state)
{
    (void)state;
    let_a_series_wait();
    assert_false(takes_series(6, 1, "q" FOR_EVER));
    pass_ms(WHILE_MS);
    assert_true(takes_series(6, 1, "q" FOR_EVER));
    release_a_of(6);
    assert_int_equal(waits(7, "q" FOR_EVER), 2 * WHILE_MS);
}

static void a_series_that_asks_serves_whom_it_has_to_let_past(void **state)
{
    (void)state;
    let_a_series_wait();
    (void)waits(6, "q" FOR_EVER);
    pass_beside_a_series(WHILE_MS);
    check_holder("a", 106);
}

/* It goes behind all who wait, and nothing is reserved for it there. */
static void a_series_that_has_waited_for_longer_than_queue_ttl_serves_others(void **state)
{
    (void)state;
    let_a_series_wait();
    (void)waits(6, "q" FOR_EVER);
    pass_ms(WHILE_MS / 2);
    assert_false(takes_series(SERIES, 3, "qw- -1 0 500 40000"));
    check_holder("a", 106);
}

/* Of each of its locks. */
static void a_series_comes_after_those_who_waited_when_the_clock_was_set_back(void **state)
{
    (void)state;
    assert_true(takes(HOLDER, "q" FOR_EVER, NULL));
    (void)waits(6, "q" FOR_EVER);
    pass_ms(-HOUR_MS);
    let_a_series_wait();
    release_a_of(HOLDER);
    check_holder("a", 106);
}

static void a_series_puts_others_back_with_itself(void **state)
{
    char how[WORD_SIZE];

    (void)state;
    assert_true(takes(HOLDER, "q" FOR_EVER, NULL));
    (void)waits(6, "q" FOR_EVER);
    pass_ms(1);
    let_a_series_wait();
    (void)snprintf(how, sizeof how, "qw- -1 %lld 600000 40000", (long long)*server_clock_us);
    ask("DEL rql:lock_queue:a");
    assert_false(takes_series(SERIES, 3, how));
    release_a_of(HOLDER);
    check_holder("a", 106);
}

/* It has to let others by then, and might sleep for longer. */
static void a_series_asks_when_its_reservation_lapses(void **state)
{
    redisReply *reply;

    (void)state;
    let_a_series_wait();
    ask("PEXPIRE rql:lock:b %d", LONGEST_MS);
    (void)waits(6, "q" FOR_EVER);
    reply = ask_as(RQLI_SCRIPT_ACQUIRE_SERIES, SERIES, 100 + SERIES, "q" FOR_EVER);
    assert_int_equal(reply->element[0]->integer, 0);
    assert_int_equal(reply->element[2]->integer, WHILE_MS);
    freeReplyObject(reply);
}

static void another_series_that_goes_leaves_the_reservation_as_it_is(void **state)
{
    (void)state;
    let_a_series_wait();
    assert_false(takes_series(6, 1, "q" FOR_EVER));
    pass_ms(1);
    leave(6);
    assert_int_equal(waits(7, "q" FOR_EVER), WHILE_MS - 1);
}

/* It stands behind the first, and wants no reservation of its own. */
static void another_series_that_asks_leaves_the_reservation_as_it_is(void **state)
{
    (void)state;
    let_a_series_wait();
    assert_false(takes_series(6, 3, "q" FOR_EVER));
    assert_int_equal(waits(7, "q" FOR_EVER), WHILE_MS);
    pass_ms(1);
    assert_false(takes_series(6, 3, "q" FOR_EVER));
    assert_int_equal(waits(7, "q" FOR_EVER), WHILE_MS - 1);
    pass_ms(WHILE_MS - 1);
    assert_false(takes_series(6, 3, "q" FOR_EVER));
    check_holder("a", 107);
}

/* Nobody else of ours is there; and no push tells it when the Ruby has been. */
static void a_series_lets_a_ruby_past_by_itself_and_watches_it(void **state)
{
    redisReply *reply;

    (void)state;
    let_a_series_wait();
    pass_ms(1);
    let_a_ruby_wait(1);
    assert_false(takes_series(SERIES, 3, "q" FOR_EVER));
    pass_ms(WHILE_MS);
    reply = ask_as(RQLI_SCRIPT_ACQUIRE_SERIES, SERIES, 100 + SERIES, "q" FOR_EVER);
    assert_int_equal(reply->element[0]->integer, 0);
    assert_int_equal(reply->element[6]->integer, 1);
    freeReplyObject(reply);
    assert_int_equal(ask_int("ZRANK rql:lock_queue:a " RUBY, 1), 0);
}

/* It takes the lock when nobody of ours is in front: they come back as they were. */
static void a_series_counts_a_ruby_that_was_let_past(void **state)
{
    char how[WORD_SIZE];

    (void)state;
    let_a_series_wait();
    (void)snprintf(how, sizeof how, "qw- -1 %lld 600000 40000", (long long)*server_clock_us);
    pass_ms(1);
    let_a_ruby_wait(1);
    assert_int_equal(waits(7, "q" FOR_EVER), WHILE_MS);
    pass_ms(WHILE_MS);
    assert_int_equal(waits(7, "q" FOR_EVER), WHILE_MS);
    assert_int_equal(ask_int("ZRANK rql:lock_queue:a " RUBY, 1), 0);
    ask("ZREM rql:lock_queue:a " RUBY, 1); /* it has the lock, and releases it */
    assert_false(takes_series(SERIES, 3, how));
    assert_int_equal(waits(7, "q" FOR_EVER), 2 * WHILE_MS);
}

/* The clock was set back since, and the Ruby has nothing to do with this series. */
static void a_series_counts_no_ruby_of_the_future(void **state)
{
    (void)state;
    assert_true(takes(HOLDER, "q" FOR_EVER, NULL));
    let_a_ruby_wait(1);
    release_a_of(HOLDER);
    ask("ZREM rql:lock_queue:a " RUBY, 1);
    pass_ms(-HOUR_MS);
    let_a_series_wait();
    assert_int_equal(waits(6, "q" FOR_EVER), WHILE_MS);
    pass_ms(WHILE_MS);
    assert_true(takes(6, "q" FOR_EVER, NULL));
}

/* Not all who hold something are part of a circle: they must not keep the series waiting for ever.
 */
static void so_many_who_hold_something_are_served_before_a_series(void **state)
{
    int n = 0;

    (void)state;
    let_a_series_wait();
    while (n <= MARKED && takes(6, "Q" FOR_EVER, NULL)) {
        release_a_of(6);
        n++;
    }
    assert_int_equal(n, MARKED);
}

static void who_holds_something_is_served_before_a_series_and_nobody_else_is(void **state)
{
    (void)state;
    assert_true(takes(HOLDER, "q" FOR_EVER, NULL));
    let_a_series_wait();
    (void)waits(6, "q" FOR_EVER);
    (void)waits(7, "Q" FOR_EVER);
    release_a_of(HOLDER);
    check_holder("a", 107);
    release_a_of(7);
    assert_int_equal(waits(6, "q" FOR_EVER), WHILE_MS);
}

/* Else the hash would stay, and others would be looked for at each turn. */
static void a_series_that_holds_something_counts_until_it_is_served(void **state)
{
    (void)state;
    ask("HSET rql:lock:b acq_id somebody");
    assert_false(takes_series(SERIES, 3, "Q" FOR_EVER));
    assert_int_equal(ask_int("HGET rql:req:a holders"), 1);
    ask("DEL rql:lock:b");
    assert_true(takes_series(SERIES, 3, "Q" FOR_EVER));
    assert_int_equal(ask_int("EXISTS rql:req:a rql:req:b rql:req:c"), 0);
}

static void the_while_of_a_ruby_from_the_future_begins_anew(void **state)
{
    (void)state;
    let_a_ruby_wait(1);
    assert_int_equal(waits(6, "q" FOR_EVER), WHILE_MS);
    pass_ms(-HOUR_MS);
    assert_int_equal(waits(6, "q" FOR_EVER), WHILE_MS);
    pass_ms(WHILE_MS);
    assert_true(takes(6, "q" FOR_EVER, NULL));
}

static void a_ruby_that_comes_during_the_while_of_another_has_its_own(void **state)
{
    (void)state;
    assert_true(takes(HOLDER, "q" FOR_EVER, NULL));
    let_a_ruby_wait(1);
    release_a_of(HOLDER);
    let_a_ruby_wait(2);
    assert_int_equal(waits(6, "q" FOR_EVER), WHILE_MS - 1);
    pass_ms(WHILE_MS);
    assert_int_equal(waits(6, "q" FOR_EVER), WHILE_MS);
    pass_ms(WHILE_MS);
    assert_true(takes(6, "q" FOR_EVER, NULL));
}

/* They stood there when it began, but somebody else has had the lock since. */
static void the_while_of_a_ruby_ends_with_the_next_grant(void **state)
{
    (void)state;
    assert_true(takes(HOLDER, "q" FOR_EVER, NULL));
    let_a_ruby_wait(1);
    (void)waits(6, "q" FOR_EVER);
    pass_ms(1);
    let_a_ruby_wait(2);
    release_a_of(HOLDER);
    pass_ms(WHILE_MS);
    (void)waits(7, "q" FOR_EVER);
    check_holder("a", 106);
    release_a_of(6);
    assert_int_equal(waits(7, "q" FOR_EVER), WHILE_MS);
}

/* The hash was not there before. */
static void the_while_of_a_ruby_among_rubies_leaves_no_residue(void **state)
{
    (void)state;
    assert_true(takes(HOLDER, "q" FOR_EVER, NULL));
    let_a_ruby_wait(1);
    release_a_of(HOLDER);
    assert_int_equal(ask_int("HEXISTS rql:req:a ruby"), 1);
    assert_true(ask_int("PTTL rql:req:a") > 0);
}

/* A living one would have gone to the end of the queue. */
static void a_ruby_that_has_waited_for_longer_than_queue_ttl_has_no_while(void **state)
{
    (void)state;
    let_a_ruby_wait(1);
    pass_ms(WHILE_MS);
    assert_true(takes(6, "qw- -1 0 1000 40000", NULL));
}

/* The first of ours: neither one who has given up, nor one whose client does not hear. */
static void whoever_lives_and_hears_is_told_of_a_ruby_in_front(void **state)
{
    (void)state;
    assert_true(takes(HOLDER, "q" FOR_EVER, NULL));
    for (int i = 0; i < MANY; i++) {
        let_a_ruby_wait(i);
    }
    (void)waits(6, "qw- 1000 0 600000 40000");
    pass_ms(WHILE_MS);
    (void)waits(SUBSCRIBED, "q" FOR_EVER);
    (void)waits(7, "q" FOR_EVER);
    release_a_of(HOLDER);
    assert_int_equal(next_to_look(), 7);
}

/* Nobody else learns of what a Ruby does: it waits in front, or holds the lock. */
static void who_comes_to_lead_beside_a_ruby_is_told(void **state)
{
    (void)state;
    ask("HSET rql:lock:a acq_id " RUBY, 1);
    (void)waits(6, "q" FOR_EVER);
    (void)waits(7, "q" FOR_EVER);
    leave(6);
    assert_int_equal(next_to_look(), 7);
    ask("FLUSHALL");
    assert_true(takes(HOLDER, "q" FOR_EVER, NULL));
    let_a_ruby_wait(1);
    (void)waits(6, "q" FOR_EVER);
    (void)waits(7, "q" FOR_EVER);
    leave(6);
    assert_int_equal(next_to_look(), 7);
}

/* As Ruby does with all that wait for long. */
static void whoever_a_ruby_has_removed_is_told_of_it(void **state)
{
    (void)state;
    assert_true(takes(HOLDER, "q" FOR_EVER, NULL));
    (void)waits(6, "q" FOR_EVER);
    ask("DEL rql:lock_queue:a");
    let_a_ruby_wait(1);
    release_a_of(HOLDER);
    assert_int_equal(next_to_look(), 6);
}

static void who_has_given_up_is_not_served(void **state)
{
    (void)state;
    assert_true(takes(HOLDER, "q" FOR_EVER, NULL));
    (void)waits(6, "qw- 1000 0 600000 40000");
    (void)waits(7, "q" FOR_EVER);
    pass_ms(WHILE_MS);
    release_a_of(HOLDER);
    check_holder("a", 107);
}

/* A random number picks a place in the queue; whoever has not asked for it there does not have it.
 */
static void only_who_asked_for_it_is_chosen_at_random(void **state)
{
    static const struct {
        const char *random;
        int chosen;
    } rows[] = {{"1", 6}, {"2", 8}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char nonce[WORD_SIZE];
        const char *const args[] = {nonce, rows[i].random};

        ask("FLUSHALL");
        assert_true(takes(HOLDER, "q" FOR_EVER, NULL));
        (void)waits(6, "q" FOR_EVER);
        (void)waits(7, "q" FOR_EVER);
        (void)waits(8, "r" FOR_EVER);
        (void)snprintf(nonce, sizeof nonce, "%032d", 100 + HOLDER);
        freeReplyObject(eval(RQLI_SCRIPT_RELEASE, 1, args, sizeof args / sizeof args[0]));
        check_holder("a", 100 + rows[i].chosen);
    }
}

static void of_a_swept_queue_every_client_is_told(void **state)
{
    bool is_told[SUBSCRIBED] = {false};

    (void)state;
    assert_true(takes(HOLDER, "q" FOR_EVER, NULL));
    (void)waits(6, "q" FOR_EVER);
    (void)waits(7, "q" FOR_EVER);
    freeReplyObject(eval(RQLI_SCRIPT_SWEEP_QUEUE, 1, NULL, 0));
    for (int i = 0; i < 2; i++) {
        int told = next_to_look();

        assert_in_range(told, 6, 7);
        assert_false(is_told[told]);
        is_told[told] = true;
    }
}

/* 6 is of a host that is dead. */
static void a_flush_that_frees_a_turn_asks_for_a_release(void **state)
{
    static const char *const args[] = {"0"};
    redisReply *reply;

    (void)state;
    assert_true(takes(HOLDER, "q" FOR_EVER, NULL));
    (void)waits(6, "q" FOR_EVER);
    (void)waits(7, "q" FOR_EVER);
    ask("DEL rql:lock:a");
    ask("HSET rql:swarm:hsts rql:hst:1/6/0/%032d 1", 6);
    freeReplyObject(
        redisCommand(raw, "HSET rql:swarm:suspects rql:hst:1/6/0/%032d %s", 6, "1 D 1"));
    reply = eval(RQLI_SCRIPT_FLUSH_QUEUE, 1, args, sizeof args / sizeof args[0]);
    assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
    assert_int_equal(reply->element[0]->integer, 1);
    assert_int_equal(reply->element[1]->integer, -1);
    assert_int_equal(reply->element[2]->integer, 2);
    freeReplyObject(reply);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_subscriber, tear_down_subscriber)
        TEST(a_reservation_is_twice_as_long_each_time_up_to_a_minute),
        TEST(a_reservation_of_the_future_begins_anew),
        TEST(a_series_counts_whom_the_lock_is_handed_to),
        TEST(a_series_counts_another_that_is_let_past),
        TEST(a_series_asks_when_its_reservation_lapses),
        TEST(another_series_that_goes_leaves_the_reservation_as_it_is),
        TEST(another_series_that_asks_leaves_the_reservation_as_it_is),
        TEST(a_series_lets_a_ruby_past_by_itself_and_watches_it),
        TEST(a_series_counts_a_ruby_that_was_let_past),
        TEST(a_series_counts_no_ruby_of_the_future),
        TEST(a_series_that_asks_serves_whom_it_has_to_let_past),
        TEST(a_series_that_has_waited_for_longer_than_queue_ttl_serves_others),
        TEST(a_series_comes_after_those_who_waited_when_the_clock_was_set_back),
        TEST(a_series_puts_others_back_with_itself),
        TEST(so_many_who_hold_something_are_served_before_a_series),
        TEST(who_holds_something_is_served_before_a_series_and_nobody_else_is),
        TEST(a_series_that_holds_something_counts_until_it_is_served),
        TEST(the_while_of_a_ruby_from_the_future_begins_anew),
        TEST(a_ruby_that_comes_during_the_while_of_another_has_its_own),
        TEST(the_while_of_a_ruby_ends_with_the_next_grant),
        TEST(the_while_of_a_ruby_among_rubies_leaves_no_residue),
        TEST(a_ruby_that_has_waited_for_longer_than_queue_ttl_has_no_while),
        TEST(whoever_lives_and_hears_is_told_of_a_ruby_in_front),
        TEST(who_comes_to_lead_beside_a_ruby_is_told),
        TEST(whoever_a_ruby_has_removed_is_told_of_it),
        TEST(who_has_given_up_is_not_served),
        TEST(only_who_asked_for_it_is_chosen_at_random),
        TEST(of_a_swept_queue_every_client_is_told),
        TEST(a_flush_that_frees_a_turn_asks_for_a_release),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    if (!getenv("RQL_TEST_CLOCK")) {
        return skip_all("no clock to be set");
    }
    return cmocka_run_group_tests(tests, start_still_server, stop_server_with_clock);
}
