#include "async_fixture.h"

#include <semaphore.h>

/* A swarm that lives on a loop of the caller. */

enum {
    ZOMBIE_TTL_MS = 1000,
    FLUSH_PERIOD_MS = 400,
    PROBE_PERIOD_MS = 100,
    SLOWNESS_MAX = 5,
    HELD_UP_MS = 100
};

/* Of the times that are lived through, not only allowed for: a stall must not make tests last. */
static int64_t swarm_slowness(void)
{
    return wait_slowness() < SLOWNESS_MAX ? wait_slowness() : SLOWNESS_MAX;
}

static rql_swarm *swarm_with(rql_client *of, const rql_swarm_options *options)
{
    rql_swarm *swarm = NULL;
    rql_error error = {0};

    if (rql_swarm_start(of, options, &swarm, &error)) {
        fail_msg("%s", error.message);
    }
    return swarm;
}

static rql_swarm_status status_of(rql_client *of)
{
    rql_swarm_status status;

    CHECK_OK(rql_swarm_get_status(of, &status, NULL));
    return status;
}

#define DEAD_HOST "rql:hst:90001/1/3/ffffffffffffff01"
#define DEAD_ACQUIRER "rql:acq:90001/1/2/3/ffffffffffffff01"

static bool closed;

static void set_up_uv(void)
{
    make_clients();
    closed = false;
    loop = NULL;
    uv_owner = pthread_self();
    CHECK_OK(uv_loop_init(&uv));
    CHECK_OK(uv_timer_init(&uv, &budget));
}

static rql_swarm_options options_on_loop(const rql_client *of)
{
    rql_swarm_options options;

    rql_swarm_options_init(of, &options);
    options.liveness_probing_period_ms = 100;
    options.probe_period_ms = PROBE_PERIOD_MS;
    options.zombie_ttl_ms = ZOMBIE_TTL_MS * swarm_slowness();
    options.zombie_flush_period_ms = FLUSH_PERIOD_MS * swarm_slowness();
    options.loop = &uv;
    options.closed = on_closed;
    options.closed_data = &closed;
    return options;
}

static rql_swarm *swarm_on_loop(rql_client *of)
{
    rql_swarm_options options = options_on_loop(of);

    return swarm_with(of, &options);
}

static bool flusher_is_off(const void *data)
{
    (void)data;
    return status_of(client).flush_zombies.state == RQL_ELEMENT_OFF;
}

static void free_on_loop(rql_swarm *swarm)
{
    closed = false;
    assert_null(rql_swarm_free(swarm));
    assert_false(closed);
    run_until(is_true, &closed);
    assert_false(status_of(client).probe_hosts.enabled);
}

TEST(swarm_lives_on_a_loop_of_the_caller)
{
    rql_swarm *swarm = swarm_on_loop(client);
    rql_lock *lock = hold(client, "x");

    assert_int_equal(ask_int("HLEN rql:swarm:hsts"), 0); /* the loop has not run yet */
    run_until_int(1, "HLEN rql:swarm:hsts");
    ask("HSET rql:swarm:hsts " DEAD_HOST " 1795254268.5");
    ask("HSET rql:lock:y acq_id " DEAD_ACQUIRER " hst_id " DEAD_HOST " ts 1.5 ini_ttl 86400000");
    ask("PEXPIRE rql:lock:y 86400000");
    run_until_int(0, "HEXISTS rql:swarm:hsts " DEAD_HOST);
    assert_int_equal(ask_int("EXISTS rql:lock:y"), 0);
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 1);
    assert_true(status_of(client).is_flusher);
    assert_int_equal(status_of(client).hosts, 1);
    rql_swarm_stop(swarm);
    assert_false(status_of(client).is_running);
    assert_int_equal(ask_int("EXISTS rql:swarm:flusher"), 1); /* it waits for nothing */
    run_until(flusher_is_off, NULL);
    assert_int_equal(ask_int("EXISTS rql:swarm:flusher"), 0);
    ask("DEL rql:swarm:hsts");
    run_until_int(1, "HLEN rql:swarm:hsts"); /* it goes on for who holds a lock */
    CHECK_OK(rql_lock_release(lock, NULL));
    run_until_int(0, "HLEN rql:swarm:hsts");
    free_on_loop(swarm);
}

/* No run of the loop, no heartbeat; and nothing that waits for one. */
TEST(swarm_on_a_loop_that_stands_still_is_freed_when_it_goes_on)
{
    rql_swarm *swarm = swarm_on_loop(client);

    CHECK_OK(rql_lock_release(hold(client, "x"), NULL));
    run_until_int(1, "HLEN rql:swarm:hsts");
    rql_swarm_stop(swarm);
    assert_null(rql_swarm_free(swarm));
    assert_int_equal(ask_int("HLEN rql:swarm:hsts"), 1);
    assert_false(closed);
    assert_int_equal(uv_loop_close(&uv), UV_EBUSY);
    run_until(is_true, &closed);
    assert_int_equal(ask_int("HLEN rql:swarm:hsts"), 0);
}

TEST(swarm_whose_loop_has_never_run_can_be_freed)
{
    free_on_loop(swarm_on_loop(client));
    assert_int_equal(ask_int("EXISTS rql:swarm:flusher"), 0);
    free_on_loop(swarm_on_loop(client));
}

TEST(swarm_that_cannot_start_leaves_nothing_on_the_loop)
{
    rql_swarm_options options = options_on_loop(client);
    rql_swarm *second = NULL;
    rql_swarm *first;

    options.loop = NULL;
    options.closed = NULL;
    first = swarm_with(client, &options);
    options = options_on_loop(client);
    assert_int_equal(rql_swarm_start(client, &options, &second, NULL), RQL_E_BUSY);
    assert_true(status_of(client).is_running);
    rql_swarm_free(first);
    options.flush_url = "nonsense";
    assert_int_equal(rql_swarm_start(client, &options, &second, NULL), RQL_E_INVALID);
    assert_false(uv_loop_alive(&uv));
    assert_false(closed);
}

static void close_client(void *data)
{
    rql_client **own = data;

    *own = rql_client_free(*own);
}

static bool is_gone(const void *data)
{
    return *(rql_client *const *)data == NULL;
}

TEST(client_may_be_freed_when_its_swarm_is_closed)
{
    rql_client *own = new_client();
    rql_swarm_options options = options_on_loop(own);
    rql_swarm *swarm;

    options.closed = close_client;
    options.closed_data = &own;
    swarm = swarm_with(own, &options);
    CHECK_OK(rql_lock_release(hold(own, "x"), NULL));
    run_until_int(1, "HLEN rql:swarm:hsts");
    rql_swarm_free(swarm);
    run_until(is_gone, &own);
    assert_int_equal(ask_int("HLEN rql:swarm:hsts"), 0);
}

static bool probe_fails(const void *data)
{
    (void)data;
    return status_of(client).probe_hosts.breaker != RQL_BREAKER_CLOSED;
}

static bool probe_works(const void *data)
{
    (void)data;
    return status_of(client).probe_hosts.breaker == RQL_BREAKER_CLOSED;
}

static void cut_off(void)
{
    redis_server_hide(&server);
    ask("CLIENT KILL TYPE normal SKIPME yes");
}

TEST(outage_ends_on_a_loop_of_the_caller_as_well)
{
    rql_swarm *swarm = swarm_on_loop(client);
    rql_lock *lock;

    CHECK_OK(rql_lock_release(hold(client, "x"), NULL));
    run_until_int(1, "HLEN rql:swarm:hsts");
    cut_off();
    run_until(probe_fails, NULL);
    redis_server_show(&server);
    run_until(probe_works, NULL);
    cut_off();
    free_on_loop(swarm); /* without a goodbye: its host stays, and nobody counts it as dead here */
    assert_int_equal(ask_int("HLEN rql:swarm:hsts"), 1);
    redis_server_show(&server);
    lock = hold(client, "x");
    assert_true(rql_lock_remaining_ms(lock) > ZOMBIE_TTL_MS * SLOWNESS_MAX);
    CHECK_OK(rql_lock_release(lock, NULL));
}

/* Two listeners in one: it holds up the prober until that hangs, and stops the swarm then. */
struct holding_up {
    rql_client *client;
    rql_swarm *swarm;
    atomic_int n_hung;
};

static bool prober_hangs(void *data)
{
    return status_of(data).probe_hosts.state == RQL_ELEMENT_HUNG;
}

static void hold_up(const rql_event *event, void *data)
{
    struct holding_up *self = data;

    if (event->kind == RQL_EVENT_SWARM_HOSTS_DECLARED_DEAD) {
        assert_true(wait_until(prober_hangs, self->client, AWAIT_MS));
    } else if (event->kind == RQL_EVENT_SWARM_ELEMENT_HUNG) {
        self->n_hung++;
        rql_swarm_stop(self->swarm);
    }
}

static bool has_hung(void *data)
{
    return ((struct holding_up *)data)->n_hung > 0;
}

/* The supervisor, which looks too seldom here, is over before it could start the prober again. The
 * prober hangs each time that the server has lost its hosts: the first time stops the swarm. */
TEST(holder_stays_a_host_if_its_swarm_is_stopped_while_its_prober_hangs)
{
    struct holding_up held = {0};
    rql_options made = client_options();
    rql_swarm_options options;
    rql_lock *lock;

    made.io_timeout_ms = made.connect_timeout_ms = HELD_UP_MS * swarm_slowness();
    made.instrumenter = hold_up;
    made.instrumenter_data = &held;
    held.client = new_client_with(&made);
    options = options_on_loop(held.client);
    options.loop = NULL;
    options.closed = NULL;
    options.liveness_probing_period_ms = 60000;
    options.zombie_ttl_ms *= 60;
    held.swarm = swarm_with(held.client, &options);
    lock = hold(held.client, "x");
    await_int(1, "HLEN rql:swarm:hsts");
    for (int i = 1; i <= 3; i++) {
        held.n_hung = 0;
        ask("DEL rql:swarm:hsts");
        assert_true(wait_until(has_hung, &held, AWAIT_MS));
    }
    CHECK_OK(rql_lock_release(lock, NULL));
    await_int(0, "HLEN rql:swarm:hsts");
    rql_swarm_free(held.swarm);
    rql_client_free(held.client);
}

static void note_closed(void *data)
{
    *(bool *)data = true;
}

static bool is_off(void *data)
{
    return flusher_is_off(data);
}

/* A thread that starts a swarm on its loop, and runs that when it may. */
struct host {
    rql_swarm_options options;
    rql_swarm *swarm;
    rql_status started;
    sem_t has_started;
    sem_t may_run;
    int left;
};

static void *start_and_run(void *data)
{
    struct host *host = data;

    host->started = rql_swarm_start(client, &host->options, &host->swarm, NULL);
    (void)sem_post(&host->has_started);
    (void)sem_wait(&host->may_run);
    host->left = uv_run(&uv, UV_RUN_DEFAULT);
    return NULL;
}

static pthread_t start_host(struct host *host)
{
    pthread_t thread;

    *host = (struct host){.options = options_on_loop(client), .left = -1};
    host->options.closed = note_closed;
    (void)sem_init(&host->has_started, 0, 0);
    (void)sem_init(&host->may_run, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, start_and_run, host), 0);
    (void)sem_wait(&host->has_started);
    assert_int_equal(host->started, RQL_OK);
    return thread;
}

/* Nothing but the swarm keeps the loop going, from its start until it is freed. */
TEST(swarm_is_stopped_from_another_thread)
{
    struct host host;
    pthread_t thread = start_host(&host);

    (void)sem_post(&host.may_run);
    CHECK_OK(rql_lock_release(hold(client, "x"), NULL));
    await_int(1, "HLEN rql:swarm:hsts");
    rql_swarm_stop(host.swarm);
    assert_true(wait_until(is_off, NULL, AWAIT_MS));
    await_int(0, "HLEN rql:swarm:hsts");
    rql_swarm_free(host.swarm);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(host.left, 0);
    assert_true(closed);
}

TEST(no_thread_waits_for_a_loop_that_stands_still)
{
    struct host host;
    pthread_t thread = start_host(&host);

    rql_swarm_stop(host.swarm);
    rql_swarm_free(host.swarm);
    assert_false(closed);
    (void)sem_post(&host.may_run);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(host.left, 0);
    assert_true(closed);
}

FIXTURE(start_server, stop_server, set_up_uv, tear_down_loop);
