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

#include "net/conn_state.h"
#include "net/decode.h"

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
