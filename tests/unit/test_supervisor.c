#include "check.h"

#include "lock/hosts.h"
#include "supervise.h"
#include "swarm.h"

/* An element as its supervisor sees it, and the hosts of a client. No thread, no clock. */

enum { HANG = 100, LEAST = 10, MOST = 50 };

static const struct rqli_watch_terms terms = {
    .hang_us = HANG, .failures_max = 3, .open_least_us = LEAST, .open_most_us = MOST};

static struct rqli_watch running(void)
{
    struct rqli_watch watch;

    rqli_watch_init(&watch, &terms);
    rqli_watch_on_started(&watch);
    return watch;
}

static void step(struct rqli_watch *watch, int64_t now_us, bool succeeds)
{
    assert_true(rqli_watch_may_step(watch, now_us));
    rqli_watch_on_step(watch, now_us);
    rqli_watch_on_done(watch, now_us, succeeds);
}

static void element_that_works_is_left_alone(void **state)
{
    struct rqli_watch watch = running();

    (void)state;
    for (int64_t now = 0; now < 1000; now += 20) {
        step(&watch, now, true);
        assert_int_equal(rqli_watch_look(&watch, now + 10), RQLI_WATCH_NOTHING);
    }
    assert_int_equal(watch.steps, 50);
    assert_int_equal(watch.state, RQL_ELEMENT_RUNNING);
    assert_int_equal(rqli_watch_look(&watch, 1000000), RQLI_WATCH_NOTHING);
}

static void dead_element_is_started_again(void **state)
{
    struct rqli_watch watch = running();

    (void)state;
    rqli_watch_on_ended(&watch, false);
    assert_int_equal(watch.state, RQL_ELEMENT_DEAD);
    assert_int_equal(rqli_watch_look(&watch, 0), RQLI_WATCH_START);
    assert_int_equal(rqli_watch_look(&watch, 1), RQLI_WATCH_START);
    rqli_watch_on_started(&watch);
    assert_int_equal(rqli_watch_look(&watch, 2), RQLI_WATCH_NOTHING);
    assert_int_equal(watch.restarts, 2);
    rqli_watch_on_ended(&watch, true);
    assert_int_equal(watch.state, RQL_ELEMENT_OFF);
    assert_int_equal(rqli_watch_look(&watch, 3), RQLI_WATCH_NOTHING);
}

static void step_without_a_sign_hangs(void **state)
{
    struct rqli_watch watch = running();

    (void)state;
    rqli_watch_on_step(&watch, 0);
    assert_int_equal(rqli_watch_look(&watch, HANG), RQLI_WATCH_NOTHING);
    rqli_watch_on_sign(&watch, 50);
    assert_int_equal(rqli_watch_look(&watch, 50 + HANG), RQLI_WATCH_NOTHING);
    assert_int_equal(rqli_watch_look(&watch, 51 + HANG), RQLI_WATCH_REPLACE);
    assert_int_equal(watch.state, RQL_ELEMENT_HUNG);
    assert_int_equal(rqli_watch_look(&watch, 52 + HANG), RQLI_WATCH_NOTHING);
    rqli_watch_on_done(&watch, 60 + HANG, true);
    assert_int_equal(watch.state, RQL_ELEMENT_RUNNING);
    rqli_watch_on_ended(&watch, false);
    assert_int_equal(rqli_watch_look(&watch, 61 + HANG), RQLI_WATCH_START);
}

static void breaker_opens_and_tries_one_step(void **state)
{
    struct rqli_watch watch = running();

    (void)state;
    step(&watch, 0, false);
    step(&watch, 1, false);
    assert_int_equal(watch.breaker, RQL_BREAKER_CLOSED);
    step(&watch, 2, false);
    assert_int_equal(watch.breaker, RQL_BREAKER_OPEN);
    assert_false(rqli_watch_may_step(&watch, 1 + LEAST));
    assert_true(rqli_watch_may_step(&watch, 2 + LEAST));
    assert_int_equal(watch.breaker, RQL_BREAKER_HALF_OPEN);
    step(&watch, 20, true);
    assert_int_equal(watch.breaker, RQL_BREAKER_CLOSED);
    assert_int_equal(watch.failures, 3);
    step(&watch, 21, false);
    assert_int_equal(watch.breaker, RQL_BREAKER_CLOSED);
}

static void breaker_stays_open_for_longer_up_to_a_limit(void **state)
{
    static const int64_t expected_us[] = {LEAST, 20, 40, MOST, MOST};
    struct rqli_watch watch = running();
    int64_t now_us = 0;

    (void)state;
    step(&watch, now_us, false);
    step(&watch, now_us, false);
    for (size_t i = 0; i < sizeof expected_us / sizeof expected_us[0]; i++) {
        step(&watch, now_us, false);
        assert_int_equal(watch.open_until_us - now_us, expected_us[i]);
        now_us = watch.open_until_us;
    }
    step(&watch, now_us, true);
    step(&watch, now_us, false);
    step(&watch, now_us, false);
    step(&watch, now_us, false);
    assert_int_equal(watch.open_until_us - now_us, LEAST);
}

static void the_dead_are_looked_for_often_enough(void **state)
{
    (void)state;
    assert_int_equal(rqli_flush_look_ms(15000, 10000), 3750);
    assert_int_equal(rqli_flush_look_ms(15000, 2000), 1000);
    assert_int_equal(rqli_flush_look_ms(1, 1), 1);
    for (int64_t ttl = 4; ttl < 200; ttl += 3) {
        for (int64_t period = 2; period < 200; period += 3) {
            int64_t look = rqli_flush_look_ms(ttl, period);

            /* Seen at half the ttl and one look, judged half a ttl and one look later. */
            assert_true(ttl + 2 * look <= ttl + period + 1);
        }
    }
}

static bool all_live(pid_t thread)
{
    (void)thread;
    return true;
}

static bool even_live(pid_t thread)
{
    return thread % 2 == 0;
}

static void expect_plan(struct rqli_hosts *hosts, enum rqli_hosts_who who, bool (*lives)(pid_t),
                        const size_t counts[3])
{
    struct rqli_hosts_plan plan;

    assert_true(rqli_hosts_plan(hosts, who, lives, &plan));
    assert_int_equal(plan.n_new, counts[0]);
    assert_int_equal(plan.n_known, counts[1]);
    assert_int_equal(plan.n_leaving, counts[2]);
    rqli_hosts_apply(hosts, &plan);
    rqli_hosts_plan_fini_p(&plan);
}

static void hosts_come_and_go(void **state)
{
    struct rqli_hosts *hosts = rqli_hosts_new();

    (void)state;
    rqli_hosts_meet(hosts, 1);
    expect_plan(hosts, RQLI_HOSTS_ALL, all_live, (size_t[]){0, 0, 0});
    rqli_hosts_open(hosts, NULL, NULL);
    for (pid_t thread = 40; thread > 0; thread--) {
        rqli_hosts_meet(hosts, thread);
        rqli_hosts_meet(hosts, thread);
    }
    expect_plan(hosts, RQLI_HOSTS_NEW, even_live, (size_t[]){20, 0, 0});
    assert_int_equal(rqli_hosts_known(hosts), 20);
    rqli_hosts_meet(hosts, 3);
    expect_plan(hosts, RQLI_HOSTS_NEW, all_live, (size_t[]){1, 0, 0});
    expect_plan(hosts, RQLI_HOSTS_ALL, even_live, (size_t[]){0, 20, 1});
    rqli_hosts_add(hosts, 7, true);
    expect_plan(hosts, RQLI_HOSTS_ALL, even_live, (size_t[]){1, 20, 0});
    rqli_hosts_add(hosts, 7, true);
    expect_plan(hosts, RQLI_HOSTS_HOLDERS, all_live, (size_t[]){0, 1, 20});
    expect_plan(hosts, RQLI_HOSTS_NONE, all_live, (size_t[]){0, 0, 1});
    assert_int_equal(rqli_hosts_count(hosts), 0);
    rqli_hosts_free(hosts);
}

/* An answer that was lost: the server may have had the host, and given it up. */
static void host_that_is_told_twice_is_counted(void **state)
{
    struct rqli_hosts *hosts = rqli_hosts_new();
    struct rqli_hosts_plan plan;

    (void)state;
    rqli_hosts_open(hosts, NULL, NULL);
    rqli_hosts_meet(hosts, 5);
    for (size_t i = 0; i < 2; i++) {
        assert_true(rqli_hosts_plan(hosts, RQLI_HOSTS_NEW, all_live, &plan));
        assert_int_equal(plan.n_new, 1);
        assert_int_equal(plan.n_retried, i);
        rqli_hosts_plan_fini_p(&plan);
    }
    rqli_hosts_free(hosts);
}

/* The number of a thread that has ended may be that of a new one, met while the old one leaves. */
static void host_that_is_met_while_it_leaves_comes_back(void **state)
{
    struct rqli_hosts *hosts = rqli_hosts_new();
    struct rqli_hosts_plan plan;

    (void)state;
    rqli_hosts_open(hosts, NULL, NULL);
    rqli_hosts_meet(hosts, 5);
    expect_plan(hosts, RQLI_HOSTS_ALL, all_live, (size_t[]){1, 0, 0});
    assert_true(rqli_hosts_plan(hosts, RQLI_HOSTS_ALL, even_live, &plan));
    assert_int_equal(plan.n_leaving, 1);
    rqli_hosts_meet(hosts, 5);
    rqli_hosts_apply(hosts, &plan);
    rqli_hosts_plan_fini_p(&plan);
    expect_plan(hosts, RQLI_HOSTS_ALL, all_live, (size_t[]){1, 0, 0});
    rqli_hosts_free(hosts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(element_that_works_is_left_alone),
        cmocka_unit_test(dead_element_is_started_again),
        cmocka_unit_test(step_without_a_sign_hangs),
        cmocka_unit_test(breaker_opens_and_tries_one_step),
        cmocka_unit_test(breaker_stays_open_for_longer_up_to_a_limit),
        cmocka_unit_test(the_dead_are_looked_for_often_enough),
        cmocka_unit_test(hosts_come_and_go),
        cmocka_unit_test(host_that_is_told_twice_is_counted),
        cmocka_unit_test(host_that_is_met_while_it_leaves_comes_back),
    };

    return cmocka_run_group_tests_name("supervisor", tests, NULL, NULL);
}
