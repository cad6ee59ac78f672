#include "perf/floor.h"

#include <stdio.h>
#include <string.h>

#define TTL_MS "5000"

static const char delete_own[] = "if redis.call('GET', KEYS[1]) == ARGV[1] then "
                                 "return redis.call('DEL', KEYS[1]) else return 0 end";

/* Sends and takes the reply; true if it has the type and, for integers, is 1. */
static bool run(struct floor *self, int argc, const char **argv, int type)
{
    redisReply *reply = redisCommandArgv(self->context, argc, argv, NULL);
    bool good =
        reply && reply->type == type && (type != REDIS_REPLY_INTEGER || reply->integer == 1);

    if (reply) {
        freeReplyObject(reply);
    }
    return good;
}

static bool load_script(struct floor *self)
{
    redisReply *reply = redisCommand(self->context, "SCRIPT LOAD %s", delete_own);
    bool good = reply && reply->type == REDIS_REPLY_STRING && reply->len < sizeof self->digest;

    if (good) {
        (void)memcpy(self->digest, reply->str, reply->len + 1);
    }
    if (reply) {
        freeReplyObject(reply);
    }
    return good;
}

bool floor_open(struct floor *self, const char *socket_path, int number, char *reason)
{
    *self = (struct floor){.context = redisConnectUnix(socket_path)};
    (void)snprintf(self->key, sizeof self->key, "bench:floor:%d", number);
    (void)snprintf(self->owner, sizeof self->owner, "owner-%d", number);
    if (self->context && self->context->err == 0 && load_script(self)) {
        return true;
    }
    (void)snprintf(reason, FLOOR_REASON_SIZE, "%s: %s", socket_path,
                   self->context ? self->context->errstr : "out of memory");
    floor_close(self);
    return false;
}

void floor_close(struct floor *self)
{
    if (self->context) {
        redisFree(self->context);
    }
    self->context = NULL;
}

bool floor_ping(struct floor *self)
{
    const char *words[] = {"PING"};

    return run(self, 1, words, REDIS_REPLY_STATUS);
}

bool floor_pair(struct floor *self)
{
    const char *take[] = {"SET", self->key, self->owner, "PX", TTL_MS, "NX"};
    const char *give[] = {"EVALSHA", self->digest, "1", self->key, self->owner};

    return run(self, 6, take, REDIS_REPLY_STATUS) && run(self, 5, give, REDIS_REPLY_INTEGER);
}
