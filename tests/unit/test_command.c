#include "check.h"

#include "wire/command.h"

#include <stdlib.h>

static void check_bytes(const struct rqli_command *command, const char *expected)
{
    assert_false(command->failed);
    assert_int_equal(command->length, strlen(expected));
    assert_memory_equal(command->data, expected, command->length);
}

static void words_are_framed_by_their_length(void **state)
{
    static const char expected[] = "*4\r\n$3\r\nSET\r\n$5\r\nk\r\n\0x\r\n$3\r\n-42\r\n$0\r\n\r\n";
    struct rqli_command command = {0};

    (void)state;
    rqli_command_begin(&command, 4);
    rqli_command_text(&command, "SET");
    rqli_command_slice(&command, (struct rqli_slice){"k\r\n\0x", 5});
    rqli_command_int(&command, -42);
    rqli_command_slice(&command, (struct rqli_slice){NULL, 0});
    assert_int_equal(command.n_commands, 1);
    assert_int_equal(command.length, sizeof expected - 1);
    assert_memory_equal(command.data, expected, sizeof expected - 1);
    rqli_command_fini(&command);
}

static void counts_of_several_digits_are_written(void **state)
{
    struct rqli_command command = {0};

    (void)state;
    rqli_command_begin(&command, 12);
    rqli_command_text(&command, "0123456789");
    check_bytes(&command, "*12\r\n$10\r\n0123456789\r\n");
    rqli_command_fini(&command);
}

static void numbers_of_any_size_are_written(void **state)
{
    struct rqli_command command = {0};

    (void)state;
    rqli_command_begin(&command, 3);
    rqli_command_int(&command, INT64_MIN);
    rqli_command_int(&command, INT64_MAX);
    rqli_command_int(&command, 0);
    check_bytes(&command, "*3\r\n$20\r\n-9223372036854775808\r\n$19\r\n9223372036854775807\r\n"
                          "$1\r\n0\r\n");
    rqli_command_fini(&command);
}

static void several_commands_share_the_buffer_and_are_counted(void **state)
{
    struct rqli_command command = {0};

    (void)state;
    rqli_command_begin(&command, 1);
    rqli_command_text(&command, "PING");
    rqli_command_begin(&command, 1);
    rqli_command_text(&command, "TIME");
    assert_int_equal(command.n_commands, 2);
    check_bytes(&command, "*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nTIME\r\n");
    rqli_command_fini(&command);
}

static void a_reset_keeps_the_memory(void **state)
{
    struct rqli_command command = {0};
    const char *data;
    size_t capacity;

    (void)state;
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
static void growth_loses_no_byte(void **state)
{
    char word[2100];
    char expected[2200];

    (void)state;
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

static void a_word_beyond_all_bounds_fails_once_and_until_the_reset(void **state)
{
    struct rqli_command command = {0};

    (void)state;
    rqli_command_begin(&command, 2);
    rqli_command_slice(&command, (struct rqli_slice){"x", SIZE_MAX});
    assert_true(command.failed);
    rqli_command_int(&command, 1);
    rqli_command_text(&command, "more");
    rqli_command_begin(&command, 1);
    assert_true(command.failed);
    rqli_command_reset(&command);
    assert_false(command.failed);
    rqli_command_text(&command, "ok");
    check_bytes(&command, "$2\r\nok\r\n");
    rqli_command_fini(&command);
}

static void words_that_are_too_much_together_fail(void **state)
{
    enum { WORD_SIZE = 8 << 20 };

    struct rqli_command command = {0};
    char *word = calloc(1, WORD_SIZE);
    int n_words = 0;

    (void)state;
    assert_non_null(word);
    while (!command.failed && n_words < 100) {
        rqli_command_slice(&command, (struct rqli_slice){word, WORD_SIZE});
        n_words++;
    }
    assert_int_equal(n_words, 8);
    rqli_command_fini(&command);
    free(word);
}

static void a_buffer_is_copied_behind_another(void **state)
{
    struct rqli_command empty = {0};
    struct rqli_command one = {0};
    struct rqli_command all = {0};

    (void)state;
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

static void what_cannot_be_copied_changes_nothing(void **state)
{
    struct rqli_command too_long = {.length = SIZE_MAX};
    struct rqli_command failed = {.failed = true};
    struct rqli_command all = {0};

    (void)state;
    rqli_command_text(&all, "a");
    assert_false(rqli_command_append(&all, &too_long));
    assert_false(rqli_command_append(&all, &failed));
    check_bytes(&all, "$1\r\na\r\n");
    assert_false(rqli_command_append(&failed, &all));
    assert_true(failed.failed);
    rqli_command_fini(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_framed_by_their_length),
        cmocka_unit_test(counts_of_several_digits_are_written),
        cmocka_unit_test(numbers_of_any_size_are_written),
        cmocka_unit_test(several_commands_share_the_buffer_and_are_counted),
        cmocka_unit_test(a_reset_keeps_the_memory),
        cmocka_unit_test(growth_loses_no_byte),
        cmocka_unit_test(a_word_beyond_all_bounds_fails_once_and_until_the_reset),
        cmocka_unit_test(words_that_are_too_much_together_fail),
        cmocka_unit_test(a_buffer_is_copied_behind_another),
        cmocka_unit_test(what_cannot_be_copied_changes_nothing),
    };

    return cmocka_run_group_tests_name("command", tests, NULL, NULL);
}
