#include "keeper/renewal.h"
#include "observe/observe.h"

#include "script/answer.h"
#include "script/call.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

/* A worker that has ended cannot be working under the lock any more (F-54). */
static bool owner_is_gone(const rql_lock *lock)
{
    return tgkill(getpid(), lock->owner_thread, 0) != 0 && errno == ESRCH;
}

void rqli_renewals_collect(struct rqli_renewals *self, rql_lock *first, int64_t now_us)
{
    rql_lock *lock;

    self->count = 0;
    for (lock = first; lock && self->count < RQLI_RENEWALS_MAX; lock = lock->kept.next) {
        struct rqli_lease *lease = &lock->kept.lease;
        int64_t ttl_ms;

        if (now_us < lease->renew_us || rqli_lease_state(lease, now_us) == RQL_GONE) {
            continue;
        }
        if ((lease->renews && owner_is_gone(lock)) ||
            !rqli_lease_wants_renewal(lease, now_us, &ttl_ms)) {
            rqli_lease_stop_renewal(lease);
            continue;
        }
        self->item[self->count].lock = lock;
        self->item[self->count++].ttl_ms = ttl_ms;
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
    } else if (outcome.what == 1) {
        rqli_lease_on_extended(lease, exchange->sent_us, outcome.third);
        rqli_observe_renewed(lock);
    } else {
        rqli_lease_on_gone(lease);
    }
}

void rqli_renewals_apply(struct rqli_renewals *self, const struct rqli_exchange *exchange,
                         int64_t now_us)
{
    size_t i;

    for (i = 0; i < self->count; i++) {
        rql_lock *lock = self->item[i].lock;

        if (lock && exchange) {
            apply(lock, exchange, &exchange->reply[self->item[i].reply_at], now_us);
        } else if (lock) {
            rqli_lease_on_setback(&lock->kept.lease, now_us);
        }
    }
    self->count = 0;
}
