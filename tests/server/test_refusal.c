#include "fixture.h"

/* What a refusal tells: reason, place, holder, queue, and the gem's words. */

#define RUBY "rql:acq:1/2/3/4/0123456789abcdef"

static rql_client *client;
static rql_client *other;
static rql_refusal refusal;
static rql_lock_options options;

static int set_up(void **state)
{
    (void)state;
    ask("FLUSHALL");
    client = new_client();
    other = new_client();
    refusal = (rql_refusal){0};
    options = patient(client);
    options.refusal = &refusal;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rql_refusal_clear(&refusal);
    client = rql_client_free(client);
    other = rql_client_free(other);
    return 0;
}

static void check_refused(rql_status expected, const char *message)
{
    assert_int_equal(outcome_of(client, "x", &options), expected);
    assert_int_equal(refusal.reason, expected);
    assert_string_equal(refusal.message, message);
    assert_null(refusal.holder);
    assert_null(refusal.queue);
}

static void fail_fast_says_that_the_lock_is_obtained(void **state)
{
    rql_lock *held = hold(other, "x");

    (void)state;
    options.fail_fast = true;
    check_refused(RQL_FAIL_FAST_NO_TRY, "Lock \"rql:lock:x\" is already obtained.");
    assert_int_equal(refusal.position, 0);
    assert_int_equal(refusal.tries, 1);
    CHECK_OK(rql_lock_release(held, NULL));
    ask("ZADD rql:lock_queue:x %lld " RUBY, (long long)time(NULL));
    check_refused(RQL_FAIL_FAST_AFTER_TRY, "Lock \"rql:lock:x\" is already obtained.");
}

static void the_retry_limit_is_named(void **state)
{
    rql_lock *held = hold(other, "x");

    (void)state;
    options.retry_count = 2;
    options.retry_delay_ms = 10;
    check_refused(RQL_RETRY_LIMIT,
                  "Failed to acquire the lock \"rql:lock:x\" for the given retry_count limit "
                  "(2 times).");
    assert_int_equal(refusal.tries, 2);
    assert_int_equal(refusal.position, 1);
    assert_in_range(refusal.waited_us, 10000, AWAIT_MS * 1000);
    CHECK_OK(rql_lock_release(held, NULL));
}

/* As Ruby prints an Integer or a Float of seconds, whatever the locale. */
static void the_timeout_is_named_in_seconds(void **state)
{
    static const struct {
        int64_t ms;
        const char *seconds;
    } rows[] = {{0, "0"}, {50, "0.05"}, {125, "0.125"}, {1, "0.001"}, {1000, "1"}};

    rql_lock *held = hold(other, "x");
    char message[TEXT_SIZE];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        (void)snprintf(
            message, sizeof message,
            "Failed to acquire the lock \"rql:lock:x\" for the given <%s seconds> timeout.",
            rows[i].seconds);
        options.timeout_ms = rows[i].ms;
        check_refused(RQL_TIMED_OUT, message);
    }
    CHECK_OK(rql_lock_release(held, NULL));
}

static void a_conflict_names_the_acquirer(void **state)
{
    rql_lock *held = hold(client, "x");
    char acquirer[RQL_ID_SIZE];
    char message[TEXT_SIZE];

    (void)state;
    (void)snprintf(message, sizeof message,
                   "Lock Conflict: trying to acquire the lock \"rql:lock:x\" that is already "
                   "acquired by the current acquirer (acq_id: \"%s\").",
                   rql_current_acquirer_id(client, 0, acquirer));
    options.conflict_strategy = RQL_DEAD_LOCKING;
    check_refused(RQL_CONFLICT, message);
    CHECK_OK(rql_lock_release(held, NULL));
}

static void details_are_holder_and_queue(void **state)
{
    static const rql_meta meta[] = {{"job", "42"}};
    rql_lock_options holding = patient(other);
    rql_lock *lock = NULL;
    char acquirer[RQL_ID_SIZE];
    char expected[TEXT_SIZE];
    const char *at;
    rql_lock *held;

    (void)state;
    holding.meta = meta;
    holding.n_meta = 1;
    held = hold_with(other, "x", &holding);
    ask("ZADD rql:lock_queue:x 1795254268.25 " RUBY);
    options.detailed_acq_timeout_error = true;
    options.fail_fast = true;
    assert_int_equal(rql_lock_acquire(client, "x", &options, &lock, NULL), RQL_FAIL_FAST_NO_TRY);
    assert_non_null(refusal.holder);
    assert_string_equal(refusal.holder->acq_id, rql_current_acquirer_id(other, 0, acquirer));
    assert_int_equal(refusal.holder->token, rql_lock_token(held));
    assert_non_null(refusal.queue);
    assert_int_equal(refusal.queue->n_requests, 1);
    assert_string_equal(refusal.queue->requests[0].acq_id, RUBY);
    (void)snprintf(expected, sizeof expected,
                   "Lock \"rql:lock:x\" is already obtained. Details: <Lock Data> => "
                   "{\"acq_id\"=>\"%s\", \"hst_id\"=>\"rql:hst:",
                   acquirer);
    assert_memory_equal(refusal.message, expected, strlen(expected));
    assert_non_null(strstr(refusal.message, ", \"ini_ttl\"=>60000, \"job\"=>\"42\""));
    assert_non_null(strstr(refusal.message, ", \"lock_key\"=>\"rql:lock:x\", \"rem_ttl\"=>"));
    assert_null(strstr(refusal.message, rql_lock_secret(held)));
    at = strstr(refusal.message, "}; <Queue Data> => ");
    assert_non_null(at);
    assert_string_equal(at, "}; <Queue Data> => {\"lock_queue\"=>\"rql:lock_queue:x\", "
                            "\"queue\"=>[{\"acq_id\"=>\"" RUBY "\", \"score\"=>1795254268.25}]};");
    CHECK_OK(rql_lock_release(held, NULL));
}

/* Read after the own request has left the queue, so there is none. */
static void what_is_not_there_is_no_data(void **state)
{
    rql_lock *held = hold(other, "x");
    const char *at;

    (void)state;
    options.detailed_acq_timeout_error = true;
    options.timeout_ms = wait_stretched(20);
    assert_int_equal(outcome_of(client, "x", &options), RQL_TIMED_OUT);
    assert_null(refusal.queue);
    at = strstr(refusal.message, "; <Queue Data> => ");
    assert_non_null(at);
    assert_string_equal(at, "; <Queue Data> => <no_data>;");
    CHECK_OK(rql_lock_release(held, NULL));
}

enum { NONE, HELD_BY_OTHER, HELD_BY_SELF };

struct detail {
    rql_status reason;
    int holder;
    bool has_queue;
    const char *words; /* what the message begins with */
};

/* Ends with details, whose data are those that the call hands out as well. */
static void check_details(const struct detail *row, rql_lock *held)
{
    const char *details;

    assert_int_equal(outcome_of(client, "x", &options), row->reason);
    assert_int_equal(refusal.reason, row->reason);
    assert_memory_equal(refusal.message, row->words, strlen(row->words));
    details = strstr(refusal.message, " Details: <Lock Data> => ");
    assert_non_null(details);
    assert_int_equal(refusal.holder != NULL, row->holder != NONE);
    assert_int_equal(strstr(details, "<Lock Data> => <no_data>;") != NULL, row->holder == NONE);
    if (refusal.holder) {
        assert_string_equal(refusal.holder->acq_id, rql_lock_describe(held).acq_id);
        assert_non_null(strstr(details, refusal.holder->acq_id));
    }
    assert_int_equal(refusal.queue != NULL, row->has_queue);
    assert_int_equal(strstr(details, "<Queue Data> => <no_data>;") != NULL, !row->has_queue);
    assert_int_equal(strstr(details, RUBY) != NULL, row->has_queue);
    assert_int_equal(details[strlen(details) - 1], ';');
}

static void every_reason_has_its_details(void **state)
{
    static const struct detail rows[] = {
        {RQL_FAIL_FAST_NO_TRY, HELD_BY_OTHER, true, "Lock \"rql:lock:x\" is already obtained."},
        {RQL_FAIL_FAST_AFTER_TRY, NONE, true, "Lock \"rql:lock:x\" is already obtained."},
        {RQL_RETRY_LIMIT, HELD_BY_OTHER, true, "Failed to acquire the lock \"rql:lock:x\" for"},
        {RQL_TIMED_OUT, HELD_BY_OTHER, false, "Failed to acquire the lock \"rql:lock:x\" for"},
        {RQL_CONFLICT, HELD_BY_SELF, false, "Lock Conflict: trying to acquire"},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        rql_lock *held = NULL;

        options = patient(client);
        options.refusal = &refusal;
        options.detailed_acq_timeout_error = true;
        options.fail_fast =
            rows[i].reason == RQL_FAIL_FAST_NO_TRY || rows[i].reason == RQL_FAIL_FAST_AFTER_TRY;
        options.retry_count = rows[i].reason == RQL_RETRY_LIMIT ? 1 : RQL_FOREVER;
        options.timeout_ms = rows[i].reason == RQL_TIMED_OUT ? wait_stretched(20) : AWAIT_MS;
        options.conflict_strategy = RQL_DEAD_LOCKING;
        if (rows[i].holder != NONE) {
            held = hold(rows[i].holder == HELD_BY_SELF ? client : other, "x");
        }
        if (rows[i].has_queue) {
            ask("ZADD rql:lock_queue:x %lld " RUBY, (long long)time(NULL));
        }
        check_details(&rows[i], held);
        CHECK_OK(rql_lock_release(held, NULL));
        rql_refusal_clear(&refusal);
        ask("FLUSHALL");
    }
}

/* Longer than there is room for: cut, and ended. */
static void a_long_message_is_cut(void **state)
{
    rql_lock *held = hold(other, "x");
    rql_lock *lock = NULL;
    int i;

    (void)state;
    for (i = 0; i < 60; i++) {
        ask("ZADD rql:lock_queue:x %d rql:acq:%d/2/3/4/0123456789abcdef", i + 1, i);
    }
    options.detailed_acq_timeout_error = true;
    options.fail_fast = true;
    assert_int_equal(rql_lock_acquire(client, "x", &options, &lock, NULL), RQL_FAIL_FAST_NO_TRY);
    assert_int_equal(strlen(refusal.message), RQL_REFUSAL_MESSAGE_SIZE - 1);
    assert_int_equal(refusal.queue->n_requests, 60);
    CHECK_OK(rql_lock_release(held, NULL));
}

/* What an earlier refusal holds is released; a success leaves it alone. */
static void a_refusal_may_be_used_again(void **state)
{
    rql_lock *held = hold(other, "x");
    rql_lock *lock = NULL;

    (void)state;
    options.detailed_acq_timeout_error = true;
    options.fail_fast = true;
    assert_int_equal(rql_lock_acquire(client, "x", &options, &lock, NULL), RQL_FAIL_FAST_NO_TRY);
    assert_int_equal(rql_lock_acquire(client, "x", &options, &lock, NULL), RQL_FAIL_FAST_NO_TRY);
    assert_non_null(refusal.holder);
    options.detailed_acq_timeout_error = false;
    assert_int_equal(rql_lock_acquire(client, "x", &options, &lock, NULL), RQL_FAIL_FAST_NO_TRY);
    assert_null(refusal.holder);
    rql_refusal_clear(&refusal);
    assert_int_equal(refusal.reason, RQL_OK);
    assert_null(refusal.holder);
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(rql_lock_acquire(client, "x", &options, &lock, NULL));
    assert_int_equal(refusal.reason, RQL_OK);
    assert_string_equal(refusal.message, "");
    CHECK_OK(rql_lock_release(lock, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(fail_fast_says_that_the_lock_is_obtained),
        TEST(the_retry_limit_is_named),
        TEST(the_timeout_is_named_in_seconds),
        TEST(a_conflict_names_the_acquirer),
        TEST(details_are_holder_and_queue),
        TEST(what_is_not_there_is_no_data),
        TEST(every_reason_has_its_details),
        TEST(a_long_message_is_cut),
        TEST(a_refusal_may_be_used_again),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
