#include "clients.h"

#define ACQ1 "rql:acq:18466/600/620/640/aaaaaaaaaaaaaaa1"
#define HST1 "rql:hst:18466/600/640/aaaaaaaaaaaaaaa1"
#define ACQ2 "rql:acq:18524/600/620/640/bbbbbbbbbbbbbbb2"
#define HST2 "rql:hst:18524/600/640/bbbbbbbbbbbbbbb2"
#define WAIT1 "rql:acq:90001/1/2/3/ffffffffffffff01"
#define WAIT2 "rql:acq:90002/1/2/3/ffffffffffffff02"
#define WAIT3 "rql:acq:90003/1/2/3/ffffffffffffff03"

/* As the gem takes a lock. */
static void take_lock(const char *key, const char *acq_id, const char *hst_id, const char *ts)
{
    ask("HSET %s acq_id %s hst_id %s ts %s ini_ttl 9000", key, acq_id, hst_id, ts);
    ask("PEXPIRE %s 9000", key);
}

static void check_texts(rql_status (*list)(rql_client *, rql_text_list **, rql_error *),
                        const char *const *expected, size_t count)
{
    rql_text_list *found = NULL;
    rql_error error = {0};

    CHECK_OK(list(client, &found, &error));
    assert_int_equal(found->count, count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(found->item[i], expected[i]);
    }
    assert_null(rql_text_list_free(found));
}

static bool is_locked(const char *name)
{
    bool answer = false;

    CHECK_OK(rql_is_locked(client, name, &answer, NULL));
    return answer;
}

static bool is_queued(const char *name)
{
    bool answer = false;

    CHECK_OK(rql_is_queued(client, name, &answer, NULL));
    return answer;
}

static rql_lock_info *lock_info(const char *name)
{
    rql_lock_info *info = NULL;
    rql_error error = {0};
    rql_status status = rql_get_lock_info(client, name, &info, &error);

    if (status) {
        fail_msg("%s: %d %s", name, status, error.message);
    }
    return info;
}

static rql_queue_info *queue_info(const char *name)
{
    rql_queue_info *info = NULL;
    rql_error error = {0};
    rql_status status = rql_get_queue_info(client, name, &info, &error);

    if (status) {
        fail_msg("%s: %d %s", name, status, error.message);
    }
    return info;
}

static void an_empty_database_has_nothing(void **state)
{
    rql_lock_info_list *locks = NULL;
    rql_queue_info_list *queues = NULL;
    rql_lock_info *lock = NULL;
    rql_queue_info *queue = NULL;

    (void)state;
    check_texts(rql_list_locks, NULL, 0);
    check_texts(rql_list_queues, NULL, 0);
    check_texts(rql_list_keys, NULL, 0);
    CHECK_OK(rql_list_locks_info(client, &locks, NULL));
    CHECK_OK(rql_list_queues_info(client, &queues, NULL));
    assert_int_equal(locks->count, 0);
    assert_int_equal(queues->count, 0);
    assert_null(rql_lock_info_list_free(locks));
    assert_null(rql_queue_info_list_free(queues));
    assert_int_equal(rql_get_lock_info(client, "none", &lock, NULL), RQL_NOT_FOUND);
    assert_int_equal(rql_get_queue_info(client, "none", &queue, NULL), RQL_NOT_FOUND);
    assert_null(lock);
    assert_null(queue);
    assert_false(is_locked("none"));
    assert_false(is_queued("none"));
}

/* The state of the recording "views", steps 10 to 14. */
static void seed_views(void)
{
    take_lock("rql:lock:a", ACQ1, HST1, "1795255177.83339");
    ask("HSET rql:lock:a m 1");
    take_lock("rql:lock:b", ACQ2, HST2, "1795255178.0331578");
    ask("ZADD rql:lock_queue:a 1795255178.1331005 " WAIT1 " 1795255178.3831005 " WAIT2);
    ask("ZADD rql:lock_queue:c 1700000000 " WAIT3);
    ask("SET rql:lockx 1");
}

static void keys_are_listed_as_by_the_gem(void **state)
{
    static const char *const keys[] = {"rql:lock:a", "rql:lock:b", "rql:lock_queue:a",
                                       "rql:lock_queue:c", "rql:lockx"};

    (void)state;
    seed_views();
    check_texts(rql_list_locks, keys, 2);
    check_texts(rql_list_queues, keys + 2, 2);
    check_texts(rql_list_keys, keys, 5);
    assert_true(is_locked("a"));
    assert_true(is_queued("a"));
    assert_false(is_locked("c"));
    assert_true(is_queued("c"));
}

static void check_lock_a(const rql_lock_info *info)
{
    assert_int_equal(info->status, RQL_KEY_ALIVE);
    assert_string_equal(info->lock_key, "rql:lock:a");
    assert_string_equal(info->name, "a");
    assert_string_equal(info->acq_id, ACQ1);
    assert_string_equal(info->hst_id, HST1);
    assert_int_equal(info->ts_us, 1795255177833390);
    assert_int_equal(info->ini_ttl_ms, 9000);
    assert_in_range(info->rem_ttl_ms, 1, 9000);
    assert_int_equal(info->spc_cnt, -1);
    assert_int_equal(info->token, -1);
    assert_int_equal(info->n_meta, 1);
    assert_string_equal(info->meta[0].name, "m");
    assert_string_equal(info->meta[0].value, "1");
}

static void locks_are_described_as_by_the_gem(void **state)
{
    rql_lock_info_list *list = NULL;
    rql_lock_info *info;

    (void)state;
    seed_views();
    info = lock_info("a");
    check_lock_a(info);
    assert_null(rql_lock_info_free(info));
    CHECK_OK(rql_list_locks_info(client, &list, NULL));
    assert_int_equal(list->count, 2);
    check_lock_a(list->item[0]);
    assert_string_equal(list->item[1]->acq_id, ACQ2);
    assert_string_equal(list->item[1]->hst_id, HST2);
    assert_int_equal(list->item[1]->ts_us, 1795255178033158);
    assert_int_equal(list->item[1]->n_meta, 0);
    (void)rql_lock_info_list_free(list);
}

static void check_queue_a(const rql_queue_info *info)
{
    assert_int_equal(info->status, RQL_KEY_ALIVE);
    assert_string_equal(info->lock_queue, "rql:lock_queue:a");
    assert_string_equal(info->name, "a");
    assert_int_equal(info->n_requests, 2);
    assert_string_equal(info->requests[0].acq_id, WAIT1);
    assert_int_equal(info->requests[0].score_us, 1795255178133101);
    assert_int_equal(info->requests[0].position, 1);
    assert_null(info->requests[0].hst_id);
    assert_string_equal(info->requests[1].acq_id, WAIT2);
    assert_int_equal(info->requests[1].score_us, 1795255178383101);
    assert_int_equal(info->requests[1].position, 2);
}

static void queues_are_described_as_by_the_gem(void **state)
{
    rql_queue_info_list *list = NULL;
    rql_queue_info *info;

    (void)state;
    seed_views();
    info = queue_info("a");
    check_queue_a(info);
    assert_null(rql_queue_info_free(info));
    CHECK_OK(rql_list_queues_info(client, &list, NULL));
    assert_int_equal(list->count, 2);
    check_queue_a(list->item[0]);
    assert_string_equal(list->item[1]->lock_queue, "rql:lock_queue:c");
    assert_int_equal(list->item[1]->n_requests, 1);
    assert_int_equal(list->item[1]->requests[0].score_us, 1700000000000000);
    (void)rql_queue_info_list_free(list);
}

static void metadata_of_the_gem_is_kept_whole(void **state)
{
    static const char *const expected[][2] = {
        {"some", "data"}, {"n", "12"}, {"f", "1.5"}, {"", "emptykey"}, {"sp ace", "v v"}};
    rql_lock_info *info;

    (void)state;
    take_lock("rql:lock:x", ACQ1, HST1, "1795255131.070483");
    freeReplyObject(redisCommand(raw, "HSET rql:lock:x some data n 12 f 1.5 %s emptykey %s %s", "",
                                 "sp ace", "v v"));
    info = lock_info("x");
    assert_int_equal(info->n_meta, 5);
    for (size_t i = 0; i < info->n_meta; i++) {
        assert_string_equal(info->meta[i].name, expected[i][0]);
        assert_string_equal(info->meta[i].value, expected[i][1]);
    }
    (void)rql_lock_info_free(info);
}

static void check_lock_status(const char *name, rql_key_status expected)
{
    rql_lock_info *info = lock_info(name);

    assert_int_equal(info->status, expected);
    assert_true(is_locked(name));
    (void)rql_lock_info_free(info);
}

/* The recordings "lock_wrong_type_keys" and "lock_argument_edges": the gem raises there. */
static void keys_the_gem_stumbles_over_have_a_status(void **state)
{
    rql_queue_info *queue;
    rql_lock_info *lock;

    (void)state;
    ask("SET rql:lock:string str");
    ask("SET rql:lock_queue:string str");
    ask("RPUSH rql:lock:list 1 2");
    ask("HSET rql:lock:foreign foreign 1");
    ask("HSET rql:lock:ttlfloat acq_id a hst_id h ts 1795255132.7357836 ini_ttl 1500.5");
    check_lock_status("string", RQL_KEY_WRONG_TYPE);
    check_lock_status("list", RQL_KEY_WRONG_TYPE);
    check_lock_status("foreign", RQL_KEY_MALFORMED);
    queue = queue_info("string");
    assert_int_equal(queue->status, RQL_KEY_WRONG_TYPE);
    (void)rql_queue_info_free(queue);
    lock = lock_info("ttlfloat");
    assert_int_equal(lock->status, RQL_KEY_MALFORMED);
    assert_int_equal(lock->ini_ttl_ms, -1);
    assert_int_equal(lock->ts_us, 1795255132735784);
    assert_int_equal(lock->rem_ttl_ms, RQL_FOREVER);
    (void)rql_lock_info_free(lock);
}

static void names_and_places_are_checked_before_anything_is_sent(void **state)
{
    rql_lock_info *info = NULL;
    rql_error error = {0};
    bool answer = true;

    (void)state;
    assert_int_equal(rql_is_locked(client, "", &answer, &error), RQL_E_INVALID);
    assert_int_equal(rql_is_queued(client, "a\n", &answer, &error), RQL_E_INVALID);
    assert_int_equal(rql_is_locked(client, NULL, &answer, &error), RQL_E_INVALID);
    assert_int_equal(rql_get_lock_info(client, "\x7f", &info, &error), RQL_E_INVALID);
    assert_int_equal(rql_get_lock_info(client, "a", NULL, &error), RQL_E_INVALID);
    assert_int_equal(rql_list_keys(client, NULL, &error), RQL_E_INVALID);
    assert_int_equal(rql_is_locked(NULL, "a", &answer, &error), RQL_E_INVALID);
    assert_true(answer);
    assert_null(info);
    assert_null(rql_lock_info_free(NULL));
    assert_null(rql_queue_info_free(NULL));
    assert_null(rql_lock_info_list_free(NULL));
    assert_null(rql_queue_info_list_free(NULL));
    assert_null(rql_text_list_free(NULL));
    rql_refusal_clear(NULL);
}

static void names_are_no_patterns(void **state)
{
    static const char *const keys[] = {"rql:lock:*", "rql:lock:[a]\\?"};

    (void)state;
    take_lock("rql:lock:*", ACQ1, HST1, "1795255177.5");
    take_lock("rql:lock:[a]\\?", ACQ2, HST2, "1795255177.5");
    ask("SET rql:Lock:a 1");
    ask("SET xrql:lock:a 1");
    check_texts(rql_list_locks, keys, 2);
    assert_false(is_locked("a"));
    assert_true(is_locked("[a]\\?"));
}

static void a_refusal_is_cleared_with_what_it_holds(void **state)
{
    rql_refusal refusal = {.reason = RQL_TIMED_OUT, .tries = 3};

    (void)state;
    seed_views();
    refusal.holder = lock_info("a");
    refusal.queue = queue_info("a");
    rql_refusal_clear(&refusal);
    assert_null(refusal.holder);
    assert_null(refusal.queue);
    assert_int_equal(refusal.tries, 0);
    rql_refusal_clear(&refusal);
}

static void a_server_that_is_gone_is_a_fault(void **state)
{
    struct redis_server first = server;
    rql_lock_info_list *list = NULL;
    rql_client *lonely;
    rql_error error = {0};

    (void)state;
    assert_int_equal(redis_server_start(&server), 0);
    lonely = new_client();
    CHECK_OK(rql_list_locks_info(lonely, &list, &error));
    list = rql_lock_info_list_free(list);
    redis_server_stop(&server);
    server = first;
    assert_int_equal(rql_list_locks_info(lonely, &list, &error), RQL_E_IO);
    assert_int_equal(error.status, RQL_E_IO);
    assert_null(list);
    (void)rql_client_free(lonely);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(an_empty_database_has_nothing),
        TEST(keys_are_listed_as_by_the_gem),
        TEST(locks_are_described_as_by_the_gem),
        TEST(queues_are_described_as_by_the_gem),
        TEST(metadata_of_the_gem_is_kept_whole),
        TEST(keys_the_gem_stumbles_over_have_a_status),
        TEST(names_and_places_are_checked_before_anything_is_sent),
        TEST(names_are_no_patterns),
        TEST(a_refusal_is_cleared_with_what_it_holds),
        TEST(a_server_that_is_gone_is_a_fault),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
