#include "swarm_children.h"

#include "base/random.h"

#include <stdatomic.h>

/* Hosts that are stopped at random, but never for as long as the zombie ttl by the server's clock,
 * and a machine that is suspended as a whole for longer: no host of them may ever be flushed.
 * RQL_TEST_LONG: 10 000 rounds. A machine that makes a pause too long wins no round: such a round
 * is counted and says nothing. */

enum {
    QUICK_HOSTS = 8,
    QUICK_ROUNDS = 80,
    QUICK_SUSPENSIONS = 2,
    LONG_HOSTS = 24,
    LONG_ROUNDS = 10000,
    LONG_SUSPENSIONS = 40,
    TRIES_FOR_EACH = 4,
    TTL_MS = 600,
    LOOKS = 4, /* of the flusher, until it has seen twice what there is */
};

/* A process with a client and a prober, and a lock that bears its name. */
struct host {
    pid_t child;
    char id[RQL_ID_SIZE];
    redisContext *look; /* its thread's own */
    pthread_t thread;
};

static struct {
    struct host hosts[LONG_HOSTS];
    size_t n_hosts;
    int64_t ttl_ms;
    int64_t rounds;
    pthread_mutex_t gate; /* closed: no round begins */
    atomic_int n_active;
    atomic_llong n_tried;
    atomic_llong n_judged;
    atomic_llong n_too_long;
    atomic_llong n_flushed; /* of the judged */
    atomic_llong n_suspended;
    atomic_int n_broken; /* hosts that did not come back */
} field = {.gate = PTHREAD_MUTEX_INITIALIZER};

/* In threads no assert of cmocka's: 0 for nil, for a fault, and for no number. */
static double look_at(const struct host *host, const char *format)
{
    redisReply *reply = redisCommand(host->look, format, host->id);
    double value = 0;

    if (reply && reply->type == REDIS_REPLY_STRING) {
        value = strtod(reply->str, NULL);
    } else if (reply && reply->type == REDIS_REPLY_INTEGER) {
        value = (double)reply->integer;
    }
    freeReplyObject(reply);
    return value;
}

static int64_t last_sign_us(const struct host *host)
{
    return (int64_t)(look_at(host, "HGET rql:swarm:hsts %s") * 1e6);
}

static bool has_lock(const struct host *host)
{
    return look_at(host, "EXISTS rql:lock:%s") == 1;
}

static void plant_lock(const struct host *host)
{
    freeReplyObject(redisCommand(host->look,
                                 "HSET rql:lock:%s acq_id a hst_id %s ts 1.5 ini_ttl 86400000",
                                 host->id, host->id));
}

struct sign {
    const struct host *host;
    int64_t after_us;
    int64_t at_us;
};

static bool has_come(void *data)
{
    struct sign *sign = data;

    sign->at_us = last_sign_us(sign->host);
    return sign->at_us > sign->after_us;
}

/* 0: it did not come. */
static int64_t await_sign(const struct host *host, int64_t after_us)
{
    struct sign sign = {host, after_us, 0};

    return wait_until(has_come, &sign, AWAIT_MS) ? sign.at_us : 0;
}

static void stop(const struct host *host)
{
    (void)kill(host->child, SIGSTOP);
    (void)waitpid(host->child, NULL, WUNTRACED);
}

static void judge(const struct host *host, int64_t silence_us)
{
    bool is_there = has_lock(host);

    if (silence_us >= field.ttl_ms * 1000) {
        field.n_too_long++;
    } else {
        field.n_judged++;
        field.n_flushed += !is_there;
    }
    if (!is_there) {
        plant_lock(host);
    }
}

/* The silence is that between two heartbeats, as the server dates them. */
static bool pause_once(const struct host *host)
{
    int64_t first_us;
    int64_t last_us;
    int64_t back_us;

    stop(host);
    first_us = last_sign_us(host);
    sleep_ms(field.ttl_ms / 4 + rqli_random_below((uint32_t)(field.ttl_ms * 7 / 10)));
    last_us = last_sign_us(host);
    last_us = last_us > first_us ? last_us : first_us; /* flushed: none */
    (void)kill(host->child, SIGCONT);
    back_us = await_sign(host, last_us);
    if (back_us > 0) {
        judge(host, back_us - last_us);
    }
    return back_us > 0;
}

static bool enter(void)
{
    bool goes_on;

    (void)pthread_mutex_lock(&field.gate);
    goes_on = field.n_judged < field.rounds && field.n_tried < TRIES_FOR_EACH * field.rounds;
    field.n_tried += goes_on;
    field.n_active += goes_on;
    (void)pthread_mutex_unlock(&field.gate);
    return goes_on;
}

static void *pause_again_and_again(void *data)
{
    while (enter()) {
        bool came_back = pause_once(data);

        field.n_active--;
        if (!came_back) {
            field.n_broken++;
            break;
        }
    }
    return NULL;
}

static void give_heartbeats(void)
{
    rql_client *own = new_client_in_child();
    rql_swarm_options options;
    rql_swarm *swarm = NULL;

    rql_swarm_options_init(own, &options);
    options.zombie_ttl_ms = field.ttl_ms;
    options.probe_period_ms = field.ttl_ms / 12;
    options.flush_zombies = false;
    must(rql_swarm_start(own, &options, &swarm, NULL) == RQL_OK, 30);
    must(rql_lock_release(hold_in_child(own, "first use"), NULL) == RQL_OK, 31);
    (void)pause();
}

/* Of the gem's form: rql:hst:<process>/... */
static void find_id(struct host *host)
{
    redisReply *reply = ask_reply("HKEYS rql:swarm:hsts");
    char prefix[32];

    (void)snprintf(prefix, sizeof prefix, "rql:hst:%d/", (int)host->child);
    for (size_t i = 0; i < reply->elements; i++) {
        if (strncmp(reply->element[i]->str, prefix, strlen(prefix)) == 0) {
            (void)snprintf(host->id, sizeof host->id, "%s", reply->element[i]->str);
        }
    }
    freeReplyObject(reply);
    assert_string_not_equal(host->id, "");
}

static void start_host(struct host *host, int64_t count)
{
    *host = (struct host){.child = start_child(give_heartbeats)};
    await_hosts(count);
    find_id(host);
    host->look = redis_server_connect(&server);
    assert_non_null(host->look);
    plant_lock(host);
}

static bool is_quiet(void *data)
{
    (void)data;
    return field.n_active == 0;
}

static int64_t looks_of_flusher(void)
{
    rql_swarm_status status;

    CHECK_OK(rql_get_swarm_status(client, &status, NULL));
    return status.flush_zombies.steps;
}

static bool has_looked(void *data)
{
    return looks_of_flusher() >= *(const int64_t *)data;
}

static void await_looks(int64_t n)
{
    int64_t target = looks_of_flusher() + n;

    assert_true(wait_until(has_looked, &target, AWAIT_MS));
}

static int64_t server_time_us(void)
{
    redisReply *reply = ask_reply("TIME");
    int64_t at_us = strtoll(reply->element[0]->str, NULL, 10) * 1000000 +
                    strtoll(reply->element[1]->str, NULL, 10);

    freeReplyObject(reply);
    return at_us;
}

/* All hosts and the server; the flusher is the first that goes on. Who is back within half of the
 * ttl keeps what it has. */
static void suspend_machine(void)
{
    int64_t resumed_us;

    for (size_t i = 0; i < field.n_hosts; i++) {
        stop(&field.hosts[i]);
    }
    redis_server_pause(&server);
    sleep_ms(field.ttl_ms * 3 / 2);
    redis_server_resume(&server);
    resumed_us = server_time_us();
    await_looks(1);
    for (size_t i = 0; i < field.n_hosts; i++) {
        (void)kill(field.hosts[i].child, SIGCONT);
    }
    for (size_t i = 0; i < field.n_hosts; i++) {
        int64_t back_us = await_sign(&field.hosts[i], resumed_us);

        assert_true(back_us > 0);
        judge(&field.hosts[i], 2 * (back_us - resumed_us));
        field.n_suspended++;
    }
    await_looks(LOOKS);
}

static void suspend_now_and_then(int64_t times)
{
    for (int64_t i = 1; i <= times; i++) {
        while (field.n_judged < field.rounds * i / (times + 1) && field.n_broken == 0 &&
               field.n_tried < TRIES_FOR_EACH * field.rounds) {
            sleep_ms(1);
        }
        (void)pthread_mutex_lock(&field.gate);
        assert_true(wait_until(is_quiet, NULL, AWAIT_MS));
        suspend_machine();
        (void)pthread_mutex_unlock(&field.gate);
    }
}

static void run_rounds(int64_t suspensions)
{
    for (size_t i = 0; i < field.n_hosts; i++) {
        assert_int_equal(
            pthread_create(&field.hosts[i].thread, NULL, pause_again_and_again, &field.hosts[i]),
            0);
    }
    suspend_now_and_then(suspensions);
    for (size_t i = 0; i < field.n_hosts; i++) {
        assert_int_equal(pthread_join(field.hosts[i].thread, NULL), 0);
    }
}

static void end_hosts(void)
{
    for (size_t i = 0; i < field.n_hosts; i++) {
        kill_child(field.hosts[i].child);
        redisFree(field.hosts[i].look);
    }
}

static void living_hosts_are_never_flushed(void **state)
{
    rql_swarm_options options = quick(client);
    rql_swarm *swarm;

    (void)state;
    field.n_hosts = is_long() ? LONG_HOSTS : QUICK_HOSTS;
    field.rounds = is_long() ? LONG_ROUNDS : QUICK_ROUNDS;
    field.ttl_ms = TTL_MS * swarm_slowness();
    for (size_t i = 0; i < field.n_hosts; i++) {
        start_host(&field.hosts[i], (int64_t)i + 1);
    }
    options.probe_hosts = false;
    options.zombie_ttl_ms = field.ttl_ms;
    options.zombie_flush_period_ms = field.ttl_ms / 3;
    swarm = swarm_with(client, &options);
    run_rounds(is_long() ? LONG_SUSPENSIONS : QUICK_SUSPENSIONS);
    print_message("# zombie_ttl %lld ms, %zu hosts: %lld rounds of pauses below it, %lld flushed; "
                  "%lld more too long to judge; %lld of the rounds were suspended machines\n",
                  (long long)field.ttl_ms, field.n_hosts, (long long)field.n_judged,
                  (long long)field.n_flushed, (long long)field.n_too_long,
                  (long long)field.n_suspended);
    end_hosts();
    rql_swarm_free(swarm);
    assert_int_equal(field.n_broken, 0);
    assert_true(field.n_judged >= field.rounds);
    assert_int_equal(field.n_flushed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(living_hosts_are_never_flushed, set_up, tear_down),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    if (!CHILDREN_MAY_MAKE_THREADS) {
        return skip_all("ThreadSanitizer");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
