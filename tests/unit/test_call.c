#include "check.h"

#include "reply_tree.h"

#include <stdlib.h>

#define NONCE "0123456789abcdef0123456789abcdef"

static struct rqli_keys keys;
static char memory[RQLI_KEYS_ROOM];
static struct rqli_call call;
static struct rqli_command command;

static void begin(enum rqli_script_id script, const char *name)
{
    rqli_keys_init(&keys, memory, &rqli_key_sets[RQLI_WHOLE], rqli_slice_of(name));
    rqli_call_init(&call, script, &keys);
}

AFTER_EACH(tear_down)
{
    rqli_command_fini(&command);
}

static void write_release(const char *name, bool with_text)
{
    begin(RQLI_SCRIPT_RELEASE, name);
    rqli_call_text(&call, NONCE);
    rqli_call_int(&call, 65535);
    rqli_call_write(&call, &command, with_text);
}

/* Behind the name's keys of a release. */
#define TAIL "$8\r\nrql:live\r\n$9\r\nrql:fence\r\n$32\r\n" NONCE "\r\n$5\r\n65535\r\n"

TEST(a_call_goes_by_digest_or_text_with_names_as_they_are)
{
    static const struct {
        const char *name;
        bool with_text;
        const char *keys;
    } rows[] = {
        {"{job}", false,
         "$14\r\nrql:lock:{job}\r\n$20\r\nrql:lock_queue:{job}\r\n$13\r\nrql:req:{job}\r\n"},
        {"{job}", true,
         "$14\r\nrql:lock:{job}\r\n$20\r\nrql:lock_queue:{job}\r\n$13\r\nrql:req:{job}\r\n"},
        {"a", false, "$10\r\nrql:lock:a\r\n$16\r\nrql:lock_queue:a\r\n$9\r\nrql:req:a\r\n"},
        {"{x}:y", false,
         "$14\r\nrql:lock:{x}:y\r\n$20\r\nrql:lock_queue:{x}:y\r\n$13\r\nrql:req:{x}:y\r\n"},
        {"* $1", false,
         "$13\r\nrql:lock:* $1\r\n$19\r\nrql:lock_queue:* $1\r\n$12\r\nrql:req:* $1\r\n"},
    };
    const struct rqli_script *script = &rqli_scripts[RQLI_SCRIPT_RELEASE];
    size_t size = script->length + 512;
    char *expected = malloc(size);

    assert_non_null(expected);
    EACH_ROW (row, rows) {
        (void)snprintf(expected, size, "*10\r\n%s\r\n$%zu\r\n%s\r\n$1\r\n5\r\n%s" TAIL,
                       row->with_text ? "$4\r\nEVAL" : "$7\r\nEVALSHA",
                       row->with_text ? script->length : 40,
                       row->with_text ? script->text : script->sha1, row->keys);
        rqli_command_reset(&command);
        write_release(row->name, row->with_text);
        assert_string_equal(text_of(&command), expected);
        assert_int_equal(command.n_commands, 1);
        write_release(row->name, row->with_text); /* calls share the buffer */
        CHECK_ALL(EQ(command.n_commands, 2), EQ(command.length, 2 * strlen(expected)));
        assert_string_equal(text_of(&command) + strlen(expected), expected);
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
TEST(keys_carry_any_name_as_it_is)
{
    enum { LONGEST = 3 * RQL_NAME_MAX };

    static const char nul[LONGEST];
    char long_name[RQL_NAME_MAX + 1] = {0};
    const struct rqli_slice names[] = {
        {nul, LONGEST}, {long_name, RQL_NAME_MAX}, {"a:b {c}*", 8}, {"b", 1}, {"", 0}};
    char *room = malloc(rqli_keys_room(names[0]));

    assert_non_null(room);
    memset(long_name, 'n', RQL_NAME_MAX);
    EACH (row, names) {
        rqli_keys_init(&keys, row->length > RQL_NAME_MAX ? room : memory,
                       &rqli_key_sets[RQLI_WHOLE], *row);
        check_slice(keys.lock, "rql:lock:", *row);
        check_slice(keys.queue, "rql:lock_queue:", *row);
        check_slice(keys.requests, "rql:req:", *row);
    }
    free(room);
    write_release(long_name, false);
    assert_non_null(strstr(text_of(&command), "$521\r\nrql:lock:nnn"));
    assert_non_null(strstr(text_of(&command), "nnn\r\n$8\r\nrql:live\r\n"));
}

TEST(a_script_of_one_key_gets_the_lock_alone)
{
    char expected[256];

    begin(RQLI_SCRIPT_FORCE_EXTEND, "a");
    rqli_call_int(&call, -5);
    rqli_call_write(&call, &command, false);
    (void)snprintf(expected, sizeof expected,
                   "*5\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n1\r\n$10\r\nrql:lock:a\r\n"
                   "$2\r\n-5\r\n",
                   rqli_scripts[RQLI_SCRIPT_FORCE_EXTEND].sha1);
    assert_string_equal(text_of(&command), expected);
}

static void begin_acquire(void)
{
    begin(RQLI_SCRIPT_ACQUIRE, "a");
    rqli_call_text(&call, "acquirer");
    rqli_call_text(&call, "host");
    rqli_call_int(&call, 5000);
    rqli_call_text(&call, NONCE);
    rqli_call_int(&call, INT64_MAX);
}

TEST(a_wish_is_one_word)
{
    static const struct {
        struct rqli_acquire_args ask;
        const char *word;
    } rows[] = {
        {{'q', 'w', false, -1, -1, 0, 0}, "$13\r\nqw- -1 0 -1 0\r\n"},
        {{'r', 'd', true, 10000, 15000, 1795254268468100, 65535},
         "$38\r\nrdf 10000 1795254268468100 15000 65535\r\n"},
        {{'q', 't', false, 0, INT64_MAX, INT64_MIN, UINT32_MAX},
         "$57\r\nqt- 0 -9223372036854775808 9223372036854775807 4294967295\r\n"},
    };

    EACH_BY (row, rows, row->word) {
        rqli_command_reset(&command);
        begin_acquire();
        rqli_call_acquire_args(&call, &row->ask);
        rqli_call_write(&call, &command, false);
        assert_non_null(strstr(text_of(&command), "$4\r\n5000\r\n$32\r\n" NONCE "\r\n"));
        assert_non_null(strstr(text_of(&command), "$19\r\n9223372036854775807\r\n"));
        assert_non_null(strstr(text_of(&command), row->word));
    }
}

TEST(metadata_up_to_its_limit_is_written)
{
    static const struct rqli_acquire_args ask = {'q', 'w', false, -1, -1, 0, 0};

    static const struct {
        const char *count; /* of all words */
        size_t n_words;    /* of metadata, so far */
    } rows[] = {{"*14\r\n", 0}, {"*16\r\n", 2}, {"*142\r\n", 2 * RQL_META_MAX_PAIRS}};

    size_t n_words = 0;
    size_t least = 0;

    begin_acquire();
    rqli_call_acquire_args(&call, &ask);
    EACH_BY (row, rows, row->count) {
        for (; n_words < row->n_words; n_words++) {
            rqli_call_text(&call, "mm");
        }
        rqli_command_reset(&command);
        rqli_call_write(&call, &command, false);
        least = least > 0 ? least : command.length - 5;
        assert_memory_equal(command.data, row->count, strlen(row->count));
        assert_int_equal(command.length,
                         least + strlen(row->count) + n_words * strlen("$2\r\nmm\r\n"));
    }
}

/* So many words of a kind; one too many, or too few for the script, is our mistake. */
struct words {
    const char *name;

    enum { TEXTS, NUMBERS, WISHES, OF_A_RELEASE } kind;

    int right;
    int wrong;
};

static void add(const struct words *self, int count)
{
    static const struct rqli_acquire_args ask = {'q',       'w',       false, INT64_MIN,
                                                 INT64_MIN, INT64_MIN, 1};

    begin(self->kind == OF_A_RELEASE ? RQLI_SCRIPT_RELEASE : RQLI_SCRIPT_ACQUIRE, "a");
    for (int i = 0; i < count; i++) {
        if (self->kind == NUMBERS) {
            rqli_call_int(&call, INT64_MIN);
        } else if (self->kind == WISHES) {
            rqli_call_acquire_args(&call, &ask);
        } else {
            rqli_call_text(&call, "x");
        }
    }
    if (self->kind == OF_A_RELEASE) {
        rqli_call_write(&call, &command, false);
    }
}

static void add_wrong(const void *data)
{
    const struct words *self = data;

    add(self, self->wrong);
}

TEST(a_wrong_number_of_words_is_our_mistake)
{
    static const struct words rows[] = {
        {"too many texts", TEXTS, RQLI_CALL_ARGS_MAX, RQLI_CALL_ARGS_MAX + 1},
        {"too many numbers", NUMBERS, RQLI_CALL_NUMBERS_SIZE / 20, RQLI_CALL_NUMBERS_SIZE / 20 + 1},
        {"too many wishes", WISHES, 2, 3},
        {"too many words of a release", OF_A_RELEASE, 2, 3},
        {"too few words of a release", OF_A_RELEASE, 2, 1},
    };

    EACH_ROW (row, rows) {
        add(row, row->right);
        assert_true(aborts(add_wrong, row));
    }
}
