/* The tools of the tests do what their headers say. The proxy has a test of its own. */

#include "check.h"

#include "proxy.h"
#include "redis_server.h"
#include "threads.h"
#include "wait.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { SOON_MS = 5000, QUIET_MS = 30, THREADS = 8 };

static int start_server(void **state)
{
    struct redis_server *server = calloc(1, sizeof *server);

    assert_non_null(server);
    *state = server;
    return redis_server_available() ? redis_server_start(server) : 0;
}

static int stop_server(void **state)
{
    redis_server_stop(*state);
    free(*state);
    return 0;
}

static void need_server(void)
{
    if (!redis_server_available()) {
        skip();
    }
}

/* The text of the reply, in memory that the next call reuses; "" when there is none. */
static const char *ask(const struct redis_server *server, const char *command)
{
    static char text[256];
    redisContext *context = redis_server_connect(server);
    redisReply *reply = context ? redisCommand(context, command) : NULL;

    text[0] = '\0';
    if (reply && reply->str) {
        (void)snprintf(text, sizeof text, "%s", reply->str);
    }
    if (reply) {
        freeReplyObject(reply);
    }
    if (context) {
        redisFree(context);
    }
    return text;
}

static void a_killed_server_comes_back_empty_on_its_socket(void **state)
{
    struct redis_server *server = *state;

    need_server();
    assert_string_equal(ask(server, "SET a b"), "OK");
    redis_server_kill(server);
    assert_null(redis_server_connect(server));
    assert_int_equal(redis_server_restart(server), 0);
    assert_string_equal(ask(server, "GET a"), "");
}

static void flush_removes_all_keys(void **state)
{
    struct redis_server *server = *state;

    need_server();
    assert_string_equal(ask(server, "SET a b"), "OK");
    assert_int_equal(redis_server_flush(server), 0);
    assert_string_equal(ask(server, "GET a"), "");
}

static void a_paused_server_answers_after_it_was_resumed(void **state)
{
    const struct redis_server *server = *state;
    redisContext *context;
    redisReply *reply;
    int sent = 0;

    need_server();
    context = redis_server_connect(server);
    assert_non_null(context);
    redis_server_pause(server);
    assert_int_equal(redisAppendCommand(context, "PING"), REDIS_OK);
    while (!sent) {
        assert_int_equal(redisBufferWrite(context, &sent), REDIS_OK);
    }
    assert_false(wait_readable(context->fd, QUIET_MS));
    redis_server_resume(server);
    assert_int_equal(redisGetReply(context, (void **)&reply), REDIS_OK);
    assert_string_equal(reply->str, "PONG");
    freeReplyObject(reply);
    redisFree(context);
}

static void arguments_reach_the_server_and_survive_a_restart(void **state)
{
    static const char *const arguments[] = {"--requirepass", "secret", NULL};
    struct redis_server server;

    (void)state;
    need_server();
    assert_int_equal(redis_server_start_with(&server, arguments), 0);
    assert_int_equal(strncmp(ask(&server, "GET a"), "NOAUTH", 6), 0);
    redis_server_shutdown(&server);
    assert_int_equal(redis_server_restart(&server), 0);
    assert_int_equal(strncmp(ask(&server, "GET a"), "NOAUTH", 6), 0);
    redis_server_stop(&server);
}

static void a_wrong_argument_fails_the_start_and_leaves_nothing(void **state)
{
    static const char *const arguments[] = {"--no-such-option", "1", NULL};
    struct redis_server server;

    (void)state;
    need_server();
    assert_int_equal(redis_server_start_with(&server, arguments), -1);
    assert_int_equal(server.pid, 0);
    assert_string_equal(server.dir, "");
}

static void a_tcp_server_listens_on_its_port_and_its_socket(void **state)
{
    struct redis_server server;
    redisContext *context;
    char url[64];

    (void)state;
    need_server();
    assert_int_equal(redis_server_start_tcp(&server, NULL), 0);
    (void)snprintf(url, sizeof url, "redis://127.0.0.1:%d", server.port);
    assert_string_equal(server.url, url);
    context = redisConnect("127.0.0.1", server.port);
    assert_int_equal(context->err, 0);
    redisFree(context);
    assert_string_equal(ask(&server, "PING"), "PONG");
    redis_server_stop(&server);
}

static void a_lost_reply_of_a_real_server_leaves_its_effect(void **state)
{
    const struct redis_server *server = *state;
    struct proxy *proxy;
    redisContext *context;

    need_server();
    proxy = proxy_start(server->socket_path);
    context = redisConnectUnix(proxy_socket_path(proxy));
    assert_int_equal(context->err, 0);
    proxy_cut_reply(proxy, 1);
    assert_null(redisCommand(context, "SET a b"));
    assert_string_equal(ask(server, "GET a"), "b");
    redisFree(context);
    proxy = proxy_stop(proxy);
    assert_null(proxy);
}

struct crowd {
    atomic_size_t inside;
    atomic_size_t met; /* how many threads saw all the others */
};

static bool all_are_inside(void *data)
{
    struct crowd *crowd = data;

    return atomic_load(&crowd->inside) == THREADS;
}

static void meet(size_t index, void *data)
{
    struct crowd *crowd = data;

    (void)index;
    (void)atomic_fetch_add(&crowd->inside, 1);
    if (wait_until(all_are_inside, crowd, SOON_MS)) {
        (void)atomic_fetch_add(&crowd->met, 1);
    }
}

static void threads_run_together(void **state)
{
    struct crowd crowd = {0};

    (void)state;
    threads_run(THREADS, meet, &crowd);
    assert_int_equal(atomic_load(&crowd.met), THREADS);
}

static bool never(void *data)
{
    (void)data;
    return false;
}

static void waiting_ends_when_its_time_is_over(void **state)
{
    int64_t began_us = wait_clock_us();

    (void)state;
    assert_false(wait_until(never, NULL, 5));
    assert_true(wait_clock_us() - began_us >= 5000);
}

#define ON_A_SERVER(test) cmocka_unit_test_setup_teardown(test, start_server, stop_server)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_A_SERVER(a_killed_server_comes_back_empty_on_its_socket),
        ON_A_SERVER(flush_removes_all_keys),
        ON_A_SERVER(a_paused_server_answers_after_it_was_resumed),
        ON_A_SERVER(a_lost_reply_of_a_real_server_leaves_its_effect),
        cmocka_unit_test(arguments_reach_the_server_and_survive_a_restart),
        cmocka_unit_test(a_wrong_argument_fails_the_start_and_leaves_nothing),
        cmocka_unit_test(a_tcp_server_listens_on_its_port_and_its_socket),
        cmocka_unit_test(threads_run_together),
        cmocka_unit_test(waiting_ends_when_its_time_is_over),
    };

    return cmocka_run_group_tests_name("support", tests, NULL, NULL);
}
