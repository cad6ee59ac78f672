#ifndef ASKING_H
#define ASKING_H

/* Thousands of requests as their clients would send them, without the clients: each is one call of
 * a script, written by the library itself, on the connection of the fixture. */

#include "fixture.h"

#include "base/random.h"
#include "wire/command.h"

struct asker {
    char acquirer[RQL_ID_SIZE];
    char host[RQL_ID_SIZE];
    char nonce[RQLI_HEX_SIZE];
};

/* The index'th request of the client with this number. Its ids are as long as those of Linux are,
 * and of the tasks that options.h calls cheap. */
static inline void asker_init(struct asker *self, unsigned client, unsigned index)
{
    unsigned process = 4000000 + client;
    unsigned thread = 4100000 + index;

    (void)snprintf(self->acquirer, sizeof self->acquirer, "rql:acq:%u/%u/99999/0/%032x", process,
                   thread, client + 1);
    (void)snprintf(self->host, sizeof self->host, "rql:hst:%u/%u/0/%032x", process, thread,
                   client + 1);
    (void)snprintf(self->nonce, sizeof self->nonce, "%016x%016x", client + 1, index + 1);
}

static inline void append_call(const struct rqli_call *call)
{
    struct rqli_command command = {0};

    rqli_call_write(call, &command, false);
    assert_false(command.failed);
    assert_int_equal(redisAppendFormattedCommand(raw, command.data, command.length), REDIS_OK);
    rqli_command_fini(&command);
}

/* Sends nothing yet. known_us: the place it had, for a look of one that waits; else 0. */
static inline void append_acquire(const struct rqli_keys *keys, const struct asker *asker,
                                  int64_t known_us)
{
    const struct rqli_acquire_args ask = {.access = 'q',
                                          .conflict = 'w',
                                          .wait_ms = 3600000,
                                          .queue_ttl_ms = 3600000,
                                          .score_us = known_us,
                                          .random = 65535};
    struct rqli_call call;

    rqli_call_init(&call, RQLI_SCRIPT_ACQUIRE, keys);
    rqli_call_text(&call, asker->acquirer);
    rqli_call_text(&call, asker->host);
    rqli_call_int(&call, 3600000);
    rqli_call_text(&call, asker->nonce);
    rqli_call_int(&call, INT64_C(1) << 53);
    rqli_call_acquire_args(&call, &ask);
    append_call(&call);
}

static inline void append_release(const struct rqli_keys *keys, const char *nonce)
{
    struct rqli_call call;

    rqli_call_init(&call, RQLI_SCRIPT_RELEASE, keys);
    rqli_call_text(&call, nonce);
    rqli_call_int(&call, 65535);
    append_call(&call);
}

/* The next answer of the line; it begins like this. */
static inline void take_answer(const char *begin)
{
    redisReply *reply = NULL;

    if (redisGetReply(raw, (void **)&reply) != REDIS_OK || !reply ||
        reply->type != REDIS_REPLY_STRING || strncmp(reply->str, begin, strlen(begin)) != 0) {
        fail_msg("'%s' is not '%s...'", reply && reply->str ? reply->str : raw->errstr, begin);
    }
    freeReplyObject(reply);
}

/* What acquire.lua answers. */
#define HELD "1 "
#define QUEUED "0 "

/* Has the server know a script by its digest. */
static inline void load_script(enum rqli_script_id id)
{
    freeReplyObject(redisCommand(raw, "SCRIPT LOAD %s", rqli_scripts[id].text));
}

#endif
