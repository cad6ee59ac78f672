#include "clients.h"

/* Clearing many at once: the gem's clear_locks, clear_locks_of, clear_current_locks and
 * clear_dead_requests. */

#define RUBY "rql:acq:18466/600/620/640/aaaaaaaaaaaaaaa1"
#define RUBY_HOST "rql:hst:18466/600/640/aaaaaaaaaaaaaaa1"
#define OTHER "rql:acq:18524/600/620/640/bbbbbbbbbbbbbbb2"
#define OTHER_HOST "rql:hst:18524/600/640/bbbbbbbbbbbbbbb2"
#define DEAD "rql:acq:90001/1/2/3/ffffffffffffff01"
#define OURS "0123456789abcdef0123456789abcdef"

static void hold_as(const char *name, const char *acquirer, const char *host)
{
    ask("HSET rql:lock:%s acq_id %s hst_id %s ts 1795255163.1190374 ini_ttl 60000", name, acquirer,
        host);
    ask("PEXPIRE rql:lock:%s 60000", name);
}

/* NULL for the client's own settings. */
static rql_sweep_result clear_all(const rql_sweep_options *options)
{
    rql_sweep_result result = {.rel_time_us = -1};
    rql_error error = {0};
    rql_status status = rql_clear_locks(client, options, &result, &error);

    if (status) {
        fail_msg("%s: %s", rql_status_text(status), error.message);
    }
    assert_true(result.rel_time_us > 0);
    return result;
}

static rql_sweep_result clear_of(const char *acquirer, const char *host,
                                 const rql_sweep_options *options)
{
    const rql_sweep_owner owner = {.acq_id = acquirer, .hst_id = host};
    rql_sweep_result result = {.rel_time_us = -1};
    rql_error error = {0};
    rql_status status = rql_clear_locks_of(client, &owner, options, &result, &error);

    if (status) {
        fail_msg("%s: %s", rql_status_text(status), error.message);
    }
    assert_true(result.rel_time_us > 0);
    return result;
}

static rql_sweep_result clear_dead(int64_t dead_ttl_ms, bool dry_run, size_t n_queues)
{
    rql_sweep_options options;
    rql_sweep_result result = {.rel_time_us = -1};
    rql_text_list *queues = NULL;
    rql_error error = {0};

    rql_sweep_options_init(client, &options);
    options.dead_ttl_ms = dead_ttl_ms;
    options.dry_run = dry_run;
    if (rql_clear_dead_requests(client, &options, &result, &queues, &error)) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(queues->count, n_queues);
    (void)rql_text_list_free(queues);
    return result;
}

static void check_counts(rql_sweep_result got, int64_t keys, int64_t queues, int64_t requests)
{
    assert_int_equal(got.rel_key_cnt, keys);
    assert_int_equal(got.tch_queue_cnt, queues);
    assert_int_equal(got.rem_request_cnt, requests);
}

static void nothing_to_clear_is_no_fault(void **state)
{
    (void)state;
    check_counts(clear_all(NULL), 0, 0, 0);
    check_counts(clear_of(RUBY, RUBY_HOST, NULL), 0, 0, 0);
    check_counts(clear_dead(0, false, 0), 0, 0, 0);
    CHECK_OK(rql_clear_locks(client, NULL, NULL, NULL));
    CHECK_OK(rql_clear_current_locks(client, 0, NULL, NULL, NULL));
    CHECK_OK(rql_clear_dead_requests(client, NULL, NULL, NULL, NULL));
}

static void locks_and_queues_go_and_nothing_else(void **state)
{
    rql_sweep_options options;

    (void)state;
    hold_as("a", RUBY, RUBY_HOST);
    rql_lock_forget(hold(other, "b"));
    ask("ZADD rql:lock_queue:a 1795255162 " DEAD " 1795255163 " OTHER);
    ask("ZADD rql:lock_queue:zzz 1795255162 " DEAD);
    ask("HSET rql:req:a " DEAD " record");
    ask("HSET rql:swarm:hsts " RUBY_HOST " 1795255162.9");
    ask("SET rql:lockother x");
    rql_sweep_options_init(client, &options);
    options.batch_size = 2;
    options.dry_run = true;
    check_counts(clear_all(&options), 4, 2, 3);
    assert_int_equal(ask_int("EXISTS rql:lock:a rql:lock:b rql:lock_queue:a rql:req:a"), 4);
    options.dry_run = false;
    check_counts(clear_all(&options), 4, 2, 3);
    check_counts(clear_all(NULL), 0, 0, 0);
    assert_int_equal(ask_int("EXISTS rql:swarm:hsts rql:lockother rql:fence"), 3);
    assert_int_equal(ask_int("DBSIZE"), 3);
}

static void holders_of_the_client_learn_of_it_at_once(void **state)
{
    rql_lock *held = hold(client, "x");
    rql_lock *far = hold(other, "y");
    int fd = -1;

    (void)state;
    CHECK_OK(rql_lock_lost_fd(held, &fd, NULL));
    check_counts(clear_all(NULL), 2, 0, 0);
    assert_int_equal(rql_lock_get_state(held), RQL_GONE);
    assert_true(wait_readable(fd, AWAIT_MS));
    assert_int_equal(rql_lock_get_state(far), RQL_HELD);
    assert_int_equal(rql_lock_verify(far, NULL), RQL_NOT_HELD);
    assert_int_equal(rql_lock_release(held, NULL), RQL_NOT_HELD);
    assert_int_equal(rql_lock_release(far, NULL), RQL_NOT_HELD);
}

static void whoever_shares_a_grant_loses_it(void **state)
{
    rql_lock_options options = patient(client);
    rql_lock *outer = hold(client, "x");
    rql_lock *inner;

    (void)state;
    options.conflict_strategy = RQL_WORK_THROUGH;
    inner = hold_with(client, "x", &options);
    check_counts(clear_all(NULL), 1, 0, 0);
    assert_int_equal(rql_lock_get_state(inner), RQL_GONE);
    assert_int_equal(rql_lock_get_state(outer), RQL_GONE);
    assert_int_equal(rql_lock_release(inner, NULL), RQL_NOT_HELD);
    assert_int_equal(rql_lock_release(outer, NULL), RQL_NOT_HELD);
}

static void foreign_keys_are_left_alone_and_counted(void **state)
{
    rql_sweep_result result;

    (void)state;
    ask("SET rql:lock:s x");
    ask("RPUSH rql:lock_queue:s x");
    hold_as("s2", RUBY, RUBY_HOST);
    ask("ZADD rql:lock_queue:s2 1 " DEAD);
    result = clear_of(RUBY, RUBY_HOST, NULL);
    check_counts(result, 1, 0, 0);
    assert_int_equal(result.foreign_key_cnt, 2);
    result = clear_dead(0, false, 2);
    check_counts(result, 0, 1, 1);
    assert_int_equal(result.foreign_key_cnt, 1);
    hold_as("s2", RUBY, RUBY_HOST);
    result = clear_all(NULL);
    check_counts(result, 1, 0, 0);
    assert_int_equal(result.foreign_key_cnt, 2);
    assert_int_equal(ask_int("EXISTS rql:lock:s rql:lock_queue:s"), 2);
}

/* The queue is a list, and the lock is free: there is nobody to serve. */
static void a_lock_beside_foreign_keys_goes(void **state)
{
    (void)state;
    hold_as("s", RUBY, RUBY_HOST);
    ask("RPUSH rql:lock_queue:s x");
    check_counts(clear_of(RUBY, RUBY_HOST, NULL), 1, 0, 0);
    hold_as("s", RUBY, RUBY_HOST);
    ask("DEL rql:lock_queue:s");
    ask("ZADD rql:lock_queue:s 1 " OTHER);
    ask("SET rql:req:s x");
    check_counts(clear_of(RUBY, RUBY_HOST, NULL), 1, 0, 0);
    assert_int_equal(ask_int("EXISTS rql:lock:s"), 0);
    assert_int_equal(ask_int("EXISTS rql:lock_queue:s rql:req:s"), 2);
}

static void a_lock_too_large_to_look_at_stays(void **state)
{
    enum { HUGE_BYTES = 20 << 20 };

    char *huge = calloc(1, HUGE_BYTES);
    rql_sweep_result result;

    (void)state;
    assert_non_null(huge);
    memset(huge, 'h', HUGE_BYTES);
    freeReplyObject(redisCommand(raw, "HSET rql:lock:huge acq_id %b", huge, (size_t)HUGE_BYTES));
    free(huge);
    hold_as("small", RUBY, RUBY_HOST);
    result = clear_all(NULL);
    check_counts(result, 1, 0, 0);
    assert_int_equal(result.foreign_key_cnt, 1);
    assert_int_equal(ask_int("EXISTS rql:lock:huge"), 1);
}

static void a_name_too_long_to_handle_stays(void **state)
{
    enum { NAME_BYTES = 1 << 20 };

    char *name = malloc(NAME_BYTES);
    rql_sweep_result result;

    (void)state;
    assert_non_null(name);
    memset(name, 'n', NAME_BYTES);
    freeReplyObject(
        redisCommand(raw, "HSET rql:lock:%b acq_id %s", name, (size_t)NAME_BYTES, RUBY));
    free(name);
    hold_as("small", RUBY, RUBY_HOST);
    result = clear_all(NULL);
    check_counts(result, 1, 0, 0);
    assert_int_equal(result.foreign_key_cnt, 1);
    assert_int_equal(ask_int("DBSIZE"), 1);
}

static void names_of_any_bytes_are_cleared(void **state)
{
    static const char odd[] = "rql:lock:x\n\0y\xff";
    char name[2000];

    (void)state;
    memset(name, 'n', sizeof name);
    freeReplyObject(redisCommand(raw, "HSET %b acq_id %s", odd, sizeof odd - 1, RUBY));
    freeReplyObject(redisCommand(raw, "HSET rql:lock:%b acq_id %s", name, sizeof name, RUBY));
    freeReplyObject(redisCommand(raw, "ZADD rql:lock_queue:%b 1 a", name, sizeof name));
    ask("HSET rql:lock: acq_id " RUBY);
    ask("HSET rql:lock:ownerless n 1");
    check_counts(clear_all(NULL), 5, 1, 1);
    assert_int_equal(ask_int("DBSIZE"), 0);
}

/* The recorded scenario clear_locks_of. */
static void locks_go_by_both_ids_and_requests_by_one(void **state)
{
    rql_sweep_options options;

    (void)state;
    rql_sweep_options_init(client, &options);
    options.lock_scan_size = 1;
    options.queue_scan_size = 1;
    options.dry_run = true;
    hold_as("mine1", RUBY, RUBY_HOST);
    hold_as("mine2", RUBY, RUBY_HOST);
    hold_as("other", OTHER, OTHER_HOST);
    ask("ZADD rql:lock_queue:other 1795255163.25 " RUBY " 1795255163.26 " DEAD);
    ask("ZADD rql:lock_queue:q2 1795255163.25 " RUBY);
    check_counts(clear_of(RUBY, "rql:hst:90001/1/3/ffffffffffffff01", &options), 0, 2, 2);
    check_counts(clear_of(RUBY, "rql:hst:90001/1/3/ffffffffffffff01", NULL), 0, 2, 2);
    assert_int_equal(ask_int("EXISTS rql:lock:mine1 rql:lock:mine2 rql:lock:other"), 3);
    assert_int_equal(ask_int("EXISTS rql:lock_queue:q2"), 0);
    ask("ZADD rql:lock_queue:other 1795255163.25 " RUBY);
    check_counts(clear_of(RUBY, RUBY_HOST, &options), 2, 1, 1);
    options.dry_run = false;
    check_counts(clear_of(RUBY, RUBY_HOST, &options), 2, 1, 1);
    assert_int_equal(ask_int("EXISTS rql:lock:mine1 rql:lock:mine2"), 0);
    assert_int_equal(ask_int("EXISTS rql:lock:other"), 1);
    assert_int_equal(ask_int("ZCARD rql:lock_queue:other"), 1);
    check_counts(clear_of(RUBY, RUBY_HOST, NULL), 0, 0, 0);
}

static void current_locks_are_those_of_thread_and_task(void **state)
{
    rql_lock_options options = patient(client);
    rql_lock *plain = hold(client, "plain");
    rql_lock *tasks;
    rql_lock *others = hold(other, "others");
    rql_sweep_result result;

    (void)state;
    options.task = 7;
    tasks = hold_with(client, "tasks", &options);
    CHECK_OK(rql_clear_current_locks(client, 7, NULL, &result, NULL));
    check_counts(result, 1, 0, 0);
    assert_int_equal(rql_lock_get_state(tasks), RQL_GONE);
    assert_int_equal(rql_lock_get_state(plain), RQL_HELD);
    CHECK_OK(rql_clear_current_locks(client, 0, NULL, &result, NULL));
    check_counts(result, 1, 0, 0);
    assert_int_equal(rql_lock_get_state(plain), RQL_GONE);
    assert_int_equal(rql_lock_release(plain, NULL), RQL_NOT_HELD);
    assert_int_equal(rql_lock_release(tasks, NULL), RQL_NOT_HELD);
    CHECK_OK(rql_lock_release(others, NULL));
}

static int64_t now_s(void)
{
    return ask_int("EVAL return(redis.call('TIME'))[1] 0");
}

/* The recorded scenario clear_dead_requests. */
static void old_requests_of_the_gem_go(void **state)
{
    int64_t now = now_s();

    (void)state;
    ask("ZADD rql:lock_queue:a %lld.006296 " DEAD " %lld.006296 " OTHER, (long long)now - 90000,
        (long long)now - 60);
    ask("ZADD rql:lock_queue:b %lld.5 " DEAD, (long long)now - 20);
    ask("ZADD rql:lock_queue:c %lld.5 " DEAD, (long long)now - 86500);
    check_counts(clear_dead(86400000, true, 3), 0, 2, 2);
    check_counts(clear_dead(86400000, false, 3), 0, 2, 2);
    assert_int_equal(ask_int("EXISTS rql:lock_queue:a rql:lock_queue:b rql:lock_queue:c"), 2);
    check_counts(clear_dead(40000, false, 2), 0, 1, 1);
    assert_int_equal(ask_int("EXISTS rql:lock_queue:a"), 0);
    check_counts(clear_dead(0, false, 1), 0, 1, 1);
    check_counts(clear_dead(0, false, 0), 0, 0, 0);
}

/* A request as acquire.lua writes it; until_us 0: no end. */
static void wait_as(const char *name, int number, const char *identity, long long until_us)
{
    char acquirer[RQL_ID_SIZE];
    char record[RQL_ID_SIZE * 2];

    (void)snprintf(acquirer, sizeof acquirer, "rql:acq:1/%d/0/0/%s", number, identity);
    (void)snprintf(record, sizeof record, "rql:hst:1/%d/0/%s 1000 %032d %lld q ", number, identity,
                   number, until_us);
    ask("ZADD rql:lock_queue:%s %d %s", name, number, acquirer);
    freeReplyObject(redisCommand(raw, "HSET rql:req:%s %s %s", name, acquirer, record));
}

static void live(const char *identity)
{
    ask("ZADD rql:live %lld000000 %s", (long long)now_s() + 1, identity);
}

static void requests_of_ours_that_live_keep_their_places(void **state)
{
    (void)state;
    hold_as("x", OTHER, OTHER_HOST);
    live(OURS);
    wait_as("x", 1, OURS, 0);
    wait_as("x", 2, OURS, 1);                               /* its time is over */
    wait_as("x", 3, "fedcba9876543210fedcba9876543210", 0); /* its client is silent */
    ask("ZADD rql:lock_queue:x 4 rql:acq:1/4/0/0/" OURS);   /* it has no record */
    ask("ZADD rql:lock_queue:x 5 " DEAD);                   /* of the gem */
    wait_as("x", 6, OURS, (now_s() + 1000) * 1000000);
    check_counts(clear_dead(0, true, 1), 0, 1, 4);
    check_counts(clear_dead(0, false, 1), 0, 1, 4);
    assert_int_equal(ask_int("ZCARD rql:lock_queue:x"), 2);
    assert_int_equal(ask_int("HLEN rql:req:x"), 2);
    assert_int_equal(ask_int("ZSCORE rql:lock_queue:x rql:acq:1/1/0/0/" OURS), 1);
    check_counts(clear_dead(0, false, 1), 0, 0, 0);
}

/* More than one step of the script goes through, with the living in between. */
static void long_queues_are_gone_through(void **state)
{
    enum { WAITERS = 700 };

    (void)state;
    hold_as("x", OTHER, OTHER_HOST);
    live(OURS);
    /* The odd ones from 151 on are dead. */
    for (int i = 1; i <= WAITERS; i++) {
        wait_as("x", i, OURS, i % 2 == 0 || i < 150 ? 0 : 1);
    }
    check_counts(clear_dead(0, true, 1), 0, 1, 275);
    check_counts(clear_dead(0, false, 1), 0, 1, 275);
    assert_int_equal(ask_int("ZCARD rql:lock_queue:x"), WAITERS - 275);
    assert_int_equal(ask_int("HLEN rql:req:x"), WAITERS - 275);
}

/* As many as one step of the script takes; the one behind them is to be served. */
static void who_stands_behind_a_whole_page_is_served(void **state)
{
    enum { PAGE = 100 };

    struct waiter waiter = {.client = other, .name = "x", .options = patient(other)};
    rql_lock *held = hold(client, "x");
    rql_sweep_result result;

    (void)state;
    waiter.options.retry_delay_ms = 3600000;
    waiter.options.queue_ttl_ms =
        RQL_FOREVER; /* its poll removes nobody for having waited for long */
    waiter_start_as(&waiter, 1);
    await_int(1, "EVAL return(redis.call('pubsub','numsub',ARGV[1]))[2] 0 rql:wake:%s",
              rql_client_identity(other));
    for (int i = 1; i <= PAGE; i++) {
        ask("ZADD rql:lock_queue:x %d rql:acq:90001/%d/2/3/ffffffffffffff01", i, i);
    }
    ask("DEL rql:lock:x");
    result = clear_dead(86400000, false, 1);
    assert_int_equal(result.rem_request_cnt, PAGE);
    CHECK_OK(waiter_join(&waiter));
    assert_int_equal(rql_lock_release(held, NULL), RQL_NOT_HELD);
    CHECK_OK(rql_lock_release(waiter.lock, NULL));
}

/* The script leaves that to its caller. */
static void a_free_lock_goes_to_who_stands_behind_the_dead(void **state)
{
    redisContext *subscriber = redisConnectUnix(server.socket_path);
    rql_sweep_result result;

    (void)state;
    assert_non_null(subscriber);
    freeReplyObject(redisCommand(subscriber, "SUBSCRIBE rql:wake:" OURS));
    live(OURS);
    ask("ZADD rql:lock_queue:x 0.5 " DEAD);
    wait_as("x", 1, OURS, 0);
    result = clear_dead(0, false, 1);
    check_counts(result, 0, 1, 1);
    assert_int_equal(result.handed_over_cnt, 1);
    assert_int_equal(ask_int("HEXISTS rql:lock:x acq_id"), 1);
    redisFree(subscriber);
}

/* The script is the first to see them. */
static void foreign_records_of_requests_are_left_alone_and_counted(void **state)
{
    rql_sweep_result result;

    (void)state;
    ask("ZADD rql:lock_queue:s 1 " DEAD);
    ask("SET rql:req:s x");
    result = clear_dead(0, false, 1);
    check_counts(result, 0, 0, 0);
    assert_int_equal(result.foreign_key_cnt, 1);
    assert_int_equal(ask_int("ZCARD rql:lock_queue:s"), 1);
}

struct steps {
    int64_t calls;
    int64_t last_done;
    int64_t last_found;
    int64_t stop_at; /* of done; -1: never */
    bool went_back;
};

static bool watch_steps(int64_t done, int64_t found, void *user_data)
{
    struct steps *self = user_data;

    self->calls++;
    self->went_back = self->went_back || done < self->last_done || done > found ||
                      (done > 0 && self->last_done > 0 && found != self->last_found);
    self->last_done = done;
    self->last_found = found;
    return self->stop_at < 0 || done < self->stop_at;
}

static void progress_is_told_and_may_stop_it(void **state)
{
    struct steps steps = {.stop_at = -1};
    rql_sweep_options options;
    rql_sweep_result result;
    char name[16];

    (void)state;
    for (int i = 0; i < 20; i++) {
        (void)snprintf(name, sizeof name, "n%d", i);
        hold_as(name, RUBY, RUBY_HOST);
        ask("ZADD rql:lock_queue:n%d 1 " DEAD, i);
    }
    rql_sweep_options_init(client, &options);
    options.batch_size = 5;
    options.on_progress = watch_steps;
    options.user_data = &steps;
    options.dry_run = true;
    check_counts(clear_all(&options), 40, 20, 20);
    assert_false(steps.went_back);
    assert_int_equal(steps.last_done, 40);
    assert_int_equal(steps.last_found, 40);
    assert_true(steps.calls >= 10);
    options.dry_run = false;
    steps = (struct steps){.stop_at = 25};
    assert_int_equal(rql_clear_locks(client, &options, &result, NULL), RQL_STOPPED);
    check_counts(result, 25, 20, 20);
    assert_int_equal(ask_int("DBSIZE"), 15);
    steps = (struct steps){.stop_at = 0};
    assert_int_equal(rql_clear_locks(client, &options, &result, NULL), RQL_STOPPED);
    check_counts(result, 0, 0, 0);
    assert_int_equal(steps.calls, 1);
    steps = (struct steps){.stop_at = -1};
    check_counts(clear_all(&options), 15, 0, 0);
}

static void bad_arguments_are_refused(void **state)
{
    char id[600];
    rql_sweep_owner owner = {.acq_id = RUBY, .hst_id = NULL};
    rql_sweep_result result = {.rel_key_cnt = 77};
    rql_sweep_options options;

    (void)state;
    memset(id, 'i', sizeof id);
    id[513] = '\0';
    assert_int_equal(rql_clear_locks(NULL, NULL, &result, NULL), RQL_E_INVALID);
    assert_int_equal(rql_clear_dead_requests(NULL, NULL, NULL, NULL, NULL), RQL_E_INVALID);
    assert_int_equal(rql_clear_current_locks(NULL, 0, NULL, NULL, NULL), RQL_E_INVALID);
    assert_int_equal(rql_clear_locks_of(client, NULL, NULL, NULL, NULL), RQL_E_INVALID);
    assert_int_equal(rql_clear_locks_of(client, &owner, NULL, NULL, NULL), RQL_E_INVALID);
    owner = (rql_sweep_owner){.acq_id = "", .hst_id = RUBY_HOST};
    assert_int_equal(rql_clear_locks_of(client, &owner, NULL, NULL, NULL), RQL_E_INVALID);
    owner = (rql_sweep_owner){.acq_id = RUBY, .hst_id = id};
    assert_int_equal(rql_clear_locks_of(client, &owner, NULL, NULL, NULL), RQL_E_INVALID);
    id[512] = '\0';
    CHECK_OK(rql_clear_locks_of(client, &owner, NULL, NULL, NULL));
    rql_sweep_options_init(client, &options);
    options.batch_size = 0;
    assert_int_equal(rql_clear_locks(client, &options, &result, NULL), RQL_E_INVALID);
    assert_int_equal(result.rel_key_cnt, 77);
}

/* Ends by a signal when all is well: valgrind has its own idea of exit codes. */
static void call_in_child(void)
{
    const rql_sweep_owner owner = {.acq_id = RUBY, .hst_id = RUBY_HOST};
    bool refused = rql_clear_locks(client, NULL, NULL, NULL) == RQL_E_FORKED &&
                   rql_clear_locks_of(client, &owner, NULL, NULL, NULL) == RQL_E_FORKED &&
                   rql_clear_current_locks(client, 0, NULL, NULL, NULL) == RQL_E_FORKED &&
                   rql_clear_dead_requests(client, NULL, NULL, NULL, NULL) == RQL_E_FORKED;

    if (refused) {
        (void)kill(getpid(), SIGKILL);
    }
}

static void a_fork_child_is_refused(void **state)
{
    int status = 0;

    (void)state;
    hold_as("x", RUBY, RUBY_HOST);
    assert_true(waitpid(start_child(call_in_child), &status, 0) > 0);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 1);
}

static void a_server_that_has_forgotten_its_scripts_is_taught(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        hold_as("a", RUBY, RUBY_HOST);
        hold_as("b", RUBY, RUBY_HOST);
        ask("ZADD rql:lock_queue:a 1 " DEAD);
        ask("SCRIPT FLUSH");
        check_counts(clear_all(NULL), 3, 1, 1);
    }
}

static bool forget_scripts(int64_t done, int64_t found, void *user_data)
{
    (void)done;
    (void)found;
    (void)user_data;
    ask("SCRIPT FLUSH");
    return true;
}

static void scripts_that_are_forgotten_midway_are_taught_again(void **state)
{
    rql_sweep_options options;
    char name[16];

    (void)state;
    for (int i = 0; i < 20; i++) {
        (void)snprintf(name, sizeof name, "n%d", i);
        hold_as(name, RUBY, RUBY_HOST);
    }
    rql_sweep_options_init(client, &options);
    options.batch_size = 6;
    options.on_progress = forget_scripts;
    check_counts(clear_all(&options), 20, 0, 0);
}

/* What was told, one key a line. */
struct told {
    char keys[512];
};

static bool wants_b(const char *name, void *data)
{
    (void)data;
    return name[0] == 'b';
}

static void note_swept(const char *key, void *data)
{
    struct told *told = data;
    size_t length = strlen(told->keys);

    (void)snprintf(told->keys + length, sizeof told->keys - length, "%s\n", key);
}

static rql_sweep_options only_b(struct told *told, bool dry_run)
{
    rql_sweep_options options;

    rql_sweep_options_init(client, &options);
    options.wants = wants_b;
    options.on_swept = note_swept;
    options.user_data = told;
    options.dry_run = dry_run;
    *told = (struct told){.keys = ""};
    return options;
}

static void a_sweep_ends_what_is_wanted_and_names_it(void **state)
{
    static const char all[] = "rql:lock_queue:b\nrql:lock:b\n";

    (void)state;
    for (int dry_run = 1; dry_run >= 0; dry_run--) {
        struct told told;
        const rql_sweep_options options = only_b(&told, dry_run);

        hold_as("a", RUBY, RUBY_HOST);
        hold_as("b", RUBY, RUBY_HOST);
        ask("ZADD rql:lock_queue:a 1795255163.5 %s", OTHER);
        ask("ZADD rql:lock_queue:b 1795255163.5 %s", OTHER);
        assert_int_equal(clear_all(&options).rel_key_cnt, 2);
        assert_string_equal(told.keys, all);
        assert_int_equal(ask_int("EXISTS rql:lock:b rql:lock_queue:b"), dry_run ? 2 : 0);
        assert_int_equal(ask_int("EXISTS rql:lock:a rql:lock_queue:a"), 2);
    }
}

static void all_sweeps_name_what_they_sweep(void **state)
{
    (void)state;
    for (int dry_run = 1; dry_run >= 0; dry_run--) {
        struct told told;
        rql_sweep_options options = only_b(&told, dry_run);

        hold_as("b", RUBY, RUBY_HOST);
        hold_as("b2", OTHER, OTHER_HOST);
        ask("ZADD rql:lock_queue:b2 1.5 %s", RUBY);
        ask("ZADD rql:lock_queue:a 1.5 %s", RUBY);
        (void)clear_of(RUBY, RUBY_HOST, &options);
        assert_string_equal(told.keys, "rql:lock:b\nrql:lock_queue:b2\n");
        ask("ZADD rql:lock_queue:b2 1.5 %s 2.5 %s", DEAD, OTHER);
        options = only_b(&told, dry_run);
        CHECK_OK(rql_clear_dead_requests(client, &options, NULL, NULL, NULL));
        assert_string_equal(told.keys, "rql:lock_queue:b2\n");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(nothing_to_clear_is_no_fault),
        TEST(locks_and_queues_go_and_nothing_else),
        TEST(holders_of_the_client_learn_of_it_at_once),
        TEST(whoever_shares_a_grant_loses_it),
        TEST(foreign_keys_are_left_alone_and_counted),
        TEST(a_lock_beside_foreign_keys_goes),
        TEST(a_lock_too_large_to_look_at_stays),
        TEST(a_name_too_long_to_handle_stays),
        TEST(names_of_any_bytes_are_cleared),
        TEST(locks_go_by_both_ids_and_requests_by_one),
        TEST(current_locks_are_those_of_thread_and_task),
        TEST(old_requests_of_the_gem_go),
        TEST(requests_of_ours_that_live_keep_their_places),
        TEST(long_queues_are_gone_through),
        TEST(who_stands_behind_a_whole_page_is_served),
        TEST(a_free_lock_goes_to_who_stands_behind_the_dead),
        TEST(foreign_records_of_requests_are_left_alone_and_counted),
        TEST(progress_is_told_and_may_stop_it),
        TEST(a_sweep_ends_what_is_wanted_and_names_it),
        TEST(all_sweeps_name_what_they_sweep),
        TEST(bad_arguments_are_refused),
        TEST(a_fork_child_is_refused),
        TEST(a_server_that_has_forgotten_its_scripts_is_taught),
        TEST(scripts_that_are_forgotten_midway_are_taught_again),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests_name("sweep", tests, start_server, stop_server);
}
