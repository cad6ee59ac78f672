#include "fixture.h"

#include <rql/history.h>

/* What only the library can be asked about holds that have ended: the program asks for all of them
 * (cli/test_history.py). */

enum { RECORDED = 600, USES_MAX = 20000, IO_TIMEOUT_MS = 60000, SOON_MS = 10000 };

FIXTURE(start_server, stop_server, make_clients, free_clients);

/* Each hold is recorded by the party that has ended it, and later by its holder. */
static void record_twice(void)
{
    static const char script[] =
        "for _, ended in ipairs({'flushed', 'lost'}) do for i = 1, tonumber(ARGV[1]) do "
        "redis.call('XADD', 'rql:history', '*', 'name', 'x', 'ended', ended, 'token', i) end end";
    redisReply *reply = redisCommand(raw, "EVAL %s 0 %d", script, RECORDED);

    assert_non_null(reply);
    assert_int_not_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
}

TEST(as_many_holds_are_listed_as_are_asked_for)
{
    static const int64_t counts[] = {1, 300, 501, RECORDED - 1, RECORDED, INT64_MAX};

    record_twice();
    for (size_t i = 0; i < N_ROWS(counts); i++) {
        int64_t wanted = counts[i] < RECORDED ? counts[i] : RECORDED;
        rql_history_info_list *list = NULL;

        CHECK_OK(rql_history_list(client, counts[i], &list, NULL));
        assert_int_equal(list->count, wanted);
        for (size_t k = 0; k < list->count; k++) {
            assert_string_equal(list->item[k]->ended, "flushed");
        }
        rql_free(list);
    }
}

static int64_t dropped_by(rql_client *of)
{
    rql_stats stats;

    CHECK_OK(rql_client_stats(of, &stats));
    return stats.history_dropped;
}

/* So many at once that there is no room to keep them one by one. */
TEST(holds_that_are_not_kept_one_by_one_are_in_the_usage)
{
    rql_options options = client_options();
    rql_usage_info_list *usage = NULL;
    rql_client *user;
    bool is_short;
    int n_holds = 0;

    options.history = RQL_HISTORY_ALL;
    user = new_client_with(&options);
    for (is_short = false; !is_short && n_holds < USES_MAX; n_holds++) {
        CHECK_OK(rql_lock_release(hold(user, "x"), NULL));
        is_short = !RQLI_LIGHT && dropped_by(user) > 0;
    }
    assert_null(rql_client_free(user));
    CHECK_OK(rql_usage_list(client, 1, &usage, NULL));
    assert_int_equal(usage->count, 1);
    assert_int_equal(usage->item[0]->holds, n_holds);
    assert_int_equal(usage->dropped, 0);
    rql_free(usage);
    print_message("# %d holds, %s room\n", n_holds, is_short ? "more than there is" : "with");
}

/* It would ask for the names of those whose locks it has ended. */
TEST(the_end_of_a_client_does_not_wait_for_a_dead_server)
{
    struct redis_server dying = {0};
    rql_options options = client_options();
    rql_client *operator;
    rql_client *holder;
    rql_lock *lock;
    int64_t begun_us;

    assert_int_equal(redis_server_start(&dying), 0);
    options.url = dying.url;
    options.io_timeout_ms = IO_TIMEOUT_MS;
    holder = new_client_with(&options);
    options.history = RQL_HISTORY_LONG;
    operator= new_client_with(&options);
    lock = hold(holder, "x");
    CHECK_OK(rql_lock_end_grant(operator, "x", rql_lock_token(lock), NULL));
    redis_server_kill(&dying);
    begun_us = wait_clock_us();
    assert_null(rql_client_free(operator));
    assert_in_range(wait_clock_us() - begun_us, 0, SOON_MS * 1000);
    (void)rql_lock_forget(lock);
    assert_null(rql_client_free(holder));
    redis_server_stop(&dying);
}
