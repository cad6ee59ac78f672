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

bool has_outlived(const struct hold *hold)
{
    return atomic_load(&hold->left_ns) > hold->until_ns;
}

void note_pause(struct pulse *self, int64_t since_us, int64_t until_us)
{
    size_t n = atomic_load(&self->n);

    if (until_us - since_us >= STANDSTILL_MS * INT64_C(1000) && n < STANDSTILLS_MAX) {
        self->standstill[n] = (struct standstill){since_us, until_us};
        atomic_store(&self->n, n + 1);
    }
}

bool stood_still(const struct pulse *self, int64_t since_us, int64_t until_us)
{
    size_t n = atomic_load(&self->n);
    size_t i;

    for (i = 0; i < n; i++) {
        if (self->standstill[i].since_us < until_us && self->standstill[i].until_us > since_us) {
            return true;
        }
    }
    return false;
}

const struct hold *stage_last(const struct stage *self)
{
    size_t n = stage_holds(self);

    return n > 0 ? &self->hold[n - 1] : NULL;
}
