#include "check.h"

#include "aborts.h"
#include "wire/command.h"

#include <stdlib.h>

#define NONCE "0123456789abcdef0123456789abcdef"

/* What is written so far; a NUL is put behind it. */
static const char *bytes_of(struct rqli_command *command)
{
    size_t length = command->length;

    assert_false(command->failed);
    rqli_command_slice(command, (struct rqli_slice){"", 1});
    memset(command->data + length, 0, command->length - length);
    command->length = length;
    return command->data;
}

static void write_release(struct rqli_command *command, const char *name, bool with_text)
{
    char memory[RQLI_KEYS_ROOM];
    struct rqli_keys keys;
    struct rqli_call call;

    rqli_keys_init(&keys, memory, rqli_slice_of(name));
    rqli_call_init(&call, RQLI_SCRIPT_RELEASE, &keys);
    rqli_call_text(&call, NONCE);
    rqli_call_int(&call, 65535);
    rqli_call_write(&call, command, with_text);
}

/* Behind the keys of a release. */
#define TAIL "$8\r\nrql:live\r\n$9\r\nrql:fence\r\n$32\r\n" NONCE "\r\n$5\r\n65535\r\n"

/* The words of a release behind the script. */
static const struct released {
    const char *name;
    bool with_text;
    const char *words;
} released[] = {
    {"{job}", false,
     "$1\r\n5\r\n$14\r\nrql:lock:{job}\r\n$20\r\nrql:lock_queue:{job}\r\n"
     "$13\r\nrql:req:{job}\r\n" TAIL},
    {"{job}", true,
     "$1\r\n5\r\n$14\r\nrql:lock:{job}\r\n$20\r\nrql:lock_queue:{job}\r\n"
     "$13\r\nrql:req:{job}\r\n" TAIL},
    {"a", false,
     "$1\r\n5\r\n$10\r\nrql:lock:a\r\n$16\r\nrql:lock_queue:a\r\n$9\r\nrql:req:a\r\n" TAIL},
    {"{x}:y", false,
     "$1\r\n5\r\n$14\r\nrql:lock:{x}:y\r\n$20\r\nrql:lock_queue:{x}:y\r\n"
     "$13\r\nrql:req:{x}:y\r\n" TAIL},
    {"* $1", false,
     "$1\r\n5\r\n$13\r\nrql:lock:* $1\r\n$19\r\nrql:lock_queue:* $1\r\n"
     "$12\r\nrql:req:* $1\r\n" TAIL},
};

static void a_call_goes_by_digest_or_text_with_names_as_they_are(void **state)
{
    const struct rqli_script *script = &rqli_scripts[RQLI_SCRIPT_RELEASE];
    size_t size = script->length + 512;
    char *expected = malloc(size);

    (void)state;
    assert_non_null(expected);
    for (size_t i = 0; i < N_ROWS(released); i++) {
        struct rqli_command command = {0};
        bool with_text = released[i].with_text;

        print_message("# name %s, text %d\n", released[i].name, with_text);
        (void)snprintf(expected, size, "*10\r\n%s\r\n$%zu\r\n%s\r\n%s",
                       with_text ? "$4\r\nEVAL" : "$7\r\nEVALSHA", with_text ? script->length : 40,
                       with_text ? script->text : script->sha1, released[i].words);
        write_release(&command, released[i].name, with_text);
        assert_string_equal(bytes_of(&command), expected);
        assert_int_equal(command.n_commands, 1);
        rqli_command_fini(&command);
    }
    free(expected);
}

static void check_slice(struct rqli_slice slice, const char *prefix, struct rqli_slice name)
{
    size_t length = strlen(prefix);

    assert_int_equal(slice.length, length + name.length);
    assert_memory_equal(slice.data, prefix, length);
    assert_memory_equal(slice.data + length, name.data, name.length);
    assert_int_equal(slice.data[slice.length], '\0');
}

/* Such as SCAN finds, too: longer than ours may be, and with any byte. All in the same place. */
static void keys_carry_any_name_as_it_is(void **state)
{
    enum { LONGEST = 3 * RQL_NAME_MAX };

    static const char nul[LONGEST];
    char long_name[RQL_NAME_MAX];
    const struct rqli_slice names[] = {
        {nul, LONGEST}, {long_name, RQL_NAME_MAX}, {"a:b {c}*", 8}, {"b", 1}, {"", 0}};
    char *memory = malloc(rqli_keys_room(names[0]));
    char room[RQLI_KEYS_ROOM];

    (void)state;
    assert_non_null(memory);
    memset(long_name, 'n', RQL_NAME_MAX);
    for (size_t i = 0; i < N_ROWS(names); i++) {
        struct rqli_keys keys;

        print_message("# name of %zu bytes\n", names[i].length);
        rqli_keys_init(&keys, names[i].length > RQL_NAME_MAX ? memory : room, names[i]);
        check_slice(keys.lock, "rql:lock:", names[i]);
        check_slice(keys.queue, "rql:lock_queue:", names[i]);
        check_slice(keys.requests, "rql:req:", names[i]);
    }
    free(memory);
}

static void the_longest_name_is_written(void **state)
{
    char name[RQL_NAME_MAX + 1] = {0};
    struct rqli_command command = {0};

    (void)state;
    memset(name, 'n', RQL_NAME_MAX);
    write_release(&command, name, false);
    assert_non_null(strstr(bytes_of(&command), "$521\r\nrql:lock:nnn"));
    assert_non_null(strstr(bytes_of(&command), "nnn\r\n$8\r\nrql:live\r\n"));
    rqli_command_fini(&command);
}

static void a_script_of_one_key_gets_the_lock_alone(void **state)
{
    struct rqli_command command = {0};
    char memory[RQLI_KEYS_ROOM];
    struct rqli_keys keys;
    struct rqli_call call;
    char expected[256];

    (void)state;
    rqli_keys_init(&keys, memory, rqli_slice_of("a"));
    rqli_call_init(&call, RQLI_SCRIPT_FORCE_EXTEND, &keys);
    rqli_call_int(&call, -5);
    rqli_call_write(&call, &command, false);
    (void)snprintf(expected, sizeof expected,
                   "*5\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n1\r\n$10\r\nrql:lock:a\r\n"
                   "$2\r\n-5\r\n",
                   rqli_scripts[RQLI_SCRIPT_FORCE_EXTEND].sha1);
    assert_string_equal(bytes_of(&command), expected);
    rqli_command_fini(&command);
}

static void begin_acquire(struct rqli_call *call, const struct rqli_keys *keys)
{
    rqli_call_init(call, RQLI_SCRIPT_ACQUIRE, keys);
    rqli_call_text(call, "acquirer");
    rqli_call_text(call, "host");
    rqli_call_int(call, 5000);
    rqli_call_text(call, NONCE);
    rqli_call_int(call, INT64_MAX);
}

static void a_wish_is_one_word(void **state)
{
    static const struct {
        struct rqli_acquire_args ask;
        const char *word;
    } cases[] = {
        {{'q', 'w', false, -1, -1, 0, 0}, "$13\r\nqw- -1 0 -1 0\r\n"},
        {{'r', 'd', true, 10000, 15000, 1795254268468100, 65535},
         "$38\r\nrdf 10000 1795254268468100 15000 65535\r\n"},
        {{'q', 't', false, 0, INT64_MAX, INT64_MIN, UINT32_MAX},
         "$57\r\nqt- 0 -9223372036854775808 9223372036854775807 4294967295\r\n"},
    };

    (void)state;
    for (size_t i = 0; i < N_ROWS(cases); i++) {
        struct rqli_command command = {0};
        char memory[RQLI_KEYS_ROOM];
        struct rqli_keys keys;
        struct rqli_call call;

        rqli_keys_init(&keys, memory, rqli_slice_of("a"));
        begin_acquire(&call, &keys);
        rqli_call_acquire_args(&call, &cases[i].ask);
        rqli_call_write(&call, &command, false);
        assert_non_null(strstr(bytes_of(&command), "$4\r\n5000\r\n$32\r\n" NONCE "\r\n"));
        assert_non_null(strstr(bytes_of(&command), "$19\r\n9223372036854775807\r\n"));
        assert_non_null(strstr(bytes_of(&command), cases[i].word));
        rqli_command_fini(&command);
    }
}

static void calls_share_a_buffer(void **state)
{
    struct rqli_command one = {0};
    struct rqli_command two = {0};

    (void)state;
    write_release(&one, "a", false);
    write_release(&two, "a", false);
    write_release(&two, "a", false);
    assert_int_equal(two.n_commands, 2);
    assert_int_equal(two.length, 2 * one.length);
    assert_memory_equal(two.data + one.length, one.data, one.length);
    rqli_command_fini(&one);
    rqli_command_fini(&two);
}

static void metadata_up_to_its_limit_is_written(void **state)
{
    static const struct rqli_acquire_args ask = {'q', 'w', false, -1, -1, 0, 0};
    struct rqli_command command = {0};
    char memory[RQLI_KEYS_ROOM];
    struct rqli_keys keys;
    struct rqli_call call;
    size_t least;

    (void)state;
    rqli_keys_init(&keys, memory, rqli_slice_of("a"));
    begin_acquire(&call, &keys);
    rqli_call_acquire_args(&call, &ask);
    rqli_call_write(&call, &command, false);
    least = command.length;
    assert_memory_equal(command.data, "*14\r\n", 5);
    rqli_command_reset(&command);
    for (int i = 0; i < 2 * RQL_META_MAX_PAIRS; i++) {
        rqli_call_text(&call, "mm");
    }
    rqli_call_write(&call, &command, false);
    assert_memory_equal(command.data, "*142\r\n", 6);
    assert_int_equal(command.length, least + 1 + (size_t)128 * strlen("$2\r\nmm\r\n"));
    rqli_command_fini(&command);
}

struct words {
    struct rqli_keys keys;
    struct rqli_call call;
    struct rqli_command command;
    int count;
};

static void add_texts(void *data)
{
    struct words *self = data;

    rqli_call_init(&self->call, RQLI_SCRIPT_ACQUIRE, &self->keys);
    for (int i = 0; i < self->count; i++) {
        rqli_call_text(&self->call, "x");
    }
}

static void add_numbers(void *data)
{
    struct words *self = data;

    rqli_call_init(&self->call, RQLI_SCRIPT_ACQUIRE, &self->keys);
    for (int i = 0; i < self->count; i++) {
        rqli_call_int(&self->call, INT64_MIN);
    }
}

static void ask_often(void *data)
{
    static const struct rqli_acquire_args ask = {'q',       'w',       false, INT64_MIN,
                                                 INT64_MIN, INT64_MIN, 1};
    struct words *self = data;

    rqli_call_init(&self->call, RQLI_SCRIPT_ACQUIRE, &self->keys);
    for (int i = 0; i < self->count; i++) {
        rqli_call_acquire_args(&self->call, &ask);
    }
}

static void write_with_words(void *data)
{
    struct words *self = data;

    rqli_call_init(&self->call, RQLI_SCRIPT_RELEASE, &self->keys);
    for (int i = 0; i < self->count; i++) {
        rqli_call_text(&self->call, "x");
    }
    rqli_call_write(&self->call, &self->command, false);
}

static void a_wrong_number_of_words_is_our_mistake(void **state)
{
    static const struct {
        const char *name;
        void (*act)(void *data);
        int right;
        int wrong;
    } rows[] = {
        {"too many texts", add_texts, RQLI_CALL_ARGS_MAX, RQLI_CALL_ARGS_MAX + 1},
        {"too many numbers", add_numbers, RQLI_CALL_NUMBERS_SIZE / 20,
         RQLI_CALL_NUMBERS_SIZE / 20 + 1},
        {"too many wishes", ask_often, 2, 3},
        {"too many words of a release", write_with_words, 2, 3},
        {"too few words of a release", write_with_words, 2, 1},
    };

    char memory[RQLI_KEYS_ROOM];

    (void)state;
    for (size_t i = 0; i < N_ROWS(rows); i++) {
        struct words right = {.count = rows[i].right};
        struct words wrong = {.count = rows[i].wrong};

        say_row(rows[i].name);
        rqli_keys_init(&right.keys, memory, rqli_slice_of("a"));
        wrong.keys = right.keys;
        rows[i].act(&right);
        assert_true(aborts(rows[i].act, &wrong));
        rqli_command_fini(&right.command);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_goes_by_digest_or_text_with_names_as_they_are),
        cmocka_unit_test(keys_carry_any_name_as_it_is),
        cmocka_unit_test(the_longest_name_is_written),
        cmocka_unit_test(a_script_of_one_key_gets_the_lock_alone),
        cmocka_unit_test(a_wish_is_one_word),
        cmocka_unit_test(calls_share_a_buffer),
        cmocka_unit_test(metadata_up_to_its_limit_is_written),
        cmocka_unit_test(a_wrong_number_of_words_is_our_mistake),
    };

    return cmocka_run_group_tests_name("call", tests, NULL, NULL);
}
