#include "async_fixture.h"

/* Behind a Ruby the server is asked to tell of changes of the lock, on the client's subscriber. */

#define RUBY_ACQUIRER "rql:acq:90001/1/2/3/ffffffffffffff01"
#define RUBY_HOST "rql:hst:90001/1/3/ffffffffffffff01"

enum { LINE_START_SIZE = 32 };

static int set_up_behind_ruby(void **state)
{
    int failed = set_up_loop(state);

    ask("HSET rql:lock:x acq_id " RUBY_ACQUIRER " hst_id " RUBY_HOST " ts 1.5 ini_ttl 60000");
    ask("PEXPIRE rql:lock:x 60000");
    return failed;
}

/* Among the rows of CLIENT LIST. */
static bool has_client(const char *rows, int64_t id)
{
    char start[LINE_START_SIZE];
    const char *at = rows;

    (void)snprintf(start, sizeof start, "id=%lld ", (long long)id);
    while (at && strncmp(at, start, strlen(start)) != 0) {
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    return at != NULL;
}

/* Whom it tells, if that connection is there; else 0. */
static int64_t who_is_told(void)
{
    redisReply *reply = ask_reply("CLIENT LIST");
    const char *at = strstr(reply->str, " redir=");
    int64_t id = 0;

    for (; at && id == 0; at = strstr(at + 1, " redir=")) {
        id = strtoll(at + strlen(" redir="), NULL, 10);
        id = id > 0 && has_client(reply->str, id) ? id : 0;
    }
    freeReplyObject(reply);
    return id;
}

/* Another than the one before, which is noted. */
static bool tells_another(void *before)
{
    int64_t id = who_is_told();

    if (id <= *(int64_t *)before) {
        return false;
    }
    *(int64_t *)before = id;
    return true;
}

/* It asks seldom, and would not know for long. */
static rql_lock_options seldom(void)
{
    rql_lock_options options = patient(client);

    options.retry_delay_ms = 3600000;
    return options;
}

static void a_thread_is_told_on_each_new_subscriber(void **state)
{
    struct waiter waiter = {.client = client, .name = "x", .options = seldom()};
    int64_t told_id = 0;

    (void)state;
    waiter_start_as(&waiter, 1);
    for (int i = 0; i < 3; i++) {
        assert_true(wait_until(tells_another, &told_id, AWAIT_MS));
        ask("CLIENT KILL TYPE pubsub");
    }
    ask("DEL rql:lock:x");
    CHECK_OK(waiter_join(&waiter));
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
}

static bool loop_tells_another(const void *unused)
{
    static int64_t told_id;

    (void)unused;
    return tells_another(&told_id);
}

static void a_loop_is_told_on_each_new_subscriber(void **state)
{
    static struct asked asked; /* outlives a failure */

    (void)state;
    asked = (struct asked){.options = seldom()};
    start_asking(&asked, "x");
    for (int i = 0; i < 3; i++) {
        run_until(loop_tells_another, NULL);
        ask("CLIENT KILL TYPE pubsub");
    }
    ask("DEL rql:lock:x");
    await_asked(&asked);
    CHECK_OK(asked.status);
    CHECK_OK(release_and_wait(asked.lock));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_behind_ruby, tear_down_loop)
        TEST(a_thread_is_told_on_each_new_subscriber),
        TEST(a_loop_is_told_on_each_new_subscriber),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
