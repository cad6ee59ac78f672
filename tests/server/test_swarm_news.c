#include "swarm_fixture.h"

#include "proxy.h"
#include "tape.h"

/* What a swarm tells: a log line and an event each, and what it counts. */

#define DEAD_HOST "rql:hst:90001/1/3/ffffffffffffff01"
#define DEAD_ACQUIRER "rql:acq:90001/1/2/3/ffffffffffffff01"

static struct tape tape;
static rql_client *told;

/* Sampling would leave out nearly all: news of a swarm are not sampled. */
static rql_options told_options(void)
{
    rql_options options = client_options();

    options.logger = tape_log;
    options.logger_data = &tape;
    options.instrumenter = tape_event;
    options.instrumenter_data = &tape;
    options.log_sampling_enabled = true;
    options.log_sampling_percent = 0;
    options.instr_sampling_enabled = true;
    options.instr_sampling_percent = 0;
    return options;
}

static int set_up_tape(void **state)
{
    rql_options options = told_options();

    (void)set_up(state);
    tape_init(&tape);
    told = new_client_with(&options);
    return 0;
}

static int tear_down_tape(void **state)
{
    told = rql_client_free(told);
    return tear_down(state);
}

static rql_stats stats_of(rql_client *of)
{
    rql_stats stats;

    CHECK_OK(rql_client_stats(of, &stats));
    return stats;
}

static void check_both(const char *name)
{
    char event[TAPE_NAME_SIZE];

    (void)snprintf(event, sizeof event, "! %s", name);
    tape_check(&tape, name);
    tape_check(&tape, event);
}

static void plant_dead(void)
{
    raw_host(DEAD_HOST, 100);
    raw_lock("x", DEAD_ACQUIRER, DEAD_HOST);
    raw_lock("y", DEAD_ACQUIRER, DEAD_HOST);
    ask("ZADD rql:lock_queue:z 1 " DEAD_ACQUIRER);
}

static void check_flushed(const rql_event *event)
{
    assert_string_equal(event->name, "rql.swarm_zombies_flushed");
    assert_int_equal(event->status, RQL_OK);
    assert_int_equal(event->host_cnt, 1);
    assert_int_equal(event->rel_key_cnt, 2);
    assert_int_equal(event->rem_request_cnt, 1);
    assert_int_equal(event->handed_over_cnt, 0);
    assert_true(event->rel_time_us >= 0);
}

static void flusher_tells_what_it_does(void **state)
{
    rql_swarm *swarm;

    (void)state;
    plant_dead();
    swarm = flusher_of(told);
    tape_await(&tape, RQL_EVENT_SWARM_ZOMBIES_FLUSHED);
    rql_swarm_free(swarm);
    check_both("swarm_flusher_elected");
    check_both("swarm_zombies_flushed");
    check_both("swarm_flusher_retired");
    tape_check_end(&tape);
    check_flushed(&tape.events[RQL_EVENT_SWARM_ZOMBIES_FLUSHED].event);
    assert_int_equal(stats_of(told).zombie_hosts, 1);
    assert_int_equal(stats_of(told).zombie_locks, 2);
    assert_int_equal(stats_of(told).zombie_requests, 1);
    assert_int_equal(stats_of(told).zombie_hand_overs, 0);
    assert_int_equal(stats_of(told).swarm_failures, 0);
}

static void flush_by_hand_is_told_as_well(void **state)
{
    (void)state;
    plant_dead();
    CHECK_OK(rql_flush_zombies(told, NULL, NULL, NULL));
    check_both("swarm_zombies_flushed");
    CHECK_OK(rql_flush_zombies(told, NULL, NULL, NULL));
    tape_check_end(&tape);
    check_flushed(&tape.events[RQL_EVENT_SWARM_ZOMBIES_FLUSHED].event);
    assert_true(pthread_equal(tape.events[RQL_EVENT_SWARM_ZOMBIES_FLUSHED].thread, pthread_self()));
    assert_int_equal(stats_of(told).zombie_locks, 2);
}

static void breaker_tells_of_an_outage_once(void **state)
{
    const rql_event *opened = &tape.events[RQL_EVENT_SWARM_BREAKER_OPENED].event;
    struct proxy *proxy = proxy_start(server.socket_path);
    rql_swarm_options options = quick(told);
    rql_swarm *swarm;

    (void)state;
    options.flush_zombies = false;
    options.probe_url = proxy_url(proxy);
    swarm = swarm_with(told, &options);
    CHECK_OK(rql_lock_release(hold(told, "x"), NULL));
    await_hosts(1);
    tape.n_checked = tape.n_names; /* of the lock */
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    tape_await(&tape, RQL_EVENT_SWARM_BREAKER_OPENED);
    proxy_heal(proxy);
    tape_await(&tape, RQL_EVENT_SWARM_BREAKER_CLOSED);
    rql_swarm_free(swarm);
    check_both("swarm_breaker_opened");
    check_both("swarm_breaker_closed");
    assert_string_equal(opened->element, "probe_hosts");
    assert_true(opened->status < 0);
    assert_true(stats_of(told).swarm_failures >= 3);
    assert_true(stats_of(told).probes >= 2);
    proxy_stop(proxy);
}

static void host_that_was_declared_dead_is_told(void **state)
{
    rql_swarm *swarm = prober_of(told);
    char host[RQL_ID_SIZE];

    (void)state;
    CHECK_OK(rql_lock_release(hold(told, "x"), NULL));
    await_hosts(1);
    ask("HDEL rql:swarm:hsts %s", rql_current_host_id(told, host));
    tape_await(&tape, RQL_EVENT_SWARM_HOSTS_DECLARED_DEAD);
    rql_swarm_free(swarm);
    assert_int_equal(tape.events[RQL_EVENT_SWARM_HOSTS_DECLARED_DEAD].event.host_cnt, 1);
    assert_int_equal(stats_of(told).hosts_declared_dead, 1);
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

/* Hangs in the middle of the flusher's step, and with it the loop that the swarm lives on. */
static void hang_when_elected(const rql_event *event, void *user_data)
{
    if (event->kind == RQL_EVENT_SWARM_FLUSHER_ELECTED) {
        (void)pthread_mutex_lock(&gate);
        (void)pthread_mutex_unlock(&gate);
    }
    tape_event(event, user_data);
}

static bool hangs(void *data)
{
    rql_swarm_status status;

    CHECK_OK(rql_get_swarm_status(data, &status, NULL));
    return status.flush_zombies.state == RQL_ELEMENT_HUNG;
}

static bool works_again(void *data)
{
    rql_swarm_status status;

    CHECK_OK(rql_get_swarm_status(data, &status, NULL));
    return status.flush_zombies.state == RQL_ELEMENT_RUNNING && status.flush_zombies.restarts == 1;
}

static void element_that_hangs_is_replaced(void **state)
{
    rql_options client_settings = told_options();
    rql_client *own;
    rql_swarm *swarm;

    (void)state;
    client_settings.instrumenter = hang_when_elected;
    client_settings.connect_timeout_ms = 200; /* what a step may take follows from these */
    client_settings.io_timeout_ms = 200;
    own = new_client_with(&client_settings);
    (void)pthread_mutex_lock(&gate);
    swarm = flusher_of(own);
    assert_true(wait_until(hangs, own, AWAIT_MS));
    assert_int_equal(tape.events[RQL_EVENT_SWARM_ELEMENT_HUNG].count, 0); /* it holds up the loop */
    (void)pthread_mutex_unlock(&gate);
    tape_await(&tape, RQL_EVENT_SWARM_ELEMENT_HUNG);
    tape_await(&tape, RQL_EVENT_SWARM_ELEMENT_RESTARTED);
    assert_true(wait_until(works_again, own, AWAIT_MS));
    assert_string_equal(tape.events[RQL_EVENT_SWARM_ELEMENT_HUNG].event.element, "flush_zombies");
    assert_int_equal(stats_of(own).swarm_restarts, 1);
    plant_dead();
    await_hosts(0);
    rql_swarm_free(swarm);
    rql_client_free(own);
}

static rql_swarm *stopped_by_itself;

static void stop_when_elected(const rql_event *event, void *user_data)
{
    if (event->kind == RQL_EVENT_SWARM_FLUSHER_ELECTED) {
        (void)pthread_mutex_lock(&gate); /* until it is known which swarm it is */
        (void)pthread_mutex_unlock(&gate);
        rql_swarm_stop(stopped_by_itself);
    }
    tape_event(event, user_data);
}

/* It cannot wait for itself. */
static void listener_may_stop_its_swarm(void **state)
{
    rql_options client_settings = told_options();
    rql_client *own;

    (void)state;
    client_settings.instrumenter = stop_when_elected;
    own = new_client_with(&client_settings);
    (void)pthread_mutex_lock(&gate);
    stopped_by_itself = swarm_of(own);
    (void)pthread_mutex_unlock(&gate);
    tape_await(&tape, RQL_EVENT_SWARM_FLUSHER_RETIRED);
    rql_swarm_free(stopped_by_itself);
    assert_int_equal(ask_int("EXISTS rql:swarm:flusher"), 0);
    rql_client_free(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_tape, tear_down_tape)
        TEST(flusher_tells_what_it_does),      TEST(flush_by_hand_is_told_as_well),
        TEST(breaker_tells_of_an_outage_once), TEST(host_that_was_declared_dead_is_told),
        TEST(element_that_hangs_is_replaced),  TEST(listener_may_stop_its_swarm),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
