#include "net/hearing.h"

#include "base/clock.h"
#include "net/login.h"
#include "net/url.h"

enum { QUIET_US = 5000000 };

int rqli_hearing_next(struct rqli_hearing *self, struct rqli_pushed *out)
{
    int state = rqli_decoder_next(&self->sock.decoder, &self->arena, &self->reply);

    if (state > 0) {
        self->heard_us = rqli_now_us();
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
           rqli_socket_read(&self->sock, deadline_us, 0) != RQLI_SOCKET_BROKEN) {
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
    self->called_us = 0;
    rqli_push_subscribe(&command, self->sock.endpoint->identity);
    if (!command.failed && rqli_login(&self->sock, NULL, deadline_us, &reading, NULL) == RQL_OK) {
        done = rqli_socket_send(&self->sock, command.data, command.length, deadline_us) &&
               await_confirmation(self, deadline_us);
        if (!done) {
            rqli_socket_close(&self->sock);
        }
    }
    rqli_command_fini(&command);
    return done;
}

/* The server knows of the test, and nothing has been heard since. */
static bool is_awaited(const struct rqli_hearing *self)
{
    return self->called_us != 0 && self->deaf_us != 0 && self->heard_us < self->called_us;
}

/* A test whose end is awaited is not begun anew: where io_timeout is longer than the pause between
 * two, none would ever end. */
bool rqli_hearing_wants_call(struct rqli_hearing *self, int64_t now_us)
{
    if (now_us - self->heard_us < QUIET_US || now_us - self->called_us < QUIET_US ||
        is_awaited(self)) {
        return false;
    }
    self->called_us = now_us;
    self->deaf_us = 0;
    return true;
}

/* The server hands a message on before it says to how many: nobody is a loss at once. */
void rqli_hearing_on_called(struct rqli_hearing *self, int64_t n_heard, int64_t now_us)
{
    int64_t patience_ms = n_heard > 0 ? self->sock.endpoint->io_timeout_ms : 0;

    if (self->called_us != 0) {
        self->deaf_us = rqli_after_ms(now_us, patience_ms);
    }
}

/* What has come and was not read yet is our fault, not its. */
bool rqli_hearing_is_deaf(const struct rqli_hearing *self, int64_t now_us)
{
    return is_awaited(self) && now_us >= self->deaf_us && !rqli_socket_has_bytes(&self->sock);
}

void rqli_hearing_fini(struct rqli_hearing *self)
{
    rqli_socket_close(&self->sock);
    rqli_arena_reset(&self->arena);
}
