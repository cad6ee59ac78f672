/* Credentials that have an end: they are asked for on libuv's pool, for the caller's function may
 * block, and said over the connection, which goes on meanwhile. */

#include "base/clock.h"
#include "base/secret.h"
#include "net/conn_loop.h"
#include "net/conn_loop_state.h"
#include "net/credentials.h"
#include "net/url.h"

static void on_authenticated(void *owner, const struct rqli_exchange *answer, rql_status fault)
{
    struct rqli_conn_loop *self = owner;

    self->is_renewing = false;
    self->stream.has_secret = false;
    self->sock.renew_us = !fault && answer->reply->type == RQLI_REPLY_STATUS
                              ? self->renew_us
                              : rqli_credentials_retry_us(rqli_now_us());
}

/* On a thread of the pool. */
static void ask(uv_work_t *work)
{
    struct rqli_conn_loop *self = work->data;
    const struct rqli_endpoint *endpoint = self->sock.endpoint;

    self->has_asked =
        rqli_credentials_ask(endpoint, rqli_after_ms(rqli_now_us(), endpoint->connect_timeout_ms),
                             self->asked, &self->renew_us, NULL);
}

/* Back on the loop. A connection that was made meanwhile has asked by itself, which does no harm.
 */
static void on_asked(uv_work_t *work, int status)
{
    struct rqli_conn_loop *self = work->data;

    self->is_asking = false;
    if (status == 0 && self->has_asked == RQL_OK && rqli_conn_loop_has_room(self)) {
        self->stream.has_secret = true;
        rqli_credentials_write(self->asked->user, self->asked->password, &self->stream.out);
        (void)rqli_conn_loop_expect(self, on_authenticated, self);
        rqli_conn_loop_write(self);
    } else {
        self->is_renewing = false;
        if (self->state == UP) { /* else the pool may have the socket */
            self->sock.renew_us = rqli_credentials_retry_us(rqli_now_us());
        }
    }
    self->asked = rqli_secret_free(self->asked);
    if (self->closed && self->state == DOWN) {
        self->closed(self->closed_data);
    }
}

void rqli_conn_loop_renew_if_due(struct rqli_conn_loop *self)
{
    if (self->state != UP || self->is_renewing || !rqli_socket_wants_login(&self->sock)) {
        return;
    }
    self->asked = rqli_secret_new(sizeof *self->asked);
    self->asking.data = self;
    self->is_asking = self->asked && uv_queue_work(self->loop, &self->asking, ask, on_asked) == 0;
    self->is_renewing = self->is_asking;
    if (!self->is_asking) {
        self->asked = rqli_secret_free(self->asked);
    }
}

void rqli_conn_loop_stop_renewing(struct rqli_conn_loop *self)
{
    if (self->is_asking) {
        (void)uv_cancel((uv_req_t *)&self->asking);
    }
}
