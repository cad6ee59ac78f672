#include "cmd.h"
#include "doctor/doctor.h"
#include "format.h"
#include "messages.h"
#include "signals.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* bench: measures what this server can do with locks, compared with what it can do without them.
 * The slots of all loads alternate, so that other activity on the server affects all alike. */

enum {
    FOR_MS = 10000,
    FOR_LEAST_MS = 1000,
    FOR_MOST_MS = 300000,
    ROUNDS = 6,
    LOOK_US = 200000, /* the CPU use of other clients is measured for this long */
    BUSY_PERCENT = 20,
    WORKERS_MAX = 17, /* a holder and 16 waiters */
    TIMES_MAX = 1 << 15,
    NAME_SIZE = 96,
    CELL_SIZE = 64,
    TTL_MS = 10000,
    SLOW_MS = 2000, /* a server that takes longer for a lock is too slow to be measured */
    US_PER_S = 1000000,
    N_LOADS = 5,
    N_SLOTS = ROUNDS * N_LOADS,
};

struct bench;

struct kind {
    const char *key;
    const char *title;
    size_t n_waiting; /* clients that wait for the lock */
    rql_status (*run)(struct bench *self, rql_client *client, rql_error *error);
};

struct load {
    const struct kind *kind;
    atomic_size_t n; /* operations so far */
    double took_us;  /* of all slots */
    double cpu_us;   /* of the server in that time */
    int64_t times_us[TIMES_MAX];
};

struct bench {
    rql_client *client[WORKERS_MAX]; /* one for each, so that the server hands the lock over */
    rql_server_info server;
    char name[NAME_SIZE];
    rql_lock_options options;
    struct load loads[N_LOADS];
    struct load *load; /* of the slot that runs */
    atomic_size_t n_started;
    atomic_bool is_over;
    _Atomic int64_t released_us; /* for hand-overs; 0: not yet in this slot */
    sigset_t signals;            /* blocked; the program waits for them instead of sleeping */
    int signal;                  /* the signal that came, or 0 */
    double others_percent;       /* CPU use of other clients; negative: not known */
    rql_error error;             /* of the first operation that failed */
    atomic_flag has_failed;
};

/* ---- the loads ---- */

/* Sends a command, whose reply matters only if it is an error. */
static rql_status ask(rql_client *client, const char *const *words, rql_error *error)
{
    CLI_AUTO(rql_free) rql_reply *reply = NULL;
    rql_status status = doctor_send(client, 0, words, &reply, error);

    if (status != RQL_OK || rql_reply_get_type(reply) != RQL_REPLY_ERROR) {
        return status;
    }
    (void)snprintf(error->message, sizeof error->message, "%s: %.200s", words[0],
                   rql_reply_text(reply, NULL));
    return RQL_E_SERVER;
}

static rql_status ping(struct bench *self, rql_client *client, rql_error *error)
{
    (void)self;
    return ask(client, (const char *const[]){"PING", NULL}, error);
}

/* Takes and releases the lock of every handbook: its value names the owner. A user may have the
 * keys rql:* only. */
static rql_status use_plain_lock(struct bench *self, rql_client *client, rql_error *error)
{
    static const char delete_own[] = "if redis.call('GET', KEYS[1]) == ARGV[1] then "
                                     "return redis.call('DEL', KEYS[1]) else return 0 end";
    const char *owner = rql_client_identity(client);
    char key[NAME_SIZE + 8];
    const char *const take[] = {"SET", key, owner, "NX", "PX", "10000", NULL};
    const char *const give[] = {"EVAL", delete_own, "1", key, owner, NULL};
    rql_status status;

    (void)snprintf(key, sizeof key, "rql:%s", self->name);
    status = ask(client, take, error);
    return status ? status : ask(client, give, error);
}

/* Of a hand-over, the time from the release to the next grant counts. */
static rql_status use_lock(struct bench *self, rql_client *client, rql_error *error)
{
    rql_lock *lock = NULL;
    rql_status status = rql_lock_acquire(client, self->name, &self->options, &lock, error);

    if (status == RQL_OK && self->load->kind->n_waiting > 0) {
        const int64_t before_us = atomic_load(&self->released_us);
        const size_t n = atomic_load(&self->load->n);

        self->load->times_us[n % TIMES_MAX] = cli_now_us() - before_us;
        atomic_store(&self->load->n, before_us > 0 ? n + 1 : n);
        atomic_store(&self->released_us, cli_now_us());
    }
    return status ? status : rql_lock_release(lock, error);
}

static const struct kind kinds[N_LOADS] = {
    {"ping", "PING", 0, ping},
    {"plain_lock", "plain lock (SET NX PX, then EVAL)", 0, use_plain_lock},
    {"pair", "librql: acquire and release", 0, use_lock},
    {"hand_over", "librql: hand-over, 2 wait", 2, use_lock},
    {"hand_over", "librql: hand-over, 16 wait", 16, use_lock},
};

/* ---- a slot ---- */

/* Repeats the operation until the slot is over, but runs it at least once. */
static void *repeat(void *user_data)
{
    struct bench *self = user_data;
    struct load *load = self->load;
    rql_client *client = self->client[atomic_fetch_add(&self->n_started, 1)];
    rql_error error = {.status = RQL_OK};

    do {
        const int64_t begun_us = cli_now_us();

        error.status = load->kind->run(self, client, &error);
        if (error.status == RQL_OK && load->kind->n_waiting == 0) {
            load->times_us[load->n++ % TIMES_MAX] = cli_now_us() - begun_us;
        }
    } while (error.status == RQL_OK && !atomic_load(&self->is_over));
    if (error.status != RQL_OK && !atomic_flag_test_and_set(&self->has_failed)) {
        self->error = error;
    }
    return NULL;
}

/* Sleeps for this time, or until a signal comes. */
static void pass(struct bench *self, int64_t us)
{
    const struct timespec time = {.tv_sec = (time_t)(us / US_PER_S),
                                  .tv_nsec = (long)(us % US_PER_S) * 1000};
    const int found = sigtimedwait(&self->signals, NULL, &time);

    self->signal = found > 0 ? found : self->signal;
}

/* Returns the CPU time that the server has used for all of its clients; negative: not known. */
static double read_cpu(struct bench *self)
{
    static const char *const words[] = {"INFO", "cpu", NULL};
    CLI_AUTO(rql_free) rql_reply *info = NULL;
    char system[CELL_SIZE];
    char user[CELL_SIZE];

    (void)!doctor_send(self->client[0], 0, words, &info, NULL);
    doctor_info_text(info, "\nused_cpu_sys:", system, sizeof system);
    doctor_info_text(info, "\nused_cpu_user:", user, sizeof user);
    return *system ? (strtod(system, NULL) + strtod(user, NULL)) * US_PER_S : -1;
}

/* Runs a load for this time. Returns false if it failed, or a signal came. */
static bool run_slot(struct bench *self, struct load *load, int64_t slot_us)
{
    pthread_t threads[WORKERS_MAX];
    size_t n_threads = 0;
    const double cpu_us = read_cpu(self);
    const int64_t begun_us = cli_now_us();

    self->load = load;
    atomic_store(&self->n_started, 0);
    atomic_store(&self->is_over, false);
    atomic_store(&self->released_us, 0);
    while (n_threads <= load->kind->n_waiting &&
           pthread_create(&threads[n_threads], NULL, repeat, self) == 0) {
        n_threads++;
    }
    pass(self, slot_us);
    atomic_store(&self->is_over, true);
    for (size_t i = 0; i < n_threads; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    load->took_us += (double)(cli_now_us() - begun_us);
    load->cpu_us += read_cpu(self) - cpu_us;
    return self->signal == 0 && self->error.status == RQL_OK;
}

/* ---- the run ---- */

static bool open_clients(struct bench *self, const rql_options *options)
{
    for (size_t i = 0; i < WORKERS_MAX; i++) {
        if (rql_client_new(options, &self->client[i], &self->error) != RQL_OK ||
            rql_client_connect(self->client[i], &self->error) != RQL_OK) {
            return false;
        }
    }
    rql_lock_options_init(self->client[0], &self->options);
    self->options.ttl_ms = TTL_MS;
    self->options.timeout_ms = SLOW_MS;
    self->options.retry_count = RQL_FOREVER;
    self->options.auto_extend = false;
    (void)snprintf(self->name, sizeof self->name, "rql-bench-%s",
                   rql_client_identity(self->client[0]));
    return rql_client_ping(self->client[0], &self->server, &self->error) == RQL_OK;
}

/* Returns false if other clients use the server so much that a load would disturb them. */
static bool may_begin(struct bench *self, bool is_forced)
{
    const double before_us = read_cpu(self);

    pass(self, LOOK_US);
    self->others_percent = before_us < 0 ? -1 : (read_cpu(self) - before_us) * 100 / LOOK_US;
    return is_forced || self->others_percent <= BUSY_PERCENT;
}

/* Runs each load once before anything is counted: the first runs connect, and send the scripts. */
static void run_loads(struct bench *self, int64_t for_us)
{
    bool is_fine = self->signal == 0;

    for (size_t i = 0; is_fine && i < N_LOADS + N_SLOTS; i++) {
        struct load *load = &self->loads[i % N_LOADS];

        load->kind = &kinds[i % N_LOADS];
        is_fine = run_slot(self, load, i < N_LOADS ? 0 : for_us / N_SLOTS);
        if (i < N_LOADS) {
            atomic_store(&load->n, 0);
            load->took_us = 0;
            load->cpu_us = 0;
        }
    }
}

/* ---- results ---- */

/* Prints a number, in the table right-aligned under its heading. */
static void print_number(struct out *out, const char *heading, const char *key, double value)
{
    const bool is_time = strstr(heading, " MS") != NULL;
    char cell[CELL_SIZE] = "-";

    if (value >= 0) {
        (void)snprintf(cell, sizeof cell, "%*.*f", (int)strlen(heading), is_time ? 3 : 0,
                       is_time ? value / 1000 : value);
    }
    out_text(out, heading, NULL, cell);
    out_real(out, key, value);
}

static void print_load(struct out *out, struct load *load, bool has_cpu)
{
    const struct kind *kind = load->kind;
    const size_t n = atomic_load(&load->n);
    const size_t n_times = n < TIMES_MAX ? n : TIMES_MAX;
    const size_t p50 = n_times / 2;
    const size_t p99 = n > 0 ? (n_times - 1) * 99 / 100 : 0;

    qsort(load->times_us, n_times, sizeof *load->times_us, cli_compare_numbers);
    out_begin(out, NULL);
    out_text(out, "LOAD", NULL, kind->title);
    out_text(out, NULL, "load", kind->key);
    out_number(out, NULL, "waiting", OUT_INT, (int64_t)kind->n_waiting);
    out_number(out, NULL, "operations", OUT_INT, (int64_t)n);
    print_number(out, "PER SECOND", "per_second",
                 n > 0 ? (double)n * US_PER_S / load->took_us : -1);
    print_number(out, "P50 MS", "p50_us", n > 0 ? (double)load->times_us[p50] : -1);
    print_number(out, "P99 MS", "p99_us", n > 0 ? (double)load->times_us[p99] : -1);
    print_number(out, "SERVER CPU US", "server_cpu_us",
                 n > 0 && has_cpu ? load->cpu_us / (double)n : -1);
    out_end(out);
}

static void print(struct out *out, struct bench *self)
{
    static const char *const headings[] = {"LOAD",   "PER SECOND",    "P50 MS",
                                           "P99 MS", "SERVER CPU US", NULL};

    out_line(out, "%s %s, %s, %.2f ms away", self->server.product, self->server.version,
             self->server.node, (double)self->server.round_trip_us / 1000);
    out_columns(out, headings);
    out_begin(out, NULL);
    if (out->form == OUT_JSON) {
        cli_print_server(out, "server", &self->server);
    }
    out_real(out, "others_cpu_percent", self->others_percent);
    out_begin_list(out, "loads");
    for (size_t i = 0; i < N_LOADS; i++) {
        print_load(out, &self->loads[i], self->others_percent >= 0);
    }
    out_end(out);
    out_end(out);
}

static int finish(struct cli_session *session, struct bench *self, bool is_begun)
{
    if (self->signal != 0) {
        return -self->signal;
    }
    if (self->error.status != RQL_OK) {
        session->error = self->error;
        return cli_fault(&self->error);
    }
    if (!is_begun) {
        cli_say("others use %.0f %% of the server's CPU, more than %d %%; --force measures anyway",
                self->others_percent, BUSY_PERCENT);
        return CLI_REFUSED;
    }
    print(&session->out, self);
    return CLI_DONE;
}

static void *close_client(void *client)
{
    (void)rql_client_free(client);
    return NULL;
}

/* Frees all clients at the same time, because with a silent server each takes a while. */
static void close_clients(struct bench *self)
{
    pthread_t threads[WORKERS_MAX];
    size_t n_threads = 0;

    while (n_threads < WORKERS_MAX &&
           pthread_create(&threads[n_threads], NULL, close_client, self->client[n_threads]) == 0) {
        n_threads++;
    }
    for (size_t i = 0; i < n_threads; i++) {
        (void)pthread_join(threads[i], NULL);
    }
}

static int bench(struct cli_session *session)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
    CLI_AUTO(cli_free) struct bench *self = cli_must(calloc(1, sizeof *self));
    bool is_begun;

    self->signals = cli_signals(ending, sizeof ending / sizeof ending[0]);
    (void)pthread_sigmask(SIG_BLOCK, &self->signals, NULL);
    is_begun = open_clients(self, &session->args->options) && may_begin(self, session->args->force);
    if (is_begun) {
        run_loads(self, session->args->for_ms * 1000 - LOOK_US);
    }
    close_clients(self);
    return finish(session, self, is_begun);
}

static int check_bench(struct cli_args *args)
{
    args->for_ms = args->for_ms == CLI_UNSET ? FOR_MS : args->for_ms;
    if (args->for_ms < FOR_LEAST_MS || args->for_ms > FOR_MOST_MS) {
        return cli_misused(&cli_bench, "from 1s to 5m is possible for ", "--for");
    }
    return cli_take_url(args);
}

const struct cli_command cli_bench = {
    .name = "bench",
    .takes_locks = true,
    .usage = "[URL] [--for DURATION] [--force] [--json]",
    .summary = "Measure what this server can do",
    .examples = "  rql bench redis://locks.example.com --for 30s\n",
    .notes =
        "Measures one client that acquires and releases a free lock, and hand-overs between "
        "3 and 17 clients, next to PING and a plain lock. It does not begin if others use more "
        "than 20 % of a processor of the server, unless --force is given. All its locks are "
        "named rql-bench-..., live for at most 10 s and are gone at the end. A URL with a "
        "password belongs in RQL_URL.\n",
    .takes_url = true,
    .prepare = check_bench,
    .run = bench,
};
