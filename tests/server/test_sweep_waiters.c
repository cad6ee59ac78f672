#include "fixture.h"

#include "threads.h"
#include "wire/command.h"

#include <stdatomic.h>

/* Sweeps beside those who take, hold and wait for the same locks. */

#define RUBY "rql:acq:18466/600/620/640/aaaaaaaaaaaaaaa1"
#define RUBY_HOST "rql:hst:18466/600/640/aaaaaaaaaaaaaaa1"
#define DEAD "rql:acq:90001/1/2/3/ffffffffffffff01"

static rql_client *client;
static rql_client *other;
static rql_client *third;

static int set_up(void **state)
{
    (void)state;
    ask("FLUSHALL");
    client = new_client();
    other = new_client();
    third = new_client();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    client = rql_client_free(client);
    other = rql_client_free(other);
    third = rql_client_free(third);
    return 0;
}

static rql_sweep_result clear_of(rql_client *sweeper, const rql_sweep_owner *owner)
{
    rql_sweep_result result = {.rel_time_us = -1};
    rql_error error = {0};

    if (rql_clear_locks_of(sweeper, owner, NULL, &result, &error)) {
        fail_msg("%s", error.message);
    }
    return result;
}

/* Its own polls would come far too late. */
static struct waiter waiter_of(rql_client *of, const char *name)
{
    struct waiter waiter = {.client = of, .name = name, .options = patient(of)};

    waiter.options.retry_delay_ms = 3600000;
    return waiter;
}

/* Returns when it is queued, and pushes reach its client. */
static void start_to_wait(struct waiter *waiter, int64_t count)
{
    waiter_start_as(waiter, count);
    await_int(1, "EVAL return(redis.call('pubsub','numsub',ARGV[1]))[2] 0 rql:wake:%s",
              rql_client_identity(waiter->client));
}

static void what_is_freed_goes_to_the_next_waiter(void **state)
{
    struct waiter waiter = waiter_of(other, "x");
    rql_lock *held = hold(client, "x");
    rql_lock_facts facts = rql_lock_describe(held);
    const rql_sweep_owner owner = {.acq_id = facts.acq_id, .hst_id = facts.hst_id};
    rql_sweep_result result;

    (void)state;
    start_to_wait(&waiter, 1);
    result = clear_of(third, &owner);
    assert_int_equal(result.rel_key_cnt, 1);
    assert_int_equal(result.handed_over_cnt, 1);
    CHECK_OK(waiter_join(&waiter));
    assert_true(waiter.handed_over);
    assert_int_equal(rql_lock_release(held, NULL), RQL_NOT_HELD);
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
}

/* The gem's waiter at the head of a free lock is left alone for two seconds: then a
 * poll would have removed it before the sweep. */
static void who_stands_behind_a_withdrawn_request_is_served(void **state)
{
    const rql_sweep_owner owner = {.acq_id = RUBY, .hst_id = RUBY_HOST};
    struct waiter waiter = waiter_of(other, "x");
    rql_lock *held = hold(client, "x");
    rql_sweep_result result;

    (void)state;
    start_to_wait(&waiter, 1);
    ask("ZADD rql:lock_queue:x 1 " RUBY);
    ask("DEL rql:lock:x");
    result = clear_of(third, &owner);
    assert_int_equal(result.handed_over_cnt, result.tch_queue_cnt); /* 0: it was too late */
    CHECK_OK(waiter_join(&waiter));
    assert_int_equal(rql_lock_release(held, NULL), RQL_NOT_HELD);
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
}

static void who_stands_behind_the_dead_is_served(void **state)
{
    struct waiter waiter = waiter_of(other, "x");
    rql_lock *held = hold(client, "x");
    rql_sweep_result result;

    (void)state;
    start_to_wait(&waiter, 1);
    ask("ZADD rql:lock_queue:x 1 " DEAD);
    ask("DEL rql:lock:x");
    CHECK_OK(rql_clear_dead_requests(third, NULL, &result, NULL, NULL));
    assert_int_equal(result.handed_over_cnt, result.rem_request_cnt);
    CHECK_OK(waiter_join(&waiter));
    assert_int_equal(rql_lock_release(held, NULL), RQL_NOT_HELD);
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
}

static void a_waiter_that_lives_is_not_dead_however_old(void **state)
{
    struct waiter waiter = waiter_of(other, "x");
    rql_lock *held = hold(client, "x");
    rql_sweep_options options;
    rql_sweep_result result;

    (void)state;
    start_to_wait(&waiter, 1);
    rql_sweep_options_init(third, &options);
    options.dead_ttl_ms = 0;
    CHECK_OK(rql_clear_dead_requests(third, &options, &result, NULL, NULL));
    assert_int_equal(result.rem_request_cnt, 0);
    assert_int_equal(ask_int("ZCARD rql:lock_queue:x"), 1);
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&waiter));
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
}

enum { WAITERS = 6 };

/* Of two clients, turn by turn. */
static void start_waiters(struct waiter waiters[WAITERS])
{
    for (int i = 0; i < WAITERS; i++) {
        waiters[i] = waiter_of(i % 2 == 0 ? other : third, "x");
        waiters[i].releases = true;
        start_to_wait(&waiters[i], i + 1);
    }
}

static bool stop_before_locks(int64_t done, int64_t found, void *user_data)
{
    (void)found;
    (void)user_data;
    return done == 0;
}

static void waiters_of_a_cleared_queue_come_back_in_order(void **state)
{
    struct waiter waiters[WAITERS];
    rql_lock *held = hold(client, "x");
    int64_t token = rql_lock_token(held);
    rql_sweep_options options;
    rql_sweep_result result;

    (void)state;
    start_waiters(waiters);
    rql_sweep_options_init(client, &options);
    options.on_progress = stop_before_locks;
    assert_int_equal(rql_clear_locks(client, &options, &result, NULL), RQL_STOPPED);
    assert_int_equal(result.tch_queue_cnt, 1);
    assert_int_equal(result.rem_request_cnt, WAITERS);
    await_int(WAITERS, "ZCARD rql:lock_queue:x");
    await_int(WAITERS, "HLEN rql:req:x");
    CHECK_OK(rql_lock_release(held, NULL));
    for (int i = 0; i < WAITERS; i++) {
        CHECK_OK(waiter_join(&waiters[i]));
        assert_true(waiters[i].token > token);
        token = waiters[i].token;
    }
    CHECK_QUEUE_IS_EMPTY("x");
}

static void all_waiters_get_a_lock_that_was_cleared(void **state)
{
    struct waiter waiters[WAITERS];
    rql_lock *held = hold(client, "x");
    rql_sweep_result result;

    (void)state;
    start_waiters(waiters);
    CHECK_OK(rql_clear_locks(client, NULL, &result, NULL));
    assert_int_equal(result.rem_request_cnt, WAITERS);
    assert_int_equal(rql_lock_release(held, NULL), RQL_NOT_HELD);
    for (int i = 0; i < WAITERS; i++) {
        CHECK_OK(waiter_join(&waiters[i]));
    }
    CHECK_QUEUE_IS_EMPTY("x");
}

/* What sweep_lock.lua does with a lock that was seen with these fields. */
static int64_t end_as_seen(const char *acq_id, const char *hst_id, const char *ts,
                           const char *nonce)
{
    const struct rqli_script *script = &rqli_scripts[RQLI_SCRIPT_SWEEP_LOCK];
    redisReply *reply = redisCommand(
        raw, "EVAL %s 5 rql:lock:x rql:lock_queue:x rql:req:x rql:live rql:fence %s %s %s %s 0",
        script->text, acq_id, hst_id, ts, nonce);
    int64_t is_deleted;

    assert_non_null(reply);
    assert_int_equal(reply->type, REDIS_REPLY_STRING);
    is_deleted = strtoll(reply->str, NULL, 10);
    freeReplyObject(reply);
    return is_deleted;
}

/* Between look and script. */
static void a_lock_that_changed_hands_is_not_touched(void **state)
{
    char acq_id[TEXT_SIZE];
    char hst_id[TEXT_SIZE];
    char ts[TEXT_SIZE];
    char nonce[TEXT_SIZE];
    rql_lock *lock = hold(client, "x");

    (void)state;
    (void)ask_text(acq_id, "HGET rql:lock:x acq_id");
    (void)ask_text(hst_id, "HGET rql:lock:x hst_id");
    (void)ask_text(ts, "HGET rql:lock:x ts");
    (void)ask_text(nonce, "HGET rql:lock:x rql_nonce");
    assert_int_equal(end_as_seen("", "", "", ""), 0);
    assert_int_equal(end_as_seen(acq_id, hst_id, ts, ""), 0);
    assert_int_equal(end_as_seen(acq_id, "", ts, nonce), 0);
    assert_int_equal(end_as_seen(acq_id, hst_id, "1.5", nonce), 0);
    assert_int_equal(end_as_seen(RUBY, hst_id, ts, nonce), 0);
    CHECK_OK(rql_lock_release(lock, NULL));
    assert_int_equal(end_as_seen(acq_id, hst_id, ts, nonce), 0);
    lock = hold(client, "x"); /* the same owner, another grant */
    assert_int_equal(end_as_seen(acq_id, hst_id, ts, nonce), 0);
    CHECK_OK(rql_lock_release(lock, NULL));
    lock = hold(other, "x");
    assert_int_equal(end_as_seen(acq_id, hst_id, ts, nonce), 0);
    CHECK_OK(rql_lock_verify(lock, NULL));
    (void)ask_text(acq_id, "HGET rql:lock:x acq_id");
    (void)ask_text(hst_id, "HGET rql:lock:x hst_id");
    (void)ask_text(ts, "HGET rql:lock:x ts");
    (void)ask_text(nonce, "HGET rql:lock:x rql_nonce");
    assert_int_equal(end_as_seen(acq_id, hst_id, ts, nonce), 1);
    assert_int_equal(rql_lock_release(lock, NULL), RQL_NOT_HELD);
}

enum { OWNERS = 4, ROUNDS = 150, NAMES = 3 };

struct race {
    rql_client *of[OWNERS];
    char acq_id[RQL_ID_SIZE]; /* of the first owner, whose locks are swept */
    char hst_id[RQL_ID_SIZE];
    _Atomic int n_known;
    _Atomic int n_done;
    _Atomic int64_t n_swept;
    _Atomic int64_t n_lost[OWNERS];
    _Atomic int64_t n_faults;
};

/* By tries: a lock that was handed over would live for a second only. */
static void take_and_release(struct race *race, size_t index, size_t round)
{
    static const char *const names[NAMES] = {"a", "b", "c"};
    rql_lock_options options = patient(race->of[index]);
    rql_lock *lock = NULL;
    bool is_locked;
    rql_status status =
        rql_lock_try(race->of[index], names[(round + index) % NAMES], &options, &lock, NULL);

    race->n_faults += status < 0;
    if (status == RQL_OK) {
        (void)!rql_is_locked(race->of[index], "elsewhere", &is_locked, NULL); /* hold for a while */
        status = rql_lock_release(lock, NULL);
        race->n_lost[index] += status == RQL_NOT_HELD;
        race->n_faults += status < 0;
    }
}

/* The first owner until a sweep has found a lock of his. */
static bool goes_on(const struct race *race, size_t index, size_t round)
{
    return round < ROUNDS || (index == 0 && race->n_lost[0] == 0 && race->n_faults == 0);
}

static void own_or_sweep(size_t index, void *data)
{
    struct race *race = data;
    const rql_sweep_owner owner = {.acq_id = race->acq_id, .hst_id = race->hst_id};
    rql_sweep_result result = {.rel_key_cnt = 0};

    if (index == 0) {
        (void)rql_current_acquirer_id(race->of[0], 0, race->acq_id);
        (void)rql_current_host_id(race->of[0], race->hst_id);
        race->n_known = 1;
    }
    for (size_t round = 0; index < OWNERS && goes_on(race, index, round); round++) {
        take_and_release(race, index, round);
    }
    race->n_done += index < OWNERS;
    while (index == OWNERS && race->n_done < OWNERS) {
        race->n_faults += race->n_known && rql_clear_locks_of(client, &owner, NULL, &result, NULL);
        race->n_swept += result.rel_key_cnt;
        result.rel_key_cnt = 0;
    }
}

/* The first owner's locks are swept all the time, those of the others on the same names are not. */
static void a_new_owners_lock_is_never_ended(void **state)
{
    struct race race = {.n_known = 0};

    (void)state;
    for (size_t i = 0; i < OWNERS; i++) {
        race.of[i] = new_client();
    }
    threads_run(OWNERS + 1, own_or_sweep, &race);
    assert_int_equal(race.n_faults, 0);
    assert_int_equal(race.n_swept, race.n_lost[0]);
    for (size_t i = 0; i < OWNERS; i++) {
        assert_true(i == 0 || race.n_lost[i] == 0);
        race.of[i] = rql_client_free(race.of[i]);
    }
    print_message("# %lld swept\n", (long long)race.n_swept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(what_is_freed_goes_to_the_next_waiter),
        TEST(who_stands_behind_a_withdrawn_request_is_served),
        TEST(who_stands_behind_the_dead_is_served),
        TEST(a_waiter_that_lives_is_not_dead_however_old),
        TEST(waiters_of_a_cleared_queue_come_back_in_order),
        TEST(all_waiters_get_a_lock_that_was_cleared),
        TEST(a_lock_that_changed_hands_is_not_touched),
        TEST(a_new_owners_lock_is_never_ended),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests_name("sweep_waiters", tests, start_server, stop_server);
}
