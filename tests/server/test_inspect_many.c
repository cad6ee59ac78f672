#include "check.h"

#include "admin/info.h"
#include "redis_server.h"
#include "threads.h"

#include <rql/rql.h>

#include <hiredis.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define ACQ "rql:acq:18466/600/620/640/aaaaaaaaaaaaaaa1"
#define HST "rql:hst:18466/600/640/aaaaaaaaaaaaaaa1"

/* ARGV: how many. Locks as the gem writes them, and a queue of one for every tenth. */
#define SEED                                                                                       \
    "for i = 1, ARGV[1] do "                                                                       \
    "redis.call('HSET', 'rql:lock:job-' .. i, 'acq_id', '" ACQ "', 'hst_id', '" HST "', "          \
    "'ts', '1795255177.83339', 'ini_ttl', '60000', 'n', i) "                                       \
    "redis.call('PEXPIRE', 'rql:lock:job-' .. i, 60000) "                                          \
    "if i % 10 == 0 then redis.call('ZADD', 'rql:lock_queue:job-' .. i, i, '" ACQ "') end "        \
    "end return 1"

enum { MANY = 10000 };

static struct redis_server server;
static redisContext *raw;
static rql_client *client;

static redisReply *ask_reply(const char *format, va_list args)
{
    redisReply *reply = redisvCommand(raw, format, args);

    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR) {
        fail_msg("%s: %s", format, reply->str);
    }
    return reply;
}

static void ask(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    freeReplyObject(ask_reply(format, args));
    va_end(args);
}

/* A number of INFO. */
static long long info_of(const char *section, const char *name)
{
    redisReply *reply = redisCommand(raw, "INFO %s", section);
    const char *found;
    long long value;

    assert_non_null(reply);
    found = strstr(reply->str, name);
    assert_non_null(found);
    value = strtoll(found + strlen(name) + 1, NULL, 10);
    freeReplyObject(reply);
    return value;
}

static rql_client *new_client(const char *login, int64_t batch_size)
{
    char url[160];
    rql_options options;
    rql_client *made = NULL;

    (void)snprintf(url, sizeof url, "unix://%s%s", login, server.socket_path);
    rql_options_init(&options);
    options.url = url;
    options.io_timeout_ms = 20000;
    options.key_extraction_batch_size = batch_size;
    CHECK_OK(rql_client_new(&made, &options, NULL));
    return made;
}

static int start(void **state)
{
    (void)state;
    if (redis_server_start(&server)) {
        return -1;
    }
    raw = redisConnectUnix(server.socket_path);
    return !raw || raw->err;
}

static int stop(void **state)
{
    (void)state;
    redisFree(raw);
    redis_server_stop(&server);
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    ask("FLUSHALL");
    client = new_client("", 500);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    client = rql_client_free(client);
    return 0;
}

static rql_lock_info_list *list_locks(rql_client *of)
{
    rql_lock_info_list *list = NULL;
    rql_error error = {0};
    rql_status status = rql_list_locks_info(of, &list, &error);

    if (status) {
        fail_msg("%d %s", status, error.message);
    }
    return list;
}

static rql_queue_info_list *list_queues(rql_client *of)
{
    rql_queue_info_list *list = NULL;
    rql_error error = {0};
    rql_status status = rql_list_queues_info(of, &list, &error);

    if (status) {
        fail_msg("%d %s", status, error.message);
    }
    return list;
}

static size_t count_locks(const rql_lock_info_list *list, rql_key_status status)
{
    size_t count = 0;

    for (size_t i = 0; i < list->count; i++) {
        count += list->item[i]->status == status;
    }
    return count;
}

static const rql_lock_info *find_lock(const rql_lock_info_list *list, const char *name)
{
    size_t i = 0;

    while (i < list->count && strcmp(list->item[i]->name, name) != 0) {
        i++;
    }
    assert_true(i < list->count);
    return list->item[i];
}

static void seed_strange_locks(void)
{
    ask("SET rql:lock:string 1");
    ask("RPUSH rql:lock:list 1");
    ask("SADD rql:lock:set 1");
    ask("ZADD rql:lock:zset 1 a");
    ask("XADD rql:lock:stream * a b");
    ask("HSET rql:lock:foreign a b");
    ask("HSET rql:lock:half acq_id " ACQ);
    ask("HSET rql:lock:number acq_id " ACQ " hst_id " HST " ts 1e400 ini_ttl 0x10");
    ask("HSET %b acq_id a", "rql:lock:nul\0b", (size_t)14);
    ask("HSET rql:lock: acq_id " ACQ " hst_id " HST " ts 1 ini_ttl 1");
}

static void ten_thousand_locks_are_listed_among_strange_ones(void **state)
{
    rql_lock_info_list *list;
    rql_text_list *keys = NULL;

    (void)state;
    ask("EVAL %s 0 %d", SEED, MANY);
    seed_strange_locks();
    list = list_locks(client);
    assert_int_equal(list->count, MANY + 10);
    assert_int_equal(count_locks(list, RQL_KEY_ALIVE), MANY + 1);
    assert_int_equal(count_locks(list, RQL_KEY_WRONG_TYPE), 5);
    assert_int_equal(count_locks(list, RQL_KEY_MALFORMED), 4);
    assert_int_equal(find_lock(list, "")->status, RQL_KEY_ALIVE);
    assert_int_equal(find_lock(list, "stream")->status, RQL_KEY_WRONG_TYPE);
    assert_string_equal(find_lock(list, "half")->acq_id, ACQ);
    assert_string_equal(find_lock(list, "job-777")->meta[0].value, "777");
    for (size_t i = 1; i < list->count; i++) {
        assert_true(strcmp(list->item[i - 1]->lock_key, list->item[i]->lock_key) < 0);
    }
    (void)rql_lock_info_list_free(list);
    CHECK_OK(rql_list_locks(client, &keys, NULL));
    assert_int_equal(keys->count, MANY + 9);
    (void)rql_text_list_free(keys);
}

static void many_queues_are_listed_among_strange_ones(void **state)
{
    rql_queue_info_list *list;
    size_t alive = 0;
    size_t wrong = 0;

    (void)state;
    ask("EVAL %s 0 %d", SEED, MANY);
    ask("SET rql:lock_queue:string 1");
    ask("HSET rql:lock_queue:hash a b");
    ask("ZADD rql:lock_queue:inf -inf a 5 b +inf c");
    list = list_queues(client);
    assert_int_equal(list->count, MANY / 10 + 3);
    for (size_t i = 0; i < list->count; i++) {
        alive += list->item[i]->status == RQL_KEY_ALIVE && list->item[i]->n_requests == 1;
        wrong += list->item[i]->status == RQL_KEY_WRONG_TYPE;
    }
    assert_int_equal(alive, MANY / 10);
    assert_int_equal(wrong, 2);
    assert_string_equal(list->item[1]->name, "inf");
    assert_int_equal(list->item[1]->status, RQL_KEY_MALFORMED);
    assert_int_equal(list->item[1]->n_requests, 3);
    assert_int_equal(list->item[1]->requests[1].score_us, 5000000);
    (void)rql_queue_info_list_free(list);
}

static void any_batch_size_lists_everything(void **state)
{
    static const int64_t sizes[] = {1, 2, 100000};

    (void)state;
    ask("EVAL %s 0 %d", SEED, 300);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        rql_client *other = new_client("", sizes[i]);
        rql_lock_info_list *list = list_locks(other);

        assert_int_equal(list->count, 300);
        assert_int_equal(count_locks(list, RQL_KEY_ALIVE), 300);
        (void)rql_lock_info_list_free(list);
        (void)rql_client_free(other);
    }
}

static void check_one_that_is_too_large(const char *lock, const char *queue)
{
    rql_lock_info *lock_info = NULL;
    rql_queue_info *queue_info = NULL;

    CHECK_OK(rql_get_lock_info(client, lock, &lock_info, NULL));
    assert_int_equal(lock_info->status, RQL_KEY_MALFORMED);
    CHECK_OK(rql_get_queue_info(client, queue, &queue_info, NULL));
    assert_int_equal(queue_info->status, RQL_KEY_MALFORMED);
    (void)rql_lock_info_free(lock_info);
    (void)rql_queue_info_free(queue_info);
}

/* More than the link carries in one exchange must not cost the connection. */
static void huge_keys_of_others_are_reported_and_break_nothing(void **state)
{
    rql_lock_info_list *locks;
    rql_queue_info_list *queues;
    long long connections;
    bool answer;

    (void)state;
    ask("EVAL %s 0 %d", SEED, 300);
    ask("EVAL %s 0", "for i = 1, 200000 do redis.call('HSET', 'rql:lock:job-1-many', i, i) end");
    ask("EVAL %s 0", "redis.call('HSET', 'rql:lock:job-2-large', 'v', string.rep('x', 20000000))");
    ask("EVAL %s 0", "for i = 1, 20 do redis.call('HSET', 'rql:lock:job-3-' .. i, 'v', "
                     "string.rep('x', 3000000)) end");
    ask("EVAL %s 0", "for i = 1, 30 do redis.call('ZADD', 'rql:lock_queue:large', i, i .. "
                     "string.rep('x', 1000000)) end");
    CHECK_OK(rql_is_locked(client, "a", &answer, NULL));
    connections = info_of("stats", "total_connections_received");
    locks = list_locks(client);
    queues = list_queues(client);
    check_one_that_is_too_large("job-1-many", "large");
    assert_int_equal(info_of("stats", "total_connections_received"), connections);
    assert_int_equal(locks->count, 322);
    assert_int_equal(count_locks(locks, RQL_KEY_ALIVE), 300);
    assert_int_equal(find_lock(locks, "job-1-many")->status, RQL_KEY_MALFORMED);
    assert_int_equal(find_lock(locks, "job-2-large")->status, RQL_KEY_MALFORMED);
    assert_int_equal(find_lock(locks, "job-2-large")->n_meta, 0);
    assert_int_equal(find_lock(locks, "job-3-7")->n_meta, 1);
    assert_int_equal(queues->count, 31);
    assert_string_equal(queues->item[30]->name, "large");
    assert_int_equal(queues->item[30]->status, RQL_KEY_MALFORMED);
    (void)rql_lock_info_list_free(locks);
    (void)rql_queue_info_list_free(queues);
}

static void check_long_queue(const rql_queue_info *info)
{
    char expected[64];

    assert_int_equal(info->status, RQL_KEY_ALIVE);
    assert_int_equal(info->n_requests, 5500);
    for (size_t i = 0; i < info->n_requests; i++) {
        (void)snprintf(expected, sizeof expected, "rql:acq:%05zu", i + 1);
        assert_string_equal(info->requests[i].acq_id, expected);
        assert_int_equal(info->requests[i].position, i + 1);
        if (i % 3 == 2) {
            (void)snprintf(expected, sizeof expected, "rql:hst:%05zu", i + 1);
            assert_string_equal(info->requests[i].hst_id, expected);
        } else {
            assert_null(info->requests[i].hst_id);
        }
    }
    assert_int_equal(info->requests[0].score_us, 1795254268468100);
    assert_int_equal(info->requests[5499].score_us, 1795259768000000);
}

/* 500 of their own score, 2500 that share one, 2500 more. Every third is ours and has a record. */
static void long_queues_are_read_in_pages(void **state)
{
    static const char seed[] =
        "local q, r = 'rql:lock_queue:long', 'rql:req:long' "
        "for i = 1, 5500 do "
        "local score = i == 1 and '1795254268.4681001' or "
        "(i <= 500 or i > 3000) and 1795254268 + i or 1795255000 "
        "redis.call('ZADD', q, score, string.format('rql:acq:%05d', i)) "
        "if i % 3 == 0 then redis.call('HSET', r, string.format('rql:acq:%05d', i), "
        "string.format('rql:hst:%05d 5000 nonce', i)) end "
        "end return 1";
    rql_queue_info *info = NULL;
    rql_queue_info_list *list;

    (void)state;
    ask("EVAL %s 0", seed);
    ask("ZADD rql:lock_queue:a 1 x");
    CHECK_OK(rql_get_queue_info(client, "long", &info, NULL));
    check_long_queue(info);
    (void)rql_queue_info_free(info);
    list = list_queues(client);
    assert_int_equal(list->count, 2);
    check_long_queue(list->item[1]);
    (void)rql_queue_info_list_free(list);
}

static void keys_that_vanish_before_the_look_are_released(void **state)
{
    const struct rqli_reader reader = {client, "test", NULL};
    const struct rqli_item locks[] = {{rqli_slice_of("rql:lock:gone"), 0},
                                      {rqli_slice_of("rql:lock:job-1"), 0}};
    const struct rqli_item queues[] = {{rqli_slice_of("rql:lock_queue:gone"), 0},
                                       {rqli_slice_of("rql:lock_queue:job-10"), 0}};
    rql_lock_info *lock[2] = {NULL};
    rql_queue_info *queue[2] = {NULL};

    (void)state;
    ask("EVAL %s 0 %d", SEED, 10);
    CHECK_OK(rqli_read_locks(&reader, locks, 2, lock));
    CHECK_OK(rqli_read_queues(&reader, queues, 2, queue));
    assert_int_equal(lock[0]->status, RQL_KEY_RELEASED);
    assert_string_equal(lock[0]->name, "gone");
    assert_int_equal(lock[0]->rem_ttl_ms, -1);
    assert_int_equal(lock[1]->status, RQL_KEY_ALIVE);
    assert_int_equal(queue[0]->status, RQL_KEY_RELEASED);
    assert_string_equal(queue[0]->name, "gone");
    assert_int_equal(queue[1]->status, RQL_KEY_ALIVE);
    for (size_t i = 0; i < 2; i++) {
        (void)rql_lock_info_free(lock[i]);
        (void)rql_queue_info_free(queue[i]);
    }
}

static atomic_bool is_over;

/* Takes and drops locks and requests as fast as it can. */
static void churn(size_t index, void *data)
{
    redisContext *context = redisConnectUnix(server.socket_path);

    (void)index;
    (void)data;
    for (unsigned i = 0; context && !atomic_load(&is_over); i = (i + 1) % 64) {
        redisAppendCommand(context, "HSET rql:lock:churn-%u acq_id a hst_id h ts 1 ini_ttl 1", i);
        redisAppendCommand(context, "ZADD rql:lock_queue:churn-%u 1 a", i);
        redisAppendCommand(context, "DEL rql:lock:churn-%u rql:lock_queue:churn-%u", i ^ 32,
                           i ^ 32);
        for (int n = 0; n < 3; n++) {
            void *reply = NULL;

            (void)redisGetReply(context, &reply);
            freeReplyObject(reply);
        }
    }
    redisFree(context);
}

static bool stands_still(const char *name)
{
    return strncmp(name, "churn-", 6) != 0;
}

static void a_moving_database_is_listed_without_losing_what_stays(void **state)
{
    struct threads *threads;

    (void)state;
    ask("EVAL %s 0 %d", SEED, 500);
    atomic_store(&is_over, false);
    threads = threads_start(1, churn, NULL);
    for (int round = 0; round < 20; round++) {
        rql_lock_info_list *locks = list_locks(client);
        rql_queue_info_list *queues = list_queues(client);
        size_t staying = 0;

        for (size_t i = 0; i < locks->count; i++) {
            staying += stands_still(locks->item[i]->name);
            assert_true(locks->item[i]->status <= RQL_KEY_RELEASED);
        }
        for (size_t i = 0; i < queues->count; i++) {
            staying += stands_still(queues->item[i]->name);
            assert_true(queues->item[i]->status <= RQL_KEY_RELEASED);
        }
        assert_int_equal(staying, 550);
        (void)rql_lock_info_list_free(locks);
        (void)rql_queue_info_list_free(queues);
    }
    atomic_store(&is_over, true);
    threads_join(threads);
}

static void a_user_who_may_not_measure_lists_all_the_same(void **state)
{
    rql_client *other;
    rql_lock_info_list *locks;
    rql_queue_info_list *queues;

    (void)state;
    ask("EVAL %s 0 %d", SEED, 300);
    ask("ACL SETUSER meek on >pw ~* &* +@all -memory");
    other = new_client("meek:pw@", 500);
    locks = list_locks(other);
    queues = list_queues(other);
    assert_int_equal(count_locks(locks, RQL_KEY_ALIVE), 300);
    assert_int_equal(queues->count, 30);
    (void)rql_lock_info_list_free(locks);
    (void)rql_queue_info_list_free(queues);
    (void)rql_client_free(other);
}

static void missing_rights_are_a_fault(void **state)
{
    rql_lock_info_list *list = NULL;
    rql_error error = {0};
    rql_client *other;

    (void)state;
    ask("EVAL %s 0 %d", SEED, 3);
    ask("ACL SETUSER blind on >pw ~* &* +@all -hgetall -hlen");
    other = new_client("blind:pw@", 500);
    assert_int_equal(rql_list_locks_info(other, &list, &error), RQL_E_AUTH);
    assert_non_null(strstr(error.message, "rql:lock:*"));
    assert_null(list);
    (void)rql_client_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(ten_thousand_locks_are_listed_among_strange_ones),
        TEST(many_queues_are_listed_among_strange_ones),
        TEST(any_batch_size_lists_everything),
        TEST(huge_keys_of_others_are_reported_and_break_nothing),
        TEST(long_queues_are_read_in_pages),
        TEST(keys_that_vanish_before_the_look_are_released),
        TEST(a_moving_database_is_listed_without_losing_what_stays),
        TEST(a_user_who_may_not_measure_lists_all_the_same),
        TEST(missing_rights_are_a_fault),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests_name("inspect_many", tests, start, stop);
}
