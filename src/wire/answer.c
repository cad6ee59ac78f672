#include "wire/answer.h"

#include "wire/command.h"

#include <rql/base.h>
#include <rql/lock.h>
#include <stdio.h>
#include <string.h>

/*
 * A script answers with whole numbers and perhaps a word at the end, as a list or as one line of
 * text with blanks between. The line costs the server a good deal less. Grants of several locks are
 * lists of their own. An answer that does not fit is refused as a whole: it may come from scripts
 * of another version, or from any client that may publish.
 */

/* The line of a queued request has the most numbers. The obstacles of a series are read by their
 * place. */
enum { NUMBERS_MAX = 8 };

struct fields {
    int64_t numbers[NUMBERS_MAX];
    size_t count;           /* number of `numbers` */
    struct rqli_slice word; /* the text after them, or empty; of a list: the next item, if text */
};

/* Reads numbers up to the first word that is not a number. `word` is that word and all the text
 * after it. */
static void read_text(struct fields *self, struct rqli_slice text)
{
    while (text.length > 0 && self->count < NUMBERS_MAX) {
        struct rqli_slice rest = text;

        if (!rqli_parse_int(rqli_slice_word(&rest), &self->numbers[self->count])) {
            break;
        }
        self->count++;
        text = rest;
    }
    self->word = text;
}

/* Returns the numbers at the start of a reply, as many as fit. A reply of another shape has none.
 * Ignores items of a list after the word: a reader that expects them reads the list itself. */
static struct fields read_fields(const struct rqli_reply *reply)
{
    struct fields self = {.count = 0};
    size_t i = 0;

    if (reply->type == RQLI_REPLY_TEXT) {
        read_text(&self, reply->text);
    } else if (reply->type == RQLI_REPLY_ARRAY) {
        while (i < reply->count && i < NUMBERS_MAX && reply->items[i].type == RQLI_REPLY_INTEGER) {
            self.numbers[i] = reply->items[i].integer;
            i++;
        }
        self.count = i;
        if (i < reply->count && reply->items[i].type == RQLI_REPLY_TEXT) {
            self.word = reply->items[i].text;
        }
    }
    return self;
}

/* Limits a time to the longest ttl of a lock, because the server may answer anything, and the time
 * is used in calculations. Below 0 no end is known, whether the key is missing (-2) or its ttl
 * (-1). */
static int64_t bounded_ms(int64_t left_ms)
{
    left_ms = left_ms < -1 ? -1 : left_ms;
    return left_ms < RQL_TTL_MAX_MS ? left_ms : RQL_TTL_MAX_MS;
}

/* Returns whether further arithmetic with the time cannot overflow. */
static bool is_time(int64_t server_us)
{
    return server_us >= 0 && server_us <= RQLI_SERVER_US_MAX;
}

/* Reads {1, now_us, left_ms, token, process, way, nonce [slots]}. Without its nonce a grant could
 * be neither extended nor released, so such an answer is refused. */
static bool read_granted(const struct fields *fields, struct rqli_answer *out)
{
    struct rqli_slice words = fields->word;

    if (fields->count != 6 || words.length == 0) {
        return false;
    }
    out->left_ms = bounded_ms(fields->numbers[2]);
    out->token = fields->numbers[3];
    out->process = fields->numbers[4];
    out->was_handed_over = fields->numbers[5] == 1;
    out->was_restored = fields->numbers[5] == 2;
    if (words.length >= RQLI_HEX_SIZE) { /* nearly all answers end with the nonce */
        out->nonce = rqli_slice_word(&words);
        out->slots = words;
    } else {
        out->nonce = words;
    }
    return out->token > 0 && out->process >= 0 && out->process <= 2;
}

/* Reads {0, now_us, left_ms, rank, is_first, was_restored, of_ruby, score_us, in_front}. */
static bool read_queued(const struct fields *fields, struct rqli_answer *out)
{
    if (fields->count != 8) {
        return false;
    }
    out->left_ms = bounded_ms(fields->numbers[2]);
    out->rank = fields->numbers[3];
    out->is_first = fields->numbers[4] != 0;
    out->was_restored = fields->numbers[5] != 0;
    out->of_ruby = fields->numbers[6];
    out->score_us = fields->numbers[7];
    out->in_front = fields->word;
    return true;
}

/* Reads {7, now_us, until_us}. */
static bool read_paused(const struct fields *fields, struct rqli_answer *out)
{
    if (fields->count != 3 || !is_time(fields->numbers[2]) ||
        fields->numbers[2] <= out->server_us) {
        return false;
    }
    out->left_ms = bounded_ms((fields->numbers[2] - out->server_us + 999) / 1000);
    return true;
}

bool rqli_answer_read(const struct rqli_reply *reply, struct rqli_answer *out)
{
    struct fields fields = read_fields(reply);

    *out = (struct rqli_answer){.left_ms = -1};
    if (fields.count < 2 || fields.numbers[0] < RQLI_ANSWER_QUEUED ||
        fields.numbers[0] > RQLI_ANSWER_FULL || !is_time(fields.numbers[1])) {
        return false;
    }
    out->kind = (enum rqli_answer_kind)fields.numbers[0];
    out->server_us = fields.numbers[1];
    if (out->kind == RQLI_ANSWER_GRANTED) {
        return read_granted(&fields, out);
    }
    if (out->kind == RQLI_ANSWER_QUEUED) {
        return read_queued(&fields, out);
    }
    if (out->kind == RQLI_ANSWER_PAUSED) {
        return read_paused(&fields, out);
    }
    if (out->kind == RQLI_ANSWER_FULL) {
        return fields.count == 3;
    }
    /* A refusal (2 to 4) has the rest of the lock's ttl; 5 and 6 end after the time. */
    out->left_ms = fields.count > 2 ? bounded_ms(fields.numbers[2]) : -1;
    return true;
}

/* Reads the first number of a list, and cuts it off with the comma behind it; none is behind the
 * last. */
static bool read_slot(struct rqli_slice *text, int least, int most, int *out)
{
    const char *comma = text->length > 0 ? memchr(text->data, ',', text->length) : NULL;
    const size_t length = comma ? (size_t)(comma - text->data) : text->length;
    const struct rqli_slice digits = rqli_slice_take(text, length);

    if (comma) {
        (void)rqli_slice_take(text, 1);
    }
    return rqli_parse_within(digits, least, most, out) && (!comma || text->length > 0);
}

bool rqli_share_read_slots(struct rqli_slice text, const struct rqli_share *share, int *out)
{
    const bool are_first = text.length == 0;

    for (int i = 0; i < share->units; i++) {
        const int least = i > 0 ? out[i - 1] + 1 : 0;

        out[i] = i;
        if (!are_first && !read_slot(&text, least, share->limit - 1, &out[i])) {
            return false;
        }
    }
    return text.length == 0;
}

/* A re-entry has the nonce of the grant that it shares, which does not identify the request. */
bool rqli_answer_is_for(const struct rqli_answer *self, const char *nonce)
{
    return self->kind != RQLI_ANSWER_GRANTED || self->process != RQL_LOCK_OBTAINING ||
           rqli_slice_is(self->nonce, nonce);
}

/* A number that is missing after the second is read as 0: the script and the first number determine
 * whether there is one. */
bool rqli_outcome_read(const struct rqli_reply *reply, struct rqli_outcome *out)
{
    struct fields fields = read_fields(reply);

    if (fields.count < 2) {
        return false;
    }
    *out = (struct rqli_outcome){fields.numbers[0], fields.numbers[1], fields.numbers[2],
                                 fields.numbers[3], fields.numbers[4]};
    return true;
}

bool rqli_serve_is_due(const struct rqli_reply *reply)
{
    struct rqli_outcome outcome;

    return rqli_outcome_read(reply, &outcome) && outcome.second == RQLI_SERVED_PARTLY;
}

/* Reads {seconds, microseconds of the second}, both texts. */
bool rqli_time_read(const struct rqli_reply *reply, int64_t *out_us)
{
    int64_t seconds;
    int64_t us;

    if (reply->type != RQLI_REPLY_ARRAY || reply->count != 2 ||
        reply->items[0].type != RQLI_REPLY_TEXT || reply->items[1].type != RQLI_REPLY_TEXT ||
        !rqli_parse_int(reply->items[0].text, &seconds) ||
        !rqli_parse_int(reply->items[1].text, &us) || seconds < 0 ||
        seconds > RQLI_SERVER_US_MAX / 1000000 || us < 0 || us > 999999) {
        return false;
    }
    *out_us = seconds * 1000000 + us;
    return true;
}

/* ---- acquire_series.lua ---- */

/* Where the parts begin, and how long one is: after {1, now_us} come the grants, four items each;
 * after the numbers of a place, or {2 to 4, now_us, pttl_ms}, one obstacle for each lock. */
enum { GRANT_HEAD = 2, GRANT_PART = 4, QUEUED_HEAD = 8, REFUSED_HEAD = 3 };

static bool is_integer(const struct rqli_reply *reply, int64_t least, int64_t most)
{
    return reply->type == RQLI_REPLY_INTEGER && reply->integer >= least && reply->integer <= most;
}

/* Returns whether each part is {token, ttl_left_ms, process, grant's nonce}. There is no process 2,
 * because a series does not extend locks. */
static bool is_grant(const struct rqli_reply *reply, size_t count)
{
    if (reply->count != GRANT_HEAD + GRANT_PART * count) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const struct rqli_reply *part = &reply->items[GRANT_HEAD + GRANT_PART * i];

        if (!is_integer(&part[0], 1, INT64_MAX) || !is_integer(&part[1], INT64_MIN, INT64_MAX) ||
            !is_integer(&part[2], 0, 1) || part[3].type != RQLI_REPLY_TEXT) {
            return false;
        }
    }
    return is_integer(&reply->items[1], 0, RQLI_SERVER_US_MAX);
}

/* Returns the number of items before the obstacles, in an answer that is not a grant. */
static size_t head_of(const struct rqli_reply *reply)
{
    return reply->items[0].integer == RQLI_ANSWER_QUEUED ? QUEUED_HEAD : REFUSED_HEAD;
}

/* Returns whether there is one obstacle for each lock, in the order in which the locks were
 * requested. A text has room for none. */
static bool has_obstacles(const struct rqli_reply *reply, size_t count)
{
    size_t head;

    if (reply->type != RQLI_REPLY_ARRAY) {
        return false;
    }
    head = head_of(reply);
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

/* A grant has texts between its numbers, and so has a reader of its own. of_ruby has to be the
 * number of one of the locks, because the caller uses it as an index. */
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
           out->kind == RQLI_ANSWER_PAUSED || has_obstacles(reply, count);
}

/* was_handed_over stays false: no release gives a series its locks, the series takes them
 * itself. */
struct rqli_answer rqli_series_answer_grant(const struct rqli_reply *reply, size_t index)
{
    const struct rqli_reply *part = &reply->items[GRANT_HEAD + GRANT_PART * index];

    return (struct rqli_answer){
        .kind = RQLI_ANSWER_GRANTED,
        .server_us = reply->items[1].integer,
        .token = part[0].integer,
        .left_ms = bounded_ms(part[1].integer),
        .process = part[2].integer,
        .nonce = part[3].text,
    };
}

/* Answers 5 and 6 have no obstacles, and callers do not ask for them. */
enum rqli_obstacle rqli_series_answer_obstacle(const struct rqli_reply *reply, size_t index)
{
    return (enum rqli_obstacle)reply->items[head_of(reply) + index].integer;
}

/* ---- pushes ---- */

/* The channel on which the server publishes to a RESP2 client which tracked key has changed. */
#define CHANGES "__redis__:invalidate"

/* The prefix, 32 digits and a terminator fit well. */
enum { CHANNEL_SIZE = 64 };

/* Pushes are lines of text, as answers are. No text may follow the last word. */

/* Returns whether the text is a list of slots, or empty. */
static bool has_slots_only(struct rqli_slice text)
{
    for (size_t i = 0; i < text.length; i++) {
        bool is_digit = text.data[i] >= '0' && text.data[i] <= '9';

        if (!is_digit && (text.data[i] != ',' || i == 0)) {
            return false;
        }
    }
    return true;
}

/* Reads "<token> <server us> <lease ms>", perhaps with the slots behind it, which a request that
 * asked for slots gets from its next poll. Any client may publish, so a message that
 * serve_queue.lua or admit.lua would not have written must not become a lease. */
static bool read_grant(struct rqli_push *push, struct rqli_slice text)
{
    struct fields fields = {.count = 0};
    bool has_slots;

    read_text(&fields, text);
    push->token = fields.numbers[0];
    push->server_us = fields.numbers[1];
    push->lease_ms = fields.numbers[2];
    /* A single slot is one number more; several are a word. */
    has_slots = fields.count == 4 ? fields.word.length == 0 && fields.numbers[3] >= 0
                                  : fields.count == 3 && has_slots_only(fields.word);
    return has_slots && text.data[text.length - 1] != ' ' && push->token > 0 &&
           push->server_us > 0 && push->server_us <= RQLI_SERVER_US_MAX && push->lease_ms > 0 &&
           push->lease_ms <= RQL_TTL_MAX_MS;
}

/* Reads "<nonce> look", from serve_queue.lua and sweep_queue.lua; or "<nonce> " and a grant, from
 * serve_queue.lua. */
static void read_message(struct rqli_pushed *pushed, struct rqli_slice text)
{
    struct rqli_slice nonce = rqli_slice_word(&text);

    if (nonce.length == RQLI_HEX_SIZE - 1 && rqli_slice_is(text, "look")) {
        pushed->kind = RQLI_PUSHED_HINT;
    } else if (nonce.length == RQLI_HEX_SIZE - 1 && read_grant(&pushed->push, text)) {
        pushed->kind = RQLI_PUSHED_GRANT;
    } else {
        return;
    }
    memcpy(pushed->nonce, nonce.data, nonce.length);
}

/* A cluster sends a published message to all of its nodes, except on a channel that belongs to a
 * slot. */
static bool is_sharded(const struct rqli_key_set *set)
{
    return rqli_key_set_index(set) != RQLI_WHOLE;
}

/* Reads "ssubscribe" and "sunsubscribe"; the server sends the latter unasked when the slot has
 * moved away. The name of a channel begins as the keys of its partition do. */
static void read_sharded(struct rqli_pushed *pushed, const struct rqli_reply *items)
{
    bool is_end = rqli_reply_is(&items[0], "sunsubscribe");
    const struct rqli_key_set *set =
        items[1].type == RQLI_REPLY_TEXT ? rqli_key_set_in(items[1].text) : NULL;

    if ((is_end || rqli_reply_is(&items[0], "ssubscribe")) && set && is_sharded(set) &&
        items[1].text.length > set->prefix.length) {
        pushed->set = set;
        pushed->kind = is_end ? RQLI_PUSHED_END : RQLI_PUSHED_CONFIRMATION;
    }
}

/* Reads {"subscribe", channel, number of subscriptions}, or {"message", channel, payload}; on a
 * slot's channel {"ssubscribe", ...} and {"smessage", ...}. The payload of a change is a list of
 * one key; it is nil when the whole database was emptied. All other messages come on the client's
 * own channels, because it has subscribed to no others. */
struct rqli_pushed rqli_push_read(const struct rqli_reply *reply)
{
    struct rqli_pushed pushed = {.kind = RQLI_PUSHED_NOTHING};
    const struct rqli_reply *payload;

    if (reply->type != RQLI_REPLY_ARRAY || reply->count != 3) {
        return pushed;
    }
    payload = &reply->items[2];
    if (rqli_reply_is(&reply->items[0], "subscribe")) {
        pushed.kind = RQLI_PUSHED_CONFIRMATION;
    } else if (rqli_reply_is(&reply->items[0], "message") &&
               rqli_reply_is(&reply->items[1], CHANGES)) {
        pushed.kind = RQLI_PUSHED_CHANGE;
        if (payload->type == RQLI_REPLY_ARRAY && payload->count == 1) {
            pushed.lock_key = payload->items[0].text;
        }
    } else if ((rqli_reply_is(&reply->items[0], "message") ||
                rqli_reply_is(&reply->items[0], "smessage")) &&
               payload->type == RQLI_REPLY_TEXT) {
        read_message(&pushed, payload->text);
    } else {
        read_sharded(&pushed, reply->items);
    }
    return pushed;
}

/* Writes the name of the client's channel. The identity is random, so other clients do not listen
 * there. */
static const char *channel_of(char *out, size_t size, const struct rqli_key_set *set,
                              const char *identity)
{
    (void)snprintf(out, size, "%swake:%s", set->prefix.data, identity);
    return out;
}

void rqli_push_ping(struct rqli_command *command, const struct rqli_key_set *set,
                    const char *identity)
{
    char channel[CHANNEL_SIZE];

    rqli_command_words(command, is_sharded(set) ? "SPUBLISH" : "PUBLISH",
                       channel_of(channel, sizeof channel, set, identity), "hello", NULL);
}

/* Two commands rather than one with two channels: if the user has no right to receive changes, only
 * the second is refused. */
void rqli_push_subscribe(struct rqli_command *command, const struct rqli_key_set *set,
                         const char *identity, bool hears_changes)
{
    char channel[CHANNEL_SIZE];

    (void)channel_of(channel, sizeof channel, set, identity);
    if (is_sharded(set)) {
        rqli_command_words(command, "SSUBSCRIBE", channel, NULL);
        return;
    }
    rqli_command_words(command, "SUBSCRIBE", channel, NULL);
    if (hears_changes) {
        rqli_command_words(command, "SUBSCRIBE", CHANGES, NULL);
    }
}
