/*
 * Exchanges of threads. A caller puts its commands into the stream of the connection, and whoever
 * finds nobody writing sends all that is there. Then it waits: the oldest caller reads for all (the
 * leader), gives every caller its replies, and passes the reading on when it has its own. So a
 * caller that is alone writes and reads itself, and a crowd needs few system calls; there is no
 * thread in between that would have to be woken first.
 */

#include "net/conn_state.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/secret.h"
#include "net/credentials.h"
#include "net/decode.h"
#include "net/url.h"
#include "observe/stats.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    /* The commands of so many callers go out at once. Those of more go out together, for that takes
     * us and the server fewer system calls: while a batch is unanswered a second one grows, until
     * it is that of half of the callers. Then the server has work while they have, and both do all
     * the time; a second one that did not wait would be that of the first who was woken. With TLS
     * they always do: a server reads one record at a time, and answers it by itself; and what is to
     * be safe always does, for each batch waits for replicas. */
    AT_ONCE = 8,
    /* With a hand-over among them, to which others may be joined: who was handed the lock is at
     * work already, and only who handed it on waits for the answer. */
    AT_ONCE_OPEN = 6,
    /* The reader checks as often whether there is something to send: another thread may have left
     * some in the stream, because the socket was full. */
    CHECK_US = 100000,
};

/* Under the mutex. Room for what its batch ends with, which it may be the last of: for the replies,
 * and for the bytes, so that it cannot fail for memory then. */
static bool take_room(struct rqli_conn *self, struct exchange *exchange)
{
    struct rqli_command *out = &self->shared.stream.out;
    const struct rqli_command *command = &exchange->visible.command;
    const struct rqli_durability *wanted = exchange->visible.durability;
    size_t n_replies = (size_t)command->n_commands;

    if (wanted || rqli_durability_is_wanted(&self->shared.wanted)) {
        n_replies += RQLI_ACKS_MAX;
        if (!rqli_command_reserve(out, out->length + command->length + RQLI_ACKS_BYTES)) {
            return false;
        }
    }
    exchange->roots = rqli_arena_take(&exchange->arena, n_replies * sizeof *exchange->roots);
    if (!exchange->roots || !rqli_command_append(out, command)) {
        return false;
    }
    memset(exchange->roots, 0, n_replies * sizeof *exchange->roots);
    if (wanted) {
        exchange->wanted = *wanted;
        rqli_durability_join(&self->shared.wanted, wanted);
    }
    return true;
}

/* Under the mutex: with room for its replies, and its bytes in the stream. */
static void begin(struct rqli_conn *self, struct exchange *exchange, int64_t now_us)
{
    exchange->visible.reply = exchange->roots;
    exchange->visible.generation = self->shared.generation;
    exchange->status = RQL_OK;
    exchange->in_flight = true;
    exchange->visible.sent_us = now_us;
    atomic_store_explicit(&exchange->wait_word, AWAKE, memory_order_relaxed);
    rqli_conn_count_caller(self);
    self->shared.n_unsent++;
}

/* Under the mutex: room for the replies, bytes into the stream, a position in it. */
static bool put_in_stream(struct rqli_conn *self, struct exchange *exchange)
{
    struct rqli_command *command = &exchange->visible.command;
    int64_t now_us = rqli_now_us();

    rqli_arena_reset(&exchange->arena);
    if (!take_room(self, exchange)) {
        return false;
    }
    exchange->n_replies = command->n_commands;
    exchange->n_done = 0;
    rqli_stream_expect(&self->shared.stream, &exchange->call, now_us);
    self->shared.n_commands += command->n_commands;
    if (command->texts != 0) {
        (void)atomic_fetch_or_explicit(&self->scripts, command->texts, memory_order_relaxed);
    }
    rqli_stats_count(self->sock.endpoint->stats, 0, RQLI_STAT_COMMANDS, command->n_commands);
    begin(self, exchange, now_us);
    return true;
}

/* Under the mutex. */
static bool may_write(const struct rqli_conn *self)
{
    unsigned callers = self->shared.callers;

    if (self->shared.state != UP || self->shared.stream.out.length == 0) {
        return false;
    }
    return (callers <= (self->shared.open ? AT_ONCE_OPEN : AT_ONCE) && !self->sock.tls &&
            !rqli_durability_is_wanted(&self->shared.wanted)) ||
           self->shared.n_batches == 0 || self->shared.is_far ||
           (self->shared.n_batches < RQLI_CONN_BATCHES && self->shared.n_unsent >= callers / 2);
}

/* Under the mutex: all that was put in the stream goes out together. */
static void begin_batch(struct rqli_conn *self)
{
    struct exchange *last = exchange_of(self->shared.stream.last);

    if (last && rqli_durability_is_wanted(&self->shared.wanted)) {
        rqli_conn_ask_for_acks(self, last);
    }
    rqli_stream_begin_batch(&self->shared.stream);
    self->shared.n_unsent = 0;
    self->shared.open = NULL;
    if (self->shared.n_batches < RQLI_CONN_BATCHES) {
        self->shared.n_batches++;
    }
    self->shared.batch_ends[self->shared.n_batches - 1] = self->shared.stream.queued_at;
}

/* Under the mutex, released while it sends. Whoever finds nobody writing writes for all, but waits
 * for nobody: when the socket is full the rest stays in the stream, for the reader to send when
 * there is room, or for the next who comes.
 *
 * What can go now goes before the owners that were called are woken: they would take the processor
 * from us, and the server has nothing to do till then. */
static void write_out(struct rqli_conn *self)
{
    struct rqli_stream *stream = &self->shared.stream;
    bool is_writer = !self->shared.writing;
    bool goes_on = is_writer;

    while (goes_on) {
        struct rqli_slice bytes;
        ssize_t sent;

        if (!rqli_stream_has_unsent(stream) && may_write(self)) {
            begin_batch(self);
        }
        if (self->shared.state != UP || !rqli_stream_has_unsent(stream)) {
            break;
        }
        bytes = rqli_stream_send(stream);
        self->shared.writing = true;
        (void)pthread_mutex_unlock(&self->shared.mutex);
        sent = rqli_socket_send_some(&self->sock, bytes.data, bytes.length);
        (void)pthread_mutex_lock(&self->shared.mutex);
        self->shared.writing = false;
        if (sent < 0) {
            rqli_conn_break_off(self, false);
        }
        goes_on = sent >= 0 && rqli_stream_on_sent(stream, (size_t)sent);
    }
    if (is_writer) {
        rqli_conn_close_if_broken(self);
    }
}

/* Under the mutex: gives what has come to those who wait for it, in the order of their commands.
 * Replies of callers who left are read as well, or the next ones would get them. False: it made no
 * sense. */
static bool hand_out(struct rqli_conn *self)
{
    while (self->shared.stream.first) {
        struct exchange *first = exchange_of(self->shared.stream.first);
        int state =
            rqli_decoder_next(&self->sock.decoder, &first->arena, &first->roots[first->n_done]);

        if (state <= 0 || !rqli_stream_is_sent(&self->shared.stream, &first->call)) {
            return state == 0;
        }
        rqli_stream_on_reply(&self->shared.stream);
        if (++first->n_done == first->n_replies) {
            rqli_conn_finish_first(self, RQL_OK, self->shared.stream.heard_us);
        }
    }
    return rqli_decoder_is_empty(&self->sock.decoder); /* no reply that nobody asked for */
}

/* Under the mutex: the role of the reader goes to the oldest caller still there. */
static void appoint_reader(struct rqli_conn *self)
{
    struct exchange *at = exchange_of(self->shared.stream.first);
    struct exchange *next = NULL;

    while (at && !next) {
        next = rqli_joined_waiting(at);
        at = exchange_of(at->call.next);
    }
    self->shared.reader = next;
    if (next) {
        rqli_conn_call_owner(self, next, READER);
    }
}

/* Under the mutex. When a connection that has not been heard since is given up. */
static int64_t silence_us(const struct rqli_conn *self)
{
    return rqli_stream_silent_us(&self->shared.stream, self->sock.endpoint->io_timeout_ms);
}

/* Reader only; under the mutex, released while it waits for bytes, and for room if some are to be
 * sent. One read, at most. */
static void read_once(struct rqli_conn *self, int64_t now_us, int64_t deadline_us)
{
    int64_t given_up_us = silence_us(self);
    int64_t until_us = rqli_earlier(rqli_earlier(deadline_us, given_up_us), now_us + CHECK_US);
    int64_t spin_us = self->shared.callers == 1 ? self->sock.endpoint->spin_us : 0;
    bool wants_room = rqli_stream_has_unsent(&self->shared.stream) && !self->shared.writing;
    enum rqli_socket_read got;

    rqli_conn_unlock(self);
    if (wants_room) {
        rqli_socket_await_room(&self->sock, until_us);
        until_us = 0;
    }
    got = rqli_socket_read(&self->sock, until_us, spin_us);
    if (got == RQLI_SOCKET_NOTHING && rqli_now_us() >= given_up_us) {
        got = rqli_socket_read(&self->sock, 0, 0); /* perhaps this process stood still */
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    if (self->shared.state != UP) {
        return;
    }
    if (got == RQLI_SOCKET_BYTES) {
        self->shared.stream.heard_us = rqli_now_us();
        if (!hand_out(self)) {
            rqli_conn_break_off(self, false);
        }
    } else if (got == RQLI_SOCKET_BROKEN || rqli_now_us() >= silence_us(self)) {
        rqli_conn_break_off(self, got != RQLI_SOCKET_BROKEN);
    }
    write_out(self); /* what has waited for these answers, or for room */
}

/* Under the mutex, released until its owner is called, or the deadline. True: the result is there,
 * and needs no mutex, which stays released. AWAKE becomes ASLEEP only if no word has come
 * meanwhile: with FINISHED or READER there it does not sleep. */
static bool sleep_on(struct rqli_conn *self, struct exchange *exchange, int64_t deadline_us)
{
    int32_t seen = AWAKE;

    rqli_conn_unlock(self);
    (void)atomic_compare_exchange_strong_explicit(&exchange->wait_word, &seen, ASLEEP,
                                                  memory_order_acq_rel, memory_order_acquire);
    if (seen == AWAKE || seen == ASLEEP) {
        rqli_signal_wait(&exchange->wait_word, ASLEEP, deadline_us);
        seen = atomic_load_explicit(&exchange->wait_word, memory_order_acquire);
    }
    if (seen != FINISHED) {
        (void)pthread_mutex_lock(&self->shared.mutex);
    }
    return seen == FINISHED;
}

/* Under the mutex: its caller waits no more. While another sleeps somebody reads. */
static void leave(struct rqli_conn *self, struct exchange *own)
{
    own->left = own->in_flight;
    if (own->left) {
        self->shared.callers--;
        /* It may have been called to read. */
        atomic_store_explicit(&own->wait_word, AWAKE, memory_order_relaxed);
    }
    if (self->shared.reader == own) {
        appoint_reader(self);
        rqli_conn_close_if_broken(self);
    }
}

/* Under the mutex, which it releases: until our replies are there, or the deadline. Reads for all,
 * if nobody does. A late caller still takes what has come already. */
static rql_status await(struct rqli_conn *self, struct exchange *own, int64_t deadline_us,
                        rql_error *error)
{
    const char *where = self->sock.endpoint->where;
    int64_t now_us = own->visible.sent_us;
    bool is_late = false;
    rql_status status;

    write_out(self);
    while (own->in_flight && !is_late) {
        is_late = now_us >= deadline_us;
        if (!self->shared.reader) {
            self->shared.reader = own;
        }
        if (self->shared.reader == own) {
            atomic_store_explicit(&own->wait_word, AWAKE, memory_order_relaxed);
            read_once(self, now_us, deadline_us);
        } else if (!is_late && sleep_on(self, own, deadline_us)) {
            /* Who gave us our replies goes on reading. */
            return own->status ? rqli_stream_fault(own->status, where, error) : RQL_OK;
        }
        now_us = rqli_now_us();
    }
    leave(self, own);
    status = own->left ? RQL_E_UNKNOWN : own->status;
    rqli_conn_unlock(self);
    return status ? rqli_stream_fault(status, where, error) : RQL_OK;
}

/* Without the mutex. False: it was in vain. */
static bool repeat_auth(struct rqli_exchange *auth, uint64_t generation, int64_t deadline_us,
                        int64_t *renew_us_out)
{
    rql_credentials *asked = rqli_secret_new(sizeof *asked);
    bool is_done = asked && rqli_command_reserve(&auth->command, 2 * sizeof *asked) &&
                   rqli_credentials_ask(((struct exchange *)auth)->conn->sock.endpoint, deadline_us,
                                        asked, renew_us_out, NULL) == RQL_OK;

    if (is_done) {
        rqli_credentials_write(asked->user, asked->password, &auth->command);
        is_done = rqli_exchange_put(auth, generation, NULL) == RQL_OK;
        explicit_bzero(auth->command.data, auth->command.length);
    }
    (void)rqli_secret_free(asked);
    return is_done && rqli_exchange_await(auth, deadline_us, NULL) == RQL_OK &&
           auth->reply->type == RQLI_REPLY_STATUS;
}

/* Under the mutex, released meanwhile. By one caller, in front of what it asks; where that is in
 * vain all go on as long as the server has it. */
static void renew_login(struct rqli_conn *self, int64_t deadline_us)
{
    const uint64_t generation = self->shared.generation;
    const int64_t now_us = rqli_now_us();
    const int64_t limit_us = rqli_after_ms(now_us, self->sock.endpoint->connect_timeout_ms);
    struct rqli_exchange *auth;
    int64_t renew_us;

    self->sock.renew_us = 0;
    self->shared.stream.has_secret = true;
    rqli_conn_unlock(self);
    auth = rqli_exchange_take(self);
    if (!auth || !repeat_auth(auth, generation, rqli_earlier(deadline_us, limit_us), &renew_us)) {
        renew_us = rqli_credentials_retry_us(now_us);
    }
    rqli_exchange_give(auth);
    (void)pthread_mutex_lock(&self->shared.mutex);
    self->shared.stream.has_secret = false;
    if (self->shared.generation == generation && self->shared.state == UP) {
        self->sock.renew_us = renew_us;
    }
}

/* Under the mutex: as long as it is there, logged in. */
static rql_status be_connected(struct rqli_conn *self, int64_t deadline_us, rql_error *error)
{
    rql_status status = rqli_conn_connect_locked(self, deadline_us, error);

    if (!status && rqli_socket_wants_login(&self->sock)) {
        renew_login(self, deadline_us);
        status = rqli_conn_connect_locked(self, deadline_us, error);
    }
    return status;
}

rql_status rqli_conn_connect(struct rqli_conn *self, int64_t deadline_us, rql_error *error)
{
    rql_status status;

    (void)pthread_mutex_lock(&self->shared.mutex);
    status = be_connected(self, deadline_us, error);
    rqli_conn_unlock(self);
    return status;
}

rql_status rqli_exchange_run(struct rqli_exchange *exchange, int64_t deadline_us, rql_error *error)
{
    struct exchange *own = (struct exchange *)exchange;
    struct rqli_conn *self = own->conn;
    rql_status status;

    if (exchange->command.failed) {
        return rqli_fail_nomem(error);
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    status = be_connected(self, deadline_us, error);
    if (!status && !put_in_stream(self, own)) {
        status = rqli_fail_nomem(error);
    }
    if (status) {
        rqli_conn_unlock(self);
        return status;
    }
    return await(self, own, deadline_us, error);
}

/* Under the mutex. */
static rql_status put_over(struct rqli_conn *self, struct exchange *own, uint64_t generation,
                           rql_error *error)
{
    if (!rqli_conn_is_up_locked(self) ||
        (generation != 0 && self->shared.generation != generation)) {
        return rqli_fail(error, RQL_E_IO, "%s: the connection has ended; nothing was sent",
                         self->sock.endpoint->where);
    }
    if (own->visible.command.failed) {
        return rqli_fail_nomem(error);
    }
    if (rqli_joined_put(self, own)) {
        begin(self, own, rqli_now_us());
    } else if (put_in_stream(self, own)) {
        rqli_joined_open(self, own);
    } else {
        return rqli_fail_nomem(error);
    }
    return RQL_OK;
}

rql_status rqli_exchange_put(struct rqli_exchange *exchange, uint64_t generation, rql_error *error)
{
    struct exchange *own = (struct exchange *)exchange;
    struct rqli_conn *self = own->conn;
    rql_status status;

    (void)pthread_mutex_lock(&self->shared.mutex);
    status = put_over(self, own, generation, error);
    rqli_conn_unlock(self);
    return status;
}

rql_status rqli_exchange_send(struct rqli_exchange *exchange, uint64_t generation, rql_error *error)
{
    struct exchange *own = (struct exchange *)exchange;
    struct rqli_conn *self = own->conn;
    rql_status status;

    (void)pthread_mutex_lock(&self->shared.mutex);
    status = put_over(self, own, generation, error);
    if (!status) {
        write_out(self);
        leave(self, own);
        if (!own->in_flight && own->status == RQL_E_IO) { /* it broke before: nothing to await */
            status = rqli_stream_fault(RQL_E_IO, self->sock.endpoint->where, error);
        }
    }
    rqli_conn_unlock(self);
    return status;
}

bool rqli_exchange_is_over(const struct rqli_exchange *exchange)
{
    const struct exchange *own = (const struct exchange *)exchange;

    return atomic_load_explicit(&own->wait_word, memory_order_acquire) == FINISHED;
}

bool rqli_exchange_is_answered(const struct rqli_exchange *exchange)
{
    return rqli_exchange_is_over(exchange) && ((const struct exchange *)exchange)->status == RQL_OK;
}

rql_status rqli_exchange_await(struct rqli_exchange *exchange, int64_t deadline_us,
                               rql_error *error)
{
    struct exchange *own = (struct exchange *)exchange;

    (void)pthread_mutex_lock(&own->conn->shared.mutex);
    if (own->left) { /* its caller is back */
        own->left = false;
        own->conn->shared.callers += own->in_flight;
    }
    return await(own->conn, own, deadline_us, error);
}

rql_status rqli_exchange_fault(const struct rqli_exchange *exchange, const struct rqli_reply *reply,
                               const char *what, const char *where, rql_error *error)
{
    rql_status status = rqli_reply_fault(reply, what, where, error);

    if (status == RQL_E_PROTOCOL || status == RQL_E_READ_ONLY) {
        exchange->drop(exchange);
    }
    return status;
}

/* ---- joined ---- */

/*
 * Calls that become words of one before them: hand-overs of a lock inside the client, one behind
 * the other, which stand in the stream unsent (lua/transfer.lua). The server does all of them for
 * little more than one.
 *
 * So the later ones come to stand where the first does, in front of what others have put in the
 * stream between them. That does no harm: nothing there is about a request of those who hand the
 * lock on, for each of them waits for its answer, or sleeps until it is told.
 *
 * One run at a time: where those of two locks take turns in the stream, each is told by itself.
 */

void rqli_joined_open(struct rqli_conn *self, struct exchange *exchange)
{
    const struct rqli_joint *joint = &exchange->visible.joint;

    if (joint->tells) {
        self->shared.open = exchange;
        self->shared.open_to = joint->tells;
        exchange->span = (struct rqli_call_span){.length = exchange->visible.command.length,
                                                 .last_bytes = joint->last_bytes,
                                                 .n_last = joint->n_last};
    }
}

/* Under the mutex: room for the reply. */
static bool take_root(struct exchange *self)
{
    rqli_arena_reset(&self->arena);
    self->roots = rqli_arena_take(&self->arena, sizeof *self->roots);
    return self->roots != NULL;
}

bool rqli_joined_put(struct rqli_conn *self, struct exchange *own)
{
    const struct rqli_joint *joint = &own->visible.joint;
    struct rqli_stream *stream = &self->shared.stream;
    struct exchange *first = self->shared.open;
    ptrdiff_t more;

    /* What a batch ends with that is to be safe has its room already, behind all of it. */
    if (!first || !joint->behind || joint->behind != self->shared.open_to ||
        rqli_durability_is_wanted(&self->shared.wanted) || !take_root(own)) {
        return false;
    }
    first->span.at = (size_t)(first->call.begins_at - stream->out_at);
    if (!rqli_call_join(&stream->out, &first->span, &own->visible.command, joint, &more)) {
        return false;
    }
    rqli_stream_move(stream, &first->call, more);
    own->call.next = first->joined ? &first->joined->call : NULL;
    first->joined = own;
    self->shared.open_to = joint->tells;
    return true;
}

/* What the script answers is text, and so is an error. False: no memory. */
static bool copy_reply(const struct rqli_reply *from, struct exchange *to)
{
    const struct rqli_slice text = {rqli_arena_copy(&to->arena, from->text), from->text.length};

    *to->roots = (struct rqli_reply){.type = from->type, .text = text};
    return text.data != NULL;
}

struct exchange *rqli_joined_take(struct exchange *done, rql_status status)
{
    struct exchange *next = done->joined;

    done->joined = exchange_of(next->call.next);
    next->visible.received_us = done->visible.received_us;
    next->status = status || copy_reply(done->roots, next) ? status : RQL_E_UNKNOWN;
    return next;
}

struct exchange *rqli_joined_waiting(struct exchange *exchange)
{
    struct exchange *next = exchange->joined;

    if (!exchange->left) {
        return exchange;
    }
    while (next && next->left) {
        next = exchange_of(next->call.next);
    }
    return next;
}

/* ---- acks ---- */

/* What is asked behind the calls of a batch: whether replicas, or the disk, have what they wrote.
 */

/* Under the mutex: as long as the least patient caller waits that has not given up while the batch
 * stood behind others. Where all have, the server is asked for a moment, which frees them. */
static void limit_wanted(struct rqli_conn *self, int64_t now_us)
{
    struct rqli_durability wanted = {0};
    struct rqli_stream_call *call = self->shared.stream.first;

    for (; call; call = call->next) {
        const struct exchange *at = exchange_of(call);

        if (call->begins_at >= self->shared.stream.out_at && at->visible.durability &&
            (at->wanted.until_us == 0 || at->wanted.until_us > now_us)) {
            rqli_durability_join(&wanted, &at->wanted);
        }
    }
    if (rqli_durability_is_wanted(&wanted)) {
        self->shared.wanted = wanted;
    }
    rqli_durability_limit(&self->shared.wanted, now_us);
}

void rqli_conn_ask_for_acks(struct rqli_conn *self, struct exchange *last)
{
    struct rqli_stream *stream = &self->shared.stream;
    int n_before = stream->out.n_commands;
    int n_acks;

    limit_wanted(self, rqli_now_us());
    last->asked = self->shared.wanted;
    rqli_durability_write(&last->asked, &stream->out);
    rqli_stream_lengthen(stream);
    n_acks = stream->out.n_commands - n_before;
    last->n_replies += n_acks;
    self->shared.n_commands += n_acks;
    rqli_stats_count(self->sock.endpoint->stats, 0, RQLI_STAT_COMMANDS, n_acks);
    rqli_stream_wait_longer(stream, rqli_durability_longest_ms(&last->asked));
    self->shared.wanted = (struct rqli_durability){0};
}
