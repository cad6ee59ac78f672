#include "check.h"

#include "admin/info.h"

/* What the scripts store of shares, and what other programs may have stored. */

#define NONCE "00112233445566778899aabbccddeeff"

TEST(a_share_has_units_and_a_limit_and_may_have_slots)
{
    static const struct {
        const char *text;
        bool is_share;
        struct rqli_share share;
    } table[] = {
        {"1 4096", true, {1, 4096, false}},
        {"2 8s", true, {2, 8, true}},
        {"8 8", true, {8, 8, false}},
        {"", false, {0}},
        {"s", false, {0}},
        {"1", false, {0}},
        {"9 8", false, {0}},
        {"0 8", false, {0}},
        {"1 4097", false, {0}},
        {"1 8x", false, {0}},
    };

    EACH (row, table) {
        struct rqli_share share;

        assert_int_equal(rqli_share_read(rqli_slice_of(row->text), &share), row->is_share);
        if (row->is_share) {
            CHECK_ALL(EQ(share.units, row->share.units), EQ(share.limit, row->share.limit),
                      EQ(share.has_slots, row->share.has_slots));
        }
    }
}

TEST(the_field_of_a_sharer_is_read)
{
    struct rqli_sharer sharer;

    assert_true(rqli_sharer_read(rqli_slice_of("rql_h:rql:acq:1"),
                                 rqli_slice_of(NONCE " 2:0,3 8 4711 15000 c rql:hst:1 packed text"),
                                 &sharer));
    CHECK_ALL(EQ(sharer.share.units, 2), EQ(sharer.share.limit, 8),
              EQ(sharer.share.has_slots, true), EQ(sharer.token, 4711), EQ(sharer.ttl_ms, 15000));
    assert_true(rqli_slice_is(sharer.acquirer, "rql:acq:1"));
    assert_true(rqli_slice_is(sharer.nonce, NONCE));
    assert_true(rqli_slice_is(sharer.slots, "0,3"));
    assert_true(rqli_slice_is(sharer.host, "rql:hst:1"));
    assert_true(rqli_slice_is(sharer.metadata, "packed text"));
    assert_true(
        rqli_sharer_read(rqli_slice_of("rql_h:a"), rqli_slice_of(NONCE " 1 8 1 1 - h "), &sharer));
    CHECK_ALL(EQ(sharer.share.has_slots, false), EQ(sharer.metadata.length, 0));
}

TEST(other_fields_are_no_sharers)
{
    static const struct {
        const char *name;
        const char *value;
    } table[] = {
        {"rql_used", NONCE " 1 8 1 1 - h "},   {"rql_h:a", ""},
        {"rql_h:a", NONCE " 1 8 1 1 -"},       {"rql_h:a", "0011 1 8 1 1 - h "},
        {"rql_h:a", NONCE " 9 8 1 1 - h "},    {"rql_h:a", NONCE " :0 8 1 1 - h "},
        {"rql_h:a", NONCE " 1 8 one 1 - h "},  {"rql_h:a", NONCE " 1 8 1 one - h "},
        {"rql_h:a", NONCE " 1 4097 1 1 - h "},
    };

    EACH (row, table) {
        struct rqli_sharer sharer;

        assert_false(
            rqli_sharer_read(rqli_slice_of(row->name), rqli_slice_of(row->value), &sharer));
    }
}

/* An array of three texts, whose lengths are written in each form. */
static const char PACKED[] = "\x93\xa1"
                             "a\xd9\x02"
                             "bc\xda\x00\x01"
                             "d";

TEST(packed_texts_are_read_and_cut_ones_end_sooner)
{
    static const char *const texts[] = {"a", "bc", "d"};
    static const size_t whole[] = {3, 7, 11}; /* bytes up to the end of each */

    for (size_t length = 0; length < sizeof PACKED; length++) {
        struct rqli_packed reading = rqli_packed_begin((struct rqli_slice){PACKED, length});
        struct rqli_slice text;

        for (size_t i = 0; i < N_ROWS(texts); i++) {
            assert_int_equal(rqli_packed_next(&reading, &text), length >= whole[i]);
            assert_true(length < whole[i] || rqli_slice_is(text, texts[i]));
        }
        assert_false(rqli_packed_next(&reading, &text));
    }
}

TEST(long_lists_and_texts_have_longer_heads)
{
    static const char heads[][8] = {"\xdc\x00\x01\xa1x", "\xdd\x00\x00\x00\x01\xa1x"};
    static const char wide[] = "\x91\xdb\x00\x00\x00\x01x";
    static const char huge[] = "\xdd\xff\xff\xff\xff\xdb\xff\xff\xff\xffx";
    static const size_t lengths[] = {5, 7};
    struct rqli_packed reading;
    struct rqli_slice text;

    for (size_t i = 0; i < N_ROWS(lengths); i++) {
        reading = rqli_packed_begin((struct rqli_slice){heads[i], lengths[i]});
        assert_true(rqli_packed_next(&reading, &text) && rqli_slice_is(text, "x"));
        assert_false(rqli_packed_next(&reading, &text));
    }
    reading = rqli_packed_begin((struct rqli_slice){wide, sizeof wide - 1});
    assert_true(rqli_packed_next(&reading, &text) && rqli_slice_is(text, "x"));
    reading = rqli_packed_begin((struct rqli_slice){huge, sizeof huge - 1});
    assert_false(rqli_packed_next(&reading, &text));
    reading = rqli_packed_begin(rqli_slice_of("no list"));
    assert_false(rqli_packed_next(&reading, &text));
}
