#include "net/line.h"

#include "base/clock.h"
#include "base/random.h"
#include "base/uv_start.h"
#include "net/url.h"

enum { BACKOFF_FIRST_MS = 10, BACKOFF_LAST_MS = 2000 };

void rqli_line_init(struct rqli_line *self, const struct rqli_line_kind *kind,
                    struct rqli_socket *sock, uv_loop_t *loop)
{
    *self = (struct rqli_line){.kind = kind, .sock = sock, .loop = loop};
    self->work.data = self;
    self->poll.data = self;
}

static void on_folded(uv_handle_t *handle)
{
    struct rqli_line *self = handle->data;

    self->state = RQLI_LINE_DOWN;
    if (self->closed) {
        self->closed(self->closed_data);
    }
}

void rqli_line_drop(struct rqli_line *self)
{
    if (self->state == RQLI_LINE_UP) {
        self->state = RQLI_LINE_FOLDING;
        uv_close((uv_handle_t *)&self->poll, on_folded); /* lets go of the descriptor at once */
        rqli_socket_close(self->sock);
    }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct rqli_line *self = poll->data;

    if (self->is_abandoned) {
        (void)uv_poll_stop(poll);
        return;
    }
    if (events & UV_WRITABLE && rqli_line_is_up(self)) {
        self->kind->on_writable(self);
    }
    /* Reading finds out what an error is about. */
    if ((status < 0 || events & UV_READABLE) && rqli_line_is_up(self)) {
        self->kind->on_readable(self);
    }
}

void rqli_line_watch(struct rqli_line *self, bool for_writing)
{
    if (for_writing != self->is_writing && rqli_line_is_up(self)) {
        self->is_writing = for_writing;
        (void)uv_poll_start(&self->poll, UV_READABLE | (for_writing ? UV_WRITABLE : 0), on_poll);
    }
}

/* Doubles the pause before the next attempt, with full jitter (F-71). */
static void back_off(struct rqli_line *self)
{
    int64_t ms = self->backoff_ms * 2;

    ms = ms < BACKOFF_FIRST_MS ? BACKOFF_FIRST_MS : ms;
    self->backoff_ms = ms < BACKOFF_LAST_MS ? ms : BACKOFF_LAST_MS;
    ms = 1 + (int64_t)rqli_random_below((uint32_t)self->backoff_ms);
    self->next_us = rqli_after_ms(rqli_now_us(), ms);
}

static bool watch_first(struct rqli_line *self)
{
    if (!rqli_uv_has_room(self->sock->fd) ||
        uv_poll_init_socket(self->loop, &self->poll, self->sock->fd) != 0) {
        rqli_socket_close(self->sock);
        return false;
    }
    uv_unref((uv_handle_t *)&self->poll); /* what is under way keeps the loop alive */
    self->poll.data = self;
    self->state = RQLI_LINE_UP;
    self->is_writing = true;
    rqli_line_watch(self, false);
    return true;
}

static void open_wire(uv_work_t *work)
{
    struct rqli_line *self = work->data;
    int64_t limit_ms = self->sock->endpoint->connect_timeout_ms;

    self->was_opened = self->kind->open(self, rqli_after_ms(rqli_now_us(), limit_ms));
}

static void on_opened(uv_work_t *work, int status)
{
    struct rqli_line *self = work->data;

    self->state = RQLI_LINE_DOWN;
    if (self->closed) {
        if (status == 0 && self->was_opened) {
            rqli_socket_close(self->sock);
        }
        self->closed(self->closed_data);
        return;
    }
    if (self->was_opened && watch_first(self)) {
        self->backoff_ms = 0;
        self->next_us = 0;
        self->kind->on_opened(self, true);
    } else {
        back_off(self);
        self->kind->on_opened(self, false);
    }
}

int64_t rqli_line_due_us(const struct rqli_line *self)
{
    return self->state == RQLI_LINE_DOWN && !self->closed ? self->next_us : RQLI_NEVER_US;
}

void rqli_line_tend(struct rqli_line *self, int64_t now_us)
{
    if (rqli_line_due_us(self) > now_us) {
        return;
    }
    self->was_opened = false;
    if (uv_queue_work(self->loop, &self->work, open_wire, on_opened) == 0) {
        self->state = RQLI_LINE_CONNECTING;
    } else {
        back_off(self);
    }
}

void rqli_line_close(struct rqli_line *self, void (*closed)(void *data), void *data)
{
    self->closed = closed;
    self->closed_data = data;
    switch (self->state) {
    case RQLI_LINE_UP:
        rqli_line_drop(self);
        break;
    case RQLI_LINE_CONNECTING:
        (void)uv_cancel((uv_req_t *)&self->work);
        break;
    case RQLI_LINE_DOWN:
        closed(data);
        break;
    case RQLI_LINE_FOLDING:
        break;
    }
}

void rqli_line_abandon(struct rqli_line *self)
{
    self->is_abandoned = true;
    if (self->sock->fd >= 0) {
        rqli_socket_abandon(self->sock);
    }
}
