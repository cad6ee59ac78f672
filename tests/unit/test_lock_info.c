#include "check.h"

#include "admin/info.h"
#include "reply_tree.h"

#include <stdlib.h>

#define KEY "rql:lock:x"
#define ACQ "rql:acq:18466/600/620/640/aaaaaaaaaaaaaaa1"
#define HST "rql:hst:18466/600/640/aaaaaaaaaaaaaaa1"
#define TS_US INT64_C(1795255131070483)
#define ALIVE RQL_KEY_ALIVE
#define MALFORMED RQL_KEY_MALFORMED

enum { ITEMS_MAX = 40 };

static rql_lock_info *info;

AFTER_EACH(tear_down)
{
    free(info);
    info = NULL;
}

/* Fields and values up to NULL, behind the four of a whole lock without the one named. */
static void read_lock(const char *without, const char *const *words, int64_t pttl)
{
    static const char *const whole[] = {"acq_id",  ACQ,   "hst_id", HST, "ts", "1795255131.070483",
                                        "ini_ttl", "3000"};
    struct rqli_reply items[ITEMS_MAX];
    struct rqli_reply replies[RQLI_LOCK_INFO_REPLIES];
    size_t count = 0;

    for (size_t i = 0; i < N_ROWS(whole); i += 2) {
        if (strcmp(whole[i], without) != 0 && strcmp("all", without) != 0) {
            items[count++] = tree_text(whole[i]);
            items[count++] = tree_text(whole[i + 1]);
        }
    }
    for (; *words; words++) {
        items[count++] = tree_text(*words);
    }
    replies[0] = tree_array(items, count);
    replies[1] = tree_int(pttl);
    free(info);
    CHECK_OK(rqli_lock_info_read(replies, rqli_slice_of(KEY), KEY, &info, NULL));
    assert_string_equal(info->lock_key, KEY);
    assert_string_equal(info->name, "x");
}

/* What a whole lock is when one field is another, or is not there. */
TEST(every_form_of_a_lock_has_its_status)
{
    static const struct {
        const char *name;
        const char *field;
        const char *value;
        rql_key_status status;
        int64_t ts_us;
        int64_t ini_ttl_ms;
    } rows[] = {
        {"whole", "foreign", "1", ALIVE, TS_US, 3000},
        {"integral ts", "ts", "1795255131", ALIVE, TS_US / 1000000 * 1000000, 3000},
        {"short ini_ttl", "ini_ttl", "1", ALIVE, TS_US, 1},
        {"no acq_id", "acq_id", NULL, MALFORMED, TS_US, 3000},
        {"no hst_id", "hst_id", NULL, MALFORMED, TS_US, 3000},
        {"no ts", "ts", NULL, MALFORMED, -1, 3000},
        {"no ini_ttl", "ini_ttl", NULL, MALFORMED, TS_US, -1},
        {"nothing of a lock", "all", "1", MALFORMED, -1, -1},
        {"empty acq_id", "acq_id", "", MALFORMED, TS_US, 3000},
        {"ts ends with its point", "ts", "1795268.", MALFORMED, -1, 3000},
        {"empty ts", "ts", "", MALFORMED, -1, 3000},
        {"ts inf", "ts", "inf", MALFORMED, -1, 3000},
        {"ts nan", "ts", "nan", MALFORMED, -1, 3000},
        {"huge ts", "ts", "1e300", MALFORMED, -1, 3000},
        {"ini_ttl with decimals", "ini_ttl", "1500.5", MALFORMED, TS_US, -1},
        {"ini_ttl with an exponent", "ini_ttl", "15e2", MALFORMED, TS_US, -1},
        {"octal ini_ttl", "ini_ttl", "05000", MALFORMED, TS_US, -1},
        {"huge ini_ttl", "ini_ttl", "99999999999999999999", MALFORMED, TS_US, -1},
        {"bad spc_cnt", "spc_cnt", "08", MALFORMED, TS_US, 3000},
        {"bad l_spc_ts", "l_spc_ts", "soon", MALFORMED, TS_US, 3000},
        {"bad spc_ext_ttl", "spc_ext_ttl", "1.0", MALFORMED, TS_US, 3000},
        {"bad l_spc_ext_ts", "l_spc_ext_ts", "1.", MALFORMED, TS_US, 3000},
        {"bad l_spc_ext_ini_ttl", "l_spc_ext_ini_ttl", "", MALFORMED, TS_US, 3000},
        {"bad token", "rql_token", "one", MALFORMED, TS_US, 3000},
        {"a stored lock_key", "lock_key", "?", ALIVE, TS_US, 3000},
        {"a stored rem_ttl", "rem_ttl", "?", ALIVE, TS_US, 3000},
    };

    EACH_ROW (row, rows) {
        const char *const words[] = {row->value ? row->field : NULL, row->value, NULL};

        read_lock(row->field, words, 1500);
        /* What was never written is unknown. */
        CHECK_ALL(EQ(info->status, row->status), EQ(info->ts_us, row->ts_us),
                  EQ(info->ini_ttl_ms, row->ini_ttl_ms), EQ(info->rem_ttl_ms, 1500),
                  EQ(info->spc_cnt, -1), EQ(info->l_spc_ts_us, -1), EQ(info->spc_ext_ttl_ms, -1),
                  EQ(info->l_spc_ext_ts_us, -1), EQ(info->l_spc_ext_ini_ttl_ms, -1),
                  EQ(info->token, -1));
    }
}

TEST(a_whole_lock_has_all_its_fields)
{
    static const char *const words[] = {"spc_cnt",
                                        "3",
                                        "l_spc_ts",
                                        "1795255132.5",
                                        "spc_ext_ttl",
                                        "4000",
                                        "l_spc_ext_ts",
                                        "1795255133.25",
                                        "l_spc_ext_ini_ttl",
                                        "2000",
                                        "rql_token",
                                        "1795255131070484",
                                        "rql_nonce",
                                        "0123456789abcdef",
                                        NULL};

    read_lock("", words, -1);
    assert_string_equal(info->acq_id, ACQ);
    assert_string_equal(info->hst_id, HST);
    CHECK_ALL(EQ(info->status, ALIVE), EQ(info->rem_ttl_ms, RQL_FOREVER), EQ(info->spc_cnt, 3),
              EQ(info->l_spc_ts_us, 1795255132500000), EQ(info->spc_ext_ttl_ms, 4000),
              EQ(info->l_spc_ext_ts_us, 1795255133250000), EQ(info->l_spc_ext_ini_ttl_ms, 2000),
              EQ(info->token, 1795255131070484), EQ(info->n_meta, 0));
    assert_null(info->meta);
}

TEST(metadata_keeps_its_order_and_ours_is_left_out)
{
    static const char *const words[] = {"z",   "first",    "some",     "data",   "rql_v",
                                        "1",   "",         "emptykey", "sp ace", "v v",
                                        "rql", "not ours", "a",        "",       NULL};
    static const rql_meta expected[] = {{"z", "first"},    {"some", "data"},    {"", "emptykey"},
                                        {"sp ace", "v v"}, {"rql", "not ours"}, {"a", ""}};

    read_lock("", words, 10);
    CHECK_ALL(EQ(info->status, ALIVE), EQ(info->n_meta, N_ROWS(expected)));
    EACH_ROW (row, expected) {
        assert_string_equal(info->meta[row - expected].name, row->name);
        assert_string_equal(info->meta[row - expected].value, row->value);
    }
}

TEST(what_is_no_lock_has_a_status_or_is_a_fault)
{
    const struct rqli_reply none = tree_array(NULL, 0);
    const struct rqli_reply pair = TREE(tree_text("a"), tree_text("b"));
    const struct rqli_reply refused = tree_error("NOPERM no");

    const struct {
        const char *name;
        struct rqli_reply replies[RQLI_LOCK_INFO_REPLIES];
        rql_status fault;
        rql_key_status status;
        const char *key;
    } rows[] = {
        {"gone", {none, tree_int(-2)}, 0, RQL_KEY_RELEASED},
        {"just gone", {pair, tree_int(-2)}, 0, RQL_KEY_RELEASED},
        {"just taken", {none, tree_int(5000)}, 0, RQL_KEY_RELEASED},
        {"of another type", {tree_error("WRONGTYPE x"), tree_int(-1)}, 0, RQL_KEY_WRONG_TYPE},
        {"a foreign key that is gone", {none, tree_int(-2)}, 0, RQL_KEY_RELEASED, "foreign"},
        {"a lock without a name", {none, tree_int(-2)}, 0, RQL_KEY_RELEASED, "rql:lock:"},
        {"a field without a value",
         {TREE(tree_text("a"), tree_text("b"), tree_text("c")), tree_int(-1)},
         RQL_E_PROTOCOL},
        {"a number for a value", {TREE(tree_text("a"), tree_int(1)), tree_int(-1)}, RQL_E_PROTOCOL},
        {"nil", {tree_nil(), tree_int(-1)}, RQL_E_PROTOCOL},
        {"a text", {tree_text("x"), tree_int(-1)}, RQL_E_PROTOCOL},
        {"a text for a ttl", {pair, tree_text("5")}, RQL_E_PROTOCOL},
        {"no right to the ttl", {pair, refused}, RQL_E_AUTH},
        {"no right to the hash", {refused, tree_int(-1)}, RQL_E_AUTH},
        {"not yet", {tree_error("LOADING wait"), tree_int(-1)}, RQL_E_UNAVAILABLE},
    };

    EACH_ROW (row, rows) {
        const char *key = row->key ? row->key : KEY;
        rql_error error = {0};

        tear_down();
        assert_int_equal(rqli_lock_info_read(row->replies, rqli_slice_of(key), KEY, &info, &error),
                         row->fault);
        assert_int_equal(error.status, row->fault);
        if (row->fault) {
            assert_null(info);
        } else {
            CHECK_ALL(EQ(info->status, row->status), EQ(info->ts_us, -1), EQ(info->token, -1),
                      EQ(info->acq_id != NULL, false), EQ(info->meta != NULL, false));
        }
    }
}

TEST(texts_with_a_nul_cannot_be_relied_on)
{
    const struct rqli_reply replies[] = {
        TREE(tree_text("acq_id"), tree_bytes("a\0b", 3), tree_text("hst_id"), tree_text("h"),
             tree_text("ts"), tree_text("1.5"), tree_text("ini_ttl"), tree_text("1"),
             tree_bytes("m\0n", 3), tree_bytes("v\0w", 3)),
        tree_int(1)};
    const struct rqli_slice key = {"rql:lock:a\0b", 12};

    CHECK_OK(rqli_lock_info_read(replies, key, KEY, &info, NULL));
    CHECK_ALL(EQ(info->status, MALFORMED), EQ(info->n_meta, 1));
    assert_string_equal(info->name, "a");
    assert_string_equal(info->acq_id, "a");
    assert_string_equal(info->meta[0].name, "m");
    assert_string_equal(info->meta[0].value, "v");
}
