#include "check.h"

#include "admin/scan.h"
#include "reply_tree.h"

#include <stdlib.h>

static void take(struct rqli_scan *scan, const char *cursor, const struct rqli_reply *keys,
                 size_t count)
{
    const struct rqli_reply parts[] = {tree_text(cursor), tree_array(keys, count)};
    const struct rqli_reply reply = tree_array(parts, 2);

    CHECK_OK(rqli_scan_take(scan, &reply, NULL));
}

static void the_walk_asks_with_the_last_cursor(void **state)
{
    struct rqli_command command = {0};
    struct rqli_scan scan;

    (void)state;
    rqli_scan_init(&scan, "rql:lock:");
    rqli_scan_ask(&scan, &command, 500);
    take(&scan, "18446744073709551615", NULL, 0);
    assert_false(scan.is_done);
    rqli_scan_ask(&scan, &command, 7);
    rqli_command_slice(&command, (struct rqli_slice){"", 1});
    assert_non_null(strstr(command.data, "SCAN\r\n$1\r\n0\r\n$5\r\nMATCH\r\n$10\r\nrql:lock:*\r\n"
                                         "$5\r\nCOUNT\r\n$3\r\n500\r\n"));
    assert_non_null(strstr(command.data, "SCAN\r\n$20\r\n18446744073709551615\r\n"));
    take(&scan, "0", NULL, 0);
    assert_true(scan.is_done);
    assert_int_equal(scan.count, 0);
    rqli_command_fini(&command);
    rqli_scan_fini(&scan);
}

static void each_key_is_found_once_and_in_order(void **state)
{
    const struct rqli_reply first[] = {tree_text("rql:lock:b"), tree_text("rql:lock:"),
                                       tree_text("rql:lock:a"), tree_text("other")};
    const struct rqli_reply second[] = {tree_text("rql:lock:a"), tree_text("rql:lock:aa"),
                                        tree_text("rql:lock:b"), tree_bytes("rql:lock:a\0b", 12)};
    static const char *const expected[] = {"rql:lock:", "rql:lock:a", "rql:lock:aa", "rql:lock:b"};
    struct rqli_scan scan;
    rql_text_list *list = NULL;

    (void)state;
    rqli_scan_init(&scan, "rql:lock:");
    take(&scan, "9", first, TREE_COUNT(first));
    take(&scan, "0", second, TREE_COUNT(second));
    assert_int_equal(scan.count, 5);
    assert_int_equal(scan.keys[2].length, 12);
    CHECK_OK(rqli_scan_texts(&scan, &list, NULL));
    rqli_scan_fini(&scan);
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
    struct rqli_scan scan;

    (void)state;
    rqli_scan_init(&scan, "rql:lock");
    for (int page = PAGES; page > 0; page--) {
        for (int i = 0; i < KEYS; i++) {
            (void)snprintf(names[i], sizeof names[i], "rql:lock:%06d", page * KEYS + i);
            keys[i] = tree_text(names[i]);
        }
        take(&scan, page == 1 ? "0" : "1", keys, KEYS);
    }
    assert_int_equal(scan.count, PAGES * KEYS);
    assert_string_equal(scan.keys[0].data, "rql:lock:000010");
    assert_string_equal(scan.keys[PAGES * KEYS - 1].data, "rql:lock:002009");
    rqli_scan_fini(&scan);
}

static void replies_of_another_shape_are_faults(void **state)
{
    const struct rqli_reply number[] = {tree_int(1)};
    const struct rqli_reply rows[][2] = {
        {tree_text("0"), tree_array(number, 1)},
        {tree_text("0"), tree_nil()},
        {tree_int(0), tree_array(NULL, 0)},
        {tree_text(""), tree_array(NULL, 0)},
        {tree_text("1234567890123456789012345"), tree_array(NULL, 0)},
        {tree_bytes("1\0", 2), tree_array(NULL, 0)},
    };
    const struct rqli_reply others[] = {tree_nil(), tree_int(5), tree_array(rows[0], 1),
                                        tree_array(NULL, 0), tree_text("0")};
    const struct rqli_reply refused = tree_error("NOPERM no rights");
    struct rqli_scan scan;
    rql_error error = {0};

    (void)state;
    rqli_scan_init(&scan, "rql:lock:");
    for (size_t i = 0; i < TREE_COUNT(rows); i++) {
        const struct rqli_reply reply = tree_array(rows[i], 2);

        assert_int_equal(rqli_scan_take(&scan, &reply, &error), RQL_E_PROTOCOL);
    }
    for (size_t i = 0; i < TREE_COUNT(others); i++) {
        assert_int_equal(rqli_scan_take(&scan, &others[i], &error), RQL_E_PROTOCOL);
    }
    assert_int_equal(rqli_scan_take(&scan, &refused, &error), RQL_E_AUTH);
    assert_false(scan.is_done);
    assert_int_equal(scan.count, 0);
    rqli_scan_fini(&scan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_walk_asks_with_the_last_cursor),
        cmocka_unit_test(each_key_is_found_once_and_in_order),
        cmocka_unit_test(many_pages_are_kept),
        cmocka_unit_test(replies_of_another_shape_are_faults),
    };

    return cmocka_run_group_tests_name("scan", tests, NULL, NULL);
}
