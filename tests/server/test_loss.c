#include "fixture.h"

#include <stdatomic.h>

/* A lock that ends under its holder: told once, and before the server gives it to others. */

enum { TTL_MS = 900, LONG_MS = 3000, SILENT = 3 };

struct loss {
    atomic_int told;
    _Atomic int64_t told_us;
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

    atomic_store(&self->told_us, wait_clock_us());
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

/* `lock` is no more on the server. */
static void check_told_once(rql_lock *lock)
{
    assert_true(wait_until(is_told, &loss, AWAIT_MS));
    assert_int_equal(atomic_load(&loss.state), RQL_GONE);
    assert_int_equal(rql_lock_get_state(lock), RQL_GONE);
    assert_int_equal(rql_lock_remaining_ms(lock), 0);
    assert_int_equal(rql_lock_release(lock, NULL), RQL_NOT_HELD);
    client = rql_client_free(client); /* ends the thread that tells */
    assert_int_equal(atomic_load(&loss.told), 1);
}

static rql_lock *hold_long(void)
{
    rql_lock_options options = watched(true);

    options.ttl_ms = LONG_MS;
    return hold_with(client, "x", &options);
}

/* Told by the first renewal, long before the lock would have ended anyway. */
static void check_noticed(rql_lock *lock, int64_t begun_us)
{
    check_told_once(lock);
    assert_true(atomic_load(&loss.told_us) < begun_us + LONG_MS * 2000 / 3);
}

static void a_deleted_lock_is_noticed_at_the_next_renewal(void **state)
{
    int64_t begun_us = wait_clock_us();
    rql_lock *lock = hold_long();

    (void)state;
    ask("DEL rql:lock:x");
    check_noticed(lock, begun_us);
}

static void a_lock_taken_over_is_noticed_and_left_alone(void **state)
{
    int64_t begun_us = wait_clock_us();
    rql_lock *lock = hold_long();

    (void)state;
    ask("HSET rql:lock:x acq_id rql:acq:1/2/3/4/0123456789abcdef rql_nonce other");
    ask("PERSIST rql:lock:x");
    check_noticed(lock, begun_us);
    assert_int_equal(ask_int("PTTL rql:lock:x"), -1); /* not renewed for the new owner */
    assert_int_equal(ask_int("HEXISTS rql:lock:x acq_id"), 1);
}

struct silence {
    rql_lock *lock[SILENT];
    struct loss loss[SILENT];
    int64_t ends_us[SILENT]; /* when the server may give the lock to others */
};

static bool are_all_told(void *data)
{
    struct silence *self = data;
    int i;

    for (i = 0; i < SILENT && is_told(&self->loss[i]); i++) {
    }
    return i == SILENT;
}

static void hold_in_silence(struct silence *self, bool auto_extend)
{
    rql_lock_options options = watched(auto_extend);
    int i;

    for (i = 0; i < SILENT; i++) {
        char name[] = {(char)('a' + i), '\0'};

        options.ttl_ms = LONG_MS + 100 * i;
        options.user_data = &self->loss[i];
        self->ends_us[i] = wait_clock_us() + options.ttl_ms * 1000;
        self->lock[i] = hold_with(client, name, &options);
    }
}

/* The margin is 30 ms here. A stalled machine may be late for one lock, the library for none. */
static void check_told_in_time(struct silence *self)
{
    int in_time = 0;
    int i;

    assert_true(wait_until(are_all_told, self, AWAIT_MS));
    for (i = 0; i < SILENT; i++) {
        in_time += atomic_load(&self->loss[i].told_us) < self->ends_us[i];
        assert_int_equal(atomic_load(&self->loss[i].state), RQL_GONE);
    }
    assert_true(in_time > SILENT / 2);
}

static void check_told_no_more(struct silence *self)
{
    int i;

    await_int(0, "EXISTS rql:lock:a rql:lock:b rql:lock:c");
    for (i = 0; i < SILENT; i++) {
        assert_int_equal(rql_lock_release(self->lock[i], NULL), RQL_NOT_HELD);
        assert_int_equal(atomic_load(&self->loss[i].told), 1);
    }
}

static bool is_over(void *end_us)
{
    return wait_clock_us() >= *(int64_t *)end_us;
}

/* Of whatever was renewed before, nothing is left a ttl later; at the server a moment later, for it
 * counts whole milliseconds. */
static rql_lock_state state_a_ttl_later(const rql_lock *lock)
{
    int64_t end_us = wait_clock_us() + TTL_MS * 1000;
    rql_lock_state state;

    assert_true(wait_until(is_over, &end_us, AWAIT_MS));
    state = rql_lock_get_state(lock);
    end_us += 2000;
    assert_true(wait_until(is_over, &end_us, AWAIT_MS));
    return state;
}

static void a_renewal_without_an_answer_keeps_nothing(void **state)
{
    rql_lock_options options = watched(true);
    rql_lock *lock = hold_with(client, "x", &options);
    rql_lock_state believed;

    (void)state;
    redis_server_pause(&server);
    believed = state_a_ttl_later(lock);
    redis_server_resume(&server);
    assert_int_equal(believed, RQL_GONE);
    assert_int_equal(rql_lock_release(lock, NULL), RQL_NOT_HELD);
}

/* Something else is under its key. */
static void a_renewal_that_is_a_fault_keeps_nothing(void **state)
{
    rql_lock_options options = watched(true);
    rql_lock *lock = hold_with(client, "x", &options);

    (void)state;
    ask("SET rql:lock:x foreign");
    assert_int_equal(state_a_ttl_later(lock), RQL_GONE);
    rql_lock_forget(lock);
}

static void a_silent_server_is_given_up_before_the_lock_ends_there(void **state)
{
    struct silence silence = {0};

    (void)state;
    hold_in_silence(&silence, true);
    redis_server_pause(&server);
    (void)wait_until(are_all_told, &silence, AWAIT_MS);
    redis_server_resume(&server);
    check_told_in_time(&silence);
    check_told_no_more(&silence);
}

/* Nobody renews it: its end is foreseen, and told. */
static void a_lock_that_ends_by_its_ttl_is_told(void **state)
{
    struct silence silence = {0};

    (void)state;
    hold_in_silence(&silence, false);
    check_told_in_time(&silence);
    check_told_no_more(&silence);
}

/* Also when the thread that tells has nothing else to do: the first loss sends it to sleep. */
static void a_loss_found_by_asking_is_told_at_once(void **state)
{
    rql_lock_options options = watched(false);
    struct loss of_first = {0};
    rql_lock *first;
    rql_lock *lock;

    (void)state;
    options.ttl_ms = 60000;
    lock = hold_with(client, "x", &options);
    options.user_data = &of_first;
    first = hold_with(client, "first", &options);
    ask("FLUSHALL");
    assert_int_equal(rql_lock_verify(first, NULL), RQL_NOT_HELD);
    assert_true(wait_until(is_told, &of_first, AWAIT_MS));
    assert_int_equal(atomic_load(&loss.told), 0);
    assert_int_equal(rql_lock_release(first, NULL), RQL_NOT_HELD);
    assert_int_equal(rql_lock_verify(lock, NULL), RQL_NOT_HELD);
    check_told_once(lock);
}

static void a_released_lock_is_not_lost(void **state)
{
    rql_lock_options options = watched(true);
    rql_lock *lock = hold_with(client, "x", &options);

    (void)state;
    CHECK_OK(rql_lock_release(lock, NULL));
    rql_lock_forget(hold_with(client, "x", &options));
    await_int(0, "EXISTS rql:lock:x");
    client = rql_client_free(client);
    assert_int_equal(atomic_load(&loss.told), 0);
}

static void the_callback_may_release_the_lock(void **state)
{
    rql_lock_options options = watched(true);

    (void)state;
    loss.releases = true;
    (void)hold_with(client, "x", &options);
    ask("DEL rql:lock:x");
    assert_true(wait_until(is_told, &loss, AWAIT_MS));
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

static bool is_doubtful(void *lock)
{
    return rql_lock_get_state(lock) != RQL_HELD;
}

static bool is_held(void *lock)
{
    return rql_lock_get_state(lock) == RQL_HELD;
}

static void a_late_renewal_makes_a_lock_doubtful(void **state)
{
    rql_lock_options options = watched(true);
    rql_lock *lock;

    (void)state;
    options.ttl_ms = LONG_MS;
    lock = hold_with(client, "x", &options);
    redis_server_pause(&server);
    assert_true(wait_until(is_doubtful, lock, AWAIT_MS));
    assert_int_equal(rql_lock_get_state(lock), RQL_DOUBTFUL);
    assert_in_range(rql_lock_remaining_ms(lock), 1, LONG_MS);
    redis_server_resume(&server);
    assert_true(wait_until(is_held, lock, AWAIT_MS));
    assert_int_equal(atomic_load(&loss.told), 0);
    CHECK_OK(rql_lock_release(lock, NULL));
}

/* What the holder believes, what the server says, and what it believes then. */
static void what_is_believed_and_what_the_server_says(void **state)
{
    static const struct {
        const char *change; /* of the server's data, or NULL */
        rql_status verdict;
        rql_lock_state then;
    } rows[] = {
        {NULL, RQL_OK, RQL_HELD},
        {"HSET rql:lock:x job 42", RQL_OK, RQL_HELD},
        {"HSET rql:lock:x rql_nonce other", RQL_NOT_HELD, RQL_GONE},
        {"HDEL rql:lock:x rql_nonce", RQL_NOT_HELD, RQL_GONE},
        {"DEL rql:lock:x", RQL_NOT_HELD, RQL_GONE},
        {"FLUSHALL", RQL_NOT_HELD, RQL_GONE},
    };

    size_t i;

    (void)state;
    for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        rql_lock *lock = hold(client, "x");

        if (rows[i].change) {
            ask("%s", rows[i].change);
        }
        assert_int_equal(rql_lock_get_state(lock), RQL_HELD); /* nobody has asked yet */
        assert_int_equal(rql_lock_verify(lock, NULL), rows[i].verdict);
        assert_int_equal(rql_lock_get_state(lock), rows[i].then);
        assert_int_equal(rql_lock_remaining_ms(lock) > 0, rows[i].then == RQL_HELD);
        assert_int_equal(rql_lock_release(lock, NULL), rows[i].verdict);
        ask("DEL rql:lock:x");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(a_deleted_lock_is_noticed_at_the_next_renewal),
        TEST(a_lock_taken_over_is_noticed_and_left_alone),
        TEST(a_renewal_without_an_answer_keeps_nothing),
        TEST(a_renewal_that_is_a_fault_keeps_nothing),
        TEST(a_silent_server_is_given_up_before_the_lock_ends_there),
        TEST(a_lock_that_ends_by_its_ttl_is_told),
        TEST(a_loss_found_by_asking_is_told_at_once),
        TEST(a_released_lock_is_not_lost),
        TEST(the_callback_may_release_the_lock),
        TEST(the_descriptor_becomes_readable),
        TEST(a_descriptor_asked_for_late_is_readable),
        TEST(a_late_renewal_makes_a_lock_doubtful),
        TEST(what_is_believed_and_what_the_server_says),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
