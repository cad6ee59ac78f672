#include "remote.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The same calls on a loop of the library's, whose thread calls back. */

/* An acquisition under way, or a block. */
struct request {
    struct request *next;
    cJSON *words;
    struct hold *hold;
    rql_refusal refusal;
    rql_acquiring lock;
    rql_series_acquiring series;
    rql_async_block block;
};

static rql_request *request_of(const struct request *self)
{
    if (self->block.run) {
        return self->block.request;
    }
    return self->series.done ? self->series.request : self->lock.request;
}

/* A request may be cancelled until its callback returns, and leaves the list within that. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct request *requests;

static void forget_request(struct request *self)
{
    struct request **at = &requests;

    (void)pthread_mutex_lock(&mutex);
    while (*at != self) {
        at = &(*at)->next;
    }
    *at = self->next;
    (void)pthread_mutex_unlock(&mutex);
}

static void finish(struct request *self, rql_status status, const rql_error *error)
{
    cJSON *reply = cJSON_CreateObject();

    forget_request(self);
    end_acquisition(reply, self->words, status, self->hold, &self->refusal);
    answer_with(reply, self->words, status, error);
    free(self);
}

static void on_acquired(rql_status status, rql_lock *lock, const rql_error *error, void *data)
{
    struct request *self = data;

    self->hold->lock = lock;
    finish(self, status, error);
}

static void on_series_acquired(rql_status status, rql_series *series, const rql_error *error,
                               void *data)
{
    struct request *self = data;

    self->hold->series = series;
    finish(self, status, error);
}

static void on_run(rql_hold *hold, rql_lock *lock, void *data)
{
    struct request *self = data;

    (void)lock;
    add_object(A_BLOCK, self->words, "lock", hold);
    say_running(self->words);
}

static void on_block_done(rql_status status, int value, const rql_error *error, void *data)
{
    struct request *self = data;
    cJSON *reply = cJSON_CreateObject();

    forget_request(self);
    (void)cJSON_AddNumberToObject(reply, "value", value);
    rql_refusal_clear(&self->refusal);
    answer_with(reply, self->words, status, error);
    free(self->hold);
    free(self);
}

static rql_status begin(rql_loop *loop, struct request *self, const struct settings *settings,
                        rql_error *error)
{
    if (strcmp(text_in(self->words, "do"), "block") == 0) {
        self->block = (rql_async_block){on_run, on_block_done, self, NULL};
        return rql_lock_run_async(loop, settings->names[0], &settings->lock, &self->block, error);
    }
    if (settings->is_series) {
        self->series = (rql_series_acquiring){.done = on_series_acquired, .user_data = self};
        return rql_series_acquire_async(loop, &settings->series, &self->series, error);
    }
    self->lock = (rql_acquiring){.done = on_acquired, .user_data = self};
    return rql_lock_acquire_async(loop, settings->names[0], &settings->lock, &self->lock, error);
}

/* Listed before the call: the callback may come before that returns. Under the mutex the whole
 * time, so that nobody cancels a request that is not set yet. What was given to the call is gone
 * when that has returned: the library has a copy. */
static void acquire(rql_loop *loop, rql_client *client, cJSON *words)
{
    struct request *self = own_memory(sizeof *self);
    cJSON *given = cJSON_Duplicate(words, true);
    struct settings settings;
    rql_error error = {0};
    rql_status status;

    self->words = words;
    self->hold = hold_new(words);
    read_settings(client, given, &settings);
    set_listeners(words, self->hold, &settings.lock);
    rql_result_init(&self->refusal);
    rql_result_init(&self->hold->result);
    settings.lock.refusal = wants_refusal(words) ? &self->refusal : NULL;
    settings.series.result = &self->hold->result;
    settings.lock.fail_fast |= is_set(words, "try");
    (void)pthread_mutex_lock(&mutex);
    self->next = requests;
    requests = self;
    status = begin(loop, self, &settings, &error);
    (void)pthread_mutex_unlock(&mutex);
    cJSON_Delete(given);
    if (status) {
        finish(self, status, &error);
    }
}

/* Under the mutex: the one that has the line's number for it, or NULL. */
static struct request *request_in(const cJSON *words)
{
    struct request *at = requests;

    while (at && number_or(at->words, "id", 0) != number_or(words, "of", -1)) {
        at = at->next;
    }
    return at;
}

/* Answered at once; what became of it is the answer to the acquisition. */
static void cancel(rql_loop *loop, rql_client *client, cJSON *words)
{
    rql_status status = RQL_NOT_FOUND;
    const struct request *request;

    (void)loop;
    (void)client;
    (void)pthread_mutex_lock(&mutex);
    request = request_in(words);
    if (request) {
        status = rql_request_cancel(request_of(request));
    }
    (void)pthread_mutex_unlock(&mutex);
    answer(words, status, NULL);
}

static rql_status do_nothing(void *data, rql_error *error)
{
    (void)data;
    (void)error;
    return RQL_OK;
}

/* On the loop's thread, where alone it may be asked. */
static void tell_fault_here(rql_status done, const rql_error *none, void *words)
{
    rql_status status = RQL_NOT_FOUND;
    rql_error error = {0};
    const struct request *request;

    (void)done;
    (void)none;
    (void)pthread_mutex_lock(&mutex);
    request = request_in(words);
    if (request) {
        status = rql_request_fault(request_of(request), &error);
    }
    (void)pthread_mutex_unlock(&mutex);
    answer(words, status, &error);
}

/* What keeps a request from its lock. */
static void tell_fault(rql_loop *loop, rql_client *client, cJSON *words)
{
    const rql_work work = {do_nothing, tell_fault_here, words};
    rql_error error = {0};
    rql_status status = rql_loop_run(loop, &work, &error);

    (void)client;
    if (status) {
        answer(words, status, &error);
    }
}

static void on_done(rql_status status, const rql_error *error, void *data)
{
    answer(data, status, error);
}

/* A hold is freed when no loss can be reported any more. */
struct ending {
    cJSON *words;
    struct hold *hold;
};

static void on_released(rql_status status, const rql_error *error, void *data)
{
    struct ending *self = data;
    cJSON *reply = cJSON_CreateObject();

    add_result(reply, self->hold);
    answer_with(reply, self->words, status, error);
    free(self->hold);
    free(self);
}

static void release(rql_loop *loop, rql_client *client, cJSON *words)
{
    struct ending *self = own_memory(sizeof *self);
    const rql_done done = {on_released, self};
    rql_error error = {0};
    rql_status status;

    (void)client;
    self->words = words;
    self->hold = take_object(A_HOLD, words, "lock");
    status = self->hold->series ? rql_series_release_async(loop, self->hold->series,
                                                           &self->hold->result, &done, &error)
                                : rql_lock_release_async(loop, self->hold->lock, &done, &error);
    if (status) { /* it is as it was, and still ours */
        cJSON *reply = cJSON_CreateObject();

        add_object(A_HOLD, words, "lock", self->hold);
        (void)cJSON_AddBoolToObject(reply, "is_kept", true);
        answer_with(reply, words, status, &error);
        free(self);
    }
}

static void extend(rql_loop *loop, rql_client *client, cJSON *words)
{
    const struct hold *hold = find_object(A_HOLD, words, "lock");
    const rql_done done = {on_done, words};
    rql_error error = {0};
    rql_status status;

    (void)client;
    if (hold->series) {
        wrong(words, "no call extends a series on a loop");
    }
    status = rql_lock_extend_async(loop, hold->lock, number_or(words, "ttl_ms", 0), &done, &error);
    if (status) {
        answer(words, status, &error);
    }
}

static void on_lowered(rql_status status, const rql_error *error, void *words)
{
    const struct hold *hold = find_object(A_HOLD, words, "lock");
    cJSON *reply = cJSON_CreateObject();

    add_slots(reply, hold->lock);
    answer_with(reply, words, status, error);
}

static void lower(rql_loop *loop, rql_client *client, cJSON *words)
{
    const struct hold *hold = find_object(A_HOLD, words, "lock");
    const rql_done done = {on_lowered, words};
    struct settings settings;
    rql_error error = {0};
    rql_status status;

    read_settings(client, words, &settings);
    status = rql_lock_lower_async(loop, hold->lock, &settings.lock, &done, &error);
    if (status) {
        answer(words, status, &error);
    }
}

bool perform_on_loop(struct actor *actor, cJSON *words)
{
    static const struct {
        const char *name;
        void (*run)(rql_loop *loop, rql_client *client, cJSON *words);
    } calls[] = {
        {"acquire", acquire},     {"block", acquire}, {"cancel", cancel},   {"extend", extend},
        {"fault_of", tell_fault}, {"lower", lower},   {"release", release},
    };

    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (strcmp(text_in(words, "do"), calls[i].name) == 0) {
            calls[i].run(actor_loop(actor), actor_client(actor), words);
            return true;
        }
    }
    return perform_on_thread(actor, words); /* state, verify and the like: where this is read */
}
