#include "perf/floor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TTL_MS "5000"

static const char delete_own[] = "if redis.call('GET', KEYS[1]) == ARGV[1] then "
                                 "return redis.call('DEL', KEYS[1]) else return 0 end";

struct hand {
    redisContext *context;
    struct fault *fault;
    char owner[32];
    char digest[48];    /* of the script */
    bool has_laid_down; /* the token, or found that somebody has */
};

static redisContext *connect_to(const char *address)
{
    char host[64];
    const char *colon = strrchr(address, ':');

    if (!colon || address[0] == '/') {
        return redisConnectUnix(address);
    }
    (void)snprintf(host, sizeof host, "%.*s", (int)(colon - address), address);
    return redisConnect(host, (int)strtol(colon + 1, NULL, 10));
}

redisContext *dial(const struct site *site)
{
    redisContext *context = connect_to(site->address);

    if (context && context->err == 0) {
        return context;
    }
    fault_raise(site->fault, "%s: %s", site->address, context ? context->errstr : "out of memory");
    if (context) {
        redisFree(context);
    }
    return NULL;
}

/* Sends and takes the reply; true if it has the type and, for integers, is 1. */
static bool run(struct hand *self, int argc, const char **argv, int type)
{
    redisReply *reply = redisCommandArgv(self->context, argc, argv, NULL);
    bool good =
        reply && reply->type == type && (type != REDIS_REPLY_INTEGER || reply->integer == 1);

    if (!good) {
        fault_raise(self->fault, "%s: %s", argv[0], reply ? "unexpected" : self->context->errstr);
    }
    if (reply) {
        freeReplyObject(reply);
    }
    return good;
}

static bool load_script(struct hand *self)
{
    redisReply *reply = redisCommand(self->context, "SCRIPT LOAD %s", delete_own);
    bool good = reply && reply->type == REDIS_REPLY_STRING && reply->len < sizeof self->digest;

    if (good) {
        (void)memcpy(self->digest, reply->str, reply->len + 1);
    } else {
        fault_raise(self->fault, "the script was not loaded");
    }
    if (reply) {
        freeReplyObject(reply);
    }
    return good;
}

static void *open_site(const struct site *site)
{
    struct site *copy = malloc(sizeof *copy);

    if (copy) {
        *copy = *site;
    }
    return copy;
}

static void leave(void *hand)
{
    struct hand *self = hand;

    if (self->context) {
        redisFree(self->context);
    }
    free(self);
}

static struct hand *enter_as(void *shared, int seat)
{
    const struct site *site = shared;
    struct hand *self = calloc(1, sizeof *self);

    if (!self) {
        fault_raise(site->fault, "out of memory");
        return NULL;
    }
    self->fault = site->fault;
    self->context = dial(site);
    (void)snprintf(self->owner, sizeof self->owner, "owner-%d", seat);
    if (!self->context) {
        leave(self);
        return NULL;
    }
    return self;
}

static void *enter(void *shared, int seat)
{
    return enter_as(shared, seat);
}

static void *enter_with_script(void *shared, int seat)
{
    struct hand *self = enter_as(shared, seat);

    if (self && !load_script(self)) {
        leave(self);
        return NULL;
    }
    return self;
}

static bool ping(void *hand, const struct prize *prize)
{
    const char *words[] = {"PING"};

    (void)prize;
    return run(hand, 1, words, REDIS_REPLY_STATUS);
}

static bool take(void *hand, const struct prize *prize)
{
    struct hand *self = hand;
    const char *words[] = {"SET", prize->name, self->owner, "PX", TTL_MS, "NX"};

    return run(self, 6, words, REDIS_REPLY_STATUS);
}

static bool give(void *hand, const struct prize *prize)
{
    struct hand *self = hand;
    const char *words[] = {"EVALSHA", self->digest, "1", prize->name, self->owner};

    return run(self, 5, words, REDIS_REPLY_INTEGER);
}

/* One element in a list: who pops it has the lock. Whoever comes first at all lays it down. */
static bool lay_token_down(struct hand *self, const char *name)
{
    redisReply *reply = redisCommand(self->context, "SET there:%s 1 NX", name);
    bool is_first = reply && reply->type == REDIS_REPLY_STATUS;
    bool good = reply && (is_first || reply->type == REDIS_REPLY_NIL);

    if (reply) {
        freeReplyObject(reply);
    }
    if (is_first) {
        const char *words[] = {"LPUSH", name, "token"};

        return run(self, 3, words, REDIS_REPLY_INTEGER);
    }
    if (!good) {
        fault_raise(self->fault, "SET: %s", self->context->errstr);
    }
    return good;
}

static bool pop(void *hand, const struct prize *prize)
{
    struct hand *self = hand;
    const char *words[] = {"BLPOP", prize->name, "0"};

    if (!self->has_laid_down && !lay_token_down(self, prize->name)) {
        return false;
    }
    self->has_laid_down = true;
    return run(self, 3, words, REDIS_REPLY_ARRAY);
}

static bool push(void *hand, const struct prize *prize)
{
    struct hand *self = hand;
    const char *words[] = {"LPUSH", prize->name, "token"};

    return run(self, 3, words, REDIS_REPLY_INTEGER);
}

static bool lock(void *hand, const struct prize *prize)
{
    const char *words[] = {"RQL.LOCK", prize->name, "WAIT", "0"};

    return run(hand, 4, words, REDIS_REPLY_ARRAY);
}

static bool unlock(void *hand, const struct prize *prize)
{
    const char *words[] = {"RQL.UNLOCK", prize->name};

    return run(hand, 2, words, REDIS_REPLY_INTEGER);
}

const struct contender contender_ping = {
    .name = "ping",
    .open = open_site,
    .close = free,
    .enter = enter,
    .leave = leave,
    .take = ping,
};

const struct contender contender_floor = {
    .name = "floor",
    .open = open_site,
    .close = free,
    .enter = enter_with_script,
    .leave = leave,
    .take = take,
    .give = give,
};

const struct contender contender_token = {
    .name = "token",
    .open = open_site,
    .close = free,
    .enter = enter,
    .leave = leave,
    .take = pop,
    .give = push,
};

const struct contender contender_agent = {
    .name = "agent",
    .open = open_site,
    .close = free,
    .enter = enter,
    .leave = leave,
    .take = lock,
    .give = unlock,
};
