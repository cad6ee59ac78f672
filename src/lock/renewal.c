#include "lock/renewal.h"
#include "observe/observe.h"

#include "wire/answer.h"
#include "wire/call.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

/* A worker that has ended cannot be working under the lock any more (F-54). */
static bool owner_is_gone(const rql_lock *lock)
{
    return tgkill(getpid(), lock->owner_thread, 0) != 0 && errno == ESRCH;
}

/* False: it shall not go on, or no more than that is left of the hold. */
static bool wants_renewal(const rql_lock *lock, int64_t now_us, int64_t *ttl_ms_out)
{
    const struct rqli_lease *lease = &lock->kept.lease;

    return !(lease->renews && owner_is_gone(lock)) &&
           rqli_lease_wants_renewal(lease, now_us, ttl_ms_out);
}

void rqli_renewals_collect(struct rqli_renewals *self, struct rqli_schedule *schedule,
                           int64_t now_us)
{
    self->count = 0;
    while (self->count < RQLI_RENEWALS_MAX) {
        rql_lock *lock = rqli_schedule_take_renewal(schedule, now_us);
        int64_t ttl_ms;

        if (!lock) {
            break;
        }
        if (rqli_lease_state(&lock->kept.lease, now_us) == RQL_GONE) {
            continue; /* to be told as lost */
        }
        if (wants_renewal(lock, now_us, &ttl_ms)) {
            self->item[self->count].lock = lock;
            self->item[self->count++].ttl_ms = ttl_ms;
        } else {
            rqli_lease_stop_renewal(&lock->kept.lease);
        }
    }
}

void rqli_renewals_forget(struct rqli_renewals *self, const rql_lock *lock)
{
    size_t i;

    for (i = 0; i < self->count; i++) {
        if (self->item[i].lock == lock) {
            self->item[i].lock = NULL;
        }
    }
}

void rqli_renewals_write(struct rqli_renewals *self, struct rqli_command *command, bool with_text)
{
    size_t i;

    for (i = 0; i < self->count; i++) {
        const rql_lock *lock = self->item[i].lock;
        struct rqli_call call;

        if (lock) {
            self->item[i].reply_at = command->n_commands;
            rqli_call_init(&call, RQLI_SCRIPT_EXTEND, &lock->keys);
            rqli_call_text(&call, lock->grant_nonce);
            rqli_call_int(&call, self->item[i].ttl_ms);
            rqli_call_chance(&call);
            rqli_call_write(&call, command, with_text);
        }
    }
}

static void apply(rql_lock *lock, const struct rqli_exchange *exchange,
                  const struct rqli_reply *reply, int64_t now_us)
{
    struct rqli_lease *lease = &lock->kept.lease;
    struct rqli_outcome outcome;

    if (!rqli_outcome_read(reply, &outcome)) {
        rqli_lease_on_setback(lease, now_us);
    } else if (outcome.what == 1 && !lock->kept.is_adopted) {
        rqli_lease_on_extended(lease, exchange->sent_us, outcome.third);
        rqli_observe(RQLI_ON_RENEWED, &lock->subject, NULL);
    } else { /* or there is nothing more to do for it */
        rqli_lease_on_gone(lease);
    }
}

void rqli_renewals_apply(struct rqli_renewals *self, struct rqli_schedule *schedule,
                         const struct rqli_exchange *exchange, int64_t now_us)
{
    size_t i;

    for (i = 0; i < self->count; i++) {
        rql_lock *lock = self->item[i].lock;

        if (!lock) {
            continue;
        }
        if (exchange) {
            apply(lock, exchange, &exchange->reply[self->item[i].reply_at], now_us);
        } else {
            rqli_lease_on_setback(&lock->kept.lease, now_us);
        }
        rqli_schedule_update(schedule, lock);
    }
    self->count = 0;
}
