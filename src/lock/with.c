#include "base/clock.h"
#include "base/error.h"
#include "lock/client.h"
#include "lock/lock.h"
#include "options/options.h"

#include <rql/lock.h>
#include <string.h>

/* A block's hold on its lock. Its clean-up runs however the block is left: return, exception,
 * cancellation.
 */
struct hold {
    rql_lock *lock;
    rql_status release_status;
    rql_error *error;
};

static void end_block(struct hold *self)
{
    if (self->lock) {
        self->release_status = rql_lock_release(self->lock, self->error);
        self->lock = NULL;
    }
}

rql_status rql_with_lock(rql_client *client, const char *name, const rql_lock_options *options,
                         rql_block *block, rql_error *error)
{
    __attribute__((cleanup(end_block))) struct hold self = {.error = error};
    rql_lock_options read;
    rql_status status = rqli_client_check(client, error);
    bool overran;

    if (status) {
        return status;
    }
    if (!block || !block->run) {
        return rqli_fail(error, RQL_E_INVALID, "%s: there is no block to run",
                         name ? name : "rql_with_lock");
    }
    status = rqli_lock_options_read(&read, &client->of_calls, options, error);
    if (!status) {
        status = rql_lock_acquire(client, name, &read, &self.lock, error);
    }
    if (status) {
        return status;
    }
    block->value = block->run(self.lock, block->user_data);
    overran = read.timed && rqli_now_us() - self.lock->begun_us > read.ttl_ms * 1000;
    end_block(&self);
    return overran ? RQL_BLOCK_OVERRAN : self.release_status;
}
