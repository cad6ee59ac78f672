#include "check.h"

#include "net/sock/decode.h"

#include <stdlib.h>

enum {
    SHOWN_SIZE = 512,
    CHUNK = 1 << 20,
    MEBI = 1 << 20,
    MOST_ELEMENTS = 262144,
    LINE_MAX_BYTES = 65536
};

struct bench {
    struct rqli_decoder decoder;
    struct rqli_arena arena;
    struct rqli_reply root;
};

/* Nothing is clean that was not cleaned; a reset begins to count anew. */
static void set_up(struct bench *bench)
{
    *bench = (struct bench){.root.type = RQLI_REPLY_ARRAY, .arena.elements = MOST_ELEMENTS};
    rqli_arena_reset(&bench->arena);
    memset(bench->arena.first, 'x', sizeof bench->arena.first);
    assert_true(rqli_decoder_init(&bench->decoder));
}

static void tear_down(struct bench *bench)
{
    for (int i = 0; i < 2; i++) { /* twice is fine */
        rqli_decoder_fini(&bench->decoder);
        rqli_arena_reset(&bench->arena);
    }
}

static bool feed(struct bench *bench, const char *text)
{
    return rqli_decoder_feed(&bench->decoder, text, strlen(text));
}

static int next(struct bench *bench)
{
    return rqli_decoder_next(&bench->decoder, &bench->arena, &bench->root);
}

/* "[1 'text'4 nil]": a reply as a person would write it. It has nothing that it was not given:
 * push.c reads the text of an item whatever it is. */
static size_t show(char *out, const struct rqli_reply *reply)
{
    size_t at = 0;

    if (reply->type == RQLI_REPLY_NIL || reply->type == RQLI_REPLY_INTEGER) {
        assert_null(reply->text.data);
        assert_int_equal(reply->text.length, 0);
        assert_null(reply->items);
    }
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
    {"*2\r\n$-1\r\n:7\r\n", "[nil 7]"},
    {"*3\r\n*0\r\n*-1\r\n*1\r\n*1\r\n:5\r\n", "[[] nil [[5]]]"},
    {"*2\r\n-NOSCRIPT gone\r\n*2\r\n+OK\r\n-ERR x\r\n", "[-NOSCRIPT gone [+OK -ERR x]]"},
    {"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:7\r\n", "[[[[[[[7]]]]]]]"},
};

/* Each alone and in pieces of any length: of one byte, or all at once. */
TEST(replies_are_decoded_however_they_come)
{
    struct bench bench;

    EACH (row, good) {
        size_t length = strlen(row->bytes);

        print_message("# reply %s\n", row->shown[1] == 'a' ? "a CR LF b" : row->shown);
        for (size_t piece = 1; piece <= length; piece++) {
            set_up(&bench);
            assert_true(rqli_decoder_is_empty(&bench.decoder));
            for (size_t at = 0; at < length; at += piece) {
                size_t left = length - at;

                assert_true(rqli_decoder_feed(&bench.decoder, row->bytes + at,
                                              left < piece ? left : piece));
                assert_false(rqli_decoder_is_empty(&bench.decoder));
                assert_int_equal(next(&bench), left <= piece);
            }
            check_shown(&bench, row->shown);
            assert_true(rqli_decoder_is_empty(&bench.decoder));
            assert_int_equal(next(&bench), 0);
            tear_down(&bench);
        }
    }
}

/* A longer text than 16 MiB is refused when it is there; hiredis of 32 bits takes this one, whose
 * length and terminator are one of 0, for one that is. */
enum { LENGTH_IS_REFUSED = sizeof(size_t) == 4 ? -1 : 0 };

/* What is fed piece by piece to an arena that has so many elements already; what each piece gives:
 * 1, 0 or -1, which is for good. */
static const struct limit {
    const char *name;
    size_t elements;
    const char *pieces[3];
    int results[3];
} limits[] = {
    {"a text that does not end", 0, {"*2\r\n$5\r\nhel"}, {0}},
    {"an eighth level that comes later",
     0,
     {"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", "*0\r\n"},
     {0, -1}},
    {"the longest text that 32 bits count", 0, {"$4294967295\r\nabc"}, {LENGTH_IS_REFUSED}},
    {"an attribute", 0, {"|1\r\n+x\r\n:1\r\n"}, {-1}},
    {"the most elements", 0, {"*262144\r\n"}, {0}},
    {"the most elements on two levels", 0, {"*2\r\n*262142\r\n"}, {0}},
    {"the most elements on three levels", 0, {"*1\r\n*1\r\n*262142\r\n"}, {0}},
    {"all replies of a batch have the most together",
     MOST_ELEMENTS - 2,
     {"*2\r\n:1\r\n:2\r\n", "*0\r\n", "*1\r\n"},
     {1, 1, -1}},
    {"a batch that has them all", MOST_ELEMENTS, {"*1\r\n"}, {-1}},
};

/* Other types (the last are RESP3, of which a newer hiredis knows more), bad numbers and lengths, a
 * eighth level, one element too many on one level or several. */
static const char *const bad =
    "?\r\n|HTTP/1.1 400 Bad Request\r\n|\r\n|:12a\r\n|:\r\n|:9223372036854775808\r\n"
    "|$-2\r\n|*-2\r\n|*99999999999999999999\r\n|*2\r\n:1\r\n!\r\n"
    "|*1\r\n*1\r\n*1\r\n*1\r\n?"
    "|*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:8\r\n"
    "|*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*0\r\n|>2\r\n+x\r\n+y\r\n|~1\r\n:1\r\n"
    "|%1\r\n+x\r\n:1\r\n|%0\r\n|,1.5\r\n|#t\r\n|_\r\n|(12345\r\n|=5\r\ntxt:a\r\n"
    "|*2\r\n:1\r\n#f\r\n|*2\r\n:1\r\n%1\r\n:1\r\n:2\r\n|*262145\r\n|*2147483647\r\n"
    "|*2\r\n*262143\r\n|*1\r\n*1\r\n*262143\r\n";

static void check_broken(struct bench *bench)
{
    assert_int_equal(next(bench), -1);
    assert_false(rqli_decoder_lacks_memory(&bench->decoder));
    (void)feed(bench, ":1\r\n");
    assert_int_equal(next(bench), -1);
}

TEST(what_is_not_the_protocol_or_too_much_is_an_error_for_good)
{
    const char *rest = bad;
    char bytes[PART_SIZE];

    while (next_part(&rest, bytes, NULL)) {
        struct bench bench;

        set_up(&bench);
        assert_true(feed(&bench, bytes));
        check_broken(&bench);
        tear_down(&bench);
    }
    EACH_ROW (row, limits) {
        struct bench bench;
        int result = 0;

        set_up(&bench);
        bench.arena.elements = row->elements;
        for (size_t k = 0; k < N_ROWS(row->pieces) && row->pieces[k]; k++) {
            assert_true(feed(&bench, row->pieces[k]));
            result = next(&bench);
            assert_int_equal(result, row->results[k]);
        }
        if (result < 0) {
            check_broken(&bench);
        }
        tear_down(&bench);
    }
}

/* hiredis looks through all of it each time that more comes. */
TEST(a_line_has_a_cap_and_a_text_has_another)
{
    static const struct {
        const char *begins;
        int at_end; /* behind 128 KiB more */
    } rows[] = {{"+", -1}, {"-ERR ", -1},   {":", -1},
                {"*", -1}, {"*2\r\n+", -1}, {"$200000\r\n", 0}};

    static char part[LINE_MAX_BYTES / 4];

    memset(part, '1', sizeof part);
    EACH_BY (row, rows, row->begins) {
        struct bench bench;
        int state;

        set_up(&bench);
        assert_true(feed(&bench, row->begins));
        state = next(&bench);
        for (int i = 0; i < 8 && state == 0; i++) {
            assert_true(rqli_decoder_feed(&bench.decoder, part, sizeof part));
            state = next(&bench);
            assert_true(state == 0 || i >= 3);
        }
        CHECK_ALL(EQ(state, row->at_end), EQ(rqli_decoder_lacks_memory(&bench.decoder), false));
        tear_down(&bench);
    }
}

TEST(bytes_that_nobody_takes_have_a_cap)
{
    static const struct {
        const char *name;
        size_t size;
        int n_times;
        bool fits;
    } rows[] = {{"the most", CHUNK, 16, true}, {"none", 0, 1, true}, {"one more", 1, 1, false}};

    char *chunk = calloc(1, CHUNK);
    struct bench bench;

    assert_non_null(chunk);
    set_up(&bench);
    assert_true(feed(&bench, ":1\r\n"));
    assert_int_equal(next(&bench), 1);
    EACH_ROW (row, rows) {
        for (int i = 0; i < row->n_times; i++) {
            assert_int_equal(rqli_decoder_feed(&bench.decoder, chunk, row->size), row->fits);
        }
        assert_int_equal(rqli_decoder_has_failed(&bench.decoder), !row->fits);
    }
    tear_down(&bench);
    free(chunk);
}

TEST(an_arena_gives_aligned_memory_apart)
{
    struct rqli_arena arena = {0};
    char *before = arena.first;

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

TEST(an_arena_has_its_cap)
{
    static const struct {
        size_t size;
        bool resets; /* before it */
        bool fits;
    } rows[] = {
        {SIZE_MAX, false, false},
        {16 * MEBI + 1, false, false},
        {16 * MEBI - 16, false, true},
        {17, false, false},
        {1, false, true},
        {1, false, false},
        {0, false, true},
        {16 * MEBI, true, true},
    };
    struct rqli_arena arena = {0};

    EACH (row, rows) {
        if (row->resets) {
            rqli_arena_reset(&arena);
        }
        assert_int_equal(rqli_arena_take(&arena, row->size) != NULL, row->fits);
    }
    rqli_arena_reset(&arena);
}
