#include "fixture.h"

#include <stdatomic.h>

/* How a holder may hear that its lock has ended: a callback that releases it, a descriptor. */

enum { TTL_MS = 900 };

struct loss {
    atomic_int told;
    atomic_int state; /* as the callback saw it */
    bool releases;
    atomic_int release_status;
};

static rql_client *client;
static struct loss loss;

static int set_up(void **state)
{
    (void)state;
    ask("FLUSHALL");
    client = new_client();
    loss = (struct loss){0};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    client = rql_client_free(client);
    return 0;
}

static void on_lost(rql_lock *lock, void *user_data)
{
    struct loss *self = user_data;

    atomic_store(&self->state, (int)rql_lock_get_state(lock));
    if (self->releases) {
        atomic_store(&self->release_status, (int)rql_lock_release(lock, NULL));
    }
    atomic_fetch_add(&self->told, 1);
}

static bool is_told(void *self)
{
    return atomic_load(&((struct loss *)self)->told) > 0;
}

static rql_lock_options watched(bool auto_extend)
{
    rql_lock_options options = patient(client);

    options.ttl_ms = TTL_MS;
    options.auto_extend = auto_extend;
    options.on_lost = on_lost;
    options.user_data = &loss;
    return options;
}

static void the_callback_may_release_the_lock(void **state)
{
    rql_lock_options options = watched(true);

    (void)state;
    loss.releases = true;
    (void)hold_with(client, "x", &options);
    ask("DEL rql:lock:x");
    assert_true(wait_until(is_told, &loss, AWAIT_MS));
    assert_int_equal(atomic_load(&loss.state), RQL_GONE);
    assert_int_equal(atomic_load(&loss.release_status), RQL_NOT_HELD);
    options.on_lost = NULL;
    CHECK_OK(rql_lock_release(hold_with(client, "x", &options), NULL));
    client = rql_client_free(client);
    assert_int_equal(atomic_load(&loss.told), 1);
}

struct fd_case {
    bool auto_extend;
    const char *end; /* or NULL: by its ttl */
};

static void the_descriptor_becomes_readable(void **state)
{
    static const struct fd_case cases[] = {{true, "DEL rql:lock:x"}, {false, NULL}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rql_lock_options options = watched(cases[i].auto_extend);
        rql_lock *lock;
        int fd = -1;

        options.on_lost = NULL;
        lock = hold_with(client, "x", &options);
        CHECK_OK(rql_lock_lost_fd(lock, &fd, NULL));
        assert_true(fd >= 0);
        assert_false(wait_readable(fd, 0));
        if (cases[i].end) {
            ask("%s", cases[i].end);
        }
        assert_true(wait_readable(fd, AWAIT_MS));
        assert_int_equal(rql_lock_get_state(lock), RQL_GONE);
        CHECK_OK(rql_lock_lost_fd(lock, &fd, NULL)); /* asked for again: still readable */
        assert_true(wait_readable(fd, 0));
        await_int(0, "EXISTS rql:lock:x");
        assert_int_equal(rql_lock_release(lock, NULL), RQL_NOT_HELD);
    }
}

static void a_descriptor_asked_for_late_is_readable(void **state)
{
    rql_lock_options options = watched(true);
    rql_lock *lock = hold_with(client, "x", &options);
    int fd = -1;

    (void)state;
    ask("DEL rql:lock:x");
    assert_true(wait_until(is_told, &loss, AWAIT_MS));
    CHECK_OK(rql_lock_lost_fd(lock, &fd, NULL));
    assert_true(wait_readable(fd, AWAIT_MS));
    assert_int_equal(rql_lock_release(lock, NULL), RQL_NOT_HELD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(the_callback_may_release_the_lock),
        TEST(the_descriptor_becomes_readable),
        TEST(a_descriptor_asked_for_late_is_readable),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
