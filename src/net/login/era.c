#include "net/login/era.h"

#include "wire/answer.h"

#include <stdbool.h>

/* The first number of arrive.lua's answer. */
enum { NONE_MISSING = 0, RAISED = 1, TOO_FAR = 2 };

int64_t rqli_era_write(const struct rqli_era *self, const struct rqli_key_set *set,
                       const char *run_id, struct rqli_slice masters, struct rqli_command *command)
{
    int64_t floor = atomic_load(&self->floor);
    int64_t made = atomic_load(&self->made);
    struct rqli_call call;

    rqli_call_init_of_set(&call, RQLI_SCRIPT_ARRIVE, set);
    rqli_call_text(&call, *run_id ? run_id : "-");
    rqli_call_int(&call, made > floor ? made : floor);
    rqli_call_int(&call, self->pause_ms);
    if (masters.length > 0) {
        rqli_call_slice(&call, masters);
    }
    /* Sent with its text (EVAL): it is one call in a connection's life, and must not be repeated
     * after other calls have been sent. */
    rqli_call_write(&call, command, 0);
    return floor;
}

/* A loss is reported once, because later connections find the floor raised. If the call's token was
 * too high for the server to raise its own to it, this client forgets it; otherwise each later
 * connection would find the same loss. Where the server knows the floor, it has lost nothing: the
 * call carried the token of a hand-over inside the client, which has not reached the server yet. */
rql_status rqli_era_read(struct rqli_era *self, int64_t floor, const struct rqli_reply *reply,
                         const char *where, rql_error *error)
{
    struct rqli_outcome outcome;

    if (!rqli_outcome_read(reply, &outcome) || outcome.what < NONE_MISSING ||
        outcome.what > TOO_FAR) {
        return rqli_reply_fault(reply, "arrive", where, error);
    }
    if (outcome.what == TOO_FAR) {
        int64_t expected = floor;

        (void)atomic_compare_exchange_strong(&self->floor, &expected, outcome.second);
        atomic_store(&self->made, 0);
    }
    if (outcome.what != NONE_MISSING && outcome.second < floor) {
        atomic_store(&self->known, outcome.second);
        atomic_store(&self->lost, floor);
        atomic_store(&self->has_news, true);
    }
    return RQL_OK;
}

/* Returns a number that is never 0. */
static uint64_t number_of(const char *run_id)
{
    return rqli_hash_text(RQLI_HASH_START, run_id) | 1;
}

/* If this is another server, or the same one restarted, another client may have told it already
 * that it has lost writes; then the tokens prove nothing any more. A server whose run id cannot be
 * known may be another one at each login. */
void rqli_era_on_login(struct rqli_era *self, const char *run_id)
{
    uint64_t server = number_of(run_id);
    uint64_t before = atomic_exchange(&self->server, server);

    if (before != 0 && (before != server || !*run_id)) {
        atomic_store(&self->has_news, true);
    }
}

bool rqli_era_take_news(struct rqli_era *self, int64_t *lost_out, int64_t *known_out)
{
    if (!atomic_exchange(&self->has_news, false)) {
        return false;
    }
    *lost_out = atomic_exchange(&self->lost, 0);
    *known_out = atomic_load(&self->known);
    return true;
}
