/* What count.py has callgrind count: rounds of one case, warm, against a private server. Only what
 * the calling thread does within counted_round() is collected. Prints what it was made with, and
 * how many scripts the server ran. */

#include "redis_server.h"
#include "wait.h"

#include <rql/admin.h>
#include <rql/share.h>

#include <gnu/libc-version.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_UP = 100, AWAIT_MS = 60000, BESIDE_TTL_MS = 10 * AWAIT_MS };

#define NAME "orders:customer:00042"

static struct redis_server server;
static rql_client *client;
static rql_lock_options options;

/* The one who holds what the case "hand-off" waits for. */
static struct {
    rql_client *client;
    redisContext *raw;
    pthread_t thread;
    sem_t shall_hold;
    sem_t holds;
} holder;

struct budget_case {
    const char *name;
    void (*before)(void); /* each round; or NULL */
    void (*round)(void);
    int share_limit;   /* 0: nothing is shared */
    unsigned n_beside; /* others that have a share all the time */
};

/* The server goes with this process. */
static void must(int status, const char *what)
{
    if (status) {
        (void)fprintf(stderr, "budget-pairs: %s failed: %d\n", what, status);
        exit(1);
    }
}

static rql_client *new_client(void)
{
    rql_client *made = NULL;
    rql_options given;

    rql_options_init_gem(&given); /* no lock is renewed, but in the case of that name */
    given.url = server.url;
    given.connect_timeout_ms = AWAIT_MS;
    given.io_timeout_ms = AWAIT_MS;
    must(rql_client_new(&given, &made, NULL), "rql_client_new");
    return made;
}

static void take_and_give_back(const rql_lock_options *with)
{
    rql_lock *lock = NULL;

    must(rql_lock_acquire(client, NAME, with, &lock, NULL), "rql_lock_acquire");
    must(rql_lock_release(lock, NULL), "rql_lock_release");
}

static void pair(void)
{
    take_and_give_back(NULL);
}

static void pair_with_options(void)
{
    static const rql_meta meta[] = {{"user", "4711"}, {"purpose", "counting"}};
    rql_lock_options with = options;

    with.meta = meta;
    with.n_meta = 2;
    take_and_give_back(&with);
}

/* As with the library's defaults. */
static void renewed_pair(void)
{
    rql_lock_options with = options;

    with.auto_extend = true;
    take_and_give_back(&with);
}

/* Its answer is found by the next release. */
static void lazy_pair(void)
{
    rql_lock_options with = options;

    with.lazy_release = true;
    take_and_give_back(&with);
}

static void nested_pair(void)
{
    rql_lock_options with = options;
    rql_lock *lock = NULL;

    with.conflict_strategy = RQL_WORK_THROUGH;
    must(rql_lock_acquire(client, NAME, &with, &lock, NULL), "rql_lock_acquire");
    take_and_give_back(&with);
    must(rql_lock_release(lock, NULL), "rql_lock_release");
}

static void have_held(void)
{
    must(sem_post(&holder.shall_hold), "sem_post");
    must(sem_wait(&holder.holds), "sem_wait");
}

static void pair_of_case(void)
{
    take_and_give_back(&options);
}

static bool has_waiter(void *data)
{
    redisReply *reply = redisCommand(data, "ZCARD rql:lock_queue:" NAME);
    bool is_waited_for = reply && reply->integer == 1;

    freeReplyObject(reply);
    return is_waited_for;
}

/* Takes the lock when it is told to, and hands it over as soon as somebody waits. */
static void *run_holder(void *data)
{
    rql_lock *lock = NULL;

    for (;;) {
        must(sem_wait(&holder.shall_hold), "sem_wait");
        must(rql_lock_acquire(holder.client, NAME, &options, &lock, NULL), "rql_lock_acquire");
        must(sem_post(&holder.holds), "sem_post");
        must(!wait_until(has_waiter, holder.raw, AWAIT_MS), "wait_until");
        must(rql_lock_release(lock, NULL), "rql_lock_release");
    }
    return data;
}

static void start_holder(void)
{
    holder.client = new_client();
    holder.raw = redis_server_connect(&server);
    must(!holder.raw, "redis_server_connect");
    must(sem_init(&holder.shall_hold, 0, 0), "sem_init");
    must(sem_init(&holder.holds, 0, 0), "sem_init");
    must(pthread_create(&holder.thread, NULL, run_holder, NULL), "pthread_create");
}

static const struct budget_case cases[] = {
    {"pair", NULL, pair, 0, 0},
    {"renewed-pair", NULL, renewed_pair, 0, 0},
    {"pair-with-options", NULL, pair_with_options, 0, 0},
    {"lazy-pair", NULL, lazy_pair, 0, 0},
    {"nested-pair", NULL, nested_pair, 0, 0},
    {"hand-off", have_held, pair_of_case, 0, 0},
    {"shared-pair", NULL, pair_of_case, RQL_SHARE_MAX, 0},
    {"shared-beside-8", NULL, pair_of_case, RQL_SHARE_MAX, 8},
    {"permit-hand-off", have_held, pair_of_case, 2, 1},
};

static void share(const struct budget_case *what)
{
    rql_lock_options with;

    rql_lock_options_permit(&options, 1, what->share_limit);
    with = options;
    with.ttl_ms = BESIDE_TTL_MS;
    for (with.task = 1; with.task <= what->n_beside; with.task++) {
        rql_lock *lock = NULL;

        must(rql_lock_acquire(client, NAME, &with, &lock, NULL), "rql_lock_acquire");
        (void)rql_lock_forget(lock);
    }
}

/* callgrind knows it by its name. */
__attribute__((noinline)) void counted_round(void (*round)(void));

void counted_round(void (*round)(void))
{
    round();
}

static void run(const struct budget_case *what, long count)
{
    for (long i = 0; i < WARM_UP + count; i++) {
        if (what->before) {
            what->before();
        }
        if (i < WARM_UP) {
            what->round();
        } else {
            counted_round(what->round);
        }
    }
}

static const struct budget_case *find(const char *name)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(cases[i].name, name) == 0) {
            return &cases[i];
        }
    }
    return NULL;
}

/* Whatever else changes the count with the same sources. The processor's vectors: libc chooses. */
static void say_what_with(void)
{
#ifdef __clang__
    static const char compiler[] = "";
#else
    static const char compiler[] = "gcc ";
#endif
    bool has_avx2 = false;

#ifdef __x86_64__
    has_avx2 = __builtin_cpu_supports("avx2");
#endif
    (void)printf("%s%s, glibc %s, hiredis %d.%d.%d, %zu bits%s\n", compiler, __VERSION__,
                 gnu_get_libc_version(), HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH,
                 8 * sizeof(void *), has_avx2 ? ", AVX2" : "");
}

/* How many EVALSHA the server has had. */
static void say_how_many_scripts(void)
{
    static const char label[] = "cmdstat_evalsha:calls=";
    redisContext *raw = redis_server_connect(&server);
    redisReply *reply = raw ? redisCommand(raw, "INFO commandstats") : NULL;
    const char *found = reply ? strstr(reply->str, label) : NULL;

    must(!found, "INFO commandstats");
    (void)printf("%ld\n", strtol(found + strlen(label), NULL, 10));
    freeReplyObject(reply);
    redisFree(raw);
}

int main(int argc, char **argv)
{
    const struct budget_case *what = argc == 3 ? find(argv[1]) : NULL;

    if (!what) {
        (void)fprintf(stderr, "usage: budget-pairs CASE ROUNDS\n");
        return 2;
    }
    must(redis_server_start(&server), "redis_server_start");
    client = new_client();
    rql_lock_options_init(client, &options);
    options.ttl_ms = AWAIT_MS;
    options.timeout_ms = AWAIT_MS;
    options.retry_count = RQL_FOREVER;
    options.retry_delay_ms = AWAIT_MS; /* waits for the push alone */
    if (what->share_limit > 0) {
        share(what);
    }
    if (what->before) {
        start_holder();
    }
    run(what, strtol(argv[2], NULL, 10));
    say_what_with();
    say_how_many_scripts();
    redis_server_stop(&server);
    return 0;
}
