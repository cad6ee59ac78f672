#include "check.h"

#include "base/clock.h"
#include "net/conn/conn_loop.h"
#include "net/sock/site.h"
#include "observe/stats.h"
#include "peer.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <uv.h>

/* A connection of a loop, whose server is the test. */

enum {
    LONG_MS = 20000,
    BRIEF_MS = 2,
    SPARE = 8, /* so many commands may follow where there is room */
    AT_LEAST = 4000,
    LOOKS_MAX = 10000,
    MUCH = 1 << 20,
    PUSHES = 300,
    PUSH_BYTES = 60000, /* all of them are more than one reply may have */
    VALID_MS = 10,
};

static uv_loop_t uv;
static uv_async_t awake; /* keeps it alive */
static struct peer_place place;
static struct rqli_session session;
static struct rqli_url url;
static struct rqli_site site;
static struct rqli_conn_loop *conn;
static int peer;
static size_t n_answered;
static size_t n_failed;
static size_t n_pushed;

static void on_opened(void *self, const struct rqli_clock_reading *reading, const rql_error *fault)
{
    (void)self;
    (void)reading;
    (void)fault;
}

static void on_push(void *self, const struct rqli_reply *push)
{
    (void)self;
    n_pushed += push != NULL;
}

static const struct rqli_conn_loop_listener of_commands = {.on_opened = on_opened};
static const struct rqli_conn_loop_listener of_pushes = {on_opened, on_push, NULL};

static void on_answer(void *owner, const struct rqli_batch *answer, rql_status fault)
{
    (void)owner;
    (void)fault;
    n_answered += answer != NULL;
    n_failed += answer == NULL;
}

BEFORE_EACH(set_up)
{
    peer_listen(&place);
    CHECK_OK(rqli_url_parse(&url, place.url, NULL));
    session.url = &url;
    CHECK_OK(rqli_site_init_first(&site, &session, NULL));
    session.connect_timeout_ms = LONG_MS;
    session.io_timeout_ms = LONG_MS;
    session.identity = "me";
    session.stats = rqli_stats_new();
    assert_int_equal(uv_loop_init(&uv), 0);
    assert_int_equal(uv_async_init(&uv, &awake, NULL), 0);
    n_answered = 0;
    n_failed = 0;
    n_pushed = 0;
}

static void note_closed(void *data)
{
    *(bool *)data = true;
}

AFTER_EACH(tear_down)
{
    bool is_closed = false;

    rqli_conn_loop_close(conn, note_closed, &is_closed);
    uv_close((uv_handle_t *)&awake, NULL);
    assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0);
    assert_true(is_closed);
    conn = rqli_conn_loop_free(conn);
    assert_int_equal(uv_loop_close(&uv), 0);
    rqli_stats_free(session.stats);
    rqli_site_fini(&site);
    rqli_url_fini(&url);
    (void)close(peer);
}

static void open_for(const struct rqli_conn_loop_listener *listener, const char *login)
{
    conn = rqli_conn_loop_new(&uv, &site, listener);
    assert_non_null(conn);
    rqli_conn_loop_tend(conn, rqli_now_us(), true);
    peer = peer_accept(&place, login);
    while (!rqli_conn_loop_is_up(conn)) {
        (void)uv_run(&uv, UV_RUN_ONCE);
    }
    (void)uv_run(&uv, UV_RUN_NOWAIT); /* and it is watched */
    (void)peer_hear(peer, NULL);
}

static void ping(void)
{
    rqli_command_words(rqli_conn_loop_out(conn), "PING", NULL);
    (void)rqli_conn_loop_expect(conn, on_answer, NULL);
}

static void look(void)
{
    (void)uv_run(&uv, UV_RUN_NOWAIT);
}

TEST(whoever_finds_room_may_write_a_few_commands)
{
    size_t n_sent = 0;

    open_for(&of_commands, PEER_LOGIN_FOR_COMMANDS);
    while (rqli_conn_loop_has_room(conn)) {
        for (int i = 0; i < SPARE; i++) {
            ping();
        }
        rqli_conn_loop_write(conn);
        n_sent += SPARE;
        assert_int_equal(peer_hear(peer, NULL), SPARE);
    }
    assert_in_range(n_sent, AT_LEAST, AT_LEAST + 100);
    for (size_t i = 0; i < n_sent; i++) {
        peer_say(peer, "+PONG\r\n");
        look();
    }
    assert_int_equal(n_answered, n_sent);
    assert_true(rqli_conn_loop_has_room(conn));
}

/* The answer has come meanwhile. */
TEST(a_loop_that_was_held_up_does_not_take_its_server_for_silent)
{
    open_for(&of_commands, PEER_LOGIN_FOR_COMMANDS);
    session.io_timeout_ms = BRIEF_MS;
    ping();
    rqli_conn_loop_write(conn);
    peer_say(peer, "+PONG\r\n");
    while (rqli_now_us() <= rqli_conn_loop_due_us(conn, true)) {
    }
    rqli_conn_loop_tend(conn, rqli_now_us(), true);
    CHECK_ALL(EQ(n_answered, 1), EQ(n_failed, 0), EQ(rqli_conn_loop_is_up(conn), true));
}

TEST(what_a_full_socket_did_not_take_is_sent_when_there_is_room)
{
    const int least = 1;
    char *text = calloc(1, MUCH);
    char last[PEER_TEXT] = "";
    int fd;

    assert_non_null(text);
    memset(text, 'x', MUCH - 1);
    open_for(&of_commands, PEER_LOGIN_FOR_COMMANDS);
    fd = rqli_conn_loop_socket(conn)->fd;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof least), 0);
    rqli_command_words(rqli_conn_loop_out(conn), "ECHO", text, NULL);
    (void)rqli_conn_loop_expect(conn, on_answer, NULL);
    ping();
    rqli_conn_loop_write(conn);
    free(text);
    for (int i = 0; i < LOOKS_MAX && !strstr(last, "PING"); i++) {
        (void)peer_hear(peer, last);
        look();
    }
    assert_non_null(strstr(last, "PING"));
}

/* Not even of a loop that nobody has told of the fork. */
TEST(a_child_reads_nothing_that_is_its_parents)
{
    pid_t child;
    int how = 0;

    open_for(&of_commands, PEER_LOGIN_FOR_COMMANDS);
    ping();
    rqli_conn_loop_write(conn);
    peer_say(peer, "+PONG\r\n");
    child = fork();
    if (child == 0) {
        rqli_conn_loop_abandon(conn);
        look();
        look();
        if (n_answered + n_failed == 0) {
            (void)execlp("true", "true", (char *)NULL); /* a leak checker would count our copies */
        }
        _exit(1);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
    look();
    assert_int_equal(n_answered, 1);
}

TEST(what_was_pushed_is_not_kept)
{
    char *text = malloc(PUSH_BYTES + 32);
    int head;

    assert_non_null(text);
    head = sprintf(text, "*1\r\n$%d\r\n", PUSH_BYTES);
    memset(text + head, 'x', PUSH_BYTES);
    memcpy(text + head + PUSH_BYTES, "\r\n", sizeof "\r\n");
    open_for(&of_pushes, PEER_LOGIN_FOR_PUSHES);
    for (size_t i = 1; i <= PUSHES && rqli_conn_loop_is_up(conn); i++) {
        peer_say(peer, text);
        for (int n = 0; n < LOOKS_MAX && n_pushed < i; n++) {
            look();
        }
    }
    free(text);
    assert_int_equal(n_pushed, PUSHES);
}

/* Credentials that the test gives out: the first login has them at once, each later question waits
 * until it is allowed. */
static struct {
    _Atomic int n_asked;
    sem_t has_begun;
    sem_t may_end;
} vault;

static rql_status give_when_allowed(rql_credentials *out, int64_t timeout_ms, void *data)
{
    (void)timeout_ms;
    (void)data;
    out->valid_ms = VALID_MS;
    (void)snprintf(out->password, sizeof out->password, "sesame");
    if (vault.n_asked++ > 0) {
        assert_int_equal(sem_post(&vault.has_begun), 0);
        assert_int_equal(sem_wait(&vault.may_end), 0);
    }
    return RQL_OK;
}

/* Returns when the renewal of the login is inside the caller's function. */
static void begin_renewal(void)
{
    int n_begun = 0;

    while (n_begun == 0) {
        rqli_conn_loop_write(conn);
        (void)sem_getvalue(&vault.has_begun, &n_begun);
    }
}

static void run_until_pool_has(unsigned n_requests)
{
    while (uv.active_reqs.count > n_requests) {
        (void)uv_run(&uv, UV_RUN_ONCE);
    }
}

static void count_closed(void *data)
{
    ++*(int *)data;
}

/* The owner frees the connection when `closed` is called, so a second call would use freed memory.
 */
TEST(closing_is_reported_once_while_credentials_are_asked_for_and_it_reconnects)
{
    int n_closed = 0;
    int n_closed_before;

    vault.n_asked = 0;
    assert_int_equal(sem_init(&vault.has_begun, 0, 0), 0);
    assert_int_equal(sem_init(&vault.may_end, 0, 0), 0);
    session.credentials = give_when_allowed;
    open_for(&of_commands, PEER_LOGIN_FOR_COMMANDS);
    begin_renewal();
    rqli_conn_loop_drop(conn);
    look();
    while (rqli_conn_loop_due_us(conn, true) > rqli_now_us()) {
    }
    rqli_conn_loop_tend(conn, rqli_now_us(), true); /* nobody listens any more */
    rqli_conn_loop_close(conn, count_closed, &n_closed);
    run_until_pool_has(1); /* the attempt to connect has ended */
    n_closed_before = n_closed;
    assert_int_equal(sem_post(&vault.may_end), 0);
    run_until_pool_has(0);
    CHECK_ALL(EQ(n_closed_before, 0), EQ(n_closed, 1));
}
