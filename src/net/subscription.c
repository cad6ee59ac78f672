#include "net/subscription.h"

#include "base/clock.h"
#include "net/login.h"
#include "net/url.h"

enum { QUIET_US = 5000000 };

int rqli_subscription_next(struct rqli_subscription *self, struct rqli_pushed *out)
{
    int state = rqli_decoder_next(&self->sock.decoder, &self->arena, &self->reply);

    if (state > 0) {
        self->heard_us = rqli_now_us();
        *out = rqli_push_read(&self->reply);
    }
    return state;
}

void rqli_subscription_forget(struct rqli_subscription *self)
{
    rqli_arena_reset(&self->arena);
    self->reply = (struct rqli_reply){0};
}

/* Reads one reply. */
static enum rqli_pushed_kind read_kind(struct rqli_subscription *self, int64_t deadline_us)
{
    struct rqli_pushed pushed = {.kind = RQLI_PUSHED_NOTHING};
    int state = rqli_subscription_next(self, &pushed);

    while (state == 0 && rqli_now_us() < deadline_us &&
           rqli_socket_read(&self->sock, deadline_us, 0) != RQLI_SOCKET_BROKEN) {
        state = rqli_subscription_next(self, &pushed);
    }
    if (state > 0) {
        rqli_subscription_forget(self);
    }
    return pushed.kind;
}

bool rqli_subscription_open(struct rqli_subscription *self, int64_t deadline_us)
{
    struct rqli_clock_reading reading;
    struct rqli_command command = {0};
    bool done = false;

    rqli_subscription_forget(self);
    self->pinged_us = 0;
    rqli_push_subscribe(&command, self->sock.endpoint->identity);
    if (!command.failed && rqli_login(&self->sock, NULL, deadline_us, &reading, NULL) == RQL_OK) {
        done = rqli_socket_send(&self->sock, command.data, command.length, deadline_us) &&
               read_kind(self, deadline_us) == RQLI_PUSHED_CONFIRMATION;
        if (done) { /* the right to be told of changes may be missing: then we poll */
            (void)read_kind(self, deadline_us);
        } else {
            rqli_socket_close(&self->sock);
        }
    }
    rqli_command_fini(&command);
    return done;
}

/* The server knows of the test, and nothing has been heard since. */
static bool is_awaited(const struct rqli_subscription *self)
{
    return self->pinged_us != 0 && self->silent_us != 0 && self->heard_us < self->pinged_us;
}

/* A test whose end is awaited is not begun anew: where io_timeout is longer than the pause between
 * two, none would ever end. */
bool rqli_subscription_wants_ping(struct rqli_subscription *self, int64_t now_us)
{
    if (now_us - self->heard_us < QUIET_US || now_us - self->pinged_us < QUIET_US ||
        is_awaited(self)) {
        return false;
    }
    self->pinged_us = now_us;
    self->silent_us = 0;
    return true;
}

/* The server hands a message on before it says to how many: nobody is a loss at once. */
void rqli_subscription_on_pinged(struct rqli_subscription *self, int64_t n_received, int64_t now_us)
{
    int64_t budget_ms = n_received > 0 ? self->sock.endpoint->io_timeout_ms : 0;

    if (self->pinged_us != 0) {
        self->silent_us = rqli_after_ms(now_us, budget_ms);
    }
}

/* What has come and was not read yet is our fault, not its. */
bool rqli_subscription_is_silent(const struct rqli_subscription *self, int64_t now_us)
{
    return is_awaited(self) && now_us >= self->silent_us && !rqli_socket_has_bytes(&self->sock);
}

void rqli_subscription_fini(struct rqli_subscription *self)
{
    rqli_socket_close(&self->sock);
    rqli_arena_reset(&self->arena);
}
