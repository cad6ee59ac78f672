#include "link/hearing.h"

#include "base/clock.h"
#include "link/endpoint.h"

int rqli_hearing_next(struct rqli_hearing *self, struct rqli_pushed *out)
{
    int state = rqli_decoder_next(&self->wire.decoder, &self->arena, &self->reply);

    if (state > 0) {
        *out = rqli_push_read(&self->reply);
    }
    return state;
}

void rqli_hearing_forget(struct rqli_hearing *self)
{
    rqli_arena_reset(&self->arena);
    self->reply = (struct rqli_reply){0};
}

/* Reads one reply. */
static enum rqli_pushed_kind read_kind(struct rqli_hearing *self, int64_t deadline_us)
{
    struct rqli_pushed pushed = {.kind = RQLI_PUSHED_NOTHING};
    int state = rqli_hearing_next(self, &pushed);

    while (state == 0 && rqli_now_us() < deadline_us &&
           rqli_wire_read(&self->wire, deadline_us, 0) != RQLI_WIRE_BROKEN) {
        state = rqli_hearing_next(self, &pushed);
    }
    if (state > 0) {
        rqli_hearing_forget(self);
    }
    return pushed.kind;
}

/* Our channel must be confirmed; the right to be told of changes may be missing: then we poll. */
static bool await_confirmation(struct rqli_hearing *self, int64_t deadline_us)
{
    if (read_kind(self, deadline_us) != RQLI_PUSHED_CONFIRMATION) {
        return false;
    }
    (void)read_kind(self, deadline_us);
    return true;
}

bool rqli_hearing_open(struct rqli_hearing *self, int64_t deadline_us)
{
    struct rqli_clock_reading reading;
    struct rqli_command command = {0};
    bool done = false;

    rqli_hearing_forget(self);
    rqli_push_subscribe(&command, self->wire.endpoint->identity);
    if (!command.failed && rqli_wire_open(&self->wire, 0, deadline_us, &reading, NULL) == RQL_OK) {
        done = rqli_wire_send(&self->wire, command.data, command.length, deadline_us) &&
               await_confirmation(self, deadline_us);
        if (!done) {
            rqli_wire_close(&self->wire);
        }
    }
    rqli_command_fini(&command);
    return done;
}

void rqli_hearing_fini(struct rqli_hearing *self)
{
    rqli_wire_close(&self->wire);
    rqli_arena_reset(&self->arena);
}
