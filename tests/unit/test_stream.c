#include "check.h"

#include "base/clock.h"
#include "net/conn/stream.h"

enum { CALLS_MAX = 16, BYTES_MAX = 2048, WORD_MAX = 60, N_STEPS = 20000 };

static struct rqli_stream stream;
static struct rqli_in_flight calls[CALLS_MAX];

/* "*1\r\n$1\r\n<letter>\r\n": 11 bytes. */
enum { CALL_BYTES = 11 };

BEFORE_EACH(begin)
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

/* The system takes so many bytes. */
static void send_batch(size_t taken)
{
    rqli_stream_begin_write(&stream);
    (void)rqli_stream_send(&stream);
    (void)rqli_stream_on_sent(&stream, taken);
}

TEST(a_secret_is_wiped_when_it_is_sent)
{
    static const char nothing[CALL_BYTES];

    stream.has_secret = true;
    put(0, 1);
    send_batch(CALL_BYTES - 1);
    assert_int_equal(stream.sending.data[0], '*');
    assert_true(rqli_stream_on_sent(&stream, 1));
    assert_memory_equal(stream.sending.data, nothing, CALL_BYTES);
}

TEST(what_was_not_handed_to_the_system_was_not_done)
{
    for (int i = 0; i < 3; i++) {
        put(i, 1);
    }
    send_batch(2 * CALL_BYTES);
    put(3, 1);
    assert_int_equal(calls[3].begins_at, 3 * CALL_BYTES);
    assert_int_equal(rqli_stream_fate(&stream, &calls[1]), RQL_E_UNKNOWN);
    assert_int_equal(rqli_stream_fate(&stream, &calls[2]), RQL_E_IO);
}

TEST(a_server_is_given_up_when_it_is_silent_or_no_reply_ends)
{
    static const struct {
        const char *name;
        int64_t heard_us; /* with the last byte */
        bool is_whole;    /* that of a reply */
        int64_t given_up_us;
    } rows[] = {
        {"nothing", 10, false, 1010},
        {"a byte", 900, false, 1900},
        {"bytes now and then", 2900, false, 3900},
        {"and so on", 3500, false, 4010},
        {"and on", 4000, false, 4010},
        {"the end of a reply", 4005, true, 5005},
        {"bytes of another", 8000, false, 8005},
    };

    put(0, 10);
    put(1, 10);
    EACH_ROW (row, rows) {
        stream.heard_us = row->heard_us;
        if (row->is_whole) {
            rqli_stream_on_reply(&stream);
        }
        assert_int_equal(rqli_stream_silent_us(&stream, 1), row->given_up_us);
    }
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

TEST(the_pause_doubles_up_to_a_bound)
{
    EACH (row, pauses) {
        struct rqli_backoff backoff = {0};

        for (int i = 0; i < row->n_failures; i++) {
            rqli_backoff_on_failure(&backoff, 5000, 2000, row->random);
        }
        assert_int_equal(backoff.next_us, 5000 + row->pause_ms * 1000);
    }
}

TEST(who_lost_tls_waits_a_little)
{
    static const struct {
        const char *name;
        bool is_tls;
        uint32_t random;
        int64_t next_us;
    } rows[] = {
        {"in the clear", false, RQLI_BACKOFF_RANDOM - 1, 7},
        {"at once", true, 0, 5000},
        {"half", true, RQLI_BACKOFF_RANDOM / 2, 30000},
        {"longest", true, RQLI_BACKOFF_RANDOM - 1, 54999},
    };

    EACH_ROW (row, rows) {
        struct rqli_backoff backoff = {.next_us = 7};

        rqli_backoff_on_end(&backoff, row->is_tls, 5000, row->random);
        assert_int_equal(backoff.next_us, row->next_us);
    }
}

/* The same, told by one text of all that was put in since the connection was made. */
static struct model {
    char text[BYTES_MAX];
    size_t length;
    size_t batch_end;
    size_t sent;
    bool is_sending; /* the rest of the batch, and the system has not said how much it took */
    int64_t heard_us;
    size_t begins[CALLS_MAX]; /* of the calls in flight, the oldest first */
    size_t n_calls;
    size_t n_taken; /* so far, of all */
} model;

static struct rqli_in_flight *nth_call(size_t n)
{
    return &calls[(model.n_taken + n) % CALLS_MAX];
}

static void put_both(uint32_t *seed, int64_t now_us)
{
    char word[WORD_MAX + 1] = "";
    size_t length = 1 + chance_below(seed, WORD_MAX);

    memset(word, 'a' + (int)chance_below(seed, 26), length);
    model.heard_us = model.n_calls == 0 ? now_us : model.heard_us;
    model.begins[model.n_calls++] = model.length;
    model.length += (size_t)snprintf(model.text + model.length, BYTES_MAX - model.length,
                                     "*1\r\n$%zu\r\n%s\r\n", length, word);
    rqli_command_words(&stream.out, word, NULL);
    rqli_stream_expect(&stream, nth_call(model.n_calls - 1), now_us);
}

static void take_both(void)
{
    assert_ptr_equal(rqli_stream_take(&stream), nth_call(0));
    memmove(model.begins, model.begins + 1, --model.n_calls * sizeof *model.begins);
    model.n_taken++;
}

/* A batch begins or goes on, or the system says what it took. */
static void send_both(uint32_t *seed)
{
    size_t left;

    if (model.sent == model.batch_end) {
        rqli_stream_begin_write(&stream);
        model.batch_end = model.length;
    }
    left = model.batch_end - model.sent;
    if (!model.is_sending) {
        struct rqli_slice bytes = rqli_stream_send(&stream);

        assert_int_equal(bytes.length, left);
        assert_memory_equal(bytes.data, model.text + model.sent, left);
    } else {
        size_t taken = chance_below(seed, 3) ? chance_below(seed, (uint32_t)left + 1) : left;

        assert_int_equal(rqli_stream_on_sent(&stream, taken), taken == left);
        model.sent += taken;
    }
    model.is_sending = !model.is_sending;
}

static void connect_both(int64_t now_us)
{
    while (model.n_calls > 0) {
        take_both();
    }
    rqli_stream_on_connected(&stream, now_us);
    model = (struct model){.heard_us = now_us, .n_taken = model.n_taken};
}

static void compare(void)
{
    size_t known = model.is_sending ? model.batch_end : model.sent;

    assert_int_equal(rqli_stream_has_unsent(&stream), model.sent < model.batch_end);
    assert_int_equal(stream.out.length, model.length - model.batch_end);
    assert_int_equal(stream.heard_us, model.heard_us);
    assert_ptr_equal(stream.first, model.n_calls > 0 ? nth_call(0) : NULL);
    for (size_t i = 0; i < model.n_calls; i++) {
        assert_int_equal(rqli_stream_fate(&stream, nth_call(i)),
                         model.begins[i] < known ? RQL_E_UNKNOWN : RQL_E_IO);
    }
}

TEST(random_steps_end_as_in_a_model)
{
    uint32_t seed = chance_seed();

    model = (struct model){.heard_us = 1};
    for (int64_t now_us = 1; now_us < N_STEPS; now_us++) {
        uint32_t chance = chance_below(&seed, 40);

        if (chance == 0 || model.length > BYTES_MAX - 2 * WORD_MAX) {
            connect_both(now_us);
        } else if (chance < 14 && model.n_calls < CALLS_MAX) {
            put_both(&seed, now_us);
        } else if (chance < 24 && model.n_calls > 0) {
            take_both();
        } else if (model.is_sending || model.sent < model.length) {
            send_both(&seed);
        }
        compare();
    }
}
