#include "scripts_fixture.h"

/* What scripts do with arguments and keys that no call of the library sends or makes. */

#define OTHERS "fedcba9876543210fedcba9876543210"
#define OTHER "rql:acq:1/3/0/0/" OTHERS
#define OTHER_HOST "rql:hst:1/3/0/" OTHERS
#define AGES_MS "1000000000000000"

#define RECORD HOST " 1000 " NONCE " 0 q "

#define CROWD_SCRIPT                                                                               \
    "for i = 1, ARGV[2] do redis.call('ZADD', 'rql:lock_queue:' .. string.char(ARGV[1]), i, "      \
    "'rql:acq:9/' .. i .. '/0/0/fedcba9876543210fedcba9876543210') end"

enum { CROWD = 60, AT_ONCE = 30 };

static redisReply *acquire(enum rqli_script_id id, const char *ttl_ms)
{
    const char *const args[] = {ACQUIRER, HOST, ttl_ms, NONCE, NEVER, "qw- 1000 0 1000 40000"};

    return eval(id, 1, args, sizeof args / sizeof args[0]);
}

static redisReply *extend(const char *ttl_ms)
{
    const char *const args[] = {NONCE, ttl_ms, "40000"};

    return eval(RQLI_SCRIPT_EXTEND, 1, args, sizeof args / sizeof args[0]);
}

static void expect_out_of_range(redisReply *reply)
{
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    assert_non_null(strstr(reply->str, "ttl out of range"));
    freeReplyObject(reply);
    assert_int_equal(ask_int("DBSIZE"), 0);
}

/* A lock without a ttl would be one for ever. */
static void ttl_is_checked_before_the_first_write(void **state)
{
    static const char *const wrong[] = {"1e3", "0x10", " 10",        "10 ", "1000.0", "010",  "0",
                                        "-5",  "",     "2592000001", "x",   "nan",    "1e400"};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        expect_out_of_range(acquire(RQLI_SCRIPT_ACQUIRE, wrong[i]));
        expect_out_of_range(acquire(RQLI_SCRIPT_ACQUIRE_SERIES, wrong[i]));
        expect_out_of_range(extend(wrong[i]));
    }
    freeReplyObject(acquire(RQLI_SCRIPT_ACQUIRE, "2592000000"));
    assert_true(ask_int("PTTL rql:lock:a") > 2591990000);
}

/* Somebody's idea of "for ever": the number must not be written with an exponent. */
static void ttl_of_ages_is_answered_in_digits(void **state)
{
    redisReply *reply;
    char *rest;

    (void)state;
    ask("HSET rql:lock:a acq_id rql:acq:1/2/3/4/0123456789abcdef");
    ask("PEXPIRE rql:lock:a " AGES_MS);
    reply = acquire(RQLI_SCRIPT_ACQUIRE, "1000");
    assert_int_equal(reply->type, REDIS_REPLY_STRING);
    assert_int_equal(strtoll(reply->str, &rest, 10), 0); /* queued */
    assert_true(strtoll(rest, &rest, 10) > 0);           /* now */
    assert_int_equal(strtoll(rest, &rest, 10), 2592000000);
    assert_int_equal(*rest, ' ');
    freeReplyObject(reply);
}

/* No script is long: the dead of all queues together count. */
static void a_series_serves_no_more_dead_than_one_lock(void **state)
{
    char nonces[LOCKS * 32 + 1] = "";
    const char *const args[] = {ACQUIRER, HOST, "1000", nonces, NEVER, "qw- 1000 0 1000 40000"};
    redisReply *reply;

    (void)state;
    for (int i = 0; i < LOCKS; i++) {
        freeReplyObject(redisCommand(raw, "EVAL %s 0 %d %d", CROWD_SCRIPT, i + 'a', CROWD));
        assert_int_equal(ask_int("ZCARD rql:lock_queue:%c", i + 'a'), CROWD);
        (void)snprintf(nonces + strlen(nonces), sizeof nonces - strlen(nonces), "%032d", i + 1);
    }
    reply = eval(RQLI_SCRIPT_ACQUIRE_SERIES, LOCKS, args, sizeof args / sizeof args[0]);
    assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
    assert_int_equal(reply->element[0]->integer, 6); /* again */
    freeReplyObject(reply);
    assert_in_range(calls_of("zrem"), 1, AT_ONCE + LOCKS);
}

static void record(void)
{
    freeReplyObject(redisCommand(raw, "HSET rql:req:a %s %s", ACQUIRER, RECORD));
}

static void check_leave(const char *expected)
{
    const char *const args[] = {ACQUIRER, NONCE, "40000"};
    redisReply *reply = eval(RQLI_SCRIPT_LEAVE, 1, args, sizeof args / sizeof args[0]);

    assert_int_equal(reply->type, REDIS_REPLY_STRING);
    assert_string_equal(reply->str, expected);
    freeReplyObject(reply);
}

/* An error would have it tried again and again. */
static void who_leaves_minds_no_foreign_key(void **state)
{
    (void)state;
    ask("SET rql:lock_queue:a foreign");
    record();
    check_leave("1 0");
    assert_int_equal(ask_int("HLEN rql:req:a"), 0);
    check_leave("0 0");

    ask("FLUSHALL");
    ask("SET rql:lock:a foreign");
    record();
    ask("ZADD rql:lock_queue:a 1 " ACQUIRER);
    check_leave("1 0");
    assert_int_equal(ask_int("DBSIZE"), 1);

    ask("FLUSHALL");
    ask("SET rql:req:a foreign");
    check_leave("0 0");
    ask("HSET rql:lock:a acq_id " ACQUIRER " rql_nonce " NONCE);
    check_leave("2 0");
    assert_int_equal(ask_int("DBSIZE"), 1);
    ask("ZADD rql:lock_queue:a 1 " OTHER);
    check_leave("0 0");
    assert_int_equal(ask_int("DBSIZE"), 2);
}

/* Of another that lives, and that nobody can grant for: such a number is no time. */
static void queue_one_without_ttl(void)
{
    ask("ZADD rql:lock_queue:a 1 " OTHER);
    freeReplyObject(redisCommand(raw, "HSET rql:req:a %s %s", OTHER, HOST " 08 " NONCE " 0 q "));
    freeReplyObject(redisCommand(raw, "EVAL %s 0",
                                 "return redis.call('ZADD', 'rql:live', "
                                 "redis.call('TIME')[1] * 1e6, '" OTHERS "')"));
}

/* Whoever asks, and however deep in its script: an error within an answer would be none. */
static void a_grant_that_gets_no_ttl_is_an_error(void **state)
{
    static const enum rqli_script_id ids[] = {RQLI_SCRIPT_ACQUIRE, RQLI_SCRIPT_ACQUIRE_SERIES};

    (void)state;
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        redisReply *reply;

        ask("FLUSHALL");
        queue_one_without_ttl();
        reply = acquire(ids[i], "1000");
        assert_int_equal(reply->type, REDIS_REPLY_ERROR);
        freeReplyObject(reply);
        assert_int_equal(ask_int("EXISTS rql:lock:a"), 0);
        assert_int_equal(ask_int("ZRANK rql:lock_queue:a " OTHER), 0);
    }
}

enum { SEEN = 4 };

/* What was seen of a lock, and what it may have become until somebody comes to delete it. */
static const char *const seen[SEEN] = {ACQUIRER, HOST, "1795254268.4681", NONCE};
static const char *const is_now[SEEN] = {OTHER, OTHER_HOST, "1795254268.4682", OTHERS};
static const char *const fields[SEEN] = {"acq_id", "hst_id", "ts", "rql_nonce"};

/* Both hosts are: only what it compares keeps a flush from a grant that it has not seen. */
static void declare_hosts_dead(void)
{
    ask("HSET rql:swarm:hsts %s 5.5 %s 5.5", HOST, OTHER_HOST);
    freeReplyObject(redisCommand(raw, "HSET rql:swarm:suspects %s %s %s %s", HOST, "1 D 5.5",
                                 OTHER_HOST, "1 D 5.5"));
}

static void put_lock(void)
{
    ask("DEL rql:lock:a");
    for (size_t i = 0; i < SEEN; i++) {
        ask("HSET rql:lock:a %s %s", fields[i], seen[i]);
    }
}

static void check_delete(enum rqli_script_id id, const char *const *args, const char *expected)
{
    redisReply *reply = eval(id, 1, args, SEEN + 1);

    assert_int_equal(reply->type, REDIS_REPLY_STRING);
    assert_string_equal(reply->str, expected);
    freeReplyObject(reply);
    assert_int_equal(ask_int("EXISTS rql:lock:a"), expected[0] == '0');
}

/* Whoever deletes what is dead or old comes later than the look: it may be another's by then. */
static void what_has_changed_since_it_was_seen_stays(void **state)
{
    static const enum rqli_script_id ids[] = {RQLI_SCRIPT_SWEEP_LOCK, RQLI_SCRIPT_FLUSH_LOCK};

    (void)state;
    declare_hosts_dead();
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        const char *args[SEEN + 1] = {seen[0], seen[1], seen[2], seen[3], "40000"};

        put_lock();
        for (size_t at = 0; at < SEEN; at++) {
            args[at] = is_now[at];
            check_delete(ids[i], args, "0 0");
            args[at] = seen[at];
        }
        args[SEEN - 1] = ""; /* the gem's have none */
        check_delete(ids[i], args, "0 0");
        ask("HDEL rql:lock:a rql_nonce");
        check_delete(ids[i], args, "1 0");
        put_lock();
        args[SEEN - 1] = seen[SEEN - 1];
        check_delete(ids[i], args, "1 0");
    }
}

/* They live, hear, and stand behind each other: 2, 3 and 4 wait for what 1 holds. */
static redisContext *let_three_wait(void)
{
    redisContext *subscriber = redis_server_connect(&server);

    assert_non_null(subscriber);
    for (int i = 1; i <= 4; i++) {
        ask_for_a(RQLI_SCRIPT_ACQUIRE, i);
        freeReplyObject(redisCommand(subscriber, "SUBSCRIBE rql:wake:%032d", i));
    }
    check_holder("a", 101);
    assert_int_equal(ask_int("ZCARD rql:lock_queue:a"), 3);
    return subscriber;
}

static void a_release_serves_who_has_waited_longest(void **state)
{
    redisContext *subscriber = let_three_wait();

    (void)state;
    for (int i = 1; i <= 3; i++) {
        release_a_of(i);
        check_holder("a", 101 + i);
        assert_int_equal(ask_int("ZCARD rql:lock_queue:a"), 3 - i);
    }
    redisFree(subscriber);
}

/* The lock is free: its holder's time is over. */
static void who_comes_to_a_free_lock_overtakes_nobody(void **state)
{
    static const enum rqli_script_id ids[] = {RQLI_SCRIPT_ACQUIRE, RQLI_SCRIPT_ACQUIRE_SERIES};

    (void)state;
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        redisContext *subscriber;

        ask("FLUSHALL");
        subscriber = let_three_wait();
        ask("DEL rql:lock:a");
        ask_for_a(ids[i], 5);
        check_holder("a", 102);
        assert_int_equal(ask_int("ZCARD rql:lock_queue:a"), 3);
        assert_int_equal(ask_int("EXISTS rql:lock:b rql:lock:c"), 0);
        redisFree(subscriber);
    }
}

/* Nothing was heard of its owner before: it has the whole ttl from now on. */
static void a_re_entry_claims_what_was_handed_over(void **state)
{
    static const enum rqli_script_id ids[] = {RQLI_SCRIPT_ACQUIRE, RQLI_SCRIPT_ACQUIRE_SERIES};

    (void)state;
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        redisContext *subscriber;

        ask("FLUSHALL");
        subscriber = let_three_wait();
        release_a_of(1);
        assert_int_equal(ask_int("HEXISTS rql:lock:a rql_claim"), 1);
        assert_in_range(ask_int("PTTL rql:lock:a"), 1, 1000);
        freeReplyObject(ask_as(ids[i], 2, 500, "qt- 1000 0 1000 40000"));
        check_holder("a", 102);
        assert_int_equal(ask_int("HGET rql:lock:a spc_cnt"), 1);
        assert_int_equal(ask_int("HEXISTS rql:lock:a rql_claim"), 0);
        assert_in_range(ask_int("PTTL rql:lock:a"), 1001, 30000);
        redisFree(subscriber);
    }
}

static void check_whole_series(void)
{
    ask_for_a(RQLI_SCRIPT_ACQUIRE_SERIES, 5);
    for (int i = 0; i < 3; i++) {
        char name[] = {(char)('a' + i), '\0'};

        check_holder(name, 105 + 100 * i);
        assert_in_range(ask_int("PTTL rql:lock:%s", name), 1, 30000);
        assert_true(ask_int("HGET rql:lock:%s rql_token", name) > 0);
        CHECK_QUEUE_IS_EMPTY(name);
    }
}

/* At once, and after any one of its locks was held when it came. */
static void a_series_is_granted_as_a_whole(void **state)
{
    (void)state;
    check_whole_series();
    for (int i = 0; i < 3; i++) {
        ask("FLUSHALL");
        ask("HSET rql:lock:%c acq_id " OTHER, 'a' + i);
        ask_for_a(RQLI_SCRIPT_ACQUIRE_SERIES, 5);
        assert_int_equal(ask_int("EXISTS rql:lock:a rql:lock:b rql:lock:c"), 1);
        ask("DEL rql:lock:%c", 'a' + i);
        check_whole_series();
    }
}

/* Whatever others have ended of it: its holder has all of its locks or none. */
static void a_series_that_lost_a_part_is_granted_anew(void **state)
{
    (void)state;
    check_whole_series();
    for (int i = 0; i < 3; i++) {
        ask("DEL rql:lock:%c", 'a' + i);
        check_whole_series();
    }
}

/* Somebody clears it away: nothing of it stays, and the others stay. */
static void a_request_that_is_swept_leaves_no_record(void **state)
{
    redisContext *subscriber = let_three_wait();
    char acquirer[WORD_SIZE];
    const char *const args[] = {acquirer, "40000"};

    (void)state;
    for (int i = 2; i <= 4; i++) {
        (void)snprintf(acquirer, sizeof acquirer, "rql:acq:1/%d/0/0/%032d", i, i);
        freeReplyObject(eval(RQLI_SCRIPT_SWEEP_REQUEST, 1, args, sizeof args / sizeof args[0]));
        assert_int_equal(ask_int("ZCARD rql:lock_queue:a"), 4 - i);
        assert_int_equal(ask_int("HLEN rql:req:a"), 4 - i);
    }
    redisFree(subscriber);
}

/* It was sent for an acquisition that is over long since. */
static void what_comes_too_late_does_nothing(void **state)
{
    static const char *const args[] = {ACQUIRER, HOST, "1000", NONCE, "1", "qw- 1000 0 1000 40000"};
    redisReply *reply = eval(RQLI_SCRIPT_ACQUIRE, 1, args, sizeof args / sizeof args[0]);

    (void)state;
    assert_int_equal(reply->type, REDIS_REPLY_STRING);
    assert_memory_equal(reply->str, "5 ", 2);
    freeReplyObject(reply);
    reply = eval(RQLI_SCRIPT_ACQUIRE_SERIES, 1, args, sizeof args / sizeof args[0]);
    assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
    assert_int_equal(reply->element[0]->integer, 5);
    freeReplyObject(reply);
    assert_int_equal(ask_int("DBSIZE"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(who_leaves_minds_no_foreign_key, set_up),
        cmocka_unit_test_setup(a_grant_that_gets_no_ttl_is_an_error, set_up),
        cmocka_unit_test_setup(ttl_is_checked_before_the_first_write, set_up),
        cmocka_unit_test_setup(ttl_of_ages_is_answered_in_digits, set_up),
        cmocka_unit_test_setup(a_series_serves_no_more_dead_than_one_lock, set_up),
        cmocka_unit_test_setup(what_has_changed_since_it_was_seen_stays, set_up),
        cmocka_unit_test_setup(a_release_serves_who_has_waited_longest, set_up),
        cmocka_unit_test_setup(who_comes_to_a_free_lock_overtakes_nobody, set_up),
        cmocka_unit_test_setup(a_re_entry_claims_what_was_handed_over, set_up),
        cmocka_unit_test_setup(a_series_is_granted_as_a_whole, set_up),
        cmocka_unit_test_setup(a_series_that_lost_a_part_is_granted_anew, set_up),
        cmocka_unit_test_setup(a_request_that_is_swept_leaves_no_record, set_up),
        cmocka_unit_test_setup(what_comes_too_late_does_nothing, set_up),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
