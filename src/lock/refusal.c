#include "lock/refusal.h"

#include "lock/reason.h"

#include <stdarg.h>
#include <stdio.h>

/*
 * rql_refusal: why an acquisition was refused, as data and as the message that the gem's exception
 * would have, down to the way Ruby prints numbers and hashes.
 */

/* Appends to a text of fixed size; what does not fit is cut. */
struct writer {
    char *at;
    size_t left;
};

static void add(struct writer *self, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct writer *self, const char *format, ...)
{
    va_list args;
    int wanted;
    size_t written;

    va_start(args, format);
    wanted = vsnprintf(self->at, self->left, format, args);
    va_end(args);
    /* vsnprintf() says what it would have needed. One byte is left for the 0 at the end. */
    written = wanted < 0 ? 0 : (size_t)wanted;
    written = written < self->left ? written : self->left - 1;
    self->at += written;
    self->left -= written;
}

/* Microseconds as Ruby prints a Float of seconds: 1.5, and 2.0 for whole ones. */
static void add_seconds(struct writer *self, int64_t us)
{
    char digits[8];
    int last = 5;

    (void)snprintf(digits, sizeof digits, "%06lld", (long long)(us % 1000000));
    while (last > 0 && digits[last] == '0') {
        digits[last--] = '\0';
    }
    add(self, "%lld.%s", (long long)(us / 1000000), digits);
}

/* Milliseconds as Ruby prints seconds: an Integer if they are whole. */
static void add_timeout(struct writer *self, int64_t ms)
{
    if (ms % 1000 == 0) {
        add(self, "%lld", (long long)(ms / 1000));
    } else {
        add_seconds(self, ms * 1000);
    }
}

/* Below 0 the lock has no such field, and the Hash no such key. */
static void add_number(struct writer *self, const char *name, int64_t value)
{
    if (value >= 0) {
        add(self, ", \"%s\"=>%lld", name, (long long)value);
    }
}

/* As Ruby inspects a Hash of the lock's data. */
static void add_holder(struct writer *self, const rql_lock_info *info)
{
    size_t i;

    if (!info || info->status != RQL_KEY_ALIVE) {
        add(self, "<no_data>");
        return;
    }
    add(self, "{\"acq_id\"=>\"%s\", \"hst_id\"=>\"%s\", \"ts\"=>", info->acq_id, info->hst_id);
    add_seconds(self, info->ts_us);
    add_number(self, "ini_ttl", info->ini_ttl_ms);
    for (i = 0; i < info->n_meta; i++) {
        add(self, ", \"%s\"=>\"%s\"", info->meta[i].name, info->meta[i].value);
    }
    add_number(self, "spc_cnt", info->spc_cnt);
    add_number(self, "spc_ext_ttl", info->spc_ext_ttl_ms);
    add(self, ", \"lock_key\"=>\"%s\"", info->lock_key);
    add_number(self, "rem_ttl", info->rem_ttl_ms);
    add(self, "}");
}

/* As Ruby inspects the queue. */
static void add_queue(struct writer *self, const rql_queue_info *info)
{
    size_t i;

    if (!info || info->status != RQL_KEY_ALIVE) {
        add(self, "<no_data>");
        return;
    }
    add(self, "{\"lock_queue\"=>\"%s\", \"queue\"=>[", info->lock_queue);
    for (i = 0; i < info->n_requests; i++) {
        add(self, "%s{\"acq_id\"=>\"%s\", \"score\"=>", i > 0 ? ", " : "",
            info->requests[i].acq_id);
        add_seconds(self, info->requests[i].score_us);
        add(self, "}");
    }
    add(self, "]}");
}

static void add_reason(struct writer *self, const rql_lock *lock, const rql_lock_options *options,
                       rql_status reason)
{
    const char *key = lock->keys.lock.data;

    if (reason == RQL_TIMED_OUT) {
        add(self, "Failed to acquire the lock \"%s\" for the given <", key);
        add_timeout(self, options->timeout_ms);
        add(self, " seconds> timeout.");
    } else if (reason == RQL_RETRY_LIMIT) {
        add(self, "Failed to acquire the lock \"%s\" for the given retry_count limit (%lld times).",
            key, (long long)options->retry_count);
    } else if (reason == RQL_CANCELLED) {
        add(self, "The request for the lock \"%s\" was cancelled.", key);
    } else if (reason == RQL_CONFLICT) {
        add(self,
            "Lock Conflict: trying to acquire the lock \"%s\" that is already acquired by the "
            "current acquirer (acq_id: \"%s\").",
            key, lock->acquirer);
    } else {
        add(self, "Lock \"%s\" is already obtained.", key);
    }
}

/* What the gem has no words for: it does not ask whether what it took still lives. */
static void add_over(struct writer *self, int64_t n_over, int64_t ttl_ms)
{
    if (n_over > 0) {
        add(self,
            " %lld %s over by the time that the answer was here: a ttl of %lld ms must outlast the "
            "round trip.",
            (long long)n_over, n_over == 1 ? "grant was" : "grants were", (long long)ttl_ms);
    }
}

/* What the server says of the holder goes into the refusal, and into the line of rql_error. */
static void fill(const struct rqli_acquire *acquire, const rql_lock *lock, bool asks,
                 rql_lock_info *holder)
{
    const rql_lock_options *options = acquire->options;
    const struct rqli_acquire_result *result = acquire->result;
    rql_status reason = acquire->op.status;
    rql_refusal *refusal = options->refusal;
    struct writer writer = {refusal->message, sizeof refusal->message};

    /* It may hold what an earlier refusal left in it. */
    rql_refusal_clear(refusal);
    refusal->reason = reason;
    refusal->n_over = (uint32_t)result->n_over;
    refusal->waited_us = result->waited_us;
    refusal->tries = result->tries;
    /* Counted from 1; 0: it was never in the queue. */
    refusal->position = result->rank + 1;
    refusal->holder = holder;
    add_reason(&writer, lock, options, reason);
    add_over(&writer, result->n_over, options->ttl_ms);
    if (asks) {
        /* After a fault the pointer stays NULL, and the text says <no_data>. */
        (void)!rql_get_queue_info(lock->client, lock->name, &refusal->queue, NULL);
        add(&writer, " Details: <Lock Data> => ");
        add_holder(&writer, refusal->holder);
        add(&writer, "; <Queue Data> => ");
        add_queue(&writer, refusal->queue);
        add(&writer, ";");
    }
}

void rqli_refusal_fill(struct rqli_acquire *acquire, bool asks)
{
    size_t at = acquire->several ? rqli_reason_obstacle(acquire) : 0;
    /* A text names one lock: where none is known to have stood in the way, the first. */
    const rql_lock *lock = acquire->locks[at < acquire->count ? at : 0];
    rql_lock_info *holder = NULL;

    if (asks) {
        /* After a fault the pointer stays NULL. */
        (void)!rql_get_lock_info(lock->client, lock->name, &holder, NULL);
        rqli_reason_keep(acquire,
                         holder && holder->status == RQL_KEY_ALIVE ? holder->acq_id : NULL);
    }
    if (acquire->options->refusal) {
        fill(acquire, lock, asks, holder);
    } else {
        (void)rql_lock_info_free(holder);
    }
}
