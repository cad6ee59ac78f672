#include "check.h"

#include "options/options.h"

#include <string.h>

#define AT(member) offsetof(rql_lock_options, member), sizeof given.member

static rql_options client;
static rql_lock_options given;
static rql_lock_options read_back;
static rql_error error;

/* As a client with these options reads them. */
static rql_status read_call(const rql_lock_options *options, rql_error *detail)
{
    rql_lock_options defaults;

    rqli_options_fill(RQLI_OF_LOCK, &defaults, &client);
    return rqli_lock_options_read(&read_back, &defaults, options, detail);
}

static int set_up(void **state)
{
    (void)state;
    rql_options_init(&client);
    rqli_options_fill(RQLI_OF_LOCK, &given, &client);
    memset(&read_back, 0, sizeof read_back);
    memset(&error, 0, sizeof error);
    return 0;
}

static void defaults_come_from_the_client(void **state)
{
    (void)state;
    client.default_lock_ttl_ms = 11;
    client.default_queue_ttl_ms = 12;
    client.try_to_lock_timeout_ms = 13;
    client.retry_count = 14;
    client.retry_delay_ms = 15;
    client.retry_jitter_ms = 16;
    client.is_timed_by_default = true;
    client.detailed_acq_timeout_error = true;
    client.default_conflict_strategy = RQL_WORK_THROUGH;
    client.default_access_strategy = RQL_RANDOM;
    CHECK_OK(read_call(NULL, NULL));
    assert_int_equal(read_back.size, sizeof read_back);
    assert_int_equal(read_back.ttl_ms, 11);
    assert_int_equal(read_back.queue_ttl_ms, 12);
    assert_int_equal(read_back.timeout_ms, 13);
    assert_int_equal(read_back.retry_count, 14);
    assert_int_equal(read_back.retry_delay_ms, 15);
    assert_int_equal(read_back.retry_jitter_ms, 16);
    assert_true(read_back.timed);
    assert_true(read_back.detailed_acq_timeout_error);
    assert_int_equal(read_back.conflict_strategy, RQL_WORK_THROUGH);
    assert_int_equal(read_back.access_strategy, RQL_RANDOM);
}

static void without_a_client_the_defaults_are_the_librarys(void **state)
{
    rql_lock_options options;

    (void)state;
    memset(&options, 0xA5, sizeof options);
    rqli_options_fill(RQLI_OF_LOCK, &options, NULL);
    assert_memory_equal(&options, &given, sizeof options);
    assert_int_equal(options.ttl_ms, 5000);
    assert_int_equal(options.queue_ttl_ms, 15000);
    assert_int_equal(options.timeout_ms, 10000);
    assert_int_equal(options.retry_count, 3);
    assert_int_equal(options.retry_delay_ms, 200);
    assert_int_equal(options.retry_jitter_ms, 25);
    assert_false(options.fail_fast);
    assert_false(options.auto_extend);
    assert_int_equal(options.max_hold_ms, RQL_FOREVER);
    assert_null(options.meta);
    assert_null(options.on_lost);
    assert_null(options.refusal);
    assert_int_equal(options.task, 0);
}

static void check_refused(const char *message)
{
    assert_int_equal(read_call(&given, &error), RQL_E_INVALID);
    assert_string_equal(error.message, message);
}

static void what_only_a_call_has_is_checked_too(void **state)
{
    static const struct {
        size_t offset;
        size_t width;
        int64_t value;
        const char *message; /* NULL: it is taken */
    } rows[] = {
        {AT(max_hold_ms), 0, "max_hold_ms is 0; it must be 1 or more, or forever"},
        {AT(max_hold_ms), -2, "max_hold_ms is -2; it must be 1 or more, or forever"},
        {AT(max_hold_ms), 1, NULL},
        {AT(fail_fast), 7, "fail_fast is 7; it must be true | false"},
        {AT(fail_fast), true, NULL},
        {AT(auto_extend), 7, "auto_extend is 7; it must be true | false"},
        {AT(auto_extend), true, NULL},
    };

    (void)state;
    for (size_t i = 0; i < N_ROWS(rows); i++) {
        print_message("# row %zu\n", i);
        rqli_options_fill(RQLI_OF_LOCK, &given, &client);
        memcpy((char *)&given + rows[i].offset, &rows[i].value, rows[i].width);
        if (rows[i].message) {
            check_refused(rows[i].message);
        } else {
            CHECK_OK(read_call(&given, NULL));
            assert_memory_equal((char *)&read_back + rows[i].offset, &rows[i].value, rows[i].width);
        }
    }
}

static void meta_is_taken_as_it_is(void **state)
{
    static const rql_meta meta[] = {
        {"a", ""}, {"b", "x\ny"}, {"A", "z"}, {"rql", "1"}, {"tsx", "2"}};

    (void)state;
    given.meta = meta;
    given.n_meta = 5;
    CHECK_OK(read_call(&given, NULL));
    assert_ptr_equal(read_back.meta, meta);
    assert_int_equal(read_back.n_meta, 5);
}

static void malformed_pairs_are_refused(void **state)
{
    static const struct {
        rql_meta meta[3];
        size_t n_meta;
        const char *message;
    } rows[] = {
        {{{"a", "1"}}, RQL_META_MAX_PAIRS + 1, "n_meta is 65; it must be 0 to 64"},
        {{{NULL, "1"}}, 1, "meta[0]: name or value is NULL"},
        {{{"a", "1"}, {"b", NULL}}, 2, "meta[1]: name or value is NULL"},
        {{{"", "1"}}, 1, "meta[0]: name is empty"},
        {{{"a", "1"}, {"b", "2"}, {"a", "3"}}, 3, "meta[2]: name is there twice"},
    };

    (void)state;
    given.n_meta = 1;
    check_refused("meta is NULL while n_meta is 1");
    for (size_t i = 0; i < N_ROWS(rows); i++) {
        print_message("# row %zu\n", i);
        given.meta = rows[i].meta;
        given.n_meta = rows[i].n_meta;
        check_refused(rows[i].message);
    }
}

static void reserved_names_are_refused(void **state)
{
    static const char *const names[] = {
        "acq_id",       "hst_id",      "ts",
        "ini_ttl",      "lock_key",    "rem_ttl",
        "spc_cnt",      "spc_ext_ttl", "l_spc_ext_ini_ttl",
        "l_spc_ext_ts", "l_spc_ts",    "rql_",
        "rql_nonce",    "rql_x",
    };

    (void)state;
    for (size_t i = 0; i < N_ROWS(names); i++) {
        const rql_meta meta[] = {{"fine", "1"}, {names[i], "2"}};

        say_row(names[i]);
        given.meta = meta;
        given.n_meta = 2;
        check_refused("meta[1]: name is reserved: a field of the lock, or begins with rql_");
    }
}

static void meta_has_at_most_64_pairs(void **state)
{
    rql_meta meta[RQL_META_MAX_PAIRS];
    char names[RQL_META_MAX_PAIRS][8];

    (void)state;
    for (size_t i = 0; i < RQL_META_MAX_PAIRS; i++) {
        (void)snprintf(names[i], sizeof names[i], "n%zu", i);
        meta[i] = (rql_meta){names[i], "v"};
    }
    given.meta = meta;
    given.n_meta = RQL_META_MAX_PAIRS;
    CHECK_OK(read_call(&given, NULL));
}

static void meta_has_at_most_16384_bytes_together(void **state)
{
    static char value[RQL_META_MAX_BYTES + 1];
    const rql_meta meta[] = {{"a", value}, {"b", ""}};

    (void)state;
    memset(value, 'v', RQL_META_MAX_BYTES - 1);
    given.meta = meta;
    given.n_meta = 1;
    CHECK_OK(read_call(&given, NULL));
    given.n_meta = 2;
    check_refused("meta[1]: the pairs have too many bytes; at most 16384 are allowed");
    value[RQL_META_MAX_BYTES - 1] = 'v';
    given.n_meta = 1;
    check_refused("meta[0]: the pairs have too many bytes; at most 16384 are allowed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(defaults_come_from_the_client, set_up),
        cmocka_unit_test_setup(without_a_client_the_defaults_are_the_librarys, set_up),
        cmocka_unit_test_setup(what_only_a_call_has_is_checked_too, set_up),
        cmocka_unit_test_setup(meta_is_taken_as_it_is, set_up),
        cmocka_unit_test_setup(malformed_pairs_are_refused, set_up),
        cmocka_unit_test_setup(reserved_names_are_refused, set_up),
        cmocka_unit_test_setup(meta_has_at_most_64_pairs, set_up),
        cmocka_unit_test_setup(meta_has_at_most_16384_bytes_together, set_up),
    };

    return cmocka_run_group_tests_name("lock_options", tests, NULL, NULL);
}
