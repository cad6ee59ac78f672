#include "net/pipe.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/ident.h"
#include "base/must.h"
#include "net/line.h"
#include "net/login.h"
#include "net/url.h"
#include "observe/stats.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { IN_FLIGHT_MAX = 4096, SPARE = 8, GATHERED_MAX_BYTES = 1 << 20 };

/* One command that is to be answered. */
struct slot {
    rqli_pipe_fn fn; /* NULL: nobody */
    void *owner;
    int64_t sent_us;
    uint64_t ends_at; /* place in the stream of bytes, behind it */
};

struct rqli_pipe {
    struct rqli_line line; /* first: it is handed on as one */
    struct rqli_socket sock;
    const struct rqli_pipe_listener *listener;
    struct rqli_command out;
    size_t n_written;    /* bytes of out */
    uint64_t written_at; /* place in the stream of bytes */
    struct slot slots[IN_FLIGHT_MAX];
    uint64_t first; /* place of the oldest one in flight */
    uint64_t next;  /* place of the next command, from 1 */
    struct rqli_arena arena;
    struct rqli_reply reply; /* that is being read */
    int64_t heard_us;        /* last byte, or begin of the silence */
    struct rqli_seat silent; /* the predecessor, if it fell silent */
    bool shall_drop;
    struct rqli_clock_reading reading;
    rql_error fault; /* of connecting */
    _Atomic uint64_t generation;
};

static bool open_pipe(struct rqli_line *line, int64_t deadline_us)
{
    struct rqli_pipe *self = (struct rqli_pipe *)line;

    self->fault = (rql_error){0};
    return rqli_login(&self->sock, &self->silent, deadline_us, &self->reading, &self->fault) ==
           RQL_OK;
}

/* On the loop's thread. */
static void count(const struct rqli_pipe *self, enum rqli_stat what)
{
    rqli_stats_count(self->sock.endpoint->stats, (rqli_stats_shard)rqli_thread_id(), what, 1);
}

static void on_opened(struct rqli_line *line, bool is_open)
{
    struct rqli_pipe *self = (struct rqli_pipe *)line;

    if (is_open) {
        self->silent = (struct rqli_seat){0};
        self->heard_us = rqli_now_us();
        (void)atomic_fetch_add_explicit(&self->generation, 1, memory_order_relaxed);
        count(self, RQLI_STAT_CONNECTIONS);
    } else if (self->fault.status == RQL_OK) { /* it was opened, and cannot be watched */
        (void)rqli_fail(&self->fault, RQL_E_NOMEM, "%s: no memory to watch the connection",
                        self->sock.endpoint->where);
    }
    self->listener->on_opened(self->listener->self, &self->reading, &self->fault);
}

static void on_readable(struct rqli_line *line)
{
    rqli_pipe_read((struct rqli_pipe *)line);
}

static void on_writable(struct rqli_line *line)
{
    rqli_pipe_write((struct rqli_pipe *)line);
}

static const struct rqli_line_kind kind = {open_pipe, on_opened, on_readable, on_writable};

struct rqli_pipe *rqli_pipe_new(struct uv_loop_s *loop, const struct rqli_endpoint *endpoint,
                                const struct rqli_pipe_listener *listener)
{
    struct rqli_pipe *self = calloc(1, sizeof *self);

    if (self) {
        rqli_line_init(&self->line, &kind, &self->sock, loop);
        self->sock.endpoint = endpoint;
        self->sock.fd = -1;
        self->listener = listener;
        self->first = 1;
        self->next = 1;
    }
    return self;
}

struct rqli_pipe *rqli_pipe_free(struct rqli_pipe *self)
{
    if (self) {
        rqli_socket_close(&self->sock);
        rqli_command_fini(&self->out);
        rqli_arena_reset(&self->arena);
        free(self);
    }
    return NULL;
}

void rqli_pipe_abandon(struct rqli_pipe *self)
{
    rqli_line_abandon(&self->line);
}

bool rqli_pipe_is_up(const struct rqli_pipe *self)
{
    return rqli_line_is_up(&self->line);
}

uint64_t rqli_pipe_generation(const struct rqli_pipe *self)
{
    return atomic_load_explicit(&self->generation, memory_order_relaxed);
}

bool rqli_pipe_has_room(const struct rqli_pipe *self)
{
    return rqli_pipe_is_up(self) && self->next - self->first < IN_FLIGHT_MAX - SPARE &&
           self->out.length < GATHERED_MAX_BYTES;
}

struct rqli_command *rqli_pipe_out(struct rqli_pipe *self)
{
    return &self->out;
}

static struct slot *slot_at(struct rqli_pipe *self, uint64_t place)
{
    return &self->slots[place % IN_FLIGHT_MAX];
}

uint64_t rqli_pipe_expect(struct rqli_pipe *self, rqli_pipe_fn fn, void *owner)
{
    int64_t now_us = rqli_now_us();

    RQLI_MUST(self->next - self->first < IN_FLIGHT_MAX);
    if (self->next == self->first) {
        self->heard_us = now_us;
    }
    *slot_at(self, self->next) = (struct slot){
        .fn = fn,
        .owner = owner,
        .sent_us = now_us,
        .ends_at = self->written_at + self->out.length - self->n_written,
    };
    count(self, RQLI_STAT_COMMANDS);
    return self->next++;
}

void rqli_pipe_orphan(struct rqli_pipe *self, uint64_t place)
{
    if (place >= self->first && place < self->next) {
        slot_at(self, place)->fn = NULL;
    }
}

bool rqli_pipe_is_talking(const struct rqli_pipe *self, int64_t within_us)
{
    return rqli_pipe_is_up(self) && rqli_now_us() - self->heard_us < within_us;
}

static struct slot take_first(struct rqli_pipe *self)
{
    return *slot_at(self, self->first++);
}

/* What was handed to the system, in part at least, may have been done; what was not, was not. */
static void break_off(struct rqli_pipe *self, bool is_silent)
{
    uint64_t end = self->next;
    uint64_t written_at = self->written_at;

    if (!rqli_pipe_is_up(self)) {
        return;
    }
    self->silent = is_silent ? self->sock.seat : (struct rqli_seat){0};
    self->shall_drop = false;
    rqli_line_drop(&self->line);
    rqli_command_reset(&self->out);
    self->n_written = 0;
    rqli_arena_reset(&self->arena);
    self->reply = (struct rqli_reply){0};
    while (self->first < end) {
        bool is_first_unsent = slot_at(self, self->first)->ends_at > written_at;
        struct slot slot = take_first(self);

        if (slot.fn) {
            slot.fn(slot.owner, NULL, is_first_unsent ? RQL_E_IO : RQL_E_UNKNOWN);
        }
    }
}

static void drop(const struct rqli_exchange *exchange)
{
    struct rqli_pipe *self = exchange->carrier;

    self->shall_drop = true; /* others are being told of their replies */
}

static void answer(struct rqli_pipe *self, const struct slot *slot)
{
    const struct rqli_exchange exchange = {
        .reply = &self->reply,
        .sent_us = slot->sent_us,
        .received_us = self->heard_us,
        .generation = rqli_pipe_generation(self),
        .drop = drop,
        .carrier = self,
    };

    slot->fn(slot->owner, &exchange, RQL_OK);
}

/* Gives what has come to those who wait for it. False: it made no sense. */
static bool hand_out(struct rqli_pipe *self)
{
    while (self->first < self->next) {
        int state = rqli_decoder_next(&self->sock.decoder, &self->arena, &self->reply);
        struct slot slot;

        if (state <= 0) {
            return state == 0;
        }
        slot = take_first(self);
        if (slot.fn) {
            answer(self, &slot);
        }
        rqli_arena_reset(&self->arena);
        self->reply = (struct rqli_reply){0};
        if (self->shall_drop) {
            return false;
        }
    }
    return rqli_decoder_is_empty(&self->sock.decoder); /* no reply that nobody asked for */
}

void rqli_pipe_read(struct rqli_pipe *self)
{
    enum rqli_socket_read got = RQLI_SOCKET_NOTHING;

    if (rqli_pipe_is_up(self)) {
        got = rqli_socket_read(&self->sock, 0, 0);
    }
    if (got == RQLI_SOCKET_BYTES) {
        self->heard_us = rqli_now_us();
    }
    if (got == RQLI_SOCKET_BROKEN || (got == RQLI_SOCKET_BYTES && !hand_out(self))) {
        break_off(self, false);
    }
}

void rqli_pipe_write(struct rqli_pipe *self)
{
    size_t left = self->out.length - self->n_written;
    ssize_t sent;

    if (!rqli_pipe_is_up(self)) {
        return;
    }
    sent = self->out.failed ? -1 : 0;
    if (sent == 0 && left > 0) {
        sent = rqli_socket_send_some(&self->sock, self->out.data + self->n_written, left);
    }
    if (sent < 0) {
        break_off(self, false);
        return;
    }
    self->n_written += (size_t)sent;
    self->written_at += (uint64_t)sent;
    if (self->n_written == self->out.length) {
        rqli_command_reset(&self->out);
        self->n_written = 0;
    }
    rqli_line_watch(&self->line, self->out.length > 0);
}

static int64_t silence_us(const struct rqli_pipe *self)
{
    return rqli_after_ms(self->heard_us, self->sock.endpoint->io_timeout_ms);
}

int64_t rqli_pipe_due_us(const struct rqli_pipe *self, bool wanted)
{
    if (rqli_pipe_is_up(self)) {
        return self->first < self->next ? silence_us(self) : RQLI_NEVER_US;
    }
    return wanted ? rqli_line_due_us(&self->line) : RQLI_NEVER_US;
}

void rqli_pipe_tend(struct rqli_pipe *self, int64_t now_us, bool wanted)
{
    if (rqli_pipe_due_us(self, wanted) > now_us) {
        return;
    }
    if (!rqli_pipe_is_up(self)) {
        rqli_line_tend(&self->line, now_us);
        return;
    }
    rqli_pipe_read(self); /* it may be the loop that was held up, and not the server */
    if (rqli_pipe_due_us(self, wanted) <= rqli_now_us() && rqli_pipe_is_up(self)) {
        break_off(self, true);
    }
}

void rqli_pipe_close(struct rqli_pipe *self, void (*closed)(void *data), void *data)
{
    self->first = self->next; /* nobody waits for it */
    rqli_line_close(&self->line, closed, data);
}
