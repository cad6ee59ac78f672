#include "net/call_queue.h"

#include "base/clock.h"
#include "net/stream.h"

static struct rqli_queued_call_line *line_of(const struct rqli_queued_call *queued_call)
{
    struct rqli_call_queue *all = queued_call->all;

    if (queued_call->is_repeated) {
        return &all->repeats;
    }
    return queued_call->kind->gives_back ? &all->returns : &all->wishes;
}

static void put_in_line(struct rqli_queued_call *queued_call)
{
    struct rqli_queued_call_line *line = line_of(queued_call);

    queued_call->next = NULL;
    queued_call->previous = line->last;
    *(line->last ? &line->last->next : &line->first) = queued_call;
    line->last = queued_call;
    queued_call->state = RQLI_QUEUED_CALL_QUEUED;
}

static void take_from_line(struct rqli_queued_call *queued_call)
{
    struct rqli_queued_call_line *line = line_of(queued_call);

    *(queued_call->previous ? &queued_call->previous->next : &line->first) = queued_call->next;
    *(queued_call->next ? &queued_call->next->previous : &line->last) = queued_call->previous;
    queued_call->state = RQLI_QUEUED_CALL_IDLE;
}

void rqli_queued_call_go(struct rqli_call_queue *self, struct rqli_queued_call *queued_call,
                         const struct rqli_queued_call_kind *kind)
{
    queued_call->all = self;
    queued_call->kind = kind;
    queued_call->is_repeated = false;
    put_in_line(queued_call);
}

void rqli_queued_call_stop(struct rqli_queued_call *queued_call)
{
    if (queued_call->state == RQLI_QUEUED_CALL_QUEUED) {
        take_from_line(queued_call);
    } else if (queued_call->state == RQLI_QUEUED_CALL_SENT) {
        rqli_conn_loop_orphan(queued_call->all->conn, queued_call->position);
        queued_call->state = RQLI_QUEUED_CALL_IDLE;
    }
}

static struct rqli_queued_call *next_of(const struct rqli_call_queue *self)
{
    if (self->repeats.first) {
        return self->repeats.first;
    }
    return self->returns.first ? self->returns.first : self->wishes.first;
}

bool rqli_call_queue_are_waiting(const struct rqli_call_queue *self)
{
    return next_of(self) != NULL;
}

static void on_answer(void *owner, const struct rqli_exchange *answer, rql_status status)
{
    struct rqli_queued_call *queued_call = owner;
    rql_error error = {0};

    queued_call->state = RQLI_QUEUED_CALL_IDLE;
    if (status) {
        (void)rqli_stream_fault(status, queued_call->all->where, &error);
    } else if (answer->reply->type == RQLI_REPLY_ERROR && !queued_call->is_plain) {
        struct rqli_call call;

        if (rqli_reply_says(answer->reply, "NOSCRIPT")) {
            queued_call->is_repeated = true;
            put_in_line(queued_call);
            return;
        }
        rqli_call_begin(&call, NULL); /* the message names it */
        queued_call->kind->write(queued_call, &call, rqli_now_us());
        status = rqli_exchange_fault(answer, answer->reply, rqli_scripts[call.script].name,
                                     rqli_call_subject(&call), &error);
    }
    queued_call->kind->read(queued_call, status ? NULL : answer, status, &error);
}

/* With the text, unless another call behind it has brought that meanwhile. */
static void write_one(struct rqli_call_queue *self, struct rqli_queued_call *queued_call)
{
    struct rqli_call call;
    bool with_text = false;

    take_from_line(queued_call);
    rqli_call_begin(&call, rqli_conn_loop_out(self->conn));
    queued_call->kind->write(queued_call, &call, rqli_now_us());
    queued_call->is_plain = call.is_plain;
    if (!call.is_plain) {
        with_text = queued_call->is_repeated && queued_call->position >= self->taught[call.script];
        rqli_call_write(&call, call.out, with_text);
    }
    queued_call->position = rqli_conn_loop_expect(self->conn, on_answer, queued_call);
    queued_call->state = RQLI_QUEUED_CALL_SENT;
    if (with_text) {
        self->taught[call.script] = queued_call->position;
    }
}

void rqli_call_queue_write(struct rqli_call_queue *self)
{
    struct rqli_queued_call *next = next_of(self);

    while (next && rqli_conn_loop_has_room(self->conn)) {
        write_one(self, next);
        next = next_of(self);
    }
}

/* Those who are told may stand in line again, behind. */
static void fail_line(struct rqli_queued_call_line *line, const rql_error *fault)
{
    size_t count = 0;
    struct rqli_queued_call *queued_call;

    for (queued_call = line->first; queued_call; queued_call = queued_call->next) {
        count++;
    }
    for (; count > 0 && line->first; count--) {
        queued_call = line->first;
        take_from_line(queued_call);
        queued_call->kind->read(queued_call, NULL, fault->status, fault);
    }
}

void rqli_call_queue_fail(struct rqli_call_queue *self, const rql_error *fault)
{
    fail_line(&self->repeats, fault);
    fail_line(&self->returns, fault);
    fail_line(&self->wishes, fault);
}
