#include "check.h"

#include "connected.h"
#include "threads.h"

#include <dlfcn.h>
#include <errno.h>

/* Callers of one command connection, whose server is the test: who reads, who writes, and what is
 * left of those who go. */

enum { BRIEF_MS = 5, MUCH = 1 << 20, CALLERS_MAX = 32 };

static struct rqli_batch *ping(void)
{
    struct rqli_batch *batch = rqli_batch_take(conn);

    assert_non_null(batch);
    rqli_command_words(&batch->command, "PING", NULL);
    return batch;
}

static struct rqli_batch *put(void)
{
    struct rqli_batch *batch = ping();

    CHECK_OK(rqli_batch_put(batch, 1, NULL));
    return batch;
}

/* What is called to read is found by nobody if it gets its result first. */
static const struct called {
    const char *name;
    int32_t before;
    int32_t word;
    bool reads; /* as before */
    size_t n_woken;
} called[] = {
    {"one that sleeps gets its result", ASLEEP, FINISHED, true, 1},
    {"one that sleeps shall read", ASLEEP, READER, true, 1},
    {"one on its way shall read", AWAKE, READER, true, 0},
    {"one that was to read gets its result", READER, FINISHED, false, 0},
};

TEST(who_gets_its_result_before_it_has_begun_to_read_is_no_reader)
{
    EACH_ROW (row, called) {
        struct batch *one = (struct batch *)put();

        conn->shared.reader = one;
        one->wait_word = row->before;
        rqli_conn_call_owner(conn, one, row->word);
        assert_int_equal(one->wait_word, row->word);
        assert_ptr_equal(conn->shared.reader, row->reads ? one : NULL);
        assert_int_equal(conn->shared.wake_list.count, row->n_woken);
        conn->shared.wake_list.count = 0;
    }
    conn->shared.reader = NULL;
}

/* The socket of one that is broken is closed only when nobody reads any more. */
static const struct drop {
    const char *name;
    uint64_t generation;
    enum state state;
} drops[] = {
    {"the one before", 0, UP},
    {"one that does not exist", 2, UP},
    {"this one", 1, DOWN},
};

TEST(a_fault_ends_the_connection_that_had_it)
{
    struct batch *first = (struct batch *)put();

    site.tls = (void *)where; /* the next one is to come a little later */
    EACH_ROW (row, drops) {
        first->wait_word = READER; /* called by one who has left */
        conn->shared.reader = first;
        first->visible.generation = row->generation;
        first->visible.drop(&first->visible);
        assert_int_equal(conn->shared.state, row->state);
        assert_int_equal(conn->shared.stream.backoff.next_us > 0, row->state == DOWN);
    }
    rqli_batch_give(&first->visible);
}

/* It is asked what has ended; each end is to be answered once. */
TEST(an_end_is_reported_once_whatever_has_seen_it)
{
    struct rqli_batch *batch = put();

    assert_false(rqli_conn_end_if_ended(conn));
    batch->drop(batch); /* a call has seen it */
    assert_int_equal(conn->shared.predecessor.client_id, conn->sock.seat.client_id);
    assert_true(rqli_conn_end_if_ended(conn));
    assert_false(rqli_conn_end_if_ended(conn));
    rqli_batch_give(batch);
}

TEST(the_end_of_an_unused_connection_is_none_of_the_server)
{
    conn->shared.stream.heard_us = 0;
    rqli_conn_end_if_unused(conn, 1);
    assert_int_equal(conn->shared.state, DOWN);
    assert_false(rqli_conn_end_if_ended(conn));
}

TEST(the_clock_of_a_server_is_known_when_it_was_read)
{
    struct rqli_clock_reading reading;

    assert_false(rqli_conn_clock(conn, &reading));
    conn->shared.reading.received_us = 7;
    assert_true(rqli_conn_clock(conn, &reading));
    assert_int_equal(reading.received_us, 7);
}

TEST(what_was_left_is_used_again_when_its_reply_is_there)
{
    struct rqli_batch *left = put();
    struct rqli_batch *next;

    leave(left);
    rqli_batch_give(left);
    next = ping();
    assert_ptr_not_equal(next, left);
    peer_say(peer, "+FIRST\r\n+SECOND\r\n");
    CHECK_OK(rqli_conn_run(next, in_time(), NULL));
    assert_true(rqli_reply_says(next->reply, "SECOND"));
    assert_ptr_equal(ping(), left);
    rqli_batch_give(left);
    rqli_batch_give(next);
}

/* So many commands are sent, and their callers wait; then so many more come, one of whom looks
 * whether they may be sent by now, while nothing is answered. */
static const struct writes {
    const char *name;
    size_t n_first;
    size_t n_more;
    bool is_far;
    size_t n_heard; /* of those */
} writes[] = {
    {"a few never wait", 4, 4, false, 4},
    {"what is less than half of many waits", 12, 9, false, 0},
    {"what is half of many does not", 12, 10, false, 10},
    {"where answers take long nobody waits", 12, 9, true, 9},
};

TEST(of_many_a_second_write_is_sent_when_it_is_as_large_as_that_of_half)
{
    EACH_ROW (row, writes) {
        tear_down();
        set_up();
        for (size_t i = 1; i < row->n_first; i++) {
            (void)put();
        }
        leave(put());
        assert_int_equal(peer_hear(peer, NULL), row->n_first);
        conn->shared.is_far = row->is_far;
        for (size_t i = 1; i < row->n_more; i++) {
            (void)put();
        }
        leave(put());
        assert_int_equal(peer_hear(peer, NULL), row->n_heard);
    }
}

/* It can be the answer to nothing, and the next ones would go to others. */
TEST(a_reply_to_what_was_not_sent_ends_the_connection)
{
    enum { SENT = 12 };
    struct rqli_batch *all[SENT + 1];

    for (size_t i = 0; i < SENT; i++) {
        all[i] = put();
    }
    leave(all[0]);
    assert_int_equal(peer_hear(peer, NULL), SENT);
    all[SENT] = put();
    conn->shared.writing = true; /* another thread is about to */
    for (size_t i = 0; i <= SENT; i++) {
        peer_say(peer, "+OK\r\n");
    }
    CHECK_OK(rqli_batch_await(all[1], in_time(), NULL)); /* who is to read now */
    assert_int_equal(conn->shared.state, BROKEN);
    conn->shared.writing = false;
    assert_int_equal(rqli_batch_await(all[SENT], in_time(), NULL), RQL_E_IO);
    for (size_t i = 0; i <= SENT; i++) {
        CHECK_OK(i < SENT ? rqli_batch_await(all[i], in_time(), NULL) : RQL_OK);
        rqli_batch_give(all[i]);
    }
}

/* Of a write the first and the third want replicas, and the second nothing: one question is behind
 * all of them, and is answered behind all replies. */
static const struct rqli_durability wanted = {.replicas = 1, .timeout_ms = 100};

static void put_three(struct rqli_batch *three[3])
{
    for (size_t i = 0; i < 3; i++) {
        three[i] = ping();
        three[i]->durability = i == 1 ? NULL : &wanted;
        CHECK_OK(rqli_batch_put(three[i], 1, NULL));
    }
    leave(three[2]);
    assert_int_equal(peer_hear(peer, NULL), 4);
}

TEST(what_is_to_be_safe_is_answered_when_it_is)
{
    struct rqli_batch *three[3];

    put_three(three);
    peer_say(peer, "+FIRST\r\n+SECOND\r\n+THIRD\r\n");
    leave(three[0]); /* who is to read now */
    CHECK_OK(rqli_batch_await(three[1], in_time(), NULL));
    peer_say(peer, ":1\r\n");
    for (size_t i = 0; i < 3; i += 2) {
        CHECK_OK(rqli_batch_await(three[i], in_time(), NULL));
        assert_int_equal(three[i]->acks.replicas, 1);
    }
    assert_true(rqli_reply_says(three[0]->reply, "FIRST"));
    assert_int_equal(three[1]->acks.replicas, 0);
    for (size_t i = 0; i < 3; i++) {
        rqli_batch_give(three[i]);
    }
}

TEST(nobody_knows_how_safe_it_is_if_that_has_no_answer)
{
    struct rqli_batch *three[3];

    put_three(three);
    rqli_batch_give(three[2]); /* its caller has gone; it is still what the question is behind */
    peer_say(peer, "+FIRST\r\n+SECOND\r\n+THIRD\r\n");
    (void)shutdown(peer, SHUT_RDWR);
    assert_int_equal(rqli_batch_await(three[0], in_time(), NULL), RQL_E_UNKNOWN);
    CHECK_OK(rqli_batch_await(three[1], in_time(), NULL));
    rqli_batch_give(three[0]);
    rqli_batch_give(three[1]);
}

TEST(those_who_have_left_keep_nobody_waiting)
{
    for (size_t i = 0; i < CALLERS_MAX; i++) {
        leave(put());
        assert_int_equal(peer_hear(peer, NULL), 1);
    }
}

/* Reads all of it, and answers. Its caller has ten seconds: who looks for room ten times a second
 * needs many times that. */
static void read_much(size_t index, void *data)
{
    char text[PEER_TEXT];
    size_t length = *(const size_t *)data;
    ssize_t got = 1;

    (void)index;
    while (length > 0 && got > 0) {
        got = recv(peer, text, sizeof text, 0);
        length -= (size_t)got;
    }
    (void)!write(peer, "+OK\r\n", 5);
}

TEST(what_a_full_socket_did_not_take_is_sent_as_soon_as_there_is_room)
{
    const int least = 1;
    char *text = calloc(1, MUCH);
    struct rqli_batch *batch = rqli_batch_take(conn);
    struct threads *reader;
    rql_status status;

    assert_non_null(text);
    memset(text, 'x', MUCH - 1);
    assert_int_equal(setsockopt(conn->sock.fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof least), 0);
    rqli_command_words(&batch->command, "ECHO", text, NULL);
    reader = threads_start(1, read_much, &batch->command.length);
    status = rqli_conn_run(batch, in_time(), NULL);
    (void)shutdown(conn->sock.fd, SHUT_RDWR);
    threads_join(reader);
    rqli_batch_give(batch);
    free(text);
    CHECK_OK(status);
}

/* This process stands still behind the next read that finds nothing, and meanwhile it comes. */
static const char *comes_meanwhile;

/* Takes the place of the C library's for the whole program. */
ssize_t recv(int fd, void *buf, size_t n, int flags)
{
    ssize_t (*real)(int, void *, size_t, int);
    void *symbol = dlsym(RTLD_NEXT, "recv");
    int64_t until_us;
    ssize_t got;

    memcpy(&real, &symbol, sizeof real);
    got = real(fd, buf, n, flags);
    if (got < 0 && fd != peer && comes_meanwhile) {
        until_us = rqli_after_ms(rqli_now_us(), 2 * BRIEF_MS);
        peer_say(peer, comes_meanwhile);
        comes_meanwhile = NULL;
        while (rqli_now_us() < until_us) {
        }
        errno = EAGAIN;
    }
    return got;
}

TEST(who_stood_still_itself_does_not_take_the_server_for_silent)
{
    struct rqli_batch *batch = ping();

    session.io_timeout_ms = BRIEF_MS;
    comes_meanwhile = "+PONG\r\n";
    CHECK_OK(rqli_conn_run(batch, in_time(), NULL));
    assert_null(comes_meanwhile);
    rqli_batch_give(batch);
}

/* The socket is full of what another has asked, and the connection ends. */
TEST(what_was_not_sent_says_so)
{
    static char much[MUCH];
    struct rqli_batch *first = rqli_batch_take(conn);
    struct rqli_batch *second = ping();
    rql_error error;

    memset(much, 'x', sizeof much - 1);
    rqli_command_words(&first->command, "ECHO", much, NULL);
    CHECK_OK(rqli_batch_send(first, 0, NULL));
    assert_int_equal(shutdown(peer, SHUT_RD), 0);
    memset(&error, 'x', sizeof error);
    assert_int_equal(rqli_batch_send(second, 0, &error), RQL_E_IO);
    assert_int_equal(error.status, RQL_E_IO);
    assert_string_equal(error.message, "here: the connection broke before the command was sent");
    rqli_batch_give(second);
    rqli_batch_give(first);
}
