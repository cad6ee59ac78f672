#include "script/answer.h"

#include <rql/lock.h>
#include <string.h>

static bool all_integers(const struct rqli_reply *reply, size_t count)
{
    size_t i;

    if (reply->type != RQLI_REPLY_ARRAY || reply->count < count) {
        return false;
    }
    for (i = 0; i < count; i++) {
        if (reply->items[i].type != RQLI_REPLY_INTEGER) {
            return false;
        }
    }
    return true;
}

/* No longer than any lock of ours: the server may say anything, and this is reckoned with. */
static int64_t bounded_ms(int64_t left_ms)
{
    left_ms = left_ms < -1 ? -1 : left_ms;
    return left_ms < RQL_TTL_MAX_MS ? left_ms : RQL_TTL_MAX_MS;
}

static bool is_time(int64_t server_us)
{
    return server_us >= 0 && server_us <= RQLI_SERVER_US_MAX;
}

static bool read_granted(const struct rqli_reply *reply, struct rqli_answer *out)
{
    if (!all_integers(reply, 5) || reply->count != 7 || reply->items[5].type != RQLI_REPLY_TEXT ||
        reply->items[6].type != RQLI_REPLY_INTEGER) {
        return false;
    }
    out->token = reply->items[1].integer;
    out->server_us = reply->items[2].integer;
    out->left_ms = bounded_ms(reply->items[3].integer);
    out->process = reply->items[4].integer;
    out->nonce = reply->items[5].text;
    out->was_handed_over = reply->items[6].integer != 0;
    return out->token > 0 && is_time(out->server_us) && out->process >= 0 && out->process <= 2;
}

static bool read_queued(const struct rqli_reply *reply, struct rqli_answer *out)
{
    if (!all_integers(reply, 8)) {
        return false;
    }
    out->server_us = reply->items[1].integer;
    out->left_ms = bounded_ms(reply->items[2].integer);
    out->rank = reply->items[3].integer;
    out->is_first = reply->items[4].integer != 0;
    out->was_restored = reply->items[5].integer != 0;
    out->is_of_ruby = reply->items[6].integer != 0;
    out->score_us = reply->items[7].integer;
    return is_time(out->server_us);
}

bool rqli_answer_read(const struct rqli_reply *reply, struct rqli_answer *out)
{
    *out = (struct rqli_answer){.left_ms = -1};
    if (!all_integers(reply, 2) || reply->items[0].integer < RQLI_ANSWER_QUEUED ||
        reply->items[0].integer > RQLI_ANSWER_AGAIN) {
        return false;
    }
    out->kind = (enum rqli_answer_kind)reply->items[0].integer;
    if (out->kind == RQLI_ANSWER_GRANTED) {
        return read_granted(reply, out);
    }
    if (out->kind == RQLI_ANSWER_QUEUED) {
        return read_queued(reply, out);
    }
    out->server_us = reply->items[1].integer;
    if (all_integers(reply, 3)) {
        out->left_ms = bounded_ms(reply->items[2].integer);
    }
    return is_time(out->server_us);
}

bool rqli_answer_is_for(const struct rqli_answer *self, const char *nonce)
{
    return self->kind != RQLI_ANSWER_GRANTED || self->process != RQL_LOCK_OBTAINING ||
           (self->nonce.length == strlen(nonce) &&
            memcmp(self->nonce.data, nonce, self->nonce.length) == 0);
}

bool rqli_outcome_read(const struct rqli_reply *reply, struct rqli_outcome *out)
{
    if (!all_integers(reply, 2)) {
        return false;
    }
    *out = (struct rqli_outcome){reply->items[0].integer, reply->items[1].integer, 0};
    if (all_integers(reply, 3)) {
        out->third = reply->items[2].integer;
    }
    return true;
}
