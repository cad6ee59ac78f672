#include "demo/stage.h"

size_t stage_holds(const struct stage *self)
{
    size_t n = atomic_load(&self->n_holds);

    if (n > HOLDS_MAX) {
        n = HOLDS_MAX;
    }
    while (n > 0 && atomic_load(&self->hold[n - 1].token) == 0) {
        n--;
    }
    return n;
}

const struct hold *stage_last(const struct stage *self)
{
    size_t n = stage_holds(self);

    return n > 0 ? &self->hold[n - 1] : NULL;
}
