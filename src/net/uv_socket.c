#include "net/uv_socket.h"

#include "base/clock.h"
#include "base/random.h"
#include "base/uv_start.h"
#include "net/url.h"

void rqli_uv_socket_init(struct rqli_uv_socket *self, const struct rqli_uv_socket_ops *ops,
                         struct rqli_socket *sock, uv_loop_t *loop)
{
    *self = (struct rqli_uv_socket){.ops = ops, .sock = sock, .loop = loop};
    self->work.data = self;
    self->poll.data = self;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct rqli_uv_socket *self = handle->data;

    self->state = RQLI_UV_SOCKET_DOWN;
    if (self->closed) {
        self->closed(self->closed_data);
    }
}

void rqli_uv_socket_drop(struct rqli_uv_socket *self)
{
    if (self->state == RQLI_UV_SOCKET_UP) {
        self->state = RQLI_UV_SOCKET_CLOSING;
        uv_close((uv_handle_t *)&self->poll, on_handle_closed); /* leaves the descriptor at once */
        rqli_socket_close(self->sock);
    }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct rqli_uv_socket *self = poll->data;

    if (self->is_abandoned) {
        (void)uv_poll_stop(poll);
        return;
    }
    if (events & UV_WRITABLE && self->wants_room && rqli_uv_socket_is_up(self)) {
        self->ops->on_writable(self);
    }
    /* Reading finds out what an error is about. */
    if ((status < 0 || events & UV_READABLE) && rqli_uv_socket_is_up(self)) {
        self->ops->on_readable(self);
    }
}

void rqli_uv_socket_want_room(struct rqli_uv_socket *self, bool wants_room)
{
    if (wants_room != self->wants_room && rqli_uv_socket_is_up(self)) {
        self->wants_room = wants_room;
        (void)uv_poll_start(&self->poll, UV_READABLE | (wants_room ? UV_WRITABLE : 0), on_poll);
    }
}

static void back_off(struct rqli_uv_socket *self)
{
    rqli_backoff_on_failure(&self->backoff, rqli_now_us(), rqli_random_below(RQLI_BACKOFF_RANDOM));
}

/* On a thread of the pool. */
static void open_socket(uv_work_t *work)
{
    struct rqli_uv_socket *self = work->data;
    int64_t limit_ms = self->sock->endpoint->connect_timeout_ms;

    self->was_opened = self->ops->open(self, rqli_after_ms(rqli_now_us(), limit_ms));
}

static bool start_watching(struct rqli_uv_socket *self)
{
    if (!rqli_uv_has_room(self->sock->fd) ||
        uv_poll_init_socket(self->loop, &self->poll, self->sock->fd) != 0) {
        rqli_socket_close(self->sock);
        return false;
    }
    uv_unref((uv_handle_t *)&self->poll); /* what is under way keeps the loop alive */
    self->poll.data = self;
    self->state = RQLI_UV_SOCKET_UP;
    self->wants_room = true;
    rqli_uv_socket_want_room(self, false);
    return true;
}

static void on_opened(uv_work_t *work, int status)
{
    struct rqli_uv_socket *self = work->data;

    self->state = RQLI_UV_SOCKET_DOWN;
    if (self->closed) {
        if (status == 0 && self->was_opened) {
            rqli_socket_close(self->sock);
        }
        self->closed(self->closed_data);
        return;
    }
    if (self->was_opened && start_watching(self)) {
        self->backoff = (struct rqli_backoff){0};
        self->ops->on_opened(self, true);
    } else {
        back_off(self);
        self->ops->on_opened(self, false);
    }
}

int64_t rqli_uv_socket_due_us(const struct rqli_uv_socket *self)
{
    return self->state == RQLI_UV_SOCKET_DOWN && !self->closed ? self->backoff.next_us
                                                               : RQLI_NEVER_US;
}

void rqli_uv_socket_tend(struct rqli_uv_socket *self, int64_t now_us)
{
    if (rqli_uv_socket_due_us(self) > now_us) {
        return;
    }
    self->was_opened = false;
    if (uv_queue_work(self->loop, &self->work, open_socket, on_opened) == 0) {
        self->state = RQLI_UV_SOCKET_CONNECTING;
    } else {
        back_off(self);
    }
}

void rqli_uv_socket_close(struct rqli_uv_socket *self, void (*closed)(void *data), void *data)
{
    self->closed = closed;
    self->closed_data = data;
    switch (self->state) {
    case RQLI_UV_SOCKET_UP:
        rqli_uv_socket_drop(self);
        break;
    case RQLI_UV_SOCKET_CONNECTING:
        (void)uv_cancel((uv_req_t *)&self->work);
        break;
    case RQLI_UV_SOCKET_DOWN:
        closed(data);
        break;
    case RQLI_UV_SOCKET_CLOSING:
        break;
    }
}

void rqli_uv_socket_abandon(struct rqli_uv_socket *self)
{
    self->is_abandoned = true;
    if (self->sock->fd >= 0) {
        rqli_socket_abandon(self->sock);
    }
}
