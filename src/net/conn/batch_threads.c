/*
 * Batches of threads. A caller puts its commands into the stream of the connection, and a thread
 * that finds no other writer sends everything that is queued. Then it waits: the oldest caller
 * reads for all (the leader), gives every caller its replies, and passes the reading on when it has
 * its own. So a lone caller writes and reads itself, and a crowd needs few system calls; there is
 * no thread in between that would have to be woken first.
 */

#include "net/conn/batch_threads.h"

#include "base/cancel_fd.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "net/conn/conn_shared.h"
#include "net/sock/decode.h"
#include "net/sock/site.h"
#include "net/sock/tls.h"
#include "observe/stats.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    /* Up to this many callers send their commands at once. Commands of more callers are sent
     * together, because that takes us and the server fewer system calls: while a write is
     * unanswered a second one grows, until it has the commands of half of the callers. Then the
     * server works while the callers do, and neither idles; a second write that did not wait would
     * have only the commands of the first caller that was woken. With TLS commands are always
     * gathered while a thread reads, because a server reads one record at a time and answers each
     * by itself. Commands with a durability are too, because each write waits for replicas. */
    AT_ONCE = 8,
    PERIOD = 128, /* calls, over which the most callers at the same time are counted */
    /* The reader checks this often whether there is something to send: another thread may have left
     * bytes in the stream because the socket was full. */
    CHECK_US = 100000,
};

/* ---- the end of a batch ---- */

static void free_batch(struct batch *batch)
{
    rqli_command_fini(&batch->visible.command);
    rqli_arena_reset(&batch->arena);
    free(batch);
}

/* Frees the batch's memory for another use: once warmed up, an acquisition allocates nothing.
 * Needs no mutex. */
static void recycle_batch(struct rqli_conn *self, struct batch *batch)
{
    rqli_arena_reset(&batch->arena);
    if (!rqli_freelist_keep(&self->freelist, batch)) {
        free_batch(batch);
    }
}

/* Gives the owner of a batch its result. Caller holds the mutex. */
static void complete_batch(struct rqli_conn *self, struct batch *done, rql_status status)
{
    enum phase phase = done->phase;

    done->phase = IDLE;
    done->status = status;
    if (phase == GIVEN) {
        recycle_batch(self, done);
        return;
    }
    if (phase == AWAITED) {
        self->shared.callers--;
    }
    rqli_conn_call_owner(self, done, FINISHED);
}

/* Takes the oldest batch without acks; there must be one. */
static struct batch *take_unacked(struct rqli_conn *self)
{
    struct batch *batch = self->shared.unacked;

    self->shared.unacked = batch_of(batch->in_flight.next);
    return batch;
}

/* Completes the batches whose write has ended, with what its acks say of their safety. Caller
 * holds the mutex. */
static void complete_unacked(struct rqli_conn *self, rql_status status,
                             const struct rqli_acks *acks)
{
    while (self->shared.unacked) {
        struct batch *done = take_unacked(self);

        done->visible.acks = *acks;
        complete_batch(self, done, status);
    }
}

/* Keeps a batch that has its replies until its write has ended. Caller holds the mutex. */
static void hold_back_batch(struct rqli_conn *self, struct batch *done)
{
    done->in_flight.next = NULL;
    if (self->shared.unacked) {
        self->shared.unacked_last->in_flight.next = &done->in_flight;
    } else {
        self->shared.unacked = done;
    }
    self->shared.unacked_last = done;
}

/* Takes the oldest batch off the stream with its result, and removes the writes that are answered
 * with it. Caller holds the mutex. */
static void finish_first(struct rqli_conn *self, rql_status status, int64_t now_us)
{
    struct rqli_stream *stream = &self->shared.stream;
    struct batch *done = batch_of(rqli_stream_take(stream));
    int n_commands = done->visible.command.n_commands;

    done->visible.received_us = now_us;
    if (done->phase == AWAITED && !done->visible.durability) { /* else it may be old */
        self->shared.is_far = now_us - done->visible.sent_us > FAR_US;
    }
    /* A write is answered when the oldest batch in flight begins after it. */
    while (self->shared.n_writes > 0 &&
           (!stream->first || stream->first->begins_at >= self->shared.write_ends[0])) {
        self->shared.write_ends[0] = self->shared.write_ends[1];
        self->shared.n_writes--;
    }
    if (status == RQL_OK && done->n_replies > n_commands) {
        rqli_acks_read(&done->visible.acks, &done->asked, &done->roots[n_commands]);
        complete_unacked(self, RQL_OK, &done->visible.acks);
    } else if (status == RQL_OK && done->visible.durability) {
        hold_back_batch(self, done);
        return;
    }
    complete_batch(self, done, status);
}

/* ---- the end of a connection ---- */

/* Ends the use of the connection: a thread that still uses the socket finds it shut down. Caller
 * holds the mutex. shutdown() wakes a reader in recv(). The write in stream.sending stays, because
 * a thread may be sending it; a new connection begins without it. The server may still be working
 * on calls without an answer, or receive them yet, so the next login has it end this connection. */
static void break_off(struct rqli_conn *self)
{
    struct rqli_stream *stream = &self->shared.stream;
    int64_t now_us = rqli_now_us();

    if (self->shared.state != UP) {
        return;
    }
    self->shared.state = BROKEN;
    self->shared.has_ended = true;
    self->shared.predecessor = stream->first ? self->sock.seat : (struct rqli_seat){0};
    rqli_backoff_on_end(&stream->backoff, self->sock.site->tls != NULL, now_us,
                        rqli_random_below(RQLI_BACKOFF_RANDOM));
    (void)shutdown(self->sock.fd, SHUT_RDWR);
    complete_unacked(self, RQL_E_UNKNOWN, &(struct rqli_acks){0});
    while (stream->first) {
        finish_first(self, rqli_stream_fate(stream, stream->first), now_us);
    }
    rqli_command_reset(&stream->out);
    self->shared.wanted = (struct rqli_durability){0};
    self->shared.n_unsent = 0;
    self->shared.n_writes = 0;
}

/* Closes a broken connection when no thread uses its socket. Caller holds the mutex. */
static void close_if_broken(struct rqli_conn *self)
{
    if (self->shared.state == BROKEN && !self->shared.reader && !self->shared.writing) {
        rqli_socket_close(&self->sock);
        self->shared.state = DOWN;
        rqli_conn_wake_connecting(self);
    }
}

void rqli_batch_end_all(struct rqli_conn *conn)
{
    break_off(conn);
    close_if_broken(conn);
}

/* Servers and proxies close unused connections. Noticed before the next command is sent, this costs
 * a new connection; noticed later, it leaves unknown whether the command was done. */
bool rqli_batch_may_go(struct rqli_conn *conn, int64_t unused_us)
{
    if (rqli_conn_is_unused(conn, unused_us) && !rqli_socket_is_quiet(&conn->sock)) {
        rqli_batch_end_all(conn);
    }
    return conn->shared.state == UP;
}

/* As rqli_batch::drop. Ends only the connection that carried the batch: there may be a new one by
 * now, which is good. The next run resolves the address again. */
static void drop_connection(const struct rqli_batch *batch)
{
    struct rqli_conn *conn = batch->carrier;

    (void)pthread_mutex_lock(&conn->shared.mutex);
    if (conn->shared.generation == batch->generation) {
        rqli_batch_end_all(conn);
    }
    rqli_conn_unlock(conn);
}

/* ---- taking and giving back ---- */

/* The other members are set when the batch is put in the stream. */
struct rqli_batch *rqli_batch_take(struct rqli_conn *conn)
{
    struct batch *batch = rqli_freelist_take(&conn->freelist);

    if (!batch) {
        batch = calloc(1, sizeof *batch);
    }
    if (!batch) {
        return NULL;
    }
    batch->visible.durability = NULL;
    batch->visible.acks = (struct rqli_acks){0};
    batch->visible.drop = drop_connection;
    batch->visible.carrier = conn;
    batch->phase = IDLE;
    rqli_command_reset(&batch->visible.command);
    return &batch->visible;
}

/* If its replies may still come, the thread that reads them recycles the batch. */
void rqli_batch_give(struct rqli_batch *batch)
{
    struct batch *own = (struct batch *)batch;
    struct rqli_conn *conn;
    bool is_in_flight = false;

    if (!batch) {
        return;
    }
    conn = batch->carrier;
    if (!rqli_batch_is_over(batch)) {
        (void)pthread_mutex_lock(&conn->shared.mutex);
        is_in_flight = own->phase == LEFT;
        own->phase = is_in_flight ? GIVEN : IDLE;
        (void)pthread_mutex_unlock(&conn->shared.mutex);
    }
    if (!is_in_flight) {
        recycle_batch(conn, own);
    }
}

void rqli_batch_free_all(struct rqli_conn *conn)
{
    struct batch *spare;

    while (conn->shared.unacked) {
        free_batch(take_unacked(conn));
    }
    while (conn->shared.stream.first) {
        free_batch(batch_of(rqli_stream_take(&conn->shared.stream)));
    }
    for (spare = rqli_freelist_take(&conn->freelist); spare;
         spare = rqli_freelist_take(&conn->freelist)) {
        free_batch(spare);
    }
}

/* ---- acks ---- */

/* WAIT and WAITAOF at the end of a write: whether replicas, or the disk, have what its calls
 * wrote. */

/* Caller holds self->shared.mutex. Limits the wait to that of the least patient caller, not
 * counting callers that gave up while the write stood behind earlier ones. If all have given up,
 * the server is asked to wait for a moment only, which frees the callers. */
static void limit_wanted(struct rqli_conn *self, int64_t now_us)
{
    struct rqli_durability wanted = {0};
    struct rqli_in_flight *entry = self->shared.stream.first;

    for (; entry; entry = entry->next) {
        const struct batch *at = batch_of(entry);

        if (entry->begins_at >= self->shared.stream.out_at && at->visible.durability &&
            (at->wanted.until_us == 0 || at->wanted.until_us > now_us)) {
            rqli_durability_join(&wanted, &at->wanted);
        }
    }
    if (rqli_durability_is_wanted(&wanted)) {
        self->shared.wanted = wanted;
    }
    rqli_durability_limit(&self->shared.wanted, now_us);
}

/* Writes WAIT and WAITAOF after all calls of the next write, as part of the last of them. Caller
 * holds the mutex. */
static void write_acks(struct rqli_conn *self, struct batch *last)
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
    rqli_stats_count(self->sock.site->session->stats, 0, RQLI_STAT_COMMANDS, n_acks);
    rqli_stream_wait_longer(stream, rqli_durability_longest_ms(&last->asked));
    self->shared.wanted = (struct rqli_durability){0};
}

/* ---- writing and reading ---- */

/* Caller holds self->shared.mutex. Reserves room for the commands that end a write, because this
 * batch may be the last of its write: for their replies and for their bytes, so that adding them
 * cannot run out of memory later. */
static bool take_room(struct rqli_conn *self, struct batch *batch)
{
    struct rqli_command *out = &self->shared.stream.out;
    const struct rqli_command *command = &batch->visible.command;
    const struct rqli_durability *wanted = batch->visible.durability;
    size_t n_replies = (size_t)command->n_commands;

    if (wanted || rqli_durability_is_wanted(&self->shared.wanted)) {
        n_replies += RQLI_ACKS_MAX;
        if (!rqli_command_reserve(out, out->length + command->length + RQLI_ACKS_BYTES)) {
            return false;
        }
    }
    batch->roots = rqli_arena_take(&batch->arena, n_replies * sizeof *batch->roots);
    if (!batch->roots || !rqli_command_append(out, command)) {
        return false;
    }
    memset(batch->roots, 0, n_replies * sizeof *batch->roots);
    if (wanted) {
        batch->wanted = *wanted;
        rqli_durability_join(&self->shared.wanted, wanted);
    }
    return true;
}

/* Returns true if one more connection would be of use to the callers of this one. With TLS it makes
 * records shorter, and so more of them, until one is full. Caller holds the mutex. */
static bool is_crowded(const struct rqli_conn *self)
{
    const struct rqli_stream *stream = &self->shared.stream;

    return self->shared.callers > 1 + self->shared.n_internal &&
           (!self->sock.tls ||
            stream->queued_at - stream->first->begins_at > RQLI_TLS_RECORD_BYTES);
}

/* Counts one more caller, whose batch is in the stream. Caller holds the mutex. */
static void count_caller(struct rqli_conn *self)
{
    self->shared.callers++;
    if (self->shared.callers > self->shared.most_callers) {
        self->shared.most_callers = self->shared.callers;
    }
    if (++self->shared.n_calls == PERIOD) {
        rqli_conn_begin_period(self, self->shared.most_callers);
    }
    if (is_crowded(self)) {
        atomic_store_explicit(&self->is_crowded, true, memory_order_relaxed);
    }
}

/* Caller holds self->shared.mutex. Makes room for the replies, puts the bytes into the stream and
 * records their position in it. */
static bool put_in_stream(struct rqli_conn *self, struct batch *batch)
{
    struct rqli_command *command = &batch->visible.command;
    int64_t now_us = rqli_now_us();

    rqli_arena_reset(&batch->arena);
    if (!take_room(self, batch)) {
        return false;
    }
    batch->n_replies = command->n_commands;
    batch->n_done = 0;
    rqli_stream_expect(&self->shared.stream, &batch->in_flight, now_us);
    self->shared.n_commands += command->n_commands;
    if (command->texts != 0) {
        (void)atomic_fetch_or_explicit(&self->scripts, command->texts, memory_order_relaxed);
    }
    rqli_stats_count(self->sock.site->session->stats, 0, RQLI_STAT_COMMANDS, command->n_commands);
    batch->visible.reply = batch->roots;
    batch->visible.generation = self->shared.generation;
    batch->visible.sent_us = now_us;
    batch->status = RQL_OK;
    batch->phase = AWAITED;
    atomic_store_explicit(&batch->wait_word, AWAKE, memory_order_relaxed);
    count_caller(self);
    self->shared.n_unsent++;
    return true;
}

/* Caller holds self->shared.mutex. Each write with a durability has the server wait once more. If
 * no thread reads, nothing is gathered, because no thread would notice that a write is answered:
 * releases that do not wait are in flight. */
static bool may_write(const struct rqli_conn *self)
{
    unsigned callers = self->shared.callers;

    if (self->shared.state != UP || self->shared.stream.out.length == 0) {
        return false;
    }
    return (((callers <= AT_ONCE && (!self->sock.tls || !self->shared.reader)) ||
             self->shared.is_far) &&
            !rqli_durability_is_wanted(&self->shared.wanted)) ||
           self->shared.n_writes == 0 ||
           (self->shared.n_writes < RQLI_CONN_WRITES && self->shared.n_unsent >= callers / 2);
}

/* Caller holds self->shared.mutex. Everything that was put in the stream is sent together. */
static void begin_write(struct rqli_conn *self)
{
    struct batch *last = batch_of(self->shared.stream.last);

    if (last && rqli_durability_is_wanted(&self->shared.wanted)) {
        write_acks(self, last);
    }
    rqli_stream_begin_write(&self->shared.stream);
    self->shared.n_unsent = 0;
    if (self->shared.n_writes < RQLI_CONN_WRITES) {
        self->shared.n_writes++;
    }
    self->shared.write_ends[self->shared.n_writes - 1] = self->shared.stream.queued_at;
}

/* Caller holds self->shared.mutex; it is released during send(). A thread that finds no other
 * writer sends everything that is queued. It never blocks: when the socket is full the rest stays
 * in the stream, for the reader to send when there is room, or for the next caller.
 *
 * Everything that can be sent is sent before the owners that have a result are woken: they would
 * take the processor from this thread, and the server would have nothing to do until then. */
static void write_out(struct rqli_conn *self)
{
    struct rqli_stream *stream = &self->shared.stream;
    bool is_writer = !self->shared.writing;
    bool goes_on = is_writer;

    while (goes_on) {
        struct rqli_slice bytes;
        ssize_t sent;

        if (!rqli_stream_has_unsent(stream) && may_write(self)) {
            begin_write(self);
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
            break_off(self);
        }
        goes_on = sent >= 0 && rqli_stream_on_sent(stream, (size_t)sent);
    }
    if (is_writer) {
        close_if_broken(self);
    }
}

/* Caller holds self->shared.mutex. Gives the replies that have come to the callers that wait for
 * them, in the order of their commands. Replies of callers that left are read as well, or the next
 * callers would get them. False: a reply made no sense. */
static bool hand_out_replies(struct rqli_conn *self)
{
    while (self->shared.stream.first) {
        struct batch *first = batch_of(self->shared.stream.first);
        int state =
            rqli_decoder_next(&self->sock.decoder, &first->arena, &first->roots[first->n_done]);

        if (state <= 0 || !rqli_stream_is_sent(&self->shared.stream, &first->in_flight)) {
            return state == 0;
        }
        rqli_stream_on_reply(&self->shared.stream);
        if (++first->n_done == first->n_replies) {
            finish_first(self, RQL_OK, self->shared.stream.heard_us);
        }
    }
    return rqli_decoder_is_empty(&self->sock.decoder); /* a reply without a request is an error */
}

static struct batch *first_awaited(struct batch *at)
{
    while (at && at->phase != AWAITED) {
        at = batch_of(at->in_flight.next);
    }
    return at;
}

/* Caller holds self->shared.mutex. Makes the oldest caller that still waits the reader: for the
 * acks of its write, or for replies. */
static void appoint_reader(struct rqli_conn *self)
{
    struct batch *at = first_awaited(self->shared.unacked);

    at = at ? at : first_awaited(batch_of(self->shared.stream.first));
    self->shared.reader = at;
    if (at) {
        rqli_conn_call_owner(self, at, READER);
    }
}

/* Caller holds self->shared.mutex. Returns when the connection is given up unless bytes come
 * before. */
static int64_t silence_us(const struct rqli_conn *self)
{
    return rqli_stream_silent_us(&self->shared.stream, self->sock.site->session->io_timeout_ms);
}

/* For the reader only. Caller holds self->shared.mutex; it is released while the reader waits for
 * bytes, and for room if some are to be sent. Reads once, at most. */
static void read_once(struct rqli_conn *self, int64_t now_us, int64_t deadline_us)
{
    int64_t given_up_us = silence_us(self);
    int64_t until_us = rqli_earlier(rqli_earlier(deadline_us, given_up_us), now_us + CHECK_US);
    int64_t spin_us = self->shared.callers == 1 ? self->sock.site->session->spin_us : 0;
    bool wants_room = rqli_stream_has_unsent(&self->shared.stream) && !self->shared.writing;
    enum rqli_socket_read got;

    rqli_conn_unlock(self);
    if (wants_room) {
        rqli_socket_await_room(&self->sock, until_us);
        until_us = 0;
    }
    got = rqli_socket_read(&self->sock, until_us, spin_us);
    if (got == RQLI_SOCKET_NOTHING && rqli_now_us() >= given_up_us) {
        got = rqli_socket_read(&self->sock, 0, 0); /* perhaps this process was suspended */
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    if (self->shared.state != UP) {
        return;
    }
    if (got == RQLI_SOCKET_BYTES) {
        self->shared.stream.heard_us = rqli_now_us();
        if (!hand_out_replies(self)) {
            break_off(self);
        }
    } else if (got == RQLI_SOCKET_BROKEN || rqli_now_us() >= silence_us(self)) {
        break_off(self);
    }
    write_out(self); /* commands that waited for these answers, or for room */
}

/* Caller holds self->shared.mutex; it is released until the owner of the batch is called, or the
 * deadline. True: the result is there and can be taken without the mutex, which stays released.
 * AWAKE becomes ASLEEP only if the word has not changed meanwhile: if it is FINISHED or READER, the
 * thread does not sleep. */
static bool sleep_on_batch(struct rqli_conn *self, struct batch *batch, int64_t deadline_us)
{
    int32_t seen = AWAKE;

    rqli_conn_unlock(self);
    (void)atomic_compare_exchange_strong_explicit(&batch->wait_word, &seen, ASLEEP,
                                                  memory_order_acq_rel, memory_order_acquire);
    if (seen == AWAKE || seen == ASLEEP) {
        rqli_signal_wait(&batch->wait_word, ASLEEP, deadline_us);
        seen = atomic_load_explicit(&batch->wait_word, memory_order_acquire);
    }
    if (seen != FINISHED) {
        (void)pthread_mutex_lock(&self->shared.mutex);
    }
    return seen == FINISHED;
}

/* Caller holds self->shared.mutex. The caller of the batch stops waiting. As long as another
 * caller sleeps, one thread reads. */
static void leave_batch(struct rqli_conn *self, struct batch *own)
{
    if (own->phase == AWAITED) {
        own->phase = LEFT;
        self->shared.callers--;
        /* This caller may have been called to read. */
        atomic_store_explicit(&own->wait_word, AWAKE, memory_order_relaxed);
    }
    if (self->shared.reader == own) {
        appoint_reader(self);
        close_if_broken(self);
    }
}

/* Caller holds self->shared.mutex, which await_replies() releases. Waits until the replies of this
 * batch are there, or until the deadline, and reads for all if no other caller does. A caller that
 * is late still takes the replies that have come already. */
static rql_status await_replies(struct rqli_conn *self, struct batch *own, int64_t deadline_us,
                                rql_error *error)
{
    const char *where = self->sock.site->where;
    int64_t now_us = own->visible.sent_us;
    bool is_late = false;
    rql_status status;

    write_out(self);
    while (own->phase == AWAITED && !is_late) {
        is_late = now_us >= deadline_us || rqli_is_cancelled();
        if (!self->shared.reader) {
            self->shared.reader = own;
        }
        if (self->shared.reader == own) {
            atomic_store_explicit(&own->wait_word, AWAKE, memory_order_relaxed);
            read_once(self, now_us, deadline_us);
        } else if (!is_late && sleep_on_batch(self, own, deadline_us)) {
            /* The thread that gave us our replies goes on reading. */
            return own->status ? rqli_stream_fault(own->status, where, error) : RQL_OK;
        }
        now_us = rqli_now_us();
    }
    leave_batch(self, own);
    status = own->phase == LEFT ? RQL_E_UNKNOWN : own->status;
    rqli_conn_unlock(self);
    return status ? rqli_stream_fault(status, where, error) : RQL_OK;
}

rql_status rqli_batch_run_locked(struct rqli_batch *batch, int64_t deadline_us, rql_error *error)
{
    struct batch *own = (struct batch *)batch;
    struct rqli_conn *self = batch->carrier;

    if (!put_in_stream(self, own)) {
        rqli_conn_unlock(self);
        return rqli_fail_nomem(error);
    }
    return await_replies(self, own, deadline_us, error);
}

/* Caller holds self->shared.mutex. */
static rql_status put_if_up(struct rqli_conn *self, struct batch *own, uint64_t generation,
                            rql_error *error)
{
    if (!rqli_batch_may_go(self, UNUSED_US) ||
        (generation != 0 && self->shared.generation != generation)) {
        return rqli_fail(error, RQL_E_IO, "%s: the connection has ended; nothing was sent",
                         self->sock.site->where);
    }
    if (own->visible.command.failed) {
        return rqli_fail_nomem(error);
    }
    return put_in_stream(self, own) ? RQL_OK : rqli_fail_nomem(error);
}

rql_status rqli_batch_put(struct rqli_batch *batch, uint64_t generation, rql_error *error)
{
    struct batch *own = (struct batch *)batch;
    struct rqli_conn *self = batch->carrier;
    rql_status status;

    (void)pthread_mutex_lock(&self->shared.mutex);
    status = put_if_up(self, own, generation, error);
    rqli_conn_unlock(self);
    return status;
}

rql_status rqli_batch_send(struct rqli_batch *batch, uint64_t generation, rql_error *error)
{
    struct batch *own = (struct batch *)batch;
    struct rqli_conn *self = batch->carrier;
    rql_status status;

    (void)pthread_mutex_lock(&self->shared.mutex);
    status = put_if_up(self, own, generation, error);
    if (!status) {
        write_out(self);
        leave_batch(self, own);
        if (own->phase == IDLE && own->status == RQL_E_IO) { /* broken before: nothing to await */
            status = rqli_stream_fault(RQL_E_IO, self->sock.site->where, error);
        }
    }
    rqli_conn_unlock(self);
    return status;
}

bool rqli_batch_is_over(const struct rqli_batch *batch)
{
    const struct batch *own = (const struct batch *)batch;

    return atomic_load_explicit(&own->wait_word, memory_order_acquire) == FINISHED;
}

bool rqli_batch_is_answered(const struct rqli_batch *batch)
{
    return rqli_batch_is_over(batch) && ((const struct batch *)batch)->status == RQL_OK;
}

rql_status rqli_batch_await(struct rqli_batch *batch, int64_t deadline_us, rql_error *error)
{
    struct batch *own = (struct batch *)batch;
    struct rqli_conn *self = batch->carrier;

    (void)pthread_mutex_lock(&self->shared.mutex);
    if (own->phase == LEFT) { /* its caller waits again */
        own->phase = AWAITED;
        self->shared.callers++;
    }
    return await_replies(self, own, deadline_us, error);
}
