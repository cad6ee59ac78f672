#include "net/ear.h"

#include "base/clock.h"
#include "base/ident.h"
#include "net/line.h"
#include "net/url.h"
#include "observe/stats.h"

#include <stdatomic.h>
#include <stdlib.h>

struct rqli_ear {
    struct rqli_line line; /* first: it is handed on as one */
    struct rqli_hearing hearing;
    const struct rqli_ear_listener *listener;
    _Atomic uint64_t generation;
};

static bool open_ear(struct rqli_line *line, int64_t deadline_us)
{
    return rqli_hearing_open(&((struct rqli_ear *)line)->hearing, deadline_us);
}

/* On the loop's thread. */
static void count(const struct rqli_ear *self, enum rqli_stat what)
{
    rqli_stats_count(self->hearing.sock.endpoint->stats, (rqli_stats_shard)rqli_thread_id(), what,
                     1);
}

static void on_opened(struct rqli_line *line, bool is_open)
{
    struct rqli_ear *self = (struct rqli_ear *)line;

    if (is_open) {
        (void)atomic_fetch_add_explicit(&self->generation, 1, memory_order_relaxed);
        count(self, RQLI_STAT_CONNECTIONS);
        self->listener->on_listening(self->listener->self);
    }
}

static void on_readable(struct rqli_line *line)
{
    rqli_ear_read((struct rqli_ear *)line);
}

/* Never asked for: it says nothing. */
static void on_writable(struct rqli_line *line)
{
    (void)line;
}

static const struct rqli_line_kind kind = {open_ear, on_opened, on_readable, on_writable};

struct rqli_ear *rqli_ear_new(struct uv_loop_s *loop, const struct rqli_endpoint *endpoint,
                              const struct rqli_ear_listener *listener)
{
    struct rqli_ear *self = calloc(1, sizeof *self);

    if (self) {
        rqli_line_init(&self->line, &kind, &self->hearing.sock, loop);
        self->hearing.sock.endpoint = endpoint;
        self->hearing.sock.fd = -1;
        self->listener = listener;
    }
    return self;
}

struct rqli_ear *rqli_ear_free(struct rqli_ear *self)
{
    if (self) {
        rqli_hearing_fini(&self->hearing);
        free(self);
    }
    return NULL;
}

void rqli_ear_close(struct rqli_ear *self, void (*closed)(void *data), void *data)
{
    rqli_line_close(&self->line, closed, data);
}

void rqli_ear_abandon(struct rqli_ear *self)
{
    rqli_line_abandon(&self->line);
}

bool rqli_ear_is_listening(const struct rqli_ear *self)
{
    return rqli_line_is_up(&self->line);
}

uint64_t rqli_ear_generation(const struct rqli_ear *self)
{
    return atomic_load_explicit(&self->generation, memory_order_relaxed);
}

int64_t rqli_ear_client_id(const struct rqli_ear *self)
{
    return self->hearing.sock.seat.client_id;
}

/* False: the connection made no sense. */
static bool take_pushes(struct rqli_ear *self)
{
    int64_t now_us = rqli_now_us();
    struct rqli_pushed pushed;
    int state = rqli_hearing_next(&self->hearing, &pushed);

    while (state > 0) {
        if (pushed.kind != RQLI_PUSHED_NOTHING) {
            count(self, RQLI_STAT_PUSHES);
            self->listener->on_pushed(self->listener->self, &pushed, now_us);
        }
        rqli_hearing_forget(&self->hearing);
        state = rqli_hearing_next(&self->hearing, &pushed);
    }
    return state == 0;
}

void rqli_ear_read(struct rqli_ear *self)
{
    enum rqli_socket_read got = RQLI_SOCKET_NOTHING;

    if (rqli_ear_is_listening(self)) {
        got = rqli_socket_read(&self->hearing.sock, 0, 0);
    }
    if (got == RQLI_SOCKET_BROKEN || (got == RQLI_SOCKET_BYTES && !take_pushes(self))) {
        rqli_line_drop(&self->line);
    }
    if (got == RQLI_SOCKET_BYTES) {
        self->listener->on_read(self->listener->self);
    }
}

void rqli_ear_rest(struct rqli_ear *self)
{
    rqli_line_drop(&self->line);
}

static bool drop_if_deaf(struct rqli_ear *self, int64_t now_us)
{
    bool is_deaf = rqli_hearing_is_deaf(&self->hearing, now_us);

    if (is_deaf) {
        rqli_line_drop(&self->line);
    }
    return is_deaf;
}

bool rqli_ear_wants_call(struct rqli_ear *self)
{
    int64_t now_us = rqli_now_us();

    return rqli_ear_is_listening(self) && !drop_if_deaf(self, now_us) &&
           rqli_hearing_wants_call(&self->hearing, now_us);
}

void rqli_ear_on_called(struct rqli_ear *self, int64_t n_heard)
{
    int64_t now_us = rqli_now_us();

    if (rqli_ear_is_listening(self)) {
        rqli_hearing_on_called(&self->hearing, n_heard, now_us);
        (void)drop_if_deaf(self, now_us);
    }
}

int64_t rqli_ear_due_us(const struct rqli_ear *self, bool wanted)
{
    return wanted ? rqli_line_due_us(&self->line) : RQLI_NEVER_US;
}

void rqli_ear_tend(struct rqli_ear *self, int64_t now_us, bool wanted)
{
    if (rqli_ear_due_us(self, wanted) <= now_us) {
        rqli_line_tend(&self->line, now_us);
    }
}
