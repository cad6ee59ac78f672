#include "net/subscription.h"

#include "base/clock.h"
#include "net/socket.h"
#include "net/url.h"
#include "wire/answer.h"

enum { QUIET_US = 5000000 };

/* Reads one reply. */
static enum rqli_pushed_kind read_kind(struct rqli_socket *sock, int64_t deadline_us)
{
    struct rqli_arena arena = {0};
    struct rqli_reply reply = {0};
    enum rqli_pushed_kind kind = RQLI_PUSHED_NOTHING;
    int state = rqli_decoder_next(&sock->decoder, &arena, &reply);

    while (state == 0 && rqli_now_us() < deadline_us &&
           rqli_socket_read(sock, deadline_us, 0) != RQLI_SOCKET_BROKEN) {
        state = rqli_decoder_next(&sock->decoder, &arena, &reply);
    }
    if (state > 0) {
        kind = rqli_push_read(&reply).kind;
    }
    rqli_arena_reset(&arena);
    return kind;
}

bool rqli_subscription_open(struct rqli_socket *sock, int64_t deadline_us)
{
    struct rqli_clock_reading reading;
    struct rqli_command command = {0};
    bool done = false;

    rqli_push_subscribe(&command, sock->endpoint->identity);
    if (!command.failed && rqli_login(sock, NULL, deadline_us, &reading, NULL) == RQL_OK) {
        done = rqli_socket_send(sock, command.data, command.length, deadline_us) &&
               read_kind(sock, deadline_us) == RQLI_PUSHED_CONFIRMATION;
        if (done) { /* the right to be told of changes may be missing: then we poll */
            (void)read_kind(sock, deadline_us);
        } else {
            rqli_socket_close(sock);
        }
    }
    rqli_command_fini(&command);
    return done;
}

/* The server knows of the test, and nothing has been heard since. */
static bool is_awaited(const struct rqli_subscription *self, int64_t heard_us)
{
    return self->pinged_us != 0 && self->silent_us != 0 && heard_us < self->pinged_us;
}

/* A test whose end is awaited is not begun anew: where io_timeout is longer than the pause between
 * two, none would ever end. */
bool rqli_subscription_wants_ping(struct rqli_subscription *self, int64_t heard_us, int64_t now_us)
{
    if (now_us - heard_us < QUIET_US || now_us - self->pinged_us < QUIET_US ||
        is_awaited(self, heard_us)) {
        return false;
    }
    self->pinged_us = now_us;
    self->silent_us = 0;
    return true;
}

/* The server hands a message on before it says to how many: nobody is a loss at once. */
void rqli_subscription_on_pinged(struct rqli_subscription *self, int64_t n_received,
                                 int64_t io_timeout_ms, int64_t now_us)
{
    if (self->pinged_us != 0) {
        self->silent_us = rqli_after_ms(now_us, n_received > 0 ? io_timeout_ms : 0);
    }
}

bool rqli_subscription_is_silent(const struct rqli_subscription *self, int64_t heard_us,
                                 int64_t now_us)
{
    return is_awaited(self, heard_us) && now_us >= self->silent_us;
}
