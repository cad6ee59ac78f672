#include "net/conn_loop.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/ident.h"
#include "base/must.h"
#include "net/login.h"
#include "net/url.h"
#include "net/uv_socket.h"
#include "observe/stats.h"

#include <stdlib.h>

/* SPARE: a caller that finds room may write a few commands more. */
enum { IN_FLIGHT_MAX = 4096, SPARE = 8, GATHERED_MAX_BYTES = 1 << 20 };

/* One command that is to be answered. */
struct slot {
    struct rqli_stream_call call;
    rqli_conn_loop_fn fn; /* NULL: nobody */
    void *owner;
    int64_t sent_us;
};

struct rqli_conn_loop {
    struct rqli_uv_socket uv; /* first: its ops are given it */
    struct rqli_socket sock;
    const struct rqli_conn_loop_listener *listener;
    struct rqli_stream stream;
    struct slot
        slots[IN_FLIGHT_MAX]; /* a ring: those from `first` to before `next` are in flight */
    uint64_t first;
    uint64_t next; /* number of the next command, from 1 */
    struct rqli_arena arena;
    struct rqli_reply reply; /* that is being read */
    struct rqli_seat silent; /* the predecessor, if it fell silent */
    bool shall_drop;
    struct rqli_clock_reading reading;
    rql_error fault; /* of connecting */
    uint64_t generation;
};

static bool open_conn(struct rqli_uv_socket *uv, int64_t deadline_us)
{
    struct rqli_conn_loop *self = (struct rqli_conn_loop *)uv;

    self->fault = (rql_error){0};
    return rqli_login(&self->sock, &self->silent, deadline_us, &self->reading, &self->fault) ==
           RQL_OK;
}

/* On the loop's thread. */
static void count(const struct rqli_conn_loop *self, enum rqli_stat what)
{
    rqli_stats_count(self->sock.endpoint->stats, (rqli_stats_shard)rqli_thread_id(), what, 1);
}

static void on_opened(struct rqli_uv_socket *uv, bool is_open)
{
    struct rqli_conn_loop *self = (struct rqli_conn_loop *)uv;

    if (is_open) {
        self->silent = (struct rqli_seat){0};
        rqli_stream_on_connected(&self->stream, rqli_now_us());
        self->generation++;
        count(self, RQLI_STAT_CONNECTIONS);
    } else if (self->fault.status == RQL_OK) { /* it was opened, and cannot be watched */
        (void)rqli_fail(&self->fault, RQL_E_NOMEM, "%s: no memory to watch the connection",
                        self->sock.endpoint->where);
    }
    self->listener->on_opened(self->listener->self, &self->reading, &self->fault);
}

static void on_readable(struct rqli_uv_socket *uv)
{
    rqli_conn_loop_read((struct rqli_conn_loop *)uv);
}

static void on_writable(struct rqli_uv_socket *uv)
{
    rqli_conn_loop_write((struct rqli_conn_loop *)uv);
}

static const struct rqli_uv_socket_ops ops = {open_conn, on_opened, on_readable, on_writable};

struct rqli_conn_loop *rqli_conn_loop_new(struct uv_loop_s *loop,
                                          const struct rqli_endpoint *endpoint,
                                          const struct rqli_conn_loop_listener *listener)
{
    struct rqli_conn_loop *self = calloc(1, sizeof *self);

    if (self) {
        rqli_uv_socket_init(&self->uv, &ops, &self->sock, loop);
        self->sock.endpoint = endpoint;
        self->sock.fd = -1;
        self->listener = listener;
        self->first = 1;
        self->next = 1;
    }
    return self;
}

struct rqli_conn_loop *rqli_conn_loop_free(struct rqli_conn_loop *self)
{
    if (self) {
        rqli_socket_close(&self->sock);
        rqli_stream_fini(&self->stream);
        rqli_arena_reset(&self->arena);
        free(self);
    }
    return NULL;
}

void rqli_conn_loop_abandon(struct rqli_conn_loop *self)
{
    rqli_uv_socket_abandon(&self->uv);
}

bool rqli_conn_loop_is_up(const struct rqli_conn_loop *self)
{
    return rqli_uv_socket_is_up(&self->uv);
}

uint64_t rqli_conn_loop_generation(const struct rqli_conn_loop *self)
{
    return self->generation;
}

/* ---- calls ---- */

bool rqli_conn_loop_has_room(const struct rqli_conn_loop *self)
{
    return rqli_conn_loop_is_up(self) && self->next - self->first < IN_FLIGHT_MAX - SPARE &&
           self->stream.queued_at - self->stream.sent_at < GATHERED_MAX_BYTES;
}

struct rqli_command *rqli_conn_loop_out(struct rqli_conn_loop *self)
{
    return &self->stream.out;
}

static struct slot *slot_at(struct rqli_conn_loop *self, uint64_t position)
{
    return &self->slots[position % IN_FLIGHT_MAX];
}

uint64_t rqli_conn_loop_expect(struct rqli_conn_loop *self, rqli_conn_loop_fn fn, void *owner)
{
    struct slot *slot = slot_at(self, self->next);

    RQLI_MUST(self->next - self->first < IN_FLIGHT_MAX);
    *slot = (struct slot){.fn = fn, .owner = owner, .sent_us = rqli_now_us()};
    rqli_stream_expect(&self->stream, &slot->call, slot->sent_us);
    count(self, RQLI_STAT_COMMANDS);
    return self->next++;
}

void rqli_conn_loop_orphan(struct rqli_conn_loop *self, uint64_t position)
{
    if (position >= self->first && position < self->next) {
        slot_at(self, position)->fn = NULL;
    }
}

bool rqli_conn_loop_is_talking(const struct rqli_conn_loop *self, int64_t within_us)
{
    return rqli_conn_loop_is_up(self) && rqli_now_us() - self->stream.heard_us < within_us;
}

static struct slot take_first(struct rqli_conn_loop *self)
{
    (void)rqli_stream_take(&self->stream);
    return *slot_at(self, self->first++);
}

static void break_off(struct rqli_conn_loop *self, bool is_silent)
{
    uint64_t end = self->next;

    if (!rqli_conn_loop_is_up(self)) {
        return;
    }
    self->silent = is_silent ? self->sock.seat : (struct rqli_seat){0};
    self->shall_drop = false;
    rqli_uv_socket_drop(&self->uv);
    rqli_arena_reset(&self->arena);
    self->reply = (struct rqli_reply){0};
    while (self->first < end) {
        rql_status fate = rqli_stream_fate(&self->stream, self->stream.first);
        struct slot slot = take_first(self);

        if (slot.fn) {
            slot.fn(slot.owner, NULL, fate);
        }
    }
}

/* ---- reading and writing ---- */

/* As rqli_exchange::drop. */
static void drop(const struct rqli_exchange *exchange)
{
    struct rqli_conn_loop *self = exchange->carrier;

    self->shall_drop = true; /* others are being told of their replies */
}

/* Gives what has come to those who wait for it. False: it made no sense. */
static bool hand_out(struct rqli_conn_loop *self)
{
    while (self->first < self->next) {
        int state = rqli_decoder_next(&self->sock.decoder, &self->arena, &self->reply);
        struct slot slot;

        if (state <= 0) {
            return state == 0;
        }
        slot = take_first(self);
        if (slot.fn) {
            const struct rqli_exchange answer = {
                .reply = &self->reply,
                .sent_us = slot.sent_us,
                .received_us = self->stream.heard_us,
                .generation = self->generation,
                .drop = drop,
                .carrier = self,
            };

            slot.fn(slot.owner, &answer, RQL_OK);
        }
        rqli_arena_reset(&self->arena);
        self->reply = (struct rqli_reply){0};
        if (self->shall_drop) {
            return false;
        }
    }
    return rqli_decoder_is_empty(&self->sock.decoder); /* no reply that nobody asked for */
}

void rqli_conn_loop_read(struct rqli_conn_loop *self)
{
    enum rqli_socket_read got = RQLI_SOCKET_NOTHING;

    if (rqli_conn_loop_is_up(self)) {
        got = rqli_socket_read(&self->sock, 0, 0);
    }
    if (got == RQLI_SOCKET_BYTES) {
        self->stream.heard_us = rqli_now_us();
    }
    if (got == RQLI_SOCKET_BROKEN || (got == RQLI_SOCKET_BYTES && !hand_out(self))) {
        break_off(self, false);
    }
}

/* False: the socket is full, or broken. */
static bool send_some(struct rqli_conn_loop *self)
{
    struct rqli_slice bytes = rqli_stream_send(&self->stream);
    ssize_t sent = rqli_socket_send_some(&self->sock, bytes.data, bytes.length);

    if (sent < 0) {
        break_off(self, false);
        return false;
    }
    return rqli_stream_on_sent(&self->stream, (size_t)sent);
}

void rqli_conn_loop_write(struct rqli_conn_loop *self)
{
    bool goes_on = true;

    if (self->stream.out.failed) {
        break_off(self, false);
    }
    while (goes_on && rqli_conn_loop_is_up(self)) {
        if (!rqli_stream_has_unsent(&self->stream)) {
            rqli_stream_begin_batch(&self->stream);
        }
        goes_on = rqli_stream_has_unsent(&self->stream) && send_some(self);
    }
    rqli_uv_socket_want_room(&self->uv, rqli_stream_has_unsent(&self->stream));
}

int64_t rqli_conn_loop_due_us(const struct rqli_conn_loop *self, bool wanted)
{
    if (rqli_conn_loop_is_up(self)) { /* given up when it has been silent for so long */
        return self->first < self->next
                   ? rqli_after_ms(self->stream.heard_us, self->sock.endpoint->io_timeout_ms)
                   : RQLI_NEVER_US;
    }
    return wanted ? rqli_uv_socket_due_us(&self->uv) : RQLI_NEVER_US;
}

void rqli_conn_loop_tend(struct rqli_conn_loop *self, int64_t now_us, bool wanted)
{
    if (rqli_conn_loop_due_us(self, wanted) > now_us) {
        return;
    }
    if (!rqli_conn_loop_is_up(self)) {
        rqli_uv_socket_tend(&self->uv, now_us);
        return;
    }
    rqli_conn_loop_read(self); /* it may be the loop that was held up, and not the server */
    if (rqli_conn_loop_due_us(self, wanted) <= rqli_now_us() && rqli_conn_loop_is_up(self)) {
        break_off(self, true);
    }
}

void rqli_conn_loop_close(struct rqli_conn_loop *self, void (*closed)(void *data), void *data)
{
    while (self->first < self->next) {
        (void)take_first(self); /* nobody waits for it */
    }
    rqli_uv_socket_close(&self->uv, closed, data);
}
