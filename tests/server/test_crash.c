#include "fixture.h"

#include "proxy.h"
#include "threads.h"

#include <stdatomic.h>
#include <stdio.h>

/* A crowd takes one lock in turn while its server is killed, loses its data or its scripts, and
 * while its connections are cut. */

enum {
    CROWD = 16,
    SLACK_MS = 100, /* of the machine */
    RETRY_MS = 225, /* default delay and jitter */
    KILLS = 30,
    LOSSES = 8,
    CONNECT_MS = 1000,
    SILENCE_MS = 200, /* that a client takes for a broken connection */
};

/* Threads that take one lock in turn until they are stopped. */
struct crowd {
    rql_client *clients[2];
    bool may_be_refused;
    atomic_int stop;
    atomic_int epoch; /* even: one history of the data; odd: between two */
    atomic_int inside[4];
    atomic_int n_overlaps;
    atomic_int n_grants;
    atomic_int n_refused;
    atomic_int n_release_faults;
    _Atomic int64_t released_us; /* the last time; 0: held */
    _Atomic int64_t longest_us;  /* from a release to the next grant */
};

static void note_hand_off(struct crowd *crowd)
{
    int64_t released_us = atomic_exchange(&crowd->released_us, 0);
    int64_t took_us = wait_clock_us() - released_us;

    if (released_us > 0 && took_us > crowd->longest_us) {
        crowd->longest_us = took_us;
    }
}

static void hold_a_moment(struct crowd *crowd)
{
    int epoch = crowd->epoch;

    if (epoch % 2 == 0 && atomic_fetch_add(&crowd->inside[epoch], 1) != 0) {
        atomic_fetch_add(&crowd->n_overlaps, 1);
    }
    (void)sched_yield();
    if (epoch % 2 == 0) {
        atomic_fetch_sub(&crowd->inside[epoch], 1);
    }
}

static void take_turns(size_t index, void *data)
{
    struct crowd *crowd = data;
    rql_client *client = crowd->clients[index % 2];
    rql_lock_options options = patient(client);

    while (!crowd->stop) {
        rql_lock *lock = NULL;

        if (rql_lock_acquire(client, "x", &options, &lock, NULL)) {
            atomic_fetch_add(&crowd->n_refused, 1);
            continue;
        }
        note_hand_off(crowd);
        hold_a_moment(crowd);
        atomic_fetch_add(&crowd->n_grants, 1);
        crowd->released_us = wait_clock_us();
        if (rql_lock_release(lock, NULL)) {
            atomic_fetch_add(&crowd->n_release_faults, 1);
        }
    }
}

struct goal {
    struct crowd *crowd;
    int n_grants;
};

static bool is_reached(void *data)
{
    const struct goal *goal = data;

    return goal->crowd->n_grants >= goal->n_grants;
}

static void await_grants(struct crowd *crowd, int n_more)
{
    struct goal goal = {crowd, crowd->n_grants + n_more};

    if (!wait_until(is_reached, &goal, AWAIT_MS)) {
        fail_msg("%d grants of %d", crowd->n_grants, goal.n_grants);
    }
}

static struct crowd *crowd_new(void)
{
    struct crowd *crowd = calloc(1, sizeof *crowd);

    assert_non_null(crowd);
    crowd->clients[0] = new_client();
    crowd->clients[1] = new_client();
    return crowd;
}

static void crowd_end(struct crowd *crowd, struct threads *threads)
{
    crowd->stop = 1;
    threads_join(threads);
    assert_int_equal(crowd->n_overlaps, 0);
    assert_true(crowd->may_be_refused || crowd->n_refused == 0);
    expect_nothing_left("x");
    rql_client_free(crowd->clients[0]);
    rql_client_free(crowd->clients[1]);
    free(crowd);
}

/* As after a power cut; what was saved before is there again. */
static void crash_and_restart(void)
{
    redis_server_kill(&server);
    assert_int_equal(redis_server_restart(&server), 0);
    redisFree(raw);
    raw = redis_server_connect(&server);
    assert_non_null(raw);
}

static void crash_of_the_server_is_survived_by_holders_and_waiters(void **state)
{
    struct crowd *crowd = crowd_new();
    struct threads *threads = threads_start(CROWD, take_turns, crowd);

    (void)state;
    await_grants(crowd, 200);
    atomic_fetch_add(&crowd->epoch, 1);
    crash_and_restart();
    atomic_fetch_add(&crowd->epoch, 1);
    await_grants(crowd, 200);
    crowd_end(crowd, threads);
}

static void scripts_may_be_flushed_all_the_time(void **state)
{
    struct crowd *crowd = crowd_new();
    struct threads *threads = threads_start(CROWD, take_turns, crowd);
    struct goal goal = {crowd, 1000};

    (void)state;
    while (!is_reached(&goal)) {
        ask("SCRIPT FLUSH");
    }
    assert_int_equal(crowd->n_release_faults, 0);
    crowd_end(crowd, threads);
}

/* Kills every connection of a kind again and again. */
static void kill_while_they_take_turns(const char *type)
{
    struct crowd *crowd = crowd_new();
    struct threads *threads = threads_start(CROWD, take_turns, crowd);

    await_grants(crowd, 50);
    crowd->longest_us = 0;
    for (int i = 0; i < KILLS; i++) {
        int64_t until_us = wait_clock_us() + 50000;

        ask("CLIENT KILL TYPE %s", type);
        await_grants(crowd, 1);
        while (wait_clock_us() < until_us) {
            await_grants(crowd, 1);
        }
    }
    assert_int_equal(crowd->n_release_faults, 0);
    if (crowd->longest_us > (RETRY_MS + SLACK_MS) * 1000 * wait_slowness()) {
        fail_msg("a hand-off took %lld us", (long long)crowd->longest_us);
    }
    crowd_end(crowd, threads);
}

static void lost_subscribers_cost_one_poll_at_most(void **state)
{
    (void)state;
    kill_while_they_take_turns("pubsub");
}

static void lost_command_connections_cost_one_poll_at_most(void **state)
{
    (void)state;
    kill_while_they_take_turns("normal");
}

/* A lock that is held and one waiter, across a crash. */
struct pair {
    rql_client *client;
    rql_client *other;
    rql_lock *held;
    int64_t token;
    struct waiter waiter;
};

static void pair_start(struct pair *self)
{
    self->client = new_client();
    self->other = new_client();
    self->held = hold(self->client, "x");
    self->token = rql_lock_token(self->held);
    self->waiter =
        (struct waiter){.client = self->other, .name = "x", .options = patient(self->other)};
    waiter_start_as(&self->waiter, 1);
}

static void pair_end(struct pair *self)
{
    CHECK_OK(waiter_join(&self->waiter));
    assert_true(self->waiter.token > self->token);
    CHECK_OK(rql_lock_release(self->waiter.lock, NULL));
    expect_nothing_left("x");
    rql_client_free(self->client);
    rql_client_free(self->other);
}

/* The first word on a connection that broke has no answer. */
static rql_status verify_in_time(rql_lock *lock)
{
    rql_status status = rql_lock_verify(lock, NULL);

    return status < 0 ? rql_lock_verify(lock, NULL) : status;
}

static void crash_without_loss_changes_nothing(void **state)
{
    struct pair pair;
    char path[TEXT_SIZE];

    (void)state;
    pair_start(&pair);
    ask("SAVE");
    crash_and_restart();
    (void)snprintf(path, sizeof path, "%s/dump.rdb", server.dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(verify_in_time(pair.held), RQL_OK);
    assert_int_equal(ask_int("ZCARD rql:lock_queue:x"), 1);
    CHECK_OK(rql_lock_release(pair.held, NULL));
    pair_end(&pair);
}

/* Two holders are possible after lost data; their tokens tell who is the later one. */
static void crash_with_loss_is_told_at_the_next_word(void **state)
{
    struct pair pair;

    (void)state;
    pair_start(&pair);
    crash_and_restart();
    assert_int_equal(verify_in_time(pair.held), RQL_NOT_HELD);
    assert_int_equal(rql_lock_get_state(pair.held), RQL_GONE);
    assert_int_equal(rql_lock_release(pair.held, NULL), RQL_NOT_HELD);
    pair_end(&pair);
}

static void crash_with_loss_is_told_by_the_next_renewal(void **state)
{
    rql_client *client = new_client();
    rql_lock_options options = patient(client);
    rql_lock *lock;
    int fd;

    (void)state;
    options.ttl_ms = 3000;
    options.auto_extend = true;
    lock = hold_with(client, "x", &options);
    CHECK_OK(rql_lock_lost_fd(lock, &fd, NULL));
    crash_and_restart();
    assert_true(wait_readable(fd, AWAIT_MS));
    assert_int_equal(rql_lock_release(lock, NULL), RQL_NOT_HELD);
    rql_client_free(client);
}

/* A release in a thread of its own: of one lock, or of a series. */
struct last_word {
    rql_lock *lock;
    rql_series *series;
    rql_status status;
};

static void *say_last_word(void *data)
{
    struct last_word *word = data;

    word->status = word->series ? rql_series_release(word->series, NULL, NULL)
                                : rql_lock_release(word->lock, NULL);
    return NULL;
}

/* Begins while the server is gone; it comes back without the lock. */
static rql_status release_across_a_loss(rql_client *client, struct last_word *word)
{
    struct timespec moment = {.tv_nsec = 50000000};
    pthread_t thread;

    redis_server_kill(&server);
    assert_true(rql_check_until_free(client, "z", NULL, NULL) < 0); /* the connection is gone */
    assert_int_equal(pthread_create(&thread, NULL, say_last_word, word), 0);
    (void)nanosleep(&moment, NULL);
    crash_and_restart();
    assert_int_equal(pthread_join(thread, NULL), 0);
    return word->status;
}

static void a_release_that_was_not_sent_released_nothing(void **state)
{
    static const char *const names[] = {"x", "y"};
    rql_client *client = new_client();
    rql_series_options options;
    struct last_word word = {.lock = hold(client, "x")};

    (void)state;
    assert_int_equal(release_across_a_loss(client, &word), RQL_NOT_HELD);
    rql_series_options_init(&options);
    options.names = names;
    options.n_names = 2;
    CHECK_OK(rql_series_acquire(client, &options, &word.series, NULL));
    assert_int_equal(release_across_a_loss(client, &word), RQL_NOT_HELD);
    rql_client_free(client);
}

/* The network loses a reply between two of a crowd: nobody takes the grant of another for his. */
static void replies_of_others_are_never_taken(void **state)
{
    struct crowd *crowd = crowd_new();
    rql_options options = client_options();
    struct threads *threads;
    struct proxy *proxy;

    (void)state;
    rql_client_free(crowd->clients[0]);
    rql_client_free(crowd->clients[1]);
    proxy = proxy_start(server.socket_path);
    options.url = proxy_url(proxy);
    options.connect_timeout_ms = CONNECT_MS;
    options.io_timeout_ms = SILENCE_MS;
    crowd->clients[0] = new_client_with(&options);
    crowd->clients[1] = new_client_with(&options);
    crowd->may_be_refused = true; /* an answer to another question makes no sense */
    threads = threads_start(CROWD, take_turns, crowd);
    for (int i = 0; i < LOSSES; i++) {
        await_grants(crowd, 20);
        proxy_drop_reply(proxy, 1 + i % 3);
    }
    proxy_heal(proxy);
    await_grants(crowd, 20);
    crowd_end(crowd, threads);
    proxy_stop(proxy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, empty_server)
        TEST(scripts_may_be_flushed_all_the_time),
        TEST(lost_subscribers_cost_one_poll_at_most),
        TEST(lost_command_connections_cost_one_poll_at_most),
        TEST(replies_of_others_are_never_taken),
        TEST(crash_of_the_server_is_survived_by_holders_and_waiters),
        TEST(crash_without_loss_changes_nothing),
        TEST(crash_with_loss_is_told_at_the_next_word),
        TEST(crash_with_loss_is_told_by_the_next_renewal),
        TEST(a_release_that_was_not_sent_released_nothing),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
