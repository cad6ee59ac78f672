#include "wire/series_answer.h"

#include <rql/base.h>

/* Where the parts begin, and how long one is. */
enum { GRANT_HEAD = 2, GRANT_PART = 4, QUEUED_HEAD = 8, REFUSED_HEAD = 3 };

static bool is_integer(const struct rqli_reply *reply, int64_t least, int64_t most)
{
    return reply->type == RQLI_REPLY_INTEGER && reply->integer >= least && reply->integer <= most;
}

/* {token, ttl_left_ms, process, grant's nonce} */
static bool is_part(const struct rqli_reply *part)
{
    return is_integer(&part[0], 1, INT64_MAX) && is_integer(&part[1], INT64_MIN, INT64_MAX) &&
           is_integer(&part[2], 0, 1) && part[3].type == RQLI_REPLY_TEXT;
}

static bool is_grant(const struct rqli_reply *reply, size_t count)
{
    if (reply->count != GRANT_HEAD + GRANT_PART * count) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_part(&reply->items[GRANT_HEAD + GRANT_PART * i])) {
            return false;
        }
    }
    return is_integer(&reply->items[1], 0, RQLI_SERVER_US_MAX);
}

static size_t head_of(const struct rqli_reply *reply)
{
    return reply->items[0].integer == RQLI_ANSWER_QUEUED ? QUEUED_HEAD : REFUSED_HEAD;
}

static bool has_obstacles(const struct rqli_reply *reply, size_t count)
{
    size_t head = head_of(reply);

    if (reply->count != head + count) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_integer(&reply->items[head + i], RQLI_OBSTACLE_NONE, RQLI_OBSTACLE_OWN)) {
            return false;
        }
    }
    return true;
}

bool rqli_series_answer_read(const struct rqli_reply *reply, size_t count, struct rqli_answer *out)
{
    if (reply->type == RQLI_REPLY_ARRAY && reply->count > 0 &&
        is_integer(reply->items, RQLI_ANSWER_GRANTED, RQLI_ANSWER_GRANTED)) {
        *out = (struct rqli_answer){.kind = RQLI_ANSWER_GRANTED, .left_ms = -1};
        if (!is_grant(reply, count)) {
            return false;
        }
        out->server_us = reply->items[1].integer;
        return true;
    }
    if (!rqli_answer_read(reply, out)) {
        return false;
    }
    if (out->of_ruby < 0 || out->of_ruby > (int64_t)count) {
        return false;
    }
    return out->kind == RQLI_ANSWER_STALE || out->kind == RQLI_ANSWER_AGAIN ||
           has_obstacles(reply, count);
}

struct rqli_answer rqli_series_answer_grant(const struct rqli_reply *reply, size_t index)
{
    const struct rqli_reply *part = &reply->items[GRANT_HEAD + GRANT_PART * index];
    int64_t left_ms = part[1].integer;

    return (struct rqli_answer){
        .kind = RQLI_ANSWER_GRANTED,
        .server_us = reply->items[1].integer,
        .token = part[0].integer,
        .left_ms = left_ms < -1               ? -1
                   : left_ms < RQL_TTL_MAX_MS ? left_ms
                                              : RQL_TTL_MAX_MS,
        .process = part[2].integer,
        .nonce = part[3].text,
    };
}

enum rqli_obstacle rqli_series_answer_obstacle(const struct rqli_reply *reply, size_t index)
{
    return (enum rqli_obstacle)reply->items[head_of(reply) + index].integer;
}
