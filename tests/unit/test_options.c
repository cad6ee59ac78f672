#include "check.h"

#include "options/options.h"

#include <rql/rql.h>

/* Every field of every struct of options, written down once more to hold the table against, with
 * the ranges that include/rql documents. */
#define FIELD(which, type, member)                                                                 \
    .name = #member, which, offsetof(type, member), sizeof(((type *)0)->member)
#define CLIENT(member) FIELD(RQLI_OF_CLIENT, rql_options, member)
#define LOCK(member) FIELD(RQLI_OF_LOCK, rql_lock_options, member)
#define SERIES(member) FIELD(RQLI_OF_SERIES, rql_series_options, member)
#define SWEEP(member) FIELD(RQLI_OF_SWEEP, rql_sweep_options, member)
#define SWARM(member) FIELD(RQLI_OF_SWARM, rql_swarm_options, member)
#define DIAGNOSE(member) FIELD(RQLI_OF_DIAGNOSE, rql_diagnose_options, member)

/* As the rows read. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct field {
    const char *name;
    enum rqli_option_struct which;
    size_t offset;
    size_t width;

    enum { NUMBER, COUNT /* or forever */, TEXT, LISTENER /* no option for a table */ } kind;

    int64_t min;
    int64_t max;
    int64_t fallback;
    size_t of_client; /* where the client's options have it; 0: nowhere */
};

static const struct field fields[] = {
    {CLIENT(url), TEXT},
    {CLIENT(connect_timeout_ms), NUMBER, 1, 600000, 1000},
    {CLIENT(io_timeout_ms), NUMBER, 1, 600000, 1000},
    {CLIENT(spin_us), NUMBER, 0, 1000, 0},
    {CLIENT(retry_count), COUNT, 0, INT64_MAX, 3},
    {CLIENT(retry_delay_ms), NUMBER, 1, 3600000, 200},
    {CLIENT(retry_jitter_ms), NUMBER, 0, 3600000, 25},
    {CLIENT(try_to_lock_timeout_ms), COUNT, 0, INT64_MAX, 10000},
    {CLIENT(default_lock_ttl_ms), NUMBER, 1, RQL_TTL_MAX_MS, 5000},
    {CLIENT(default_queue_ttl_ms), COUNT, 1, INT64_MAX, 15000},
    {CLIENT(is_timed_by_default), NUMBER, 0, 1, false},
    {CLIENT(detailed_acq_timeout_error), NUMBER, 0, 1, false},
    {CLIENT(default_conflict_strategy), NUMBER, 0, RQL_DEAD_LOCKING, RQL_WAIT_FOR_LOCK},
    {CLIENT(default_access_strategy), NUMBER, 0, RQL_RANDOM, RQL_QUEUED},
    {CLIENT(key_extraction_batch_size), NUMBER, 1, 100000, 500},
    {CLIENT(lock_release_batch_size), NUMBER, 1, 100000, 100},
    {CLIENT(clear_locks_of_lock_scan_size), NUMBER, 1, 100000, 300},
    {CLIENT(clear_locks_of_queue_scan_size), NUMBER, 1, 100000, 300},
    {CLIENT(dead_request_ttl_ms), NUMBER, 1, INT64_C(315360000000), 86400000},
    {CLIENT(log_lock_try), NUMBER, 0, 1, false},
    {CLIENT(log_sampling_enabled), NUMBER, 0, 1, false},
    {CLIENT(instr_sampling_enabled), NUMBER, 0, 1, false},
    {CLIENT(log_sampling_percent), NUMBER, 0, 100, 15},
    {CLIENT(instr_sampling_percent), NUMBER, 0, 100, 15},
    {CLIENT(logger), LISTENER},
    {CLIENT(logger_data), LISTENER},
    {CLIENT(log_sampler), LISTENER},
    {CLIENT(log_sampler_data), LISTENER},
    {CLIENT(instrumenter), LISTENER},
    {CLIENT(instrumenter_data), LISTENER},
    {CLIENT(instr_sampler), LISTENER},
    {CLIENT(instr_sampler_data), LISTENER},
    {CLIENT(auto_swarm), NUMBER, 0, 1, false},
    {CLIENT(swarm_probe_hosts), NUMBER, 0, 1, true},
    {CLIENT(swarm_flush_zombies), NUMBER, 0, 1, true},
    {CLIENT(swarm_liveness_probing_period_ms), NUMBER, 1, 3600000, 2000},
    {CLIENT(swarm_probe_period_ms), NUMBER, 1, 3600000, 2000},
    {CLIENT(zombie_ttl_ms), NUMBER, 1, INT64_C(31536000000), 15000},
    {CLIENT(zombie_flush_period_ms), NUMBER, 1, 3600000, 10000},
    {CLIENT(zombie_lock_scan_size), NUMBER, 1, 100000, 500},
    {CLIENT(zombie_queue_scan_size), NUMBER, 1, 100000, 500},
    {CLIENT(connections), NUMBER, 1, 4, 4},
    {CLIENT(lazy_release), NUMBER, 0, 1, false},
    {CLIENT(tls_verify), NUMBER, 0, RQL_TLS_NONE, RQL_TLS_FULL},
    {CLIENT(tls_ca_file), TEXT},
    {CLIENT(tls_cert_file), TEXT},
    {CLIENT(tls_key_file), TEXT},
    {CLIENT(tls_server_name), TEXT},
    {CLIENT(credentials), LISTENER},
    {CLIENT(credentials_data), LISTENER},
    {CLIENT(sentinel_check_ms), NUMBER, 100, 60000, 1000},
    {CLIENT(recovery_delay_ms), NUMBER, 0, 3600000, 0},
    {CLIENT(default_replicas), NUMBER, 0, 16, 0},
    {CLIENT(replica_timeout_ms), NUMBER, 1, 60000, 200},
    {CLIENT(default_fsync), NUMBER, 0, 1, false},
    {CLIENT(durability_is_advice), NUMBER, 0, 1, false},
    {CLIENT(client_names), NUMBER, 0, 1, true},
    {CLIENT(client_label), TEXT},
    {CLIENT(topology_refresh_ms), NUMBER, 1000, 3600000, 30000},
};

#define AS(member) offsetof(rql_options, member)

static const struct field of_calls[] = {
    {LOCK(ttl_ms), NUMBER, 1, RQL_TTL_MAX_MS, 5000, AS(default_lock_ttl_ms)},
    {LOCK(queue_ttl_ms), COUNT, 1, INT64_MAX, 15000, AS(default_queue_ttl_ms)},
    {LOCK(timeout_ms), COUNT, 0, INT64_MAX, 10000, AS(try_to_lock_timeout_ms)},
    {LOCK(retry_count), COUNT, 0, INT64_MAX, 3, AS(retry_count)},
    {LOCK(retry_delay_ms), NUMBER, 1, 3600000, 200, AS(retry_delay_ms)},
    {LOCK(retry_jitter_ms), NUMBER, 0, 3600000, 25, AS(retry_jitter_ms)},
    {LOCK(timed), NUMBER, 0, 1, false, AS(is_timed_by_default)},
    {LOCK(detailed_acq_timeout_error), NUMBER, 0, 1, false, AS(detailed_acq_timeout_error)},
    {LOCK(conflict_strategy), NUMBER, 0, RQL_DEAD_LOCKING, 0, AS(default_conflict_strategy)},
    {LOCK(access_strategy), NUMBER, 0, RQL_RANDOM, RQL_QUEUED, AS(default_access_strategy)},
    {LOCK(lazy_release), NUMBER, 0, 1, false, AS(lazy_release)},
    {LOCK(log_lock_try), NUMBER, 0, 1, false, AS(log_lock_try)},
    {LOCK(replicas), NUMBER, 0, 16, 0, AS(default_replicas)},
    {LOCK(fsync), NUMBER, 0, 1, false, AS(default_fsync)},
    {LOCK(durability_is_advice), NUMBER, 0, 1, false, AS(durability_is_advice)},
    {LOCK(replica_timeout_ms), NUMBER, 1, 60000, 200, AS(replica_timeout_ms)},
    {LOCK(fail_fast), NUMBER, 0, 1, false},
    {LOCK(auto_extend), NUMBER, 0, 1, false},
    {LOCK(nested), NUMBER, 0, 1, false},
    {LOCK(log_sample_this), NUMBER, 0, 1, false},
    {LOCK(instr_sample_this), NUMBER, 0, 1, false},
    {LOCK(max_hold_ms), COUNT, 1, INT64_MAX, RQL_FOREVER},
    {SERIES(mode), NUMBER, 0, RQL_SERIES_SORTED, RQL_SERIES_ATOMIC},
    {SWEEP(batch_size), NUMBER, 1, 100000, 100, AS(lock_release_batch_size)},
    {SWEEP(lock_scan_size), NUMBER, 1, 100000, 300, AS(clear_locks_of_lock_scan_size)},
    {SWEEP(queue_scan_size), NUMBER, 1, 100000, 300, AS(clear_locks_of_queue_scan_size)},
    {SWEEP(dead_ttl_ms), NUMBER, 0, INT64_C(315360000000), 86400000, AS(dead_request_ttl_ms)},
    {SWEEP(dry_run), NUMBER, 0, 1, false},
    {DIAGNOSE(time_limit_ms), NUMBER, 100, 60000, 5000},
    {DIAGNOSE(max_keys), NUMBER, 0, 100000000, 100000},
    {SWARM(probe_hosts), NUMBER, 0, 1, true, AS(swarm_probe_hosts)},
    {SWARM(flush_zombies), NUMBER, 0, 1, true, AS(swarm_flush_zombies)},
    {SWARM(liveness_probing_period_ms), NUMBER, 1, 3600000, 2000,
     AS(swarm_liveness_probing_period_ms)},
    {SWARM(probe_period_ms), NUMBER, 1, 3600000, 2000, AS(swarm_probe_period_ms)},
    {SWARM(zombie_ttl_ms), NUMBER, 1, INT64_C(31536000000), 15000, AS(zombie_ttl_ms)},
    {SWARM(zombie_flush_period_ms), NUMBER, 1, 3600000, 10000, AS(zombie_flush_period_ms)},
    {SWARM(zombie_lock_scan_size), NUMBER, 1, 100000, 500, AS(zombie_lock_scan_size)},
    {SWARM(zombie_queue_scan_size), NUMBER, 1, 100000, 500, AS(zombie_queue_scan_size)},
};

/* Room for a struct of any program, ours or a newer one. The size is the first member of each. */
union any {
    size_t size;
    rql_options client;
    rql_lock_options lock;
    rql_series_options series;
    rql_sweep_options sweep;
    rql_diagnose_options diagnose;
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

static int64_t load(const struct field *field, const void *from)
{
    int64_t value = 0;

    memcpy(&value, (const char *)from + field->offset, field->width);
    return field->width == sizeof(int) ? (int)value : value;
}

static const struct rqli_option *option_of(const char *name)
{
    static const struct rqli_option none;
    const struct rqli_option *option;

    for (size_t i = 0; (option = rqli_option_at(i)); i++) {
        if (strcmp(option->shown.name, name) == 0) {
            return option;
        }
    }
    return &none;
}

TEST(the_table_covers_every_field_and_its_default)
{
    size_t end = offsetof(rql_options, url);
    size_t n_rows = 0;

    assert_int_equal(client.size, sizeof client);
    assert_string_equal(client.url, "local:");
    EACH_ROW (field, fields) {
        const struct rqli_option *option = option_of(field->name);

        assert_int_equal(option->shown.name != NULL, field->kind != LISTENER);
        if (option->shown.name) {
            CHECK_ALL(EQ(option->in[RQLI_OF_CLIENT].offset, field->offset),
                      EQ(rqli_option_width(option), field->width));
            n_rows++;
        }
        /* No more than padding lies between two fields, or behind the last: none is missing. */
        assert_true(field->offset >= end && field->offset - end < field->width);
        end = field->offset + field->width;
    }
    assert_true(end <= sizeof(rql_options) && sizeof(rql_options) - end < sizeof(int64_t));
    assert_non_null(rql_option_row_at(n_rows - 1));
    assert_null(rql_option_row_at(n_rows));
    assert_null(rql_option_row_at(SIZE_MAX));
}

/* Without a client, and of one that has set it otherwise. */
TEST(defaults_are_the_librarys_or_those_of_the_client)
{
    EACH_ROW (field, fields) {
        assert_true(field->kind > COUNT || load(field, &client) == field->fallback);
    }
    EACH_ROW (field, of_calls) {
        int64_t other = field->fallback == field->max ? field->min : field->max;

        CHECK_OK(rqli_options_read(field->which, &read, NULL, NULL, NULL));
        assert_int_equal(load(field, &read), field->fallback);
        if (field->of_client) {
            memcpy((char *)&client + field->of_client, &other, field->width);
            rqli_options_fill(field->which, &read, &client);
            assert_int_equal(load(field, &read), other);
        }
    }
}

static rql_status try(const struct field *field, int64_t value)
{
    rqli_options_fill(field->which, &given, NULL);
    memcpy(given.bytes + field->offset, &value, field->width);
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

    (void)snprintf(
        expected, sizeof expected, "%s is %lld; it must be %s", field->name, (long long)value,
        field->of_client || field->which != RQLI_OF_CLIENT ? ""
                                                           : option_of(field->name)->shown.range);
    memset(&read, 0x5A, sizeof read);
    before = read;
    assert_int_equal(try(field, value), RQL_E_INVALID);
    assert_int_equal(error.status, RQL_E_INVALID);
    assert_memory_equal(error.message, expected, strlen(expected));
    assert_memory_equal(&read, &before, sizeof read);
}

static void check_bounds(const struct field *field)
{
    bool is_truth = field->min == 0 && field->max <= 1;

    check_taken(field, field->min);
    check_taken(field, field->max);
    check_refused(field, field->kind == COUNT ? -2 : is_truth ? 7 : -1);
    if (field->min == 1) {
        check_refused(field, 0);
    }
    if (field->max < INT64_MAX) {
        check_refused(field, field->max + 1);
    }
    if (field->kind == COUNT) {
        check_taken(field, RQL_FOREVER);
        check_refused(field, INT64_MIN);
    }
}

TEST(every_bound_is_kept_in_every_struct)
{
    EACH_ROW (field, fields) {
        if (field->kind <= COUNT) {
            check_bounds(field);
        }
    }
    EACH_ROW (field, of_calls) {
        check_bounds(field);
    }
}

TEST(messages_name_option_value_and_range)
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

    EACH_ROW (row, cases) {
        const struct rqli_option *option = option_of(row->name);

        given.client = client;
        rqli_option_store(option, given.bytes + option->in[RQLI_OF_CLIENT].offset, row->value);
        assert_int_equal(read_given(RQLI_OF_CLIENT), RQL_E_INVALID);
        assert_string_equal(error.message, row->message);
    }
}

TEST(a_url_must_be_there)
{
    given.client = client;
    given.client.url = NULL;
    assert_int_equal(read_given(RQLI_OF_CLIENT), RQL_E_INVALID);
    assert_non_null(strstr(error.message, "url is NULL; it must be redis[s]://"));
    given.client.url = "";
    assert_int_equal(read_given(RQLI_OF_CLIENT), RQL_E_INVALID);
    assert_non_null(strstr(error.message, "url is empty"));
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
    {"diagnose", RQLI_OF_DIAGNOSE, sizeof(rql_diagnose_options), sizeof(rql_diagnose_options)},
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
    } else if (which == RQLI_OF_DIAGNOSE) {
        rql_diagnose_options_init_sized(&given.diagnose, size);
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
    assert_int_equal(load(&of_calls[0], &read), 5001);
    assert_int_equal(load(&of_calls[4], &read), 77);
}

static const struct rqli_option *option_of_lock(size_t offset)
{
    static const struct rqli_option none;
    const struct rqli_option *option;

    for (size_t i = 0; (option = rqli_option_row(i)); i++) {
        if (option->in[RQLI_OF_LOCK].name && option->in[RQLI_OF_LOCK].offset == offset) {
            return option;
        }
    }
    return &none;
}

TEST(every_option_of_a_lock_is_set_by_its_name)
{
    EACH_ROW (field, of_calls) {
        const struct rqli_option *option;
        char text[32];

        if (field->which != RQLI_OF_LOCK) {
            continue;
        }
        option = option_of_lock(field->offset);
        (void)snprintf(text, sizeof text, "%lld", (long long)field->max);
        rql_lock_options_init(NULL, &given.lock);
        CHECK_OK(rql_lock_options_set(&given.lock, field->name,
                                      option->words ? option->words[field->max] : text, NULL));
        assert_int_equal(load(field, &given), field->max);
    }
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
        {"default_lock_ttl_ms", "1", 0, 0, "options: no such option: default_lock_ttl_ms"},
        {"spin_us", "1", 0, 0, "options: no such option: spin_us"},
        {"mode", "gem", 0, 0, "options: no such option: mode"},
        {"task", "1", 0, 0, "options: no such option: task"},
        {"size", "1", 0, 0, "options: no such option: size"},
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

static void on_lost(rql_lock *lock, void *data)
{
    (void)lock;
    (void)data;
}

/* It has memory of the library's size in place of the struct. */
TEST(a_binding_needs_no_offset)
{
    assert_int_equal(rql_options_size(), sizeof(rql_options));
    assert_int_equal(rql_lock_options_size(), sizeof(rql_lock_options));
    rql_lock_options_init_sized(NULL, &given.lock, rql_lock_options_size());
    CHECK_OK(rql_lock_options_set_lost(&given.lock, on_lost, &client, NULL));
    assert_true(given.lock.on_lost == on_lost);
    assert_ptr_equal(given.lock.user_data, &client);
    /* An older program has not all of them, and memory that nobody has filled none. */
    rql_lock_options_init_sized(NULL, &given.lock, offsetof(rql_lock_options, user_data));
    assert_int_equal(rql_lock_options_set_lost(&given.lock, on_lost, NULL, &error), RQL_E_INVALID);
    assert_string_equal(error.message, "options: no such option: on_lost");
    assert_null(given.lock.on_lost);
    assert_int_equal(rql_lock_options_set(&given.lock, "replicas", "1", NULL), RQL_E_INVALID);
    CHECK_OK(rql_lock_options_set(&given.lock, "ttl_ms", "1", NULL));
    given.size = 0;
    assert_int_equal(rql_lock_options_set_lost(&given.lock, on_lost, NULL, &error), RQL_E_INVALID);
    assert_int_equal(rql_lock_options_set(&given.lock, "ttl_ms", "1", &error), RQL_E_INVALID);
    assert_string_equal(error.message, "options: not set up by their init call");
    assert_int_equal(rql_lock_options_set(NULL, "ttl_ms", "1", NULL), RQL_E_INVALID);
    assert_int_equal(rql_lock_options_set_lost(NULL, on_lost, NULL, NULL), RQL_E_INVALID);
}
