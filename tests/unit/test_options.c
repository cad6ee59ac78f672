#include "check.h"

#include "options/options.h"

#include <rql/admin.h>

/* The manual has the client's options with their ranges and defaults, and api/check_options.py
 * compares it with the library's table. These are the options that single calls alone have. */
static const struct {
    const char *name;
    enum rqli_option_struct which;
    int64_t min;
    int64_t max;
    int64_t fallback;
} of_calls[] = {
    {"fail_fast", RQLI_OF_LOCK, 0, 1, false},
    {"nested", RQLI_OF_LOCK, 0, 1, false},
    {"log_sample_this", RQLI_OF_LOCK, 0, 1, false},
    {"instr_sample_this", RQLI_OF_LOCK, 0, 1, false},
    {"max_hold_ms", RQLI_OF_LOCK, 1, INT64_MAX, RQL_FOREVER},
    {"mode", RQLI_OF_SERIES, 0, RQL_SERIES_SORTED, RQL_SERIES_ATOMIC},
    {"dead_ttl_ms", RQLI_OF_SWEEP, 0, INT64_C(315360000000), 86400000},
    {"dry_run", RQLI_OF_SWEEP, 0, 1, false},
};

#define AS(member) offsetof(rql_options, member)

/* Fields of rql_options that are no options for a table: functions, and pointers for them. */
static const size_t listeners[] = {
    AS(logger),       AS(logger_data),       AS(log_sampler),   AS(log_sampler_data),
    AS(instrumenter), AS(instrumenter_data), AS(instr_sampler), AS(instr_sampler_data),
    AS(credentials),  AS(credentials_data),
};

/* Room for a struct of any program, ours or a newer one. The size is the first member of each. */
union any {
    size_t size;
    rql_options client;
    rql_lock_options lock;
    rql_series_options series;
    rql_sweep_options sweep;
    unsigned char bytes[1024];
};

static rql_options client;
static union any given;
static union any read;
static rql_error error;

BEFORE_EACH(set_up)
{
    rql_options_init(&client);
    memset(&error, 0, sizeof error);
}

static rql_status read_given(enum rqli_option_struct which)
{
    return rqli_options_read(which, &read, &client, &given, &error);
}

/* One struct's field of an option: EACH_FIELD walks all of them. */
struct field {
    const struct rqli_option *option;
    enum rqli_option_struct which;
    const char *name;
    size_t offset;
};

static bool next_field(struct field *self, size_t *index)
{
    for (const struct rqli_option *option;
         (option = rqli_option_row(*index / RQLI_N_OPTION_STRUCTS));) {
        enum rqli_option_struct which = *index % RQLI_N_OPTION_STRUCTS;

        ++*index;
        if (option->in[which].name && (which != RQLI_OF_CLIENT || option->shown.name)) {
            *self = (struct field){option, which, option->in[which].name, option->in[which].offset};
            return true;
        }
    }
    return false;
}

#define EACH_FIELD(field)                                                                          \
    size_t index_of_field = 0;                                                                     \
    struct field field;                                                                            \
    while (next_field(&field, &index_of_field) &&                                                  \
           test_print_row((ptrdiff_t)index_of_field, field.name))

static int64_t load(const struct field *field, const void *from)
{
    return rqli_option_load(field->option, (const char *)from + field->offset);
}

TEST(a_row_of_a_call_has_its_documented_range)
{
    size_t n_found = 0;

    EACH_FIELD (field) {
        for (size_t i = 0; i < N_ROWS(of_calls); i++) {
            if (field.which == of_calls[i].which && strcmp(field.name, of_calls[i].name) == 0) {
                CHECK_ALL(EQ(field.option->min, of_calls[i].min),
                          EQ(field.option->max, of_calls[i].max),
                          EQ(field.option->fallback, of_calls[i].fallback));
                n_found++;
            }
        }
    }
    assert_int_equal(n_found, N_ROWS(of_calls));
}

/* Where the first field of the client at `end` or behind it ends; no more than padding lies between
 * two of them. */
static size_t end_of_field_at(size_t end)
{
    size_t offset = sizeof(rql_options);
    size_t width = sizeof(int64_t);
    struct field field;

    for (size_t i = 0; i < N_ROWS(listeners); i++) {
        offset = listeners[i] >= end && listeners[i] < offset ? listeners[i] : offset;
    }
    for (size_t i = 0; next_field(&field, &i);) {
        if (field.which == RQLI_OF_CLIENT && field.offset >= end && field.offset < offset) {
            offset = field.offset;
            width = rqli_option_width(field.option);
        }
    }
    assert_true(offset - end < width);
    return offset == sizeof(rql_options) ? offset : offset + width;
}

TEST(every_field_of_the_client_has_a_row)
{
    size_t end = AS(url);

    assert_int_equal(client.size, sizeof client);
    assert_string_equal(client.url, "");
    while (end < sizeof(rql_options)) {
        end = end_of_field_at(end);
    }
    assert_null(rql_option_row_at(SIZE_MAX));
}

static rql_status try(const struct field *field, int64_t value)
{
    rqli_options_fill(field->which, &given, NULL);
    memcpy(given.bytes + field->offset, &value, rqli_option_width(field->option));
    return read_given(field->which);
}

static void check_taken(const struct field *field, int64_t value)
{
    CHECK_OK(try(field, value));
    assert_int_equal(load(field, &read), value);
}

/* A refusal says why and leaves what was there. */
static void check_refused(const struct field *field, int64_t value)
{
    char expected[RQL_ERROR_MESSAGE_SIZE];
    union any before;

    (void)snprintf(expected, sizeof expected, "%s is %lld; it must be %s", field->name,
                   (long long)value, field->option->shown.range);
    memset(&read, 0x5A, sizeof read);
    before = read;
    assert_int_equal(try(field, value), RQL_E_INVALID);
    assert_int_equal(error.status, RQL_E_INVALID);
    assert_string_equal(error.message, expected);
    assert_memory_equal(&read, &before, sizeof read);
}

TEST(every_bound_is_kept_in_every_struct)
{
    EACH_FIELD (field) {
        const struct rqli_option *option = field.option;

        if (option->kind == RQLI_OPTION_TEXT) {
            continue;
        }
        check_taken(&field, option->min);
        check_taken(&field, option->max);
        check_refused(&field, option->kind == RQLI_OPTION_BOOL ? 7 : -2);
        if (option->kind != RQLI_OPTION_BOOL && (option->min > 0 || !option->forever)) {
            check_refused(&field, option->min - 1);
        }
        if (option->max < INT64_MAX) {
            check_refused(&field, option->max + 1);
        }
        if (option->forever) {
            check_taken(&field, RQL_FOREVER);
            check_refused(&field, INT64_MIN);
        }
    }
}

/* Programs that were built with fewer fields, up to the one at `cut`, and with more. */
static const struct kind {
    const char *name;
    enum rqli_option_struct which;
    size_t size;
    size_t cut;
} kinds[] = {
    {"client", RQLI_OF_CLIENT, sizeof(rql_options), AS(key_extraction_batch_size)},
    {"lock", RQLI_OF_LOCK, sizeof(rql_lock_options), offsetof(rql_lock_options, retry_delay_ms)},
    {"series", RQLI_OF_SERIES, sizeof(rql_series_options), sizeof(rql_series_options)},
    {"sweep", RQLI_OF_SWEEP, sizeof(rql_sweep_options),
     offsetof(rql_sweep_options, queue_scan_size)},
    {"swarm", RQLI_OF_SWARM, sizeof(rql_swarm_options), offsetof(rql_swarm_options, zombie_ttl_ms)},
};

/* As a program of that age does it. */
static void init_given(enum rqli_option_struct which, size_t size)
{
    memset(&given, 0xA5, sizeof given);
    if (which == RQLI_OF_CLIENT) {
        rql_options_init_sized(&given.client, size);
    } else if (which == RQLI_OF_SERIES) {
        rql_series_options_init_sized(&given.series, size);
    } else if (which == RQLI_OF_SWEEP) {
        rql_sweep_options_init_sized(NULL, &given.sweep, size);
    } else {
        rqli_options_init(which, &given, size, NULL);
    }
}

TEST(programs_of_other_ages_are_understood)
{
    /* Sizes that no init call writes. */
    static const size_t sizes[] = {0, 8, 15, 17, 44, 8192, SIZE_MAX, SIZE_MAX / 2};
    union any expected;

    EACH_ROW (kind, kinds) {
        init_given(kind->which, kind->cut);
        assert_int_equal(given.size, kind->cut);
        assert_int_equal(given.bytes[kind->cut], 0xA5);
        CHECK_OK(read_given(kind->which));
        rqli_options_fill(kind->which, &expected, NULL);
        assert_memory_equal(&read, &expected, kind->size);
        init_given(kind->which, kind->size + 8);
        CHECK_OK(read_given(kind->which));
        assert_memory_equal(&read, &expected, kind->size);
        given.bytes[kind->size + 7] = 1;
        assert_int_equal(read_given(kind->which), RQL_E_INVALID);
        assert_non_null(strstr(error.message, "does not know"));
        EACH (row, sizes) {
            print_message("#   size %zu\n", *row);
            given = expected;
            given.size = *row;
            assert_int_equal(read_given(kind->which), RQL_E_INVALID);
            assert_non_null(strstr(error.message, "not set up"));
        }
    }
}

/* What an older program has not is as the client has it. */
TEST(fields_that_a_caller_has_not_are_the_clients)
{
    client.retry_delay_ms = 77;
    rqli_options_init(RQLI_OF_LOCK, &given, offsetof(rql_lock_options, retry_delay_ms), &client);
    given.bytes[offsetof(rql_lock_options, ttl_ms)]++;
    CHECK_OK(read_given(RQLI_OF_LOCK));
    CHECK_ALL(EQ(read.lock.ttl_ms, 15001), EQ(read.lock.retry_delay_ms, 77));
}

/* message: NULL, the field has the value then. */
TEST(options_of_a_lock_are_texts_as_those_of_the_client)
{
    static const struct {
        const char *name;
        const char *text;
        size_t offset;
        int64_t value;
        const char *message;
    } rows[] = {
        {"ttl_ms", "1m30s", offsetof(rql_lock_options, ttl_ms), 90000, NULL},
        {"retry-count", "forever", offsetof(rql_lock_options, retry_count), RQL_FOREVER, NULL},
        {"max_hold_ms", "1h", offsetof(rql_lock_options, max_hold_ms), 3600000, NULL},
        {"max-hold_ms", "-1", offsetof(rql_lock_options, max_hold_ms), RQL_FOREVER, NULL},
        {"ttl_ms", "0", 0, 0, "ttl_ms is 0; it must be 1 to 2592000000"},
        {"timeout-ms", "soon", 0, 0, "timeout_ms is soon; it must be 0 or more, or forever"},
        {"max_hold_ms", "0", 0, 0, "max_hold_ms is 0; it must be 1 or more, or forever"},
        {"fail_fast", "1", 0, 0, "fail_fast is 1; it must be true | false"},
        {"access_strategy", "first", 0, 0, "access_strategy is first; it must be queued | random"},
        {"spin_us", "1", 0, 0, "options: no such option: spin_us"},
        {"mode", "gem", 0, 0, "options: no such option: mode"},
        {"task", "1", 0, 0, "options: no such option: task"},
        {"size", "1", 0, 0, "options: no such option: size"},
        {"traceparent", "", 0, 0,
         "traceparent is malformed; it must be a traceparent of W3C Trace Context, version 00"},
        {NULL, "1", 0, 0, "options: name or value is NULL"},
        {"ttl_ms", NULL, 0, 0, "options: name or value is NULL"},
    };

    EACH (row, rows) {
        union any before;

        rql_lock_options_init(NULL, &given.lock);
        before = given;
        print_message("#   %s %s\n", row->name, row->text);
        if (row->message) {
            assert_int_equal(rql_lock_options_set(&given.lock, row->name, row->text, &error),
                             RQL_E_INVALID);
            assert_string_equal(error.message, row->message);
        } else {
            CHECK_OK(rql_lock_options_set(&given.lock, row->name, row->text, NULL));
            memcpy(before.bytes + row->offset, &row->value, sizeof row->value);
        }
        assert_memory_equal(&given.lock, &before.lock, sizeof given.lock);
    }
}

/* It has memory of the library's size in place of the struct. */
TEST(a_binding_needs_no_offset)
{
    assert_int_equal(rql_options_size(), sizeof(rql_options));
    assert_int_equal(rql_lock_options_size(), sizeof(rql_lock_options));
    rql_lock_options_init_sized(NULL, &given.lock, rql_lock_options_size());
    CHECK_OK(rql_lock_options_set(&given.lock, "replicas", "1", NULL));
    /* An older program has not all of them, and memory that was never filled has none. */
    rql_lock_options_init_sized(NULL, &given.lock, offsetof(rql_lock_options, on_lost));
    assert_int_equal(rql_lock_options_set(&given.lock, "replicas", "1", NULL), RQL_E_INVALID);
    CHECK_OK(rql_lock_options_set(&given.lock, "ttl_ms", "1", NULL));
    given.size = 0;
    assert_int_equal(rql_lock_options_set(&given.lock, "ttl_ms", "1", &error), RQL_E_INVALID);
    assert_string_equal(error.message, "options: not set up by their init call");
    assert_int_equal(rql_lock_options_set(NULL, "ttl_ms", "1", NULL), RQL_E_INVALID);
}
