#include "check.h"

#include "base/clock.h"
#include "link/endpoint.h"
#include "link/links.h"
#include "redis_server.h"
#include "threads.h"
#include "wait.h"

#include <string.h>

/* Which of its connections a client uses. Callers are busy with BLPOP, and end when there is
 * something to pop. */

enum { LONG_MS = 20000 };

static struct redis_server server;
static redisContext *raw;

static struct rqli_endpoint endpoint;
static struct rqli_links links;

static struct caller {
    struct rqli_link *link;
    struct threads *threads;
    unsigned others; /* on the same connection */
    rql_status status;
} callers[RQLI_LINKS + 1];

static size_t n_callers;

static int start_server(void **state)
{
    (void)state;
    redis_server_start(&server);
    raw = redis_server_connect(&server);
    return 0;
}

static int stop_server(void **state)
{
    (void)state;
    redisFree(raw);
    redis_server_stop(&server);
    return 0;
}

static void ask(const char *command, int number)
{
    redisReply *reply = redisCommand(raw, command, number);

    assert_non_null(reply);
    assert_int_not_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
}

static int set_up(void **state)
{
    (void)state;
    ask("FLUSHALL", 0);
    memset(&endpoint, 0, sizeof endpoint);
    CHECK_OK(rqli_endpoint_parse(&endpoint, server.url, NULL));
    endpoint.connect_timeout_ms = LONG_MS;
    endpoint.io_timeout_ms = LONG_MS;
    endpoint.identity = "00112233445566778899aabbccddeeff";
    memset(&links, 0, sizeof links);
    assert_true(rqli_links_init(&links, &endpoint));
    n_callers = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rqli_links_fini(&links);
    rqli_endpoint_fini(&endpoint);
    return 0;
}

static void pop(size_t index, void *data)
{
    struct caller *caller = data;
    struct rqli_exchange *exchange = rqli_exchange_take(caller->link);

    (void)index;
    rqli_command_begin(&exchange->command, 3);
    rqli_command_text(&exchange->command, "BLPOP");
    rqli_command_text(&exchange->command, "end");
    rqli_command_text(&exchange->command, "0");
    caller->status = rqli_exchange_run(exchange, rqli_after_ms(rqli_now_us(), LONG_MS), NULL);
    rqli_exchange_give(exchange);
}

static bool is_busy(void *data)
{
    const struct caller *caller = data;

    return rqli_link_callers(caller->link) > caller->others;
}

static void call_by(struct rqli_link *link)
{
    struct caller *caller = &callers[n_callers++];

    caller->link = link;
    caller->others = rqli_link_callers(link);
    caller->threads = threads_start(1, pop, caller);
    assert_true(wait_until(is_busy, caller, LONG_MS));
}

static void end_callers(void)
{
    for (size_t i = 0; i < n_callers; i++) {
        ask("RPUSH end %d", (int)i);
    }
    for (size_t i = 0; i < n_callers; i++) {
        threads_join(callers[i].threads);
        CHECK_OK(callers[i].status);
    }
    n_callers = 0;
}

static int64_t count_connections(void)
{
    return rqli_links_counts(&links).connections;
}

static void few_callers_have_a_connection_each(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < RQLI_LINKS; i++) {
            struct rqli_link *chosen = rqli_links_choose(&links);

            assert_ptr_equal(chosen, links.link[i]);
            call_by(chosen);
        }
        assert_ptr_equal(rqli_links_choose(&links), links.link[0]);
        end_callers();
        assert_int_equal(count_connections(), RQLI_LINKS);
        links.none_before_us = 0;
    }
}

static void one_caller_needs_one(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) {
        call_by(rqli_links_choose(&links));
        end_callers();
    }
    assert_int_equal(count_connections(), 1);
}

/* As many at once as there could be, but on one connection: more would come to nothing. */
static void many_callers_share_the_first(void **state)
{
    (void)state;
    for (size_t i = 0; i < RQLI_LINKS; i++) {
        call_by(links.link[0]);
    }
    assert_ptr_equal(rqli_links_choose(&links), links.link[0]);
    assert_true(links.none_before_us > 0); /* nor a moment later */
    end_callers();
    assert_int_equal(count_connections(), 1);
}

/* Who spins does so while it is alone, and has to know. */
static void who_spins_shares_the_first(void **state)
{
    (void)state;
    endpoint.spin_us = 10;
    call_by(links.link[0]);
    assert_ptr_equal(rqli_links_choose(&links), links.link[0]);
    end_callers();
}

/* F-70: it is tried once, and costs nobody his command. */
static void full_server_leaves_the_first(void **state)
{
    (void)state;
    call_by(links.link[0]);
    ask("CONFIG SET maxclients %d", 2); /* raw, and the first */
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(rqli_links_choose(&links), links.link[0]);
    }
    ask("CONFIG SET maxclients %d", 1000);
    assert_ptr_equal(rqli_links_choose(&links), links.link[0]); /* not at once again */
    links.none_before_us = 0;
    assert_ptr_equal(rqli_links_choose(&links), links.link[1]);
    end_callers();
    assert_int_equal(count_connections(), 2);
}

/* F-77: what was idle for a minute may have been closed on the way. */
static void long_idle_connection_is_opened_anew(void **state)
{
    (void)state;
    call_by(links.link[0]);
    assert_ptr_equal(rqli_links_choose(&links), links.link[1]);
    assert_ptr_equal(rqli_links_choose(&links), links.link[1]);
    assert_int_equal(count_connections(), 2);
    links.chosen_us[1] = rqli_now_us() - 60000000;
    assert_ptr_equal(rqli_links_choose(&links), links.link[1]);
    assert_int_equal(count_connections(), 3);
    call_by(links.link[1]);
    links.chosen_us[1] = rqli_now_us() - 60000000;
    rqli_link_drop_idle(links.link[1]); /* it is not */
    end_callers();
    assert_int_equal(count_connections(), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(few_callers_have_a_connection_each), TEST(one_caller_needs_one),
        TEST(many_callers_share_the_first),       TEST(who_spins_shares_the_first),
        TEST(full_server_leaves_the_first),       TEST(long_idle_connection_is_opened_anew),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
