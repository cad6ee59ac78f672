#include "clients.h"

/* What the library refuses before it sends anything: names, ttls, metadata, options. */

static char long_name[RQL_NAME_MAX + 2];

/* Refused with a reason, and the handle is left alone; nothing is on the server. */
static void check_invalid(const char *name, const rql_lock_options *options, const char *what)
{
    rql_lock *const untouched = (rql_lock *)(uintptr_t)16;
    rql_lock *lock = untouched;
    rql_error error = {0};
    rql_status status = rql_lock_acquire(client, name, options, &lock, &error);

    if (status != RQL_E_INVALID || error.status != RQL_E_INVALID || error.message[0] == '\0') {
        fail_msg("%s: %s %s", what, rql_status_text(status), error.message);
    }
    assert_ptr_equal(lock, untouched);
    assert_int_equal(rql_lock_try(client, name, options, &lock, &error), RQL_E_INVALID);
    assert_int_equal(ask_int("DBSIZE"), 0);
}

static void bad_names_are_refused_by_every_call(void **state)
{
    static const char *const bad[] = {"",        "\x01",  "a\nb",    "a\x1f", "\x7f",
                                      "a\x7f b", "tab\t", "\r\nDEL", "\x1b[m"};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        check_invalid(bad[i], NULL, bad[i]);
        assert_int_equal(rql_force_unlock(client, bad[i], NULL, NULL), RQL_E_INVALID);
        assert_int_equal(rql_force_extend(client, bad[i], 1, NULL), RQL_E_INVALID);
        assert_int_equal(rql_check_until_free(client, bad[i], NULL, NULL), RQL_E_INVALID);
        assert_int_equal(
            rql_release_by_secret(client, bad[i], "00000000000000000000000000000000", NULL),
            RQL_E_INVALID);
    }
    check_invalid(NULL, NULL, "NULL");
    assert_int_equal(rql_release_by_secret(client, "x", NULL, NULL), RQL_E_INVALID);
}

static void a_name_may_have_512_bytes_and_not_one_more(void **state)
{
    (void)state;
    memset(long_name, 'n', sizeof long_name - 1);
    check_invalid(long_name, NULL, "513 bytes");
    long_name[RQL_NAME_MAX] = '\0';
    CHECK_OK(rql_lock_release(hold(client, long_name), NULL));
}

static void any_other_bytes_make_a_name(void **state)
{
    static const char *const good[] = {
        "x", " ", "%s%n", "{tag}:1", "\xc3\xa4\xe2\x82\xac", "\xff\xfe", "a:b/c*[d]?\\\"'"};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof good / sizeof good[0]; i++) {
        rql_lock *lock = hold(client, good[i]);
        redisReply *reply = redisCommand(raw, "EXISTS rql:lock:%s", good[i]);

        assert_int_equal(reply->integer, 1);
        freeReplyObject(reply);
        assert_string_equal(rql_lock_describe(lock).name, good[i]);
        CHECK_OK(rql_lock_release(lock, NULL));
    }
}

static void a_ttl_is_1_ms_to_30_days(void **state)
{
    static const int64_t bad[] = {0, -1, INT64_MIN, RQL_TTL_MAX_MS + 1, INT64_MAX};
    rql_lock_options options = patient(client);
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        options.ttl_ms = bad[i];
        check_invalid("x", &options, "ttl");
    }
    options.ttl_ms = RQL_TTL_MAX_MS;
    CHECK_OK(rql_lock_release(hold_with(client, "x", &options), NULL));
    options.ttl_ms = 2000;
    rql_lock_forget(hold_with(client, "x", &options));
    assert_in_range(ask_int("PTTL rql:lock:x"), 1, 2000);
}

/* It may have ended before its answer is here; then the call tries again until its deadline. */
static void a_ttl_of_1_ms_is_held_or_timed_out_and_never_stays(void **state)
{
    rql_lock_options options = patient(client);
    rql_lock *lock = NULL;
    rql_status status;

    (void)state;
    options.ttl_ms = 1;
    options.timeout_ms = 300;
    status = rql_lock_acquire(client, "x", &options, &lock, NULL);
    assert_true(status == RQL_OK || status == RQL_TIMED_OUT);
    if (status == RQL_OK) {
        (void)rql_lock_release(lock, NULL);
    }
    await_int(0, "EXISTS rql:lock:x");
    CHECK_QUEUE_IS_EMPTY("x");
}

static void meta_has_64_pairs_at_most(void **state)
{
    static char names[RQL_META_MAX_PAIRS + 1][8];
    rql_meta meta[RQL_META_MAX_PAIRS + 1];
    rql_lock_options options = patient(client);
    size_t i;

    (void)state;
    for (i = 0; i <= RQL_META_MAX_PAIRS; i++) {
        (void)snprintf(names[i], sizeof names[i], "m%zu", i);
        meta[i] = (rql_meta){names[i], "v"};
    }
    options.meta = meta;
    options.n_meta = RQL_META_MAX_PAIRS + 1;
    check_invalid("x", &options, "65 pairs");
    options.n_meta = RQL_META_MAX_PAIRS;
    rql_lock_forget(hold_with(client, "x", &options));
    assert_int_equal(ask_int("HLEN rql:lock:x"), 4 + RQL_META_MAX_PAIRS + 2);
}

static void meta_has_16384_bytes_at_most(void **state)
{
    static char value[RQL_META_MAX_BYTES + 1];
    rql_meta meta = {"m", value};
    rql_lock_options options = patient(client);

    (void)state;
    memset(value, 'v', RQL_META_MAX_BYTES);
    options.meta = &meta;
    options.n_meta = 1;
    check_invalid("x", &options, "16385 bytes");
    value[RQL_META_MAX_BYTES - 1] = '\0';
    rql_lock_forget(hold_with(client, "x", &options));
    assert_int_equal(ask_int("HSTRLEN rql:lock:x m"), RQL_META_MAX_BYTES - 1);
}

static void meta_may_not_pose_as_a_field_of_the_lock(void **state)
{
    static const char *const bad[] = {
        "acq_id",  "hst_id",    "ts",          "ini_ttl",  "lock_key",
        "rem_ttl", "spc_cnt",   "spc_ext_ttl", "l_spc_ts", "l_spc_ext_ini_ttl",
        "rql_",    "rql_nonce", "rql_token",   "",         "l_spc_ext_ts",
    };
    rql_lock_options options = patient(client);
    rql_meta meta = {NULL, "v"};
    size_t i;

    (void)state;
    options.meta = &meta;
    options.n_meta = 1;
    check_invalid("x", &options, "NULL");
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        meta.name = bad[i];
        check_invalid("x", &options, bad[i]);
    }
    meta = (rql_meta){"m", NULL};
    check_invalid("x", &options, "value NULL");
}

static void a_pair_may_not_be_there_twice(void **state)
{
    static const rql_meta meta[] = {{"m", "1"}, {"n", "2"}, {"m", "3"}};
    rql_lock_options options = patient(client);

    (void)state;
    options.meta = meta;
    options.n_meta = 3;
    check_invalid("x", &options, "twice");
    options.n_meta = 2;
    CHECK_OK(rql_lock_release(hold_with(client, "x", &options), NULL));
}

static void missing_arguments_are_refused(void **state)
{
    rql_lock *lock = NULL;
    rql_error error = {0};

    (void)state;
    assert_int_equal(rql_lock_acquire(NULL, "x", NULL, &lock, &error), RQL_E_INVALID);
    assert_int_equal(rql_lock_acquire(client, "x", NULL, NULL, &error), RQL_E_INVALID);
    assert_int_equal(rql_lock_try(NULL, "x", NULL, &lock, &error), RQL_E_INVALID);
    assert_int_equal(rql_lock_try(client, "x", NULL, NULL, &error), RQL_E_INVALID);
    assert_int_equal(rql_lock_extend(NULL, 1, &error), RQL_E_INVALID);
    assert_int_equal(rql_lock_verify(NULL, &error), RQL_E_INVALID);
    assert_int_equal(rql_lock_get_state(NULL), RQL_GONE);
    assert_int_equal(rql_lock_remaining_ms(NULL), 0);
    assert_int_equal(rql_lock_token(NULL), 0);
    assert_null(rql_lock_secret(NULL));
    assert_null(rql_lock_describe(NULL).name);
    assert_int_equal(rql_series_get_state(NULL), RQL_GONE);
    assert_int_equal(rql_series_remaining_ms(NULL), 0);
    assert_int_equal(rql_series_count(NULL), 0);
    assert_null(rql_series_lock(NULL, 0));
    assert_int_equal(ask_int("DBSIZE"), 0);
}

static void bad_sweeps_are_refused(void **state)
{
    char id[RQL_NAME_MAX + 2];
    rql_sweep_owner owner = {.acq_id = "a", .hst_id = NULL};
    rql_sweep_result result = {.rel_key_cnt = 77};
    rql_sweep_options options;

    (void)state;
    memset(id, 'i', sizeof id - 1);
    id[RQL_NAME_MAX + 1] = '\0';
    assert_int_equal(rql_clear_locks(NULL, NULL, &result, NULL), RQL_E_INVALID);
    assert_int_equal(rql_clear_dead_requests(NULL, NULL, NULL, NULL, NULL), RQL_E_INVALID);
    assert_int_equal(rql_clear_current_locks(NULL, 0, NULL, NULL, NULL), RQL_E_INVALID);
    assert_int_equal(rql_clear_locks_of(client, NULL, NULL, NULL, NULL), RQL_E_INVALID);
    assert_int_equal(rql_clear_locks_of(client, &owner, NULL, NULL, NULL), RQL_E_INVALID);
    owner = (rql_sweep_owner){.acq_id = "", .hst_id = "h"};
    assert_int_equal(rql_clear_locks_of(client, &owner, NULL, NULL, NULL), RQL_E_INVALID);
    owner = (rql_sweep_owner){.acq_id = "a", .hst_id = id};
    assert_int_equal(rql_clear_locks_of(client, &owner, NULL, NULL, NULL), RQL_E_INVALID);
    id[RQL_NAME_MAX] = '\0';
    CHECK_OK(rql_clear_locks_of(client, &owner, NULL, NULL, NULL));
    rql_sweep_options_init(client, &options);
    options.batch_size = 0;
    assert_int_equal(rql_clear_locks(client, &options, &result, NULL), RQL_E_INVALID);
    assert_int_equal(result.rel_key_cnt, 77);
    CHECK_OK(rql_clear_locks(client, NULL, NULL, NULL));
    CHECK_OK(rql_clear_current_locks(client, 0, NULL, NULL, NULL));
    CHECK_OK(rql_clear_dead_requests(client, NULL, NULL, NULL, NULL));
}

static void bad_looks_are_refused(void **state)
{
    rql_lock_info *info = NULL;
    rql_refusal refusal = {.reason = RQL_TIMED_OUT, .tries = 3};
    bool answer = true;

    (void)state;
    assert_int_equal(rql_is_locked(client, "", &answer, NULL), RQL_E_INVALID);
    assert_int_equal(rql_is_queued(client, "a\n", &answer, NULL), RQL_E_INVALID);
    assert_int_equal(rql_is_locked(client, NULL, &answer, NULL), RQL_E_INVALID);
    assert_int_equal(rql_get_lock_info(client, "\x7f", &info, NULL), RQL_E_INVALID);
    assert_int_equal(rql_get_lock_info(client, "a", NULL, NULL), RQL_E_INVALID);
    assert_int_equal(rql_list_keys(client, NULL, NULL), RQL_E_INVALID);
    assert_int_equal(rql_is_locked(NULL, "a", &answer, NULL), RQL_E_INVALID);
    assert_true(answer);
    assert_null(info);
    assert_null(rql_lock_info_free(NULL));
    assert_null(rql_queue_info_free(NULL));
    assert_null(rql_lock_info_list_free(NULL));
    assert_null(rql_queue_info_list_free(NULL));
    assert_null(rql_text_list_free(NULL));
    rql_refusal_clear(NULL);
    assert_int_equal(rql_swarm_start(client, NULL, NULL, NULL), RQL_E_INVALID);
    assert_null(rql_swarm_free(NULL));
    rql_swarm_stop(NULL);
    ask("HSET rql:lock:a acq_id a hst_id h ts 1.5 ini_ttl 9000");
    CHECK_OK(rql_get_lock_info(client, "a", &refusal.holder, NULL));
    for (int i = 0; i < 2; i++) {
        rql_refusal_clear(&refusal);
        assert_null(refusal.holder);
        assert_int_equal(refusal.tries, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(bad_names_are_refused_by_every_call),
        TEST(a_name_may_have_512_bytes_and_not_one_more),
        TEST(any_other_bytes_make_a_name),
        TEST(a_ttl_is_1_ms_to_30_days),
        TEST(a_ttl_of_1_ms_is_held_or_timed_out_and_never_stays),
        TEST(meta_has_64_pairs_at_most),
        TEST(meta_has_16384_bytes_at_most),
        TEST(meta_may_not_pose_as_a_field_of_the_lock),
        TEST(a_pair_may_not_be_there_twice),
        TEST(missing_arguments_are_refused),
        TEST(bad_sweeps_are_refused),
        TEST(bad_looks_are_refused),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
