#include "check.h"

#include "base/clock.h"
#include "base/worker.h"
#include "net/op/op.h"
#include "net/op/op_loop.h"
#include "net/sock/site.h"
#include "observe/stats.h"
#include "one_op.h"
#include "peer.h"

#include <uv.h>

/* A call of a loop in a cluster, whose two nodes are the test: where it goes behind which reply. */

enum {
    NODES = 2,
    TURNS_MAX = 8,
    PARTITION = 3,
    LONG_MS = 20000,
    BRIEF_US = 2000,
    LOOKS_MAX = 100000,
    HEARD_SIZE = 1 << 16, /* a script's text is long */
};

#define MOVED_TO(node) "-MOVED 64 127.0.0.1:700" #node "\r\n"
#define ASK(node) "-ASK 64 127.0.0.1:700" #node "\r\n"
#define TRYAGAIN "-TRYAGAIN Multiple keys request during rehashing of slot\r\n"
#define DOWN "-CLUSTERDOWN Hash slot not served\r\n"
#define DONE ":1\r\n"

/* One that hears a call, and what it says. */
struct turn {
    int node; /* from 1; 0: no more */
    const char *says;
};

static uv_loop_t uv;
static uv_async_t awake; /* keeps it alive */
static struct rqli_session session[NODES];
static struct rqli_url url[NODES];
static struct rqli_site site[NODES];
static struct rqli_url url_of_fleet;
static struct rqli_session session_of_fleet;
static int peer[NODES];
static struct rqli_fleet fleet;
static struct rqli_worker map_reader; /* never started */
static struct rqli_timers timers;
static struct rqli_op_loop loop[NODES];

static struct rqli_op_driver one_driver;
static struct rqli_op_call one_call;
static bool is_over;

static void on_done(struct rqli_op_driver *driver)
{
    (void)driver;
    is_over = true;
}

static void on_opened(void *self, const struct rqli_clock_reading *reading, const rql_error *fault)
{
    (void)self;
    (void)reading;
    (void)fault;
}

/* Those that an address names are played by the second peer. */
static struct rqli_op_loop *loop_at(struct rqli_op_loop *self, struct rqli_node *node)
{
    (void)self;
    if (node == &fleet.first) {
        return &loop[0];
    }
    loop[1].node = node;
    return &loop[1];
}

static void open_conn(size_t i)
{
    struct peer_place place;

    peer_listen(&place);
    CHECK_OK(rqli_url_parse(&url[i], place.url, NULL));
    session[i].url = &url[i];
    CHECK_OK(rqli_site_init_first(&site[i], &session[i], NULL));
    session[i].connect_timeout_ms = LONG_MS;
    session[i].io_timeout_ms = LONG_MS;
    session[i].identity = "me";
    session[i].stats = rqli_stats_new();
    loop[i] = (struct rqli_op_loop){.fleet = &fleet,
                                    .node = &fleet.first,
                                    .at = loop_at,
                                    .timers = &timers,
                                    .listener = {on_opened}};
    loop[i].conn = rqli_conn_loop_new(&uv, &site[i], &loop[i].listener);
    assert_non_null(loop[i].conn);
    rqli_conn_loop_tend(loop[i].conn, rqli_now_us(), true);
    peer[i] = peer_accept(&place, PEER_LOGIN_FOR_COMMANDS);
    while (!rqli_conn_loop_is_up(loop[i].conn)) {
        (void)uv_run(&uv, UV_RUN_ONCE);
    }
    (void)uv_run(&uv, UV_RUN_NOWAIT); /* and it is watched */
    (void)peer_hear(peer[i], NULL);
}

BEFORE_EACH(set_up)
{
    assert_int_equal(uv_loop_init(&uv), 0);
    assert_int_equal(uv_async_init(&uv, &awake, NULL), 0);
    memset(&fleet, 0, sizeof fleet);
    CHECK_OK(rqli_url_parse(&url_of_fleet, "redis+cluster://127.0.0.1:7001", NULL));
    session_of_fleet = (struct rqli_session){.url = &url_of_fleet};
    CHECK_OK(rqli_site_init_first(&fleet.first.site, &session_of_fleet, NULL));
    assert_true(rqli_fleet_init(&fleet, 1));
    fleet.worker = &map_reader;
    fleet.map_reader = &map_reader;
    fleet.map = RQLI_MAP_READ;
    for (size_t i = 0; i < NODES; i++) {
        open_conn(i);
    }
}

static void count_closed(void *data)
{
    ++*(size_t *)data;
}

AFTER_EACH(tear_down)
{
    size_t n_closed = 0;

    for (size_t i = 0; i < NODES; i++) {
        rqli_conn_loop_close(loop[i].conn, count_closed, &n_closed);
    }
    uv_close((uv_handle_t *)&awake, NULL);
    assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0);
    assert_int_equal(n_closed, NODES);
    assert_int_equal(uv_loop_close(&uv), 0);
    for (size_t i = 0; i < NODES; i++) {
        rqli_conn_loop_free(loop[i].conn);
        rqli_stats_free(session[i].stats);
        rqli_site_fini(&site[i]);
        rqli_url_fini(&url[i]);
        (void)close(peer[i]);
    }
    rqli_timers_fini(&timers);
    rqli_fleet_fini(&fleet);
    rqli_site_fini(&fleet.first.site);
    rqli_url_fini(&url_of_fleet);
    timers = (struct rqli_timers){0};
}

/* A round of the loop, as lock/loop.c has it. */
static void look(void)
{
    (void)uv_run(&uv, UV_RUN_NOWAIT);
    rqli_timers_fire(&timers, rqli_now_us());
    for (size_t i = 0; i < NODES; i++) {
        rqli_op_loop_write(&loop[i]);
        rqli_conn_loop_write(loop[i].conn);
    }
}

static void begin(void)
{
    memset(&one, 0, sizeof one);
    one_call = (struct rqli_op_call){0};
    is_over = false;
    rqli_keys_init(&one.keys, one.memory, &rqli_key_sets[PARTITION], rqli_slice_of("x"));
    rqli_fleet_give(&fleet, PARTITION, &fleet.first);
    one.op = (struct rqli_op){
        .ops = &one_ops,
        .route = {.fleet = &fleet, .node = &fleet.first},
        .n_calls = 1,
        .until_us = rqli_after_ms(rqli_now_us(), LONG_MS),
    };
    one_driver = (struct rqli_op_driver){
        .op = &one.op, .loop = &loop[0], .done = on_done, .calls = &one_call};
}

/* Until something has come, which is kept. */
static void await_call(const struct turn *turn, char heard[HEARD_SIZE])
{
    heard[0] = '\0';
    for (int i = 0; i < LOOKS_MAX && !heard[0]; i++) {
        ssize_t got;

        look();
        got = recv(peer[turn->node - 1], heard, HEARD_SIZE - 1, MSG_DONTWAIT);
        heard[got > 0 ? got : 0] = '\0';
    }
    assert_non_null(strstr(heard, one.is_plain      ? "PING"
                                  : one.is_of_words ? "TYPE"
                                                    : "\r\nEVALSHA\r\n"));
}

/* left_us: how much time the call has left once it was heard; 0: long. */
static void take_turns(const struct turn *turns, int64_t left_us)
{
    char heard[HEARD_SIZE];

    for (const struct turn *turn = turns; turn->node > 0; turn++) {
        await_call(turn, heard);
        one.op.until_us = left_us > 0 ? rqli_now_us() + left_us : one.op.until_us;
        peer_say(peer[turn->node - 1], turn->says);
    }
}

static void await_end(void)
{
    for (int i = 0; i < LOOKS_MAX && !is_over; i++) {
        look();
    }
    assert_true(is_over);
}

/* As a row reads. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
static const struct row {
    const char *name;
    struct turn turns[TURNS_MAX];
    uint64_t generation; /* of the connection that it has to go over; 0: any */
    int64_t left_us;     /* once it was heard; 0: long */
    bool is_plain;
    bool is_of_words;  /* a command, in place of a script */
    rql_status status; /* of the fault; RQL_OK: it is answered */
    const char *says;  /* that fault */
    int answered;      /* by which node; 0: none */
    int has_keys;      /* which node, afterwards */
} rows[] = {
    {"moved for ever",
     {{1, MOVED_TO(2)},
      {2, MOVED_TO(1)},
      {1, MOVED_TO(2)},
      {2, MOVED_TO(1)},
      {1, MOVED_TO(2)},
      {2, MOVED_TO(1)}},
     .status = RQL_E_UNAVAILABLE,
     .has_keys = 2},
    {"all keys have left, and the slot has not",
     {{1, ASK(2)}, {1, ASK(2)}, {1, MOVED_TO(2)}, {2, DONE}},
     .answered = 2,
     .has_keys = 2},
    {"a slot that moves", {{1, TRYAGAIN}, {1, TRYAGAIN}, {1, DONE}}, .answered = 1, .has_keys = 1},
    {"a slot that nobody has, to the end of its time",
     {{1, DOWN}},
     .left_us = BRIEF_US,
     .status = RQL_E_UNAVAILABLE,
     .has_keys = 1},
    {"an error like any other", {{1, "-OOM x\r\n"}}, .status = RQL_E_UNAVAILABLE, .has_keys = 1},
    {"an error of a command",
     {{1, "-OOM x\r\n"}},
     .is_of_words = true,
     .status = RQL_E_UNAVAILABLE,
     .says = "TYPE on rql:key: OOM",
     .has_keys = 1},
    {"moved from the connection that it has to go over",
     {{1, MOVED_TO(2)}},
     .generation = 1,
     .status = RQL_E_IO,
     .has_keys = 2},
    {"a slot that nobody has, over such a connection",
     {{1, DOWN}},
     .generation = 1,
     .status = RQL_E_IO,
     .has_keys = 1},
    {"another connection than it has to go over",
     {{0}},
     .generation = 2,
     .status = RQL_E_IO,
     .has_keys = 1},
    {"a plain command is not sent elsewhere",
     {{1, MOVED_TO(2)}},
     .is_plain = true,
     .answered = 1,
     .has_keys = 1},
};

static int number_of(const struct rqli_node *node)
{
    return !node ? 0 : node == &fleet.first ? 1 : 2;
}

TEST(a_call_goes_where_its_keys_are)
{
    EACH_ROW (row, rows) {
        begin();
        one.op.generation = row->generation;
        one.is_plain = row->is_plain;
        one.is_of_words = row->is_of_words;
        assert_true(rqli_op_start(&one_driver));
        take_turns(row->turns, row->left_us);
        await_end();
        CHECK_ALL(EQ(one.n_replies, row->status == RQL_OK), EQ(one.n_faults, row->status != RQL_OK),
                  EQ(one.error.status, row->status), EQ(number_of(one.op.answered), row->answered),
                  EQ(one.n_errors, row->is_plain),
                  EQ(one.was_sent, row->status != RQL_OK && row->turns[0].node > 0),
                  EQ(number_of(rqli_fleet_node(&fleet, &rqli_key_sets[PARTITION])), row->has_keys),
                  EQ(one.was_placed, row->generation == 1), EQ(timers.count, 0));
        assert_non_null(strstr(one.error.message, row->says ? row->says : ""));
        tear_down(); /* some faults end their connection */
        set_up();
    }
}

/* The server is not waited for as one that is busy with other calls. */
TEST(bytes_of_a_reply_that_does_not_end_are_no_answer)
{
    static const struct turn turn = {1, ""};
    char heard[HEARD_SIZE];

    begin();
    one.op.grace_us = 10 * BRIEF_US;
    one.op.until_us = rqli_now_us() + BRIEF_US;
    assert_true(rqli_op_start(&one_driver));
    await_call(&turn, heard);
    peer_say(peer[0], "$90000\r\n");
    for (int i = 0; i < LOOKS_MAX / 2 && !is_over; i++) {
        peer_say(peer[0], "x");
        look();
    }
    CHECK_ALL(EQ(is_over, true), EQ(one.error.status, RQL_E_UNKNOWN));
}

TEST(a_call_that_pauses_is_taken_out_by_a_cancellation)
{
    static const struct turn turn = {1, ""};
    char heard[HEARD_SIZE];

    begin();
    assert_true(rqli_op_start(&one_driver));
    await_call(&turn, heard);
    peer_say(peer[0], DOWN);
    for (int i = 0; i < LOOKS_MAX && one_call.state != RQLI_OP_CALL_PAUSED; i++) {
        look();
    }
    assert_int_equal(one_call.state, RQLI_OP_CALL_PAUSED);
    rqli_op_cancel(&one_driver);
    CHECK_ALL(EQ(is_over, true), EQ(one.n_replies + one.n_faults, 0), EQ(timers.count, 0));
}
