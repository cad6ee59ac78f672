#include "check.h"

#include "base/clock.h"
#include "net/stream.h"

#include <string.h>

enum { CALLS_MAX = 6, BYTES_MAX = 128 };

static struct rqli_stream stream;
static struct rqli_stream_call calls[CALLS_MAX];

static int set_up(void **state)
{
    (void)state;
    rqli_stream_fini(&stream);
    stream = (struct rqli_stream){0};
    return 0;
}

/* "*1\r\n$1\r\n<letter>\r\n": 11 bytes. */
enum { CALL_BYTES = 11 };

static void begin(void)
{
    rqli_stream_fini(&stream);
    stream = (struct rqli_stream){0};
    assert_true(rqli_stream_reserve(&stream, CALL_BYTES)); /* as that of a loop does */
    rqli_stream_on_connected(&stream, 1);
}

static void put(int i, int64_t now_us)
{
    const char letter[] = {(char)('a' + i), '\0'};

    rqli_command_words(&stream.out, letter, NULL);
    rqli_stream_expect(&stream, &calls[i], now_us);
}

static void hand_over(size_t taken)
{
    (void)rqli_stream_send(&stream);
    (void)rqli_stream_on_sent(&stream, taken);
}

/* So many calls are put in and sent as one batch, of which the system takes so many bytes; then so
 * many more come behind it. What becomes of them when the connection breaks off then? */
/* As a row reads. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
static const struct fates {
    const char *name;
    int n_batch;
    size_t taken;
    int n_behind;
    const char *fates; /* u: unknown; n: not done */
} fates[] = {
    {"nothing was sent", 0, 0, 2, "nn"},
    {"all was sent", 3, 3 * CALL_BYTES, 0, "uuu"},
    {"the batch was sent", 2, 2 * CALL_BYTES, 2, "uunn"},
    {"the socket took nothing", 2, 0, 1, "nnn"},
    {"of the first call a byte was sent", 2, 1, 1, "unn"},
    {"of the second call all but a byte was sent", 2, 2 * CALL_BYTES - 1, 1, "uun"},
    {"the first call was sent, and nothing of the second", 2, CALL_BYTES, 0, "un"},
};

static void what_was_sent_in_part_is_unknown_and_the_rest_is_not_done(void **state)
{
    (void)state;
    for (size_t row = 0; row < sizeof fates / sizeof *fates; row++) {
        int n_calls = fates[row].n_batch + fates[row].n_behind;
        char found[CALLS_MAX + 1] = "";

        begin();
        for (int i = 0; i < n_calls; i++) {
            if (i == fates[row].n_batch) {
                rqli_stream_begin_batch(&stream);
                hand_over(fates[row].taken);
            }
            put(i, 1);
        }
        if (fates[row].n_behind == 0) {
            rqli_stream_begin_batch(&stream);
            hand_over(fates[row].taken);
        }
        for (int i = 0; stream.first; i++) {
            assert_ptr_equal(stream.first, &calls[i]);
            found[i] = rqli_stream_fate(&stream, stream.first) == RQL_E_UNKNOWN ? 'u' : 'n';
            (void)rqli_stream_take(&stream);
        }
        if (strcmp(found, fates[row].fates) != 0) {
            fail_msg("%s: %s, not %s", fates[row].name, found, fates[row].fates);
        }
    }
}

/* Another thread may be sending: what it will have handed over nobody knows yet. */
static void what_is_being_sent_is_unknown(void **state)
{
    (void)state;
    begin();
    put(0, 1);
    rqli_stream_begin_batch(&stream);
    put(1, 1);
    (void)rqli_stream_send(&stream);
    assert_int_equal(rqli_stream_fate(&stream, &calls[0]), RQL_E_UNKNOWN);
    assert_int_equal(rqli_stream_fate(&stream, &calls[1]), RQL_E_IO);
}

static void all_bytes_go_out_once_and_in_order(void **state)
{
    char sent[BYTES_MAX];
    size_t length = 0;

    (void)state;
    for (size_t step = 1; step <= 3 * CALL_BYTES; step++) {
        begin();
        length = 0;
        put(0, 1);
        put(1, 1);
        while (stream.out.length > 0 || rqli_stream_has_unsent(&stream)) {
            struct rqli_slice bytes;

            if (!rqli_stream_has_unsent(&stream)) {
                rqli_stream_begin_batch(&stream);
            }
            bytes = rqli_stream_send(&stream);
            bytes.length = bytes.length < step ? bytes.length : step;
            memcpy(sent + length, bytes.data, bytes.length);
            length += bytes.length;
            (void)rqli_stream_on_sent(&stream, bytes.length);
            if (length == bytes.length) { /* while the first are on their way */
                put(2, 1);
            }
        }
        assert_int_equal(length, 3 * CALL_BYTES);
        assert_memory_equal(sent, "*1\r\n$1\r\na\r\n*1\r\n$1\r\nb\r\n*1\r\n$1\r\nc\r\n", length);
    }
}

static void the_silence_begins_with_the_first_call_in_flight(void **state)
{
    (void)state;
    begin();
    put(0, 10);
    put(1, 20);
    assert_int_equal(stream.heard_us, 10);
    (void)rqli_stream_take(&stream);
    put(2, 30);
    assert_int_equal(stream.heard_us, 10);
    (void)rqli_stream_take(&stream);
    (void)rqli_stream_take(&stream);
    put(3, 40);
    assert_int_equal(stream.heard_us, 40);
}

static void a_new_connection_knows_nothing_of_the_old_bytes(void **state)
{
    (void)state;
    begin();
    put(0, 1);
    rqli_stream_begin_batch(&stream);
    hand_over(3);
    put(1, 1);
    (void)rqli_stream_take(&stream);
    (void)rqli_stream_take(&stream);
    rqli_stream_on_connected(&stream, 7);
    assert_false(rqli_stream_has_unsent(&stream));
    assert_int_equal(stream.out.length, 0);
    put(2, 9);
    assert_int_equal(rqli_stream_fate(&stream, &calls[2]), RQL_E_IO);
    rqli_stream_begin_batch(&stream);
    hand_over(1);
    assert_int_equal(rqli_stream_fate(&stream, &calls[2]), RQL_E_UNKNOWN);
}

static const struct pause {
    int n_failures;
    uint32_t random;
    int64_t pause_ms;
} pauses[] = {
    {1, 0, 1}, {1, RQLI_BACKOFF_RANDOM - 1, 10},   {2, RQLI_BACKOFF_RANDOM - 1, 20},
    {2, 0, 1}, {4, RQLI_BACKOFF_RANDOM / 2, 41},   {8, RQLI_BACKOFF_RANDOM - 1, 1280},
    {9, 0, 1}, {9, RQLI_BACKOFF_RANDOM - 1, 2000}, {99, RQLI_BACKOFF_RANDOM - 1, 2000},
};

static void the_pause_doubles_up_to_a_bound(void **state)
{
    (void)state;
    for (size_t row = 0; row < sizeof pauses / sizeof *pauses; row++) {
        struct rqli_backoff backoff = {0};

        for (int i = 0; i < pauses[row].n_failures; i++) {
            rqli_backoff_on_failure(&backoff, 5000, pauses[row].random);
        }
        assert_int_equal(backoff.next_us, 5000 + pauses[row].pause_ms * 1000);
    }
}

static void the_fault_says_whether_it_may_have_been_done(void **state)
{
    rql_error error;

    (void)state;
    assert_int_equal(rqli_stream_fault(RQL_E_UNKNOWN, "here", &error), RQL_E_UNKNOWN);
    assert_string_equal(error.message,
                        "here: no answer; the command may or may not have been done");
    assert_int_equal(rqli_stream_fault(RQL_E_IO, "here", &error), RQL_E_IO);
    assert_string_equal(error.message, "here: the connection broke before the command was sent");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_sent_in_part_is_unknown_and_the_rest_is_not_done),
        cmocka_unit_test(what_is_being_sent_is_unknown),
        cmocka_unit_test(all_bytes_go_out_once_and_in_order),
        cmocka_unit_test(the_silence_begins_with_the_first_call_in_flight),
        cmocka_unit_test(a_new_connection_knows_nothing_of_the_old_bytes),
        cmocka_unit_test(the_pause_doubles_up_to_a_bound),
        cmocka_unit_test(the_fault_says_whether_it_may_have_been_done),
    };

    return cmocka_run_group_tests(tests, NULL, set_up);
}
