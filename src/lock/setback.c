#include "lock/setback.h"

#include "base/cancel_fd.h"
#include "base/error.h"
#include "base/random.h"
#include "lock/client.h"
#include "lock/wait.h"
#include "lock/withdraw.h"

#include <stdlib.h>
#include <string.h>

/* ---- a try that had no answer ---- */

/* Notes the fault of a try. On a loop, where many requests wait, memory for a fault is allocated
 * only when one occurs; without memory the status is reported without its reason. */
void rqli_acquire_note_fault(struct rqli_acquire *self, const rql_error *fault)
{
    self->fault = fault->status;
    if (!self->error) {
        self->error = malloc(sizeof *self->error);
    }
    if (self->error) {
        *self->error = *fault;
    }
}

/* Handles a try that stood behind others that wait for replicas. Whether it was granted or queued
 * is not known, and no longer matters when it is withdrawn. A request that was queued before is
 * left out, because it has waited for the lock all the same. */
static void on_durable_unanswered(struct rqli_acquire *self)
{
    rql_error fault;

    if (self->result->rank >= 0 && !self->request.was_not_durable) {
        return;
    }
    (void)rqli_fail(
        &fault, RQL_E_NOT_DURABLE,
        "%s: 0 of %lld replicas%s are known to have it in time; the request is withdrawn",
        rqli_acquire_lock(self, 0)->name, (long long)self->durability.replicas,
        self->durability.fsync ? ", and not the disk," : "");
    rqli_acquire_note_fault(self, &fault);
    rqli_request_on_unanswered(&self->request);
}

/* Handles a try that had no answer. A fault that may pass by itself is retried until the deadline,
 * except if the server has never answered. If the call is cancelled, the next step ends it instead
 * of a retry. */
void rqli_acquire_on_failed(struct rqli_acquire *self, const rql_error *fault, bool was_sent)
{
    struct rqli_request_input input = rqli_wait_input(self);
    bool refuses = fault->status == RQL_E_UNAVAILABLE || fault->status == RQL_E_READ_ONLY;
    bool gives_up = refuses && self->options->fail_fast;

    /* A late call was never sent. If it was to repeat another call, the fault of that other call is
     * the result. */
    if (!self->op.is_late || self->request.retry_us == RQLI_NEVER_US) {
        rqli_acquire_note_fault(self, fault);
    }
    self->had_grace = input.now_us > self->request.limits.deadline_us;
    if (self->op.durability && self->had_grace &&
        (fault->status == RQL_E_UNKNOWN || self->op.is_late)) {
        on_durable_unanswered(self);
    }
    if (self->op.is_late) {
        rqli_request_on_late(&self->request);
    } else if (!gives_up && (rqli_client_tries_again(self->client, fault->status) ||
                             (fault->status == RQL_E_IO && rqli_is_cancelled()))) {
        rqli_request_on_setback(&self->request, fault->status, &input);
    } else {
        rqli_request_on_fault(&self->request, fault->status, was_sent);
    }
}

/* ---- beginning again ---- */

void rqli_acquire_copy_nonces(struct rqli_acquire *self)
{
    char *nonce = self->several ? self->several->nonces : NULL;

    for (size_t i = 0; nonce && i < self->count; i++) {
        memcpy(nonce, rqli_acquire_lock(self, i)->nonce, RQLI_HEX_SIZE);
        nonce += RQLI_HEX_SIZE - 1;
    }
}

/* Uses new nonces, because the withdrawal may arrive after the next grant and must not end that
 * one. */
void rqli_acquire_begin_anew(struct rqli_acquire *self)
{
    rql_error fault = {0};

    for (size_t i = 0; i < self->count; i++) {
        rqli_withdraw_lock_later(self->locks[i], self->options->ttl_ms);
    }
    rqli_wait_end(self);
    self->has_refused = true;
    for (size_t i = 0; !fault.status && i < self->count; i++) {
        if (!rqli_random_hex(self->locks[i]->nonce)) {
            (void)rqli_fail_nomem(&fault);
        }
    }
    rqli_acquire_copy_nonces(self);
    if (fault.status || rqli_wait_begin(self, &fault)) {
        rqli_acquire_on_failed(self, &fault, true);
    }
}

/* Handles the answer that the acquirer owns the lock already. While an earlier request of the
 * acquirer is being withdrawn, or released lazily, the lock belongs to that request: the try is
 * repeated until the server has confirmed the withdrawal or the release. One with fail_fast is not
 * repeated: the lock is held. */
void rqli_acquire_on_conflict(struct rqli_acquire *self)
{
    const struct rqli_request_input input = rqli_wait_input(self);
    rql_error fault;

    if (!self->withdraws) {
        rqli_request_on_refused(&self->request, RQL_CONFLICT);
    } else if (self->request.was_not_durable) { /* the cause of the withdrawal, already noted */
        rqli_request_on_setback(&self->request, RQL_E_NOT_DURABLE, &input);
    } else if (self->options->fail_fast) {
        rqli_request_on_refused(&self->request, RQL_FAIL_FAST_NO_TRY);
    } else {
        (void)rqli_fail(&fault, RQL_E_UNAVAILABLE,
                        "%s: the server has not confirmed yet that an earlier request of this "
                        "thread or task was withdrawn or released; nothing was taken",
                        rqli_acquire_lock(self, 0)->name);
        rqli_acquire_on_failed(self, &fault, true);
    }
}
