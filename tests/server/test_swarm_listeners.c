#include "swarm_fixture.h"

#include <stdatomic.h>

/* Listeners of a swarm's news that hold it up, or end it. They run within its steps. */

#define DEAD_HOST "rql:hst:90001/1/3/ffffffffffffff01"

enum { KINDS = RQL_EVENT_SWARM_ZOMBIES_FLUSHED + 1 };

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static atomic_int told[KINDS];
static atomic_bool is_the_flusher; /* the element that was told of last as hung */
static rql_swarm *stopped_by_itself;

static int set_up_counts(void **state)
{
    for (size_t i = 0; i < KINDS; i++) {
        told[i] = 0;
    }
    return set_up(state);
}

static bool is_told(void *kind)
{
    return told[*(rql_event_kind *)kind] > 0;
}

static void await_told(rql_event_kind kind)
{
    assert_true(wait_until(is_told, &kind, AWAIT_MS));
}

static rql_client *listening_client(void (*listener)(const rql_event *event, void *user_data))
{
    rql_options options = client_options();

    options.instrumenter = listener;
    options.connect_timeout_ms = 200; /* what a step may take follows from these */
    options.io_timeout_ms = 200;
    return new_client_with(&options);
}

static void pass_gate(void)
{
    (void)pthread_mutex_lock(&gate);
    (void)pthread_mutex_unlock(&gate);
}

/* Hangs in the middle of the flusher's step, and with it the loop that the swarm lives on. */
static void hang_when_elected(const rql_event *event, void *user_data)
{
    (void)user_data;
    if (event->kind == RQL_EVENT_SWARM_FLUSHER_ELECTED) {
        pass_gate();
    }
    if (event->kind == RQL_EVENT_SWARM_ELEMENT_HUNG) {
        is_the_flusher = strcmp(event->element, "flush_zombies") == 0;
    }
    told[event->kind]++;
}

static bool hangs(void *data)
{
    return status_of(data).flush_zombies.state == RQL_ELEMENT_HUNG;
}

static bool works_again(void *data)
{
    rql_swarm_status status = status_of(data);

    return status.flush_zombies.state == RQL_ELEMENT_RUNNING && status.flush_zombies.restarts == 1;
}

static void element_that_hangs_is_replaced(void **state)
{
    rql_client *own = listening_client(hang_when_elected);
    rql_stats stats;
    rql_swarm *swarm;

    (void)state;
    (void)pthread_mutex_lock(&gate);
    swarm = flusher_of(own);
    assert_true(wait_until(hangs, own, AWAIT_MS));
    assert_int_equal(told[RQL_EVENT_SWARM_ELEMENT_HUNG], 0); /* it holds up the loop */
    (void)pthread_mutex_unlock(&gate);
    await_told(RQL_EVENT_SWARM_ELEMENT_HUNG);
    await_told(RQL_EVENT_SWARM_ELEMENT_RESTARTED);
    assert_true(wait_until(works_again, own, AWAIT_MS));
    assert_true(is_the_flusher);
    CHECK_OK(rql_client_stats(own, &stats));
    assert_int_equal(stats.swarm_restarts, 1);
    raw_host(DEAD_HOST, 100);
    await_hosts(0);
    rql_swarm_free(swarm);
    rql_client_free(own);
}

static void stop_when_elected(const rql_event *event, void *user_data)
{
    (void)user_data;
    if (event->kind == RQL_EVENT_SWARM_FLUSHER_ELECTED) {
        pass_gate(); /* until it is known which swarm it is */
        rql_swarm_stop(stopped_by_itself);
    }
    told[event->kind]++;
}

/* It cannot wait for itself. */
static void listener_may_stop_its_swarm(void **state)
{
    rql_client *own = listening_client(stop_when_elected);

    (void)state;
    (void)pthread_mutex_lock(&gate);
    stopped_by_itself = swarm_of(own);
    (void)pthread_mutex_unlock(&gate);
    await_told(RQL_EVENT_SWARM_FLUSHER_RETIRED);
    rql_swarm_free(stopped_by_itself);
    assert_int_equal(ask_int("EXISTS rql:swarm:flusher"), 0);
    rql_client_free(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_counts, tear_down)
        TEST(element_that_hangs_is_replaced),
        TEST(listener_may_stop_its_swarm),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
