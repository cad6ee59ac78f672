#include "golden.h"

#include <stdlib.h>

/* A recording, step by step. */

enum {
    AWAIT_MS = 5000,
    SILENCE_MS = 500,     /* how long a server that is cut off is waited for */
    DELAY_MAX_MS = 20000, /* longer than any delay that is recorded */
    STANDSTILL_MS = 40,   /* a replay that fails while the machine stood still is done again */
    REPLAYS_MAX = 5,
};

struct play {
    struct world *world;
    const cJSON *recording;
    const cJSON *step;             /* as the library is expected to do it */
    struct run *runs[GOLDEN_RUNS]; /* calls under way; of the same index as `ids` */
    const char *ids[GOLDEN_RUNS];
    struct comparison comparison;
};

static const char *text_at(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItem(object, name);

    return item ? item->valuestring : "";
}

/* ---- state ---- */

static bool state_fits(void *data)
{
    struct play *self = data;

    return state_check(&self->comparison, self->step);
}

/* While calls are under way the state is where the recording was at some time. */
static bool check_state(struct play *self, bool may_wait)
{
    return may_wait ? wait_until(state_fits, self, AWAIT_MS) : state_fits(self);
}

/* ---- calls ---- */

static bool is_ruby(const struct play *self)
{
    return world_is_ruby(self->world, text_at(self->step, "by"));
}

static void send_all(struct play *self, const cJSON *commands)
{
    const cJSON *command;

    cJSON_ArrayForEach(command, commands)
    {
        world_send(self->world, command, self->comparison.at_s);
    }
}

/* What a process of Ruby's did while this step was going on. */
static void play_meanwhile(struct play *self)
{
    const cJSON *part;

    cJSON_ArrayForEach(part, cJSON_GetObjectItem(self->step, "meanwhile"))
    {
        if (world_is_ruby(self->world, text_at(part, "by"))) {
            send_all(self, cJSON_GetObjectItem(part, "gem"));
        }
    }
}

/* The library has no moment between its reads and its writes: what happened there to the gem
 * happens just before. */
static void inject(struct play *self)
{
    const cJSON *fault;
    const cJSON *delay = calls_fault_at(self->step, "MULTI");

    cJSON_ArrayForEach(fault, cJSON_GetObjectItem(self->step, "inject"))
    {
        send_all(self, cJSON_GetObjectItem(fault, "do"));
    }
    if (delay) {
        proxy_delay(self->world->proxy, PROXY_DOWN,
                    cJSON_GetObjectItem(delay, "sleep_ms")->valueint);
    }
    if (calls_fault_at(self->step, "ZRANGE")) {
        proxy_freeze(self->world->proxy, PROXY_DOWN, true);
    }
}

static struct run *make_run(struct play *self)
{
    const cJSON *options = cJSON_GetObjectItem(self->step, "options");
    const cJSON *identity = cJSON_GetObjectItem(options, "identity");
    struct run *run = calloc(1, sizeof *run);

    assert_non_null(run);
    run->world = self->world;
    run->root = run;
    run->call = cJSON_Duplicate(self->step, true);
    run->process = text_at(run->call, "by");
    run->client = world_client(self->world, run->process, identity ? identity->valuestring : NULL);
    return run;
}

static void free_run(struct run *run)
{
    cJSON_Delete(run->outcome);
    cJSON_Delete((cJSON *)(uintptr_t)run->call);
    free(run);
}

static bool play_call(struct play *self)
{
    struct run *run;
    bool fits = true;
    bool may_wait = self->world->proxy != NULL;

    play_meanwhile(self);
    if (is_ruby(self)) {
        send_all(self, cJSON_GetObjectItem(self->step, "gem"));
    } else {
        run = make_run(self);
        inject(self);
        calls_run(run);
        self->comparison.now_s = world_now_s(self->world);
        fits = compare_outcome(&self->comparison, self->step, run->outcome);
        may_wait = may_wait || run->is_unsettled;
        free_run(run);
    }
    return fits && check_state(self, may_wait);
}

static void *run_call(void *data)
{
    struct run *self = data;

    calls_run(self);
    pthread_mutex_lock(&self->shared.mutex);
    self->shared.has_ended = true;
    pthread_mutex_unlock(&self->shared.mutex);
    return NULL;
}

struct arrival {
    struct run *run;
    int64_t requests; /* there were before */
};

static int64_t count_requests(const struct run *run)
{
    redisReply *reply =
        redisCommand(run->world->raw, "ZCARD rql:lock_queue:%s", calls_argument(run));
    int64_t count;

    assert_non_null(reply);
    count = reply->integer;
    freeReplyObject(reply);
    return count;
}

/* In its block, in the queue or at its end: the server has heard of it. */
static bool has_arrived(void *data)
{
    const struct arrival *arrival = data;
    struct run *run = arrival->run;
    bool has_come;

    pthread_mutex_lock(&run->shared.mutex);
    has_come = run->shared.is_inside || run->shared.has_ended;
    pthread_mutex_unlock(&run->shared.mutex);
    return has_come || count_requests(run) > arrival->requests;
}

static bool start_run(struct play *self, size_t slot)
{
    struct run *run = make_run(self);
    struct arrival arrival = {run, count_requests(run)};

    run->is_async = true;
    assert_int_equal(pthread_mutex_init(&run->shared.mutex, NULL), 0);
    assert_int_equal(pthread_cond_init(&run->shared.changed, NULL), 0);
    assert_int_equal(pthread_create(&run->thread, NULL, run_call, run), 0);
    self->runs[slot] = run;
    self->ids[slot] = text_at(run->call, "id");
    return wait_until(has_arrived, &arrival, AWAIT_MS) ||
           compare_fail(&self->comparison, "start", "did not arrive");
}

static bool play_start(struct play *self)
{
    size_t slot = 0;

    if (is_ruby(self)) {
        send_all(self, cJSON_GetObjectItem(self->step, "gem"));
        return true;
    }
    while (self->runs[slot]) {
        slot++;
        assert_true(slot < GOLDEN_RUNS);
    }
    return start_run(self, slot);
}

static void end_run(struct play *self, size_t slot)
{
    struct run *run = self->runs[slot];

    pthread_mutex_lock(&run->shared.mutex);
    run->shared.may_end = true;
    pthread_cond_broadcast(&run->shared.changed);
    pthread_mutex_unlock(&run->shared.mutex);
    assert_int_equal(pthread_join(run->thread, NULL), 0);
    pthread_cond_destroy(&run->shared.changed);
    pthread_mutex_destroy(&run->shared.mutex);
    self->runs[slot] = NULL;
}

static bool play_finish(struct play *self)
{
    size_t slot = 0;
    struct run *run;
    bool fits;

    if (is_ruby(self)) {
        send_all(self, cJSON_GetObjectItem(self->step, "gem"));
        play_meanwhile(self);
        return check_state(self, true);
    }
    while (!self->runs[slot] || strcmp(self->ids[slot], text_at(self->step, "id")) != 0) {
        slot++;
        assert_true(slot < GOLDEN_RUNS);
    }
    run = self->runs[slot];
    end_run(self, slot);
    self->comparison.now_s = world_now_s(self->world);
    fits = compare_outcome(&self->comparison, self->step, run->outcome);
    free_run(run);
    play_meanwhile(self);
    return fits && check_state(self, true);
}

/* A look with commands: of a process of Ruby's that made no call which ended. */
static bool play_look(struct play *self)
{
    send_all(self, cJSON_GetObjectItem(self->step, "gem"));
    play_meanwhile(self);
    return check_state(self, true);
}

static bool play_raw(struct play *self)
{
    world_send(self->world, cJSON_GetObjectItem(self->step, "command"), self->comparison.at_s);
    return true;
}

/* ---- all steps ---- */

static bool play_step(struct play *self)
{
    static const struct {
        const char *kind;
        bool (*play)(struct play *self);
    } kinds[] = {{"call", play_call},
                 {"start", play_start},
                 {"finish", play_finish},
                 {"look", play_look},
                 {"raw", play_raw}};

    const char *kind = text_at(self->step, "do");

    self->comparison.at_s = cJSON_GetObjectItem(self->step, "at")->valuedouble;
    if (self->world->proxy) {
        proxy_heal(self->world->proxy);
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].kind, kind) == 0) {
            return kinds[i].play(self);
        }
    }
    return compare_fail(&self->comparison, "step", "of an unknown kind: %s", kind);
}

/* For a recording with faults in it; 0 if there are none. */
static int64_t io_timeout_ms(const cJSON *recording)
{
    const cJSON *step;
    int64_t timeout_ms = 0;

    cJSON_ArrayForEach(step, cJSON_GetObjectItem(recording, "steps"))
    {
        if (calls_fault_at(step, "EXPIRE") || calls_fault_at(step, "ZRANGE")) {
            return SILENCE_MS;
        }
        if (calls_fault_at(step, "MULTI")) {
            timeout_ms = DELAY_MAX_MS;
        }
    }
    return timeout_ms;
}

/* The number of the step that failed, or -1. */
static int play_steps(struct play *self, const char *ruby)
{
    int count = cJSON_GetArraySize(cJSON_GetObjectItem(self->recording, "steps"));

    for (int i = 0; i < count; i++) {
        cJSON *step = differences_apply(self->recording, i, ruby);
        bool fits = true;

        self->step = step;
        if (step) {
            fits = play_step(self);
        }
        cJSON_Delete(step);
        if (!fits) {
            return i;
        }
    }
    return -1;
}

static void end_all_runs(struct play *self)
{
    for (size_t i = 0; i < GOLDEN_RUNS; i++) {
        struct run *run = self->runs[i];

        if (run) { /* only after a failure */
            end_run(self, i);
            free_run(run);
        }
    }
}

void play(struct world *world, const cJSON *recording, const char *ruby)
{
    int failed = 0;

    for (int i = 0; i < REPLAYS_MAX && failed >= 0; i++) {
        struct play self = {.world = world, .recording = recording, .comparison = {.world = world}};
        struct silence *silence = silence_watch(&world->server);
        int64_t longest_us;

        world_reset(world, ruby, io_timeout_ms(recording));
        failed = play_steps(&self, ruby);
        end_all_runs(&self);
        world_end_replay(world);
        longest_us = silence_end(silence);
        if (failed >= 0 && longest_us < STANDSTILL_MS * 1000) {
            fail_msg("%s, step %d: %s", text_at(recording, "scenario"), failed,
                     self.comparison.why);
        }
    }
    if (failed >= 0) {
        fail_msg("the machine stood still in each of %d replays", REPLAYS_MAX);
    }
}
