#include "lock/record.h"

#include "base/clock.h"

enum { PERIOD_US = 1000000 };

void rqli_record_init(struct rqli_record *self, rql_client *client, const struct rqli_duty_ops *ops)
{
    self->client = client;
    self->duty.ops = ops;
    self->duty.set = self->keys.set = rqli_client_nth_set(client, 0);
}

static void set_owed(struct rqli_record *self, bool is_owed)
{
    self->client->background->shared.n_records += is_owed - self->is_owed;
    self->is_owed = is_owed;
}

static bool plan(struct rqli_record *self, int64_t at_us)
{
    struct rqli_background *background = self->client->background;

    self->is_reserved = self->is_reserved || rqli_background_reserve(background, &self->duty);
    if (self->is_reserved) {
        set_owed(self, true);
        rqli_background_set(background, &self->duty, at_us);
    }
    return self->is_reserved;
}

bool rqli_record_begin(struct rqli_duty *duty, int64_t now_us)
{
    bool has_time = now_us != RQLI_NEVER_US;

    if (!has_time) {
        set_owed((struct rqli_record *)duty, false);
    }
    return has_time;
}

/* Returns when the next call may be sent: at once, when the client ends. */
static int64_t next_us(const struct rqli_record *self)
{
    return rqli_background_is_ending(self->client->background) ? 0 : rqli_now_us() + PERIOD_US;
}

bool rqli_record_plan(struct rqli_record *self)
{
    return self->is_owed || plan(self, next_us(self));
}

void rqli_record_plan_next(struct rqli_record *self, bool has_more, bool was_sent)
{
    bool is_ending = rqli_background_is_ending(self->client->background);

    if (has_more && (was_sent || !is_ending)) {
        (void)plan(self, next_us(self));
    } else {
        set_owed(self, false);
    }
}

void rqli_record_hurry(struct rqli_record *self)
{
    if (self->is_owed) {
        rqli_background_set(self->client->background, &self->duty, 0);
    }
}
