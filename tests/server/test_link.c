#include "fixture.h"

#include "base/clock.h"
#include "net/conn/conn_threads.h"
#include "net/sock/resolve.h"
#include "net/sock/site.h"
#include "observe/stats.h"
#include "threads.h"

#include <dlfcn.h>
#include <netdb.h>
#include <stdatomic.h>
#include <sys/socket.h>

enum {
    MANY = 32,
    ROUNDS = 1500,
    TEXT_MAX = 6000,
    LONG_MS = 20000,
    MUCH = 1 << 20,
    HASTE_US = 20000
};

/* A link to a URL, and what its threads found. */
struct crew {
    struct rqli_resolver resolver;
    struct rqli_session session;
    struct rqli_url url;
    struct rqli_site site;
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

static struct crew our; /* of the test that runs */

static const char *const several[] = {"127.0.0.2", "127.0.0.3"}; /* of "several.test" */

typedef int (*resolve_fn)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

/* Takes the place of the C library's for the whole program. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *req,
                struct addrinfo **pai)
{
    void *symbol = dlsym(RTLD_NEXT, "getaddrinfo");
    resolve_fn real;

    memcpy(&real, &symbol, sizeof real);
    if (name && strcmp(name, "several.test") == 0 && !(req->ai_flags & AI_NUMERICHOST)) {
        return real(several[0], service, req, pai) +
               real(several[1], service, req, &(*pai)->ai_next);
    }
    return real(name, service, req, pai);
}

static void join(struct crew *crew, const char *url, int64_t io_timeout_ms)
{
    memset(crew, 0, sizeof *crew);
    CHECK_OK(rqli_url_parse(&crew->url, url, NULL));
    crew->session.url = &crew->url;
    CHECK_OK(rqli_site_init_first(&crew->site, &crew->session, NULL));
    rqli_resolver_init(&crew->resolver);
    crew->session.resolver = &crew->resolver;
    crew->session.connect_timeout_ms = 2000;
    crew->session.io_timeout_ms = io_timeout_ms;
    crew->session.identity = "00112233445566778899aabbccddeeff";
    crew->deadline_ms = LONG_MS;
    crew->session.stats = rqli_stats_new();
    assert_non_null(crew->session.stats);
    crew->conn = rqli_conn_new(&crew->site);
    assert_non_null(crew->conn);
}

static void part(struct crew *crew)
{
    rqli_conn_free(crew->conn);
    rqli_stats_free(crew->session.stats);
    rqli_site_fini(&crew->site);
    rqli_url_fini(&crew->url);
    rqli_resolver_fini(&crew->resolver);
}

static void join_server(void)
{
    join(&our, server.url, LONG_MS);
}

static void leave(void)
{
    part(&our);
}

#define SERVED(name) TEST_BETWEEN(name, join_server, leave)

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

/* n times ECHO in one batch; false in *own_out: a reply was not ours. */
static rql_status echo_times(struct crew *crew, int n, const char *text, size_t length,
                             bool *own_out)
{
    struct rqli_batch *batch = rqli_batch_take(crew->conn);
    rql_status status;

    for (int i = 0; i < n; i++) {
        write_echo(&batch->command, text, length);
    }
    status = rqli_conn_run(batch, rqli_after_ms(rqli_now_us(), crew->deadline_ms), NULL);
    *own_out = true;
    for (int i = 0; !status && i < n; i++) {
        *own_out = *own_out && answers(&batch->reply[i], text, length);
    }
    rqli_batch_give(batch);
    return status;
}

static rql_status echo(struct crew *crew, const char *text)
{
    bool is_own;
    rql_status status = echo_times(crew, 1, text, strlen(text), &is_own);

    assert_true(is_own);
    return status;
}

static uint64_t generation_of(struct crew *crew)
{
    struct rqli_batch *batch = rqli_batch_take(crew->conn);
    uint64_t generation;

    write_echo(&batch->command, "which", 5);
    CHECK_OK(rqli_conn_run(batch, rqli_after_ms(rqli_now_us(), LONG_MS), NULL));
    generation = batch->generation;
    rqli_batch_give(batch);
    return generation;
}

/* Ends the connection that carries this batch. */
static void drop_connection(struct crew *crew)
{
    struct rqli_batch *batch = rqli_batch_take(crew->conn);

    write_echo(&batch->command, "drop", 4);
    CHECK_OK(rqli_conn_run(batch, rqli_after_ms(rqli_now_us(), LONG_MS), NULL));
    batch->drop(batch);
    rqli_batch_give(batch);
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

static void echo_once(struct crew *crew, size_t index, unsigned round, unsigned *dice)
{
    char text[TEXT_MAX + 20];
    size_t length = compose(text, index, round, dice);
    int64_t begun_us = rqli_now_us();
    bool is_own;
    rql_status status = echo_times(crew, rand_r(dice) % 8 == 0 ? 3 : 1, text, length, &is_own);

    note(crew, status, is_own, rqli_now_us() - begun_us);
}

static void echo_until_stopped(size_t index, void *data)
{
    struct crew *crew = data;
    unsigned dice = (unsigned)index + 1;

    for (unsigned i = 0; !crew->stop; i++) {
        echo_once(crew, index, i, &dice);
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

/* PING as fast as possible: whoever loses a wake-up, or leaves a batch without a reader, hangs
 * until the deadline. */
static void ping_rounds(size_t index, void *data)
{
    struct crew *crew = data;

    (void)index;
    for (int i = 0; i < 3 * ROUNDS; i++) {
        struct rqli_batch *batch = rqli_batch_take(crew->conn);
        int64_t begun_us = rqli_now_us();
        rql_status status;

        rqli_command_begin(&batch->command, 1);
        rqli_command_text(&batch->command, "PING");
        status = rqli_conn_run(batch, rqli_after_ms(begun_us, LONG_MS), NULL);
        note(crew, status, status || rqli_reply_says(batch->reply, "PONG"),
             rqli_now_us() - begun_us);
        rqli_batch_give(batch);
    }
}

TEST(no_reply_is_lost_between_readers_and_writers)
{
    static const size_t sizes[] = {2, 3, 5, 8, MANY};
    struct crew crew;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        join(&crew, server.url, LONG_MS);
        threads_run(sizes[i], ping_rounds, &crew);
        expect_all_ok(&crew, (int)sizes[i] * 3 * ROUNDS);
        /* No thread is kept writing or reading for the others. */
        assert_true(crew.slowest_us < 1000000 * wait_slowness());
        part(&crew);
    }
}

/* Every other thread gives up after no time at all. */
static void echo_in_a_hurry(size_t index, void *data)
{
    struct crew *all = data;
    struct crew *crew = &all[index % 2];
    unsigned dice = (unsigned)index + 1;
    char text[TEXT_MAX + 20];

    for (unsigned i = 0; i < ROUNDS; i++) {
        struct rqli_batch *batch = rqli_batch_take(all->conn);
        size_t length = compose(text, index, i, &dice);
        int64_t budget_us = index % 2 ? rand_r(&dice) % 300 : LONG_MS * 1000;
        rql_status status;

        write_echo(&batch->command, text, length);
        status = rqli_conn_run(batch, rqli_now_us() + budget_us, NULL);
        note(crew, status, status || answers(batch->reply, text, length), 0);
        rqli_batch_give(batch);
    }
}

TEST(impatient_callers_do_no_harm_to_patient_ones)
{
    struct crew crew[2];
    uint64_t generation;

    join(&crew[0], server.url, LONG_MS);
    join(&crew[1], server.url, LONG_MS);
    generation = generation_of(&crew[0]);
    threads_run(16, echo_in_a_hurry, crew);
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

    echo_once(crew, index, 0, &dice);
}

/* More than a socket takes, by a caller that does not mean to stay until it is read. */
static void echo_much_in_a_hurry(size_t index, void *data)
{
    struct crew *crew = data;
    struct rqli_batch *batch = rqli_batch_take(crew->conn);
    char *text = calloc(1, MUCH);
    rql_status status;

    (void)index;
    assert_non_null(text);
    write_echo(&batch->command, text, MUCH);
    status = rqli_conn_run(batch, rqli_now_us() + HASTE_US, NULL);
    note(crew, status, status || answers(batch->reply, text, MUCH), 0);
    rqli_batch_give(batch);
    free(text);
}

SERVED(a_hasty_writer_breaks_nothing_off)
{
    struct crew hasty;
    struct threads *threads[2];
    uint64_t generation;
    int64_t until_us;

    generation = generation_of(&our);
    hasty = our;
    redis_server_pause(&server);
    until_us = wait_clock_us() + 3 * HASTE_US;
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

SERVED(reply_of_a_caller_who_left_is_dropped)
{
    struct crew patient;
    struct threads *threads;
    uint64_t generation;

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

static bool has_failed(void *data)
{
    struct crew *crew = data;

    return crew->n_io >= 8;
}

/* SIGPIPE has its default disposition: raised once, it ends this program. */
SERVED(crash_and_restart_are_survived_with_pauses)
{
    struct threads *threads;
    int failures;

    (void)signal(SIGPIPE, SIG_DFL);
    threads = threads_start(8, echo_until_stopped, &our);
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

/* Two servers behind one name, at its addresses in their order, and a client of both. */
struct pair {
    struct redis_server servers[2];
    redisContext *raws[2];
    redisContext *before; /* raw of the fixture */
    char port[16];
    struct crew crew;
};

static void pair_start(struct pair *self)
{
    static const char *const replica[] = {"--bind",    "127.0.0.2", "--replicaof",
                                          "127.0.0.1", "1",         NULL};
    const char *const master[] = {"--bind", "127.0.0.3", "--port", self->port, NULL};
    char url[64];

    memset(self, 0, sizeof *self);
    self->before = raw;
    assert_int_equal(redis_server_start_tcp(&self->servers[0], replica), 0);
    (void)snprintf(self->port, sizeof self->port, "%d", self->servers[0].port);
    assert_int_equal(redis_server_start_with(&self->servers[1], master), 0);
    for (int i = 0; i < 2; i++) {
        self->raws[i] = redis_server_connect(&self->servers[i]);
        raw = self->raws[i];
        ask("CONFIG RESETSTAT");
    }
    (void)snprintf(url, sizeof url, "redis://several.test:%s", self->port);
    join(&self->crew, url, LONG_MS);
}

static void pair_stop(struct pair *self)
{
    part(&self->crew);
    raw = self->before;
    for (int i = 0; i < 2; i++) {
        redisFree(self->raws[i]);
        redis_server_stop(&self->servers[i]);
    }
}

static bool has_accepted(void *count)
{
    return info_of("stats", "total_connections_received") >= *(const int *)count;
}

/* Each connection made by now, to the first and to the second. A server that stood still may answer
 * before it accepts. */
static void check_connections(struct pair *self, int first, int second)
{
    int expected[] = {first, second};

    for (int i = 0; i < 2; i++) {
        raw = self->raws[i];
        assert_true(wait_until(has_accepted, &expected[i], LONG_MS));
        assert_int_equal(info_of("stats", "total_connections_received"), expected[i]);
    }
}

/* No other than the test's. */
static bool is_left_alone(void *data)
{
    (void)data;
    return info_of("clients", "connected_clients") == 1;
}

TEST(a_replica_that_comes_first_hides_no_master)
{
    struct pair pair;

    pair_start(&pair);
    CHECK_OK(echo(&pair.crew, "to the master"));
    assert_false(rqli_conn_was_read_only(pair.crew.conn));
    check_connections(&pair, 1, 1);
    drop_connection(&pair.crew);
    CHECK_OK(echo(&pair.crew, "the replica is remembered"));
    check_connections(&pair, 1, 2);
    drop_connection(&pair.crew);
    redis_server_kill(&pair.servers[1]);
    CHECK_OK(echo(&pair.crew, "better a replica than nothing"));
    assert_true(rqli_conn_was_read_only(pair.crew.conn));
    pair_stop(&pair);
}

TEST(of_two_replicas_the_first_is_used)
{
    struct pair pair;

    pair_start(&pair);
    raw = pair.raws[1];
    ask("REPLICAOF 127.0.0.1 1");
    CHECK_OK(echo(&pair.crew, "to the first"));
    assert_true(rqli_conn_was_read_only(pair.crew.conn));
    assert_true(wait_until(is_left_alone, NULL, LONG_MS));
    check_connections(&pair, 1, 1);
    pair_stop(&pair);
}

/* On a busy machine an attempt may be over before it has come to the server. */
TEST(a_silent_server_that_comes_first_costs_one_attempt)
{
    rql_error error = {0};
    struct pair pair;

    pair_start(&pair);
    redis_server_pause(&pair.servers[0]);
    pair.crew.session.connect_timeout_ms = 100;
    do {
        pair.crew.session.connect_timeout_ms *= 2;
        assert_int_equal(
            rqli_conn_connect(pair.crew.conn, rqli_after_ms(rqli_now_us(), LONG_MS), &error),
            RQL_E_IO);
    } while (!strstr(error.message, "(127.0.0.2)") && pair.crew.session.connect_timeout_ms < 2000);
    assert_non_null(strstr(error.message, "(127.0.0.2)"));
    pair.crew.session.connect_timeout_ms = LONG_MS;
    CHECK_OK(echo(&pair.crew, "to the other"));
    redis_server_resume(&pair.servers[0]);
    check_connections(&pair, 1, 1);
    pair_stop(&pair);
}

/* The first caller connects for all, and gives up soon; the second has time. */
SERVED(impatient_connecting_does_not_fail_the_patient)
{
    struct crew hasty = our;
    struct threads *threads[2];
    int n_open;

    redis_server_pause(&server);
    n_open = count_descriptors();
    hasty.deadline_ms = 300;
    threads[0] = threads_start(1, echo_as_told, &hasty);
    await_descriptors(n_open + 1);
    threads[1] = threads_start(4, echo_as_told, &our);
    threads_join(threads[0]);
    assert_int_equal(hasty.n_io, 1);
    redis_server_resume(&server);
    threads_join(threads[1]);
    expect_all_ok(&our, 4);
}

/* Nobody could connect, then somebody did: why it was not possible before is no news. */
SERVED(an_old_reason_is_not_told_again)
{
    rql_error error = {0};

    redis_server_hide(&server);
    assert_int_equal(rqli_conn_connect(our.conn, rqli_after_ms(rqli_now_us(), 50), &error),
                     RQL_E_IO);
    assert_non_null(strstr(error.message, "No such file"));
    redis_server_show(&server);
    CHECK_OK(echo(&our, "connected"));
    drop_connection(&our);
    assert_int_equal(rqli_conn_connect(our.conn, rqli_now_us(), &error), RQL_E_IO);
    assert_null(strstr(error.message, "No such file"));
}

FIXTURE(start_server, stop_server, NULL, NULL);
