#include "clients.h"
#include "series_fixture.h"

/* A series that is taken in one step: all or nothing. */

static void all_locks_are_taken_in_one_round_trip(void **state)
{
    rql_series *series;
    int64_t calls;

    (void)state;
    CHECK_OK(rql_client_connect(client, NULL));
    CHECK_OK(rql_series_release(take_series(client, abc, 3), NULL, NULL)); /* teaches the scripts */
    calls = calls_of("evalsha") + calls_of("eval");
    series = take_series(client, abc, 3);
    assert_int_equal(calls_of("evalsha") + calls_of("eval"), calls + 1);
    assert_int_equal(rql_series_count(series), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(ask_int("HLEN rql:lock:%s", abc[i]), 6);
        assert_string_equal(rql_lock_describe(rql_series_lock(series, i)).name, abc[i]);
        assert_int_equal(ask_int("HGET rql:lock:%s ini_ttl", abc[i]), 60000);
        assert_true(rql_lock_remaining_ms(rql_series_lock(series, i)) > 30000);
    }
    assert_null(rql_series_lock(series, 3));
    assert_int_equal(rql_series_get_state(series), RQL_HELD);
    assert_true(rql_series_remaining_ms(series) > 30000);
    CHECK_OK(rql_series_release(series, NULL, NULL));
    assert_int_equal(calls_of("evalsha") + calls_of("eval"), calls + 4);
    CHECK_NOTHING_OF_ABC();
}

/* Tokens rise in the order of the names, and are those that the server keeps. */
static void each_lock_has_a_token_and_a_secret_of_its_own(void **state)
{
    rql_lock *before = hold(client, "before");
    rql_series *series = take_series(client, cba, 3);
    char secret[TEXT_SIZE];

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const rql_lock *lock = rql_series_lock(series, i);

        assert_true(rql_lock_token(lock) > rql_lock_token(before));
        assert_int_equal(ask_int("HGET rql:lock:%s rql_token", cba[i]), rql_lock_token(lock));
        ask_text(secret, "HGET rql:lock:%s rql_nonce", cba[i]);
        assert_string_equal(secret, rql_lock_secret(lock));
        if (i > 0) {
            assert_true(rql_lock_token(lock) < rql_lock_token(rql_series_lock(series, i - 1)));
            assert_string_not_equal(secret, rql_lock_secret(rql_series_lock(series, i - 1)));
        }
    }
    CHECK_OK(rql_series_release(series, NULL, NULL));
    CHECK_OK(rql_lock_release(before, NULL));
}

static void the_most_locks_are_taken_and_given_back(void **state)
{
    static char names[RQL_SERIES_MAX][8];
    const char *list[RQL_SERIES_MAX];
    struct wish wish;
    rql_meta meta[] = {{"k", "v"}};
    rql_series *series;

    (void)state;
    for (size_t i = 0; i < RQL_SERIES_MAX; i++) {
        (void)snprintf(names[i], sizeof names[i], "n%zu", (i * 37) % RQL_SERIES_MAX);
        list[i] = names[i];
    }
    wish_for(&wish, client, list, RQL_SERIES_MAX);
    wish.lock.meta = meta;
    wish.lock.n_meta = 1;
    series = take_series_with(client, &wish);
    assert_int_equal(wish.result.n_acquired, RQL_SERIES_MAX);
    for (size_t i = 0; i < RQL_SERIES_MAX; i++) {
        char value[TEXT_SIZE];

        assert_string_equal(rql_lock_describe(rql_series_lock(series, i)).name, names[i]);
        assert_string_equal(ask_text(value, "HGET rql:lock:%s k", names[i]), "v");
    }
    CHECK_OK(rql_series_release(series, NULL, NULL));
    assert_int_equal(ask_int("EVAL return(#redis.call('keys','rql:lock*')) 0"), 0);
}

static void what_the_result_tells(void **state)
{
    struct wish wish;
    rql_series *series;

    (void)state;
    wish_for(&wish, client, cba, 3);
    series = take_series_with(client, &wish);
    assert_int_equal(wish.result.reason, RQL_OK);
    assert_int_equal(wish.result.count, 3);
    assert_int_equal(wish.result.n_acquired, 3);
    assert_int_equal(wish.result.failed_on, 3);
    assert_int_equal(wish.result.fate[1], RQL_SERIES_ACQUIRED);
    assert_int_equal(wish.result.ending, RQL_SERIES_BY_TTL);
    assert_true(wish.result.acq_time_us > 0);
    assert_int_equal(wish.result.hold_time_us, 0);
    CHECK_OK(rql_series_release(series, &wish.result, NULL));
    assert_int_equal(wish.result.ending, RQL_SERIES_BY_RELEASE);
    assert_true(wish.result.hold_time_us > 0);
}

/* One of them is held: nothing of the others is taken, and the result names it. */
static void a_held_lock_keeps_all_others_free(void **state)
{
    for (size_t held_at = 0; held_at < 3; held_at++) {
        rql_lock *held = hold(other, abc[held_at]);
        struct wish wish;
        rql_series *series = NULL;
        rql_status status;
        int rounds = 0;

        (void)state;
        wish_for(&wish, client, cba, 3);
        assert_int_equal(rql_series_try(client, &wish.options, &series, NULL),
                         RQL_FAIL_FAST_NO_TRY);
        wish.lock.timeout_ms = wait_stretched(50);
        do {
            status = rql_series_acquire(client, &wish.options, &series, NULL);
        } while (is_cut_short(status, abc[held_at], &rounds));
        assert_int_equal(status, RQL_TIMED_OUT);
        assert_null(series);
        assert_int_equal(wish.result.reason, RQL_TIMED_OUT);
        assert_int_equal(wish.result.failed_on, 2 - held_at);
        assert_int_equal(wish.result.n_acquired, 0);
        for (size_t i = 0; i < 3; i++) {
            rql_series_fate fate = i == held_at ? RQL_SERIES_HELD : RQL_SERIES_OPEN;

            assert_int_equal(wish.result.fate[2 - i], fate);
        }
        CHECK_OK(rql_lock_release(held, NULL));
        CHECK_NOTHING_OF_ABC();
    }
}

static void refusal_is_told_of_the_lock_it_failed_on(void **state)
{
    rql_lock *held = hold(other, "b");
    rql_refusal refusal = {.reason = RQL_OK};
    struct wish wish;
    rql_series *series = NULL;

    (void)state;
    wish_for(&wish, client, abc, 3);
    wish.lock.retry_count = 1;
    wish.lock.refusal = &refusal;
    wish.lock.detailed_acq_timeout_error = true;
    assert_int_equal(rql_series_acquire(client, &wish.options, &series, NULL), RQL_RETRY_LIMIT);
    assert_int_equal(refusal.reason, RQL_RETRY_LIMIT);
    assert_int_equal(refusal.tries, 1);
    assert_string_equal(refusal.holder->name, "b");
    assert_non_null(strstr(refusal.message, "\"rql:lock:b\" for the given retry_count"));
    rql_refusal_clear(&refusal);
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_NOTHING_OF_ABC();
}

/* In front of it somebody stands who is alive: fail_fast gives up, and leaves no trace. */
static void others_in_front_are_told_apart_from_holders(void **state)
{
    rql_lock *held = hold(other, "z");
    struct series_waiter first;
    const char *const az[] = {"a", "z"};
    struct wish wish;
    rql_series *series = NULL;

    (void)state;
    make_listen(other, client);
    series_waiter_init(&first, other, az, 2);
    first.releases = true;
    series_waiter_start_as(&first, 1);
    wish_for(&wish, client, abc, 3);
    assert_int_equal(rql_series_try(client, &wish.options, &series, NULL), RQL_FAIL_FAST_AFTER_TRY);
    assert_int_equal(wish.result.failed_on, 0);
    assert_int_equal(wish.result.fate[0], RQL_SERIES_BEHIND);
    assert_int_equal(wish.result.fate[1], RQL_SERIES_OPEN);
    CHECK_QUEUE_IS_EMPTY("b");
    assert_int_equal(ask_int("ZCARD rql:lock_queue:a"), 1);
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(series_waiter_join(&first));
    CHECK_NOTHING_OF_ABC();
}

static void an_own_lock_is_a_conflict_unless_it_may_be_shared(void **state)
{
    static const rql_conflict_strategy strategies[] = {
        RQL_WAIT_FOR_LOCK, RQL_EXTENDABLE_WORK_THROUGH, RQL_DEAD_LOCKING};
    rql_lock *own = hold(client, "b");
    struct wish wish;
    rql_series *series = NULL;

    (void)state;
    wish_for(&wish, client, abc, 3);
    for (size_t i = 0; i < 3; i++) {
        wish.lock.conflict_strategy = strategies[i];
        assert_int_equal(rql_series_acquire(client, &wish.options, &series, NULL), RQL_CONFLICT);
        assert_int_equal(wish.result.fate[1], RQL_SERIES_OWN);
        assert_int_equal(wish.result.failed_on, 1);
        CHECK_NOTHING_OF("a");
        CHECK_QUEUE_IS_EMPTY("b");
    }
    wish.lock.conflict_strategy = RQL_WORK_THROUGH;
    series = take_series_with(client, &wish);
    assert_int_equal(rql_lock_token(rql_series_lock(series, 1)), rql_lock_token(own));
    assert_int_equal(rql_lock_describe(rql_series_lock(series, 1)).process,
                     RQL_CONFLICT_WORK_THROUGH);
    assert_int_equal(ask_int("HGET rql:lock:b spc_cnt"), 1);
    CHECK_OK(rql_series_release(series, NULL, NULL));
    CHECK_NOTHING_OF("a");
    CHECK_NOTHING_OF("c");
    CHECK_OK(rql_lock_verify(own, NULL));
    CHECK_OK(rql_lock_release(own, NULL));
}

static void re_entry_into_a_series_shares_all_of_it(void **state)
{
    rql_series *outer = take_series(client, abc, 3);
    struct wish wish;
    rql_series *inner;

    (void)state;
    wish_for(&wish, client, cba, 3);
    wish.lock.conflict_strategy = RQL_WORK_THROUGH;
    inner = take_series_with(client, &wish);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(rql_lock_token(rql_series_lock(inner, i)),
                         rql_lock_token(rql_series_lock(outer, 2 - i)));
    }
    CHECK_OK(rql_series_release(inner, NULL, NULL));
    CHECK_OK(rql_series_release(outer, NULL, NULL));
    CHECK_NOTHING_OF_ABC();
}

static void names_are_checked_before_anything_is_sent(void **state)
{
    static const char *const twice[] = {"a", "b", "a"};
    static const char *const bad[] = {"a", ""};
    static const char *const none[] = {"a", NULL};
    static const char *many[RQL_SERIES_MAX + 1];

    const struct {
        const char *const *names;
        size_t count;
    } cases[] = {{twice, 3}, {bad, 2}, {none, 2}, {abc, 0}, {NULL, 3}, {many, RQL_SERIES_MAX + 1}};

    int64_t calls = calls_of("evalsha") + calls_of("eval");

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct wish wish;
        rql_series *series = NULL;
        rql_error error = {0};

        wish_for(&wish, client, cases[i].names, cases[i].count);
        assert_int_equal(rql_series_acquire(client, &wish.options, &series, &error), RQL_E_INVALID);
        assert_int_equal(error.status, RQL_E_INVALID);
        assert_int_equal(wish.result.count, 0);
    }
    assert_int_equal(rql_series_acquire(client, NULL, NULL, NULL), RQL_E_INVALID);
    assert_int_equal(calls_of("evalsha") + calls_of("eval"), calls);
}

static void what_ended_before_is_told_and_the_rest_released(void **state)
{
    rql_series *series = take_series(client, abc, 3);

    (void)state;
    ask("DEL rql:lock:b");
    assert_int_equal(rql_series_release(series, NULL, NULL), RQL_NOT_HELD);
    CHECK_NOTHING_OF_ABC();
}

/* What another has taken since is his: nothing of it is touched. */
static void release_leaves_the_locks_of_others_alone(void **state)
{
    rql_series *series = take_series(client, abc, 3);
    rql_lock *theirs;

    (void)state;
    ask("DEL rql:lock:b");
    theirs = hold(other, "b");
    assert_int_equal(rql_series_release(series, NULL, NULL), RQL_NOT_HELD);
    CHECK_OK(rql_lock_verify(theirs, NULL));
    CHECK_OK(rql_lock_release(theirs, NULL));
    CHECK_NOTHING_OF_ABC();
}

static void extension_is_of_all_locks(void **state)
{
    rql_series *series = take_series(client, abc, 3);
    rql_error error = {0};

    (void)state;
    CHECK_OK(rql_series_extend(series, 600000, NULL));
    for (size_t i = 0; i < 3; i++) {
        assert_true(ask_int("PTTL rql:lock:%s", abc[i]) > 500000);
    }
    assert_true(rql_series_remaining_ms(series) > 500000);
    assert_int_equal(rql_series_extend(series, 0, &error), RQL_E_INVALID);
    assert_int_equal(error.status, RQL_E_INVALID);
    ask("DEL rql:lock:b");
    assert_int_equal(rql_series_extend(series, 900000, NULL), RQL_NOT_HELD);
    assert_true(ask_int("PTTL rql:lock:c") > 800000);
    assert_int_equal(rql_series_get_state(series), RQL_GONE);
    assert_int_equal(rql_series_remaining_ms(series), 0);
    assert_int_equal(rql_series_release(series, NULL, NULL), RQL_NOT_HELD);
}

static void forgotten_locks_stay_until_their_ttl(void **state)
{
    rql_series *series = take_series(client, abc, 3);

    (void)state;
    assert_null(rql_series_forget(series));
    assert_null(rql_series_forget(NULL));
    for (size_t i = 0; i < 3; i++) {
        assert_true(ask_int("PTTL rql:lock:%s", abc[i]) > 30000);
    }
    CHECK_OK(rql_series_release(NULL, NULL, NULL));
}

static void loss_of_any_lock_is_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct wish wish;
        rql_series *series;
        int fd = -1;

        wish_for(&wish, client, abc, 3);
        wish.lock.ttl_ms = 1500;
        wish.lock.auto_extend = true;
        series = take_series_with(client, &wish);
        CHECK_OK(rql_series_lost_fd(series, &fd, NULL));
        assert_false(wait_readable(fd, 0));
        ask("DEL rql:lock:%s", abc[i]);
        assert_true(wait_readable(fd, AWAIT_MS));
        assert_int_equal(rql_series_get_state(series), RQL_GONE);
        assert_int_equal(rql_series_release(series, NULL, NULL), RQL_NOT_HELD);
    }
}

static int count_in_block(rql_series *series, void *user_data)
{
    (void)user_data;
    for (size_t i = 0; i < 3; i++) {
        if (ask_int("EXISTS rql:lock:%s", abc[i]) != 1) {
            return -1;
        }
    }
    return (int)rql_series_count(series);
}

static void block_runs_under_all_locks(void **state)
{
    rql_series_block block = {.run = count_in_block};
    struct wish wish;

    (void)state;
    wish_for(&wish, client, abc, 3);
    CHECK_OK(rql_with_series(client, &wish.options, &block, NULL));
    assert_int_equal(block.value, 3);
    assert_int_equal(wish.result.ending, RQL_SERIES_BY_RELEASE);
    assert_true(wish.result.hold_time_us > 0);
    CHECK_NOTHING_OF_ABC();
    block.run = NULL;
    assert_int_equal(rql_with_series(client, &wish.options, &block, NULL), RQL_E_INVALID);
}

static int outlast(rql_series *series, void *user_data)
{
    (void)user_data;
    while (rql_series_remaining_ms(series) > 0 || ask_int("EXISTS rql:lock:a") == 1) {
    }
    return 7;
}

static void timed_block_is_told_that_it_overran(void **state)
{
    rql_series_block block = {.run = outlast};
    struct wish wish;

    (void)state;
    wish_for(&wish, client, abc, 3);
    wish.lock.ttl_ms = 60;
    wish.lock.timed = true;
    assert_int_equal(rql_with_series(client, &wish.options, &block, NULL), RQL_BLOCK_OVERRAN);
    assert_int_equal(block.value, 7);
    wish.lock.timed = false;
    assert_int_equal(rql_with_series(client, &wish.options, &block, NULL), RQL_NOT_HELD);
}

static int leave_thread(rql_series *series, void *user_data)
{
    (void)series;
    (void)user_data;
    pthread_exit(NULL);
}

static void *run_block_that_leaves(void *data)
{
    rql_series_block block = {.run = leave_thread};
    struct wish wish;

    wish_for(&wish, data, abc, 3);
    (void)!rql_with_series(data, &wish.options, &block, NULL);
    return NULL;
}

static void thread_that_ends_in_the_block_releases(void **state)
{
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, run_block_that_leaves, client), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    CHECK_NOTHING_OF_ABC();
}

/* In a child of the process: every call says so, and nothing of the parent's is touched. */
static bool is_refused_after_fork(rql_series *series)
{
    struct wish wish;
    rql_series *second = NULL;
    int fd;

    wish_for(&wish, client, abc, 3);
    return rql_series_acquire(client, &wish.options, &second, NULL) == RQL_E_FORKED &&
           rql_series_extend(series, 1000, NULL) == RQL_E_FORKED &&
           rql_series_lost_fd(series, &fd, NULL) == RQL_E_FORKED &&
           rql_series_get_state(series) == RQL_GONE && rql_series_remaining_ms(series) == 0 &&
           rql_series_release(series, NULL, NULL) == RQL_E_FORKED;
}

static void a_series_belongs_to_the_parent(void **state)
{
    rql_series *series = take_series(client, abc, 3);
    pid_t child = fork();
    int how = 0;

    (void)state;
    assert_true(child >= 0);
    if (child == 0) {
        _exit(is_refused_after_fork(series) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    CHECK_OK(rql_series_release(series, NULL, NULL));
    CHECK_NOTHING_OF_ABC();
}

static void scripts_may_be_unknown_to_the_server(void **state)
{
    rql_series *series;

    (void)state;
    for (int i = 0; i < 3; i++) {
        ask("SCRIPT FLUSH");
        series = take_series(client, abc, 3);
        ask("SCRIPT FLUSH");
        CHECK_OK(rql_series_extend(series, 70000, NULL));
        ask("SCRIPT FLUSH");
        CHECK_OK(rql_series_release(series, NULL, NULL));
        series = take_series(client, abc, 3);
        ask("DEL rql:lock:a");
        ask("SCRIPT FLUSH");
        assert_int_equal(rql_series_release(series, NULL, NULL), RQL_NOT_HELD);
    }
    CHECK_NOTHING_OF_ABC();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(all_locks_are_taken_in_one_round_trip),
        TEST(each_lock_has_a_token_and_a_secret_of_its_own),
        TEST(the_most_locks_are_taken_and_given_back),
        TEST(what_the_result_tells),
        TEST(a_held_lock_keeps_all_others_free),
        TEST(refusal_is_told_of_the_lock_it_failed_on),
        TEST(others_in_front_are_told_apart_from_holders),
        TEST(an_own_lock_is_a_conflict_unless_it_may_be_shared),
        TEST(re_entry_into_a_series_shares_all_of_it),
        TEST(names_are_checked_before_anything_is_sent),
        TEST(what_ended_before_is_told_and_the_rest_released),
        TEST(release_leaves_the_locks_of_others_alone),
        TEST(extension_is_of_all_locks),
        TEST(forgotten_locks_stay_until_their_ttl),
        TEST(loss_of_any_lock_is_told),
        TEST(block_runs_under_all_locks),
        TEST(timed_block_is_told_that_it_overran),
        TEST(thread_that_ends_in_the_block_releases),
        TEST(a_series_belongs_to_the_parent),
        TEST(scripts_may_be_unknown_to_the_server),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
