#include "admin/pages.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/futex.h"

/* Reads the contents of many keys, in batches that fit a connection. */

enum {
    BATCH_BYTES = 4 << 20,  /* a quarter of what a connection carries, as keys may grow meanwhile */
    MEMORY_SAMPLES = 128,   /* items that the server measures */
    GUESSED_ITEM_SIZE = 128 /* used if the server does not say */
};

static bool read_count(const struct rqli_reply *reply, int64_t *count)
{
    /* A key of another type counts as empty: reading it reports the type again, at no cost. */
    bool is_foreign =
        reply->type == RQLI_REPLY_ERROR && rqli_reply_class(reply) == RQL_E_WRONG_TYPE;

    *count = is_foreign ? 0 : reply->integer;
    return is_foreign || rqli_reply_is_count(reply);
}

/* Estimates what reading a key costs. Each item counts for no more than a batch may have, so
 * that sums over a batch cannot overflow, whatever a server answers. The user may not be allowed to
 * send MEMORY, and its reply is nil for a key that is gone: then the size is guessed. The `most`
 * items that are read count as average ones. */
static struct rqli_cost cost_of(int64_t count, const struct rqli_reply *memory, int64_t most)
{
    const int64_t guessed = rqli_smaller(count, RQLI_BATCH_ELEMENTS) * GUESSED_ITEM_SIZE;
    const int64_t bytes = rqli_reply_is_count(memory) ? memory->integer : guessed;
    struct rqli_cost cost = {0};

    if (count > 0) {
        int64_t each = bytes > 0 ? bytes / count + 1 : 1;

        cost.items = rqli_smaller(count, most);
        cost.bytes = cost.items * rqli_smaller(each, BATCH_BYTES + 1);
    }
    return cost;
}

/* Two commands measure a key: the one that counts its items, and MEMORY USAGE, which measures only
 * samples of a key, so it is cheap for any size. */
static void ask(struct rqli_command *command, const char *counter, struct rqli_slice key)
{
    rqli_command_begin(command, 2);
    rqli_command_text(command, counter);
    rqli_command_slice(command, key);
    rqli_command_begin(command, 5);
    rqli_command_text(command, "MEMORY");
    rqli_command_text(command, "USAGE");
    rqli_command_slice(command, key);
    rqli_command_text(command, "SAMPLES");
    rqli_command_int(command, MEMORY_SAMPLES);
}

/* Fills the costs of n keys. */
static rql_status measure(const struct rqli_reader *reader, struct rqli_key_batch *self, size_t n)
{
    RQLI_AUTO(rqli_batch_give)
    struct rqli_batch *batch = rqli_reader_take(reader);
    rql_status status;

    for (size_t i = 0; batch && i < n; i++) {
        ask(&batch->command, self->ops->counter, self->keys[self->first + i].text);
    }
    status = rqli_reader_run(reader, batch);
    for (size_t i = 0; !status && i < n; i++) {
        const struct rqli_reply *replies = &batch->reply[2 * i];
        int64_t count;

        if (!read_count(&replies[0], &count)) {
            return rqli_reply_fault(&replies[0], self->ops->counter, reader->where, reader->error);
        }
        self->costs[i] = cost_of(count, &replies[1], self->ops->most);
    }
    return status;
}

/* Returns how many keys fit into a batch; 0: the first one alone is too large. An item is two
 * elements of a reply: a field and its value, or a member and its score. */
static size_t n_that_fit(const struct rqli_cost *costs, size_t n)
{
    int64_t elements = 0;
    int64_t bytes = 0;
    size_t i = 0;

    for (; i < n; i++) {
        elements += 2 * (costs[i].items + RQLI_SPARE_ITEMS);
        bytes += costs[i].bytes;
        if (elements > RQLI_BATCH_ELEMENTS || bytes > BATCH_BYTES) {
            break;
        }
    }
    return i;
}

/* Returns how many keys, starting with this one, have the same set. The keys are sorted, so
 * those of one set are next to each other. */
static size_t n_of_one_set(const struct rqli_item *keys, size_t n)
{
    const struct rqli_key_set *set = rqli_key_set_in(keys->text);
    size_t i = 1;

    while (i < n && i < RQLI_BATCH_KEYS && rqli_key_set_in(keys[i].text) == set) {
        i++;
    }
    return i;
}

/* Asks for the sizes first, then reads as many keys at once as fit. A key that is too large is
 * reported as such, and not read. *done counts those keys as well. */
static rql_status read_one_set(const struct rqli_reader *reader, struct rqli_key_batch *self,
                               size_t n_known, size_t *done)
{
    rql_status status = measure(reader, self, n_known);

    *done = 0;
    while (!status && *done < n_known) {
        size_t n_fit = n_that_fit(&self->costs[*done], n_known - *done);

        status = n_fit > 0 ? self->ops->read(reader, self, self->first + *done, n_fit)
                           : self->ops->report_unread(reader, self, self->first + *done);
        if (!status) {
            *done += n_fit > 0 ? n_fit : 1;
        }
    }
    return status;
}

/* Keys that have moved meanwhile are read again from the node that has them now. The fault of a
 * reading that is repeated is none of the call. */
rql_status rqli_key_batch_read(const struct rqli_reader *reader,
                               const struct rqli_key_batch_ops *ops, const struct rqli_item *keys,
                               size_t n, void *context)
{
    struct rqli_key_batch batch = {.ops = ops, .context = context, .keys = keys};
    struct rqli_retries retries = {0};
    struct rqli_reader of_set = *reader;
    rql_error fault = {0};
    rql_status status = RQL_OK;
    size_t done;

    of_set.error = &fault;
    while (!status && batch.first < n) {
        of_set.set = rqli_key_set_in(keys[batch.first].text);
        of_set.retries = of_set.set ? &retries : NULL;
        retries.again_us = 0;
        if (retries.until_us == 0) {
            retries.until_us = rqli_client_until_us(reader->client, rqli_now_us());
        }
        status =
            read_one_set(&of_set, &batch, n_of_one_set(&keys[batch.first], n - batch.first), &done);
        batch.first += done;
        if (status && retries.again_us > 0) {
            rqli_sleep_until(retries.again_us);
            status = RQL_OK;
        } else {
            retries = (struct rqli_retries){0};
        }
    }
    return rqli_pass(reader->error, status, &fault);
}
