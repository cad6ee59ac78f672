#include "common/clock.h"
#include "common/connect.h"
#include "common/process.h"
#include "perf/floor.h"
#include "perf/protocol.h"
#include "perf/scale.h"

#include <rql/admin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

enum { CLIENTS_MAX = 64, URL_SIZE = 256, CHILD_SECONDS = 60 };

/* What one process made, and what that cost. */
struct trial {
    const char *socket_path;
    struct fault *fault;
    long count;
    bool awake;
    double *bytes; /* shared memory; for each client */
};

/* Memory of this process that no other has: written pages. -1: unknown. */
static double private_bytes(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    char line[128];
    double kib = -1.0 / 1024;

    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "Anonymous:", 10) == 0) {
            kib = strtod(line + 10, NULL);
        }
    }
    if (file) {
        (void)fclose(file);
    }
    return kib * 1024;
}

static bool judge(const struct trial *trial, const char *what, rql_status status,
                  const rql_error *error)
{
    if (status) {
        fault_raise(trial->fault, "%s: %s %s", what, rql_status_text(status), error->message);
    }
    return !status;
}

/* Lets the background thread and the subscriber start: a lock that is renewed, and a second
 * acquirer that waits for it in vain. */
static bool wake(const struct trial *trial, rql_client *client, const char *name, rql_lock **lock)
{
    rql_lock_options options;
    rql_lock *second = NULL;
    rql_error error = {0};
    rql_status status;

    rql_lock_options_init(client, &options);
    options.auto_extend = true;
    if (!judge(trial, "acquire", rql_lock_acquire(client, name, &options, lock, &error), &error)) {
        return false;
    }
    options.auto_extend = false;
    options.task = 1;
    options.timeout_ms = 20;
    status = rql_lock_acquire(client, name, &options, &second, &error);
    if (status != RQL_TIMED_OUT) {
        fault_raise(trial->fault, "the second acquirer got %s", rql_status_text(status));
    }
    return status == RQL_TIMED_OUT;
}

/* A client that was used once; awake: its thread and its subscriber run. */
static bool use(const struct trial *trial, rql_client *client, long number)
{
    char name[32];
    rql_lock *lock = NULL;
    rql_error error = {0};

    (void)snprintf(name, sizeof name, "bench:client:%ld", number);
    if (trial->awake) {
        return wake(trial, client, name, &lock) &&
               judge(trial, "release", rql_lock_release(lock, &error), &error);
    }
    return judge(trial, "acquire", rql_lock_acquire(client, name, NULL, &lock, &error), &error) &&
           judge(trial, "release", rql_lock_release(lock, &error), &error);
}

static int try_library(const struct trial *trial)
{
    rql_client *clients[CLIENTS_MAX + 1] = {NULL};
    rql_options options;
    char url[URL_SIZE];
    double before = 0;
    long i;

    (void)snprintf(url, sizeof url, "unix://%s", trial->socket_path);
    rql_options_init_gem(&options);
    options.url = url;
    for (i = 0; i <= trial->count; i++) { /* the first one pays for what all share */
        clients[i] = connect_client(&options, trial->fault);
        if (!clients[i] || !use(trial, clients[i], i)) {
            return 1;
        }
        before = i == 0 ? private_bytes() : before;
    }
    *trial->bytes = (private_bytes() - before) / (double)trial->count;
    for (i = 0; i <= trial->count; i++) {
        (void)rql_client_free(clients[i]);
    }
    return 0;
}

static void run_loop(void *argument)
{
    (void)uv_run(argument, UV_RUN_DEFAULT);
}

static void do_nothing(uv_async_t *handle)
{
    (void)handle;
}

struct waiting_loop {
    uv_loop_t uv;
    uv_async_t async;
    uv_thread_t thread;
};

/* A thread in a loop of libuv's that waits for a word. Ends with the process. */
static bool start_loop(struct waiting_loop *self)
{
    return uv_loop_init(&self->uv) == 0 &&
           uv_async_init(&self->uv, &self->async, do_nothing) == 0 &&
           uv_thread_create(&self->thread, run_loop, &self->uv) == 0;
}

/* What hiredis and libuv take for the same: a connection, and when awake three and a loop. */
static bool make_bare(const struct trial *trial, struct waiting_loop *loop)
{
    const struct site site = {.address = trial->socket_path, .fault = trial->fault};
    int connections = trial->awake ? 3 : 1;

    while (connections-- > 0) {
        redisContext *context = dial(&site);
        redisReply *reply = context ? redisCommand(context, "PING") : NULL;

        if (!reply) {
            return false;
        }
        freeReplyObject(reply);
    }
    return !trial->awake || start_loop(loop);
}

static int try_bare(const struct trial *trial)
{
    struct waiting_loop loops[CLIENTS_MAX + 1];
    double before = 0;
    long i;

    for (i = 0; i <= trial->count; i++) {
        if (!make_bare(trial, &loops[i])) {
            fault_raise(trial->fault, "hiredis or libuv failed");
            return 1;
        }
        before = i == 0 ? private_bytes() : before;
    }
    *trial->bytes = (private_bytes() - before) / (double)trial->count;
    return 0;
}

/* In a process of its own, whose memory holds nothing else. */
static bool run_trial(const struct trial *trial, int (*try_it)(const struct trial *))
{
    pid_t child = fork_tied();

    if (child == 0) {
        _exit(try_it(trial));
    }
    if (child > 0 && reap(child, now_ns() + CHILD_SECONDS * RQLB_SECOND)) {
        return true;
    }
    fault_raise(trial->fault, "a process that makes clients failed");
    return false;
}

static bool obey(struct trial *trial, const struct request *request)
{
    double library;

    trial->count = request->number;
    trial->awake = strcmp(request->shape, "awake") == 0;
    if ((!trial->awake && strcmp(request->shape, "idle") != 0) || trial->count > CLIENTS_MAX) {
        fault_raise(trial->fault, "not for us: %s %ld", request->shape, request->number);
        return false;
    }
    if (!run_trial(trial, try_library)) {
        return false;
    }
    library = *trial->bytes;
    if (!run_trial(trial, try_bare)) {
        return false;
    }
    protocol_answer_bytes(library - *trial->bytes);
    return true;
}

void scale_clients(const char *socket_path, struct fault *fault)
{
    struct trial trial = {.socket_path = socket_path, .fault = fault};
    struct request request;

    trial.bytes = shared_memory(sizeof *trial.bytes);
    if (!trial.bytes) {
        fault_raise_errno(fault, "no shared memory");
        return;
    }
    protocol_ready();
    while (protocol_next(&request, fault) && obey(&trial, &request)) {
    }
}
