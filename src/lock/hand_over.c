#include "lock/hand_over.h"

#include "base/clock.h"
#include "base/error.h"
#include "lock/acquisition.h"
#include "lock/client.h"
#include "lock/leases.h"
#include "lock/loop.h"
#include "lock/server_clock.h"
#include "lock/withdraw.h"
#include "net/conn/push_threads.h"

#include <string.h>

/*
 * Why the new owner may rely on the lock before the server knows of the hand-over: until the end of
 * the releaser's lease no other client gets the lock, because on the server it is still the
 * releaser's, and the releaser's only release is this call. Every later call about the lock is sent
 * after this call: over the same connection, or, if that connection broke, not before the call was
 * repeated and answered (end.c).
 */

enum {
    /* Limits of a run of hand-overs, in number and in time. After that the server serves the queue,
     * so that a waiter that has come to stand in front of those in this client gets its turn. */
    CHAIN_MOST = 32,
    CHAIN_US = 100000,
    LEAST_US = 20000, /* of the releaser's lease: with less the new owner would only lose it */
    /* On a loop a third of the releaser's TTL has to be left, or this much. The new owner's
     * callback runs before the loop reads the answer, and nothing renews the lock before that. */
    LEAST_ON_LOOP_US = 500000,
    AHEAD_US = LEAST_US / 2 /* by which a token may be ahead of the server's clock */
};

/* The loop exists until the release that has made the transfer is over. Another thread must not
 * look at it, because it may end at any moment. */
rql_loop *rqli_hand_over_loop_here(const rql_lock *lock)
{
    const struct rqli_transfer *transfer = lock->transfer;

    return rqli_transfer_is_open(transfer) && transfer->loop &&
                   pthread_equal(transfer->thread, pthread_self())
               ? transfer->loop
               : NULL;
}

rql_status rqli_hand_over_check_here(const rql_lock *lock, rql_error *error)
{
    return rqli_hand_over_loop_here(lock)
               ? rqli_fail(error, RQL_E_UNAVAILABLE,
                           "%s: handed over by the loop of this thread, which has to run before "
                           "the server can be asked; nothing was sent",
                           lock->name)
               : RQL_OK;
}

/* Returns a reference to the open hand-over that has brought the acquirer of this request the same
 * lock; NULL: there is none to wait for. */
static struct rqli_transfer *find_own(const rql_lock *request)
{
    const struct rqli_leases *leases = request->client->leases;
    struct rqli_transfer *found = NULL;

    rqli_background_lock(leases->background);
    for (struct rqli_dlink *at = leases->shared.all.first; at && !found; at = at->next) {
        const rql_lock *held = rqli_lock_of_link(at);

        if (rqli_transfer_is_open(held->transfer) &&
            rqli_lock_is_of(held, request->name, request->acquirer) &&
            !rqli_hand_over_loop_here(held)) {
            found = held->transfer;
            (void)atomic_fetch_add_explicit(&found->references, 1, memory_order_relaxed);
        }
    }
    rqli_background_unlock(leases->background);
    return found;
}

/* An acquirer that has got a lock by a hand-over reads a count that includes it, until the server
 * has answered. */
void rqli_hand_over_await_own(const rql_lock *request, int64_t deadline_us)
{
    rql_client *client = request->client;
    struct rqli_transfer *own;
    int64_t now_us;

    if (atomic_load_explicit(&client->leases->n_handing_over, memory_order_acquire) == 0) {
        return;
    }
    now_us = rqli_now_us();
    if (!rqli_holders_has(&client->holders, request->holder, now_us)) {
        return;
    }
    own = find_own(request);
    rqli_transfer_await(own, rqli_earlier(deadline_us, rqli_client_until_us(client, now_us)));
    rqli_transfer_give(client, own);
}

/* Returns the node that has the lock's keys by now. */
static struct rqli_node *node_of(const struct rqli_hand_over *self)
{
    return rqli_client_node(self->lock->client, &self->lock->keys);
}

static const void *carrier_at(const struct rqli_hand_over *self, struct rqli_node *node)
{
    const struct rqli_loop_node *at =
        self->loop ? rqli_loop_nodes_find(&self->loop->nodes, node) : NULL;

    if (self->loop) {
        return at ? at->op.conn : NULL;
    }
    return rqli_conns_find(&node->conns, self->lock->origin.carrier);
}

const void *rqli_hand_over_carrier(const struct rqli_hand_over *self)
{
    return carrier_at(self, node_of(self));
}

static bool is_safe_at(const struct rqli_hand_over *self, struct rqli_node *node, int64_t now_us)
{
    const rql_lock *lock = self->lock;
    const struct rqli_lease *lease = &lock->kept.lease;

    return lock->origin.carrier && lock->origin.carrier == carrier_at(self, node) &&
           lock->process == RQL_LOCK_OBTAINING && rqli_lease_state(lease, now_us) == RQL_HELD &&
           rqli_lease_end_us(lease) - now_us >= LEAST_US;
}

bool rqli_hand_over_is_safe(const struct rqli_hand_over *self, int64_t now_us)
{
    return is_safe_at(self, node_of(self), now_us);
}

static bool leaves_time(const struct rqli_hand_over *self, int64_t now_us)
{
    const struct rqli_lease *lease = &self->lock->kept.lease;

    return !self->loop || rqli_lease_end_us(lease) - now_us >=
                              rqli_earlier(LEAST_ON_LOOP_US, lease->ttl_ms * 1000 / 3);
}

static bool may_choose(const struct rqli_hand_over *self, int64_t now_us)
{
    const rql_lock *lock = self->lock;

    return is_safe_at(self, self->node, now_us) && leaves_time(self, now_us) &&
           (lock->origin.n_chained == 0 ||
            (lock->origin.n_chained < CHAIN_MOST && now_us - lock->origin.chain_us < CHAIN_US));
}

static struct rqli_pushes *pushes_of(const struct rqli_hand_over *self)
{
    return self->loop ? &rqli_loop_nodes_find(&self->loop->nodes, self->node)->pushes.pushes
                      : rqli_push_threads_pushes(self->node->pushes);
}

static struct rqli_waiter *choose(const struct rqli_hand_over *self)
{
    const rql_lock *lock = self->lock;

    return rqli_pushes_is_used(self->pushes)
               ? rqli_pushes_choose(self->pushes, lock->keys.lock,
                                    rqli_waiter_hash(rqli_slice_of(lock->acquirer)))
               : NULL;
}

/* Wakes the waiter: it has the lock, or, if transfer is NULL, is passed by. The waiter may be gone
 * afterwards. */
static void tell_chosen(struct rqli_hand_over *self, struct rqli_transfer *transfer)
{
    struct rqli_waiter *chosen = self->chosen;

    self->chosen = NULL;
    rqli_pushes_hand_over(self->pushes, chosen, transfer);
}

/* Returns the token of the new owner, and the time of its grant; 0: the server's clock is behind
 * its tokens, or unknown. The token is larger than those of earlier grants, except for the error in
 * the reading of the clock. It is no larger than those of later grants, even if the server never
 * hears of the hand-over: it grants the lock after the end of the releaser's lease, and by then its
 * clock is past AHEAD_US. */
static int64_t make_token(const struct rqli_hand_over *self, int64_t now_us, int64_t *latest_out)
{
    const rql_lock *lock = self->lock;
    int64_t earliest_us;
    int64_t least = lock->token + 1;

    (void)rqli_server_clock_range(self->node, now_us, &earliest_us, latest_out);
    return rqli_era_make_token(rqli_client_era(lock->client, lock->keys.set),
                               earliest_us > least ? earliest_us : least, earliest_us + AHEAD_US);
}

/* The chosen waiter sleeps, so that its options can be read. */
static struct rqli_transfer *make_transfer(const struct rqli_hand_over *self, int64_t now_us)
{
    const rql_lock *lock = self->lock;
    const struct rqli_acquire *acquire = rqli_acquire_of(self->chosen);
    const rql_lock *next = acquire->locks[0];
    int64_t ts_us;
    int64_t token = make_token(self, now_us, &ts_us);
    struct rqli_transfer *transfer =
        token > 0 ? rqli_transfer_new(lock->client, next->acquirer, next->host, next->nonce,
                                      acquire->options)
                  : NULL;

    if (transfer) {
        transfer->token = token;
        transfer->ts_us = ts_us;
        transfer->begun_us = now_us;
        transfer->until_us = rqli_lease_end_us(&lock->kept.lease);
        transfer->loop = self->loop;
        transfer->thread = pthread_self();
        transfer->origin = lock->origin;
        transfer->origin.n_chained++;
        if (lock->origin.n_chained == 0) {
            transfer->origin.chain_us = now_us;
        }
    }
    return transfer;
}

bool rqli_hand_over_choose(struct rqli_hand_over *self)
{
    int64_t now_us = rqli_now_us();

    self->node = node_of(self);
    if (may_choose(self, now_us)) {
        self->pushes = pushes_of(self);
        self->chosen = choose(self);
    }
    if (!self->chosen) {
        return false;
    }
    self->transfer = make_transfer(self, now_us);
    if (!self->transfer) {
        tell_chosen(self, NULL);
    }
    return self->transfer != NULL;
}

void rqli_hand_over_place(struct rqli_hand_over *self)
{
    struct rqli_leases *leases = self->lock->client->leases;
    struct rqli_transfer *transfer = self->transfer;

    (void)atomic_fetch_add_explicit(&transfer->references, 1, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&leases->n_handing_over, 1, memory_order_relaxed);
    rqli_leases_on_handed_on(leases, self->lock->transfer, transfer);
    tell_chosen(self, transfer);
}

static void forget(struct rqli_hand_over *self)
{
    rqli_transfer_give(self->lock->client, self->transfer);
    self->transfer = NULL;
}

void rqli_hand_over_abandon(struct rqli_hand_over *self)
{
    forget(self);
    tell_chosen(self, NULL);
}

void rqli_hand_over_write(const struct rqli_hand_over *self, struct rqli_call *call)
{
    const struct rqli_transfer *transfer = self->transfer;
    const char *word = transfer->meta;

    rqli_call_init(call, RQLI_SCRIPT_TRANSFER, &self->lock->keys);
    rqli_call_text(call, self->lock->nonce);
    rqli_call_random(call);
    rqli_call_text(call, transfer->acquirer);
    rqli_call_text(call, transfer->nonce);
    rqli_call_text(call, transfer->host);
    rqli_call_int(call, transfer->ttl_ms);
    rqli_call_int(call, transfer->token);
    for (size_t i = 0; i < 2 * transfer->n_meta; i++) {
        rqli_call_text(call, word);
        word += strlen(word) + 1;
    }
}

void rqli_hand_over_on_done(const struct rqli_hand_over *self, int64_t sent_us, int64_t left_ms)
{
    const rql_lock *lock = self->lock;

    rqli_era_on_token(rqli_client_era(lock->client, lock->keys.set), self->transfer->token);
    rqli_leases_on_transferred(lock->client->leases, self->transfer, sent_us, left_ms);
}

void rqli_hand_over_on_refused(const struct rqli_hand_over *self)
{
    rqli_leases_on_transferred(self->lock->client->leases, self->transfer, 0, -1);
}

void rqli_hand_over_end(struct rqli_hand_over *self, bool may_be_there)
{
    rql_client *client = self->lock->client;
    const struct rqli_transfer *transfer = self->transfer;

    if (may_be_there) {
        rqli_leases_on_given_up(client->leases, self->transfer);
    }
    rqli_leases_on_transferred(client->leases, self->transfer, 0, -1);
    (void)atomic_fetch_sub_explicit(&client->leases->n_handing_over, 1, memory_order_release);
    if (may_be_there) {
        const struct rqli_withdrawn request = {&self->lock->keys, transfer->acquirer,
                                               transfer->nonce, false};

        rqli_withdraw_later(client, &request, transfer->ttl_ms);
    }
    forget(self);
}
