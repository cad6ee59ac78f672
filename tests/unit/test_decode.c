#include "check.h"

#include "net/decode.h"

#include <stdlib.h>

enum { SHOWN_SIZE = 512, CHUNK = 1 << 20, MEBI = 1 << 20, MOST_ELEMENTS = 131072 };

struct bench {
    struct rqli_decoder decoder;
    struct rqli_arena arena;
    struct rqli_reply root;
};

/* Nothing is clean that was not cleaned. */
static void set_up(struct bench *bench)
{
    *bench = (struct bench){.root.type = RQLI_REPLY_ARRAY};
    memset(bench->arena.first, 'x', sizeof bench->arena.first);
    assert_true(rqli_decoder_init(&bench->decoder));
}

static void tear_down(struct bench *bench)
{
    rqli_decoder_fini(&bench->decoder);
    rqli_arena_reset(&bench->arena);
}

static bool feed(struct bench *bench, const char *text)
{
    return rqli_decoder_feed(&bench->decoder, text, strlen(text));
}

static int next(struct bench *bench)
{
    return rqli_decoder_next(&bench->decoder, &bench->arena, &bench->root);
}

/* "[1 'text' nil]": a reply as a person would write it. */
static size_t show(char *out, const struct rqli_reply *reply)
{
    size_t at = 0;

    switch (reply->type) {
    case RQLI_REPLY_NIL:
        return (size_t)sprintf(out, "nil");
    case RQLI_REPLY_INTEGER:
        return (size_t)sprintf(out, "%lld", (long long)reply->integer);
    case RQLI_REPLY_TEXT:
        assert_int_equal(reply->text.data[reply->text.length], '\0');
        return (size_t)sprintf(out, "'%s'%zu", reply->text.data, reply->text.length);
    case RQLI_REPLY_STATUS:
        return (size_t)sprintf(out, "+%s", reply->text.data);
    case RQLI_REPLY_ERROR:
        return (size_t)sprintf(out, "-%s", reply->text.data);
    case RQLI_REPLY_ARRAY:
        break;
    }
    out[at++] = '[';
    for (size_t i = 0; i < reply->count; i++) {
        at += show(out + at, &reply->items[i]);
        out[at++] = ' ';
    }
    at -= reply->count > 0;
    return at + (size_t)sprintf(out + at, "]");
}

static void check_shown(const struct bench *bench, const char *expected)
{
    char shown[SHOWN_SIZE];

    (void)show(shown, &bench->root);
    assert_string_equal(shown, expected);
}

static const struct {
    const char *bytes;
    const char *shown;
} good[] = {
    {"+OK\r\n", "+OK"},
    {"+\r\n", "+"},
    {"-ERR no such thing\r\n", "-ERR no such thing"},
    {":0\r\n", "0"},
    {":-9223372036854775808\r\n", "-9223372036854775808"},
    {":9223372036854775807\r\n", "9223372036854775807"},
    {"$5\r\nhello\r\n", "'hello'5"},
    {"$0\r\n\r\n", "''0"},
    {"$4\r\na\r\nb\r\n", "'a\r\nb'4"},
    {"$-1\r\n", "nil"},
    {"*-1\r\n", "nil"},
    {"*0\r\n", "[]"},
    {"*3\r\n:1\r\n$2\r\nab\r\n$-1\r\n", "[1 'ab'2 nil]"},
    {"*3\r\n*0\r\n*-1\r\n*1\r\n*1\r\n:5\r\n", "[[] nil [[5]]]"},
    {"*2\r\n-NOSCRIPT gone\r\n*2\r\n+OK\r\n-ERR x\r\n", "[-NOSCRIPT gone [+OK -ERR x]]"},
    {"*1\r\n*1\r\n*1\r\n*1\r\n:4\r\n", "[[[[4]]]]"},
};

#define N_GOOD (sizeof good / sizeof good[0])

static void replies_are_decoded(void **state)
{
    struct bench bench;

    (void)state;
    for (size_t i = 0; i < N_GOOD; i++) {
        print_message("# reply %s\n", good[i].shown[1] == 'a' ? "a CR LF b" : good[i].shown);
        set_up(&bench);
        assert_true(rqli_decoder_is_empty(&bench.decoder));
        assert_true(feed(&bench, good[i].bytes));
        assert_false(rqli_decoder_is_empty(&bench.decoder));
        assert_int_equal(next(&bench), 1);
        check_shown(&bench, good[i].shown);
        assert_true(rqli_decoder_is_empty(&bench.decoder));
        assert_int_equal(next(&bench), 0);
        tear_down(&bench);
    }
}

static void replies_may_come_byte_by_byte(void **state)
{
    struct bench bench;

    (void)state;
    set_up(&bench);
    for (size_t i = 0; i < N_GOOD; i++) {
        bench.root = (struct rqli_reply){.type = RQLI_REPLY_ARRAY};
        for (const char *at = good[i].bytes; *at; at++) {
            assert_true(rqli_decoder_feed(&bench.decoder, at, 1));
            assert_int_equal(next(&bench), at[1] == '\0');
        }
        check_shown(&bench, good[i].shown);
        assert_true(rqli_decoder_is_empty(&bench.decoder));
    }
    tear_down(&bench);
}

static void replies_may_come_all_at_once(void **state)
{
    struct bench bench;

    (void)state;
    set_up(&bench);
    for (size_t i = 0; i < N_GOOD; i++) {
        assert_true(feed(&bench, good[i].bytes));
    }
    assert_true(feed(&bench, "$9\r\nhalf"));
    for (size_t i = 0; i < N_GOOD; i++) {
        bench.root = (struct rqli_reply){.type = RQLI_REPLY_ARRAY};
        assert_int_equal(next(&bench), 1);
        check_shown(&bench, good[i].shown);
    }
    assert_int_equal(next(&bench), 0);
    assert_false(rqli_decoder_is_empty(&bench.decoder));
    tear_down(&bench);
}

/* Every reply has its own arena: those of an exchange that was given back are gone. */
static void a_reply_lies_in_the_arena_that_it_was_asked_for(void **state)
{
    struct bench first;
    struct rqli_arena other = {0};
    struct rqli_reply root = {0};

    (void)state;
    set_up(&first);
    assert_true(feed(&first, "$3\r\none\r\n$3\r\ntwo\r\n"));
    assert_int_equal(next(&first), 1);
    assert_int_equal(rqli_decoder_next(&first.decoder, &other, &root), 1);
    rqli_arena_reset(&first.arena);
    memset(first.arena.first, 'x', sizeof first.arena.first);
    assert_string_equal(root.text.data, "two");
    rqli_arena_reset(&other);
    tear_down(&first);
}

static void text_may_hold_any_byte(void **state)
{
    struct bench bench;

    (void)state;
    set_up(&bench);
    assert_true(rqli_decoder_feed(&bench.decoder, "$4\r\n\0\377\r\n\r\n", 10));
    assert_int_equal(next(&bench), 1);
    assert_int_equal(bench.root.text.length, 4);
    assert_memory_equal(bench.root.text.data, "\0\377\r\n", 5);
    tear_down(&bench);
}

static void what_is_not_the_protocol_is_an_error_for_good(void **state)
{
    static const char *const bad[] = {
        "?\r\n",
        "HTTP/1.1 400 Bad Request\r\n",
        "\r\n",
        ":12a\r\n",
        ":\r\n",
        ":9223372036854775808\r\n",
        "$-2\r\n",
        "*-2\r\n",
        "*99999999999999999999\r\n",
        "*2\r\n:1\r\n!\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n?",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:5\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*0\r\n",
        /* RESP3, of which a newer hiredis knows more */
        ">2\r\n+x\r\n+y\r\n",
        "~1\r\n:1\r\n",
        "%1\r\n+x\r\n:1\r\n",
        "%0\r\n",
        "|1\r\n+x\r\n:1\r\n",
        ",1.5\r\n",
        "#t\r\n",
        "_\r\n",
        "(12345\r\n",
        "=5\r\ntxt:a\r\n",
        "*2\r\n:1\r\n#f\r\n",
        "*2\r\n:1\r\n%1\r\n:1\r\n:2\r\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct bench bench;

        print_message("# case %zu\n", i);
        set_up(&bench);
        assert_true(feed(&bench, bad[i]));
        assert_int_equal(next(&bench), -1);
        assert_int_equal(next(&bench), -1);
        (void)feed(&bench, ":1\r\n");
        assert_int_equal(next(&bench), -1);
        tear_down(&bench);
    }
}

static void a_tree_has_four_levels_at_most(void **state)
{
    struct bench bench;

    (void)state;
    set_up(&bench);
    assert_true(feed(&bench, "*1\r\n*1\r\n*1\r\n*1\r\n"));
    assert_int_equal(next(&bench), 0);
    assert_true(feed(&bench, "*0\r\n"));
    assert_int_equal(next(&bench), -1);
    tear_down(&bench);
}

static void an_exchange_has_so_many_elements_at_most(void **state)
{
    static const struct {
        const char *bytes;
        int result;
    } cases[] = {
        {"*131072\r\n", 0},
        {"*131073\r\n", -1},
        {"*2147483647\r\n", -1},
        {"*2\r\n*131070\r\n", 0},
        {"*2\r\n*131071\r\n", -1},
        {"*1\r\n*1\r\n*131070\r\n", 0},
        {"*1\r\n*1\r\n*131071\r\n", -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bench bench;

        print_message("# case %zu\n", i);
        set_up(&bench);
        assert_true(feed(&bench, cases[i].bytes));
        assert_int_equal(next(&bench), cases[i].result);
        tear_down(&bench);
    }
}

/* All replies of an exchange together, and a reset begins anew. */
static void elements_are_counted_for_the_arena(void **state)
{
    struct bench bench;

    (void)state;
    set_up(&bench);
    bench.arena.elements = MOST_ELEMENTS - 2;
    assert_true(feed(&bench, "*2\r\n:1\r\n:2\r\n*0\r\n"));
    assert_int_equal(next(&bench), 1);
    assert_int_equal(next(&bench), 1);
    rqli_arena_reset(&bench.arena);
    assert_true(feed(&bench, "*131072\r\n"));
    assert_int_equal(next(&bench), 0);
    tear_down(&bench);
    set_up(&bench);
    bench.arena.elements = MOST_ELEMENTS;
    assert_true(feed(&bench, "*1\r\n"));
    assert_int_equal(next(&bench), -1);
    tear_down(&bench);
}

/* Feeds a text of this length, up to what the decoder takes. */
static bool feed_text(struct bench *bench, size_t length)
{
    char *chunk = calloc(1, CHUNK);
    char header[32];
    bool fits;

    assert_non_null(chunk);
    (void)snprintf(header, sizeof header, "$%zu\r\n", length);
    fits = feed(bench, header);
    for (size_t left = length; fits && left > 0; left -= left < CHUNK ? left : CHUNK) {
        fits = rqli_decoder_feed(&bench->decoder, chunk, left < CHUNK ? left : CHUNK);
    }
    free(chunk);
    return fits && feed(bench, "\r\n");
}

static void a_large_text_is_taken_and_a_larger_one_not(void **state)
{
    struct bench bench;

    (void)state;
    set_up(&bench);
    assert_true(feed_text(&bench, 16 * MEBI - 16));
    assert_int_equal(next(&bench), 1);
    assert_int_equal(bench.root.text.length, 16 * MEBI - 16);
    tear_down(&bench);
    set_up(&bench);
    assert_false(feed_text(&bench, 16 * MEBI));
    tear_down(&bench);
}

static void texts_are_counted_for_the_arena(void **state)
{
    struct bench bench;
    int n_taken = 0;

    (void)state;
    set_up(&bench);
    assert_true(feed(&bench, "*20\r\n"));
    while (n_taken < 20 && feed_text(&bench, MEBI) && next(&bench) == 0) {
        n_taken++;
    }
    assert_int_equal(n_taken, 15);
    tear_down(&bench);
}

/* push.c reads the text of an item whatever it is. */
static void items_have_nothing_that_they_were_not_given(void **state)
{
    struct bench bench;

    (void)state;
    set_up(&bench);
    assert_true(feed(&bench, "*2\r\n$-1\r\n:7\r\n"));
    assert_int_equal(next(&bench), 1);
    for (size_t i = 0; i < 2; i++) {
        assert_null(bench.root.items[i].text.data);
        assert_int_equal(bench.root.items[i].text.length, 0);
        assert_null(bench.root.items[i].items);
    }
    tear_down(&bench);
}

static void bytes_that_nobody_takes_have_a_cap(void **state)
{
    char *chunk = calloc(1, CHUNK);
    struct bench bench;

    (void)state;
    assert_non_null(chunk);
    set_up(&bench);
    assert_true(feed(&bench, ":1\r\n"));
    assert_int_equal(next(&bench), 1);
    for (int i = 0; i < 16; i++) {
        assert_true(rqli_decoder_feed(&bench.decoder, chunk, CHUNK));
    }
    assert_true(rqli_decoder_feed(&bench.decoder, chunk, 0));
    assert_false(rqli_decoder_feed(&bench.decoder, chunk, 1));
    tear_down(&bench);
    free(chunk);
}

static void what_was_taken_makes_room(void **state)
{
    struct bench bench;

    (void)state;
    set_up(&bench);
    for (int i = 0; i < 6; i++) {
        assert_true(feed_text(&bench, 10 * MEBI));
        assert_int_equal(next(&bench), 1);
        rqli_arena_reset(&bench.arena);
    }
    tear_down(&bench);
}

static void an_arena_gives_aligned_memory_apart(void **state)
{
    struct rqli_arena arena = {0};
    char *before = arena.first;

    (void)state;
    for (size_t size = 1; size < 3000; size += 7) {
        char *memory = rqli_arena_take(&arena, size);

        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % 16, 0);
        assert_true(memory == arena.first || memory != before);
        memset(memory, 'a', size);
        before = memory;
    }
    rqli_arena_reset(&arena);
    assert_ptr_equal(rqli_arena_take(&arena, RQLI_ARENA_FIRST_BYTES), arena.first);
    assert_null(arena.blocks);
    assert_non_null(rqli_arena_take(&arena, 1));
    assert_non_null(arena.blocks);
    rqli_arena_reset(&arena);
}

static void an_arena_has_its_cap(void **state)
{
    struct rqli_arena arena = {0};

    (void)state;
    assert_null(rqli_arena_take(&arena, SIZE_MAX));
    assert_null(rqli_arena_take(&arena, 16 * MEBI + 1));
    assert_non_null(rqli_arena_take(&arena, 16 * MEBI - 16));
    assert_null(rqli_arena_take(&arena, 17));
    assert_non_null(rqli_arena_take(&arena, 1));
    assert_null(rqli_arena_take(&arena, 1));
    assert_non_null(rqli_arena_take(&arena, 0));
    rqli_arena_reset(&arena);
    assert_non_null(rqli_arena_take(&arena, 16 * MEBI));
    rqli_arena_reset(&arena);
}

static void an_end_may_come_twice(void **state)
{
    struct bench bench;

    (void)state;
    set_up(&bench);
    assert_true(feed(&bench, "*2\r\n$5\r\nhel"));
    assert_int_equal(next(&bench), 0);
    tear_down(&bench);
    tear_down(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_are_decoded),
        cmocka_unit_test(replies_may_come_byte_by_byte),
        cmocka_unit_test(replies_may_come_all_at_once),
        cmocka_unit_test(a_reply_lies_in_the_arena_that_it_was_asked_for),
        cmocka_unit_test(text_may_hold_any_byte),
        cmocka_unit_test(what_is_not_the_protocol_is_an_error_for_good),
        cmocka_unit_test(a_tree_has_four_levels_at_most),
        cmocka_unit_test(an_exchange_has_so_many_elements_at_most),
        cmocka_unit_test(elements_are_counted_for_the_arena),
        cmocka_unit_test(a_large_text_is_taken_and_a_larger_one_not),
        cmocka_unit_test(texts_are_counted_for_the_arena),
        cmocka_unit_test(items_have_nothing_that_they_were_not_given),
        cmocka_unit_test(bytes_that_nobody_takes_have_a_cap),
        cmocka_unit_test(what_was_taken_makes_room),
        cmocka_unit_test(an_arena_gives_aligned_memory_apart),
        cmocka_unit_test(an_arena_has_its_cap),
        cmocka_unit_test(an_end_may_come_twice),
    };

    return cmocka_run_group_tests_name("decode", tests, NULL, NULL);
}
