#include "check.h"

#include "base/secret.h"
#include "options/options.h"

#include <stdlib.h>

BEFORE_EACH(clear_environment)
{
    const rql_option_row *row;

    for (size_t i = 0; (row = rql_option_row_at(i)); i++) {
        (void)unsetenv(row->env);
    }
}

TEST(the_defaults_as_text_are_the_defaults)
{
    const rql_option_row *row;
    rql_options expected;
    rql_options options;

    rql_options_init(&expected);
    rql_options_init(&options);
    for (size_t i = 0; (row = rql_option_row_at(i)); i++) {
        CHECK_OK(rql_options_set(&options, row->name, row->default_value, NULL));
    }
    assert_memory_equal(&options, &expected, sizeof options);
}

TEST(texts_that_are_kept_are_copies)
{
    char url[] = "redis://h";
    rql_options options;
    char *texts;

    rql_options_init(&options);
    options.url = url;
    options.tls_ca_file = NULL;
    options.tls_server_name = "name";
    texts = rqli_options_keep_texts(&options);
    assert_non_null(texts);
    url[0] = 'X';
    assert_string_equal(options.url, "redis://h");
    assert_string_equal(options.tls_server_name, "name");
    assert_string_equal(options.tls_cert_file, "");
    assert_null(options.tls_ca_file);
    assert_ptr_equal(rqli_secret_free(texts), NULL);
}

TEST(what_is_no_value_changes_nothing)
{
    static const struct {
        const char *name;
        const char *value;
        const char *message;
    } cases[] = {
        {"retry_delay_ms", "0", "retry_delay_ms is 0; it must be 1 to 3600000"},
        {"retry-delay-ms", "abc", "retry_delay_ms is abc; it must be 1 to 3600000"},
        {"retry_delay_ms", "", "retry_delay_ms is empty; it must be 1 to 3600000"},
        {"retry_delay_ms", "5 ", "retry_delay_ms is 5 ; it must be 1 to 3600000"},
        {"retry_delay_ms", "1\n", "retry_delay_ms is unreadable; it must be 1 to 3600000"},
        {"retry_delay_ms", "\xc3\xa4", "retry_delay_ms is unreadable; it must be 1 to 3600000"},
        {"retry_delay_ms", "00000000000000000000000000000000000000000",
         "retry_delay_ms is too long; it must be 1 to 3600000"},
        {"retry_delay_ms", "forever", "retry_delay_ms is forever; it must be 1 to 3600000"},
        {"retry_delay_ms", "-1", "retry_delay_ms is -1; it must be 1 to 3600000"},
        {"retry_delay_ms", "2h", "retry_delay_ms is 2h; it must be 1 to 3600000"},
        {"queue_ttl_ms", "-1ms", "queue_ttl_ms is -1ms; it must be 1 or more, or forever"},
        {"retry_count", "5ms", "retry_count is 5ms; it must be 0 or more, or forever"},
        {"spin_us", "1ms", "spin_us is 1ms; it must be 0 to 1000"},
        {"retry_count", "-2", "retry_count is -2; it must be 0 or more, or forever"},
        {"timed", "1", "timed is 1; it must be true | false"},
        {"access_strategy", "QUEUED", "access_strategy is QUEUED; it must be queued | random"},
        {"retry", "1", "options: no such option: retry"},
        {"retry_delay_ms_", "1", "options: no such option: retry_delay_ms_"},
        {"size", "1", "options: no such option: size"},
        {"", "1", "options: no such option: empty"},
        {"spin_us", NULL, "options: name or value is NULL"},
        {NULL, "1", "options: name or value is NULL"},
    };

    rql_options before;

    rql_options_init(&before);
    EACH (row, cases) {
        rql_options options = before;
        rql_error error = {0};

        assert_int_equal(rql_options_set(&options, row->name, row->value, &error), RQL_E_INVALID);
        assert_string_equal(error.message, row->message);
        assert_memory_equal(&options, &before, sizeof options);
    }
}

static void set_environment(const char *name, const char *value)
{
    assert_int_equal(setenv(name, value, 1), 0);
}

/* An older one has no room for a new option, a newer one keeps its size. */
TEST(programs_of_other_ages_are_served)
{
    struct {
        rql_options known;
        int64_t unknown;
    } given;

    set_environment("RQL_KEY_EXTRACTION_BATCH_SIZE", "7");
    set_environment("RQL_SPIN_US", "9");
    memset(&given, 0xA5, sizeof given);
    rql_options_init_sized(&given.known, offsetof(rql_options, key_extraction_batch_size));
    assert_int_equal(rql_options_set(&given.known, "key_extraction_batch_size", "7", NULL),
                     RQL_E_INVALID);
    CHECK_OK(rql_options_set(&given.known, "access_strategy", "random", NULL));
    CHECK_OK(rql_options_from_env(&given.known, NULL));
    CHECK_ALL(EQ(given.known.access_strategy, RQL_RANDOM), EQ(given.known.spin_us, 9),
              EQ(given.known.key_extraction_batch_size, UINT64_C(0xA5A5A5A5A5A5A5A5)));
    rql_options_init_sized(&given.known, sizeof given);
    CHECK_OK(rql_options_set(&given.known, "io_timeout_ms", "4", NULL));
    CHECK_OK(rql_options_from_env(&given.known, NULL));
    CHECK_ALL(EQ(given.known.size, sizeof given), EQ(given.known.io_timeout_ms, 4),
              EQ(given.known.spin_us, 9), EQ(given.known.key_extraction_batch_size, 7));
}

TEST(a_struct_that_was_not_set_up_is_refused)
{
    rql_error error = {0};
    rql_options options = {0};

    assert_int_equal(rql_options_set(&options, "spin_us", "1", &error), RQL_E_INVALID);
    assert_string_equal(error.message, "options: not set up by their init call");
    assert_int_equal(rql_options_from_env(&options, NULL), RQL_E_INVALID);
    assert_int_equal(rql_options_set(NULL, "spin_us", "1", NULL), RQL_E_INVALID);
    assert_int_equal(rql_options_from_env(NULL, NULL), RQL_E_INVALID);
}

TEST(the_environment_is_taken_whole_or_not_at_all)
{
    rql_error error = {0};
    rql_options before;
    rql_options options;

    rql_options_init(&before);
    options = before;
    CHECK_OK(rql_options_from_env(&options, &error));
    assert_memory_equal(&options, &before, sizeof options);

    set_environment("RQL_URL", "unix:///s");
    set_environment("RQL_RETRY_COUNT", "forever");
    set_environment("RQL_KEY_EXTRACTION_BATCH_SIZE", "0");
    assert_int_equal(rql_options_from_env(&options, &error), RQL_E_INVALID);
    assert_string_equal(error.message,
                        "RQL_KEY_EXTRACTION_BATCH_SIZE is 0; it must be 1 to 100000");
    assert_memory_equal(&options, &before, sizeof options);

    set_environment("RQL_KEY_EXTRACTION_BATCH_SIZE", "11");
    CHECK_OK(rql_options_from_env(&options, NULL));
    assert_string_equal(options.url, "unix:///s");
    CHECK_ALL(EQ(options.retry_count, RQL_FOREVER), EQ(options.key_extraction_batch_size, 11),
              EQ(options.retry_delay_ms, 200));

    set_environment("RQL_URL", "s p");
    CHECK_OK(rql_options_from_env(&options, NULL));
    assert_string_equal(options.url, "s p");
}

TEST(an_empty_variable_counts_as_not_set)
{
    const rql_option_row *row;
    rql_options before;
    rql_options options;

    rql_options_init(&before);
    CHECK_OK(rql_options_set(&before, "tls_server_name", "locks", NULL));
    options = before;
    for (size_t i = 0; (row = rql_option_row_at(i)); i++) {
        if (strcmp(row->env, "RQL_TLS_SERVER_NAME") != 0) {
            set_environment(row->env, "");
        }
    }
    CHECK_OK(rql_options_from_env(&options, NULL));
    CHECK_ALL(EQ(options.retry_count, before.retry_count), EQ(options.spin_us, before.spin_us));
    assert_string_equal(options.url, before.url);
    assert_string_equal(options.tls_server_name, "locks");
    set_environment("RQL_TLS_SERVER_NAME", "");
    CHECK_OK(rql_options_from_env(&options, NULL));
    assert_string_equal(options.tls_server_name, "");
}

TEST(the_defaults_of_the_gem_are_one_call_and_one_variable)
{
    rql_error error = {0};
    rql_options gem;
    rql_options options;

    rql_options_init_gem(&gem);
    CHECK_ALL(EQ(gem.retry_count, 3), EQ(gem.ttl_ms, 5000), EQ(gem.queue_ttl_ms, 15000),
              EQ(gem.auto_extend, false), EQ(gem.timeout_ms, 10000));
    rql_options_init(&options);
    CHECK_ALL(EQ(options.retry_count, RQL_FOREVER), EQ(options.ttl_ms, 15000),
              EQ(options.queue_ttl_ms, RQL_FOREVER), EQ(options.auto_extend, true),
              EQ(options.timeout_ms, 10000));

    set_environment("RQL_PROFILE", "");
    CHECK_OK(rql_options_from_env(&options, NULL));
    assert_int_equal(options.ttl_ms, 15000);
    set_environment("RQL_PROFILE", "gem");
    CHECK_OK(rql_options_from_env(&options, NULL));
    assert_memory_equal(&options, &gem, sizeof options);
    set_environment("RQL_TTL_MS", "7s"); /* a variable of an option comes after the profile */
    CHECK_OK(rql_options_from_env(&options, NULL));
    CHECK_ALL(EQ(options.ttl_ms, 7000), EQ(options.retry_count, 3));
    set_environment("RQL_PROFILE", "ruby");
    assert_int_equal(rql_options_from_env(&options, &error), RQL_E_INVALID);
    assert_string_equal(error.message, "RQL_PROFILE is ruby; it must be gem");
    (void)unsetenv("RQL_PROFILE");
}

/* An older program has fewer options: those behind its own are left alone. */
TEST(a_short_struct_takes_the_defaults_of_the_gem_that_it_has)
{
    struct {
        rql_options known;
    } given;

    const size_t size = offsetof(rql_options, ttl_ms);

    memset(&given, 0x5A, sizeof given);
    rql_options_init_gem_sized(&given.known, size);
    assert_int_equal(given.known.retry_count, 3);
    assert_int_equal(given.known.ttl_ms, INT64_C(0x5A5A5A5A5A5A5A5A));
}
