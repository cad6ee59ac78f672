#include "check.h"

#include "connected.h"

/* Hand-overs that become part of the one in front of them while that is not sent yet: what the
 * server hears, and who gets what it says. */

enum { STEPS_MAX = 5, WORD_BYTES = 8 };

/* What is put in the stream: a hand-over by `giver` of what it got from `before`, '-': from nobody
 * here; or, with neither, a PING. */
struct step {
    char giver;
    char before;
};

static const char letters[] = "abcdefgh";

static const void *told_by(char giver)
{
    return giver == '-' ? NULL : strchr(letters, giver);
}

/* GO, a word of the first one alone, one that stays, and one of the last one alone. */
static void write_hand_over(struct rqli_exchange *exchange, const struct step *step)
{
    const char first[] = {step->giver, '1', '\0'};
    const char kept[] = {step->giver, '2', '\0'};
    const char last[] = {step->giver, '3', '\0'};

    rqli_command_words(&exchange->command, "GO", first, kept, last, NULL);
    exchange->joint = (struct rqli_joint){
        .tells = told_by(step->giver),
        .behind = told_by(step->before),
        .tail_bytes = 2 * WORD_BYTES,
        .n_tail = 2,
        .last_bytes = WORD_BYTES,
        .n_last = 1,
    };
}

static struct rqli_exchange *put(const struct step *step)
{
    struct rqli_exchange *exchange = rqli_exchange_take(conn);

    assert_non_null(exchange);
    if (step->before) {
        write_hand_over(exchange, step);
    } else {
        rqli_command_words(&exchange->command, "PING", NULL);
    }
    CHECK_OK(rqli_exchange_put(exchange, 1, NULL));
    return exchange;
}

#define WORD "\r\n$2\r\n"
#define ALONE(who) "*4" WORD "GO" WORD who "1" WORD who "2" WORD who "3\r\n"
#define PING "*1\r\n$4\r\nPING\r\n"

/* All are put, then sent. */
static const struct row {
    const char *name;
    struct step steps[STEPS_MAX];
    const char *heard;
    const char *replies; /* the number of that which each gets */
} rows[] = {
    {"one alone", {{'a', '-'}}, ALONE("a"), "1"},
    {"each behind the one before",
     {{'a', '-'}, {'b', 'a'}, {'c', 'b'}},
     "*6" WORD "GO" WORD "a1" WORD "a2" WORD "b2" WORD "c2" WORD "c3\r\n",
     "111"},
    {"one with others around it",
     {{0, 0}, {'a', '-'}, {0, 0}, {'b', 'a'}, {0, 0}},
     PING "*5" WORD "GO" WORD "a1" WORD "a2" WORD "b2" WORD "b3\r\n" PING PING,
     "12324"},
    {"one behind another than is there", {{'a', '-'}, {'b', 'c'}}, ALONE("a") ALONE("b"), "12"},
    {"one that nobody has handed the lock to",
     {{'a', '-'}, {'b', '-'}},
     ALONE("a") ALONE("b"),
     "12"},
    {"one behind that in front of another",
     {{'a', '-'}, {'b', '-'}, {'c', 'a'}},
     ALONE("a") ALONE("b") ALONE("c"),
     "123"},
    {"two one behind the other, each by two",
     {{'a', '-'}, {'b', 'a'}, {'c', '-'}, {'d', 'c'}},
     "*5" WORD "GO" WORD "a1" WORD "a2" WORD "b2" WORD "b3\r\n"
     "*5" WORD "GO" WORD "c1" WORD "c2" WORD "d2" WORD "d3\r\n",
     "1122"},
};

static size_t put_all(const struct row *row, struct rqli_exchange *all[STEPS_MAX])
{
    size_t count = strlen(row->replies);

    for (size_t i = 0; i < count; i++) {
        all[i] = put(&row->steps[i]);
    }
    return count;
}

static void answer_all(const char *replies)
{
    int last = 0;

    for (const char *at = replies; *at; at++) {
        last = *at - '0' > last ? *at - '0' : last;
    }
    for (int number = 1; number <= last; number++) {
        char text[24];

        (void)snprintf(text, sizeof text, "$1\r\n%d\r\n", number);
        peer_say(peer, text);
    }
}

/* The last of them sends for all, and is away until the server has answered. */
TEST(what_stands_behind_an_unsent_hand_over_becomes_part_of_it)
{
    EACH_ROW (row, rows) {
        struct rqli_exchange *all[STEPS_MAX] = {NULL};
        char heard[PEER_TEXT] = "";
        size_t count;

        tear_down();
        set_up();
        count = put_all(row, all);
        leave(all[count - 1]);
        (void)peer_hear(peer, heard);
        assert_string_equal(heard, row->heard);
        answer_all(row->replies);
        for (size_t i = 0; i < count; i++) {
            const char reply[] = {row->replies[i], '\0'};

            CHECK_OK(rqli_exchange_await(all[i], in_time(), NULL));
            assert_true(rqli_reply_is(all[i]->reply, reply));
            rqli_exchange_give(all[i]);
        }
    }
}

/* Nor would more words of it find room. */
TEST(what_is_in_front_of_a_call_that_is_to_be_safe_stays_as_it_is)
{
    static const struct rqli_durability wanted = {.replicas = 1, .timeout_ms = 100};
    char heard[PEER_TEXT] = "";
    struct rqli_exchange *safe = rqli_exchange_take(conn);

    (void)put(&rows[1].steps[0]);
    rqli_command_words(&safe->command, "SET", NULL);
    safe->durability = &wanted;
    CHECK_OK(rqli_exchange_put(safe, 1, NULL));
    leave(put(&rows[1].steps[1]));
    (void)peer_hear(peer, heard);
    assert_int_equal(strncmp(heard, ALONE("a"), sizeof ALONE("a") - 1), 0);
    assert_non_null(strstr(heard, ALONE("b")));
}

/* The count of words in front gets longer, too. */
TEST(a_long_run_is_one_command)
{
    enum { RUN = 100 };

    static const char places[RUN + 1];
    char wanted[PEER_TEXT] = "*103" WORD "GO" WORD "a1";
    char heard[PEER_TEXT] = "";

    for (size_t i = 0; i < RUN; i++) {
        struct rqli_exchange *exchange = rqli_exchange_take(conn);

        write_hand_over(exchange, &(struct step){'a', '-'});
        exchange->joint.behind = &places[i];
        exchange->joint.tells = &places[i + 1];
        CHECK_OK(rqli_exchange_put(exchange, 1, NULL));
        (void)strcat(wanted, WORD "a2");
        if (i == RUN - 1) {
            leave(exchange);
        }
    }
    (void)strcat(wanted, WORD "a3\r\n");
    (void)peer_hear(peer, heard);
    assert_string_equal(heard, wanted);
}

/* What stands in front is on its way, or lost with its connection. */
static const struct behind {
    const char *name;
    bool is_lost;
} behind[] = {{"what was sent", false}, {"what was lost", true}};

TEST(what_stands_behind_no_unsent_hand_over_is_a_command)
{
    EACH_ROW (row, behind) {
        struct rqli_exchange *first;
        char heard[PEER_TEXT] = "";

        tear_down();
        set_up();
        first = put(&(struct step){'a', '-'});
        if (row->is_lost) {
            rqli_conn_drop(conn, 1);
            (void)close(peer);
            peer = peer_of(conn);
        } else {
            leave(first);
            assert_int_equal(peer_hear(peer, NULL), 1);
        }
        leave(put(&(struct step){'b', 'a'}));
        (void)peer_hear(peer, heard);
        assert_string_equal(heard, ALONE("b"));
        rqli_exchange_give(first);
    }
}

/* The first has gone, who would have read for all. */
TEST(one_that_is_part_of_another_reads_if_nobody_else_does)
{
    struct rqli_exchange *all[STEPS_MAX] = {NULL};

    (void)put_all(&rows[1], all);
    leave(all[0]);
    rqli_exchange_give(all[0]);
    leave(all[1]);
    assert_ptr_equal(conn->shared.reader, all[2]);
    peer_say(peer, "-ERR no\r\n");
    CHECK_OK(rqli_exchange_await(all[2], in_time(), NULL));
    assert_int_equal(all[2]->reply->type, RQLI_REPLY_ERROR);
    assert_true(rqli_reply_says(all[2]->reply, "ERR no"));
    CHECK_OK(rqli_exchange_await(all[1], in_time(), NULL));
    assert_int_equal(conn->shared.callers, 0);
    rqli_exchange_give(all[1]);
    rqli_exchange_give(all[2]);
}

/* What they have left is used again; and goes with the connection where it is in flight. */
TEST(those_who_have_left_keep_nothing)
{
    struct rqli_exchange *all[STEPS_MAX] = {NULL};

    for (int i = 0; i < 2; i++) {
        (void)put_all(&rows[1], all);
        for (size_t k = 0; k < 3; k++) {
            leave(all[k]);
            rqli_exchange_give(all[k]);
        }
        if (i == 0) {
            struct rqli_exchange *next = put(&(struct step){0});

            peer_say(peer, "$1\r\n1\r\n$1\r\n2\r\n");
            CHECK_OK(rqli_exchange_await(next, in_time(), NULL));
            assert_true(rqli_reply_is(next->reply, "2"));
            rqli_exchange_give(next);
        }
    }
}
