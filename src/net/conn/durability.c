#include "net/conn/durability.h"

#include "base/clock.h"

#include <stdio.h>

/* A write delays everything after it, so it must not wait longer than any of its callers. */
void rqli_durability_join(struct rqli_durability *self, const struct rqli_durability *other)
{
    if (!rqli_durability_is_wanted(self)) {
        *self = *other;
        return;
    }
    self->replicas = other->replicas > self->replicas ? other->replicas : self->replicas;
    self->fsync = self->fsync || other->fsync;
    self->timeout_ms = rqli_earlier(self->timeout_ms, other->timeout_ms);
    if (self->until_us == 0 || (other->until_us > 0 && other->until_us < self->until_us)) {
        self->until_us = other->until_us;
    }
}

/* The server may answer a tick late. If there is hardly time for that, half of the time that is
 * left is the better bet. 0 would mean for ever. */
void rqli_durability_limit(struct rqli_durability *self, int64_t now_us)
{
    int64_t left_ms = (self->until_us - now_us) / 1000;

    if (self->until_us == 0) {
        return;
    }
    left_ms -= rqli_earlier(left_ms / 2, RQLI_SERVER_TICK_MS);
    if (left_ms < self->timeout_ms) {
        self->timeout_ms = left_ms > 0 ? left_ms : 1;
    }
}

/* Writes WAITAOF for the server's own disk alone: replicas are not asked whether they write to
 * theirs, and those that do not would never answer. */
void rqli_durability_write(const struct rqli_durability *self, struct rqli_command *command)
{
    char replicas[24];
    char timeout[24];

    (void)snprintf(replicas, sizeof replicas, "%lld", (long long)self->replicas);
    (void)snprintf(timeout, sizeof timeout, "%lld", (long long)self->timeout_ms);
    if (self->replicas > 0) {
        rqli_command_words(command, "WAIT", replicas, timeout, NULL);
    }
    if (self->fsync) {
        rqli_command_words(command, "WAITAOF", "1", "0", timeout, NULL);
    }
}

static rql_status refusal(const struct rqli_reply *reply)
{
    return reply->type == RQLI_REPLY_ERROR ? rqli_reply_class(reply) : RQL_OK;
}

/* WAIT answers how many replicas have the writes; WAITAOF a pair, of which the first is the
 * server. */
void rqli_acks_read(struct rqli_acks *self, const struct rqli_durability *asked,
                    const struct rqli_reply *replies)
{
    *self = (struct rqli_acks){0};
    if (asked->replicas > 0) {
        self->refused = refusal(replies);
        self->replicas = replies->integer;
        replies++;
    }
    if (asked->fsync) {
        self->refused = self->refused ? self->refused : refusal(replies);
        self->is_synced = replies->type == RQLI_REPLY_ARRAY && replies->count > 0 &&
                          replies->items[0].integer > 0;
    }
}

void rqli_acks_join(struct rqli_acks *self, const struct rqli_acks *other)
{
    self->replicas = other->replicas < self->replicas ? other->replicas : self->replicas;
    self->is_synced = self->is_synced && other->is_synced;
    self->refused = self->refused ? self->refused : other->refused;
}

bool rqli_durability_is_met(const struct rqli_durability *self, const struct rqli_acks *acks)
{
    return acks->replicas >= self->replicas && (acks->is_synced || !self->fsync);
}
