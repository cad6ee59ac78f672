#include "check.h"

#include "admin/pages.h"
#include "reply_tree.h"

#include <stdlib.h>

static struct rqli_walk walk;
static struct rqli_command command;

AFTER_EACH(tear_down)
{
    rqli_walk_fini_p(&walk);
    rqli_command_fini(&command);
}

/* Nothing is dropped: there is no connection. */
static void drop_nothing(const struct rqli_exchange *exchange)
{
    (void)exchange;
}

static rql_status take(const struct rqli_reply *replies)
{
    const struct rqli_exchange exchange = {.reply = replies, .drop = drop_nothing};

    return rqli_walk_take(&walk, &exchange, NULL);
}

/* A page of keys. */
static void page(const char *cursor, struct rqli_reply keys)
{
    const struct rqli_reply reply = TREE(tree_text(cursor), keys);

    CHECK_OK(take(&reply));
}

/* What was found, in order; of a hash with the times. */
static void check_found(const struct rqli_item *expected, size_t count)
{
    assert_int_equal(walk.found.count, count);
    for (size_t i = 0; i < count; i++) {
        const struct rqli_item *found = &walk.found.item[i];

        assert_int_equal(found->text.length, expected[i].text.length);
        assert_memory_equal(found->text.data, expected[i].text.data, found->text.length);
        assert_int_equal(found->number, expected[i].number);
    }
}

TEST(the_walk_asks_with_the_last_cursor)
{
    rqli_walk_init(&walk, "rql:lock:", NULL);
    rqli_walk_ask(&walk, &command, 500);
    page("18446744073709551615", tree_array(NULL, 0));
    assert_false(walk.is_done);
    rqli_walk_ask(&walk, &command, 7);
    assert_non_null(strstr(text_of(&command), "SCAN\r\n$1\r\n0\r\n$5\r\nMATCH\r\n$10\r\n"
                                              "rql:lock:*\r\n$5\r\nCOUNT\r\n$3\r\n500\r\n"));
    assert_non_null(strstr(text_of(&command), "SCAN\r\n$20\r\n18446744073709551615\r\n"));
    page("0", tree_array(NULL, 0));
    CHECK_ALL(EQ(walk.is_done, true), EQ(walk.found.count, 0));
}

TEST(each_key_is_found_once_and_in_order)
{
    static const struct rqli_item expected[] = {{.text = {"rql:lock:", 9}},
                                                {.text = {"rql:lock:a", 10}},
                                                {.text = {"rql:lock:a\0b", 12}},
                                                {.text = {"rql:lock:aa", 11}},
                                                {.text = {"rql:lock:b", 10}}};
    rql_text_list *list = NULL;

    rqli_walk_init(&walk, "rql:lock:", NULL);
    page("9", TREE(tree_text("rql:lock:b"), tree_text("rql:lock:"), tree_text("rql:lock:a"),
                   tree_text("other")));
    page("0", TREE(tree_text("rql:lock:a"), tree_text("rql:lock:aa"), tree_text("rql:lock:b"),
                   tree_bytes("rql:lock:a\0b", 12)));
    check_found(expected, N_ROWS(expected));
    CHECK_OK(rqli_list_give(&walk.found, &list, NULL));
    assert_int_equal(list->count, 4);
    for (size_t i = 0; i < list->count; i++) { /* but for the one with a NUL */
        assert_string_equal(list->item[i], expected[i + (i > 1)].text.data);
    }
    free(list);
}

TEST(many_pages_are_kept)
{
    enum { PAGES = 200, KEYS = 10 };

    char names[KEYS][32];
    struct rqli_reply keys[KEYS];

    rqli_walk_init(&walk, "rql:lock", NULL);
    for (int number = PAGES; number > 0; number--) {
        for (int i = 0; i < KEYS; i++) {
            (void)snprintf(names[i], sizeof names[i], "rql:lock:%06d", number * KEYS + i);
            keys[i] = tree_text(names[i]);
        }
        page(number == 1 ? "0" : "1", tree_array(keys, KEYS));
    }
    assert_int_equal(walk.found.count, PAGES * KEYS);
    assert_string_equal(walk.found.item[0].text.data, "rql:lock:000010");
    assert_string_equal(walk.found.item[PAGES * KEYS - 1].text.data, "rql:lock:002009");
}

/* A host may be named twice; its latest time counts. */
TEST(fields_of_a_hash_have_their_times)
{
    static const struct rqli_item expected[] = {{.text = {"a", 1}, .number = -1},
                                                {.text = {"b", 1}, .number = 7000000},
                                                {.text = {"c", 1}, .number = -1}};
    const struct rqli_reply time = TREE(tree_text("1795254268"), tree_text("468100"));
    const struct rqli_reply first =
        TREE(tree_text("b"), tree_text("2.5"), tree_text("a"), tree_text("soon"));
    const struct rqli_reply second = TREE(tree_text("b"), tree_text("7"), tree_bytes("n\0", 2),
                                          tree_text("1"), tree_text("c"), tree_text("-1"));
    const struct rqli_reply pages[][2] = {{time, TREE(tree_text("9"), first)},
                                          {time, TREE(tree_text("0"), second)}};

    rqli_walk_init(&walk, NULL, "hosts");
    rqli_walk_ask(&walk, &command, 500);
    assert_int_equal(command.n_commands, 2);
    assert_non_null(strstr(text_of(&command), "TIME\r\n*5\r\n$5\r\nHSCAN\r\n$5\r\nhosts\r\n$1\r\n"
                                              "0\r\n$5\r\nCOUNT\r\n$3\r\n500\r\n"));
    CHECK_OK(take(pages[0]));
    CHECK_OK(take(pages[1]));
    CHECK_ALL(EQ(walk.is_done, true), EQ(walk.server_us, 1795254268468100));
    check_found(expected, N_ROWS(expected));
    assert_true(rqli_list_has(&walk.found, rqli_slice_of("b")));
    assert_false(rqli_list_has(&walk.found, rqli_slice_of("bb")));
}

TEST(replies_of_another_shape_are_faults)
{
    const struct rqli_reply empty = tree_array(NULL, 0);
    const struct rqli_reply zero = tree_text("0");
    const struct rqli_reply time = TREE(tree_text("1"), tree_text("2"));
    const struct rqli_reply even = TREE(zero, TREE(tree_text("a"), tree_text("1")));

    const struct {
        const char *name;
        const char *hash; /* NULL: keys */
        struct rqli_reply replies[2];
        rql_status status;
    } rows[] = {
        {"a number for a key", NULL, {TREE(zero, TREE(tree_int(1)))}},
        {"no keys", NULL, {TREE(zero, tree_nil())}},
        {"a number for a cursor", NULL, {TREE(tree_int(0), empty)}},
        {"an empty cursor", NULL, {TREE(tree_text(""), empty)}},
        {"a long cursor", NULL, {TREE(tree_text("123456789012345678901234"), empty)}},
        {"a cursor with a NUL", NULL, {TREE(tree_bytes("1\0", 2), empty)}},
        {"nil", NULL, {tree_nil()}},
        {"a number", NULL, {tree_int(5)}},
        {"a cursor alone", NULL, {TREE(zero)}},
        {"an empty list", NULL, {empty}},
        {"a text", NULL, {zero}},
        {"no rights", NULL, {tree_error("NOPERM no rights")}, RQL_E_AUTH},
        {"a field without value", "h", {time, TREE(zero, TREE(zero, zero, zero))}},
        {"a time before all", "h", {TREE(tree_text("-1"), tree_text("2")), even}},
        {"a number in a time", "h", {TREE(tree_text("1"), tree_int(2)), even}},
        {"a word in a time", "h", {TREE(tree_text("9223372036854"), tree_text("x")), even}},
        {"a time after all", "h", {TREE(tree_text("9223372036855"), tree_text("2")), even}},
    };

    EACH_ROW (row, rows) {
        rqli_walk_init(&walk, row->hash ? NULL : "rql:lock:", row->hash);
        assert_int_equal(take(row->replies), row->status ? row->status : RQL_E_PROTOCOL);
        CHECK_ALL(EQ(walk.is_done, false), EQ(walk.found.count, 0));
        rqli_walk_fini_p(&walk);
    }
}
