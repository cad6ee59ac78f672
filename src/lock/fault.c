#include "base/clock.h"
#include "lock/acquisition.h"
#include "lock/client.h"
#include "lock/durable.h"
#include "lock/wait.h"

#include <stdlib.h>

/* Why a try to acquire had no answer, and what follows from that. reason.c tells the caller. */

/* On a loop, where many wait, memory for a fault is taken when there is one; without it only the
 * status is reported without its reason. */
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

/* A try had no answer. What may pass by itself is tried again until the deadline; a server that
 * never answered is not. */
void rqli_acquire_on_failed(struct rqli_acquire *self, const rql_error *fault)
{
    struct rqli_request_input input = rqli_wait_input(self);
    bool refuses = fault->status == RQL_E_UNAVAILABLE || fault->status == RQL_E_READ_ONLY;
    bool may_retry = atomic_load_explicit(&self->client->was_connected, memory_order_relaxed) ||
                     rqli_fleet_may_answer(&self->client->fleet);

    /* Late, the call that was to repeat another has done nothing: the other's fault is the result.
     */
    if (!self->op.is_late || self->request.retry_us == RQLI_NEVER_US) {
        rqli_acquire_note_fault(self, fault);
    }
    self->had_grace = input.now_us > self->request.limits.deadline_us;
    if (self->op.durability && self->had_grace &&
        (fault->status == RQL_E_UNKNOWN || self->op.is_late)) {
        rqli_durable_on_unanswered(self);
    }
    if (self->op.is_late) {
        rqli_request_on_late(&self->request);
    } else if (fault->status == RQL_E_UNKNOWN || (refuses && !self->options->fail_fast) ||
               (fault->status == RQL_E_IO && may_retry)) {
        rqli_request_on_setback(&self->request, fault->status, &input);
    } else {
        rqli_request_on_fault(&self->request, fault->status);
    }
}
