#include "fixture.h"

#include "proxy.h"

/* Sweeps of many locks: what others feel of it, and what is left when the connection fails. */

#define ACQ "rql:acq:18466/600/620/640/aaaaaaaaaaaaaaa1"
#define HST "rql:hst:18466/600/640/aaaaaaaaaaaaaaa1"

/* ARGV: from, to. Locks as the gem writes them, and a queue of one for every tenth. */
#define SEED                                                                                       \
    "for i = ARGV[1], ARGV[2] do "                                                                 \
    "redis.call('HSET', 'rql:lock:job-' .. i, 'acq_id', '" ACQ "', 'hst_id', '" HST "', "          \
    "'ts', '1795255177.83339', 'ini_ttl', '600000') "                                              \
    "redis.call('PEXPIRE', 'rql:lock:job-' .. i, 600000) "                                         \
    "if i % 10 == 0 then redis.call('ZADD', 'rql:lock_queue:job-' .. i, i, '" ACQ "') end "        \
    "end return 1"

enum { MANY = 100000, FEW = 1000, SEED_STEP = 1000, MAX_PINGS = 100000 };

static struct proxy *proxy;

static int set_up(void **state)
{
    (void)state;
    ask("FLUSHALL");
    ask("CONFIG RESETSTAT");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    proxy = proxy_stop(proxy);
    return 0;
}

static void seed(int64_t count)
{
    for (int64_t at = 0; at < count; at += SEED_STEP) {
        freeReplyObject(redisCommand(raw, "EVAL %s 0 %lld %lld", SEED, (long long)at + 1,
                                     (long long)at + SEED_STEP));
    }
    assert_int_equal(ask_int("DBSIZE"), count + count / 10);
}

/* Another client, while a sweep is on. */
struct pings {
    redisContext *connection;
    _Atomic bool shall_stop;
    size_t count;
    int64_t took_us[MAX_PINGS];
};

static void *run_pings(void *data)
{
    struct pings *self = data;

    while (!self->shall_stop && self->count < MAX_PINGS) {
        int64_t begun_us = wait_clock_us();

        freeReplyObject(redisCommand(self->connection, "PING"));
        self->took_us[self->count++] = wait_clock_us() - begun_us;
    }
    return NULL;
}

static int compare(const void *a, const void *b)
{
    const int64_t *left = a;
    const int64_t *right = b;

    return (*left > *right) - (*left < *right);
}

/* Microseconds that one call of a command takes the server, on average. */
static double us_per_call(const char *command)
{
    redisReply *reply = ask_reply("INFO commandstats");
    char row[64];
    const char *at;
    double us = 0;

    (void)snprintf(row, sizeof row, "cmdstat_%s:", command);
    at = strstr(reply->str, row);
    at = at ? strstr(at, "usec_per_call=") : NULL;
    if (at) {
        us = strtod(at + strlen("usec_per_call="), NULL);
    }
    freeReplyObject(reply);
    return us;
}

/* Bounds that only a sweep in one piece would miss: that is tens of milliseconds for each script,
 * and one PING for the whole sweep. */
static void others_are_served_while_many_locks_go(void **state)
{
    int64_t count = MANY / wait_slowness() / SEED_STEP * SEED_STEP;
    struct pings *pings = calloc(1, sizeof *pings);
    rql_client *client = new_client();
    rql_sweep_result result;
    pthread_t thread;

    (void)state;
    assert_non_null(pings);
    seed(count);
    ask("CONFIG RESETSTAT");
    pings->connection = redis_server_connect(&server);
    assert_int_equal(pthread_create(&thread, NULL, run_pings, pings), 0);
    CHECK_OK(rql_clear_locks(client, NULL, &result, NULL));
    pings->shall_stop = true;
    assert_int_equal(pthread_join(thread, NULL), 0);
    qsort(pings->took_us, pings->count, sizeof pings->took_us[0], compare);
    print_message(
        "# %lld keys in %lld ms; evalsha %.1f us; %zu pings, median %lld us, max %lld us\n",
        (long long)result.rel_key_cnt, (long long)result.rel_time_us / 1000, us_per_call("evalsha"),
        pings->count, (long long)pings->took_us[pings->count / 2],
        (long long)pings->took_us[pings->count - 1]);
    assert_int_equal(result.rel_key_cnt, count + count / 10);
    assert_int_equal(ask_int("DBSIZE"), 0);
    assert_true(us_per_call("evalsha") < 2000);
    assert_true(pings->count >= 20);
    assert_true(pings->took_us[pings->count / 2] < 100000 * wait_slowness());
    redisFree(pings->connection);
    free(pings);
    (void)rql_client_free(client);
}

static rql_client *client_behind_proxy(void)
{
    rql_options options = client_options();

    proxy = proxy_start(server.socket_path);
    options.url = proxy_url(proxy);
    options.io_timeout_ms = 300 * wait_slowness();
    options.connect_timeout_ms = 20000;
    return new_client_with(&options);
}

/* What happens to the connection, and when. */
struct trouble {
    void (*make)(struct proxy *proxy);
    int64_t at; /* keys done */
    bool is_made;
};

static bool make_trouble(int64_t done, int64_t found, void *user_data)
{
    struct trouble *self = user_data;

    (void)found;
    if (done >= self->at && !self->is_made) {
        self->is_made = true;
        self->make(proxy);
    }
    return true;
}

static void freeze(struct proxy *of)
{
    proxy_freeze(of, PROXY_BOTH, true);
}

static void refuse_and_cut(struct proxy *of)
{
    proxy_refuse(of, true);
    proxy_cut(of);
}

/* 200 replies of sizes, 100 of looks; then the scripts' are cut in their midst. */
static void cut_among_scripts(struct proxy *of)
{
    proxy_cut_reply(of, 350);
}

static void sweep_into(void (*make)(struct proxy *of), rql_status expected)
{
    struct trouble trouble = {.make = make, .at = 500};
    rql_client *client = client_behind_proxy();
    rql_sweep_options options;
    rql_sweep_result result = {.rel_key_cnt = -1};
    rql_error error = {0};
    int64_t left;

    seed(FEW);
    rql_sweep_options_init(client, &options);
    options.on_progress = make_trouble;
    options.user_data = &trouble;
    assert_int_equal(rql_clear_locks(client, &options, &result, &error), expected);
    assert_int_equal(error.status, expected);
    assert_true(strlen(error.message) > 0);
    left = ask_int("DBSIZE");
    print_message("# %s: %lld counted, %lld left\n", error.message, (long long)result.rel_key_cnt,
                  (long long)left);
    /* A batch that got no answer is not counted, but may have been done. */
    assert_int_equal(result.rel_key_cnt, 500);
    assert_in_range(left, FEW + FEW / 10 - 600, FEW + FEW / 10 - 500);
    proxy_heal(proxy);
    CHECK_OK(rql_clear_locks(client, NULL, &result, &error));
    assert_int_equal(result.rel_key_cnt, left);
    assert_int_equal(ask_int("DBSIZE"), 0);
    (void)rql_client_free(client);
}

static void a_silent_server_ends_the_sweep(void **state)
{
    (void)state;
    sweep_into(freeze, RQL_E_IO);
}

static void a_server_that_is_gone_ends_the_sweep(void **state)
{
    (void)state;
    sweep_into(refuse_and_cut, RQL_E_IO);
}

static void an_unanswered_batch_is_unknown(void **state)
{
    (void)state;
    sweep_into(cut_among_scripts, RQL_E_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(others_are_served_while_many_locks_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_silent_server_ends_the_sweep, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_server_that_is_gone_ends_the_sweep, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_unanswered_batch_is_unknown, set_up, tear_down),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests_name("sweep_many", tests, start_server, stop_server);
}
