#include "lock/wait.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/pause.h"
#include "lock/client.h"
#include "lock/server_clock.h"
#include "lock/transfer.h"
#include "net/conn/conn_threads.h"
#include "net/conn/push_threads.h"
#include "net/conn/subscription.h"
#include "net/login/login.h"

#include <stdio.h>

/*
 * How an acquisition listens. Grants are pushed on a connection that all waiters of a client share,
 * at each server; one of the waiting threads reads it for all, or the loop does. A waiter joins the
 * register under its nonces before it can be granted anything, so that no push is missed; if it
 * could only join afterwards, while pushes were coming already, it asks once more.
 *
 * A waiter that cannot be notified yet would lose its place at the next hand-over. So a request
 * does not enter the queue before its client is subscribed: its first try is asked with fail_fast.
 * If the server refuses that try the client subscribes, and the confirmation makes the request ask
 * again. After 200 ms without a confirmation the request enters the queue all the same and relies
 * on polls.
 *
 * Ruby pushes nothing. If the holder is a Ruby worker, the client asks the server to notify it of
 * the next change of that key (client tracking). The notice is a hint only: the poll at the end of
 * the ttl and each retry_delay stay.
 */

enum { SAME_END_US = 100000 }; /* two ends of a lock this near to each other count as one */

bool rqli_wait_init(struct rqli_acquire *self, const struct rqli_wait_ops *ops)
{
    self->wait = ops;
    self->pushes = ops->go_to(self, self->node);
    self->waiter.conn = self->conn;
    return self->pushes != NULL;
}

static struct rqli_request_input timing_of(const struct rqli_acquire *self)
{
    return (struct rqli_request_input){
        .now_us = rqli_now_us(),
        .jitter_us = rqli_random_below((uint32_t)self->options->retry_jitter_ms * 1000U),
    };
}

static rql_status join(struct rqli_acquire *self, bool *is_listening_out, rql_error *error)
{
    rql_status status = rqli_pushes_join(self->pushes, &self->waiter, is_listening_out);

    return status ? rqli_fail(error, status, "%s: %s already waits for it",
                              rqli_acquire_lock(self, 0)->name, self->waiter.acquirer)
                  : RQL_OK;
}

/* Returns what the waiter should know of the subscription; all zero before it has joined. */
static struct rqli_push_view view_of(const struct rqli_acquire *self)
{
    return rqli_waiter_has_joined(&self->waiter) ? rqli_pushes_view(self->pushes, &self->waiter)
                                                 : (struct rqli_push_view){0};
}

/* Returns whether the request must not enter the queue yet. One that has a place in the queue keeps
 * it, and one that does not wait needs none. If the last attempt to subscribe has failed the
 * request does not wait for the next one. */
static bool holds_back(const struct rqli_acquire *self, bool is_listening)
{
    const struct rqli_request *request = &self->request;
    bool may_wait = request->limits.tries != 1 && request->limits.deadline_us > self->begun_us;
    struct rqli_push_view around;

    if (is_listening || !may_wait || request->place.score_us != 0) {
        return false;
    }
    around = view_of(self);
    return !around.is_listening && !around.is_refused;
}

/* If a thread of its client has ever waited, a thread joins before it asks: a grant may be pushed
 * before the answer is read. */
rql_status rqli_wait_begin(struct rqli_acquire *self, rql_error *error)
{
    bool is_listening = false;
    rql_status status =
        rqli_pushes_is_used(self->pushes) ? join(self, &is_listening, error) : RQL_OK;

    self->holds_back = holds_back(self, is_listening);
    return status;
}

void rqli_wait_drop_watch(struct rqli_acquire *self)
{
    if (self->watch) {
        rqli_conn_loop_orphan(self->driver->loop->conn, self->watch);
        self->watch = 0;
    }
}

/* Leaves the waiters. The acquisition may wait again and arm another watch. */
static void leave(struct rqli_acquire *self)
{
    if (rqli_waiter_has_joined(&self->waiter)) {
        rqli_pushes_leave(self->pushes, &self->waiter);
    }
    rqli_wait_drop_watch(self);
}

/* A push of the old node is dated by that node's clock and is not taken: the new node is asked. A
 * lock that was handed over inside the client is taken. The waiters that are left at the old node
 * are made to ask: those that do not lead would not ask by themselves. A loop without memory for
 * the new node goes on asking, and does not listen there. */
bool rqli_wait_follow(struct rqli_acquire *self)
{
    struct rqli_node *node = rqli_client_node(self->client, &rqli_acquire_lock(self, 0)->keys);
    struct rqli_pushes *pushes = node != self->node ? self->wait->go_to(self, node) : NULL;
    bool had_joined = rqli_waiter_has_joined(&self->waiter);
    bool is_listening = false;

    if (!pushes) {
        return false;
    }
    leave(self);
    rqli_pushes_forget(self->pushes, self->waiter.set);
    self->pushes = pushes;
    self->waiter.conn = self->conn; /* others have read it until the waiter had left */
    self->waiter.pushed = self->waiter.handed != NULL;
    self->waiter.hinted = false;
    self->node = node;
    self->op.route.node = node;
    if (had_joined) {
        (void)join(self, &is_listening, NULL); /* no other waiter there has this acquirer */
    }
    self->holds_back = holds_back(self, is_listening);
    self->conn = self->waiter.conn;
    self->op.route.conn = self->conn;
    return true;
}

/* Ends listening. The next waiter for this lock leads from now on. */
void rqli_wait_end(struct rqli_acquire *self)
{
    if (self->result->rank >= 0) {
        const struct rqli_request_input input = timing_of(self);

        rqli_request_catch_up(&self->request, &input); /* the tries that it slept through */
    }
    leave(self);
    rqli_transfer_give(self->client, self->waiter.handed);
    self->waiter.handed = NULL;
    self->waiter.pushed = false; /* it may wait again, under other nonces */
    self->waiter.hinted = false;
}

/* A request with random access may be served out of turn, a series takes all its locks in one step,
 * and a durable grant is durable on the server only: the server serves all of these. */
void rqli_wait_behind(struct rqli_acquire *self, struct rqli_slice in_front)
{
    self->waiter.in_front = rqli_waiter_hash(in_front);
    self->waiter.may_be_handed =
        self->waiter.in_front != 0 && !self->several && !self->waiter.keeps_conn &&
        self->options->access_strategy == RQL_QUEUED && rqli_transfer_has_room(self->options);
}

struct rqli_request_input rqli_wait_input(const struct rqli_acquire *self)
{
    struct rqli_request_input input = timing_of(self);
    struct rqli_push_view around = view_of(self);

    input.leads = rqli_waiter_has_joined(&self->waiter) && around.leads;
    input.delivers = around.delivers;
    return input;
}

/* ---- a thread ---- */

static struct rqli_pushes *go_to(struct rqli_acquire *self, struct rqli_node *node)
{
    self->conn = self->waiter.keeps_conn ? node->conns.durable : rqli_conns_choose(&node->conns);
    return rqli_push_threads_pushes(node->pushes);
}

/* Returns when a try that waits for replicas ends. Such calls hold up their connection, and so does
 * each call in front of them. The withdrawal takes another connection, and half of the grace. */
static int64_t durable_until_us(const struct rqli_acquire *self, int64_t now_us)
{
    int64_t grace_us = rqli_client_grace_us(self->client);
    int64_t until_us =
        rqli_client_until_us(self->client, now_us) + rqli_conn_longest_us(&self->durability);
    int64_t by_deadline_us =
        rqli_after_ms(rqli_later(self->request.limits.deadline_us, now_us), grace_us / 2000);

    return rqli_earlier(until_us, by_deadline_us);
}

/* A request that is in the queue already asks until the deadline: the withdrawal follows on the
 * same connection, and has all of the grace. */
static int64_t until_us(const struct rqli_acquire *self, int64_t now_us)
{
    int64_t deadline_us = self->request.limits.deadline_us;
    int64_t within_us = rqli_client_until_us(self->client, now_us);

    if (self->waiter.keeps_conn) {
        return durable_until_us(self, now_us);
    }
    if (deadline_us >= within_us) {
        return within_us;
    }
    return self->result->rank >= 0
               ? deadline_us
               : rqli_later(deadline_us, now_us + rqli_client_grace_us(self->client));
}

/* Learns the server's clock, and does not take the time for connecting from the answer's time.
 * Afterwards no acquisition asks the connection for its clock any more, because all of them go
 * through the connection's mutex. */
static rql_status connect_first(struct rqli_acquire *self, rql_error *error)
{
    rql_client *client = self->client;
    struct rqli_conn_notes *notes = rqli_conn_notes(self->conn);
    struct rqli_clock_reading reading;
    rql_status status;

    if (atomic_load_explicit(&notes->was_up, memory_order_relaxed)) {
        return RQL_OK;
    }
    rqli_fleet_await_map(&client->fleet, self->op.until_us);
    if (rqli_wait_follow(self)) {
        notes = rqli_conn_notes(self->conn);
    }
    status = rqli_conn_connect(self->conn, self->op.until_us, error);
    if (status) {
        rqli_fleet_on_silence(&client->fleet, self->node);
    }
    if (rqli_conn_clock(self->conn, &reading)) {
        rqli_server_clock_learn(client, self->node, &reading);
        atomic_store_explicit(&notes->was_up, true, memory_order_relaxed);
        atomic_store_explicit(&client->was_connected, true, memory_order_relaxed);
    }
    if (!status && self->waiter.keeps_conn) { /* it withdraws and releases over another one */
        (void)rqli_conn_connect(rqli_conns_choose(&self->node->conns), self->op.until_us, NULL);
    }
    self->op.until_us = status ? self->op.until_us : until_us(self, rqli_now_us());
    return status;
}

static void leave_durable(struct rqli_acquire *self)
{
    self->op.route.conn = rqli_conns_choose(&self->node->conns);
}

/* Returns whether tracking has to be set up, once for each pair of connections: changes of the keys
 * that this one reads then go to our subscriber. */
static bool needs_set_up(const struct rqli_acquire *self, uint64_t conn, uint64_t subscriber)
{
    struct rqli_conn_notes *notes = rqli_conn_notes(self->conn);
    bool needed;

    (void)pthread_mutex_lock(&self->node->shared.mutex);
    needed = notes->tracking != conn || notes->tracking_pushes != subscriber;
    notes->tracking = conn;
    notes->tracking_pushes = subscriber;
    (void)pthread_mutex_unlock(&self->node->shared.mutex);
    return needed;
}

void rqli_tracking_write(struct rqli_command *command, struct rqli_slice lock_key,
                         int64_t subscriber_id)
{
    char id[24];

    if (subscriber_id > 0) {
        (void)snprintf(id, sizeof id, "%lld", (long long)subscriber_id);
        rqli_command_words(command, "CLIENT", "TRACKING", "ON", "REDIRECT", id, "OPTIN", NULL);
    }
    /* Both go in one write, because a command in between would use up the opt-in. */
    rqli_command_words(command, "CLIENT", "CACHING", "YES", NULL);
    rqli_command_begin(command, 3);
    rqli_command_text(command, "HGET");
    rqli_command_slice(command, lock_key);
    rqli_command_text(command, "acq_id");
}

/* Sets tracking up once for each pair of connections, then arms it for one key at a time. The reply
 * says who holds the lock now: nil means that it is free, and that no notice will come. */
bool rqli_tracking_arm(const struct rqli_acquire *self, uint64_t generation,
                       const struct rqli_push_view *around)
{
    struct rqli_batch *batch = rqli_batch_take(self->conn);
    bool is_free = false;

    if (!batch) {
        return false;
    }
    rqli_tracking_write(&batch->command, self->watched,
                        needs_set_up(self, generation, around->generation) ? around->client_id : 0);
    if (rqli_conn_run(batch, self->wait->until_us(self, rqli_now_us()), NULL) == RQL_OK) {
        is_free = batch->reply[batch->command.n_commands - 1].type == RQLI_REPLY_NIL;
    }
    rqli_batch_give(batch);
    return is_free;
}

void rqli_wait_arm(struct rqli_acquire *self, uint64_t generation)
{
    struct rqli_watch_pause *pause = &self->watch_pause;

    self->armed = self->watched.data;
    self->watch_generation = generation;
    pause->armed_us = rqli_now_us();
    pause->rank = self->request.place.rank;
    pause->lock_ends_us = self->request.place.lock_ends_us;
}

/* Returns whether nothing has changed since the watch was armed. An answer says to the millisecond
 * when the lock ends, and takes its time on the way, so two ends differ a little. */
static bool is_as_when_armed(const struct rqli_acquire *self)
{
    const struct rqli_request_place *place = &self->request.place;
    const int64_t more_us = place->lock_ends_us - self->watch_pause.lock_ends_us;

    return place->rank == self->watch_pause.rank && more_us > -SAME_END_US && more_us < SAME_END_US;
}

/* Returns the pause after a notice without a change; none after the first, which may be about a
 * change that concerns other waiters. */
static int64_t pause_behind(struct rqli_watch_pause *self, int64_t now_us)
{
    if (now_us - self->armed_us > 2 * RQLI_PAUSE_WATCH.most_us) {
        self->n_idle = 0;
    }
    self->n_idle++;
    return self->n_idle > 1 ? rqli_pause_us(RQLI_PAUSE_WATCH, (unsigned)self->n_idle - 2) : 0;
}

bool rqli_wait_may_watch(struct rqli_acquire *self, uint64_t generation, bool is_used_up)
{
    struct rqli_watch_pause *pause = &self->watch_pause;
    const int64_t now_us = rqli_now_us();

    if (!self->request.place.of_ruby) { /* only behind Ruby it polls at each retry_delay */
        return true;
    }
    if (is_used_up && rqli_wait_is_armed(self, generation)) {
        self->armed = NULL;
        if (is_as_when_armed(self)) {
            pause->until_us = now_us + pause_behind(pause, now_us);
        } else {
            pause->n_idle = 0;
        }
    }
    return now_us >= pause->until_us;
}

/* Watches a lock of Ruby's. Returns true if the lock was free when the watch began; no push reports
 * a change from before that. */
static bool watch_ruby(struct rqli_acquire *self, uint64_t generation)
{
    bool is_new;
    struct rqli_push_view around =
        rqli_push_threads_watch(self->node->pushes, &self->waiter, &is_new);

    if ((!is_new && rqli_wait_is_armed(self, generation)) ||
        !rqli_wait_may_watch(self, generation, is_new)) {
        return false;
    }
    rqli_wait_arm(self, generation);
    return around.is_listening && rqli_tracking_arm(self, generation, &around);
}

/* Pings all connections that listen on the client's channel. Returns how many they are; below 0:
 * that is not known. */
static int64_t say_hello(const struct rqli_acquire *self)
{
    rql_client *client = self->client;
    struct rqli_batch *batch = rqli_batch_take(self->conn);
    int64_t n_received = -1;

    if (batch) {
        rqli_push_ping(&batch->command, rqli_acquire_lock(self, 0)->keys.set, client->identity);
        if (rqli_client_wants_name(client)) {
            rqli_client_name_write(&client->name, &batch->command);
        }
        if (rqli_conn_run(batch, self->wait->until_us(self, rqli_now_us()), NULL) == RQL_OK &&
            batch->reply->type == RQLI_REPLY_INTEGER) {
            n_received = batch->reply->integer;
        }
        rqli_batch_give(batch);
    }
    return n_received;
}

/* Pings the subscription when it is new or has been quiet. One that brings nothing any more is
 * silent as well, and a request that waits for a push would be passed over at each hand-over. */
static void ping_subscription(const struct rqli_acquire *self)
{
    struct rqli_push_threads *pushes = self->node->pushes;
    int64_t n_received = rqli_push_threads_wants_ping(pushes, &self->waiter) ? say_hello(self) : -1;

    if (n_received >= 0) {
        rqli_push_threads_on_pinged(pushes, n_received);
    }
}

void rqli_wait_hint_others(const struct rqli_acquire *self)
{
    if (rqli_pushes_hint_others(self->pushes, &self->waiter)) {
        (void)say_hello(self);
    }
}

/* A thread joins when it has to wait, if no thread of its client has waited before. */
static enum rqli_wait_next attend(struct rqli_acquire *self, uint64_t generation, rql_error *error)
{
    bool is_listening = false;

    if (!rqli_waiter_has_joined(&self->waiter) && join(self, &is_listening, error)) {
        return RQLI_WAIT_FAULT;
    }
    if (is_listening) { /* pushes from before it joined are lost */
        return RQLI_WAIT_ASK;
    }
    ping_subscription(self);
    return self->watched.data && watch_ruby(self, generation) ? RQLI_WAIT_ASK : RQLI_WAIT_ON;
}

const struct rqli_wait_ops rqli_wait_on_thread = {.go_to = go_to,
                                                  .connect = connect_first,
                                                  .until_us = until_us,
                                                  .leave_durable = leave_durable,
                                                  .attend = attend,
                                                  .may_sleep = true};

/* ---- a refusal ---- */

/* After the keys have moved, the answer has shown that they are at their new node. */
enum rqli_wait_next rqli_wait_attend(struct rqli_acquire *self, uint64_t generation,
                                     rql_error *error)
{
    return rqli_wait_follow(self) ? RQLI_WAIT_ASK : self->wait->attend(self, generation, error);
}

/* Gives the first attempt to connect for pushes more time if the server is far away: the round
 * trips that a connection with TLS needs. */
static void extend_connecting(struct rqli_acquire *self, const struct rqli_batch *answer)
{
    int64_t round_trips_us = 4 * (answer->received_us - answer->sent_us);

    self->waiter.connect_us = answer->received_us + round_trips_us;
}

enum rqli_wait_next rqli_wait_hold_back(struct rqli_acquire *self, const struct rqli_batch *answer,
                                        rql_error *error)
{
    struct rqli_request_input input;
    enum rqli_wait_next next;

    self->holds_back = false;
    next = rqli_wait_attend(self, answer->generation, error);
    if (next != RQLI_WAIT_FAULT) {
        input = rqli_wait_input(self);
        rqli_request_on_held_back(&self->request, next == RQLI_WAIT_ASK, &input);
        extend_connecting(self, answer);
    }
    return next;
}
