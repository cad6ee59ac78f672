#include "unit.h"

#include "wire/command.h"

#include <stdlib.h>

#define SLICE(text)                                                                                \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }

static void check_bytes(const struct rqli_command *command, const char *expected)
{
    assert_false(command->failed);
    assert_int_equal(command->length, strlen(expected));
    assert_memory_equal(command->data, expected, command->length);
}

/* What is written, word by word, and the bytes that it gives. */
struct word {
    enum { NO_MORE, BEGIN, TEXT, BYTES, NUMBER, RESET } what;

    int64_t number;
    struct rqli_slice slice;
};

static const struct written {
    const char *name;
    struct word words[6];
    size_t n_commands;
    struct rqli_slice bytes; /* of NULL: it fails */
} written[] = {
    {"words are framed by their length",
     {{BEGIN, 4, {0}},
      {TEXT, 0, {"SET", 3}},
      {BYTES, 0, {"k\r\n\0x", 5}},
      {NUMBER, -42, {0}},
      {BYTES, 0, {NULL, 0}}},
     1,
     SLICE("*4\r\n$3\r\nSET\r\n$5\r\nk\r\n\0x\r\n$3\r\n-42\r\n$0\r\n\r\n")},
    {"counts of several digits are written",
     {{BEGIN, 12, {0}}, {TEXT, 0, {"0123456789", 10}}},
     1,
     SLICE("*12\r\n$10\r\n0123456789\r\n")},
    {"numbers of any size are written",
     {{BEGIN, 3, {0}}, {NUMBER, INT64_MIN, {0}}, {NUMBER, INT64_MAX, {0}}, {NUMBER, 0, {0}}},
     1,
     SLICE("*3\r\n$20\r\n-9223372036854775808\r\n$19\r\n9223372036854775807\r\n$1\r\n0\r\n")},
    {"several commands share the buffer and are counted",
     {{BEGIN, 1, {0}}, {TEXT, 0, {"PING", 4}}, {BEGIN, 1, {0}}, {TEXT, 0, {"TIME", 4}}},
     2,
     SLICE("*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nTIME\r\n")},
    {"a word beyond all bounds fails",
     {{BEGIN, 2, {0}}, {BYTES, 0, {"x", SIZE_MAX}}},
     1,
     {NULL, 0}},
    {"it fails once and for all that follows",
     {{BYTES, 0, {"x", SIZE_MAX}}, {NUMBER, 1, {0}}, {TEXT, 0, {"more", 4}}, {BEGIN, 1, {0}}},
     0,
     {NULL, 0}},
    {"it fails until the reset",
     {{BYTES, 0, {"x", SIZE_MAX}}, {NUMBER, 1, {0}}, {RESET, 0, {0}}, {TEXT, 0, {"ok", 2}}},
     0,
     SLICE("$2\r\nok\r\n")},
};

static void write_word(struct rqli_command *command, const struct word *word)
{
    if (word->what == BEGIN) {
        rqli_command_begin(command, (size_t)word->number);
    } else if (word->what == TEXT) {
        rqli_command_text(command, word->slice.data);
    } else if (word->what == BYTES) {
        rqli_command_slice(command, word->slice);
    } else if (word->what == NUMBER) {
        rqli_command_int(command, word->number);
    } else {
        rqli_command_reset(command);
    }
}

TEST(words_become_bytes)
{
    EACH_ROW (row, written) {
        struct rqli_command command = {0};

        for (const struct word *word = row->words; word->what != NO_MORE; word++) {
            write_word(&command, word);
        }
        assert_int_equal(command.failed, row->bytes.data == NULL);
        if (!command.failed) {
            assert_int_equal(command.n_commands, row->n_commands);
            assert_int_equal(command.length, row->bytes.length);
            assert_memory_equal(command.data, row->bytes.data, command.length);
        }
        rqli_command_fini(&command);
    }
}

TEST(a_reset_keeps_the_memory)
{
    struct rqli_command command = {0};
    const char *data;
    size_t capacity;

    for (int i = 0; i < 100; i++) {
        rqli_command_text(&command, "0123456789");
    }
    data = command.data;
    capacity = command.capacity;
    rqli_command_reset(&command);
    assert_int_equal(command.length, 0);
    assert_int_equal(command.n_commands, 0);
    rqli_command_begin(&command, 1);
    rqli_command_text(&command, "PING");
    assert_ptr_equal(command.data, data);
    assert_int_equal(command.capacity, capacity);
    check_bytes(&command, "*1\r\n$4\r\nPING\r\n");
    rqli_command_fini(&command);
    assert_null(command.data);
    assert_int_equal(command.capacity, 0);
}

/* Every length around the sizes at which the buffer grows. */
TEST(growth_loses_no_byte)
{
    char word[2100];
    char expected[2200];

    memset(word, 'w', sizeof word);
    for (size_t length = 0; length < sizeof word; length++) {
        struct rqli_command command = {0};
        int header;

        rqli_command_slice(&command, (struct rqli_slice){word, length});
        header = snprintf(expected, sizeof expected, "$%zu\r\n", length);
        memcpy(expected + header, word, length);
        memcpy(expected + header + length, "\r\n", 2);
        assert_false(command.failed);
        assert_int_equal(command.length, header + length + 2);
        assert_memory_equal(command.data, expected, command.length);
        rqli_command_fini(&command);
    }
}

TEST(words_that_are_too_much_together_fail)
{
    enum { WORD_SIZE = 8 << 20 };

    struct rqli_command command = {0};
    char *word = calloc(1, WORD_SIZE);
    int n_words = 0;

    assert_non_null(word);
    while (!command.failed && n_words < 100) {
        rqli_command_slice(&command, (struct rqli_slice){word, WORD_SIZE});
        n_words++;
    }
    assert_int_equal(n_words, 8);
    rqli_command_fini(&command);
    free(word);
}

TEST(a_buffer_is_copied_behind_another)
{
    struct rqli_command empty = {0};
    struct rqli_command one = {0};
    struct rqli_command all = {0};

    assert_true(rqli_command_append(&all, &empty));
    assert_int_equal(all.length, 0);
    rqli_command_text(&one, "a");
    assert_true(rqli_command_append(&all, &one));
    assert_true(rqli_command_append(&all, &empty));
    assert_true(rqli_command_append(&all, &one));
    check_bytes(&all, "$1\r\na\r\n$1\r\na\r\n");
    rqli_command_fini(&one);
    rqli_command_fini(&all);
}

TEST(what_cannot_be_copied_changes_nothing)
{
    struct rqli_command too_long = {.length = SIZE_MAX};
    struct rqli_command failed = {.failed = true};
    struct rqli_command all = {0};

    rqli_command_text(&all, "a");
    assert_false(rqli_command_append(&all, &too_long));
    assert_false(rqli_command_append(&all, &failed));
    check_bytes(&all, "$1\r\na\r\n");
    assert_false(rqli_command_append(&failed, &all));
    assert_true(failed.failed);
    rqli_command_fini(&all);
}
