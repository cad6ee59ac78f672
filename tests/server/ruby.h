#ifndef RUBY_H
#define RUBY_H

/* redis_queued_locks, played by the commands that it sends: each with a connection of its own, as a
 * process of the gem's. Usable in threads: nothing of cmocka here. */

#include "fixture.h"

#include <inttypes.h>

enum { RUBY_DELAY_MS = 200, RUBY_JITTER_MS = 25, RUBY_QUEUE_TTL_S = 15 };

struct ruby {
    redisContext *conn;
    char acq_id[RQL_ID_SIZE];
    char hst_id[RQL_ID_SIZE];
    double score; /* remembered; 0: none yet */
    unsigned seed;
};

/* `identity`: 16 digits as the gem makes them, or whatever it was told to use. */
static inline void ruby_open_as(struct ruby *self, int number, const char *identity)
{
    *self = (struct ruby){.conn = redis_server_connect(&server), .seed = (unsigned)number};
    (void)snprintf(self->acq_id, sizeof self->acq_id, "rql:acq:%d/600/620/640/%s", 20000 + number,
                   identity);
    (void)snprintf(self->hst_id, sizeof self->hst_id, "rql:hst:%d/600/640/%s", 20000 + number,
                   identity);
    if (!self->conn) {
        abort();
    }
}

static inline void ruby_open(struct ruby *self, int number)
{
    char identity[17];

    (void)snprintf(identity, sizeof identity, "aaaaaaaa%08x", (unsigned)number);
    ruby_open_as(self, number, identity);
}

static inline void ruby_close(struct ruby *self)
{
    redisFree(self->conn);
    self->conn = NULL;
}

static inline redisReply *ruby_read(const struct ruby *self)
{
    redisReply *reply = NULL;

    if (redisGetReply(self->conn, (void **)&reply) != REDIS_OK || !reply) {
        abort();
    }
    return reply;
}

static inline redisReply *ruby_ask(const struct ruby *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static inline redisReply *ruby_ask(const struct ruby *self, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)redisvAppendCommand(self->conn, format, args);
    va_end(args);
    return ruby_read(self);
}

#define RUBY_DO(self, ...) freeReplyObject(ruby_ask(self, __VA_ARGS__))

static inline double ruby_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)(now.tv_nsec / 1000) / 1e6;
}

/* A text, or false for nil. */
static inline bool ruby_gets(const struct ruby *self, char out[TEXT_SIZE], const char *name)
{
    redisReply *reply = ruby_ask(self, "HGET rql:lock:%s acq_id", name);
    bool is_there = reply->type == REDIS_REPLY_STRING;

    (void)snprintf(out, TEXT_SIZE, "%s", is_there ? reply->str : "");
    freeReplyObject(reply);
    return is_there;
}

/* How the gem drops its WATCH. */
static inline bool ruby_goes_without(const struct ruby *self)
{
    (void)redisAppendCommand(self->conn, "MULTI");
    (void)redisAppendCommand(self->conn, "EXEC");
    freeReplyObject(ruby_read(self));
    freeReplyObject(ruby_read(self));
    return false;
}

static inline bool ruby_takes(struct ruby *self, const char *name, int64_t ttl_ms)
{
    redisReply *reply;
    bool is_done;

    (void)redisAppendCommand(self->conn, "MULTI");
    (void)redisAppendCommand(self->conn, "ZREM rql:lock_queue:%s %s", name, self->acq_id);
    (void)redisAppendCommand(self->conn,
                             "HSET rql:lock:%s acq_id %s hst_id %s ts %.6f ini_ttl %lld", name,
                             self->acq_id, self->hst_id, ruby_now(), (long long)ttl_ms);
    (void)redisAppendCommand(self->conn, "PEXPIRE rql:lock:%s %lld", name, (long long)ttl_ms);
    (void)redisAppendCommand(self->conn, "EXEC");
    for (int i = 0; i < 4; i++) {
        freeReplyObject(ruby_read(self));
    }
    reply = ruby_read(self);
    is_done = reply->type == REDIS_REPLY_ARRAY;
    freeReplyObject(reply);
    if (is_done) {
        self->score = 0;
    }
    return is_done;
}

/* Is it the first of the queue? */
static inline bool ruby_is_first(const struct ruby *self, const char *name)
{
    redisReply *reply = ruby_ask(self, "ZRANGE rql:lock_queue:%s 0 0", name);
    bool is_first = reply->elements > 0 && strcmp(reply->element[0]->str, self->acq_id) == 0;

    freeReplyObject(reply);
    return is_first;
}

/* One try of a lock that it does not hold. */
static inline bool ruby_try(struct ruby *self, const char *name, int64_t ttl_ms)
{
    char owner[TEXT_SIZE];
    bool is_free;

    if (self->score + RUBY_QUEUE_TTL_S < ruby_now()) { /* also when it has none yet */
        self->score = ruby_now();
    }
    RUBY_DO(self, "WATCH rql:lock:%s", name);
    (void)ruby_gets(self, owner, name);
    RUBY_DO(self, "ZADD rql:lock_queue:%s NX %.6f %s", name, self->score, self->acq_id);
    RUBY_DO(self, "ZREMRANGEBYSCORE rql:lock_queue:%s -inf %.6f", name,
            ruby_now() - RUBY_QUEUE_TTL_S);
    if (!ruby_is_first(self, name)) {
        RUBY_DO(self, "HGETALL rql:lock:%s", name);
        return ruby_goes_without(self);
    }
    is_free = !ruby_gets(self, owner, name);
    if (!is_free) {
        RUBY_DO(self, "HGETALL rql:lock:%s", name);
        return ruby_goes_without(self);
    }
    return ruby_takes(self, name, ttl_ms);
}

static inline void ruby_sleep_ms(int64_t ms)
{
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    (void)nanosleep(&time, NULL);
}

/* Again and again, as with retry_count nil. */
static inline bool ruby_lock(struct ruby *self, const char *name, int64_t ttl_ms, int64_t within_ms)
{
    int64_t end_us = wait_clock_us() + within_ms * 1000;

    while (!ruby_try(self, name, ttl_ms)) {
        if (wait_clock_us() > end_us) {
            RUBY_DO(self, "ZREM rql:lock_queue:%s %s", name, self->acq_id);
            self->score = 0;
            return false;
        }
        ruby_sleep_ms(RUBY_DELAY_MS + rand_r(&self->seed) % RUBY_JITTER_MS);
    }
    return true;
}

/* The end of its block: whoever holds the lock by now. */
static inline void ruby_release(const struct ruby *self, const char *name)
{
    RUBY_DO(self, "EXPIRE rql:lock:%s 0", name);
}

static inline void ruby_unlock(const struct ruby *self, const char *name)
{
    (void)redisAppendCommand(self->conn, "MULTI");
    (void)redisAppendCommand(self->conn, "ZREMRANGEBYSCORE rql:lock_queue:%s -inf +inf", name);
    (void)redisAppendCommand(self->conn, "EXPIRE rql:lock:%s 0", name);
    (void)redisAppendCommand(self->conn, "EXEC");
    for (int i = 0; i < 4; i++) {
        freeReplyObject(ruby_read(self));
    }
}

/* Of what it has found by SCAN. */
static inline void ruby_clear_locks(const struct ruby *self, const char *name)
{
    RUBY_DO(self, "SCAN 0 MATCH rql:lock_queue:* count 100");
    RUBY_DO(self, "SCAN 0 MATCH rql:lock:* count 100");
    (void)redisAppendCommand(self->conn, "EXPIRE rql:lock_queue:%s 0", name);
    (void)redisAppendCommand(self->conn, "EXPIRE rql:lock:%s 0", name);
    freeReplyObject(ruby_read(self));
    freeReplyObject(ruby_read(self));
}

/* A Ruby that waits in a thread of its own. */
struct ruby_waiter {
    struct ruby ruby;
    const char *name;
    int64_t within_ms;
    int64_t hold_ms; /* then it releases; 0: it does not */
    pthread_t thread;
    bool has_it;
    int64_t granted_us;
    int64_t released_us;
};

static inline void *ruby_run_waiter(void *data)
{
    struct ruby_waiter *self = data;

    self->has_it = ruby_lock(&self->ruby, self->name, 60000, self->within_ms);
    self->granted_us = wait_clock_us();
    if (self->has_it && self->hold_ms > 0) {
        ruby_sleep_ms(self->hold_ms);
        self->released_us = wait_clock_us();
        ruby_release(&self->ruby, self->name);
    }
    return NULL;
}

/* Returns when there are `count` in the queue. */
static inline void ruby_waiter_start_as(struct ruby_waiter *self, int64_t count)
{
    assert_int_equal(pthread_create(&self->thread, NULL, ruby_run_waiter, self), 0);
    await_int(count, "ZCARD rql:lock_queue:%s", self->name);
}

static inline bool ruby_waiter_join(struct ruby_waiter *self)
{
    assert_int_equal(pthread_join(self->thread, NULL), 0);
    ruby_close(&self->ruby);
    return self->has_it;
}

#endif
