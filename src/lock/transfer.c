#include "lock/transfer.h"

#include "base/cancel_fd.h"
#include "base/clock.h"
#include "lock/client.h"
#include "options/options.h"

#include <stdlib.h>
#include <string.h>

bool rqli_transfer_has_room(const rql_lock_options *options)
{
    const size_t count = rqli_meta_count(options);
    size_t size = 0;

    for (size_t i = 0; i < count && size <= RQLI_TRANSFER_META_SIZE; i++) {
        const rql_meta pair = rqli_meta_at(options, i);

        size += strlen(pair.name) + 1 + strlen(pair.value) + 1;
    }
    return options->n_meta <= RQLI_TRANSFER_META && size <= RQLI_TRANSFER_META_SIZE;
}

static void copy_meta(struct rqli_transfer *self, const rql_lock_options *options)
{
    char *at = self->meta;

    self->n_meta = rqli_meta_count(options);
    for (size_t i = 0; i < self->n_meta; i++) {
        const rql_meta pair = rqli_meta_at(options, i);

        at = stpcpy(at, pair.name) + 1;
        at = stpcpy(at, pair.value) + 1;
    }
}

struct rqli_transfer *rqli_transfer_new(rql_client *client, const char *acquirer, const char *host,
                                        const char *nonce, const rql_lock_options *options)
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
    atomic_init(&self->state, RQLI_TRANSFER_MADE);
    self->lock = NULL;
    self->onward = NULL;
    memcpy(self->acquirer, acquirer, sizeof self->acquirer);
    memcpy(self->host, host, sizeof self->host);
    memcpy(self->nonce, nonce, sizeof self->nonce);
    self->ttl_ms = options->ttl_ms;
    copy_meta(self, options);
    return self;
}

void rqli_transfer_give(rql_client *client, struct rqli_transfer *self)
{
    if (self && atomic_fetch_sub_explicit(&self->references, 1, memory_order_acq_rel) == 1 &&
        !rqli_freelist_keep(&client->transfers, self)) {
        free(self);
    }
}

/* Polls, because no thread wakes the caller: one that has to wait here comes within the one round
 * trip after its grant, or after a connection has broken. */
void rqli_transfer_await(const struct rqli_transfer *self, int64_t until_us)
{
    while (rqli_transfer_is_open(self) && !rqli_time_is_up(until_us)) {
        rqli_sleep_until(rqli_now_us() + RQLI_TRANSFER_LOOK_US);
    }
}
