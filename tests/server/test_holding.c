#include "fixture.h"

#include "base/clock.h"
#include "lock/client.h"
#include "lock/leases.h"
#include "lock/lock.h"
#include "lock/withdraw.h"
#include "net/conn/conn_shared.h"
#include "threads.h"

#include <sys/socket.h>
#include <uv.h>

/* What keeps a lock: renewal, whatever the threads do meanwhile. */

enum { TTL_MS = 900, RACERS = 4, RACES = 250 };

/* The system may keep a new thread from running. */
static int64_t start_delay_ms;

struct start {
    uv_thread_cb entry;
    void *arg;
    int64_t delay_ms;
};

static void start_late(void *data)
{
    struct start start = *(struct start *)data;
    const struct timespec delay = {.tv_sec = (time_t)(start.delay_ms / 1000),
                                   .tv_nsec = (long)(start.delay_ms % 1000) * 1000000};

    free(data);
    (void)nanosleep(&delay, NULL);
    start.entry(start.arg);
}

/* The linker's names for libuv's function, and for what the library calls in its place. */
int __real_uv_thread_create(uv_thread_t *tid, uv_thread_cb entry, void *arg);
int __wrap_uv_thread_create(uv_thread_t *tid, uv_thread_cb entry, void *arg);

int __wrap_uv_thread_create(uv_thread_t *tid, uv_thread_cb entry, void *arg)
{
    struct start *start = malloc(sizeof *start);

    if (!start) {
        return UV_ENOMEM;
    }
    *start = (struct start){entry, arg, start_delay_ms};
    return __real_uv_thread_create(tid, start_late, start);
}

static rql_lock_options renewed(int64_t ttl_ms)
{
    rql_lock_options options = patient(client);

    options.ttl_ms = ttl_ms;
    options.auto_extend = true;
    return options;
}

/* When the lock ends, by the server's clock; below 0 if it has ended. */
static int64_t end_ms(void)
{
    return ask_int("PEXPIRETIME rql:lock:x");
}

static bool is_renewed_or_gone(void *data)
{
    int64_t ends_ms = end_ms();

    return ends_ms < 0 || ends_ms >= *(const int64_t *)data;
}

/* Until the lock lives a ttl longer than it was taken for: the holder has renewed thrice. */
static rql_status await_renewals(rql_lock *lock, int64_t ttl_ms)
{
    int64_t beyond_ms = end_ms() + ttl_ms;

    assert_true(wait_until(is_renewed_or_gone, &beyond_ms, AWAIT_MS));
    return rql_lock_verify(lock, NULL);
}

/* Its thread is there before the lock is: a lease does not begin with a wait for that. */
TEST(a_lock_is_renewed_however_late_its_thread_starts)
{
    int64_t ttl_ms = wait_stretched(TTL_MS);
    rql_lock_options options = renewed(ttl_ms);
    rql_lock *lock;

    start_delay_ms = ttl_ms + ttl_ms / 4;
    lock = hold_with(client, "x", &options);
    start_delay_ms = 0;
    CHECK_OK(await_renewals(lock, ttl_ms));
    assert_true(rql_lock_remaining_ms(lock) > 0);
    assert_true(ask_int("PTTL rql:lock:x") <= ttl_ms);
    CHECK_OK(rql_lock_release(lock, NULL));
}

struct asked {
    rql_loop *loop;
    _Atomic(rql_lock *) lock;
};

static void note_lock(rql_status status, rql_lock *lock, const rql_error *error, void *data)
{
    struct asked *self = data;

    (void)status;
    (void)error;
    self->lock = lock;
}

static bool has_lock(void *data)
{
    return ((struct asked *)data)->lock != NULL;
}

static void *ask_and_end(void *data)
{
    struct asked *self = data;
    rql_acquiring what = {.done = note_lock, .user_data = self};
    rql_lock_options options = renewed(wait_stretched(TTL_MS));

    options.task = 1;
    return rql_lock_acquire_async(self->loop, "x", &options, &what, NULL) ? data : NULL;
}

/* The thread that stays is the loop's, and the lock that of a task of its own. */
TEST(a_lock_outlives_the_thread_that_asked_a_loop_for_it)
{
    struct asked asked = {0};
    rql_lock_facts facts;
    void *failed = NULL;
    pthread_t thread;

    CHECK_OK(rql_loop_open(client, NULL, &asked.loop, NULL));
    assert_int_equal(pthread_create(&thread, NULL, ask_and_end, &asked), 0);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    assert_true(wait_until(has_lock, &asked, AWAIT_MS));
    rql_lock_describe(asked.lock, &facts);
    CHECK_OK(await_renewals(asked.lock, facts.ttl_ms));
    CHECK_OK(rql_lock_release(asked.lock, NULL));
    CHECK_OK(rql_loop_close(asked.loop, NULL, NULL, NULL));
}

struct races {
    rql_status worst[RACERS];
    int released[RACERS];
};

/* Renewed after 2 ms, released at about that time. */
static void race(size_t index, void *data)
{
    struct races *races = data;
    rql_lock_options options = renewed(6);
    char name[2] = {(char)('a' + (int)index), '\0'};
    int i;

    for (i = 0; i < RACES; i++) {
        int64_t until_us = wait_clock_us() + 1600 + 9 * (i % 100);
        rql_lock *lock = NULL;
        rql_status status = rql_lock_acquire(client, name, &options, &lock, NULL);

        while (!status && wait_clock_us() < until_us) {
            (void)rql_lock_get_state(lock);
        }
        status = status ? status : rql_lock_release(lock, NULL);
        races->released[index] += status == RQL_OK;
        if (status != RQL_OK && status != RQL_NOT_HELD) {
            races->worst[index] = status;
        }
    }
}

TEST(a_release_may_meet_a_renewal)
{
    struct races races = {0};
    int i;

    threads_run(RACERS, race, &races);
    for (i = 0; i < RACERS; i++) {
        CHECK_OK(races.worst[i]);
        assert_true(races.released[i] > 0);
    }
    await_int(0, "EXISTS rql:lock:a rql:lock:b rql:lock:c rql:lock:d");
}

/* When that is due, along with a renewal; the first one has a login in front. */
TEST(a_holder_says_again_what_its_client_is_called)
{
    int64_t ttl_ms = wait_stretched(TTL_MS);
    rql_lock_options options = renewed(ttl_ms);
    rql_lock *lock = hold_with(client, "x", &options);

    CHECK_OK(await_renewals(lock, ttl_ms));
    (void)ask_int("DEL rql:clients");
    rqli_client_name_on_lost(&client->name);
    await_int(1, "HEXISTS rql:clients %s", rql_client_identity(client));
    CHECK_OK(rql_lock_release(lock, NULL));
}

static void on_lost(rql_lock *lock, void *data)
{
    (void)lock;
    (void)data;
}

static rql_lock *enter(rql_conflict_strategy strategy, int64_t ttl_ms)
{
    rql_lock_options options = patient(client);

    options.conflict_strategy = strategy;
    options.ttl_ms = ttl_ms;
    options.on_lost = on_lost;
    return hold_with(client, "x", &options);
}

static int64_t now_ms(void)
{
    return ask_int("EVAL return(redis.call('time')[1]*1000) 0");
}

static bool has_no_more_left(void *data)
{
    return rql_lock_get_state(data) == RQL_HELD &&
           rql_lock_remaining_ms(data) <= end_ms() - now_ms();
}

/* An extendable re-entry that nobody heard of is undone late. Who entered in between was told how
 * long the lock lives with what that had added. */
TEST(who_counts_on_what_was_taken_back_asks_the_server)
{
    rql_lock *outer = enter(RQL_WAIT_FOR_LOCK, 20000);
    rql_lock *unheard = enter(RQL_EXTENDABLE_WORK_THROUGH, 100000);
    rql_lock *inner = enter(RQL_WORK_THROUGH, 20000);

    assert_true(rql_lock_remaining_ms(inner) > 60000);
    rqli_withdraw_lock_later(unheard, 600000);
    await_int(0, "HEXISTS rql:lock:x rql_ext:%s", unheard->nonce);
    assert_true(wait_until(has_no_more_left, inner, AWAIT_MS));
    CHECK_OK(rql_lock_release(inner, NULL));
    (void)rql_lock_release(unheard, NULL);
    CHECK_OK(rql_lock_release(outer, NULL));
}

/* ---- additional connections ---- */

enum { N_CONNS = 2 };

struct pair {
    const char *names[N_CONNS];
    rql_lock *locks[N_CONNS];
    rql_status worst[N_CONNS];
    bool releases;
};

static void acquire_one(size_t index, void *data)
{
    struct pair *self = data;
    rql_lock_options options = patient(client);
    rql_status status;

    status = rql_lock_acquire(client, self->names[index], &options, &self->locks[index], NULL);
    if (!status && self->releases) {
        status = rql_lock_release(self->locks[index], NULL);
    }
    self->worst[index] = status;
}

/* By two threads at once, which have connections of their own while there are two. */
static void acquire_pair(struct pair *self)
{
    threads_run(N_CONNS, acquire_one, self);
    CHECK_ALL(EQ(self->worst[0], RQL_OK), EQ(self->worst[1], RQL_OK));
}

/* Its server takes no new connections. Locks that the second one brought are released over the
 * first, and no thread depends on the second. */
TEST(a_connection_that_cannot_be_opened_again_keeps_nobody_from_its_locks)
{
    struct pair held = {.names = {"a", "b"}};
    struct pair later = {.names = {"c", "d"}, .releases = true};
    struct rqli_conns *conns = &client->fleet.first.conns;

    CHECK_OK(rql_client_connect(client, NULL));
    CHECK_OK(rqli_conn_connect(conns->each[1], rqli_now_us() + AWAIT_MS * 1000, NULL));
    atomic_store(&conns->n_used, N_CONNS);
    acquire_pair(&held);
    assert_true((held.locks[0]->origin.carrier == conns->each[1]) !=
                (held.locks[1]->origin.carrier == conns->each[1]));
    redis_server_hide(&server);
    assert_int_equal(shutdown(conns->each[1]->sock.fd, SHUT_RDWR), 0);
    CHECK_OK(rql_lock_release(held.locks[0], NULL));
    CHECK_OK(rql_lock_release(held.locks[1], NULL));
    acquire_pair(&later);
    redis_server_show(&server);
    await_int(0, "EXISTS rql:lock:a rql:lock:b rql:lock:c rql:lock:d");
}

FIXTURE(start_server, stop_server, make_clients, free_clients);

/* ---- a lock that its acquirer holds ---- */

/* The message says so for each strategy that does not re-enter, whether the call waits or not. */
TEST(a_second_acquisition_by_the_holder_is_named)
{
    static const struct row {
        const char *name;
        rql_conflict_strategy conflict;
        rql_access_strategy access;
        bool auto_extend;
        bool fail_fast;
        rql_status status;
    } rows[] = {
        {"waits", RQL_WAIT_FOR_LOCK, RQL_QUEUED, false, false, RQL_TIMED_OUT},
        {"waits at random", RQL_WAIT_FOR_LOCK, RQL_RANDOM, false, false, RQL_TIMED_OUT},
        {"would wait for ever", RQL_WAIT_FOR_LOCK, RQL_QUEUED, true, false, RQL_CONFLICT},
        {"fails fast", RQL_WAIT_FOR_LOCK, RQL_QUEUED, false, true, RQL_FAIL_FAST_NO_TRY},
        {"must not", RQL_DEAD_LOCKING, RQL_QUEUED, false, false, RQL_CONFLICT},
    };

    EACH_ROW (row, rows) {
        rql_lock_options options = patient(client);
        struct waiter waiter = {.client = other, .name = "x", .options = patient(other)};
        rql_error error = {0};
        rql_lock *lock = NULL;
        rql_lock *held;

        options.auto_extend = row->auto_extend;
        held = hold_with(client, "x", &options);
        waiter_start_as(&waiter, 1); /* in front, so the answer does not name the holder */
        options.conflict_strategy = row->conflict;
        options.access_strategy = row->access;
        options.fail_fast = row->fail_fast;
        options.timeout_ms = row->status == RQL_TIMED_OUT ? 500 : AWAIT_MS;
        assert_int_equal(rql_lock_acquire(client, "x", &options, &lock, &error), row->status);
        assert_non_null(strstr(error.message, "this acquirer holds it already"));
        CHECK_OK(rql_lock_release(held, NULL));
        CHECK_OK(waiter_join(&waiter));
        CHECK_OK(rql_lock_release(waiter.lock, NULL));
    }
}
