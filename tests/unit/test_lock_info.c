#include "check.h"

#include "admin/info.h"
#include "reply_tree.h"

#include <stdlib.h>
#include <string.h>

#define KEY "rql:lock:x"
#define ACQ "rql:acq:18466/600/620/640/aaaaaaaaaaaaaaa1"
#define HST "rql:hst:18466/600/640/aaaaaaaaaaaaaaa1"
#define WHOLE "acq_id", ACQ, "hst_id", HST, "ts", "1795255131.070483", "ini_ttl", "3000"
#define TS_US INT64_C(1795255131070483)
#define LIST_MAX 40

/* Fields and values up to NULL. */
static rql_lock_info *info_of(const char *const *words, int64_t pttl)
{
    struct rqli_reply items[LIST_MAX];
    struct rqli_reply replies[RQLI_LOCK_INFO_REPLIES];
    rql_lock_info *info = NULL;
    size_t count = 0;

    for (; words[count]; count++) {
        items[count] = tree_text(words[count]);
    }
    replies[0] = tree_array(items, count);
    replies[1] = tree_int(pttl);
    CHECK_OK(rqli_lock_info_read(replies, rqli_slice_of(KEY), KEY, &info, NULL));
    assert_string_equal(info->lock_key, KEY);
    assert_string_equal(info->name, "x");
    return info;
}

/* What a whole lock is when one field is another, or is not there. */
static const struct lock_row {
    const char *label;
    const char *field;
    const char *value;
    rql_key_status status;
    int64_t ts_us;
    int64_t ini_ttl_ms;
} lock_rows[] = {
    {"whole", "foreign", "1", RQL_KEY_ALIVE, TS_US, 3000},
    {"integral ts", "ts", "1795255131", RQL_KEY_ALIVE, TS_US / 1000000 * 1000000, 3000},
    {"short ini_ttl", "ini_ttl", "1", RQL_KEY_ALIVE, TS_US, 1},
    {"no acq_id", "acq_id", NULL, RQL_KEY_MALFORMED, TS_US, 3000},
    {"no hst_id", "hst_id", NULL, RQL_KEY_MALFORMED, TS_US, 3000},
    {"no ts", "ts", NULL, RQL_KEY_MALFORMED, -1, 3000},
    {"no ini_ttl", "ini_ttl", NULL, RQL_KEY_MALFORMED, TS_US, -1},
    {"empty acq_id", "acq_id", "", RQL_KEY_MALFORMED, TS_US, 3000},
    {"ts ends with its point", "ts", "1795268.", RQL_KEY_MALFORMED, -1, 3000},
    {"empty ts", "ts", "", RQL_KEY_MALFORMED, -1, 3000},
    {"ts inf", "ts", "inf", RQL_KEY_MALFORMED, -1, 3000},
    {"ts nan", "ts", "nan", RQL_KEY_MALFORMED, -1, 3000},
    {"huge ts", "ts", "1e300", RQL_KEY_MALFORMED, -1, 3000},
    {"ini_ttl with decimals", "ini_ttl", "1500.5", RQL_KEY_MALFORMED, TS_US, -1},
    {"ini_ttl with an exponent", "ini_ttl", "15e2", RQL_KEY_MALFORMED, TS_US, -1},
    {"octal ini_ttl", "ini_ttl", "05000", RQL_KEY_MALFORMED, TS_US, -1},
    {"huge ini_ttl", "ini_ttl", "99999999999999999999", RQL_KEY_MALFORMED, TS_US, -1},
    {"bad spc_cnt", "spc_cnt", "08", RQL_KEY_MALFORMED, TS_US, 3000},
    {"bad l_spc_ts", "l_spc_ts", "soon", RQL_KEY_MALFORMED, TS_US, 3000},
    {"bad spc_ext_ttl", "spc_ext_ttl", "1.0", RQL_KEY_MALFORMED, TS_US, 3000},
    {"bad l_spc_ext_ts", "l_spc_ext_ts", "1.", RQL_KEY_MALFORMED, TS_US, 3000},
    {"bad l_spc_ext_ini_ttl", "l_spc_ext_ini_ttl", "", RQL_KEY_MALFORMED, TS_US, 3000},
    {"bad token", "rql_token", "one", RQL_KEY_MALFORMED, TS_US, 3000},
    {"a stored lock_key", "lock_key", "?", RQL_KEY_ALIVE, TS_US, 3000},
    {"a stored rem_ttl", "rem_ttl", "?", RQL_KEY_ALIVE, TS_US, 3000},
};

static void every_form_of_a_lock_has_its_status(void **state)
{
    static const char *const whole[] = {WHOLE};

    (void)state;
    for (const struct lock_row *row = lock_rows; row < lock_rows + N_ROWS(lock_rows); row++) {
        const char *words[LIST_MAX] = {NULL};
        size_t count = 0;
        rql_lock_info *info;

        say_row(row->label);
        for (size_t i = 0; i < N_ROWS(whole); i += 2) {
            if (strcmp(whole[i], row->field) != 0) {
                words[count++] = whole[i];
                words[count++] = whole[i + 1];
            }
        }
        words[count] = row->value ? row->field : NULL;
        words[count + 1] = row->value;
        info = info_of(words, 1500);
        assert_int_equal(info->status, row->status);
        assert_int_equal(info->ts_us, row->ts_us);
        assert_int_equal(info->ini_ttl_ms, row->ini_ttl_ms);
        assert_int_equal(info->rem_ttl_ms, 1500);
        free(info);
    }
}

static void a_whole_lock_has_all_its_fields(void **state)
{
    static const char *const words[] = {WHOLE,
                                        "spc_cnt",
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
    rql_lock_info *info = info_of(words, -1);

    (void)state;
    assert_int_equal(info->status, RQL_KEY_ALIVE);
    assert_string_equal(info->acq_id, ACQ);
    assert_string_equal(info->hst_id, HST);
    assert_int_equal(info->rem_ttl_ms, RQL_FOREVER);
    assert_int_equal(info->spc_cnt, 3);
    assert_int_equal(info->l_spc_ts_us, 1795255132500000);
    assert_int_equal(info->spc_ext_ttl_ms, 4000);
    assert_int_equal(info->l_spc_ext_ts_us, 1795255133250000);
    assert_int_equal(info->l_spc_ext_ini_ttl_ms, 2000);
    assert_int_equal(info->token, 1795255131070484);
    assert_int_equal(info->n_meta, 0);
    assert_null(info->meta);
    free(info);
}

static void what_was_never_written_is_unknown(void **state)
{
    static const char *const of_the_gem[] = {WHOLE, NULL};
    static const char *const foreign[] = {"foreign", "1", NULL};
    const char *const *const forms[] = {of_the_gem, foreign};

    (void)state;
    for (size_t i = 0; i < N_ROWS(forms); i++) {
        rql_lock_info *info = info_of(forms[i], 0);

        print_message("# form %zu\n", i);
        assert_int_equal(info->status, i == 0 ? RQL_KEY_ALIVE : RQL_KEY_MALFORMED);
        assert_int_equal(info->ts_us, i == 0 ? TS_US : -1);
        assert_int_equal(info->ini_ttl_ms, i == 0 ? 3000 : -1);
        assert_int_equal(info->rem_ttl_ms, 0);
        assert_int_equal(info->spc_cnt, -1);
        assert_int_equal(info->l_spc_ts_us, -1);
        assert_int_equal(info->spc_ext_ttl_ms, -1);
        assert_int_equal(info->l_spc_ext_ts_us, -1);
        assert_int_equal(info->l_spc_ext_ini_ttl_ms, -1);
        assert_int_equal(info->token, -1);
        free(info);
    }
}

static void metadata_keeps_its_order_and_ours_is_left_out(void **state)
{
    static const char *const words[] = {
        "z",        "first",  WHOLE, "some", "data",     "rql_v", "1", "",
        "emptykey", "sp ace", "v v", "rql",  "not ours", "a",     "",  NULL,
    };
    static const char *const expected[][2] = {{"z", "first"},      {"some", "data"},
                                              {"", "emptykey"},    {"sp ace", "v v"},
                                              {"rql", "not ours"}, {"a", ""}};
    rql_lock_info *info = info_of(words, 10);

    (void)state;
    assert_int_equal(info->status, RQL_KEY_ALIVE);
    assert_int_equal(info->n_meta, 6);
    for (size_t i = 0; i < info->n_meta; i++) {
        assert_string_equal(info->meta[i].name, expected[i][0]);
        assert_string_equal(info->meta[i].value, expected[i][1]);
    }
    free(info);
}

static void what_is_no_lock_has_a_status(void **state)
{
    const struct rqli_reply words[] = {tree_text("a"), tree_text("b")};
    const struct rqli_reply pair = tree_array(words, 2);
    const struct rqli_reply none = tree_array(NULL, 0);
    const struct rqli_reply wrong = tree_error("WRONGTYPE Operation against a key");

    const struct {
        const char *name;
        struct rqli_reply replies[RQLI_LOCK_INFO_REPLIES];
        const char *key;
        rql_key_status status;
    } rows[] = {
        {"gone", {none, tree_int(-2)}, KEY, RQL_KEY_RELEASED},
        {"just gone", {pair, tree_int(-2)}, KEY, RQL_KEY_RELEASED},
        {"just taken", {none, tree_int(5000)}, KEY, RQL_KEY_RELEASED},
        {"of another type", {wrong, tree_int(-1)}, KEY, RQL_KEY_WRONG_TYPE},
        {"a foreign key that is gone", {none, tree_int(-2)}, "foreign", RQL_KEY_RELEASED},
        {"a lock without a name", {none, tree_int(-2)}, "rql:lock:", RQL_KEY_RELEASED},
    };

    (void)state;
    for (size_t i = 0; i < N_ROWS(rows); i++) {
        rql_lock_info *info = NULL;

        say_row(rows[i].name);
        CHECK_OK(
            rqli_lock_info_read(rows[i].replies, rqli_slice_of(rows[i].key), KEY, &info, NULL));
        assert_int_equal(info->status, rows[i].status);
        assert_int_equal(info->ts_us, -1);
        assert_int_equal(info->token, -1);
        assert_null(info->acq_id);
        assert_null(info->meta);
        free(info);
    }
}

static void texts_with_a_nul_cannot_be_relied_on(void **state)
{
    const struct rqli_reply words[] = {
        tree_text("acq_id"),   tree_bytes("a\0b", 3), tree_text("hst_id"),  tree_text("h"),
        tree_text("ts"),       tree_text("1.5"),      tree_text("ini_ttl"), tree_text("1"),
        tree_bytes("m\0n", 3), tree_bytes("v\0w", 3),
    };
    const struct rqli_reply replies[] = {tree_array(words, TREE_COUNT(words)), tree_int(1)};
    const struct rqli_slice key = {"rql:lock:a\0b", 12};
    rql_lock_info *info = NULL;

    (void)state;
    CHECK_OK(rqli_lock_info_read(replies, key, KEY, &info, NULL));
    assert_int_equal(info->status, RQL_KEY_MALFORMED);
    assert_string_equal(info->name, "a");
    assert_string_equal(info->acq_id, "a");
    assert_int_equal(info->n_meta, 1);
    assert_string_equal(info->meta[0].name, "m");
    assert_string_equal(info->meta[0].value, "v");
    free(info);
}

static void replies_that_say_nothing_are_faults(void **state)
{
    const struct rqli_reply words[] = {tree_text("a"), tree_text("b"), tree_text("c")};
    const struct rqli_reply mixed[] = {tree_text("a"), tree_int(1)};
    const struct rqli_reply pair = tree_array(words, 2);
    const struct rqli_reply no_ttl = tree_int(-1);

    const struct {
        const char *name;
        struct rqli_reply replies[RQLI_LOCK_INFO_REPLIES];
        rql_status status;
    } rows[] = {
        {"a field without a value", {tree_array(words, 3), no_ttl}, RQL_E_PROTOCOL},
        {"a number for a value", {tree_array(mixed, 2), no_ttl}, RQL_E_PROTOCOL},
        {"nil", {tree_nil(), no_ttl}, RQL_E_PROTOCOL},
        {"a text", {tree_text("x"), no_ttl}, RQL_E_PROTOCOL},
        {"a text for a ttl", {pair, tree_text("5")}, RQL_E_PROTOCOL},
        {"no right to the ttl", {pair, tree_error("NOPERM no")}, RQL_E_AUTH},
        {"no right to the hash", {tree_error("NOPERM no"), no_ttl}, RQL_E_AUTH},
        {"not yet", {tree_error("LOADING wait"), no_ttl}, RQL_E_UNAVAILABLE},
    };

    (void)state;
    for (size_t i = 0; i < N_ROWS(rows); i++) {
        rql_lock_info *info = NULL;
        rql_error error = {0};

        say_row(rows[i].name);
        assert_int_equal(
            rqli_lock_info_read(rows[i].replies, rqli_slice_of(KEY), KEY, &info, &error),
            rows[i].status);
        assert_int_equal(error.status, rows[i].status);
        assert_null(info);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_a_lock_has_its_status),
        cmocka_unit_test(a_whole_lock_has_all_its_fields),
        cmocka_unit_test(what_was_never_written_is_unknown),
        cmocka_unit_test(metadata_keeps_its_order_and_ours_is_left_out),
        cmocka_unit_test(what_is_no_lock_has_a_status),
        cmocka_unit_test(texts_with_a_nul_cannot_be_relied_on),
        cmocka_unit_test(replies_that_say_nothing_are_faults),
    };

    return cmocka_run_group_tests_name("lock_info", tests, NULL, NULL);
}
