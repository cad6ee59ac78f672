#include "net/conn/subscription.h"

#include "base/clock.h"
#include "net/sock/site.h"

/* The part of a subscription that threads and loops have in common. */

/* ---- whether it is alive ---- */

/* The silence after which a ping is sent, and the pause between two. */
enum { QUIET_US = 5000000 };

/* Returns true if the server has answered the ping, and no push has come since. */
static bool is_awaited(const struct rqli_subscription *self)
{
    return self->pinged_us != 0 && self->silent_us != 0 && self->heard_us < self->pinged_us;
}

/* While a ping has not timed out yet no other one is sent: if io_timeout is longer than the pause
 * between two, none would ever time out. */
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

/* The server delivers a message before it reports the number of receivers: without any, the
 * connection is lost at once. */
void rqli_subscription_on_pinged(struct rqli_subscription *self, int64_t n_received,
                                 int64_t io_timeout_ms, int64_t now_us)
{
    if (self->pinged_us != 0) {
        self->silent_us = rqli_after_ms(now_us, n_received > 0 ? io_timeout_ms : 0);
    }
}

bool rqli_subscription_is_silent(const struct rqli_subscription *self, int64_t now_us)
{
    return (is_awaited(self) && now_us >= self->silent_us) ||
           (self->answer_us != 0 && now_us >= self->answer_us);
}

bool rqli_subscription_delivers(const struct rqli_subscription *self)
{
    return self->heard_us != 0 && self->heard_us >= self->pinged_us;
}

/* ---- channels of partitions ---- */

static bool is_in(const struct rqli_partition_bits *bits, const struct rqli_key_set *set)
{
    unsigned partition = rqli_key_set_index(set);

    return (bits->words[partition / 64] >> partition % 64 & 1) != 0;
}

static void put(struct rqli_partition_bits *bits, const struct rqli_key_set *set, bool is_in)
{
    unsigned partition = rqli_key_set_index(set);
    uint64_t bit = UINT64_C(1) << partition % 64;

    bits->words[partition / 64] = (bits->words[partition / 64] & ~bit) | (is_in ? bit : 0);
}

static bool is_whole(const struct rqli_key_set *set)
{
    return rqli_key_set_index(set) == RQLI_WHOLE;
}

/* The login itself subscribes to the channel of a server that has all locks. */
bool rqli_subscription_hears(const struct rqli_subscription *self, const struct rqli_waiter *waiter)
{
    return is_whole(waiter->set) || is_in(&self->confirmed, waiter->set);
}

bool rqli_subscription_want(struct rqli_subscription *self, const struct rqli_key_set *set)
{
    if (is_whole(set)) {
        return false;
    }
    put(&self->wanted, set, true);
    return !is_in(&self->asked, set);
}

void rqli_subscription_write(struct rqli_subscription *self, const struct rqli_site *site,
                             struct rqli_command *command)
{
    for (unsigned p = 0; p < RQLI_PARTITIONS; p++) {
        const struct rqli_key_set *set = &rqli_key_sets[p];

        if (is_in(&self->wanted, set) && !is_in(&self->asked, set)) {
            rqli_push_subscribe(command, set, site->session->identity, true);
            put(&self->asked, set, true);
        }
    }
    if (command->n_commands > 0 && self->answer_us == 0) {
        self->answer_us = rqli_after_ms(rqli_now_us(), site->session->io_timeout_ms);
    }
}

/* The waiters find the right server by the replies to their polls. A second call notifies no waiter
 * once more. */
void rqli_subscription_forget(struct rqli_subscription *self, const struct rqli_key_set *set)
{
    if (!is_whole(set) && is_in(&self->wanted, set)) {
        put(&self->wanted, set, false);
        put(&self->asked, set, false);
        put(&self->confirmed, set, false);
        rqli_waiters_hint_all(&self->waiters, set);
    }
}

/* Makes waiters poll, as when a subscription without partitions is opened: see below. */
static void confirm(struct rqli_subscription *self, const struct rqli_key_set *set)
{
    self->is_refused = false;
    put(&self->asked, set, true);
    put(&self->confirmed, set, true);
    rqli_waiters_hint_all(&self->waiters, set);
}

/* A requested channel was refused; which one need not be known. A waiter requests its channel again
 * after its next poll, unless the poll leads it to another server. */
static void take_refusal(struct rqli_subscription *self)
{
    self->asked = self->confirmed;
    self->is_refused = true;
}

/* A waiter for a lock that another server has by now finds that out when it polls. */
static void begin_anew(struct rqli_subscription *self, const struct rqli_site *site)
{
    self->answer_us = 0;
    self->asked = (struct rqli_partition_bits){0};
    self->confirmed = (struct rqli_partition_bits){0};
    for (unsigned p = 0; p < RQLI_PARTITIONS; p++) {
        if (!rqli_site_carries(site, p)) {
            put(&self->wanted, &rqli_key_sets[p], false);
        }
    }
}

/* ---- what comes ---- */

/* All waiters poll. A hand-over may have removed any of them from the queue while it could not be
 * notified, and only its own poll restores its place. A grant to any of them may have been lost,
 * too. With partitions the connection brings nothing yet: the server confirms each channel by
 * itself. */
void rqli_subscription_on_opened(struct rqli_subscription *self, const struct rqli_socket *sock)
{
    self->heard_us = 0;
    self->pinged_us = 0;
    self->silent_us = 0;
    self->is_refused = false;
    self->generation++;
    self->client_id = sock->seat.client_id;
    if (rqli_site_is_partitioned(sock->site)) {
        begin_anew(self, sock->site);
    } else {
        rqli_waiters_hint_all(&self->waiters, NULL);
    }
}

void rqli_subscription_on_failed(struct rqli_subscription *self)
{
    self->is_refused = true;
}

/* Counts a push that is for one of us, as hints and changes are, even if there is no waiter for it.
 * A reply to our own commands shows that the server is there, but not that pushes come. */
void rqli_subscription_take(struct rqli_subscription *self, const struct rqli_site *site,
                            rqli_stats_shard shard, const struct rqli_reply *reply,
                            int64_t heard_us)
{
    const struct rqli_pushed pushed = rqli_push_read(reply);

    self->answer_us = 0;
    if (reply->type == RQLI_REPLY_ERROR) {
        take_refusal(self);
        return;
    }
    if (pushed.set && pushed.kind == RQLI_PUSHED_CONFIRMATION) {
        confirm(self, pushed.set);
        return;
    }
    self->heard_us = heard_us;
    if (pushed.set) {
        rqli_subscription_forget(self, pushed.set);
    } else if (pushed.kind != RQLI_PUSHED_NOTHING) {
        rqli_stats_count(site->session->stats, shard, RQLI_STAT_PUSHES, 1);
        rqli_waiters_deliver(&self->waiters, &pushed, heard_us);
    }
}

struct rqli_push_view rqli_subscription_view(const struct rqli_subscription *self, bool is_open,
                                             const struct rqli_waiter *waiter)
{
    bool is_listening = is_open && rqli_subscription_hears(self, waiter);

    return (struct rqli_push_view){
        .leads = rqli_waiter_leads(waiter),
        .is_listening = is_listening,
        .is_refused = self->is_refused,
        .delivers = is_listening && rqli_subscription_delivers(self),
        .generation = self->generation,
        .client_id = self->client_id,
    };
}

/* Bytes that have come and were not read yet are our fault, not the server's. A subscribed
 * connection cannot send AUTH, so a new one replaces it when its login is to be renewed. */
bool rqli_subscription_is_lost(const struct rqli_subscription *self, const struct rqli_socket *sock,
                               int64_t now_us)
{
    return rqli_socket_wants_login(sock) ||
           (rqli_subscription_is_silent(self, now_us) && !rqli_socket_has_bytes(sock));
}
