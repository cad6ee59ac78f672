#include "fixture.h"

#include "lock/client.h"
#include "net/conn.h"

/* A server that is stopped for a while, and waiters that died without a word. */

enum {
    CROWD = 16,
    IMPATIENT_MS = 1000,
    GRACE_MS = 50,      /* after the deadline */
    SLACK_MS = 100,     /* of the machine */
    BULK_BYTES = 16000, /* of a request: a few of them are more than a socket takes */
    CALLS = 40,
    N_CALLERS = 4,
    BRIEF_MS = 20,
};

static rql_client *new_client_waiting(int64_t io_timeout_ms)
{
    rql_options options = client_options();

    options.io_timeout_ms = io_timeout_ms;
    return new_client_with(&options);
}

static bool ended_in_time(const struct waiter *waiter, int64_t begun_us)
{
    int64_t limit_ms = IMPATIENT_MS + (GRACE_MS + SLACK_MS) * wait_slowness();

    return waiter->ended_us - begun_us <= limit_ms * 1000;
}

static void expect_definite_end(struct waiter *waiter, int64_t begun_us)
{
    rql_status status = waiter_join(waiter);

    /* RQL_E_IO: it waited for others' answers, and was not sent (link.c). */
    if (status != RQL_E_UNKNOWN && status != RQL_TIMED_OUT && status != RQL_E_IO) {
        fail_msg("%s: %s", rql_status_text(status), waiter->error.message);
    }
    assert_int_equal(waiter->error.status, status < 0 ? status : 0);
    if (!ended_in_time(waiter, begun_us)) {
        fail_msg("after %lld us", (long long)(waiter->ended_us - begun_us));
    }
}

static void start_impatient(struct waiter *waiters, rql_client *client)
{
    for (size_t i = 0; i < CROWD; i++) {
        waiters[i] = (struct waiter){.client = client, .name = "x", .options = patient(client)};
        waiters[i].options.timeout_ms = IMPATIENT_MS;
        waiter_start(&waiters[i]);
    }
}

/* The server stops before the requests are sent, or when some of them are in the queue. */
static void stop_server_around_waiters(bool when_queued)
{
    rql_client *client = new_client_waiting(1000);
    rql_client *other = new_client();
    struct waiter waiters[CROWD];
    rql_lock *held = hold(other, "x");
    int64_t begun_us;

    CHECK_OK(rql_client_connect(client, NULL));
    if (!when_queued) {
        redis_server_pause(&server);
    }
    begun_us = wait_clock_us();
    start_impatient(waiters, client);
    if (when_queued) {
        await_int(1, "EVAL return(redis.call('zcard','rql:lock_queue:x')>0)and(1)or(0) 0");
        redis_server_pause(&server);
    }
    for (size_t i = 0; i < CROWD; i++) {
        expect_definite_end(&waiters[i], begun_us);
    }
    redis_server_resume(&server);
    await_int(0, "ZCARD rql:lock_queue:x");
    await_int(0, "HLEN rql:req:x");
    CHECK_OK(rql_lock_release(held, NULL));
    expect_nothing_left("x");
    rql_client_free(client);
    rql_client_free(other);
}

static void stopped_server_holds_up_no_call_beyond_its_deadline(void **state)
{
    (void)state;
    stop_server_around_waiters(true);
    stop_server_around_waiters(false);
}

static void one_try_at_a_stopped_server_ends_with_its_withdrawal(void **state)
{
    rql_client *client = new_client_waiting(1000);
    rql_lock_options options = patient(client);
    int64_t best_us = INT64_MAX;

    (void)state;
    CHECK_OK(rql_client_connect(client, NULL));
    options.timeout_ms = 0;
    redis_server_pause(&server);
    for (int i = 0; i < 3; i++) {
        rql_lock *lock = NULL;
        rql_error error = {0};
        int64_t begun_us = wait_clock_us();
        int64_t took_us;

        assert_int_equal(rql_lock_acquire(client, "x", &options, &lock, &error), RQL_E_UNKNOWN);
        assert_int_equal(error.status, RQL_E_UNKNOWN);
        took_us = wait_clock_us() - begun_us;
        best_us = took_us < best_us ? took_us : best_us;
    }
    redis_server_resume(&server);
    expect_nothing_left("x");
    assert_true(best_us <= (GRACE_MS + 30) * 1000 * wait_slowness());
    rql_client_free(client);
}

static char bulk[BULK_BYTES];
static const rql_meta meta = {"bulk", bulk};

/* A request of many bytes. */
static rql_lock_options bulky(const rql_client *client, int64_t timeout_ms)
{
    rql_lock_options options = patient(client);

    options.meta = &meta;
    options.n_meta = 1;
    options.timeout_ms = timeout_ms;
    return options;
}

/* What was sent in part goes on where it stopped: all is done on the connection that there was. */
static void expect_the_same_connection(rql_client *client)
{
    CHECK_OK(rql_lock_release(hold(client, "z"), NULL));
    expect_nothing_left("y");
    assert_int_equal(rqli_conn_counts(client->conn).connections, 1);
}

/* Many calls, one after the other: what they leave behind fills the socket. */
struct caller {
    rql_client *client;
    pthread_t thread;
    int n_late;
    int n_answered;
};

static void *call_and_call(void *data)
{
    struct caller *self = data;
    rql_lock_options options = bulky(self->client, BRIEF_MS);

    for (int i = 0; i < CALLS; i++) {
        int64_t limit_us = (BRIEF_MS + (GRACE_MS + SLACK_MS) * wait_slowness()) * 1000;
        int64_t begun_us = wait_clock_us();
        rql_lock *lock = NULL;

        self->n_answered +=
            rql_lock_acquire(self->client, "y", &options, &lock, NULL) != RQL_E_UNKNOWN;
        self->n_late += wait_clock_us() - begun_us > limit_us;
    }
    return NULL;
}

static void expect_calls_in_time(rql_client *client, size_t n_callers)
{
    struct caller callers[N_CALLERS];

    memset(bulk, 'x', sizeof bulk - 1);
    for (size_t i = 0; i < n_callers; i++) {
        callers[i] = (struct caller){.client = client};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call_and_call, &callers[i]), 0);
    }
    for (size_t i = 0; i < n_callers; i++) {
        assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
        assert_int_equal(callers[i].n_late, 0);
        assert_int_equal(callers[i].n_answered, 0);
    }
}

static void who_writes_for_others_ends_by_its_own_deadline(void **state)
{
    rql_client *client = new_client_waiting(60000);
    struct waiter lasting = {.client = client, .name = "x", .options = patient(client)};

    (void)state;
    CHECK_OK(rql_client_connect(client, NULL));
    redis_server_pause(&server);
    waiter_start(&lasting);
    expect_calls_in_time(client, N_CALLERS);
    redis_server_resume(&server);
    CHECK_OK(waiter_join(&lasting));
    CHECK_OK(rql_lock_release(lasting.lock, NULL));
    expect_the_same_connection(client);
    rql_client_free(client);
}

static void who_is_alone_with_a_full_socket_ends_by_its_deadline(void **state)
{
    rql_client *client = new_client_waiting(60000);

    (void)state;
    CHECK_OK(rql_client_connect(client, NULL));
    redis_server_pause(&server);
    expect_calls_in_time(client, 1);
    redis_server_resume(&server);
    expect_the_same_connection(client);
    rql_client_free(client);
}

static void a_look_at_a_stopped_server_ends_in_time(void **state)
{
    rql_client *client = new_client_waiting(60000);
    rql_lock_options options = patient(client);
    int64_t begun_us;

    (void)state;
    CHECK_OK(rql_client_connect(client, NULL));
    options.timeout_ms = IMPATIENT_MS;
    redis_server_pause(&server);
    begun_us = wait_clock_us();
    assert_true(rql_check_until_free(client, "x", &options, NULL) < 0);
    assert_true(wait_clock_us() - begun_us <=
                (IMPATIENT_MS + (GRACE_MS + SLACK_MS) * wait_slowness()) * 1000);
    redis_server_resume(&server);
    rql_client_free(client);
}

static void stop_for_a_moment_is_a_delay(void **state)
{
    rql_client *client = new_client();
    rql_client *other = new_client();
    struct waiter waiter = {.client = other, .name = "x", .options = patient(other)};
    rql_lock *held = hold(client, "x");
    struct waiter newcomer = {.client = client, .name = "y", .options = patient(client)};

    (void)state;
    waiter_start_as(&waiter, 1);
    newcomer.releases = true;
    redis_server_pause(&server);
    waiter_start(&newcomer);
    redis_server_resume(&server);
    CHECK_OK(waiter_join(&newcomer));
    assert_int_equal(newcomer.tries, 1);
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&waiter));
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
    expect_nothing_left("x");
    rql_client_free(client);
    rql_client_free(other);
}

/* For longer than anybody waits: connections are given up, and what they carried is done late. */
static void stop_for_longer_than_the_silence_allowed_costs_no_grant(void **state)
{
    rql_client *client = new_client_waiting(150);
    struct waiter waiter = {.client = client, .name = "x", .options = patient(client)};
    rql_lock *held = hold(client, "y");
    rql_error error = {0};

    (void)state;
    redis_server_pause(&server);
    waiter_start(&waiter);
    assert_int_equal(rql_lock_verify(held, &error), RQL_E_UNKNOWN);
    redis_server_resume(&server);
    CHECK_OK(waiter_join(&waiter));
    assert_int_equal(waiter.token, ask_int("HGET rql:lock:x rql_token"));
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
    CHECK_OK(rql_lock_release(held, NULL));
    expect_nothing_left("x");
    expect_nothing_left("y");
    rql_client_free(client);
}

static void wait_alone(void)
{
    rql_client *own = new_client();
    rql_lock_options options = patient(own);
    rql_lock *lock = NULL;

    (void)!rql_lock_acquire(own, "x", &options, &lock, NULL);
    (void)pause();
}

/* An operator listens to all channels: publishing to the dead looks like being heard. */
static void grant_to_the_dead_is_not_lost_for_long(void **state)
{
    rql_client *client = new_client();
    struct waiter live = {.client = client, .name = "x", .options = patient(client)};
    redisContext *listener = redis_server_connect(&server);
    rql_lock *held = hold(client, "x");
    int64_t begun_us;
    pid_t child = start_child(wait_alone);

    (void)state;
    freeReplyObject(redisCommand(listener, "PSUBSCRIBE rql:wake:*"));
    await_int(1, "ZCARD rql:lock_queue:x");
    live.options.task = 1;
    waiter_start_as(&live, 2);
    kill_child(child);
    begun_us = wait_clock_us();
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&live));
    /* The claim time, or the live one's next heartbeat, whichever is later. */
    if (live.ended_us - begun_us > (1667 + SLACK_MS) * 1000 * wait_slowness()) {
        fail_msg("after %lld us", (long long)(live.ended_us - begun_us));
    }
    CHECK_OK(rql_lock_release(live.lock, NULL));
    redisFree(listener);
    rql_client_free(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, empty_server)
        TEST(stopped_server_holds_up_no_call_beyond_its_deadline),
        TEST(one_try_at_a_stopped_server_ends_with_its_withdrawal),
        TEST(who_writes_for_others_ends_by_its_own_deadline),
        TEST(who_is_alone_with_a_full_socket_ends_by_its_deadline),
        TEST(a_look_at_a_stopped_server_ends_in_time),
        TEST(stop_for_a_moment_is_a_delay),
        TEST(stop_for_longer_than_the_silence_allowed_costs_no_grant),
        TEST(grant_to_the_dead_is_not_lost_for_long),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
