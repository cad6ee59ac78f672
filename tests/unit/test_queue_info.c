#include "check.h"

#include "admin/info.h"
#include "reply_tree.h"

#include <stdlib.h>

#define KEY "rql:lock_queue:x"

static rql_status take_page(struct rqli_queue_reading *reading, const char *const *words,
                            size_t count)
{
    struct rqli_reply items[64];
    struct rqli_reply reply;

    for (size_t i = 0; i < count; i++) {
        items[i] = tree_text(words[i]);
    }
    reply = tree_array(items, count);
    return rqli_queue_reading_take(reading, &reply, KEY, NULL);
}

static rql_queue_info *finish(struct rqli_queue_reading *reading)
{
    rql_queue_info *info = NULL;

    CHECK_OK(rqli_queue_reading_finish(reading, &info, NULL));
    rqli_queue_reading_fini(reading);
    assert_string_equal(info->lock_queue, KEY);
    assert_string_equal(info->name, "x");
    return info;
}

static void check_asks(const struct rqli_queue_reading *reading, const char *expected)
{
    struct rqli_command command = {0};

    rqli_queue_reading_ask(reading, &command);
    rqli_command_slice(&command, (struct rqli_slice){"", 1});
    assert_int_equal(command.n_commands, 1);
    assert_non_null(strstr(command.data, expected));
    rqli_command_fini(&command);
}

static void pages_continue_at_the_last_score_behind_its_ties(void **state)
{
    static const char *const first[] = {"a", "1.5", "b", "2", "c", "2"};
    static const char *const second[] = {"d", "2", "e", "2", "f", "2"};
    static const char *const third[] = {"g", "3"};
    struct rqli_queue_reading reading;
    rql_queue_info *info;

    (void)state;
    rqli_queue_reading_init(&reading, rqli_slice_of(KEY), 3);
    check_asks(&reading, "$4\r\n-inf\r\n$4\r\n+inf\r\n$7\r\nBYSCORE\r\n$5\r\nLIMIT\r\n"
                         "$1\r\n0\r\n$1\r\n3\r\n$10\r\nWITHSCORES\r\n");
    CHECK_OK(take_page(&reading, first, 6));
    assert_true(reading.has_more);
    check_asks(&reading, "$1\r\n2\r\n$4\r\n+inf\r\n$7\r\nBYSCORE\r\n$5\r\nLIMIT\r\n$1\r\n2\r\n");
    CHECK_OK(take_page(&reading, second, 6));
    check_asks(&reading, "$1\r\n2\r\n$4\r\n+inf\r\n$7\r\nBYSCORE\r\n$5\r\nLIMIT\r\n$1\r\n5\r\n");
    CHECK_OK(take_page(&reading, third, 2));
    assert_false(reading.has_more);
    info = finish(&reading);
    assert_int_equal(info->status, RQL_KEY_ALIVE);
    assert_int_equal(info->n_requests, 7);
    for (size_t i = 0; i < info->n_requests; i++) {
        const char name[] = {(char)('a' + i), '\0'};

        assert_string_equal(info->requests[i].acq_id, name);
        assert_int_equal(info->requests[i].position, i + 1);
        assert_null(info->requests[i].hst_id);
    }
    assert_int_equal(info->requests[0].score_us, 1500000);
    assert_int_equal(info->requests[6].score_us, 3000000);
    free(info);
}

/* One member's, between two others. */
static void scores_are_read_with_all_their_digits_or_spoil_only_themselves(void **state)
{
    static const struct {
        const char *text;
        int64_t score_us; /* -1: nobody can read it */
    } rows[] = {
        {"-1.5", -1500000},
        {"1.0000000000000001e-05", 10},
        {"1795254268.4681001", 1795254268468100},
        {"1.7952542684681123e+9", 1795254268468112},
        {"inf", -1},
        {"-inf", -1},
        {"nan", -1},
        {"1e300", -1},
        {"", -1},
        {"soon", -1},
    };

    (void)state;
    for (size_t i = 0; i < N_ROWS(rows); i++) {
        const char *const words[] = {"a", "1", "b", rows[i].text, "c", "3"};
        struct rqli_queue_reading reading;
        rql_queue_info *info;

        say_row(rows[i].text);
        rqli_queue_reading_init(&reading, rqli_slice_of(KEY), RQLI_QUEUE_PAGE);
        CHECK_OK(take_page(&reading, words, 6));
        info = finish(&reading);
        assert_int_equal(info->status, rows[i].score_us == -1 ? RQL_KEY_MALFORMED : RQL_KEY_ALIVE);
        assert_int_equal(info->n_requests, 3);
        assert_int_equal(info->requests[0].score_us, 1000000);
        assert_int_equal(info->requests[1].score_us, rows[i].score_us);
        assert_int_equal(info->requests[2].score_us, 3000000);
        free(info);
    }
}

static void what_is_no_queue_has_a_status(void **state)
{
    const struct rqli_reply nul[] = {tree_bytes("a\0b", 3), tree_text("1")};

    const struct {
        const char *name;
        struct rqli_reply page;
        rql_key_status status;
        const char *first;
    } rows[] = {
        {"another type", tree_error("WRONGTYPE Operation against a key"), RQL_KEY_WRONG_TYPE, NULL},
        {"nothing", tree_array(NULL, 0), RQL_KEY_RELEASED, NULL},
        {"a member with a NUL", tree_array(nul, 2), RQL_KEY_MALFORMED, "a"},
    };

    (void)state;
    for (size_t i = 0; i < N_ROWS(rows); i++) {
        struct rqli_queue_reading reading;
        rql_queue_info *info;

        say_row(rows[i].name);
        rqli_queue_reading_init(&reading, rqli_slice_of(KEY), 5);
        CHECK_OK(rqli_queue_reading_take(&reading, &rows[i].page, KEY, NULL));
        assert_false(reading.has_more);
        info = finish(&reading);
        assert_int_equal(info->status, rows[i].status);
        assert_int_equal(info->n_requests, rows[i].first != NULL);
        if (rows[i].first) {
            assert_string_equal(info->requests[0].acq_id, rows[i].first);
        } else {
            assert_null(info->requests);
        }
        free(info);
    }
}

static void hosts_are_the_first_word_of_a_record(void **state)
{
    static const char *const words[] = {"a", "1", "b", "2", "c", "3", "d",
                                        "4", "e", "5", "f", "6", "g", "7"};
    char long_word[RQL_ID_SIZE + 1] = {0};
    const struct rqli_reply first[] = {tree_text("rql:hst:1/2/0/ff 5000 nonce"), tree_nil(),
                                       tree_text("alone")};
    const struct rqli_reply second[] = {tree_text(""), tree_text(" x"),
                                        tree_bytes(long_word, RQL_ID_SIZE),
                                        tree_bytes("h\0st x", 6)};
    const struct rqli_reply replies[] = {tree_array(first, 3), tree_array(second, 4)};
    struct rqli_command command = {0};
    struct rqli_queue_reading reading;
    rql_queue_info *info;

    (void)state;
    memset(long_word, 'h', RQL_ID_SIZE);
    rqli_queue_reading_init(&reading, rqli_slice_of(KEY), 9);
    CHECK_OK(take_page(&reading, words, 14));
    assert_int_equal(rqli_queue_reading_ask_hosts(&reading, &command, 3), 3);
    CHECK_OK(rqli_queue_reading_take_hosts(&reading, &replies[0], KEY, NULL));
    assert_int_equal(rqli_queue_reading_ask_hosts(&reading, &command, 100), 4);
    CHECK_OK(rqli_queue_reading_take_hosts(&reading, &replies[1], KEY, NULL));
    assert_int_equal(rqli_queue_reading_ask_hosts(&reading, &command, 100), 0);
    rqli_command_slice(&command, (struct rqli_slice){"", 1});
    assert_string_equal(command.data,
                        "*5\r\n$5\r\nHMGET\r\n$9\r\nrql:req:x\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n"
                        "*6\r\n$5\r\nHMGET\r\n$9\r\nrql:req:x\r\n$1\r\nd\r\n$1\r\ne\r\n$1\r\nf\r\n"
                        "$1\r\ng\r\n$1\r\n");
    rqli_command_fini(&command);
    info = finish(&reading);
    assert_string_equal(info->requests[0].hst_id, "rql:hst:1/2/0/ff");
    assert_null(info->requests[1].hst_id);
    assert_string_equal(info->requests[2].hst_id, "alone");
    for (size_t i = 3; i < 7; i++) {
        assert_null(info->requests[i].hst_id);
    }
    free(info);
}

#define IDENTITY "00112233445566778899aabbccddeeff"

/* The identity stands once, at the end of the acquirer's id. */
static void a_host_has_the_identity_of_its_acquirer(void **state)
{
    static const char *const words[] = {"rql:acq:1/2/3/0/" IDENTITY, "1", "short", "2",
                                        "rql:acq:1/2/4/0/" IDENTITY, "3"};
    char long_word[RQL_ID_SIZE - 32] = {0};
    const struct rqli_reply records[] = {tree_text("rql:hst:1/2/0/ 5000 nonce"),
                                         tree_text("rql:hst:1/2/0/ 5000 nonce"),
                                         tree_bytes(long_word, sizeof long_word)};
    const struct rqli_reply reply = tree_array(records, 3);
    struct rqli_command command = {0};
    struct rqli_queue_reading reading;
    rql_queue_info *info;

    (void)state;
    memset(long_word, '/', sizeof long_word);
    rqli_queue_reading_init(&reading, rqli_slice_of(KEY), 9);
    CHECK_OK(take_page(&reading, words, 6));
    assert_int_equal(rqli_queue_reading_ask_hosts(&reading, &command, 3), 3);
    rqli_command_fini(&command);
    CHECK_OK(rqli_queue_reading_take_hosts(&reading, &reply, KEY, NULL));
    info = finish(&reading);
    assert_string_equal(info->requests[0].hst_id, "rql:hst:1/2/0/" IDENTITY);
    assert_string_equal(info->requests[1].hst_id, "rql:hst:1/2/0/");
    assert_int_equal(strlen(info->requests[2].hst_id), sizeof long_word);
    free(info);
}

static void records_of_another_type_name_no_host(void **state)
{
    static const char *const words[] = {"a", "1"};
    const struct rqli_reply wrong = tree_error("WRONGTYPE Operation against a key");
    struct rqli_command command = {0};
    struct rqli_queue_reading reading;
    rql_queue_info *info;

    (void)state;
    rqli_queue_reading_init(&reading, rqli_slice_of(KEY), 9);
    CHECK_OK(take_page(&reading, words, 2));
    assert_int_equal(rqli_queue_reading_ask_hosts(&reading, &command, 9), 1);
    CHECK_OK(rqli_queue_reading_take_hosts(&reading, &wrong, KEY, NULL));
    assert_int_equal(rqli_queue_reading_ask_hosts(&reading, &command, 9), 0);
    rqli_command_fini(&command);
    info = finish(&reading);
    assert_int_equal(info->status, RQL_KEY_ALIVE);
    assert_null(info->requests[0].hst_id);
    free(info);
}

static void names_that_are_too_long_have_no_records(void **state)
{
    static const char *const words[] = {"a", "1"};
    static const char prefix[] = "rql:lock_queue:";
    char key[RQL_NAME_MAX + 32];

    (void)state;
    memset(key, 'n', sizeof key);
    memcpy(key, prefix, sizeof prefix - 1);
    for (size_t more = 0; more < 2; more++) {
        const struct rqli_slice name = {key, sizeof prefix - 1 + RQL_NAME_MAX + more};
        struct rqli_command command = {0};
        struct rqli_queue_reading reading;

        rqli_queue_reading_init(&reading, name, 9);
        CHECK_OK(take_page(&reading, words, 2));
        assert_int_equal(rqli_queue_reading_ask_hosts(&reading, &command, 9), 1 - more);
        rqli_queue_reading_fini(&reading);
        rqli_command_fini(&command);
    }
}

static void replies_that_say_nothing_are_faults(void **state)
{
    static const char *const words[] = {"a", "1"};
    const struct rqli_reply odd[] = {tree_text("a"), tree_text("1"), tree_text("b")};
    const struct rqli_reply mixed[] = {tree_text("a"), tree_int(1)};
    const struct rqli_reply far[] = {tree_text("a"),
                                     tree_text("1111111111111111111111111111111111111111")};
    const struct rqli_reply four[] = {tree_text("a"), tree_text("1"), tree_text("b"),
                                      tree_text("2")};
    const struct rqli_reply bad[] = {tree_array(odd, 3),  tree_array(mixed, 2), tree_array(far, 2),
                                     tree_array(four, 4), tree_nil(),           tree_text("x")};
    const struct rqli_reply refused = tree_error("NOPERM no");
    struct rqli_command command = {0};
    struct rqli_queue_reading reading;
    rql_error error = {0};

    (void)state;
    rqli_queue_reading_init(&reading, rqli_slice_of(KEY), 1);
    for (size_t i = 0; i < TREE_COUNT(bad); i++) {
        assert_int_equal(rqli_queue_reading_take(&reading, &bad[i], KEY, &error), RQL_E_PROTOCOL);
    }
    assert_int_equal(rqli_queue_reading_take(&reading, &refused, KEY, &error), RQL_E_AUTH);
    CHECK_OK(take_page(&reading, words, 2));
    assert_int_equal(rqli_queue_reading_ask_hosts(&reading, &command, 9), 1);
    assert_int_equal(rqli_queue_reading_take_hosts(&reading, &bad[0], KEY, &error), RQL_E_PROTOCOL);
    rqli_queue_reading_fini(&reading);
    rqli_command_fini(&command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_continue_at_the_last_score_behind_its_ties),
        cmocka_unit_test(scores_are_read_with_all_their_digits_or_spoil_only_themselves),
        cmocka_unit_test(what_is_no_queue_has_a_status),
        cmocka_unit_test(hosts_are_the_first_word_of_a_record),
        cmocka_unit_test(a_host_has_the_identity_of_its_acquirer),
        cmocka_unit_test(records_of_another_type_name_no_host),
        cmocka_unit_test(names_that_are_too_long_have_no_records),
        cmocka_unit_test(replies_that_say_nothing_are_faults),
    };

    return cmocka_run_group_tests_name("queue_info", tests, NULL, NULL);
}
