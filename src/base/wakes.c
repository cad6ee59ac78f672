#include "base/wakes.h"

#include <string.h>

void rqli_wake_list_add(struct rqli_wake_list *self, rqli_signal *signal)
{
    if (self->count == RQLI_WAKE_LIST) {
        rqli_signal_wake(signal);
    } else {
        self->signals[self->count++] = signal;
    }
}

void rqli_wake_list_unlock(struct rqli_wake_list *self, pthread_mutex_t *mutex)
{
    rqli_signal *signals[RQLI_WAKE_LIST];
    size_t count = self->count;

    memcpy(signals, self->signals, count * sizeof signals[0]);
    self->count = 0;
    (void)pthread_mutex_unlock(mutex);
    while (count > 0) {
        rqli_signal_wake(signals[--count]);
    }
}
