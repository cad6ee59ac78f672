#include "wire/answer.h"

#include "wire/line.h"

#include <rql/lock.h>
#include <string.h>

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

static bool read_granted(const struct rqli_line *line, struct rqli_answer *out)
{
    if (line->count != 6 || line->word.length == 0) {
        return false;
    }
    out->left_ms = bounded_ms(line->numbers[2]);
    out->token = line->numbers[3];
    out->process = line->numbers[4];
    out->was_handed_over = line->numbers[5] != 0;
    out->nonce = line->word;
    return out->token > 0 && out->process >= 0 && out->process <= 2;
}

static bool read_queued(const struct rqli_line *line, struct rqli_answer *out)
{
    if (line->count != 8) {
        return false;
    }
    out->left_ms = bounded_ms(line->numbers[2]);
    out->rank = line->numbers[3];
    out->is_first = line->numbers[4] != 0;
    out->was_restored = line->numbers[5] != 0;
    out->of_ruby = line->numbers[6];
    out->score_us = line->numbers[7];
    return true;
}

bool rqli_answer_read(const struct rqli_reply *reply, struct rqli_answer *out)
{
    struct rqli_line line = rqli_line_read(reply);

    *out = (struct rqli_answer){.left_ms = -1};
    if (line.count < 2 || line.numbers[0] < RQLI_ANSWER_QUEUED ||
        line.numbers[0] > RQLI_ANSWER_AGAIN || !is_time(line.numbers[1])) {
        return false;
    }
    out->kind = (enum rqli_answer_kind)line.numbers[0];
    out->server_us = line.numbers[1];
    if (out->kind == RQLI_ANSWER_GRANTED) {
        return read_granted(&line, out);
    }
    if (out->kind == RQLI_ANSWER_QUEUED) {
        return read_queued(&line, out);
    }
    out->left_ms = line.count > 2 ? bounded_ms(line.numbers[2]) : -1;
    return true;
}

bool rqli_answer_is_for(const struct rqli_answer *self, const char *nonce)
{
    return self->kind != RQLI_ANSWER_GRANTED || self->process != RQL_LOCK_OBTAINING ||
           (self->nonce.length == strlen(nonce) &&
            memcmp(self->nonce.data, nonce, self->nonce.length) == 0);
}

bool rqli_outcome_read(const struct rqli_reply *reply, struct rqli_outcome *out)
{
    struct rqli_line line = rqli_line_read(reply);

    if (line.count < 2) {
        return false;
    }
    *out = (struct rqli_outcome){line.numbers[0], line.numbers[1], 0};
    if (line.count > 2) {
        out->third = line.numbers[2];
    }
    return true;
}

bool rqli_time_read(const struct rqli_reply *reply, int64_t *out_us)
{
    int64_t seconds;
    int64_t us;

    if (reply->type != RQLI_REPLY_ARRAY || reply->count != 2 ||
        reply->items[0].type != RQLI_REPLY_TEXT || reply->items[1].type != RQLI_REPLY_TEXT ||
        !rqli_parse_int(reply->items[0].text, &seconds) ||
        !rqli_parse_int(reply->items[1].text, &us) || seconds < 0 ||
        seconds > RQLI_SERVER_US_MAX / 1000000) {
        return false;
    }
    *out_us = seconds * 1000000 + us;
    return true;
}
