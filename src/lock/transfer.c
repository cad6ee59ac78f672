#include "lock/transfer.h"

#include "base/clock.h"
#include "lock/client.h"

#include <stdlib.h>
#include <string.h>

enum { STEP_US = 1000 };

/* False: it has more metadata than there is room for. */
static bool copy_meta(struct rqli_transfer *self, const rql_lock_options *options)
{
    size_t used = 0;

    if (options->n_meta > RQLI_TRANSFER_META) {
        return false;
    }
    for (size_t i = 0; i < options->n_meta; i++) {
        const char *const words[] = {options->meta[i].name, options->meta[i].value};

        for (size_t k = 0; k < 2; k++) {
            size_t size = strlen(words[k]) + 1;

            if (size > sizeof self->meta - used) {
                return false;
            }
            memcpy(self->meta + used, words[k], size);
            used += size;
        }
    }
    self->n_meta = options->n_meta;
    return true;
}

struct rqli_transfer *rqli_transfer_offer(rql_client *client, const char *acquirer,
                                          const char *host, const char *nonce,
                                          const rql_lock_options *options)
{
    struct rqli_transfer *self = rqli_freelist_take(&client->transfers);

    if (!self) {
        self = malloc(sizeof *self);
    }
    if (!self) {
        return NULL;
    }
    atomic_init(&self->references, 1);
    atomic_init(&self->is_refused, false);
    atomic_init(&self->state, RQLI_TRANSFER_OFFERED);
    self->lock = NULL;
    self->onward = NULL;
    if (!copy_meta(self, options)) {
        rqli_transfer_give(client, self);
        return NULL;
    }
    memcpy(self->acquirer, acquirer, sizeof self->acquirer);
    memcpy(self->host, host, sizeof self->host);
    memcpy(self->nonce, nonce, sizeof self->nonce);
    self->ttl_ms = options->ttl_ms;
    return self;
}

void rqli_transfer_give(rql_client *client, struct rqli_transfer *self)
{
    if (self && atomic_fetch_sub_explicit(&self->references, 1, memory_order_acq_rel) == 1 &&
        !rqli_freelist_keep(&client->transfers, self)) {
        free(self);
    }
}

/* Nobody wakes it: who has to wait here comes within the one round trip behind its grant, or after
 * a connection that broke. */
void rqli_transfer_await(const struct rqli_transfer *self, int64_t until_us)
{
    rqli_signal never = 0;
    int64_t now_us = rqli_now_us();

    while (rqli_transfer_is_open(self) && now_us < until_us) {
        rqli_signal_wait(&never, 0, now_us + STEP_US);
        now_us = rqli_now_us();
    }
}
