/* The tools of the tests do what their headers say, where no other test would notice. The proxy has
 * a test of its own. */

#include "unit.h"

#include "redis_server.h"
#include "threads.h"
#include "wait.h"

#include <stdatomic.h>

enum { SOON_MS = 5000, THREADS = 8 };

/* Does the server answer a GET with this? */
static bool answers(const struct redis_server *server, const char *expected)
{
    redisContext *context = redis_server_connect(server);
    redisReply *reply = context ? redisCommand(context, "GET a") : NULL;
    const char *text = reply && reply->str ? reply->str : "nil";
    bool is_so = reply && strncmp(text, expected, strlen(expected)) == 0;

    freeReplyObject(reply);
    redisFree(context);
    return is_so;
}

TEST(a_server_comes_back_as_it_was_started_or_not_at_all)
{
    static const char *const good[] = {"--requirepass", "secret", NULL};
    static const char *const bad[] = {"--no-such-option", "1", NULL};
    struct redis_server server;

    if (!redis_server_available()) {
        skip();
    }
    assert_int_equal(redis_server_start_with(&server, good), 0);
    assert_true(answers(&server, "NOAUTH"));
    redis_server_kill(&server);
    assert_false(answers(&server, ""));
    assert_int_equal(redis_server_restart(&server), 0);
    assert_true(answers(&server, "NOAUTH"));
    redis_server_stop(&server);
    assert_int_equal(redis_server_start_with(&server, bad), -1);
    assert_int_equal(server.pid, 0);
    assert_string_equal(server.dir, "");
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

TEST(threads_run_together)
{
    struct crowd crowd = {0};

    threads_run(THREADS, meet, &crowd);
    assert_int_equal(atomic_load(&crowd.met), THREADS);
}

TEST(waiting_ends_when_its_time_is_over)
{
    struct crowd nobody = {0};
    int64_t began_us = wait_clock_us();

    assert_false(wait_until(all_are_inside, &nobody, 5));
    assert_true(wait_clock_us() - began_us >= 5000);
}
