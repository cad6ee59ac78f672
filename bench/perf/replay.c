#include "perf/replay.h"

#include "perf/floor.h"
#include "wire/command.h"

#include <stdio.h>
#include <stdlib.h>

enum { TTL_MS = 3600 * 1000, KEEP_SECONDS = 3600, TIMEOUT_SECONDS = 20 };

static const char identity[] = "be9c0000000000000000000000000001";

struct replay {
    redisContext *context;
    redisContext *subscriber; /* NULL: nobody listens */
    struct fault *fault;
    struct rqli_command command;
    struct rqli_keys keys;
    char memory[RQLI_KEYS_ROOM]; /* of keys */
};

static const struct rqli_keys *keys_of(struct replay *self, const char *lock)
{
    rqli_keys_init(&self->keys, self->memory, &rqli_key_sets[RQLI_WHOLE], rqli_slice_of(lock));
    return &self->keys;
}

static bool ask(redisContext *context, struct fault *fault, const char *text)
{
    redisReply *reply = redisCommand(context, text);
    bool good = reply && reply->type != REDIS_REPLY_ERROR;

    if (!good) {
        fault_raise(fault, "%s: %s", text, reply ? reply->str : context->errstr);
    }
    if (reply) {
        freeReplyObject(reply);
    }
    return good;
}

static bool teach(struct replay *self, enum rqli_script_id id)
{
    const struct rqli_script *script = &rqli_scripts[id];
    char *text = malloc(script->length);
    redisReply *reply = NULL;
    bool good;

    if (text) {
        rqli_script_text(script, text);
        reply = redisCommand(self->context, "SCRIPT LOAD %b", text, script->length);
    }
    free(text);
    good = reply && reply->type == REDIS_REPLY_STRING;

    if (!good) {
        fault_raise(self->fault, "a script was not loaded");
    }
    if (reply) {
        freeReplyObject(reply);
    }
    return good;
}

struct replay *replay_open(const char *address, struct fault *fault)
{
    const struct site site = {.address = address, .fault = fault};
    struct replay *self = calloc(1, sizeof *self);

    if (!self) {
        fault_raise(fault, "out of memory");
        return NULL;
    }
    self->fault = fault;
    self->context = dial(&site);
    if (!self->context || !teach(self, RQLI_SCRIPT_ACQUIRE) || !teach(self, RQLI_SCRIPT_RELEASE)) {
        replay_close(self);
        return NULL;
    }
    self->subscriber = dial(&site);
    if (!self->subscriber) {
        replay_close(self);
        return NULL;
    }
    return self;
}

void replay_close(struct replay *self)
{
    if (self->context) {
        redisFree(self->context);
    }
    if (self->subscriber) {
        redisFree(self->subscriber);
    }
    rqli_command_fini(&self->command);
    free(self);
}

bool replay_listen(struct replay *self)
{
    const struct timeval timeout = {.tv_sec = TIMEOUT_SECONDS};
    char text[64];

    (void)redisSetTimeout(self->subscriber, timeout);
    (void)snprintf(text, sizeof text, "SUBSCRIBE " RQLI_CHANNEL "%s", identity);
    return ask(self->subscriber, self->fault, text);
}

/* count: how many answers are still to come. */
static bool take_answers(redisContext *context, struct fault *fault, int64_t count)
{
    bool good = true;

    while (good && count-- > 0) {
        void *reply = NULL;

        good = redisGetReply(context, &reply) == REDIS_OK &&
               ((redisReply *)reply)->type != REDIS_REPLY_ERROR;
        if (!good) {
            fault_raise(fault, "replay: %s", reply ? ((redisReply *)reply)->str : context->errstr);
        }
        if (reply) {
            freeReplyObject(reply);
        }
    }
    return good;
}

bool replay_hear(struct replay *self, int64_t count)
{
    return take_answers(self->subscriber, self->fault, count);
}

static void format_nonce(char out[40], int64_t number)
{
    (void)snprintf(out, 40, "%032llx", (unsigned long long)number);
}

void replay_acquire(struct replay *self, const char *lock, int64_t number)
{
    const struct rqli_acquire_args ask = {
        .access = 'q', .conflict = 'w', .wait_ms = -1, .queue_ttl_ms = -1, .random = 65535};
    struct rqli_call call;
    char acquirer[RQL_ID_SIZE];
    char host[RQL_ID_SIZE];
    char nonce[40];

    (void)snprintf(acquirer, sizeof acquirer, "rql:acq:12345/12345/%lld/0/%s", (long long)number,
                   identity);
    (void)snprintf(host, sizeof host, "rql:hst:12345/12345/0/%s", identity);
    format_nonce(nonce, number);
    rqli_call_init(&call, RQLI_SCRIPT_ACQUIRE, keys_of(self, lock));
    rqli_call_text(&call, acquirer);
    rqli_call_text(&call, host);
    rqli_call_int(&call, TTL_MS);
    rqli_call_text(&call, nonce);
    rqli_call_int(&call, INT64_C(1) << 52);
    rqli_call_acquire_args(&call, &ask);
    rqli_call_write(&call, &self->command, UINT64_MAX);
}

void replay_release(struct replay *self, const char *lock, int64_t number)
{
    struct rqli_call call;
    char nonce[40];

    format_nonce(nonce, number);
    rqli_call_init(&call, RQLI_SCRIPT_RELEASE, keys_of(self, lock));
    rqli_call_text(&call, nonce);
    rqli_call_int(&call, 65535); /* no luck */
    rqli_call_write(&call, &self->command, UINT64_MAX);
}

bool replay_flush(struct replay *self)
{
    int64_t sent = self->command.n_commands;
    bool good =
        !self->command.failed && redisAppendFormattedCommand(self->context, self->command.data,
                                                             self->command.length) == REDIS_OK;

    rqli_command_reset(&self->command);
    if (!good) {
        fault_raise(self->fault, "out of memory");
        return false;
    }
    return take_answers(self->context, self->fault, sent);
}

static int64_t number_after(const char *text, const char *name)
{
    const char *found = strstr(text, name);

    return found ? strtoll(found + strlen(name), NULL, 10) : 0;
}

bool replay_keep(struct replay *self, const char *lock)
{
    const struct rqli_keys *keys = keys_of(self, lock);
    const char *const lasting[] = {keys->queue.data, keys->requests.data};
    char text[RQLI_KEY_SIZE + 32];
    bool good = true;
    size_t i;

    for (i = 0; i < 2 && good; i++) {
        (void)snprintf(text, sizeof text, "PEXPIRE %s %d", lasting[i], KEEP_SECONDS * 1000);
        good = ask(self->context, self->fault, text);
    }
    return good;
}

int64_t replay_memory(struct replay *self)
{
    redisReply *reply = redisCommand(self->context, "INFO memory");
    int64_t total = 0;

    if (reply && reply->type == REDIS_REPLY_STRING) {
        total = number_after(reply->str, "used_memory:") -
                number_after(reply->str, "mem_clients_normal:");
    }
    if (reply) {
        freeReplyObject(reply);
    }
    return total;
}
