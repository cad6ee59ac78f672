#include "check.h"

#include "options/options.h"

static rql_lock_options read_back;

/* As a client reads a call with these pairs; message: NULL, they are taken as they are. */
static void check_meta(const rql_meta *meta, size_t n_meta, const char *message)
{
    rql_lock_options given;
    rql_error error = {0};

    rqli_options_fill(RQLI_OF_LOCK, &given, NULL);
    given.meta = meta;
    given.n_meta = n_meta;
    assert_int_equal(rqli_options_read(RQLI_OF_LOCK, &read_back, NULL, &given, &error),
                     message ? RQL_E_INVALID : RQL_OK);
    assert_string_equal(error.message, message ? message : "");
    if (!message) {
        assert_ptr_equal(read_back.meta, meta);
        assert_int_equal(read_back.n_meta, n_meta);
    }
}

#define TRACEPARENT "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

static rql_status read_traceparent(const char *traceparent, const rql_meta *meta, rql_error *error)
{
    rql_lock_options given;

    rqli_options_fill(RQLI_OF_LOCK, &given, NULL);
    assert_null(given.traceparent);
    given.traceparent = traceparent;
    given.meta = meta;
    given.n_meta = meta ? 1 : 0;
    return rqli_options_read(RQLI_OF_LOCK, &read_back, NULL, &given, error);
}

TEST(a_traceparent_is_of_w3c_or_refused)
{
    static const char *const good[] = {
        TRACEPARENT,
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
        "00-00000000000000000000000000000001-1000000000000000-ff",
    };
    static const char *const bad[] = {
        "",
        "00",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
    };
    rql_error error = {0};

    EACH (text, good) {
        assert_int_equal(read_traceparent(*text, NULL, &error), RQL_OK);
        assert_ptr_equal(read_back.traceparent, *text);
    }
    EACH (text, bad) {
        print_message("#   %s\n", *text);
        assert_int_equal(read_traceparent(*text, NULL, &error), RQL_E_INVALID);
        assert_string_equal(error.message, "traceparent is malformed; it must be a traceparent of "
                                           "W3C Trace Context, version 00");
    }
}

TEST(a_traceparent_is_one_more_pair_of_the_metadata)
{
    static const rql_meta same = {"traceparent", "mine"};
    static const rql_meta other = {"a", "1"};
    rql_error error = {0};

    assert_int_equal(read_traceparent(TRACEPARENT, &other, &error), RQL_OK);
    assert_int_equal(rqli_meta_count(&read_back), 2);
    assert_string_equal(rqli_meta_at(&read_back, 0).name, "a");
    assert_string_equal(rqli_meta_at(&read_back, 1).name, "traceparent");
    assert_string_equal(rqli_meta_at(&read_back, 1).value, TRACEPARENT);
    assert_int_equal(read_traceparent(NULL, &same, &error), RQL_OK);
    assert_int_equal(rqli_meta_count(&read_back), 1);
    assert_int_equal(read_traceparent(TRACEPARENT, &same, &error), RQL_E_INVALID);
    assert_string_equal(error.message,
                        "meta[0]: name is that of the option traceparent, which is set");
}

TEST(meta_is_taken_as_it_is_or_refused)
{
    static char long_value[RQL_META_MAX_BYTES];
    static char too_long[RQL_META_MAX_BYTES + 1];

    static const struct {
        rql_meta meta[5];
        size_t n_meta;
        const char *message;
    } rows[] = {
        {{{"a", ""}, {"b", "x\ny"}, {"A", "z"}, {"rql", "1"}, {"tsx", "2"}}, 5, NULL},
        {{{"a", "1"}}, RQL_META_MAX_PAIRS + 1, "n_meta is 65; it must be 0 to 64"},
        {{{NULL, "1"}}, 1, "meta[0]: name or value is NULL"},
        {{{"a", "1"}, {"b", NULL}}, 2, "meta[1]: name or value is NULL"},
        {{{"", "1"}}, 1, "meta[0]: name is empty"},
        {{{"a", "1"}, {"b", "2"}, {"a", "3"}}, 3, "meta[2]: name is there twice"},
        {{{"a", long_value}}, 1, NULL},
        {{{"a", long_value}, {"b", ""}},
         2,
         "meta[1]: the pairs have too many bytes; at most 16384 are allowed"},
        {{{"a", too_long}}, 1, "meta[0]: the pairs have too many bytes; at most 16384 are allowed"},
    };

    memset(long_value, 'v', sizeof long_value - 1);
    memset(too_long, 'v', sizeof too_long - 1);
    check_meta(NULL, 1, "meta is NULL while n_meta is 1");
    EACH (row, rows) {
        check_meta(row->meta, row->n_meta, row->message);
    }
}
