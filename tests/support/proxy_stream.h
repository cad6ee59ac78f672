#ifndef PROXY_STREAM_H
#define PROXY_STREAM_H

/* One direction of one connection of the fault proxy. Used under the proxy's mutex only. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROXY_STREAM_NEVER_US INT64_MAX

/* The switches of one direction, and what it counted; shared by all its streams. */
struct proxy_rules {
    bool dribble;
    bool freeze;
    int64_t delay_us;
    int64_t cut_after;  /* bytes that still pass; -1: no limit */
    int64_t drop_reply; /* counts down to the one to swallow; 0: none */
    bool drop_cuts;     /* the connection goes with it */
    int64_t bytes;
    int64_t replies;
};

struct proxy_chunk;

struct proxy_stream {
    int from;
    int to;
    struct proxy_chunk *head;
    struct proxy_chunk **tail;
    size_t kept;
    bool ended;     /* `from` has said all */
    bool finished;  /* and `to` was told so */
    int again;      /* hears all that `to` is given, behind it; -1: none. Not owned. */
    void *splitter; /* finds where replies begin; NULL: not a reply stream */
    bool inside;    /* a reply */
    bool dropping;  /* it */
};

/* from, to: non-blocking sockets, not owned. */
void proxy_stream_init(struct proxy_stream *self, int from, int to, bool has_replies);
void proxy_stream_fini(struct proxy_stream *self);

/* Takes what has arrived, hands on what may go. false: the connection is to be cut. */
bool proxy_stream_move(struct proxy_stream *self, struct proxy_rules *rules, int64_t now_us);

/* What to wait for until the next move. */
bool proxy_stream_wants_read(const struct proxy_stream *self);
bool proxy_stream_wants_write(const struct proxy_stream *self, const struct proxy_rules *rules,
                              int64_t now_us);
int64_t proxy_stream_wakes_us(const struct proxy_stream *self, const struct proxy_rules *rules,
                              int64_t now_us);

#endif
