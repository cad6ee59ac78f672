#include "proxy_stream.h"

#include <errno.h>
#include <hiredis.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum { CHUNK_SIZE = 16384, KEPT_MAX = 4 << 20, DRIBBLE_PAUSE_US = 50 };

struct proxy_chunk {
    struct proxy_chunk *next;
    int64_t due_us;
    size_t length;
    size_t sent;
    bool is_end;   /* `from` said no more */
    bool judged;   /* the rules have been applied */
    bool then_cut; /* after its last byte */
    char data[];
};

void proxy_stream_init(struct proxy_stream *self, int from, int to, bool has_replies)
{
    *self = (struct proxy_stream){.from = from, .to = to, .again = -1};
    self->tail = &self->head;
    self->splitter = has_replies ? redisReaderCreate() : NULL;
}

static void pop(struct proxy_stream *self)
{
    struct proxy_chunk *chunk = self->head;

    self->head = chunk->next;
    if (!self->head) {
        self->tail = &self->head;
    }
    free(chunk);
}

static void stop_splitting(struct proxy_stream *self)
{
    if (self->splitter) {
        redisReaderFree(self->splitter);
    }
    self->splitter = NULL;
    self->dropping = false;
}

void proxy_stream_fini(struct proxy_stream *self)
{
    while (self->head) {
        pop(self);
    }
    stop_splitting(self);
}

static bool would_block(void)
{
    return errno == EAGAIN || errno == EINTR;
}

/* false: nothing more to read now. */
static bool read_chunk(struct proxy_stream *self, int64_t due_us, bool *broken)
{
    struct proxy_chunk *chunk = malloc(sizeof *chunk + CHUNK_SIZE);
    ssize_t length = chunk ? recv(self->from, chunk->data, CHUNK_SIZE, MSG_DONTWAIT) : -1;

    if (length < 0) {
        *broken = !chunk || !would_block();
        free(chunk);
        return false;
    }
    chunk->next = NULL;
    chunk->due_us = due_us;
    chunk->length = (size_t)length;
    chunk->sent = 0;
    chunk->is_end = length == 0;
    chunk->judged = false;
    chunk->then_cut = false;
    *self->tail = chunk;
    self->tail = &chunk->next;
    self->kept += (size_t)length;
    self->ended = length == 0;
    return !self->ended;
}

/* One byte of the reply stream is about to pass. */
static void begin_reply(struct proxy_stream *self, struct proxy_rules *rules)
{
    self->inside = true;
    rules->replies++;
    self->dropping = rules->drop_reply > 0 && --rules->drop_reply == 0;
}

static void step_reply(struct proxy_stream *self, char byte)
{
    void *reply = NULL;

    (void)redisReaderFeed(self->splitter, &byte, 1);
    if (redisReaderGetReply(self->splitter, &reply) != REDIS_OK) {
        stop_splitting(self); /* no reply stream after all */
        return;
    }
    if (reply) {
        freeReplyObject(reply);
        self->inside = false;
    }
}

static void judge_replies(struct proxy_stream *self, struct proxy_rules *rules,
                          struct proxy_chunk *chunk)
{
    size_t kept = 0;
    size_t i;

    for (i = 0; i < chunk->length; i++) {
        if (self->splitter && !self->inside) {
            begin_reply(self, rules);
        }
        if (self->dropping && rules->drop_cuts) {
            chunk->then_cut = true;
            break;
        }
        if (!self->dropping) {
            chunk->data[kept++] = chunk->data[i];
        }
        if (self->splitter) {
            step_reply(self, chunk->data[i]);
        }
    }
    chunk->length = kept;
}

static void judge_cut(struct proxy_rules *rules, struct proxy_chunk *chunk)
{
    if (rules->cut_after < 0) {
        return;
    }
    if ((int64_t)chunk->length < rules->cut_after) {
        rules->cut_after -= (int64_t)chunk->length;
        return;
    }
    chunk->length = (size_t)rules->cut_after;
    chunk->then_cut = true;
    rules->cut_after = -1;
}

static void judge(struct proxy_stream *self, struct proxy_rules *rules, struct proxy_chunk *chunk)
{
    size_t arrived = chunk->length;

    chunk->judged = true;
    if (!chunk->is_end) {
        judge_replies(self, rules, chunk);
        judge_cut(rules, chunk);
    }
    self->kept -= arrived - chunk->length;
}

/* The receiver has not taken the last byte yet. */
static bool is_undigested(int fd)
{
    int waiting = 0;

    return ioctl(fd, SIOCOUTQ, &waiting) == 0 && waiting > 0;
}

/* false: the receiver is gone. *stuck: it takes no more now. */
static bool write_chunk(struct proxy_stream *self, struct proxy_rules *rules, bool *stuck)
{
    struct proxy_chunk *chunk = self->head;
    size_t length = chunk->length - chunk->sent;
    ssize_t written;

    if (rules->dribble && is_undigested(self->to)) {
        *stuck = true;
        return true;
    }
    written = send(self->to, chunk->data + chunk->sent, rules->dribble ? 1 : length,
                   MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written < 0) {
        *stuck = would_block();
        return *stuck;
    }
    chunk->sent += (size_t)written;
    self->kept -= (size_t)written;
    rules->bytes += written;
    return true;
}

/* Waits until all is taken; what comes back is thrown away. */
static void repeat(int fd, const struct proxy_chunk *chunk)
{
    char reply[CHUNK_SIZE];
    size_t sent = 0;
    ssize_t written = 0;

    while (sent < chunk->length && written >= 0) {
        written = send(fd, chunk->data + sent, chunk->length - sent, MSG_NOSIGNAL);
        sent += written > 0 ? (size_t)written : 0;
    }
    while (recv(fd, reply, sizeof reply, MSG_DONTWAIT) > 0) {
    }
}

static bool may_go(const struct proxy_stream *self, const struct proxy_rules *rules, int64_t now_us)
{
    return self->head && !rules->freeze && self->head->due_us <= now_us;
}

/* false: cut the connection. *stuck as above. */
static bool hand_on(struct proxy_stream *self, struct proxy_rules *rules, bool *stuck)
{
    struct proxy_chunk *chunk = self->head;

    if (!chunk->judged) {
        judge(self, rules, chunk);
    }
    if (chunk->sent < chunk->length && !write_chunk(self, rules, stuck)) {
        return false;
    }
    if (chunk->sent < chunk->length) {
        return true;
    }
    if (self->again >= 0) {
        repeat(self->again, chunk);
    }
    if (chunk->then_cut) {
        return false;
    }
    if (chunk->is_end) {
        (void)shutdown(self->to, SHUT_WR);
        self->finished = true;
    }
    pop(self);
    return true;
}

bool proxy_stream_move(struct proxy_stream *self, struct proxy_rules *rules, int64_t now_us)
{
    bool broken = false;
    bool stuck = false;

    while (proxy_stream_wants_read(self) && read_chunk(self, now_us + rules->delay_us, &broken)) {
    }
    while (!broken && !stuck && may_go(self, rules, now_us)) {
        broken = !hand_on(self, rules, &stuck);
    }
    return !broken;
}

bool proxy_stream_wants_read(const struct proxy_stream *self)
{
    return !self->ended && self->kept < KEPT_MAX;
}

bool proxy_stream_wants_write(const struct proxy_stream *self, const struct proxy_rules *rules,
                              int64_t now_us)
{
    return may_go(self, rules, now_us) && !rules->dribble;
}

int64_t proxy_stream_wakes_us(const struct proxy_stream *self, const struct proxy_rules *rules,
                              int64_t now_us)
{
    if (!self->head || rules->freeze) {
        return PROXY_STREAM_NEVER_US;
    }
    if (self->head->due_us > now_us) {
        return self->head->due_us;
    }
    return rules->dribble ? now_us + DRIBBLE_PAUSE_US : PROXY_STREAM_NEVER_US;
}
