#include "lock/trace.h"

#include "base/clock.h"

void rqli_trace_add(struct rqli_trace *self, enum rqli_trace_what what, int64_t value)
{
    unsigned at = self->n++ % RQLI_TRACE_SIZE;

    self->item[at].at_us = rqli_now_us();
    self->item[at].value = value;
    self->item[at].what = what;
}
