#include "clients.h"
#include "threads.h"

#include <ctype.h>

/* Everything that clients send, in the server's own words. */
static redisContext *start_monitor(void)
{
    redisContext *monitor = redis_server_connect(&server);
    redisReply *reply = redisCommand(monitor, "MONITOR");

    assert_non_null(reply);
    freeReplyObject(reply);
    return monitor;
}

/* Counts the commands up to the mark, without those that scripts run; closes the monitor. */
static int count_commands(redisContext *monitor)
{
    redisReply *reply = NULL;
    bool is_mark = false;
    int count = -1;

    ask("ECHO end-of-monitor");
    while (!is_mark) {
        assert_int_equal(redisGetReply(monitor, (void **)&reply), REDIS_OK);
        is_mark = strstr(reply->str, "end-of-monitor") != NULL;
        count += strstr(reply->str, " lua] ") == NULL;
        freeReplyObject(reply);
    }
    redisFree(monitor);
    return count;
}

static void check_field(const redisReply *hash, size_t at, const char *name, const char *value)
{
    assert_true(hash->elements > 2 * at + 1);
    assert_string_equal(hash->element[2 * at]->str, name);
    if (value) {
        assert_string_equal(hash->element[2 * at + 1]->str, value);
    }
}

static void acquire_writes_the_gems_fields_in_the_gems_order(void **state)
{
    static const rql_meta meta[] = {{"job", "42"}, {"place", "a b\nc"}};
    rql_lock_options options = patient(client);
    char acquirer[RQL_ID_SIZE];
    char host[RQL_ID_SIZE];
    char token[32];
    redisReply *hash;
    rql_lock *lock;

    (void)state;
    ask("CONFIG SET hash-max-listpack-value 1024"); /* keeps the order of writing */
    options.meta = meta;
    options.n_meta = 2;
    lock = hold_with(client, "x", &options);
    (void)snprintf(token, sizeof token, "%lld", (long long)rql_lock_token(lock));
    hash = ask_reply("HGETALL rql:lock:x");
    check_field(hash, 0, "acq_id", rql_current_acquirer_id(client, 0, acquirer));
    check_field(hash, 1, "hst_id", rql_current_host_id(client, host));
    check_field(hash, 2, "ts", NULL);
    check_field(hash, 3, "ini_ttl", "60000");
    check_field(hash, 4, "rql_nonce", rql_lock_secret(lock));
    check_field(hash, 5, "rql_token", token);
    check_field(hash, 6, "job", "42");
    check_field(hash, 7, "place", "a b\nc");
    assert_int_equal(hash->elements, 16);
    freeReplyObject(hash);
    assert_in_range(ask_int("PTTL rql:lock:x"), 50000, 60000);
    assert_int_equal(ask_int("EXISTS rql:lock_queue:x rql:req:x"), 0);
    CHECK_OK(rql_lock_release(lock, NULL));
}

/* `%d.%06d` without the zeros at its end, but ".0" if whole: as Ruby prints it. */
static void check_seconds(const char *text, int64_t us)
{
    char expected[32];
    size_t length;

    (void)snprintf(expected, sizeof expected, "%lld.%06lld", (long long)(us / 1000000),
                   (long long)(us % 1000000));
    length = strlen(expected);
    while (expected[length - 1] == '0' && expected[length - 2] != '.') {
        expected[--length] = '\0';
    }
    assert_string_equal(text, expected);
}

static void ts_is_the_servers_time_in_the_shortest_form(void **state)
{
    rql_lock_options options = patient(client);
    char text[TEXT_SIZE];
    int shortened = 0;
    int round;

    (void)state;
    for (round = 0; round < 2000 && shortened < 3; round++) {
        rql_lock *lock = hold_with(client, "x", &options);
        int64_t ts_us = rql_lock_describe(lock).ts_us;

        check_seconds(ask_text(text, "HGET rql:lock:x ts"), ts_us);
        shortened += ts_us % 10 == 0;
        assert_true(llabs(ts_us - (int64_t)time(NULL) * 1000000) < 5000000);
        CHECK_OK(rql_lock_release(lock, NULL));
    }
    assert_int_equal(shortened, 3);
}

static void acquire_and_release_cost_one_command_each(void **state)
{
    redisContext *monitor;
    int64_t calls;
    int i;

    (void)state;
    CHECK_OK(rql_lock_release(hold(client, "x"), NULL)); /* connects, loads the scripts */
    calls = calls_of("evalsha");
    monitor = start_monitor();
    for (i = 0; i < 50; i++) {
        CHECK_OK(rql_lock_release(hold(client, "x"), NULL));
    }
    assert_int_equal(count_commands(monitor), 100);
    assert_int_equal(calls_of("evalsha") - calls, 100);
}

static void a_refused_try_costs_one_command(void **state)
{
    rql_lock *lock = hold(client, "x");
    redisContext *monitor;
    rql_lock *out = NULL;

    (void)state;
    assert_int_equal(rql_lock_try(other, "x", NULL, &out, NULL), RQL_FAIL_FAST_NO_TRY);
    monitor = start_monitor();
    assert_int_equal(rql_lock_try(other, "x", NULL, &out, NULL), RQL_FAIL_FAST_NO_TRY);
    assert_int_equal(count_commands(monitor), 1);
    assert_null(out);
    CHECK_OK(rql_lock_release(lock, NULL));
    CHECK_OK(rql_lock_try(other, "x", NULL, &out, NULL));
    CHECK_OK(rql_lock_release(out, NULL));
}

static void describe_tells_what_was_asked_and_what_happened(void **state)
{
    rql_lock_options options = patient(client);
    char acquirer[RQL_ID_SIZE];
    rql_lock_facts facts;
    rql_lock *lock;

    (void)state;
    options.ttl_ms = 7000;
    options.task = 18446744073709551615ULL;
    lock = hold_with(client, "name with blanks", &options);
    facts = rql_lock_describe(lock);
    assert_string_equal(facts.name, "name with blanks");
    assert_string_equal(facts.lock_key, "rql:lock:name with blanks");
    assert_string_equal(facts.acq_id, rql_current_acquirer_id(client, options.task, acquirer));
    assert_non_null(strstr(facts.acq_id, "/18446744073709551615/0/"));
    assert_non_null(strstr(facts.hst_id, rql_client_identity(client)));
    assert_int_equal(facts.process, RQL_LOCK_OBTAINING);
    assert_int_equal(facts.ttl_ms, 7000);
    assert_int_equal(facts.tries, 1);
    assert_false(facts.handed_over);
    assert_in_range(rql_lock_remaining_ms(lock), 4000, 6930); /* the margin is 1 % */
    CHECK_OK(rql_lock_release(lock, NULL));
}

static void release_frees_only_what_is_still_ours(void **state)
{
    rql_lock *lock = hold(client, "x");
    rql_lock *taken;

    (void)state;
    ask("DEL rql:lock:x");
    taken = hold(other, "x");
    assert_int_equal(rql_lock_release(lock, NULL), RQL_NOT_HELD);
    CHECK_OK(rql_lock_verify(taken, NULL));
    CHECK_OK(rql_lock_release(taken, NULL));
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
    CHECK_OK(rql_lock_release(NULL, NULL));
}

static void an_expired_lock_is_gone_before_the_server_drops_it(void **state)
{
    rql_lock_options options = patient(client);
    int64_t begun_us = wait_clock_us();
    int64_t left_ms;
    rql_lock *lock;

    (void)state;
    options.ttl_ms = 400;
    lock = hold_with(client, "x", &options);
    assert_int_equal(rql_lock_get_state(lock), RQL_HELD);
    while (rql_lock_get_state(lock) == RQL_HELD) {
        assert_true(wait_clock_us() < begun_us + AWAIT_MS * 1000);
    }
    left_ms = ask_int("PTTL rql:lock:x");
    if (wait_slowness() == 1 && wait_clock_us() < begun_us + 399000) {
        assert_true(left_ms > 0);
    }
    assert_int_equal(rql_lock_get_state(lock), RQL_GONE);
    assert_int_equal(rql_lock_remaining_ms(lock), 0);
    await_int(0, "EXISTS rql:lock:x");
    assert_int_equal(rql_lock_extend(lock, 1000, NULL), RQL_NOT_HELD);
    assert_int_equal(rql_lock_release(lock, NULL), RQL_NOT_HELD);
}

static void extend_lengthens_and_never_shortens(void **state)
{
    rql_lock_options options = patient(client);
    rql_error error = {0};
    rql_lock *lock;

    (void)state;
    options.ttl_ms = 20000;
    lock = hold_with(client, "x", &options);
    CHECK_OK(rql_lock_extend(lock, 90000, NULL));
    assert_in_range(ask_int("PTTL rql:lock:x"), 80000, 90000);
    assert_in_range(rql_lock_remaining_ms(lock), 80000, 89100);
    CHECK_OK(rql_lock_extend(lock, 1, NULL));
    assert_in_range(ask_int("PTTL rql:lock:x"), 70000, 90000);
    assert_in_range(rql_lock_remaining_ms(lock), 70000, 89100);
    assert_int_equal(rql_lock_extend(lock, 0, &error), RQL_E_INVALID);
    assert_int_equal(rql_lock_extend(lock, RQL_TTL_MAX_MS + 1, &error), RQL_E_INVALID);
    CHECK_OK(rql_lock_extend(lock, RQL_TTL_MAX_MS, &error));
    CHECK_OK(rql_lock_verify(lock, NULL));
    ask("DEL rql:lock:x");
    assert_int_equal(rql_lock_extend(lock, 90000, NULL), RQL_NOT_HELD);
    assert_int_equal(rql_lock_get_state(lock), RQL_GONE);
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
    assert_int_equal(rql_lock_release(lock, NULL), RQL_NOT_HELD);
}

static void verify_notices_that_the_lock_was_taken_over(void **state)
{
    rql_lock *lock = hold(client, "x");

    (void)state;
    CHECK_OK(rql_lock_verify(lock, NULL));
    ask("DEL rql:lock:x");
    ask("HSET rql:lock:x acq_id rql:acq:1/2/3/4/0123456789abcdef hst_id h ts 1.0 ini_ttl 5");
    assert_int_equal(rql_lock_verify(lock, NULL), RQL_NOT_HELD);
    assert_int_equal(rql_lock_get_state(lock), RQL_GONE);
    assert_int_equal(rql_lock_remaining_ms(lock), 0);
    assert_int_equal(rql_lock_release(lock, NULL), RQL_NOT_HELD);
    assert_int_equal(ask_int("HEXISTS rql:lock:x acq_id"), 1);
}

static void forget_leaves_the_lock_to_its_ttl(void **state)
{
    rql_lock *lock = hold(client, "x");
    rql_lock *out = NULL;

    (void)state;
    assert_null(rql_lock_forget(lock));
    assert_null(rql_lock_forget(NULL));
    assert_in_range(ask_int("PTTL rql:lock:x"), 50000, 60000);
    assert_int_equal(rql_lock_try(other, "x", NULL, &out, NULL), RQL_FAIL_FAST_NO_TRY);
}

static void tokens_rise_across_locks_clients_and_lost_data(void **state)
{
    int64_t last = 0;
    int i;

    (void)state;
    for (i = 0; i < 20; i++) {
        rql_lock *lock = hold(i % 2 ? client : other, i % 3 ? "x" : "y");

        assert_true(rql_lock_token(lock) > last);
        assert_true(rql_lock_token(lock) < INT64_C(1) << 53);
        last = rql_lock_token(lock);
        CHECK_OK(rql_lock_release(lock, NULL));
        if (i == 10) {
            ask("FLUSHALL");
        }
    }
}

static void the_secret_releases_from_any_client(void **state)
{
    rql_lock *lock = hold(client, "x");
    const char *secret = rql_lock_secret(lock);
    size_t i;

    (void)state;
    assert_int_equal(strlen(secret), 32);
    for (i = 0; i < 32; i++) {
        assert_true(isxdigit((unsigned char)secret[i]));
    }
    assert_int_equal(rql_release_by_secret(other, "x", "00000000000000000000000000000000", NULL),
                     RQL_NOT_HELD);
    assert_int_equal(rql_release_by_secret(other, "y", secret, NULL), RQL_NOT_HELD);
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 1);
    CHECK_OK(rql_release_by_secret(other, "x", secret, NULL));
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
    assert_int_equal(rql_release_by_secret(other, "x", secret, NULL), RQL_NOT_HELD);
    assert_int_equal(rql_lock_release(lock, NULL), RQL_NOT_HELD);
}

static void the_secret_extends_from_any_client(void **state)
{
    rql_lock *lock = hold(client, "x");
    const char *secret = rql_lock_secret(lock);

    (void)state;
    assert_int_equal(rql_extend_by_secret(other, "x", "00000000000000000000000000000000", 1, NULL),
                     RQL_NOT_HELD);
    assert_int_equal(rql_extend_by_secret(other, "y", secret, 1, NULL), RQL_NOT_HELD);
    CHECK_OK(rql_extend_by_secret(other, "x", secret, 1000, NULL)); /* never shortens */
    assert_in_range(ask_int("PTTL rql:lock:x"), 2000, 60000);
    CHECK_OK(rql_extend_by_secret(other, "x", secret, 3600000, NULL));
    assert_in_range(ask_int("PTTL rql:lock:x"), 3000000, 3600000);
    assert_int_equal(rql_extend_by_secret(other, "x", secret, 0, NULL), RQL_E_INVALID);
    assert_int_equal(rql_extend_by_secret(other, "x", secret, RQL_TTL_MAX_MS + 1, NULL),
                     RQL_E_INVALID);
    assert_int_equal(rql_extend_by_secret(other, "x", "short", 1, NULL), RQL_E_INVALID);
    CHECK_OK(rql_lock_release(lock, NULL));
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
}

static void a_malformed_secret_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "0123456789abcdef0123456789abcde",
        "0123456789abcdef0123456789abcdef0",
        "0123456789abcdef0123456789abcdeg",
        "0123456789abcdef 123456789abcdef",
        NULL,
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(rql_release_by_secret(client, "x", bad[i], NULL), RQL_E_INVALID);
    }
}

static void tasks_and_threads_are_acquirers_of_their_own(void **state)
{
    rql_lock_options options = patient(client);
    rql_lock *lock = hold(client, "x");
    struct waiter second = {.client = client, .name = "x", .options = options};
    rql_lock *out = NULL;

    (void)state;
    options.conflict_strategy = RQL_WORK_THROUGH;
    options.task = 7;
    assert_int_equal(rql_lock_try(client, "x", &options, &out, NULL), RQL_FAIL_FAST_NO_TRY);
    second.options.conflict_strategy = RQL_WORK_THROUGH;
    second.options.fail_fast = true;
    waiter_start(&second);
    assert_int_equal(waiter_join(&second), RQL_FAIL_FAST_NO_TRY);
    CHECK_OK(rql_lock_release(lock, NULL));
}

struct names {
    char acquirer[2][RQL_ID_SIZE]; /* of the lock, and of who asks */
    char host[2][RQL_ID_SIZE];
};

static void note_names(size_t index, void *data)
{
    struct names *names = data;
    rql_lock *lock = NULL;

    (void)index;
    if (rql_lock_acquire(client, "x", NULL, &lock, NULL) == RQL_OK) {
        (void)strcpy(names->acquirer[0], rql_lock_describe(lock).acq_id);
        (void)strcpy(names->host[0], rql_lock_describe(lock).hst_id);
    }
    (void)rql_lock_release(lock, NULL);
    (void)rql_current_acquirer_id(client, 0, names->acquirer[1]);
    (void)rql_current_host_id(client, names->host[1]);
}

/* Handles are used again, by whoever comes next. */
static void a_lock_bears_the_names_of_who_takes_it(void **state)
{
    struct names ours = {0};
    struct names theirs = {0};

    (void)state;
    note_names(0, &ours);
    threads_run(1, note_names, &theirs);
    assert_string_equal(theirs.acquirer[0], theirs.acquirer[1]);
    assert_string_equal(theirs.host[0], theirs.host[1]);
    assert_string_not_equal(theirs.acquirer[0], ours.acquirer[0]);
    note_names(0, &ours);
    assert_string_equal(ours.acquirer[0], ours.acquirer[1]);
    assert_string_equal(ours.host[0], ours.host[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(acquire_writes_the_gems_fields_in_the_gems_order),
        TEST(ts_is_the_servers_time_in_the_shortest_form),
        TEST(acquire_and_release_cost_one_command_each),
        TEST(a_refused_try_costs_one_command),
        TEST(describe_tells_what_was_asked_and_what_happened),
        TEST(release_frees_only_what_is_still_ours),
        TEST(an_expired_lock_is_gone_before_the_server_drops_it),
        TEST(extend_lengthens_and_never_shortens),
        TEST(verify_notices_that_the_lock_was_taken_over),
        TEST(forget_leaves_the_lock_to_its_ttl),
        TEST(tokens_rise_across_locks_clients_and_lost_data),
        TEST(the_secret_releases_from_any_client),
        TEST(the_secret_extends_from_any_client),
        TEST(a_malformed_secret_is_refused),
        TEST(tasks_and_threads_are_acquirers_of_their_own),
        TEST(a_lock_bears_the_names_of_who_takes_it),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
