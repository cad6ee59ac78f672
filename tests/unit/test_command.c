#include "check.h"

#include "reply_tree.h"

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
    struct rqli_slice bytes; /* none: it fails */
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
    {"a word beyond all bounds fails", {{BEGIN, 2, {0}}, {BYTES, 0, {"x", SIZE_MAX}}}},
    {"it fails once and for all that follows",
     {{BYTES, 0, {"x", SIZE_MAX}}, {NUMBER, 1, {0}}, {TEXT, 0, {"more", 4}}, {BEGIN, 1, {0}}}},
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

TEST(words_that_are_too_much_together_fail)
{
    static const struct {
        const char *name;
        size_t length;
        int n_words; /* with the one that fails */
    } rows[] = {{"64 MiB", 64 << 20, 1}, {"32 MiB", 32 << 20, 2}, {"8 MiB", 8 << 20, 8}};

    char *word = calloc(64, 1 << 20);

    assert_non_null(word);
    EACH_ROW (row, rows) {
        struct rqli_command command = {0};
        int n_words = 0;

        for (; !command.failed && n_words < 100; n_words++) {
            rqli_command_slice(&command, (struct rqli_slice){word, row->length});
        }
        assert_int_equal(n_words, row->n_words);
        rqli_command_fini(&command);
    }
    free(word);
}

/* One after the other. What cannot be copied changes nothing. */
TEST(a_buffer_is_copied_behind_another)
{
    struct rqli_command empty = {0};
    struct rqli_command one = {0};
    struct rqli_command too_long = {.length = SIZE_MAX};
    struct rqli_command failed = {.failed = true};
    struct rqli_command all = {0};

    const struct {
        const char *name, *bytes;
        const struct rqli_command *other;
        bool is_copied;
    } rows[] = {
        {"nothing behind nothing", "", &empty, true},
        {"a word behind nothing", "$1\r\na\r\n", &one, true},
        {"nothing behind a word", "$1\r\na\r\n", &empty, true},
        {"what is too long", "$1\r\na\r\n", &too_long, false},
        {"what has failed", "$1\r\na\r\n", &failed, false},
        {"a word behind a word", "$1\r\na\r\n$1\r\na\r\n", &one, true},
    };

    rqli_command_text(&one, "a");
    EACH_ROW (row, rows) {
        assert_int_equal(rqli_command_append(&all, row->other), row->is_copied);
        check_bytes(&all, row->bytes);
    }
    assert_false(rqli_command_append(&failed, &all));
    assert_true(failed.failed);
    rqli_command_fini(&one);
    rqli_command_fini(&all);
}

/* What acquire.lua is asked, in its fixed order. */
TEST(a_wish_is_one_word)
{
    static const struct {
        struct rqli_acquire_args ask;
        const char *word;
    } rows[] = {
        {{'q', 'w', false, -1, -1, 0, 0, -1, 0}, "$13\r\nqw- -1 0 -1 0\r\n"},
        {{'q', 'w', false, -1, -1, 0, 7, 3, 0}, "$17\r\nqw+ -1 0 -1 7 3 0\r\n"},
        {{'q', 'w', false, -1, -1, 0, 7, -1, 60000}, "$22\r\nqw+ -1 0 -1 7 -1 60000\r\n"},
        {{'r', 'd', true, 10000, 15000, 1795254268468100, 65535, 3, 60000},
         "$38\r\nrdf 10000 1795254268468100 15000 65535\r\n"},
        {{'q', 't', false, 0, INT64_MAX, INT64_MIN, UINT32_MAX, -1, 0},
         "$57\r\nqt- 0 -9223372036854775808 9223372036854775807 4294967295\r\n"},
    };

    char memory[RQLI_KEYS_ROOM];
    struct rqli_keys keys;
    struct rqli_command command = {0};

    rqli_keys_init(&keys, memory, &rqli_key_sets[RQLI_WHOLE], rqli_slice_of("a"));
    EACH_BY (row, rows, row->word) {
        struct rqli_call call;

        rqli_command_reset(&command);
        rqli_call_init(&call, RQLI_SCRIPT_ACQUIRE, &keys);
        for (int i = 0; i < 5; i++) { /* the words in front of it */
            rqli_call_int(&call, i);
        }
        rqli_call_acquire_args(&call, &row->ask);
        rqli_call_write(&call, &command, UINT64_MAX);
        assert_non_null(strstr(text_of(&command), row->word));
    }
    rqli_command_fini(&command);
}

/* A script declares the key of the shares behind those of every lock, and the swarm's behind that.
 */
TEST(a_share_has_a_key_of_its_own)
{
    static const struct {
        const char *name;
        enum rqli_script_id script;
        unsigned set;
        const char *keys;
    } rows[] = {
        {"one", RQLI_SCRIPT_LEAVE_SHARED, RQLI_WHOLE,
         "$1\r\n6\r\n$10\r\nrql:lock:a\r\n$16\r\nrql:lock_queue:a\r\n$9\r\nrql:req:a\r\n"
         "$8\r\nrql:live\r\n$9\r\nrql:fence\r\n$12\r\nrql:shares:a\r\n$1\r\n0\r\n"},
        {"flush", RQLI_SCRIPT_FLUSH_SHARES, RQLI_WHOLE,
         "$12\r\nrql:shares:a\r\n$14\r\nrql:swarm:hsts\r\n$18\r\nrql:swarm:suspects\r\n$1\r\n0"},
        {"partition", RQLI_SCRIPT_LEAVE_SHARED, 0,
         "$20\r\nrql:{00axj}:shares:a\r\n$16\r\nrql:{00axj}:none\r\n$1\r\n0\r\n"},
    };

    EACH_ROW (row, rows) {
        char memory[RQLI_KEYS_ROOM];
        struct rqli_keys keys;
        struct rqli_call call;
        struct rqli_command command = {0};

        rqli_keys_init(&keys, memory, &rqli_key_sets[row->set], rqli_slice_of("a"));
        rqli_call_init(&call, row->script, &keys);
        for (size_t i = 0; i < rqli_scripts[row->script].n_args; i++) {
            rqli_call_int(&call, (int64_t)i);
        }
        rqli_call_write(&call, &command, UINT64_MAX);
        assert_non_null(strstr(text_of(&command), row->keys));
        rqli_command_fini(&command);
    }
}
