/* Taking and giving back locks, once warm, asks the allocator for nothing: alone, again and again
 * by the same acquirer, by many threads, and waiting for one another. */

#include "fixture.h"

#include "counting.h"
#include "lock/client.h"
#include "lock/leases.h"
#include "net/conn/conn_threads.h"
#include "threads.h"

#include <stdatomic.h>

enum { WARM = 50, ROUNDS = 300, THREADS = 8 };

/* What grows with use is as large as it will be, and more: the handles, the buffers that commands
 * are written into and that take turns at being sent, and the one that answers are read into. */
static void widen(rql_client *of, int n_handles)
{
    char text[THREADS * 512];
    const rql_meta meta[] = {{"text", text}};
    rql_lock_options options = patient(of);
    rql_lock_info *info = NULL;
    rql_lock *locks[3 * THREADS];
    char name[32];

    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    options.meta = meta;
    options.n_meta = 1;
    for (int i = 0; i < n_handles; i++) {
        (void)snprintf(name, sizeof name, "wide:%d", i);
        locks[i] = hold_with(of, name, &options);
    }
    CHECK_OK(rql_lock_inspect(of, name, &info, NULL));
    rql_free(info);
    for (int i = 0; i < n_handles; i++) {
        CHECK_OK(rql_lock_release(locks[i], NULL));
    }
}

static void set_up_wide(void)
{
    make_clients();
    widen(client, 2);
    widen(other, 2);
}

/* On several connections it is up to the system how many threads meet on each. */
static void set_up_crowd(void)
{
    rql_options options = client_options();

    set_up_wide();
    (void)rql_client_free(client);
    options.connections = 1;
    client = new_client_with(&options);
    widen(client, 3 * THREADS);
}

static bool pair(const char *name, const rql_lock_options *options)
{
    rql_lock *lock = NULL;

    return rql_lock_acquire(client, name, options, &lock, NULL) == RQL_OK &&
           rql_lock_release(lock, NULL) == RQL_OK;
}

/* Of the counted rounds, after those that warm up. */
static long count_rounds(bool (*round)(const void *data), const void *data)
{
    long done = 0;
    long count;

    for (int i = 0; i < WARM; i++) {
        done += round(data);
    }
    counting_begin();
    for (int i = 0; i < ROUNDS; i++) {
        done += round(data);
    }
    count = counting_end();
    assert_int_equal(done, WARM + ROUNDS);
    return count;
}

/* Or nothing here proves anything. */
TEST(what_a_library_allocates_is_counted)
{
    rql_lock_info *info = NULL;
    rql_lock *lock = hold(client, "seen");

    counting_begin();
    CHECK_OK(rql_lock_inspect(client, "seen", &info, NULL));
    rql_free(info);
    assert_true(counting_end() >= 2);
    CHECK_OK(rql_lock_release(lock, NULL));
}

static bool plain_pair(const void *data)
{
    return pair("plain", data);
}

TEST(a_pair)
{
    assert_int_equal(count_rounds(plain_pair, NULL), 0);
}

/* The thread may have some of them in hand, for which handles and batches more are made: on a busy
 * machine more than one. */
TEST(a_pair_released_lazily)
{
    rql_lock_options options = patient(client);

    options.lazy_release = true;
    assert_true(count_rounds(plain_pair, &options) < ROUNDS / 10);
}

TEST(a_pair_with_options_and_metadata)
{
    const rql_meta meta[] = {{"who", "a test"}, {"why", "to count what it costs"}};
    rql_lock_options options = patient(client);

    options.meta = meta;
    options.n_meta = 2;
    assert_int_equal(count_rounds(plain_pair, &options), 0);
}

static int work(rql_lock *lock, void *data)
{
    (void)data;
    return rql_lock_get_state(lock) == RQL_HELD;
}

static bool block(const void *data)
{
    rql_block what = {.run = work};

    return rql_lock_run(client, "block", data, &what, NULL) == RQL_OK && what.value;
}

TEST(a_block)
{
    assert_int_equal(count_rounds(block, NULL), 0);
}

static bool nested_pairs(const void *data)
{
    rql_lock *lock = NULL;

    return rql_lock_acquire(client, "nested", data, &lock, NULL) == RQL_OK &&
           pair("nested", data) && rql_lock_release(lock, NULL) == RQL_OK;
}

TEST(a_pair_within_a_pair)
{
    static const rql_conflict_strategy ways[] = {RQL_WORK_THROUGH, RQL_EXTENDABLE_WORK_THROUGH};
    rql_lock_options options = patient(client);

    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        options.conflict_strategy = ways[i];
        assert_int_equal(count_rounds(nested_pairs, &options), 0);
    }
}

static bool extend_and_verify(const void *data)
{
    rql_lock *lock = *(rql_lock *const *)data;

    return rql_lock_extend(lock, 60000, NULL) == RQL_OK && rql_lock_verify(lock, NULL) == RQL_OK &&
           rql_lock_remaining_ms(lock) > 0;
}

TEST(extending_and_verifying)
{
    rql_lock *lock = hold(client, "long");

    assert_int_equal(count_rounds(extend_and_verify, &lock), 0);
    CHECK_OK(rql_lock_release(lock, NULL));
}

static bool refused(const void *data)
{
    rql_lock *lock = NULL;

    return rql_lock_try(other, "taken", data, &lock, NULL) == RQL_FAIL_FAST_NO_TRY;
}

TEST(being_refused)
{
    rql_lock *lock = hold(client, "taken");

    assert_int_equal(count_rounds(refused, NULL), 0);
    CHECK_OK(rql_lock_release(lock, NULL));
}

static atomic_int failures;

struct crowd {
    pthread_barrier_t barrier;
    struct threads *threads;
};

/* All together, and the one who looks on. */
static void line_up(struct crowd *crowd)
{
    (void)pthread_barrier_wait(&crowd->barrier);
}

static void many_pairs(size_t index, void *data)
{
    struct crowd *crowd = data;
    char name[32];

    (void)snprintf(name, sizeof name, "thread:%zu", index);
    for (int i = 0; i < WARM + ROUNDS; i++) {
        if (i == 0 || i == WARM) {
            line_up(crowd);
        }
        failures += !pair(name, NULL);
        if (i == WARM - 1) {
            line_up(crowd);
        }
    }
    line_up(crowd);
}

static bool all_have_asked(void *data)
{
    return rqli_conn_n_commands(client->fleet.first.conns.each[0]) >= *(const int64_t *)data;
}

/* The server is silent until every thread waits for its first answer: more at once there never are.
 */
static void start_together(struct crowd *crowd)
{
    int64_t commands = rqli_conn_n_commands(client->fleet.first.conns.each[0]) + THREADS;

    redis_server_pause(&server);
    crowd->threads = threads_start(THREADS, many_pairs, crowd);
    line_up(crowd);
    failures += !wait_until(all_have_asked, &commands, AWAIT_MS);
    redis_server_resume(&server);
}

TEST_BETWEEN(pairs_of_many_threads, set_up_crowd, free_clients)
{
    struct crowd crowd;
    long count;

    failures = 0;
    assert_int_equal(pthread_barrier_init(&crowd.barrier, NULL, THREADS + 1), 0);
    start_together(&crowd);
    line_up(&crowd);
    counting_begin();
    line_up(&crowd);
    line_up(&crowd);
    count = counting_end();
    threads_join(crowd.threads);
    (void)pthread_barrier_destroy(&crowd.barrier);
    assert_int_equal(failures, 0);
    assert_int_equal(count, 0);
}

/* Two clients in turn: each gives the lock to the other, who waits for it. */
struct match {
    redisContext *raw[2];
    int handed_over; /* so far; changed by whoever holds the lock */
    bool is_over;
    long count;
    int64_t claims;
};

/* So many the background threads have made; each may find a buffer of theirs too small. On a
 * machine that does not stall they have none to make. */
static int64_t count_claims(void)
{
    return rqli_conn_n_commands(client->fleet.first.background) +
           rqli_conn_n_commands(other->fleet.first.background);
}

static bool has_waiter(void *data)
{
    redisReply *reply = redisCommand(data, "ZCARD rql:lock_queue:match");
    bool is_waited_for = reply && reply->integer == 1;

    freeReplyObject(reply);
    return is_waited_for || failures > 0; /* then the other may have left */
}

static bool is_claimed(void *data)
{
    redisReply *reply = redisCommand(data, "HEXISTS rql:lock:match rql_claim");
    bool claimed = reply && reply->integer == 0;

    freeReplyObject(reply);
    return claimed;
}

/* While it is held: until the other waits for it. What the background threads do is warm once each
 * has claimed what was handed over. */
static void keep_count(struct match *match, size_t index)
{
    counting_exempt(true);
    failures += !wait_until(has_waiter, match->raw[index], AWAIT_MS);
    if (match->handed_over <= 4) {
        failures += !wait_until(is_claimed, match->raw[index], AWAIT_MS);
    }
    counting_exempt(false);
    if (match->handed_over == WARM) {
        match->claims = count_claims();
        counting_begin();
    } else if (match->handed_over == WARM + ROUNDS) {
        match->count = counting_end();
        match->claims = count_claims() - match->claims;
        match->is_over = true;
    }
}

/* False: the match is over. */
static bool move(struct match *match, size_t index, const rql_lock_options *options)
{
    rql_lock_facts facts;
    rql_lock *lock = NULL;
    bool goes_on;

    if (rql_lock_acquire(index == 0 ? client : other, "match", options, &lock, NULL)) {
        failures++;
        return false;
    }
    rql_lock_describe(lock, &facts);
    match->handed_over += facts.handed_over;
    if (!match->is_over) {
        keep_count(match, index);
    }
    goes_on = !match->is_over;
    failures += rql_lock_release(lock, NULL) != RQL_OK;
    return goes_on && failures == 0;
}

static void play(size_t index, void *data)
{
    rql_lock_options options = patient(client);

    while (move(data, index, &options)) {
    }
}

TEST(waiting_and_handing_over)
{
    struct match match = {
        .raw = {redis_server_connect(&server), redis_server_connect(&server)},
        .count = -1,
    };

    failures = 0;
    threads_run(2, play, &match);
    redisFree(match.raw[0]);
    redisFree(match.raw[1]);
    assert_int_equal(failures, 0);
    assert_int_equal(match.handed_over, WARM + ROUNDS + 1);
    assert_in_range(match.count, 0, match.claims);
}

FIXTURE(start_server, stop_server, set_up_wide, free_clients);
SKIP_UNLESS(counting_works(), "a sanitizer has the allocator");
