#include "check.h"

#include "base/clock.h"
#include "net/conn.h"
#include "net/url.h"
#include "observe/stats.h"
#include "proxy.h"
#include "redis_server.h"
#include "stand_in.h"
#include "threads.h"
#include "wait.h"

#include <dlfcn.h>
#include <netdb.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

enum {
    MANY = 32,
    ROUNDS = 1500,
    TEXT_MAX = 6000,
    LONG_MS = 20000,
    MUCH = 1 << 20,
    NUMBERS = 50, /* more clients than a server has seen at its start */
    HASTE_US = 20000
};

static struct redis_server server;

/* A link to a URL, and what its threads found. */
struct crew {
    struct rqli_endpoint endpoint;
    struct rqli_conn *conn;
    int64_t deadline_ms;
    atomic_int n_ok;
    atomic_int n_unknown;
    atomic_int n_io;
    atomic_int n_other;
    atomic_int n_wrong; /* somebody else's reply */
    atomic_int stop;
    _Atomic int64_t slowest_us;
};

/* Of the test that runs, and the proxy that it goes through, or NULL. */
static struct crew our;
static struct proxy *proxy;

static const char *moving_port; /* of "moving.test" */

typedef int (*resolve_fn)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

/* Takes the place of the C library's for the whole program. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *req,
                struct addrinfo **pai)
{
    void *symbol = dlsym(RTLD_NEXT, "getaddrinfo");
    resolve_fn real;

    memcpy(&real, &symbol, sizeof real);
    if (name && strcmp(name, "moving.test") == 0 && !(req->ai_flags & AI_NUMERICHOST)) {
        return real("127.0.0.1", moving_port, req, pai);
    }
    return real(name, service, req, pai);
}

static void join(struct crew *crew, const char *url, int64_t io_timeout_ms)
{
    memset(crew, 0, sizeof *crew);
    CHECK_OK(rqli_url_parse(&crew->endpoint, url, NULL));
    crew->endpoint.connect_timeout_ms = 2000;
    crew->endpoint.io_timeout_ms = io_timeout_ms;
    crew->endpoint.identity = "00112233445566778899aabbccddeeff";
    crew->deadline_ms = LONG_MS;
    crew->endpoint.stats = rqli_stats_new();
    assert_non_null(crew->endpoint.stats);
    crew->conn = rqli_conn_new(&crew->endpoint);
    assert_non_null(crew->conn);
}

static void part(struct crew *crew)
{
    rqli_conn_free(crew->conn);
    rqli_stats_free(crew->endpoint.stats);
    rqli_endpoint_fini(&crew->endpoint);
}

static int join_server(void **state)
{
    (void)state;
    join(&our, server.url, LONG_MS);
    return 0;
}

static int join_proxy(void **state)
{
    (void)state;
    proxy = proxy_start(server.socket_path);
    join(&our, proxy_url(proxy), LONG_MS);
    return 0;
}

static int leave(void **state)
{
    (void)state;
    part(&our);
    proxy = proxy ? proxy_stop(proxy) : NULL;
    return 0;
}

static void write_echo(struct rqli_command *command, const char *text, size_t length)
{
    rqli_command_begin(command, 2);
    rqli_command_text(command, "ECHO");
    rqli_command_slice(command, (struct rqli_slice){text, length});
}

static bool answers(const struct rqli_reply *reply, const char *text, size_t length)
{
    return reply->type == RQLI_REPLY_TEXT && reply->text.length == length &&
           memcmp(reply->text.data, text, length) == 0;
}

/* n times ECHO in one exchange; false in *own_out: a reply was not ours. */
static rql_status echo_times(struct crew *crew, int n, const char *text, size_t length,
                             bool *own_out)
{
    struct rqli_exchange *exchange = rqli_exchange_take(crew->conn);
    rql_status status;

    for (int i = 0; i < n; i++) {
        write_echo(&exchange->command, text, length);
    }
    status = rqli_exchange_run(exchange, rqli_after_ms(rqli_now_us(), crew->deadline_ms), NULL);
    *own_out = true;
    for (int i = 0; !status && i < n; i++) {
        *own_out = *own_out && answers(&exchange->reply[i], text, length);
    }
    rqli_exchange_give(exchange);
    return status;
}

static rql_status echo(struct crew *crew, const char *text)
{
    bool is_own;
    rql_status status = echo_times(crew, 1, text, strlen(text), &is_own);

    assert_true(is_own);
    return status;
}

/* A connection that ended while nobody used it is noticed by the next command only. */
static void must_recover(struct crew *crew, const char *text)
{
    if (echo(crew, text)) {
        CHECK_OK(echo(crew, text));
    }
}

static uint64_t generation_of(struct crew *crew)
{
    struct rqli_exchange *exchange = rqli_exchange_take(crew->conn);
    uint64_t generation;

    write_echo(&exchange->command, "which", 5);
    CHECK_OK(rqli_exchange_run(exchange, rqli_after_ms(rqli_now_us(), LONG_MS), NULL));
    generation = exchange->generation;
    rqli_exchange_give(exchange);
    return generation;
}

static void note(struct crew *crew, rql_status status, bool is_own, int64_t took_us)
{
    atomic_int *counter = !status                   ? &crew->n_ok
                          : status == RQL_E_UNKNOWN ? &crew->n_unknown
                          : status == RQL_E_IO      ? &crew->n_io
                                                    : &crew->n_other;

    atomic_fetch_add(counter, 1);
    if (!is_own) {
        atomic_fetch_add(&crew->n_wrong, 1);
    }
    if (took_us > crew->slowest_us) {
        crew->slowest_us = took_us;
    }
}

/* Texts that no other thread and no other round has. */
static size_t compose(char *text, size_t index, unsigned round, unsigned *dice)
{
    size_t length = (size_t)rand_r(dice) % (rand_r(dice) % 8 == 0 ? TEXT_MAX : 40) + 20;

    memset(text, 'a' + (int)(index % 26), length);
    (void)snprintf(text, 20, "%zu/%u/", index, round);
    return length;
}

static void exchange_once(struct crew *crew, size_t index, unsigned round, unsigned *dice)
{
    char text[TEXT_MAX + 20];
    size_t length = compose(text, index, round, dice);
    int64_t begun_us = rqli_now_us();
    bool is_own;
    rql_status status = echo_times(crew, rand_r(dice) % 8 == 0 ? 3 : 1, text, length, &is_own);

    note(crew, status, is_own, rqli_now_us() - begun_us);
}

static void exchange_rounds(size_t index, void *data)
{
    unsigned dice = (unsigned)index + 1;

    for (unsigned i = 0; i < ROUNDS; i++) {
        exchange_once(data, index, i, &dice);
    }
}

static void exchange_until_stopped(size_t index, void *data)
{
    struct crew *crew = data;
    unsigned dice = (unsigned)index + 1;

    for (unsigned i = 0; !crew->stop; i++) {
        exchange_once(crew, index, i, &dice);
    }
}

static bool has_100_more(void *data)
{
    struct crew *crew = data;

    return crew->n_ok >= 100;
}

static void expect_all_ok(const struct crew *crew, int n)
{
    assert_int_equal(crew->n_wrong, 0);
    assert_int_equal(crew->n_unknown, 0);
    assert_int_equal(crew->n_io, 0);
    assert_int_equal(crew->n_other, 0);
    assert_int_equal(crew->n_ok, n);
}

static void many_threads_each_get_their_own_replies(void **state)
{
    (void)state;
    threads_run(MANY, exchange_rounds, &our);
    expect_all_ok(&our, MANY * ROUNDS);
    /* Nobody is kept writing or reading for the others. */
    assert_true(our.slowest_us < 1000000 * wait_slowness());
}

/* PING as fast as possible: whoever loses a wake-up, or leaves a batch without a reader, hangs
 * until the deadline. */
static void ping_rounds(size_t index, void *data)
{
    struct crew *crew = data;

    (void)index;
    for (int i = 0; i < 3 * ROUNDS; i++) {
        struct rqli_exchange *exchange = rqli_exchange_take(crew->conn);
        rql_status status;

        rqli_command_begin(&exchange->command, 1);
        rqli_command_text(&exchange->command, "PING");
        status = rqli_exchange_run(exchange, rqli_after_ms(rqli_now_us(), LONG_MS), NULL);
        note(crew, status, status || rqli_reply_says(exchange->reply, "PONG"), 0);
        rqli_exchange_give(exchange);
    }
}

static void no_reply_is_lost_between_readers_and_writers(void **state)
{
    static const size_t sizes[] = {2, 3, 5, 8, MANY};
    struct crew crew;

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        join(&crew, server.url, LONG_MS);
        threads_run(sizes[i], ping_rounds, &crew);
        expect_all_ok(&crew, (int)sizes[i] * 3 * ROUNDS);
        part(&crew);
    }
}

/* Every other thread gives up after no time at all. */
static void exchange_in_a_hurry(size_t index, void *data)
{
    struct crew *all = data;
    struct crew *crew = &all[index % 2];
    unsigned dice = (unsigned)index + 1;
    char text[TEXT_MAX + 20];

    for (unsigned i = 0; i < ROUNDS; i++) {
        struct rqli_exchange *exchange = rqli_exchange_take(all->conn);
        size_t length = compose(text, index, i, &dice);
        int64_t budget_us = index % 2 ? rand_r(&dice) % 300 : LONG_MS * 1000;
        rql_status status;

        write_echo(&exchange->command, text, length);
        status = rqli_exchange_run(exchange, rqli_now_us() + budget_us, NULL);
        note(crew, status, status || answers(exchange->reply, text, length), 0);
        rqli_exchange_give(exchange);
    }
}

static void impatient_callers_do_no_harm_to_patient_ones(void **state)
{
    struct crew crew[2];
    uint64_t generation;

    (void)state;
    join(&crew[0], server.url, LONG_MS);
    join(&crew[1], server.url, LONG_MS);
    generation = generation_of(&crew[0]);
    threads_run(16, exchange_in_a_hurry, crew);
    expect_all_ok(&crew[0], 8 * ROUNDS);
    assert_int_equal(crew[1].n_wrong, 0);
    assert_int_equal(crew[1].n_ok + crew[1].n_unknown, 8 * ROUNDS);
    assert_int_equal(generation_of(&crew[0]), generation);
    part(&crew[0]);
    part(&crew[1]);
}

static void echo_as_told(size_t index, void *data)
{
    struct crew *crew = data;
    unsigned dice = (unsigned)index + 1;

    exchange_once(crew, index, 0, &dice);
}

/* More than a socket takes, by a caller that does not mean to stay until it is read. */
static void echo_much_in_a_hurry(size_t index, void *data)
{
    struct crew *crew = data;
    struct rqli_exchange *exchange = rqli_exchange_take(crew->conn);
    char *text = calloc(1, MUCH);
    rql_status status;

    (void)index;
    assert_non_null(text);
    write_echo(&exchange->command, text, MUCH);
    status = rqli_exchange_run(exchange, rqli_now_us() + HASTE_US, NULL);
    note(crew, status, status || answers(exchange->reply, text, MUCH), 0);
    rqli_exchange_give(exchange);
    free(text);
}

static bool is_past(void *data)
{
    return rqli_now_us() > *(const int64_t *)data;
}

static void a_hasty_writer_breaks_nothing_off(void **state)
{
    struct crew hasty;
    struct threads *threads[2];
    uint64_t generation;
    int64_t until_us;

    (void)state;
    generation = generation_of(&our);
    hasty = our;
    redis_server_pause(&server);
    until_us = rqli_now_us() + 3 * HASTE_US;
    threads[0] = threads_start(1, echo_much_in_a_hurry, &hasty);
    threads[1] = threads_start(4, echo_as_told, &our);
    assert_true(wait_until(is_past, &until_us, LONG_MS));
    redis_server_resume(&server);
    threads_join(threads[0]);
    threads_join(threads[1]);
    assert_int_equal(hasty.n_unknown + hasty.n_ok, 1);
    expect_all_ok(&our, 4);
    assert_int_equal(generation_of(&our), generation);
}

static bool has_sent_some(void *data)
{
    (void)data;
    return proxy_counts(proxy).up_bytes > 0;
}

static void reply_of_a_caller_who_left_is_dropped(void **state)
{
    struct crew patient;
    struct threads *threads;
    uint64_t generation;

    (void)state;
    generation = generation_of(&our);
    redis_server_pause(&server);
    patient = our;
    threads = threads_start(4, echo_as_told, &patient);
    our.deadline_ms = 50;
    assert_int_equal(echo(&our, "impatient"), RQL_E_UNKNOWN);
    assert_int_equal(echo(&our, "impatient too"), RQL_E_UNKNOWN);
    redis_server_resume(&server);
    threads_join(threads);
    expect_all_ok(&patient, 4);
    our.deadline_ms = LONG_MS;
    CHECK_OK(echo(&our, "the next"));
    assert_int_equal(generation_of(&our), generation);
}

/* Three commands of 0.3 s each in one exchange; the server is never silent for 0.5 s. */
static void slow_server_is_not_a_silent_one(void **state)
{
    struct rqli_exchange *exchange;

    (void)state;
    our.endpoint.io_timeout_ms = 500 * wait_slowness();
    exchange = rqli_exchange_take(our.conn);
    for (int i = 0; i < 3; i++) {
        rqli_command_begin(&exchange->command, 3);
        rqli_command_text(&exchange->command, "BLPOP");
        rqli_command_text(&exchange->command, "nothing");
        rqli_command_text(&exchange->command, "0.3");
    }
    CHECK_OK(rqli_exchange_run(exchange, rqli_after_ms(rqli_now_us(), LONG_MS), NULL));
    assert_int_equal(exchange->generation, 1);
    rqli_exchange_give(exchange);
}

static int count_links(void)
{
    redisContext *context = redis_server_connect(&server);
    redisReply *reply = redisCommand(context, "CLIENT LIST");
    int n = 0;

    for (const char *at = reply->str; (at = strstr(at, "name=rql-")); at++) {
        n++;
    }
    freeReplyObject(reply);
    redisFree(context);
    return n;
}

/* Another silence, of a stalled machine, would have made one more meanwhile. */
static bool one_link_is_left(void *data)
{
    (void)data;
    return count_links() == 1;
}

static void silent_server_is_left_and_its_old_connection_killed(void **state)
{
    int64_t begun_us;
    int64_t took_us;

    (void)state;
    our.endpoint.io_timeout_ms = 200;
    CHECK_OK(echo(&our, "before"));
    proxy_freeze(proxy, PROXY_DOWN, true);
    begun_us = rqli_now_us();
    assert_int_equal(echo(&our, "into the void"), RQL_E_UNKNOWN);
    took_us = rqli_now_us() - begun_us;
    assert_in_range(took_us, 190000, 2000000);
    /* The proxy still holds the old connection open: only CLIENT KILL ends it. */
    proxy_heal(proxy);
    CHECK_OK(echo(&our, "after"));
    assert_true(wait_until(one_link_is_left, NULL, LONG_MS));
}

/* It is connected, and falls silent: its number. */
static int64_t silence(struct crew *crew)
{
    struct rqli_exchange *exchange = rqli_exchange_take(crew->conn);
    int64_t id;

    rqli_command_begin(&exchange->command, 2);
    rqli_command_text(&exchange->command, "CLIENT");
    rqli_command_text(&exchange->command, "ID");
    CHECK_OK(rqli_exchange_run(exchange, rqli_after_ms(rqli_now_us(), LONG_MS), NULL));
    id = exchange->reply->integer;
    rqli_exchange_give(exchange);
    proxy_mute_last(proxy); /* and so it stays, at the server's end too */
    assert_int_equal(echo(crew, "into the void"), RQL_E_UNKNOWN);
    return id;
}

static int64_t number_of(redisContext *context)
{
    redisReply *reply = redisCommand(context, "CLIENT ID");
    int64_t id = reply ? reply->integer : -1;

    freeReplyObject(reply);
    return id;
}

/* Somebody else's connection with this number. */
static redisContext *stranger_with(int64_t id)
{
    redisContext *stranger = redis_server_connect(&server);

    while (number_of(stranger) < id) {
        redisFree(stranger);
        stranger = redis_server_connect(&server);
    }
    assert_int_equal(number_of(stranger), id);
    return stranger;
}

/* A server that was started anew gives the same numbers again, and behind a Unix socket all have
 * the same address. */
static void stranger_with_the_number_of_a_silent_connection_lives(void **state)
{
    redisContext *before = redis_server_connect(&server);
    redisContext *stranger;
    int64_t id;
    char byte;

    (void)state;
    while (number_of(before) < NUMBERS) {
        redisFree(before);
        before = redis_server_connect(&server);
    }
    redisFree(before);
    our.endpoint.io_timeout_ms = 200;
    id = silence(&our);
    assert_int_equal(redis_server_restart(&server), 0);
    stranger = stranger_with(id);
    must_recover(&our, "after");
    assert_int_equal(recv(stranger->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT), -1); /* no end */
    assert_int_equal(number_of(stranger), id);
    redisFree(stranger);
}

/* Without the right to see which run of the server it is, or its own address, or to kill. */
static void what_cannot_be_seen_is_not_killed(void **state)
{
    static const char *const rights[] = {"", "-info", "-client|info", "-client|kill"};

    (void)state;
    for (size_t i = 0; i < sizeof rights / sizeof *rights; i++) {
        redisContext *admin = redis_server_connect(&server);
        struct crew crew;
        char url[160];

        proxy = proxy_start(server.socket_path);
        freeReplyObject(
            redisCommand(admin, "ACL SETUSER meek reset on >pw ~* &* +@all %s", rights[i]));
        (void)snprintf(url, sizeof url, "unix://meek:pw@%s", proxy_socket_path(proxy));
        join(&crew, url, 200);
        (void)silence(&crew);
        must_recover(&crew, "after");
        if (*rights[i]) {
            assert_int_not_equal(count_links(), 1);
        } else {
            assert_true(wait_until(one_link_is_left, NULL, LONG_MS));
        }
        part(&crew);
        proxy = proxy_stop(proxy);
        redisFree(admin);
    }
}

static void one_byte_at_a_time_is_enough(void **state)
{
    (void)state;
    proxy_dribble(proxy, PROXY_BOTH, true);
    threads_run(4, echo_as_told, &our);
    expect_all_ok(&our, 4);
}

/* "$12\r\n...\r\n": cut before, within and behind it. */
static void reply_cut_anywhere_is_unknown_and_the_next_is_right(void **state)
{
    static const char text[] = "twelve bytes";
    const int64_t whole = (int64_t)strlen("$12\r\n\r\n") + 12;

    (void)state;
    for (int64_t n = 0; n <= whole; n++) {
        must_recover(&our, "before");
        proxy_cut_after(proxy, PROXY_DOWN, n);
        assert_int_equal(echo(&our, text), n < whole ? RQL_E_UNKNOWN : RQL_OK);
        proxy_heal(proxy);
        must_recover(&our, text);
    }
}

static void login_cut_anywhere_is_no_connection(void **state)
{
    (void)state;
    proxy = proxy_start(server.socket_path);
    for (int64_t n = 0; n < 36; n += 3) {
        struct crew crew;

        join(&crew, proxy_url(proxy), LONG_MS);
        proxy_cut_after(proxy, PROXY_DOWN, n);
        assert_int_equal(echo(&crew, "never sent"), RQL_E_IO);
        proxy_heal(proxy);
        CHECK_OK(echo(&crew, "sent"));
        part(&crew);
    }
    proxy = proxy_stop(proxy);
}

static void lost_reply_is_never_replaced_by_the_next(void **state)
{
    (void)state;
    our.endpoint.io_timeout_ms = 150;
    for (int i = 0; i < 3; i++) {
        must_recover(&our, "before");
        proxy_drop_reply(proxy, 1);
        assert_int_equal(echo(&our, "lost"), RQL_E_UNKNOWN);
        CHECK_OK(echo(&our, "after"));
    }
}

static void late_reply_is_not_the_next_ones(void **state)
{
    uint64_t generation;

    (void)state;
    generation = generation_of(&our);
    proxy_delay(proxy, PROXY_DOWN, 120);
    our.deadline_ms = 40;
    assert_int_equal(echo(&our, "late"), RQL_E_UNKNOWN);
    our.deadline_ms = LONG_MS;
    CHECK_OK(echo(&our, "in time"));
    proxy_heal(proxy);
    assert_int_equal(generation_of(&our), generation);
}

/* The oldest caller may leave at any moment, also when it reads for the others. */
static void call_ends_at_its_deadline(void **state)
{
    const int64_t slack_us = 60000 * wait_slowness();
    int64_t best_us = INT64_MAX;

    (void)state;
    CHECK_OK(echo(&our, "before"));
    redis_server_pause(&server);
    for (int i = 0; i < 3 && best_us > slack_us; i++) {
        int64_t begun_us;
        int64_t late_us;

        our.deadline_ms = 1000;
        assert_int_equal(echo(&our, "nobody answers"), RQL_E_UNKNOWN);
        our.deadline_ms = 908;
        begun_us = rqli_now_us();
        assert_int_equal(echo(&our, "nobody answers"), RQL_E_UNKNOWN);
        late_us = rqli_now_us() - begun_us - 908000;
        assert_true(late_us >= -1000);
        best_us = late_us < best_us ? late_us : best_us;
    }
    redis_server_resume(&server);
    assert_true(best_us <= slack_us);
}

struct strange {
    const char *name;
    const char *greeting; /* in place of the login's replies; NULL: a proper login */
    const char *answer;   /* to the first command */
    bool resets;          /* the connection then */
    rql_status expected;
};

static const struct strange strange_servers[] = {
    {"reset within a reply", NULL, "$12\r\ntwel", true, RQL_E_UNKNOWN},
    {"reset in place of a reply", NULL, "", true, RQL_E_UNKNOWN},
    {"reset at login", "", "", true, RQL_E_IO},
    {"garbage", NULL, "\x01\xff\x7fgarbage\r\n", false, RQL_E_UNKNOWN},
    {"garbage at login", "\x01\xff\x7fgarbage\r\n", "", false, RQL_E_PROTOCOL},
    {"HTTP", "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", "", false, RQL_E_PROTOCOL},
    {"huge text", NULL, "$9223372036854775807\r\n", false, RQL_E_UNKNOWN},
    {"huge array", NULL, "*1000000000\r\n", false, RQL_E_UNKNOWN},
    {"deep array", NULL, "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", false, RQL_E_UNKNOWN},
    {"RESP3", NULL, ">2\r\n+x\r\n+y\r\n", false, RQL_E_UNKNOWN},
    {"loading", "-LOADING Redis is loading the dataset in memory\r\n", "", false,
     RQL_E_UNAVAILABLE},
    {"password wanted", "-NOAUTH Authentication required.\r\n", "", false, RQL_E_AUTH},
    {"login and a reply too many", STAND_IN_LOGIN "+surprise\r\n", "$4\r\nmine\r\n", false,
     RQL_E_PROTOCOL},
};

static void strange_servers_are_told_apart(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof strange_servers / sizeof *strange_servers; i++) {
        const struct strange *row = &strange_servers[i];
        const char *script[] = {row->greeting ? row->greeting : STAND_IN_LOGIN, row->answer, NULL};
        struct stand_in *stand_in = stand_in_start(script, row->resets);
        struct crew crew;
        rql_status status;

        join(&crew, stand_in_url(stand_in), 500);
        crew.deadline_ms = 3000;
        status = echo(&crew, "twelve bytes");
        if (status != row->expected) {
            fail_msg("%s: %d, not %d", row->name, (int)status, (int)row->expected);
        }
        part(&crew);
        stand_in_stop(stand_in);
    }
}

/* What nobody asked for comes behind a reply, whole or in part: the connection is left, the reply
 * counts, and no memory of the finished exchange is written to. */
static void reply_that_nobody_asked_for_ends_the_connection(void **state)
{
    static const char *const extras[] = {"+surprise\r\n", "*2\r\n$1\r\na\r\n", "*2\r\n",
                                         "$40\r\nabc", "+half"};

    (void)state;
    for (size_t i = 0; i < sizeof extras / sizeof *extras; i++) {
        char answer[64];
        const char *script[] = {STAND_IN_LOGIN, answer, "$1\r\nb\r\n$1\r\nc\r\n$4\r\nnext\r\n",
                                NULL};
        struct stand_in *stand_in;
        struct crew crew;

        (void)snprintf(answer, sizeof answer, "$5\r\nfirst\r\n%s", extras[i]);
        stand_in = stand_in_start(script, false);
        join(&crew, stand_in_url(stand_in), 500);
        CHECK_OK(echo(&crew, "first"));
        CHECK_OK(echo(&crew, "first")); /* on a new connection: its script begins anew */
        assert_int_equal(stand_in_connections(stand_in), 2);
        part(&crew);
        stand_in_stop(stand_in);
    }
}

static void set_maxclients(redisContext *context, int n)
{
    redisReply *reply = redisCommand(context, "CONFIG SET maxclients %d", n);

    assert_int_equal(reply->type, REDIS_REPLY_STATUS);
    freeReplyObject(reply);
}

static void full_server_is_a_fault_that_passes(void **state)
{
    redisContext *context = redis_server_connect(&server);

    (void)state;
    set_maxclients(context, 1);
    assert_true(echo(&our, "no room") < 0);
    set_maxclients(context, 1000);
    CHECK_OK(echo(&our, "room"));
    redisFree(context);
}

static atomic_int n_alarms;

static void on_alarm(int number)
{
    (void)number;
    atomic_fetch_add(&n_alarms, 1);
}

static void alarm_every(suseconds_t us)
{
    const struct itimerval timer = {{0, us}, {0, us}};

    assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

static void storm_of_signals_changes_nothing(void **state)
{
    const struct sigaction action = {.sa_handler = on_alarm};
    struct sigaction before;

    (void)state;
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    alarm_every(1000);
    threads_run(8, exchange_rounds, &our);
    for (int i = 0; i < 100; i++) {
        rqli_conn_drop(our.conn, generation_of(&our));
    }
    alarm_every(0);
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
    assert_true(n_alarms > 0);
    expect_all_ok(&our, 8 * ROUNDS);
}

static bool has_failed(void *data)
{
    struct crew *crew = data;

    return crew->n_io >= 8;
}

/* SIGPIPE has its default disposition: raised once, it ends this program. */
static void crash_and_restart_are_survived_with_pauses(void **state)
{
    struct threads *threads;
    int failures;

    (void)state;
    (void)signal(SIGPIPE, SIG_DFL);
    threads = threads_start(8, exchange_until_stopped, &our);
    assert_true(wait_until(has_100_more, &our, LONG_MS));
    redis_server_kill(&server);
    assert_true(wait_until(has_failed, &our, LONG_MS));
    assert_int_equal(redis_server_restart(&server), 0);
    our.n_ok = 0;
    assert_true(wait_until(has_100_more, &our, 6000));
    failures = our.n_io;
    our.stop = 1;
    threads_join(threads);
    assert_int_equal(our.n_wrong, 0);
    assert_int_equal(our.n_other, 0);
    assert_true(our.n_unknown <= 16); /* what was on its way, and hardly more */
    assert_true(failures < 8 * 100);  /* eight callers, and attempts with growing pauses */
}

static void every_connection_resolves_the_address_anew(void **state)
{
    struct proxy *here = proxy_start_tcp(server.socket_path);
    struct proxy *there = proxy_start_tcp(server.socket_path);
    char ports[2][16];
    struct crew crew;

    (void)state;
    (void)snprintf(ports[0], sizeof ports[0], "%d", proxy_port(here));
    (void)snprintf(ports[1], sizeof ports[1], "%d", proxy_port(there));
    moving_port = ports[0];
    join(&crew, "redis://moving.test:1", LONG_MS);
    CHECK_OK(echo(&crew, "here"));
    moving_port = ports[1];
    CHECK_OK(echo(&crew, "still here"));
    assert_int_equal(proxy_counts(there).connections, 0);
    rqli_conn_drop(crew.conn, generation_of(&crew));
    CHECK_OK(echo(&crew, "there"));
    assert_int_equal(proxy_counts(here).connections, 1);
    assert_int_equal(proxy_counts(there).connections, 1);
    proxy_stop(here);
    CHECK_OK(echo(&crew, "still there"));
    part(&crew);
    proxy_stop(there);
}

static bool is_frozen_connecting(void *data)
{
    return proxy_counts(proxy).connections > 0 && has_sent_some(data);
}

/* The first caller connects for all, and gives up soon; the second has time. */
static void impatient_connecting_does_not_fail_the_patient(void **state)
{
    struct crew hasty;
    struct threads *threads[2];

    (void)state;
    proxy_freeze(proxy, PROXY_DOWN, true);
    hasty = our;
    hasty.deadline_ms = 300;
    threads[0] = threads_start(1, echo_as_told, &hasty);
    assert_true(wait_until(is_frozen_connecting, NULL, LONG_MS));
    threads[1] = threads_start(4, echo_as_told, &our);
    threads_join(threads[0]);
    assert_int_equal(hasty.n_io, 1);
    proxy_heal(proxy);
    threads_join(threads[1]);
    expect_all_ok(&our, 4);
}

/* Nobody could connect, then somebody did: why it was not possible before is no news. */
static void an_old_reason_is_not_told_again(void **state)
{
    rql_error error = {0};

    (void)state;
    proxy_refuse(proxy, true);
    assert_int_equal(rqli_conn_connect(our.conn, rqli_after_ms(rqli_now_us(), 50), &error),
                     RQL_E_IO);
    assert_non_null(strstr(error.message, "refused"));
    proxy_heal(proxy);
    CHECK_OK(echo(&our, "connected"));
    proxy_cut_reply(proxy, 1);
    assert_int_equal(echo(&our, "cut"), RQL_E_UNKNOWN);
    assert_int_equal(rqli_conn_connect(our.conn, rqli_now_us(), &error), RQL_E_IO);
    assert_null(strstr(error.message, "refused"));
}

static int start_server(void **state)
{
    (void)state;
    return redis_server_start(&server);
}

static int stop_server(void **state)
{
    (void)state;
    redis_server_stop(&server);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define SERVED(name) cmocka_unit_test_setup_teardown(name, join_server, leave)
#define PROXIED(name) cmocka_unit_test_setup_teardown(name, join_proxy, leave)
        SERVED(many_threads_each_get_their_own_replies),
        cmocka_unit_test(no_reply_is_lost_between_readers_and_writers),
        cmocka_unit_test(impatient_callers_do_no_harm_to_patient_ones),
        SERVED(a_hasty_writer_breaks_nothing_off),
        PROXIED(reply_of_a_caller_who_left_is_dropped),
        SERVED(slow_server_is_not_a_silent_one),
        PROXIED(silent_server_is_left_and_its_old_connection_killed),
        PROXIED(stranger_with_the_number_of_a_silent_connection_lives),
        cmocka_unit_test(what_cannot_be_seen_is_not_killed),
        PROXIED(one_byte_at_a_time_is_enough),
        PROXIED(reply_cut_anywhere_is_unknown_and_the_next_is_right),
        cmocka_unit_test(login_cut_anywhere_is_no_connection),
        PROXIED(lost_reply_is_never_replaced_by_the_next),
        PROXIED(late_reply_is_not_the_next_ones),
        SERVED(call_ends_at_its_deadline),
        cmocka_unit_test(strange_servers_are_told_apart),
        cmocka_unit_test(reply_that_nobody_asked_for_ends_the_connection),
        SERVED(full_server_is_a_fault_that_passes),
        SERVED(storm_of_signals_changes_nothing),
        SERVED(crash_and_restart_are_survived_with_pauses),
        cmocka_unit_test(every_connection_resolves_the_address_anew),
        PROXIED(impatient_connecting_does_not_fail_the_patient),
        PROXIED(an_old_reason_is_not_told_again),
    };

    if (!redis_server_available()) {
        return skip_all("RQL_TEST_REDIS is not set");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
