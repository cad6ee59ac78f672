#include "check.h"

#include "admin/pages.h"
#include "reply_tree.h"

#include <stdlib.h>

/* Nothing is dropped: there is no connection. */
static void drop_nothing(const struct rqli_exchange *exchange)
{
    (void)exchange;
}

static rql_status take_reply(struct rqli_walk *walk, const struct rqli_reply *reply,
                             rql_error *error)
{
    const struct rqli_exchange exchange = {.reply = reply, .drop = drop_nothing};

    return rqli_walk_take(walk, &exchange, error);
}

static void take(struct rqli_walk *walk, const char *cursor, const struct rqli_reply *keys,
                 size_t count)
{
    const struct rqli_reply parts[] = {tree_text(cursor), tree_array(keys, count)};
    const struct rqli_reply reply = tree_array(parts, 2);

    CHECK_OK(take_reply(walk, &reply, NULL));
}

static void the_walk_asks_with_the_last_cursor(void **state)
{
    struct rqli_command command = {0};
    struct rqli_walk walk;

    (void)state;
    rqli_walk_init(&walk, "rql:lock:", NULL);
    rqli_walk_ask(&walk, &command, 500);
    take(&walk, "18446744073709551615", NULL, 0);
    assert_false(walk.is_done);
    rqli_walk_ask(&walk, &command, 7);
    rqli_command_slice(&command, (struct rqli_slice){"", 1});
    assert_non_null(strstr(command.data, "SCAN\r\n$1\r\n0\r\n$5\r\nMATCH\r\n$10\r\nrql:lock:*\r\n"
                                         "$5\r\nCOUNT\r\n$3\r\n500\r\n"));
    assert_non_null(strstr(command.data, "SCAN\r\n$20\r\n18446744073709551615\r\n"));
    take(&walk, "0", NULL, 0);
    assert_true(walk.is_done);
    assert_int_equal(walk.found.count, 0);
    rqli_command_fini(&command);
    rqli_walk_fini_p(&walk);
}

static void each_key_is_found_once_and_in_order(void **state)
{
    const struct rqli_reply first[] = {tree_text("rql:lock:b"), tree_text("rql:lock:"),
                                       tree_text("rql:lock:a"), tree_text("other")};
    const struct rqli_reply second[] = {tree_text("rql:lock:a"), tree_text("rql:lock:aa"),
                                        tree_text("rql:lock:b"), tree_bytes("rql:lock:a\0b", 12)};
    static const char *const expected[] = {"rql:lock:", "rql:lock:a", "rql:lock:aa", "rql:lock:b"};
    struct rqli_walk walk;
    rql_text_list *list = NULL;

    (void)state;
    rqli_walk_init(&walk, "rql:lock:", NULL);
    take(&walk, "9", first, TREE_COUNT(first));
    take(&walk, "0", second, TREE_COUNT(second));
    assert_int_equal(walk.found.count, 5);
    assert_int_equal(walk.found.item[2].text.length, 12);
    CHECK_OK(rqli_list_give(&walk.found, &list, NULL));
    rqli_walk_fini_p(&walk);
    assert_int_equal(list->count, 4);
    for (size_t i = 0; i < list->count; i++) {
        assert_string_equal(list->item[i], expected[i]);
    }
    free(list);
}

static void many_pages_are_kept(void **state)
{
    enum { PAGES = 200, KEYS = 10 };

    char names[KEYS][32];
    struct rqli_reply keys[KEYS];
    struct rqli_walk walk;

    (void)state;
    rqli_walk_init(&walk, "rql:lock", NULL);
    for (int page = PAGES; page > 0; page--) {
        for (int i = 0; i < KEYS; i++) {
            (void)snprintf(names[i], sizeof names[i], "rql:lock:%06d", page * KEYS + i);
            keys[i] = tree_text(names[i]);
        }
        take(&walk, page == 1 ? "0" : "1", keys, KEYS);
    }
    assert_int_equal(walk.found.count, PAGES * KEYS);
    assert_string_equal(walk.found.item[0].text.data, "rql:lock:000010");
    assert_string_equal(walk.found.item[PAGES * KEYS - 1].text.data, "rql:lock:002009");
    rqli_walk_fini_p(&walk);
}

static void replies_of_another_shape_are_faults(void **state)
{
    const struct rqli_reply number[] = {tree_int(1)};
    const struct rqli_reply rows[][2] = {
        {tree_text("0"), tree_array(number, 1)},
        {tree_text("0"), tree_nil()},
        {tree_int(0), tree_array(NULL, 0)},
        {tree_text(""), tree_array(NULL, 0)},
        {tree_text("123456789012345678901234"), tree_array(NULL, 0)},
        {tree_bytes("1\0", 2), tree_array(NULL, 0)},
    };
    const struct rqli_reply others[] = {tree_nil(), tree_int(5), tree_array(rows[0], 1),
                                        tree_array(NULL, 0), tree_text("0")};
    const struct rqli_reply refused = tree_error("NOPERM no rights");
    struct rqli_walk walk;
    rql_error error = {0};

    (void)state;
    rqli_walk_init(&walk, "rql:lock:", NULL);
    for (size_t i = 0; i < TREE_COUNT(rows); i++) {
        const struct rqli_reply reply = tree_array(rows[i], 2);

        assert_int_equal(take_reply(&walk, &reply, &error), RQL_E_PROTOCOL);
    }
    for (size_t i = 0; i < TREE_COUNT(others); i++) {
        assert_int_equal(take_reply(&walk, &others[i], &error), RQL_E_PROTOCOL);
    }
    assert_int_equal(take_reply(&walk, &refused, &error), RQL_E_AUTH);
    assert_false(walk.is_done);
    assert_int_equal(walk.found.count, 0);
    rqli_walk_fini_p(&walk);
}

/* A host may be named twice; its latest time counts. */
static void fields_of_a_hash_have_their_times(void **state)
{
    const struct rqli_reply time[] = {tree_text("1795254268"), tree_text("468100")};
    const struct rqli_reply first[] = {tree_text("b"), tree_text("2.5"), tree_text("a"),
                                       tree_text("soon")};
    const struct rqli_reply second[] = {tree_text("b"), tree_text("7"), tree_bytes("n\0", 2),
                                        tree_text("1"), tree_text("c"), tree_text("-1")};
    const struct rqli_reply pages[][2] = {{tree_text("9"), tree_array(first, 4)},
                                          {tree_text("0"), tree_array(second, 6)}};

    static const struct {
        const char *name;
        int64_t time_us;
    } expected[] = {{"a", -1}, {"b", 7000000}, {"c", -1}};

    struct rqli_command command = {0};
    struct rqli_walk walk;

    (void)state;
    rqli_walk_init(&walk, NULL, "hosts");
    rqli_walk_ask(&walk, &command, 500);
    assert_int_equal(command.n_commands, 2);
    rqli_command_slice(&command, (struct rqli_slice){"", 1});
    assert_non_null(strstr(command.data, "TIME\r\n*5\r\n$5\r\nHSCAN\r\n$5\r\nhosts\r\n$1\r\n0\r\n"
                                         "$5\r\nCOUNT\r\n$3\r\n500\r\n"));
    for (size_t i = 0; i < 2; i++) {
        const struct rqli_reply replies[] = {tree_array(time, 2), tree_array(pages[i], 2)};

        CHECK_OK(take_reply(&walk, replies, NULL));
    }
    assert_true(walk.is_done);
    assert_true(walk.server_us == INT64_C(1795254268468100));
    assert_int_equal(walk.found.count, TREE_COUNT(expected));
    for (size_t i = 0; i < TREE_COUNT(expected); i++) {
        assert_string_equal(walk.found.item[i].text.data, expected[i].name);
        assert_true(walk.found.item[i].number == expected[i].time_us);
    }
    assert_true(rqli_list_has(&walk.found, rqli_slice_of("b")));
    assert_false(rqli_list_has(&walk.found, rqli_slice_of("bb")));
    rqli_command_fini(&command);
    rqli_walk_fini_p(&walk);
}

static void hashes_of_another_shape_are_faults(void **state)
{
    const struct rqli_reply good_time[] = {tree_text("1"), tree_text("2")};
    const struct rqli_reply bad_times[][2] = {{tree_text("-1"), tree_text("2")},
                                              {tree_text("1"), tree_int(2)},
                                              {tree_text("9223372036854"), tree_text("x")},
                                              {tree_text("9223372036855"), tree_text("2")}};
    const struct rqli_reply odd[] = {tree_text("a"), tree_text("1"), tree_text("b")};
    const struct rqli_reply parts[] = {tree_text("0"), tree_array(odd, 3)};
    const struct rqli_reply even[] = {tree_text("0"), tree_array(odd, 2)};
    struct rqli_reply replies[2];
    struct rqli_walk walk;
    rql_error error = {0};

    (void)state;
    rqli_walk_init(&walk, NULL, "hosts");
    replies[0] = tree_array(good_time, 2);
    replies[1] = tree_array(parts, 2);
    assert_int_equal(take_reply(&walk, replies, &error), RQL_E_PROTOCOL);
    replies[1] = tree_array(even, 2);
    for (size_t i = 0; i < TREE_COUNT(bad_times); i++) {
        replies[0] = tree_array(bad_times[i], 2);
        assert_int_equal(take_reply(&walk, replies, &error), RQL_E_PROTOCOL);
    }
    assert_int_equal(walk.found.count, 0);
    rqli_walk_fini_p(&walk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_walk_asks_with_the_last_cursor),
        cmocka_unit_test(each_key_is_found_once_and_in_order),
        cmocka_unit_test(many_pages_are_kept),
        cmocka_unit_test(replies_of_another_shape_are_faults),
        cmocka_unit_test(fields_of_a_hash_have_their_times),
        cmocka_unit_test(hashes_of_another_shape_are_faults),
    };

    return cmocka_run_group_tests_name("walk", tests, NULL, NULL);
}
