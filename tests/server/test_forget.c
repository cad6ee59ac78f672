#include "fixture.h"

#include "proxy.h"

#include <semaphore.h>

/* What a holder leaves behind, and what it may believe: the rest of a ttl, and the end of a lock.
 */

enum { LONG_MS = 60000, CLAIMED_MS = 5000, SOON_US = 400000, ROUNDS_MAX = 100 };

static struct proxy *proxy;
static rql_client *client; /* through the proxy */
static rql_client *other;

static int set_up(void **state)
{
    rql_options options = client_options();

    (void)state;
    ask("FLUSHALL");
    proxy = proxy_start(server.socket_path);
    options.url = proxy_url(proxy);
    client = new_client_with(&options);
    other = new_client();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    client = rql_client_free(client);
    other = rql_client_free(other);
    proxy = proxy_stop(proxy);
    return 0;
}

/* Handed over to the client; it lives for a second from *released_us on, unless it is claimed. */
static rql_lock *let_hand_over(const rql_lock_options *options, int64_t *released_us)
{
    rql_lock *held = hold(other, "x");
    struct waiter waiter = {.client = client, .name = "x", .options = *options};

    waiter_start_as(&waiter, 1);
    await_int(1, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0");
    *released_us = wait_clock_us();
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&waiter));
    return waiter.lock;
}

static void cut_its_command(void)
{
    proxy_cut_after(proxy, PROXY_UP, 0);
}

/* Nor can the background thread connect at first. */
static void cut_all(void)
{
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
}

static void keep_client(void)
{
}

/* At once: what is still to be done is done first. */
static void free_client(void)
{
    client = rql_client_free(client);
}

/* False: this machine was too slow, and the second over. */
static bool forget_badly(void (*fault)(void), void (*then)(void))
{
    const rql_lock_options options = patient(client);
    int64_t released_us;
    rql_lock *lock = let_hand_over(&options, &released_us);

    fault();
    assert_null(rql_lock_forget(lock));
    proxy_heal(proxy);
    if (wait_clock_us() - released_us > SOON_US) {
        ask("FLUSHALL");
        return false;
    }
    then();
    await_int(1, "EVAL return(redis.call('pttl','rql:lock:x')>%d)and(1)or(0) 0", CLAIMED_MS);
    assert_in_range(ask_int("PTTL rql:lock:x"), CLAIMED_MS, LONG_MS);
    return true;
}

static void a_claim_that_is_lost_is_repeated(void **state)
{
    static void (*const faults[])(void) = {cut_its_command, cut_all};
    static void (*const endings[])(void) = {keep_client, free_client};

    for (size_t i = 0; i < 4; i++) {
        int rounds = 0;

        print_message("# fault %zu, ending %zu\n", i / 2, i % 2);
        while (!forget_badly(faults[i / 2], endings[i % 2])) {
            assert_true(++rounds < ROUNDS_MAX);
        }
        (void)tear_down(state);
        (void)set_up(state);
    }
}

/* The owner of a lock that was forgotten is told nothing of it. */
static void on_lost(rql_lock *lock, void *data)
{
    (void)lock;
    *(bool *)data = true;
}

static void nobody_is_told_of_what_was_forgotten(void **state)
{
    rql_lock_options options = patient(client);
    bool is_told = false;
    int64_t released_us;
    rql_lock *lock;

    (void)state;
    options.ttl_ms = 3000; /* of which a slow machine may have claimed all */
    options.on_lost = on_lost;
    options.user_data = &is_told;
    options.auto_extend = true;
    lock = let_hand_over(&options, &released_us);
    cut_all();
    assert_null(rql_lock_forget(lock));
    is_told = false; /* before, it may have been */
    await_int(0, "EXISTS rql:lock:x");
    client = rql_client_free(client);
    assert_false(is_told);
}

struct outcome_of_extension {
    rql_status status;
    sem_t told;
};

static void on_extended(rql_status status, const rql_error *error, void *data)
{
    struct outcome_of_extension *self = data;

    (void)error;
    self->status = status;
    (void)sem_post(&self->told);
}

static rql_status extend_on_loop(rql_lock *lock)
{
    struct outcome_of_extension outcome = {.status = RQL_OK};
    const rql_done done = {on_extended, &outcome};
    rql_loop *loop = NULL;

    assert_int_equal(sem_init(&outcome.told, 0, 0), 0);
    CHECK_OK(rql_loop_open(&loop, client, NULL, NULL));
    CHECK_OK(rql_extend_async(loop, lock, LONG_MS, &done, NULL));
    while (sem_wait(&outcome.told) != 0) {
    }
    CHECK_OK(rql_loop_close(loop, NULL, NULL, NULL));
    (void)sem_destroy(&outcome.told);
    return outcome.status;
}

static bool is_gone(void *lock)
{
    return rql_lock_get_state(lock) == RQL_GONE;
}

/* Somebody lets it live on, and its holder does not know: it goes by its own clock. */
static void what_is_gone_is_not_extended(void **state)
{
    rql_lock_options options = patient(client);
    rql_lock *lock;

    (void)state;
    options.ttl_ms = 1000;
    lock = hold_with(client, "x", &options);
    ask("PEXPIRE rql:lock:x %d", LONG_MS);
    assert_true(wait_until(is_gone, lock, AWAIT_MS));
    assert_int_equal(rql_lock_extend(lock, 2 * LONG_MS, NULL), RQL_NOT_HELD);
    assert_int_equal(extend_on_loop(lock), RQL_NOT_HELD);
    assert_int_equal(rql_lock_get_state(lock), RQL_GONE);
    assert_int_equal(rql_lock_remaining_ms(lock), 0);
    assert_in_range(ask_int("PTTL rql:lock:x"), 1, LONG_MS);
    CHECK_OK(rql_lock_release(lock, NULL));
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
}

static bool is_series_gone(void *series)
{
    return rql_series_get_state(series) == RQL_GONE;
}

static void a_series_that_is_gone_is_not_extended(void **state)
{
    static const char *const names[] = {"x", "y"};
    rql_lock_options options = patient(client);
    rql_series_options wanted;
    rql_series *series = NULL;

    (void)state;
    options.ttl_ms = 1000;
    rql_series_options_init(&wanted);
    wanted.names = names;
    wanted.n_names = 2;
    wanted.lock = &options;
    CHECK_OK(rql_series_acquire(client, &wanted, &series, NULL));
    ask("PEXPIRE rql:lock:x %d", LONG_MS);
    ask("PEXPIRE rql:lock:y %d", LONG_MS);
    assert_true(wait_until(is_series_gone, series, AWAIT_MS));
    assert_int_equal(rql_series_extend(series, LONG_MS, NULL), RQL_NOT_HELD);
    assert_int_equal(rql_series_get_state(series), RQL_GONE);
    CHECK_OK(rql_series_release(series, NULL, NULL));
}

/* It goes while the answer is on its way. */
static void an_extension_that_comes_too_late_is_none(void **state)
{
    rql_lock_options options = patient(client);
    rql_lock *lock;

    (void)state;
    options.ttl_ms = 1000;
    lock = hold_with(client, "x", &options);
    proxy_delay(proxy, PROXY_DOWN, 2 * options.ttl_ms);
    assert_int_equal(rql_lock_extend(lock, LONG_MS, NULL), RQL_NOT_HELD);
    assert_int_equal(rql_lock_get_state(lock), RQL_GONE);
    proxy_heal(proxy);
    CHECK_OK(rql_lock_release(lock, NULL));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_claim_that_is_lost_is_repeated),
        TEST(nobody_is_told_of_what_was_forgotten),
        TEST(what_is_gone_is_not_extended),
        TEST(a_series_that_is_gone_is_not_extended),
        TEST(an_extension_that_comes_too_late_is_none),
    };
#undef TEST

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
