#include "check.h"

#include "options/options.h"

#include <stdlib.h>
#include <string.h>

/* The fields of the header, written down once more to hold the table against. */
#define FIELD(member)                                                                              \
    {                                                                                              \
#member, offsetof(rql_options, member), sizeof(((rql_options *)0)->member), true           \
    }
/* Functions and their data are no options for a table. */
#define LISTENER(member)                                                                           \
    {                                                                                              \
#member, offsetof(rql_options, member), sizeof(((rql_options *)0)->member), false          \
    }

static const struct {
    const char *name;
    size_t offset;
    size_t width;
    bool has_row;
} fields[] = {
    FIELD(url),
    FIELD(connect_timeout_ms),
    FIELD(io_timeout_ms),
    FIELD(spin_us),
    FIELD(retry_count),
    FIELD(retry_delay_ms),
    FIELD(retry_jitter_ms),
    FIELD(try_to_lock_timeout_ms),
    FIELD(default_lock_ttl_ms),
    FIELD(default_queue_ttl_ms),
    FIELD(is_timed_by_default),
    FIELD(detailed_acq_timeout_error),
    FIELD(default_conflict_strategy),
    FIELD(default_access_strategy),
    FIELD(key_extraction_batch_size),
    FIELD(lock_release_batch_size),
    FIELD(clear_locks_of_lock_scan_size),
    FIELD(clear_locks_of_queue_scan_size),
    FIELD(dead_request_ttl_ms),
    FIELD(log_lock_try),
    FIELD(log_sampling_enabled),
    FIELD(instr_sampling_enabled),
    FIELD(log_sampling_percent),
    FIELD(instr_sampling_percent),
    LISTENER(logger),
    LISTENER(logger_data),
    LISTENER(log_sampler),
    LISTENER(log_sampler_data),
    LISTENER(instrumenter),
    LISTENER(instrumenter_data),
    LISTENER(instr_sampler),
    LISTENER(instr_sampler_data),
    FIELD(auto_swarm),
    FIELD(swarm_probe_hosts),
    FIELD(swarm_flush_zombies),
    FIELD(swarm_liveness_probing_period_ms),
    FIELD(swarm_probe_period_ms),
    FIELD(zombie_ttl_ms),
    FIELD(zombie_flush_period_ms),
    FIELD(zombie_lock_scan_size),
    FIELD(zombie_queue_scan_size),
};

enum { N_FIELDS = sizeof fields / sizeof fields[0] };

/* Ranges as include/rql/options.h documents them. */
static const struct bounds {
    const char *name;
    int64_t min;
    int64_t max;
    bool forever;
    int64_t fallback;
} bounds[] = {
    {"connect_timeout_ms", 1, 600000, false, 1000},
    {"io_timeout_ms", 1, 600000, false, 1000},
    {"spin_us", 0, 1000, false, 0},
    {"retry_count", 0, INT64_MAX, true, 3},
    {"retry_delay_ms", 1, 3600000, false, 200},
    {"retry_jitter_ms", 0, 3600000, false, 25},
    {"try_to_lock_timeout_ms", 0, INT64_MAX, true, 10000},
    {"default_lock_ttl_ms", 1, RQL_TTL_MAX_MS, false, 5000},
    {"default_queue_ttl_ms", 1, INT64_MAX, true, 15000},
    {"is_timed_by_default", 0, 1, false, false},
    {"detailed_acq_timeout_error", 0, 1, false, false},
    {"default_conflict_strategy", 0, RQL_DEAD_LOCKING, false, RQL_WAIT_FOR_LOCK},
    {"default_access_strategy", 0, RQL_RANDOM, false, RQL_QUEUED},
    {"key_extraction_batch_size", 1, 100000, false, 500},
    {"lock_release_batch_size", 1, 100000, false, 100},
    {"clear_locks_of_lock_scan_size", 1, 100000, false, 300},
    {"clear_locks_of_queue_scan_size", 1, 100000, false, 300},
    {"dead_request_ttl_ms", 1, INT64_C(315360000000), false, 86400000},
    {"log_lock_try", 0, 1, false, false},
    {"log_sampling_enabled", 0, 1, false, false},
    {"log_sampling_percent", 0, 100, false, 15},
    {"instr_sampling_enabled", 0, 1, false, false},
    {"instr_sampling_percent", 0, 100, false, 15},
    {"auto_swarm", 0, 1, false, false},
    {"swarm_liveness_probing_period_ms", 1, 3600000, false, 2000},
    {"swarm_probe_hosts", 0, 1, false, true},
    {"swarm_probe_period_ms", 1, 3600000, false, 2000},
    {"swarm_flush_zombies", 0, 1, false, true},
    {"zombie_ttl_ms", 1, INT64_C(31536000000), false, 15000},
    {"zombie_flush_period_ms", 1, 3600000, false, 10000},
    {"zombie_lock_scan_size", 1, 100000, false, 500},
    {"zombie_queue_scan_size", 1, 100000, false, 500},
};

enum { N_BOUNDS = sizeof bounds / sizeof bounds[0] };

static const struct rqli_option *option_of(const char *name)
{
    const struct rqli_option *option = NULL;

    for (size_t i = 0; (option = rqli_option_at(i)); i++) {
        if (strcmp(option->shown.name, name) == 0) {
            return option;
        }
    }
    fail_msg("no row for %s", name);
    abort(); /* not reached; cmocka does not say that it never returns */
}

/* As a client with these options reads them. */
static rql_status read_call(rql_lock_options *out, const rql_options *client,
                            const rql_lock_options *given, rql_error *error)
{
    rql_lock_options defaults;

    rqli_options_fill(RQLI_OF_LOCK, &defaults, client);
    return rqli_lock_options_read(out, &defaults, given, error);
}

static void check_row(size_t index)
{
    const struct rqli_option *option = option_of(fields[index].name);

    assert_int_equal(option->in[RQLI_OF_CLIENT].offset, fields[index].offset);
    assert_int_equal(rqli_option_width(option), fields[index].width);
}

static void the_table_covers_every_field(void **state)
{
    size_t end = offsetof(rql_options, url);
    size_t n_rows = 0;

    (void)state;
    for (size_t i = 0; i < N_FIELDS; i++) {
        print_message("# field %s\n", fields[i].name);
        if (fields[i].has_row) {
            check_row(i);
            n_rows++;
        }
        /* No more than padding lies between two fields, so none is missing above. */
        assert_true(fields[i].offset >= end && fields[i].offset - end < fields[i].width);
        end = fields[i].offset + fields[i].width;
    }
    assert_int_equal(end, sizeof(rql_options));
    assert_non_null(rql_option_row_at(n_rows - 1));
    assert_null(rql_option_row_at(n_rows));
    assert_null(rql_option_row_at(SIZE_MAX));
}

static void the_defaults_are_those_of_the_header(void **state)
{
    rql_options options;

    (void)state;
    rql_options_init(&options);
    assert_int_equal(options.size, sizeof options);
    assert_string_equal(options.url, "local:");
    for (size_t i = 0; i < N_BOUNDS; i++) {
        const struct rqli_option *option = option_of(bounds[i].name);

        print_message("# option %s\n", bounds[i].name);
        assert_true(
            rqli_option_load(option, (char *)&options + option->in[RQLI_OF_CLIENT].offset) ==
            bounds[i].fallback);
    }
}

static rql_status read_with(const struct rqli_option *option, int64_t value, rql_error *error)
{
    rql_options given;
    rql_options read;

    rql_options_init(&given);
    rqli_option_store(option, (char *)&given + option->in[RQLI_OF_CLIENT].offset, value);
    return rqli_options_read(RQLI_OF_CLIENT, &read, NULL, &given, error);
}

static rql_status call_with(const struct rqli_option *option, int64_t value, rql_error *error)
{
    rql_lock_options given;
    rql_lock_options read;
    rql_options client;

    rql_options_init(&client);
    rqli_options_fill(RQLI_OF_LOCK, &given, NULL);
    rqli_option_store(option, (char *)&given + option->in[RQLI_OF_LOCK].offset, value);
    return read_call(&read, &client, &given, error);
}

typedef rql_status try_fn(const struct rqli_option *option, int64_t value, rql_error *error);

static void check_refused(try_fn *try, const struct rqli_option *option, const char *name,
                          int64_t value)
{
    char expected[RQL_ERROR_MESSAGE_SIZE];
    rql_error error = {0};

    (void)snprintf(expected, sizeof expected, "%s is %lld; it must be %s", name, (long long)value,
                   option->shown.range);
    assert_int_equal(try(option, value, &error), RQL_E_INVALID);
    assert_int_equal(error.status, RQL_E_INVALID);
    assert_string_equal(error.message, expected);
    assert_int_equal(try(option, value, NULL), RQL_E_INVALID);
}

static void check_bounds(try_fn *try, const struct bounds *row, const char *name)
{
    const struct rqli_option *option = option_of(row->name);

    print_message("# option %s\n", name);
    CHECK_OK(try(option, row->min, NULL));
    CHECK_OK(try(option, row->max, NULL));
    check_refused(try, option, name, row->forever ? -2 : row->min == 0 && row->max <= 1 ? 7 : -1);
    if (row->min == 1) {
        check_refused(try, option, name, 0);
    }
    if (row->max < INT64_MAX) {
        check_refused(try, option, name, row->max + 1);
    }
    if (row->forever) {
        CHECK_OK(try(option, RQL_FOREVER, NULL));
        check_refused(try, option, name, INT64_MIN);
    }
}

static void every_bound_is_kept(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_BOUNDS; i++) {
        check_bounds(read_with, &bounds[i], bounds[i].name);
    }
}

static void every_bound_is_kept_per_call(void **state)
{
    size_t n_checked = 0;

    (void)state;
    for (size_t i = 0; i < N_BOUNDS; i++) {
        const struct rqli_option *option = option_of(bounds[i].name);

        if (option->in[RQLI_OF_LOCK].name) {
            check_bounds(call_with, &bounds[i], option->in[RQLI_OF_LOCK].name);
            n_checked++;
        }
    }
    assert_int_equal(n_checked, 11);
}

static void messages_name_option_value_and_range(void **state)
{
    static const struct {
        const char *name;
        int64_t value;
        const char *message;
    } cases[] = {
        {"retry_delay_ms", 0, "retry_delay_ms is 0; it must be 1 to 3600000"},
        {"retry_count", -2, "retry_count is -2; it must be 0 or more, or forever"},
        {"default_lock_ttl_ms", 2592000001,
         "default_lock_ttl_ms is 2592000001; it must be 1 to 2592000000"},
        {"default_access_strategy", 2, "default_access_strategy is 2; it must be queued | random"},
        {"is_timed_by_default", 2, "is_timed_by_default is 2; it must be true | false"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rql_error error = {0};

        assert_int_equal(read_with(option_of(cases[i].name), cases[i].value, &error),
                         RQL_E_INVALID);
        assert_string_equal(error.message, cases[i].message);
    }
}

static void no_options_are_the_defaults(void **state)
{
    rql_options defaults;
    rql_options read;

    (void)state;
    rql_options_init(&defaults);
    CHECK_OK(rqli_options_read(RQLI_OF_CLIENT, &read, NULL, NULL, NULL));
    assert_memory_equal(&read, &defaults, sizeof read);
}

static void a_url_must_be_there(void **state)
{
    rql_error error = {0};
    rql_options given;
    rql_options read;

    (void)state;
    rql_options_init(&given);
    given.url = NULL;
    assert_int_equal(rqli_options_read(RQLI_OF_CLIENT, &read, NULL, &given, &error), RQL_E_INVALID);
    assert_non_null(strstr(error.message, "url is NULL; it must be redis://"));
    given.url = "";
    assert_int_equal(rqli_options_read(RQLI_OF_CLIENT, &read, NULL, &given, &error), RQL_E_INVALID);
    assert_non_null(strstr(error.message, "url is empty"));
}

static void older_program_gets_defaults_for_new_fields(void **state)
{
    rql_options given;
    rql_options read;

    (void)state;
    memset(&given, 0xA5, sizeof given);
    rql_options_init_sized(&given, offsetof(rql_options, key_extraction_batch_size));
    assert_int_equal((uint64_t)given.key_extraction_batch_size, UINT64_C(0xA5A5A5A5A5A5A5A5));
    given.retry_delay_ms = 5;
    CHECK_OK(rqli_options_read(RQLI_OF_CLIENT, &read, NULL, &given, NULL));
    assert_int_equal(read.size, sizeof read);
    assert_int_equal(read.retry_delay_ms, 5);
    assert_int_equal(read.key_extraction_batch_size, 500);
}

static void newer_program_is_accepted_while_unknown_fields_are_zero(void **state)
{
    struct {
        rql_options known;
        int64_t unknown;
    } given;

    rql_error error = {0};
    rql_options read;

    (void)state;
    memset(&given, 0xA5, sizeof given);
    rql_options_init_sized(&given.known, sizeof given);
    assert_int_equal(given.unknown, 0);
    CHECK_OK(rqli_options_read(RQLI_OF_CLIENT, &read, NULL, &given.known, &error));
    assert_int_equal(read.size, sizeof read);
    assert_int_equal(error.status, 0);
    given.unknown = INT64_C(1) << 56;
    assert_int_equal(rqli_options_read(RQLI_OF_CLIENT, &read, NULL, &given.known, &error),
                     RQL_E_INVALID);
    assert_int_equal(error.status, RQL_E_INVALID);
    assert_non_null(strstr(error.message, "does not know"));
}

static void calls_of_older_and_newer_programs_are_read_too(void **state)
{
    struct {
        rql_lock_options known;
        int64_t unknown;
    } given = {0};

    rql_lock_options read;
    rql_options client;

    (void)state;
    rql_options_init(&client);
    client.retry_delay_ms = 77;
    rqli_options_fill(RQLI_OF_LOCK, &given.known, &client);
    given.known.size = offsetof(rql_lock_options, retry_delay_ms);
    given.known.ttl_ms = 9;
    given.known.retry_delay_ms = -1;
    CHECK_OK(read_call(&read, &client, &given.known, NULL));
    assert_int_equal(read.size, sizeof read);
    assert_int_equal(read.ttl_ms, 9);
    assert_int_equal(read.retry_delay_ms, 77);
    assert_int_equal(read.max_hold_ms, RQL_FOREVER);

    rqli_options_fill(RQLI_OF_LOCK, &given.known, &client);
    given.known.size = sizeof given;
    CHECK_OK(read_call(&read, &client, &given.known, NULL));
    given.unknown = 1;
    assert_int_equal(read_call(&read, &client, &given.known, NULL), RQL_E_INVALID);
}

/* Sizes that no init call writes. */
static void a_struct_that_was_not_set_up_is_refused(void **state)
{
    static const size_t sizes[] = {0, 8, 15, 17, 44, 8192, SIZE_MAX, SIZE_MAX / 2};
    rql_lock_options call;
    rql_options client;
    rql_options given;
    rql_options read;

    (void)state;
    rql_options_init(&client);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        rql_error error = {0};

        print_message("# size %zu\n", sizes[i]);
        rql_options_init(&given);
        given.size = sizes[i];
        assert_int_equal(rqli_options_read(RQLI_OF_CLIENT, &read, NULL, &given, &error),
                         RQL_E_INVALID);
        assert_non_null(strstr(error.message, "not set up"));
        rqli_options_fill(RQLI_OF_LOCK, &call, &client);
        call.size = sizes[i];
        assert_int_equal(read_call(&call, &client, &call, NULL), RQL_E_INVALID);
    }
}

static void a_refusal_leaves_the_result_untouched(void **state)
{
    rql_lock_options call, call_read, call_before;
    rql_options given, read, before;

    (void)state;
    memset(&before, 0x5A, sizeof before);
    memset(&call_before, 0x5A, sizeof call_before);
    read = before;
    memcpy(&call_read, &call_before, sizeof call_read);
    rql_options_init(&given);
    rqli_options_fill(RQLI_OF_LOCK, &call, &given);
    given.spin_us = 1001;
    call.ttl_ms = 0;
    assert_int_equal(rqli_options_read(RQLI_OF_CLIENT, &read, NULL, &given, NULL), RQL_E_INVALID);
    assert_memory_equal(&read, &before, sizeof read);
    assert_int_equal(read_call(&call_read, &given, &call, NULL), RQL_E_INVALID);
    assert_memory_equal(&call_read, &call_before, sizeof call_read);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_covers_every_field),
        cmocka_unit_test(the_defaults_are_those_of_the_header),
        cmocka_unit_test(every_bound_is_kept),
        cmocka_unit_test(every_bound_is_kept_per_call),
        cmocka_unit_test(messages_name_option_value_and_range),
        cmocka_unit_test(no_options_are_the_defaults),
        cmocka_unit_test(a_url_must_be_there),
        cmocka_unit_test(older_program_gets_defaults_for_new_fields),
        cmocka_unit_test(newer_program_is_accepted_while_unknown_fields_are_zero),
        cmocka_unit_test(calls_of_older_and_newer_programs_are_read_too),
        cmocka_unit_test(a_struct_that_was_not_set_up_is_refused),
        cmocka_unit_test(a_refusal_leaves_the_result_untouched),
    };

    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
