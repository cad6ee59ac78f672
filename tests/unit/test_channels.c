#include "check.h"

#include "base/clock.h"
#include "net/conn/push_loop.h"
#include "net/conn/push_threads.h"
#include "net/conn/subscription.h"
#include "net/sock/site.h"
#include "peer.h"
#include "reply_tree.h"
#include "wait.h"

#include <pthread.h>
#include <uv.h>

/* Channels of partitions, of which a node of a cluster has some: when they are asked for, and who
 * polls. First what is the same for all, then a thread and a loop, whose node is the test. */

enum { COUNT = 4, LONG_MS = 20000, AWAIT_MS = 10000, SECOND_US = 1000000 };

#define DIGITS "0123456789abcdef0123456789abcde"
#define OF_0 "rql:{00axj}:wake:me"
#define OF_1 "rql:{01obf}:wake:me"
#define OF_2 "rql:{02alu}:wake:me"
#define ASKED(channel) "*2\r\n$10\r\nSSUBSCRIBE\r\n$19\r\n" channel "\r\n"
#define CONFIRMED(channel) "*3\r\n$10\r\nssubscribe\r\n$19\r\n" channel "\r\n:1\r\n"
#define TAKEN(channel) "*3\r\n$12\r\nsunsubscribe\r\n$19\r\n" channel "\r\n:0\r\n"
#define HELLO(channel) "*3\r\n$8\r\nsmessage\r\n$19\r\n" channel "\r\n$5\r\nhello\r\n"
#define MOVED "-MOVED 64 127.0.0.1:7001\r\n"
#define LOGIN "*6\r\n" PEER_ID PEER_MODE(7, "cluster") PEER_ROLE(6, "master") PEER_TIME

static struct rqli_session session;
static struct rqli_url url;
static struct rqli_site site;
static struct rqli_subscription subscription;
static struct rqli_command command;
static struct peer_place place;
static int peer; /* -1: nobody has come */

/* The first two wait in partition 0, the others in 1 and 2, of which the node has 0 and 1. */
static const unsigned partition_of[COUNT] = {0, 0, 1, 2};
static struct rqli_waiter waiter[COUNT];
static struct rqli_waiter_nonce nonces[COUNT];
static bool was_roused[COUNT];
static char digits[COUNT][RQLI_HEX_SIZE];
static const char *const names[COUNT] = {"a", "a", "b", "c"};
static const char *const acquirers[COUNT] = {"0", "1", "2", "3"};

static void rouse(struct rqli_waiters *waiters, struct rqli_waiter *one)
{
    (void)waiters;
    was_roused[one - waiter] = true;
}

static void init_waiter(size_t i)
{
    (void)snprintf(digits[i], sizeof digits[i], DIGITS "%zu", i);
    nonces[i] =
        (struct rqli_waiter_nonce){.digits = digits[i], .lock_key = rqli_slice_of(names[i])};
    waiter[i] = (struct rqli_waiter){.set = &rqli_key_sets[partition_of[i]],
                                     .lock_key = rqli_slice_of(names[i]),
                                     .acquirer = acquirers[i],
                                     .nonces = &nonces[i],
                                     .n_nonces = 1,
                                     .deadline_us = RQLI_NEVER_US};
}

BEFORE_EACH(set_up)
{
    peer = -1;
    peer_listen(&place);
    CHECK_OK(rqli_url_parse(&url, place.url, NULL));
    session.url = &url;
    CHECK_OK(rqli_site_init_first(&site, &session, NULL));
    url.arrangement = RQLI_CLUSTER;
    session.connect_timeout_ms = LONG_MS;
    session.io_timeout_ms = LONG_MS;
    session.identity = "me";
    session.stats = rqli_stats_new();
    rqli_site_carry(&site, 0, true);
    rqli_site_carry(&site, 1, true);
    subscription = (struct rqli_subscription){.waiters = {.rouse = rouse}};
    memset(was_roused, 0, sizeof was_roused);
    for (size_t i = 0; i < COUNT; i++) {
        init_waiter(i);
    }
}

AFTER_EACH(tear_down)
{
    if (peer < 0) {
        peer_leave(&place);
    }
    (void)close(peer);
    rqli_waiters_fini(&subscription.waiters);
    rqli_stats_free(session.stats);
    rqli_command_fini(&command);
    rqli_site_fini(&site);
    rqli_url_fini(&url);
}

/* ---- what is the same for all ---- */

static void open_it(void)
{
    const struct rqli_socket sock = {.site = &site};

    rqli_subscription_on_opened(&subscription, &sock);
}

static const char *what_it_writes(void)
{
    rqli_command_reset(&command);
    rqli_subscription_write(&subscription, &site, &command);
    return text_of(&command);
}

static void take(struct rqli_reply reply)
{
    rqli_subscription_take(&subscription, &site, 0, &reply, 2 * SECOND_US);
}

static void take_three(const char *kind, const char *channel, const char *text)
{
    take(TREE(tree_text(kind), tree_text(channel), tree_text(text)));
}

static void join_all(void)
{
    for (size_t i = 0; i < COUNT; i++) {
        CHECK_OK(rqli_waiters_join(&subscription.waiters, &waiter[i]));
    }
}

/* Since it was last asked: "1100", the first two. */
static void check_roused(const char *expected)
{
    char roused[COUNT + 1] = "";

    for (size_t i = 0; i < COUNT; i++) {
        roused[i] = was_roused[i] ? '1' : '0';
        was_roused[i] = false;
    }
    assert_string_equal(roused, expected);
}

static bool wants(size_t i)
{
    return rqli_subscription_want(&subscription, waiter[i].set);
}

TEST(a_channel_is_asked_for_once_on_each_connection)
{
    assert_true(wants(0));
    assert_true(wants(1));
    assert_true(wants(2));
    open_it();
    assert_string_equal(what_it_writes(), ASKED(OF_0) ASKED(OF_1));
    assert_false(wants(0));
    assert_string_equal(what_it_writes(), "");
    open_it();
    assert_true(wants(0));
    assert_string_equal(what_it_writes(), ASKED(OF_0) ASKED(OF_1));
}

/* What the node has not by the map is not asked for when it is opened, but when somebody has polled
 * there. */
TEST(channels_of_other_nodes_are_not_asked_for)
{
    (void)wants(0);
    (void)wants(3);
    open_it();
    assert_string_equal(what_it_writes(), ASKED(OF_0));
    assert_true(wants(3));
    assert_string_equal(what_it_writes(), ASKED(OF_2));
}

TEST(what_was_refused_is_asked_for_behind_the_next_poll)
{
    (void)wants(0);
    (void)wants(2);
    open_it();
    (void)what_it_writes();
    take_three("ssubscribe", OF_1, "");
    take(tree_error("MOVED 64 127.0.0.1:7001"));
    assert_string_equal(what_it_writes(), ASKED(OF_0));
    assert_false(wants(2));
    take(tree_error("MOVED 64 127.0.0.1:7001"));
    assert_true(wants(0));
}

static bool is_refused(void)
{
    return rqli_subscription_view(&subscription, true, &waiter[0]).is_refused;
}

TEST(it_is_known_whether_the_last_attempt_to_listen_has_failed)
{
    assert_false(is_refused());
    rqli_subscription_on_failed(&subscription);
    assert_true(is_refused());
    open_it();
    assert_false(is_refused());
    (void)wants(0);
    (void)what_it_writes();
    take(tree_error("NOPERM this user has no permissions to access one of the channels"));
    assert_true(is_refused());
    take_three("ssubscribe", OF_0, "");
    assert_false(is_refused());
}

/* All of them, each time: a hand-over may have removed any of them, and a push may have been lost.
 */
TEST(who_waits_for_a_partition_is_told_when_its_channel_is_there_and_what_it_brings)
{
    static const struct {
        const char *name, *kind, *text, *roused;
        bool delivers;
    } rows[] = {
        {"the channel is there", "ssubscribe", "", "1100", false},
        {"a message for nobody", "smessage", "hello", "0000", true},
        {"a grant", "smessage", DIGITS "1 77 5 1000", "0100", true},
    };

    rql_stats stats;

    join_all();
    open_it();
    check_roused("0000");
    EACH_ROW (row, rows) {
        take_three(row->kind, OF_0, row->text);
        check_roused(row->roused);
        for (size_t i = 0; i < COUNT; i++) {
            struct rqli_push_view view = rqli_subscription_view(&subscription, true, &waiter[i]);

            CHECK_ALL(EQ(view.is_listening, i < 2), EQ(view.delivers, i < 2 && row->delivers));
            assert_false(view.is_refused);
        }
        assert_false(rqli_subscription_view(&subscription, false, &waiter[0]).is_listening);
    }
    CHECK_ALL(EQ(waiter[1].pushed, true), EQ(waiter[1].push.token, 77));
    if (!RQLI_LIGHT) { /* there nothing is counted */
        CHECK_OK(rqli_stats_read(session.stats, &stats));
        assert_int_equal(stats.pushes, 1);
    }
    open_it();
    assert_false(rqli_subscription_view(&subscription, true, &waiter[0]).is_listening);
    check_roused("0000");
    take_three("ssubscribe", OF_0, "");
    check_roused("1100");
}

/* By the server, or by an answer to somebody's call. */
TEST(who_waits_for_a_partition_polls_when_it_has_gone)
{
    static const struct {
        const char *name;
        bool is_pushed;
    } rows[] = {{"pushed", true}, {"answered", false}};

    join_all();
    EACH_ROW (row, rows) {
        (void)wants(0);
        take_three("ssubscribe", OF_0, "");
        check_roused("1100");
        for (int again = 0; again < 2; again++) {
            if (row->is_pushed) {
                take_three("sunsubscribe", OF_0, "");
            } else {
                rqli_subscription_forget(&subscription, waiter[0].set);
            }
            check_roused(again ? "0000" : "1100");
        }
        assert_false(rqli_subscription_hears(&subscription, &waiter[0]));
        assert_string_equal(what_it_writes(), "");
        assert_true(wants(0));
    }
}

TEST(one_that_answers_nothing_is_given_up)
{
    const struct {
        const char *name;
        struct rqli_reply answer; /* nil: none */
        bool is_silent;
    } rows[] = {
        {"nothing", tree_nil(), true},
        {"refused", tree_error("MOVED 64 127.0.0.1:7001"), false},
        {"confirmed", TREE(tree_text("ssubscribe"), tree_text(OF_0), tree_int(1)), false},
    };

    EACH_ROW (row, rows) {
        int64_t now_us = rqli_now_us();

        (void)wants(0);
        open_it();
        (void)what_it_writes();
        assert_false(rqli_subscription_is_silent(&subscription, now_us));
        if (row->answer.type != RQLI_REPLY_NIL) {
            take(row->answer);
        }
        assert_int_equal(rqli_subscription_is_silent(&subscription, now_us + 21 * SECOND_US),
                         row->is_silent);
    }
}

TEST(a_server_of_all_locks_has_one_channel_from_its_login_on)
{
    const struct rqli_waiter one = {.set = &rqli_key_sets[RQLI_WHOLE]};

    assert_false(rqli_subscription_want(&subscription, one.set));
    assert_string_equal(what_it_writes(), "");
    assert_true(rqli_subscription_view(&subscription, true, &one).is_listening);
    rqli_subscription_forget(&subscription, one.set);
    assert_true(rqli_subscription_view(&subscription, true, &one).is_listening);
}

/* ---- a thread, and a loop ---- */

/* Until it has said this, and nothing else of the kind. */
static void hear(const char *expected)
{
    char text[PEER_TEXT] = "";
    size_t length = 0;

    while (!strstr(text, expected)) {
        ssize_t got;

        assert_true(wait_readable(peer, AWAIT_MS));
        got = recv(peer, text + length, sizeof text - 1 - length, 0);
        assert_true(got > 0);
        length += (size_t)got;
        text[length] = '\0';
    }
    assert_string_equal(strstr(text, expected), expected);
}

struct reader {
    struct rqli_push_threads *pushes;
    struct rqli_waiter *waiter;
    pthread_t thread;
    enum rqli_wake wake;
    atomic_bool is_over;
};

static void *read_pushes(void *data)
{
    struct reader *self = data;

    self->wake = rqli_push_threads_wait(self->pushes, self->waiter, RQLI_NEVER_US);
    self->is_over = true;
    return NULL;
}

static void start(struct reader *self)
{
    self->is_over = false;
    assert_int_equal(pthread_create(&self->thread, NULL, read_pushes, self), 0);
}

static bool is_over(void *data)
{
    return ((struct reader *)data)->is_over;
}

static void await_hint(struct reader *self)
{
    assert_true(wait_until(is_over, self, AWAIT_MS));
    assert_int_equal(pthread_join(self->thread, NULL), 0);
    assert_int_equal(self->wake, RQLI_WAKE_HINT);
}

/* Beside the one that reads. */
TEST(threads_ask_for_channels_when_it_is_opened_and_while_it_is_open)
{
    struct reader self = {.pushes = rqli_push_threads_new(&site), .waiter = &waiter[0]};
    struct rqli_pushes *pushes = self.pushes ? rqli_push_threads_pushes(self.pushes) : NULL;
    bool is_listening;

    assert_non_null(pushes);
    CHECK_OK(rqli_pushes_join(pushes, &waiter[0], &is_listening));
    assert_false(rqli_push_threads_wants_ping(self.pushes, &waiter[0]));
    start(&self);
    peer = peer_accept(&place, LOGIN);
    hear(ASKED(OF_0));
    peer_say(peer, CONFIRMED(OF_0));
    await_hint(&self);
    assert_true(rqli_push_threads_wants_ping(self.pushes, &waiter[0]));
    start(&self);
    CHECK_OK(rqli_pushes_join(pushes, &waiter[1], &is_listening));
    assert_true(is_listening);
    CHECK_OK(rqli_pushes_join(pushes, &waiter[2], &is_listening));
    assert_false(is_listening);
    assert_false(rqli_push_threads_wants_ping(self.pushes, &waiter[2]));
    hear(ASKED(OF_1));
    peer_say(peer, MOVED TAKEN(OF_0));
    await_hint(&self);
    assert_false(rqli_pushes_view(pushes, &waiter[0]).is_listening);
    assert_false(rqli_push_threads_wants_ping(self.pushes, &waiter[0]));
    hear(ASKED(OF_0) ASKED(OF_1)); /* and what was refused */
    for (size_t i = 0; i < 3; i++) {
        rqli_pushes_leave(pushes, &waiter[i]);
    }
    rqli_push_threads_free(self.pushes);
}

/* A loop, and the node's end of its connection. */
struct looped {
    uv_loop_t uv;
    struct rqli_push_loop pushes;
    bool was_read;
};

static void on_read(struct rqli_push_loop *pushes)
{
    RQLI_OWNER(pushes, struct looped, pushes)->was_read = true;
}

static bool is_up(void *data)
{
    struct looped *self = data;

    (void)uv_run(&self->uv, UV_RUN_NOWAIT);
    return rqli_conn_loop_is_up(self->pushes.conn);
}

static bool has_read(void *data)
{
    struct looped *self = data;

    (void)uv_run(&self->uv, UV_RUN_NOWAIT);
    return self->was_read;
}

static void say_to(struct looped *self, const char *text)
{
    self->was_read = false;
    peer_say(peer, text);
    assert_true(wait_until(has_read, self, AWAIT_MS));
}

static void note_closed(void *data)
{
    *(bool *)data = true;
}

TEST(a_loop_asks_for_channels_when_it_is_opened_and_while_it_is_open)
{
    static struct looped self;
    struct rqli_push_loop *pushes = &self.pushes;
    uv_async_t awake;
    bool is_closed = false;
    bool is_listening;

    CHECK_OK(uv_loop_init(&self.uv));
    CHECK_OK(uv_async_init(&self.uv, &awake, NULL)); /* keeps it alive */
    pushes->subscription.waiters.rouse = rouse;
    pushes->on_read = on_read;
    assert_true(rqli_push_loop_init(pushes, &self.uv, &site));
    CHECK_OK(rqli_pushes_join(&pushes->pushes, &waiter[0], &is_listening));
    assert_false(rqli_push_loop_wants_ping(pushes, &waiter[0]));
    rqli_conn_loop_tend(pushes->conn, rqli_now_us(), true);
    peer = peer_accept(&place, LOGIN);
    assert_true(wait_until(is_up, &self, AWAIT_MS));
    hear(ASKED(OF_0));
    assert_false(rqli_push_loop_wants_ping(pushes, &waiter[0]));
    say_to(&self, CONFIRMED(OF_0));
    check_roused("1000");
    assert_true(rqli_push_loop_wants_ping(pushes, &waiter[0]));
    say_to(&self, HELLO(OF_0));
    assert_true(rqli_pushes_view(&pushes->pushes, &waiter[0]).delivers);
    assert_false(rqli_push_loop_wants_ping(pushes, &waiter[2]));
    hear(ASKED(OF_1));
    say_to(&self, MOVED TAKEN(OF_0));
    check_roused("1000");
    assert_true(rqli_conn_loop_is_up(pushes->conn));
    assert_false(rqli_pushes_view(&pushes->pushes, &waiter[0]).is_listening);
    rqli_pushes_leave(&pushes->pushes, &waiter[0]);
    rqli_conn_loop_close(pushes->conn, note_closed, &is_closed);
    uv_close((uv_handle_t *)&awake, NULL);
    CHECK_OK(uv_run(&self.uv, UV_RUN_DEFAULT));
    assert_true(is_closed);
    rqli_push_loop_fini(pushes);
    CHECK_OK(uv_loop_close(&self.uv));
}
