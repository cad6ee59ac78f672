/*
 * States: DOWN, CONNECTING (on libuv's pool, which has the socket meanwhile), UP (watched by a
 * uv_poll_t), and CLOSING until libuv has given the handle back. Nothing here needs a lock:
 * everything but open_socket() and ask_for_credentials() runs on the loop's thread.
 */

#include "net/conn/conn_loop.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/must.h"
#include "base/random.h"
#include "base/secret.h"
#include "base/threads.h"
#include "base/uv_start.h"
#include "net/conn/conn.h"
#include "net/conn/stream.h"
#include "net/login/credentials.h"
#include "net/login/login.h"
#include "net/sock/site.h"
#include "net/sock/socket.h"
#include "observe/stats.h"

#include <rql/options.h>
#include <stdlib.h>
#include <uv.h>

/* One command that is to be answered. sent_us is when it was put in the stream, which is earlier
 * than it is sent, so a lease that counts from it ends no later than on the server. */
struct call {
    struct rqli_in_flight in_flight;
    rqli_conn_loop_fn fn; /* NULL: the reply is dropped */
    void *owner;
    int64_t sent_us;
};

enum state { DOWN, CONNECTING, UP, CLOSING };

struct rqli_conn_loop {
    const struct rqli_conn_loop_listener *listener;
    struct rqli_socket sock; /* while CONNECTING the pool's, like predecessor, reading and fault */
    uv_loop_t *loop;
    uv_work_t work;
    uv_poll_t poll;
    enum state state;
    bool was_opened; /* the pool has opened it */
    bool wants_room; /* also watches for room to send more */
    bool is_abandoned;
    bool shall_drop;        /* after the owner that is being given its reply */
    uv_work_t asking;       /* for credentials, with the next two members */
    rql_credentials *asked; /* a secret; allocated only meanwhile */
    rql_status has_asked;
    bool is_asking;
    bool is_renewing; /* is asking, or AUTH is in flight */
    int64_t renew_us;
    void (*closed)(void *); /* of rqli_conn_loop_close() */
    void *closed_data;

    struct rqli_stream stream;
    struct call *calls; /* a ring: those from `first` to before `next` are in flight */
    uint64_t first;
    uint64_t next; /* position of the next command, from 1 */
    struct rqli_arena arena;
    struct rqli_reply reply;      /* the one that is being read */
    struct rqli_seat predecessor; /* if it had calls without an answer */
    struct rqli_clock_reading reading;
    rql_error fault; /* of the last attempt to connect */
    uint64_t generation;
    uint64_t scripts;    /* that the server knows */
    uint64_t flushed_at; /* the last command written before a lost script was noticed */
};

/* SPARE: a caller that finds room may write a few more commands. */
enum {
    IN_FLIGHT_MAX = 4096,
    SPARE = 8,
    GATHERED_MAX_BYTES = 1 << 20,
    BATCH_BYTES = 4096, /* at first: the polls of some locks */
};

struct rqli_conn_loop *rqli_conn_loop_new(struct uv_loop_s *loop, const struct rqli_site *site,
                                          const struct rqli_conn_loop_listener *listener)
{
    struct rqli_conn_loop *self = calloc(1, sizeof *self);
    bool has_memory = true;

    if (!self) {
        return NULL;
    }
    self->listener = listener;
    self->sock.site = site;
    self->sock.fd = -1;
    self->loop = loop;
    self->work.data = self;
    self->poll.data = self;
    self->first = 1; /* 0 is no position */
    self->next = 1;
    /* A connection for pushes sends nothing after its login, so it needs no ring and no stream. */
    if (!listener->on_push) {
        self->calls = calloc(IN_FLIGHT_MAX, sizeof *self->calls);
        has_memory = self->calls && rqli_stream_reserve(&self->stream, BATCH_BYTES);
    }
    return has_memory ? self : rqli_conn_loop_free(self);
}

struct rqli_conn_loop *rqli_conn_loop_free(struct rqli_conn_loop *self)
{
    if (self) {
        rqli_socket_close(&self->sock);
        rqli_stream_fini(&self->stream);
        rqli_arena_reset(&self->arena);
        free(self->calls);
        free(self);
    }
    return NULL;
}

void rqli_conn_loop_abandon(struct rqli_conn_loop *self)
{
    self->is_abandoned = true;
    if (self->sock.fd >= 0) {
        rqli_socket_abandon(&self->sock);
    }
}

bool rqli_conn_loop_is_up(const struct rqli_conn_loop *self)
{
    return self->state == UP;
}

bool rqli_conn_loop_is_idle(const struct rqli_conn_loop *self)
{
    return self->state == UP && self->first == self->next;
}

bool rqli_conn_loop_is_down(const struct rqli_conn_loop *self)
{
    return self->state == DOWN && !self->is_asking;
}

uint64_t rqli_conn_loop_generation(const struct rqli_conn_loop *self)
{
    return self->generation;
}

int64_t rqli_conn_loop_heard_us(const struct rqli_conn_loop *self)
{
    return self->stream.heard_us;
}

int64_t rqli_conn_loop_answered_us(const struct rqli_conn_loop *self)
{
    return self->stream.answered_us;
}

const struct rqli_socket *rqli_conn_loop_socket(const struct rqli_conn_loop *self)
{
    return &self->sock;
}

/* Counts one event of the connection. Runs on the loop's thread. */
static void count_event(const struct rqli_conn_loop *self, enum rqli_stat what)
{
    rqli_stats_count(self->sock.site->session->stats, (rqli_stats_shard)rqli_thread_number(), what,
                     1);
}

/* ---- calls ---- */

bool rqli_conn_loop_has_room(const struct rqli_conn_loop *self)
{
    return self->state == UP && self->next - self->first < IN_FLIGHT_MAX - SPARE &&
           self->stream.queued_at - self->stream.sent_at < GATHERED_MAX_BYTES;
}

struct rqli_command *rqli_conn_loop_out(struct rqli_conn_loop *self)
{
    return &self->stream.out;
}

/* The caller has asked for room before it writes commands, and then writes no more than SPARE of
 * them. */
uint64_t rqli_conn_loop_expect(struct rqli_conn_loop *self, rqli_conn_loop_fn fn, void *owner)
{
    struct call *call = &self->calls[self->next % IN_FLIGHT_MAX];

    RQLI_MUST(self->next - self->first < IN_FLIGHT_MAX);
    *call = (struct call){.fn = fn, .owner = owner, .sent_us = rqli_now_us()};
    rqli_stream_expect(&self->stream, &call->in_flight, call->sent_us);
    count_event(self, RQLI_STAT_COMMANDS);
    self->scripts |= self->stream.out.texts;
    self->stream.out.texts = 0;
    return self->next++;
}

uint64_t rqli_conn_loop_scripts(const struct rqli_conn_loop *self)
{
    return self->scripts;
}

void rqli_conn_loop_forget_scripts(struct rqli_conn_loop *self, uint64_t position)
{
    if (position > self->flushed_at) {
        self->scripts = 0;
        self->flushed_at = self->next - 1;
    }
}

void rqli_conn_loop_wait_longer(struct rqli_conn_loop *self, int64_t more_ms)
{
    rqli_stream_wait_longer(&self->stream, more_ms);
}

/* A position whose command is answered already is not in flight: then nothing happens. */
void rqli_conn_loop_orphan(struct rqli_conn_loop *self, uint64_t position)
{
    if (position >= self->first && position < self->next) {
        self->calls[position % IN_FLIGHT_MAX].fn = NULL;
    }
}

/* Takes the oldest command in flight, by value: its owner may add commands while it reads the
 * answer, and one of them may get its place. */
static struct call take_first_call(struct rqli_conn_loop *self)
{
    (void)rqli_stream_take(&self->stream);
    return self->calls[self->first++ % IN_FLIGHT_MAX];
}

/* ---- the end of a connection, and the next one ---- */

/* Called when libuv has given the handle back: only now may self->poll be used again, or freed. */
static void on_handle_closed(uv_handle_t *handle)
{
    struct rqli_conn_loop *self = handle->data;

    self->state = DOWN;
    if (self->closed && !self->is_asking) {
        self->closed(self->closed_data);
    }
}

/* Ends the connection and answers each command in flight with its fate; only those before `end`,
 * because their owners may add new ones. The server may still be working on them, or receive them
 * yet, so the next login has it end this connection. */
static void break_off(struct rqli_conn_loop *self)
{
    uint64_t end = self->next;

    if (self->state != UP) {
        return;
    }
    self->state = CLOSING;
    rqli_backoff_on_end(&self->stream.backoff, self->sock.site->tls != NULL, rqli_now_us(),
                        rqli_random_below(RQLI_BACKOFF_RANDOM));
    self->predecessor = self->first < end ? self->sock.seat : (struct rqli_seat){0};
    self->shall_drop = false;
    uv_close((uv_handle_t *)&self->poll, on_handle_closed); /* stops using the descriptor at once */
    rqli_socket_close(&self->sock);
    rqli_arena_reset(&self->arena);
    self->reply = (struct rqli_reply){0};
    while (self->first < end) {
        rql_status fate = rqli_stream_fate(&self->stream, self->stream.first);
        struct call call = take_first_call(self);

        if (call.fn) {
            call.fn(call.owner, NULL, fate);
        }
    }
}

void rqli_conn_loop_drop(struct rqli_conn_loop *self)
{
    break_off(self);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct rqli_conn_loop *self = poll->data;

    if (self->is_abandoned) {
        (void)uv_poll_stop(poll);
        return;
    }
    if (events & UV_WRITABLE) {
        rqli_conn_loop_write(self);
    }
    if (status < 0 || events & UV_READABLE) { /* reading finds out what the error is */
        rqli_conn_loop_read(self);
    }
}

/* Watches for room to send only while something is left to send, because the loop would be woken
 * for room all the time. */
static void want_room(struct rqli_conn_loop *self, bool wants_room)
{
    if (wants_room != self->wants_room && self->state == UP) {
        self->wants_room = wants_room;
        (void)uv_poll_start(&self->poll, UV_READABLE | (wants_room ? UV_WRITABLE : 0), on_poll);
    }
}

/* Opens the connection, on a thread of the pool while nothing else touches the socket. Blocks for
 * connect_timeout_ms at most. */
static void open_socket(uv_work_t *work)
{
    struct rqli_conn_loop *self = work->data;
    int64_t deadline_us =
        rqli_after_ms(rqli_now_us(), self->sock.site->session->connect_timeout_ms);

    self->fault = (rql_error){0};
    self->was_opened =
        rqli_login_any(&self->sock, self->listener->on_push ? NULL : &self->predecessor,
                       deadline_us, &self->reading, &self->fault) == RQL_OK;
}

/* Watches the socket. libuv would abort the process if it had no memory, so room is reserved
 * before. */
static bool start_watching(struct rqli_conn_loop *self)
{
    if (!rqli_uv_has_room(self->sock.fd) ||
        uv_poll_init_socket(self->loop, &self->poll, self->sock.fd) != 0) {
        rqli_socket_close(&self->sock);
        (void)rqli_fail(&self->fault, RQL_E_NOMEM, "%s: no memory to watch the connection",
                        self->sock.site->where);
        return false;
    }
    uv_unref((uv_handle_t *)&self->poll); /* calls under way keep the loop alive, not the handle */
    self->state = UP;
    /* The value changes from true to false, so that want_room() begins to watch. */
    self->wants_room = true;
    want_room(self, false);
    return true;
}

/* Delays the next attempt more with each failure, and at random: see struct rqli_backoff. */
static void back_off(struct rqli_conn_loop *self)
{
    rqli_backoff_on_failure(&self->stream.backoff, rqli_now_us(),
                            rqli_site_pause_ms(self->sock.site),
                            rqli_random_below(RQLI_BACKOFF_RANDOM));
}

/* Takes the result of an attempt, back on the loop. If the connection was closed meanwhile, the
 * socket is of no use. After a failure `predecessor` stays unchanged: the next attempt ends the
 * predecessor. */
static void on_opened(uv_work_t *work, int status)
{
    struct rqli_conn_loop *self = work->data;

    self->state = DOWN;
    if (self->closed) {
        if (status == 0 && self->was_opened) {
            rqli_socket_close(&self->sock);
        }
        if (!self->is_asking) {
            self->closed(self->closed_data);
        }
        return;
    }
    if (self->was_opened && start_watching(self)) {
        self->predecessor = (struct rqli_seat){0};
        self->generation++;
        self->scripts = self->sock.scripts;
        rqli_stream_on_connected(&self->stream, rqli_now_us());
        count_event(self, RQLI_STAT_CONNECTIONS);
    } else {
        back_off(self);
    }
    self->listener->on_opened(self->listener->self, &self->reading, &self->fault);
}

/* ---- credentials ---- */

/* Credentials that expire: the pool asks for them, because the caller's function may block, and
 * AUTH is sent over the connection, which stays in use meanwhile. */

static void on_authenticated(void *owner, const struct rqli_batch *answer, rql_status fault)
{
    struct rqli_conn_loop *self = owner;

    self->is_renewing = false;
    self->stream.has_secret = false;
    self->sock.renew_us = !fault && answer->reply->type == RQLI_REPLY_STATUS
                              ? self->renew_us
                              : rqli_credentials_retry_us(rqli_now_us());
}

/* Asks for credentials, on a thread of the pool. */
static void ask_for_credentials(uv_work_t *work)
{
    struct rqli_conn_loop *self = work->data;
    const struct rqli_site *site = self->sock.site;

    self->has_asked =
        rqli_credentials_ask(site, rqli_after_ms(rqli_now_us(), site->session->connect_timeout_ms),
                             self->asked, &self->renew_us, NULL);
}

/* Sends the credentials, back on the loop. If a new connection was made meanwhile, its login has
 * asked for credentials too, which does no harm. */
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

static void renew_if_due(struct rqli_conn_loop *self)
{
    if (self->state != UP || self->is_renewing || !rqli_socket_wants_login(&self->sock)) {
        return;
    }
    self->asked = rqli_secret_new(sizeof *self->asked);
    self->asking.data = self;
    self->is_asking =
        self->asked && uv_queue_work(self->loop, &self->asking, ask_for_credentials, on_asked) == 0;
    self->is_renewing = self->is_asking;
    if (!self->is_asking) {
        self->asked = rqli_secret_free(self->asked);
    }
}

/* ---- closing ---- */

/* In each state exactly one function calls `closed`: on_handle_closed() if UP or CLOSING;
 * on_opened() if CONNECTING, whether the attempt is cancelled or completes; this one if DOWN.
 * on_asked() calls it instead if it comes last. */
void rqli_conn_loop_close(struct rqli_conn_loop *self, void (*closed)(void *data), void *data)
{
    while (self->first < self->next) {
        (void)take_first_call(self); /* its owner does not get an answer */
    }
    self->closed = closed;
    self->closed_data = data;
    if (self->is_asking) {
        (void)uv_cancel((uv_req_t *)&self->asking);
    }
    if (self->state == UP) {
        break_off(self);
    } else if (self->state == CONNECTING) {
        (void)uv_cancel((uv_req_t *)&self->work);
    } else if (self->state == DOWN && !self->is_asking) {
        closed(data);
    }
}

/* ---- reading and writing ---- */

/* As rqli_batch::drop. The connection ends after the owner that calls this: see hand_out(). */
static void drop_connection(const struct rqli_batch *batch)
{
    struct rqli_conn_loop *self = batch->carrier;

    self->shall_drop = true; /* replies are being handed out */
}

/* Gives the reply to the owner of the oldest command in flight. */
static void hand_out_reply(struct rqli_conn_loop *self)
{
    struct call call = take_first_call(self);
    const struct rqli_batch answer = {
        .reply = &self->reply,
        .sent_us = call.sent_us,
        .received_us = self->stream.heard_us,
        .generation = self->generation,
        .drop = drop_connection,
        .carrier = self,
    };

    if (call.fn) {
        call.fn(call.owner, &answer, RQL_OK);
    }
}

/* Hands out all replies that have come. False: the bytes made no sense, or the connection shall
 * drop. */
static bool hand_out(struct rqli_conn_loop *self)
{
    const struct rqli_conn_loop_listener *listener = self->listener;

    while (self->state == UP && (self->first < self->next || listener->on_push)) {
        int state = rqli_decoder_next(&self->sock.decoder, &self->arena, &self->reply);

        if (state <= 0) {
            return state == 0;
        }
        if (listener->on_push) {
            listener->on_push(listener->self, &self->reply);
        } else {
            rqli_stream_on_reply(&self->stream);
            hand_out_reply(self);
        }
        rqli_arena_reset(&self->arena);
        self->reply = (struct rqli_reply){0};
        if (self->shall_drop) {
            return false;
        }
    }
    /* There must be no reply without a command. */
    return self->state != UP || rqli_decoder_is_empty(&self->sock.decoder);
}

/* Reads once; libuv calls again while there is more. There may be nothing to read. */
void rqli_conn_loop_read(struct rqli_conn_loop *self)
{
    enum rqli_socket_read got = RQLI_SOCKET_NOTHING;

    if (self->state == UP) {
        got = rqli_socket_read(&self->sock, 0, 0);
    }
    if (got == RQLI_SOCKET_BYTES) {
        self->stream.heard_us = rqli_now_us();
    }
    if (got == RQLI_SOCKET_BROKEN || (got == RQLI_SOCKET_BYTES && !hand_out(self))) {
        break_off(self);
    }
    if (got == RQLI_SOCKET_BYTES && self->listener->on_push) {
        self->listener->on_push(self->listener->self, NULL);
    }
}

/* Sends as much as the socket takes; on_poll() sends the rest when there is room. If memory ran
 * out, the last command is incomplete, and nothing can follow it. */
void rqli_conn_loop_write(struct rqli_conn_loop *self)
{
    bool goes_on = true;

    if (self->stream.out.failed) {
        break_off(self);
    }
    renew_if_due(self);
    while (goes_on && self->state == UP) {
        struct rqli_slice bytes;
        ssize_t sent;

        if (!rqli_stream_has_unsent(&self->stream)) {
            rqli_stream_begin_write(&self->stream);
        }
        if (!rqli_stream_has_unsent(&self->stream)) {
            break;
        }
        bytes = rqli_stream_send(&self->stream);
        sent = rqli_socket_send_some(&self->sock, bytes.data, bytes.length);
        if (sent < 0) {
            break_off(self);
        }
        goes_on = sent >= 0 && rqli_stream_on_sent(&self->stream, (size_t)sent);
    }
    want_room(self, rqli_stream_has_unsent(&self->stream));
}

/* Keeps nothing to be sent later: the bytes are sent now, or the connection ends. */
void rqli_conn_loop_tell(struct rqli_conn_loop *self, const struct rqli_command *command)
{
    if (command->n_commands > 0 &&
        (command->failed || rqli_socket_send_some(&self->sock, command->data, command->length) !=
                                (ssize_t)command->length)) {
        break_off(self);
    }
}

/* ---- time ---- */

/* Silence counts only while answers are owed: an unused connection receives nothing. */
int64_t rqli_conn_loop_due_us(const struct rqli_conn_loop *self, bool wanted)
{
    if (self->state == UP && self->first < self->next) { /* silence for this long ends it */
        return rqli_stream_silent_us(&self->stream, self->sock.site->session->io_timeout_ms);
    }
    return self->state == DOWN && wanted && !self->closed ? self->stream.backoff.next_us
                                                          : RQLI_NEVER_US;
}

void rqli_conn_loop_tend(struct rqli_conn_loop *self, int64_t now_us, bool wanted)
{
    if (rqli_conn_loop_due_us(self, wanted) > now_us) {
        return;
    }
    if (self->state == UP) {
        rqli_conn_loop_read(self); /* the loop may have been held up, and not the server */
        if (self->state == UP && rqli_conn_loop_due_us(self, wanted) <= rqli_now_us()) {
            break_off(self);
        }
        return;
    }
    self->was_opened = false;
    if (uv_queue_work(self->loop, &self->work, open_socket, on_opened) == 0) {
        self->state = CONNECTING;
    } else {
        back_off(self);
    }
}
