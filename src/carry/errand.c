#include "carry/errand.h"

#include "base/clock.h"
#include "base/error.h"

static struct rqli_errand_line *line_of(const struct rqli_errand *errand)
{
    struct rqli_errands *all = errand->all;

    if (errand->is_repeated) {
        return &all->repeats;
    }
    return errand->kind->gives_back ? &all->returns : &all->wishes;
}

static void put_in_line(struct rqli_errand *errand)
{
    struct rqli_errand_line *line = line_of(errand);

    errand->next = NULL;
    errand->previous = line->last;
    *(line->last ? &line->last->next : &line->first) = errand;
    line->last = errand;
    errand->state = RQLI_ERRAND_QUEUED;
}

static void take_from_line(struct rqli_errand *errand)
{
    struct rqli_errand_line *line = line_of(errand);

    *(errand->previous ? &errand->previous->next : &line->first) = errand->next;
    *(errand->next ? &errand->next->previous : &line->last) = errand->previous;
    errand->state = RQLI_ERRAND_IDLE;
}

void rqli_errand_go(struct rqli_errands *self, struct rqli_errand *errand,
                    const struct rqli_errand_kind *kind)
{
    errand->all = self;
    errand->kind = kind;
    errand->is_repeated = false;
    put_in_line(errand);
}

void rqli_errand_stop(struct rqli_errand *errand)
{
    if (errand->state == RQLI_ERRAND_QUEUED) {
        take_from_line(errand);
    } else if (errand->state == RQLI_ERRAND_SENT) {
        rqli_pipe_orphan(errand->all->pipe, errand->place);
        errand->state = RQLI_ERRAND_IDLE;
    }
}

static struct rqli_errand *next_of(const struct rqli_errands *self)
{
    if (self->repeats.first) {
        return self->repeats.first;
    }
    return self->returns.first ? self->returns.first : self->wishes.first;
}

bool rqli_errands_are_waiting(const struct rqli_errands *self)
{
    return next_of(self) != NULL;
}

static rql_status no_answer(const struct rqli_errands *self, rql_status status, rql_error *error)
{
    if (status == RQL_E_UNKNOWN) {
        return rqli_fail(error, status, "%s: no answer; the command may or may not have been done",
                         self->where);
    }
    return rqli_fail(error, status, "%s: the connection broke before the command was sent",
                     self->where);
}

static void on_answer(void *owner, const struct rqli_exchange *answer, rql_status status)
{
    struct rqli_errand *errand = owner;
    rql_error error = {0};

    errand->state = RQLI_ERRAND_IDLE;
    if (status) {
        (void)no_answer(errand->all, status, &error);
    } else if (answer->reply->type == RQLI_REPLY_ERROR) {
        if (rqli_reply_says(answer->reply, "NOSCRIPT")) {
            errand->is_repeated = true;
            put_in_line(errand);
            return;
        }
        status = rqli_exchange_fault(answer, answer->reply, rqli_scripts[errand->script].name,
                                     errand->keys->lock.data, &error);
    }
    errand->kind->read(errand, status ? NULL : answer, status, &error);
}

/* With the text, unless another call behind it has brought that meanwhile. */
static void write_one(struct rqli_errands *self, struct rqli_errand *errand)
{
    struct rqli_call call;
    bool with_text;

    take_from_line(errand);
    errand->kind->write(errand, &call, rqli_now_us());
    with_text = errand->is_repeated && errand->place >= self->taught[call.script];
    rqli_call_write(&call, rqli_pipe_out(self->pipe), with_text);
    errand->place = rqli_pipe_expect(self->pipe, on_answer, errand);
    errand->state = RQLI_ERRAND_SENT;
    errand->script = call.script;
    errand->keys = call.keys;
    if (with_text) {
        self->taught[call.script] = errand->place;
    }
}

void rqli_errands_write(struct rqli_errands *self)
{
    struct rqli_errand *next = next_of(self);

    while (next && rqli_pipe_has_room(self->pipe)) {
        write_one(self, next);
        next = next_of(self);
    }
}

/* Those who are told may stand in line again, behind. */
static void fail_line(struct rqli_errand_line *line, const rql_error *fault)
{
    size_t count = 0;
    struct rqli_errand *errand;

    for (errand = line->first; errand; errand = errand->next) {
        count++;
    }
    for (; count > 0 && line->first; count--) {
        errand = line->first;
        take_from_line(errand);
        errand->kind->read(errand, NULL, fault->status, fault);
    }
}

void rqli_errands_fail(struct rqli_errands *self, const rql_error *fault)
{
    fail_line(&self->repeats, fault);
    fail_line(&self->returns, fault);
    fail_line(&self->wishes, fault);
}
