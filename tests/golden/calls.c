#include "golden.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

/* lock and lock!, with everything that a recorded block can hold. No asserts: these run in threads
 * of their own, and inside blocks. */

enum { GRACE_US = 45000 /* of 50000 */ };

struct block {
    struct run *run;
    cJSON *nested;
};

const char *calls_argument(const struct run *self)
{
    const cJSON *argument = cJSON_GetArrayItem(cJSON_GetObjectItem(self->call, "args"), 0);
    static _Thread_local char number[32];

    if (cJSON_IsNumber(argument)) { /* names go through to_s */
        (void)snprintf(number, sizeof number, "%.0f", argument->valuedouble);
        return number;
    }
    return argument ? argument->valuestring : "";
}

static int index_of(const char *text, const char *const *names)
{
    for (int i = 0; names[i]; i++) {
        if (strcmp(text, names[i]) == 0) {
            return i;
        }
    }
    return 99; /* out of range on purpose: the library has to refuse it */
}

/* One option of the gem; seconds become milliseconds. nil and "forever": no limit. */
static void set_option(rql_lock_options *options, const cJSON *option)
{
    static const char *const access[] = {"queued", "random", NULL};
    static const char *const conflict[] = {"wait_for_lock", "work_through",
                                           "extendable_work_through", "dead_locking", NULL};

    const struct {
        const char *name;
        int64_t *field;
        double factor;
    } numbers[] = {
        {"ttl", &options->ttl_ms, 1},
        {"queue_ttl", &options->queue_ttl_ms, 1000},
        {"timeout", &options->timeout_ms, 1000},
        {"retry_count", &options->retry_count, 1},
        {"retry_delay", &options->retry_delay_ms, 1},
        {"retry_jitter", &options->retry_jitter_ms, 1},
    };

    const char *name = option->string;

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (strcmp(name, numbers[i].name) == 0) {
            *numbers[i].field = !cJSON_IsNumber(option)
                                    ? RQL_FOREVER
                                    : (int64_t)(option->valuedouble * numbers[i].factor);
        }
    }
    if (strcmp(name, "access_strategy") == 0) {
        options->access_strategy = (rql_access_strategy)index_of(option->valuestring, access);
    } else if (strcmp(name, "conflict_strategy") == 0) {
        options->conflict_strategy = (rql_conflict_strategy)index_of(option->valuestring, conflict);
    } else if (strcmp(name, "fail_fast") == 0) {
        options->fail_fast = cJSON_IsTrue(option);
    } else if (strcmp(name, "timed") == 0) {
        options->timed = cJSON_IsTrue(option);
    } else if (strcmp(name, "detailed_acq_timeout_error") == 0) {
        options->detailed_acq_timeout_error = cJSON_IsTrue(option);
    }
}

/* Numbers are stored as Ruby writes them. */
static void set_meta(struct call_settings *self, const cJSON *meta)
{
    const cJSON *pair;

    cJSON_ArrayForEach(pair, meta)
    {
        size_t n = self->options.n_meta;

        if (n == GOLDEN_META) {
            return;
        }
        if (cJSON_IsNumber(pair)) {
            (void)snprintf(self->values[n], sizeof self->values[n], "%.15g", pair->valuedouble);
        } else {
            (void)snprintf(self->values[n], sizeof self->values[n], "%s", pair->valuestring);
        }
        self->meta[n] = (rql_meta){pair->string, self->values[n]};
        self->options.n_meta = n + 1;
    }
    self->options.meta = self->meta;
}

void calls_read(const struct run *self, struct call_settings *out)
{
    const cJSON *options = cJSON_GetObjectItem(self->call, "options");
    const cJSON *option;

    (void)memset(out, 0, sizeof *out);
    rql_lock_options_init(self->client, &out->options);
    cJSON_ArrayForEach(option, options)
    {
        set_option(&out->options, option);
    }
    set_meta(out, cJSON_GetObjectItem(options, "meta"));
    out->options.task = cJSON_HasObjectItem(self->call, "fiber") ? 1 : 0;
    out->options.refusal = &out->refusal;
}

static void hold_for(int64_t ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    while (nanosleep(&left, &left) && errno == EINTR) {
    }
}

/* Tells the replay that the block is where the recorded one was, and waits for its end. */
static void await_end(struct run *self)
{
    pthread_mutex_lock(&self->shared.mutex);
    self->shared.is_inside = true;
    pthread_cond_broadcast(&self->shared.changed);
    while (!self->shared.may_end) {
        pthread_cond_wait(&self->shared.changed, &self->shared.mutex);
    }
    pthread_mutex_unlock(&self->shared.mutex);
}

static void hold(struct run *self)
{
    const cJSON *ms = cJSON_GetObjectItem(self->call, "hold_ms");
    bool ends_by_order = self == self->root || cJSON_HasObjectItem(self->call, "hold_until");

    if (ms) {
        hold_for((int64_t)ms->valuedouble);
    }
    if (self->root->is_async && ends_by_order) {
        await_end(self->root);
    }
    if (calls_fault_at(self->call, "EXPIRE")) {
        proxy_freeze(self->world->proxy, PROXY_UP, true);
    }
}

/* A call inside a block: of the same process and thread. */
static cJSON *run_nested(const struct run *outer, const cJSON *call)
{
    struct run run = {.world = outer->world,
                      .root = outer->root,
                      .call = call,
                      .process = outer->process,
                      .client = outer->client};

    calls_run(&run);
    return run.outcome;
}

void calls_play_block(struct run *self, cJSON *nested)
{
    const cJSON *call;

    cJSON_ArrayForEach(call, cJSON_GetObjectItem(self->call, "block"))
    {
        (void)cJSON_AddItemToArray(nested, run_nested(self, call));
    }
    hold(self);
}

static int run_block(rql_lock *lock, void *data)
{
    struct block *self = data;

    (void)lock;
    calls_play_block(self->run, self->nested);
    return 0;
}

/* What the block returned or raised; Ruby's exceptions are known to the recording only. */
cJSON *calls_block_outcome(const struct run *self)
{
    const cJSON *raised = cJSON_GetObjectItem(self->call, "block_raise");
    const cJSON *value = cJSON_GetObjectItem(self->call, "block_return");
    cJSON *outcome;

    if (raised) {
        return calls_error("RuntimeError", raised->valuestring);
    }
    outcome = cJSON_CreateObject();
    (void)cJSON_AddItemToObject(outcome, "result",
                                value ? cJSON_Duplicate(value, true)
                                      : cJSON_CreateString("block_result"));
    return outcome;
}

/* At its deadline a call waits for the answer to its withdrawal, but not for long: if the machine
 * stands still just then, the outcome is unknown in place of a time-out. */
static bool is_late_timeout(const struct run *self, rql_status status, int64_t timeout_ms)
{
    return status == RQL_E_UNKNOWN && !self->world->proxy && timeout_ms >= 0 &&
           wait_clock_us() - self->begun_us >= timeout_ms * 1000 + GRACE_US;
}

static cJSON *failed(struct run *self, rql_status status, const struct call_settings *settings,
                     const rql_error *error)
{
    bool raises = strcmp(cJSON_GetObjectItem(self->call, "op")->valuestring, "lock!") == 0;
    cJSON *outcome;

    if (is_late_timeout(self, status, settings->options.timeout_ms)) {
        self->is_unsettled = true;
        return calls_refusal(RQL_TIMED_OUT, raises, NULL);
    }
    outcome = calls_refusal(status, raises, settings->refusal.message);

    return outcome ? outcome : calls_fault(status, error);
}

void calls_add_nested(cJSON *outcome, cJSON *nested)
{
    if (cJSON_GetArraySize(nested) > 0) {
        (void)cJSON_AddItemToObject(outcome, "nested", nested);
    } else {
        cJSON_Delete(nested);
    }
}

static cJSON *run_with_block(struct run *self, const struct call_settings *settings)
{
    struct block state = {.run = self, .nested = cJSON_CreateArray()};
    rql_block block = {.run = run_block, .user_data = &state};
    rql_error error = {0};
    rql_status status =
        rql_with_lock(self->client, calls_argument(self), &settings->options, &block, &error);
    cJSON *outcome =
        status == RQL_OK ? calls_block_outcome(self) : failed(self, status, settings, &error);

    calls_add_nested(outcome, state.nested);
    return outcome;
}

/* Without a block the gem leaves a lock to its ttl. */
static cJSON *run_without_block(struct run *self, const struct call_settings *settings)
{
    rql_lock *lock = NULL;
    rql_error error = {0};
    rql_status status =
        rql_lock_acquire(self->client, calls_argument(self), &settings->options, &lock, &error);
    cJSON *outcome;

    if (status != RQL_OK) {
        return failed(self, status, settings, &error);
    }
    outcome = calls_lock(lock);
    (void)rql_lock_forget(lock);
    return outcome;
}

static cJSON *run_lock(struct run *self)
{
    struct call_settings settings;
    cJSON *outcome;

    calls_read(self, &settings);
    outcome = cJSON_HasObjectItem(self->call, "block") ? run_with_block(self, &settings)
                                                       : run_without_block(self, &settings);
    rql_refusal_clear(&settings.refusal);
    return outcome;
}

/* A raw command from inside a block. */
static cJSON *run_redis(const struct run *self)
{
    const cJSON *args = cJSON_GetObjectItem(self->call, "args");
    redisContext *context = redis_server_connect(&self->world->server);
    redisReply *reply;
    cJSON *outcome;

    if (!context) {
        return calls_error("no connection", NULL);
    }
    reply = redisCommand(context, "%s %s", cJSON_GetArrayItem(args, 0)->valuestring,
                         cJSON_GetArrayItem(args, 1)->valuestring);
    outcome = cJSON_CreateObject();
    (void)cJSON_AddNumberToObject(outcome, "result", reply ? (double)reply->integer : -1);
    freeReplyObject(reply);
    redisFree(context);
    return outcome;
}

/* The fault that the recording has at this command of the gem's. */
const cJSON *calls_fault_at(const cJSON *call, const char *command)
{
    const cJSON *fault;

    cJSON_ArrayForEach(fault, cJSON_GetObjectItem(call, "inject"))
    {
        if (strcmp(cJSON_GetObjectItem(fault, "on")->valuestring, command) == 0 &&
            !cJSON_HasObjectItem(fault, "do")) {
            return fault;
        }
    }
    return NULL;
}

void calls_run(struct run *self)
{
    const char *op = cJSON_GetObjectItem(self->call, "op")->valuestring;

    self->begun_us = wait_clock_us();
    if (strcmp(op, "lock") == 0 || strcmp(op, "lock!") == 0) {
        self->outcome = run_lock(self);
    } else if (strcmp(op, "lock_series") == 0 || strcmp(op, "lock_series!") == 0) {
        self->outcome = series_run(self);
    } else if (strcmp(op, "redis") == 0) {
        self->outcome = run_redis(self);
    } else {
        self->outcome = views_run(self, op);
    }
    if (!self->outcome) {
        self->outcome = sweeps_run(self, op);
    }
    if (!self->outcome) {
        self->outcome = swarms_run(self, op);
    }
    if (!self->outcome) {
        self->outcome = settings_run(self, op);
    }
    if (!self->outcome) {
        self->outcome = calls_error("no such call in the library", op);
    }
}
