#include "held.h"

#include "messages.h"
#include "release.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a series and a lock differ for those who hold: in the names of the functions, no more. */

enum { HOLDER_SIZE = 2 * RQL_ID_SIZE + 32, OVER_SIZE = 192 };

size_t cli_held_count(const struct cli_held *self)
{
    return self->series ? rql_series_count(self->series) : 1;
}

const rql_lock *cli_held_lock(const struct cli_held *self, size_t index)
{
    return self->series ? rql_series_lock(self->series, index) : self->lock;
}

rql_lock_state cli_held_state(const struct cli_held *self)
{
    return self->series ? rql_series_get_state(self->series) : rql_lock_get_state(self->lock);
}

int64_t cli_held_remaining_ms(const struct cli_held *self)
{
    return self->series ? rql_series_remaining_ms(self->series) : rql_lock_remaining_ms(self->lock);
}

int64_t cli_held_ttl_ms(const struct cli_held *self)
{
    int64_t least_ms = INT64_MAX;

    for (size_t i = 0; i < cli_held_count(self); i++) {
        const int64_t ttl_ms = rql_lock_describe(cli_held_lock(self, i)).ttl_ms;

        least_ms = ttl_ms < least_ms ? ttl_ms : least_ms;
    }
    return least_ms;
}

rql_status cli_held_lost_fd(const struct cli_held *self, int *out, rql_error *error)
{
    return self->series ? rql_series_lost_fd(self->series, out, error)
                        : rql_lock_lost_fd(self->lock, out, error);
}

rql_status cli_held_release(struct cli_held *self, rql_error *error)
{
    const rql_status status = self->series ? rql_series_release(self->series, NULL, error)
                                           : rql_lock_release(self->lock, error);

    self->series = NULL;
    self->lock = NULL;
    return status;
}

static void fill_lock(const struct cli_args *args, const rql_client *client, rql_lock_options *out)
{
    const char *outer = getenv("RQL_LOCK"); /* NOLINT(concurrency-mt-unsafe) */

    rql_lock_options_init(client, out);
    out->meta = args->n_meta > 0 ? args->meta : NULL;
    out->n_meta = args->n_meta;
    out->fail_fast = args->fail_fast;
    out->nested = outer && *outer; /* this program is run under `rql run` */
    out->detailed_acq_timeout_error = true;
    out->auto_extend = args->command && args->auto_extend; /* `lock` leaves its lock to the ttl */
    if (args->ttl_ms != CLI_UNSET) {
        out->ttl_ms = args->ttl_ms;
    }
    if (args->wait_ms !=
        CLI_UNSET) { /* then tries are not counted, whatever the environment says */
        out->timeout_ms = args->wait_ms;
        out->retry_count = RQL_FOREVER;
    }
    if (args->max_hold_ms != CLI_UNSET) {
        out->max_hold_ms = args->max_hold_ms;
    }
    /* With a ttl below --max-hold it ends in time also when nobody is left to release it. */
    if (args->max_hold_ms > 0 && args->max_hold_ms < out->ttl_ms) {
        out->ttl_ms = args->max_hold_ms;
    }
}

/* One line for people; what else there is to know of a refusal is in the log lines. */
static void say_refused(const struct cli_args *args, const struct cli_wait *wait)
{
    const size_t failed_on = wait->series.result->failed_on;
    const bool is_named = !wait->name && failed_on < args->n_names;
    const rql_refusal *refusal = wait->lock.refusal;
    char holder[HOLDER_SIZE] = "";
    char over[OVER_SIZE] = "";

    if (refusal->holder && refusal->holder->acq_id && refusal->holder->hst_id) {
        (void)snprintf(holder, sizeof holder, "; held by %s on %s", refusal->holder->acq_id,
                       refusal->holder->hst_id);
    }
    if (refusal->n_over > 0) {
        (void)snprintf(over, sizeof over,
                       "; %u %s over by the time that the answer was here: a ttl of %lld ms must "
                       "outlast the round trip",
                       (unsigned)refusal->n_over, refusal->n_over == 1 ? "grant was" : "grants were",
                       (long long)wait->lock.ttl_ms);
    }
    cli_say("%s: not acquired: %s%s%s%s%s", wait->held->label, rql_status_text(wait->status),
            is_named ? "; failed on " : "", is_named ? args->names[failed_on] : "", holder, over);
}

/* A wait ended with nothing held. */
static int refuse(struct cli_session *session, const struct cli_wait *wait)
{
    if (wait->signal != 0) {
        return -wait->signal;
    }
    if (wait->status < 0) {
        return cli_fault(&wait->error);
    }
    out_print(&session->out);
    say_refused(session->args, wait);
    return (int)session->args->conflict_exit_code;
}

/* A lock that was handed over lives for a second until it is claimed. The claim is made before
 * anybody relies on the lock, and fails at once when it is gone already. What cannot be claimed is
 * given back. */
static int claim(struct cli_held *held)
{
    rql_error error = {.status = RQL_OK};
    rql_status status = RQL_OK;

    for (size_t i = 0; status == RQL_OK && i < cli_held_count(held); i++) {
        const rql_lock_facts facts = rql_lock_describe(cli_held_lock(held, i));

        if (facts.handed_over) {
            status = held->series ? rql_series_extend(held->series, facts.ttl_ms, &error)
                                  : rql_lock_extend(held->lock, facts.ttl_ms, &error);
        }
    }
    if (status == RQL_OK) {
        return CLI_DONE;
    }
    (void)cli_held_release(held, NULL);
    (void)pthread_sigmask(SIG_SETMASK, &held->mask, NULL);
    if (status == RQL_NOT_HELD) {
        cli_say("%s: lost as soon as it was acquired", held->label);
        return CLI_LOST;
    }
    return cli_fault(&error);
}

int cli_acquire(struct cli_session *session, struct cli_held *held)
{
    __attribute__((cleanup(rql_refusal_clear_p))) rql_refusal refusal = {.reason = RQL_OK};
    const struct cli_args *args = session->args;
    rql_series_result result = {.reason = RQL_OK};
    struct cli_wait wait = {.name = args->n_names > 0 ? NULL : args->name, .held = held};

    fill_lock(args, session->client, &wait.lock);
    wait.lock.refusal = &refusal;
    rql_series_options_init(&wait.series);
    wait.series.mode = args->gem ? RQL_SERIES_GEM : RQL_SERIES_ATOMIC;
    wait.series.names = args->names;
    wait.series.n_names = args->n_names;
    wait.series.lock = &wait.lock;
    wait.series.result = &result;
    cli_wait(&wait, session->client);
    return wait.signal == 0 && wait.status == RQL_OK ? claim(held) : refuse(session, &wait);
}
