#include "net/subscription.h"

#include "base/clock.h"
#include "net/url.h"

/* What is the same for threads and on a loop. */

/* Silence that leads to a test, and the pause between two. */
enum { QUIET_US = 5000000 };

/* The server knows of the test, and nothing has been heard since. */
static bool is_awaited(const struct rqli_subscription *self)
{
    return self->pinged_us != 0 && self->silent_us != 0 && self->heard_us < self->pinged_us;
}

/* A test whose end is awaited is not begun anew: where io_timeout is longer than the pause between
 * two, none would ever end. */
bool rqli_subscription_wants_ping(struct rqli_subscription *self, int64_t now_us)
{
    if (now_us - self->heard_us < QUIET_US || now_us - self->pinged_us < QUIET_US ||
        is_awaited(self)) {
        return false;
    }
    self->pinged_us = now_us;
    self->silent_us = 0;
    return true;
}

/* The server hands a message on before it says to how many: nobody is a loss at once. */
void rqli_subscription_on_pinged(struct rqli_subscription *self, int64_t n_received,
                                 int64_t io_timeout_ms, int64_t now_us)
{
    if (self->pinged_us != 0) {
        self->silent_us = rqli_after_ms(now_us, n_received > 0 ? io_timeout_ms : 0);
    }
}

bool rqli_subscription_is_silent(const struct rqli_subscription *self, int64_t now_us)
{
    return is_awaited(self) && now_us >= self->silent_us;
}

bool rqli_subscription_delivers(const struct rqli_subscription *self)
{
    return self->heard_us != 0 && self->heard_us >= self->pinged_us;
}

/* When it is first opened nothing can have been pushed before, and whoever leads asks for all: some
 * may have been passed over. Later a grant to any of them may be lost, which only it can find. */
void rqli_subscription_on_opened(struct rqli_subscription *self, const struct rqli_socket *sock)
{
    self->heard_us = 0;
    self->pinged_us = 0;
    self->silent_us = 0;
    self->generation++;
    self->client_id = sock->seat.client_id;
    if (self->generation == 1) {
        rqli_waiters_hint_leaders(&self->waiters);
    } else {
        rqli_waiters_hint_all(&self->waiters);
    }
}

/* Counted where it is for one of us, as hints and changes are, whether anybody waits or not. */
void rqli_subscription_take(struct rqli_subscription *self, const struct rqli_endpoint *endpoint,
                            rqli_stats_shard shard, const struct rqli_reply *reply,
                            int64_t heard_us)
{
    const struct rqli_pushed pushed = rqli_push_read(reply);

    self->heard_us = heard_us;
    if (pushed.kind != RQLI_PUSHED_NOTHING) {
        rqli_stats_count(endpoint->stats, shard, RQLI_STAT_PUSHES, 1);
        rqli_waiters_deliver(&self->waiters, &pushed, heard_us);
    }
}

struct rqli_push_view rqli_subscription_view(const struct rqli_subscription *self,
                                             bool is_listening, const struct rqli_waiter *waiter)
{
    return (struct rqli_push_view){
        .leads = rqli_waiter_leads(waiter),
        .is_listening = is_listening,
        .delivers = is_listening && rqli_subscription_delivers(self),
        .generation = self->generation,
        .client_id = self->client_id,
    };
}

/* What has come and was not read yet is our fault, not its. Who listens cannot say AUTH. */
bool rqli_subscription_is_lost(const struct rqli_subscription *self, const struct rqli_socket *sock,
                               int64_t now_us)
{
    return rqli_socket_wants_login(sock) ||
           (rqli_subscription_is_silent(self, now_us) && !rqli_socket_has_bytes(sock));
}
