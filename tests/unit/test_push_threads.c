#include "check.h"

#include "base/clock.h"
#include "lock/client.h"
#include "lock/client_new.h"
#include "lock/wait.h"
#include "net/conn/push_threads.h"
#include "net/conn/subscription.h"
#include "observe/stats.h"
#include "peer.h"
#include "wait.h"

#include <pthread.h>
#include <sys/resource.h>

/* Threads that wait on one subscription, whose server is the test: who reads, and who is told. */

enum { LONG_MS = 20000, AWAIT_MS = 10000, LOOK_MS = 200, GAP_MS = 2000, COUNT = 3, NOT_YET = 7 };

/* One that waits, in a thread of its own. */
struct one {
    struct rqli_acquire acquire;
    struct rqli_acquire_result result;
    char digits[33];
    char name[16];
    pthread_t thread;
    enum rqli_wake wake;
    atomic_bool is_over;
};

static struct peer_place place;
static rql_client *client;
static struct rqli_push_threads *pushes; /* its */
static struct one ones[COUNT];
static int peer;

/* What they wait for, as far as it is asked for here. */
static rql_lock awaited = {.keys = {.set = &rqli_key_sets[RQLI_WHOLE]}};
static rql_lock *const all_awaited[] = {&awaited};

static void join(struct one *self, const char *lock, bool may_be_handed)
{
    int i = (int)(self - ones);
    bool is_listening;

    (void)snprintf(self->digits, sizeof self->digits, "%032d", i);
    (void)snprintf(self->name, sizeof self->name, "acq-%d", i);
    self->acquire = (struct rqli_acquire){
        .client = client,
        .node = &client->fleet.first,
        .locks = all_awaited,
        .wait = &rqli_wait_on_thread,
        .pushes = rqli_push_threads_pushes(pushes),
        .conn = client->fleet.first.conns.each[0],
        .request = {.limits = {.deadline_us = RQLI_NEVER_US}},
        .result = &self->result,
        .waiting = {.digits = self->digits, .lock_key = rqli_slice_of(lock)},
        .waiter = {.set = awaited.keys.set,
                   .lock_key = rqli_slice_of(lock),
                   .acquirer = self->name,
                   .nonces = &self->acquire.waiting,
                   .n_nonces = 1,
                   .deadline_us = RQLI_NEVER_US,
                   .may_be_handed = may_be_handed,
                   .in_front = 1,
                   .wait_word = NOT_YET},
    };
    self->is_over = false;
    CHECK_OK(rqli_pushes_join(self->acquire.pushes, &self->acquire.waiter, &is_listening));
}

static void leave(struct one *self)
{
    rqli_pushes_leave(self->acquire.pushes, &self->acquire.waiter);
}

static void *wait_for(void *data)
{
    struct one *self = data;

    self->wake = rqli_push_threads_wait(pushes, &self->acquire.waiter, RQLI_NEVER_US);
    self->is_over = true;
    return NULL;
}

static bool has_begun(void *data)
{
    return ((struct one *)data)->acquire.waiter.wait_word != NOT_YET;
}

static bool is_over(void *data)
{
    return ((struct one *)data)->is_over;
}

/* Behind this it reads, or sleeps until it is called: it goes to sleep under the mutex that whoever
 * calls it takes. */
static void start(struct one *self)
{
    assert_int_equal(pthread_create(&self->thread, NULL, wait_for, self), 0);
    assert_true(wait_until(has_begun, self, AWAIT_MS));
}

static void await(struct one *self, enum rqli_wake wake)
{
    assert_true(wait_until(is_over, self, AWAIT_MS));
    assert_int_equal(pthread_join(self->thread, NULL), 0);
    assert_int_equal(self->wake, wake);
}

static void tell(const struct one *self)
{
    char text[128];

    (void)snprintf(text, sizeof text, "*3\r\n$7\r\nmessage\r\n$1\r\n-\r\n$37\r\n%s look\r\n",
                   self->digits);
    peer_say(peer, text);
}

/* No descriptor can be opened until the limit that this returns is set again. */
static struct rlimit use_up_descriptors(void)
{
    struct rlimit before;
    struct rlimit now;
    int lowest = dup(0);

    assert_true(lowest >= 0);
    (void)close(lowest);
    CHECK_OK(getrlimit(RLIMIT_NOFILE, &before));
    now = before;
    now.rlim_cur = (rlim_t)lowest;
    CHECK_OK(setrlimit(RLIMIT_NOFILE, &now));
    return before;
}

/* It is listened to: who has seen to that was told. Without an eventfd, if there is no descriptor
 * for one by the time of the login. */
static void begin_listening(bool has_eventfd)
{
    rql_options options;
    struct rlimit before;

    peer_listen(&place);
    rql_options_init(&options);
    options.url = place.url;
    options.connect_timeout_ms = LONG_MS;
    options.io_timeout_ms = LONG_MS;
    CHECK_OK(rqli_client_make(&client, &options, NULL));
    pushes = client->fleet.first.pushes;
    join(&ones[0], "w", false);
    start(&ones[0]);
    peer = peer_accept(&place, "");
    CHECK_OK(getrlimit(RLIMIT_NOFILE, &before));
    if (!has_eventfd) {
        before = use_up_descriptors();
    }
    peer_say(peer, PEER_LOGIN_FOR_PUSHES);
    await(&ones[0], RQLI_WAKE_HINT);
    CHECK_OK(setrlimit(RLIMIT_NOFILE, &before));
    leave(&ones[0]);
}

static void end_listening(void)
{
    client = rqli_client_free(client);
    (void)close(peer);
}

BEFORE_EACH(set_up)
{
    begin_listening(true);
}

AFTER_EACH(tear_down)
{
    end_listening();
}

TEST(a_connection_for_pushes_is_counted_once)
{
    rql_stats stats;

    if (!RQLI_LIGHT) { /* there nothing is counted */
        CHECK_OK(rqli_stats_read(client->stats, &stats));
        assert_int_equal(stats.connections, 1);
    }
}

/* The first has joined, and asks the server something just now. */
TEST(the_reading_goes_to_one_that_sleeps)
{
    join(&ones[0], "x", false);
    join(&ones[1], "x", false);
    join(&ones[2], "x", false);
    start(&ones[1]);
    start(&ones[2]);
    tell(&ones[1]);
    await(&ones[1], RQLI_WAKE_HINT);
    leave(&ones[1]);
    tell(&ones[2]);
    await(&ones[2], RQLI_WAKE_HINT);
    leave(&ones[2]);
    leave(&ones[0]);
}

/* Of another lock than the one that reads; nobody wakes it when it comes to lead. */
TEST(who_reads_tells_those_who_have_come_to_lead)
{
    static const struct {
        const char *name;
        bool may_be_handed;
    } rows[] = {{"it sleeps in recv()", false}, {"it can be woken", true}};

    EACH_ROW (row, rows) {
        join(&ones[0], "y", false);
        join(&ones[1], "y", false);
        join(&ones[2], "x", row->may_be_handed);
        start(&ones[2]);
        start(&ones[1]);
        leave(&ones[0]);
        await(&ones[1], RQLI_WAKE_HINT);
        leave(&ones[1]);
        tell(&ones[2]);
        await(&ones[2], RQLI_WAKE_HINT);
        leave(&ones[2]);
    }
}

/* Its server answers no login: an attempt lasts until the reader polls, and the next one comes as
 * much later. Returns a time well before that. */
static int64_t fail_to_listen(void)
{
    int64_t begun_us = rqli_now_us();
    rql_options options;

    peer_listen(&place);
    rql_options_init(&options);
    options.url = place.url;
    options.connect_timeout_ms = LONG_MS;
    CHECK_OK(rqli_client_make(&client, &options, NULL));
    pushes = client->fleet.first.pushes;
    join(&ones[0], "x", false);
    assert_int_equal(rqli_push_threads_wait(pushes, &ones[0].acquire.waiter,
                                            begun_us + wait_stretched(GAP_MS) * 1000),
                     RQLI_WAKE_TIME);
    return rqli_now_us() + wait_stretched(GAP_MS) * 750;
}

TEST(who_has_come_to_lead_is_told_before_there_is_a_connection)
{
    int64_t next_us;

    end_listening();
    next_us = fail_to_listen();
    join(&ones[1], "x", false);
    start(&ones[1]);
    leave(&ones[0]);
    await(&ones[1], RQLI_WAKE_HINT);
    assert_true(rqli_now_us() < next_us);
    leave(&ones[1]);
    peer_leave(&place);
    client = rqli_client_free(client);
    begin_listening(true);
}

static bool is_chosen(void *data)
{
    return rqli_pushes_choose(rqli_push_threads_pushes(pushes), rqli_slice_of("x"), 1) == data;
}

/* By hand: what is handed over is not looked at here. */
TEST(who_reads_is_woken_when_it_is_handed_the_lock)
{
    static const struct {
        const char *name;
        bool is_given;
        enum rqli_wake wake;
    } rows[] = {{"it has it", true, RQLI_WAKE_PUSH}, {"it is passed by", false, RQLI_WAKE_HINT}};

    EACH_ROW (row, rows) {
        join(&ones[0], "x", true);
        start(&ones[0]);
        assert_true(wait_until(is_chosen, &ones[0].acquire.waiter, AWAIT_MS));
        rqli_pushes_hand_over(ones[0].acquire.pushes, &ones[0].acquire.waiter,
                              row->is_given ? (struct rqli_transfer *)&place : NULL);
        await(&ones[0], row->wake);
        leave(&ones[0]);
    }
}

static bool is_past(void *data)
{
    return rqli_now_us() > *(const int64_t *)data;
}

/* The reader goes while the other is about to be handed the lock. If that began to read it would
 * look around once, and then sleep in recv(), alone. */
TEST(a_waiter_that_is_chosen_does_not_read)
{
    static const struct {
        const char *name;
        bool is_given;
        enum rqli_wake wake;
    } rows[] = {{"it has it", true, RQLI_WAKE_PUSH}, {"it is passed by", false, RQLI_WAKE_HINT}};

    end_listening();
    begin_listening(false);
    EACH_ROW (row, rows) {
        int64_t long_after_us;

        join(&ones[0], "y", false);
        join(&ones[1], "x", true);
        start(&ones[0]);
        start(&ones[1]);
        assert_true(wait_until(is_chosen, &ones[1].acquire.waiter, AWAIT_MS));
        tell(&ones[0]);
        await(&ones[0], RQLI_WAKE_HINT);
        leave(&ones[0]);
        long_after_us = rqli_now_us() + 2 * INT64_C(1000) * LOOK_MS;
        assert_true(wait_until(is_past, &long_after_us, AWAIT_MS));
        rqli_pushes_hand_over(ones[1].acquire.pushes, &ones[1].acquire.waiter,
                              row->is_given ? (struct rqli_transfer *)&place : NULL);
        await(&ones[1], row->wake);
        leave(&ones[1]);
    }
}

/* It has a message sent to all who listen, as it cannot be called in recv(). */
TEST(who_reads_is_woken_when_it_is_to_ask)
{
    int commands = peer_of(client->fleet.first.conns.each[0]);
    char said[PEER_TEXT] = "";

    join(&ones[0], "x", false);
    join(&ones[1], "x", false);
    start(&ones[1]);
    peer_say(commands, ":1\r\n");
    rqli_wait_hint_others(&ones[0].acquire);
    assert_int_equal(peer_hear(commands, said), 1);
    assert_non_null(strstr(said, "PUBLISH"));
    peer_say(peer, "*3\r\n$7\r\nmessage\r\n$1\r\n-\r\n$5\r\nhello\r\n");
    await(&ones[1], RQLI_WAKE_HINT);
    leave(&ones[1]);
    leave(&ones[0]);
    (void)close(commands);
}

/* A notice of the next change of a lock of Ruby's is asked for, and whose it is. */
TEST(a_lock_that_was_free_before_it_was_watched_is_noticed)
{
    static const struct {
        const char *name;
        uint64_t generation;
        size_t n_commands;
        const char *replies;
        bool is_free;
    } rows[] = {
        {"it is held", 1, 3, "+OK\r\n+OK\r\n$4\r\nruby\r\n", false},
        {"it is free", 1, 2, "+OK\r\n$-1\r\n", true},
        {"free, on another connection", 2, 3, "+OK\r\n+OK\r\n$-1\r\n", true},
        {"there is no right to it", 2, 2, "-NOPERM\r\n$-1\r\n", true},
    };

    const struct rqli_push_view around = {.is_listening = true, .generation = 1, .client_id = 7};
    int commands = peer_of(client->fleet.first.conns.each[0]);

    join(&ones[0], "x", false);
    ones[0].acquire.watched = rqli_slice_of("rql:lock:x");
    EACH_ROW (row, rows) {
        peer_say(commands, row->replies);
        assert_int_equal(rqli_tracking_arm(&ones[0].acquire, row->generation, &around),
                         row->is_free);
        assert_int_equal(peer_hear(commands, NULL), row->n_commands);
    }
    leave(&ones[0]);
    (void)close(commands);
}
