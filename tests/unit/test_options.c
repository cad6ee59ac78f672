#include "check.h"

#include "options/options.h"

#include <stdlib.h>
#include <string.h>

/* The fields of the header, written down once more to hold the table against, with their ranges as
 * include/rql/options.h documents them. */
#define FIELD(member) #member, offsetof(rql_options, member), sizeof(((rql_options *)0)->member)

static const struct field {
    const char *name;
    size_t offset;
    size_t width;

    enum kind { NUMBER, COUNT /* or forever */, TEXT, LISTENER /* no option for a table */ } kind;

    int64_t min;
    int64_t max;
    int64_t fallback;
} fields[] = {
    {FIELD(url), TEXT, 0, 0, 0},
    {FIELD(connect_timeout_ms), NUMBER, 1, 600000, 1000},
    {FIELD(io_timeout_ms), NUMBER, 1, 600000, 1000},
    {FIELD(spin_us), NUMBER, 0, 1000, 0},
    {FIELD(retry_count), COUNT, 0, INT64_MAX, 3},
    {FIELD(retry_delay_ms), NUMBER, 1, 3600000, 200},
    {FIELD(retry_jitter_ms), NUMBER, 0, 3600000, 25},
    {FIELD(try_to_lock_timeout_ms), COUNT, 0, INT64_MAX, 10000},
    {FIELD(default_lock_ttl_ms), NUMBER, 1, RQL_TTL_MAX_MS, 5000},
    {FIELD(default_queue_ttl_ms), COUNT, 1, INT64_MAX, 15000},
    {FIELD(is_timed_by_default), NUMBER, 0, 1, false},
    {FIELD(detailed_acq_timeout_error), NUMBER, 0, 1, false},
    {FIELD(default_conflict_strategy), NUMBER, 0, RQL_DEAD_LOCKING, RQL_WAIT_FOR_LOCK},
    {FIELD(default_access_strategy), NUMBER, 0, RQL_RANDOM, RQL_QUEUED},
    {FIELD(key_extraction_batch_size), NUMBER, 1, 100000, 500},
    {FIELD(lock_release_batch_size), NUMBER, 1, 100000, 100},
    {FIELD(clear_locks_of_lock_scan_size), NUMBER, 1, 100000, 300},
    {FIELD(clear_locks_of_queue_scan_size), NUMBER, 1, 100000, 300},
    {FIELD(dead_request_ttl_ms), NUMBER, 1, INT64_C(315360000000), 86400000},
    {FIELD(log_lock_try), NUMBER, 0, 1, false},
    {FIELD(log_sampling_enabled), NUMBER, 0, 1, false},
    {FIELD(instr_sampling_enabled), NUMBER, 0, 1, false},
    {FIELD(log_sampling_percent), NUMBER, 0, 100, 15},
    {FIELD(instr_sampling_percent), NUMBER, 0, 100, 15},
    {FIELD(logger), LISTENER, 0, 0, 0},
    {FIELD(logger_data), LISTENER, 0, 0, 0},
    {FIELD(log_sampler), LISTENER, 0, 0, 0},
    {FIELD(log_sampler_data), LISTENER, 0, 0, 0},
    {FIELD(instrumenter), LISTENER, 0, 0, 0},
    {FIELD(instrumenter_data), LISTENER, 0, 0, 0},
    {FIELD(instr_sampler), LISTENER, 0, 0, 0},
    {FIELD(instr_sampler_data), LISTENER, 0, 0, 0},
    {FIELD(auto_swarm), NUMBER, 0, 1, false},
    {FIELD(swarm_probe_hosts), NUMBER, 0, 1, true},
    {FIELD(swarm_flush_zombies), NUMBER, 0, 1, true},
    {FIELD(swarm_liveness_probing_period_ms), NUMBER, 1, 3600000, 2000},
    {FIELD(swarm_probe_period_ms), NUMBER, 1, 3600000, 2000},
    {FIELD(zombie_ttl_ms), NUMBER, 1, INT64_C(31536000000), 15000},
    {FIELD(zombie_flush_period_ms), NUMBER, 1, 3600000, 10000},
    {FIELD(zombie_lock_scan_size), NUMBER, 1, 100000, 500},
    {FIELD(zombie_queue_scan_size), NUMBER, 1, 100000, 500},
};

static bool is_number(const struct field *field)
{
    return field->kind == NUMBER || field->kind == COUNT;
}

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

static void the_table_covers_every_field_and_its_default(void **state)
{
    size_t end = offsetof(rql_options, url);
    size_t n_rows = 0;
    rql_options options;

    (void)state;
    rql_options_init(&options);
    assert_int_equal(options.size, sizeof options);
    assert_string_equal(options.url, "local:");
    for (const struct field *field = fields; field < fields + N_ROWS(fields); field++) {
        say_row(field->name);
        if (field->kind != LISTENER) {
            const struct rqli_option *option = option_of(field->name);

            assert_int_equal(option->in[RQLI_OF_CLIENT].offset, field->offset);
            assert_int_equal(rqli_option_width(option), field->width);
            assert_true(!is_number(field) ||
                        rqli_option_load(option, (char *)&options + field->offset) ==
                            field->fallback);
            n_rows++;
        }
        /* No more than padding lies between two fields, so none is missing above. */
        assert_true(field->offset >= end && field->offset - end < field->width);
        end = field->offset + field->width;
    }
    assert_int_equal(end, sizeof(rql_options));
    assert_non_null(rql_option_row_at(n_rows - 1));
    assert_null(rql_option_row_at(n_rows));
    assert_null(rql_option_row_at(SIZE_MAX));
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

static void check_bounds(try_fn *try, const struct field *row, const char *name)
{
    const struct rqli_option *option = option_of(row->name);
    bool is_truth = row->min == 0 && row->max <= 1;

    CHECK_OK(try(option, row->min, NULL));
    CHECK_OK(try(option, row->max, NULL));
    check_refused(try, option, name, row->kind == COUNT ? -2 : is_truth ? 7 : -1);
    if (row->min == 1) {
        check_refused(try, option, name, 0);
    }
    if (row->max < INT64_MAX) {
        check_refused(try, option, name, row->max + 1);
    }
    if (row->kind == COUNT) {
        CHECK_OK(try(option, RQL_FOREVER, NULL));
        check_refused(try, option, name, INT64_MIN);
    }
}

static void every_bound_is_kept_for_clients_and_calls(void **state)
{
    size_t n_of_calls = 0;

    (void)state;
    for (size_t i = 0; i < N_ROWS(fields); i++) {
        const char *of_call;

        if (!is_number(&fields[i])) {
            continue;
        }
        say_row(fields[i].name);
        check_bounds(read_with, &fields[i], fields[i].name);
        of_call = option_of(fields[i].name)->in[RQLI_OF_LOCK].name;
        if (of_call) {
            check_bounds(call_with, &fields[i], of_call);
            n_of_calls++;
        }
    }
    assert_int_equal(n_of_calls, 11);
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
    for (size_t i = 0; i < N_ROWS(cases); i++) {
        rql_error error = {0};

        assert_int_equal(read_with(option_of(cases[i].name), cases[i].value, &error),
                         RQL_E_INVALID);
        assert_string_equal(error.message, cases[i].message);
    }
}

/* Is it refused, and why? */
static void check_unread(const rql_options *given, const char *message)
{
    rql_error error = {0};
    rql_options read;

    assert_int_equal(rqli_options_read(RQLI_OF_CLIENT, &read, NULL, given, &error), RQL_E_INVALID);
    assert_int_equal(error.status, RQL_E_INVALID);
    assert_non_null(strstr(error.message, message));
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
    rql_options given;

    (void)state;
    rql_options_init(&given);
    given.url = NULL;
    check_unread(&given, "url is NULL; it must be redis://");
    given.url = "";
    check_unread(&given, "url is empty");
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
    check_unread(&given.known, "does not know");
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

    (void)state;
    rql_options_init(&client);
    for (size_t i = 0; i < N_ROWS(sizes); i++) {
        print_message("# size %zu\n", sizes[i]);
        rql_options_init(&given);
        given.size = sizes[i];
        check_unread(&given, "not set up");
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
        cmocka_unit_test(the_table_covers_every_field_and_its_default),
        cmocka_unit_test(every_bound_is_kept_for_clients_and_calls),
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
