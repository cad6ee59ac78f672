#include "net/serving.h"

#include "net/op.h"
#include "wire/answer.h"

bool rqli_serve_is_due(const struct rqli_reply *reply)
{
    struct rqli_outcome outcome;

    return rqli_outcome_read(reply, &outcome) && outcome.second == RQLI_SERVED_PARTLY;
}

/* The release of a grant that never was. */
void rqli_serve_write(const struct rqli_keys *keys, struct rqli_call *call)
{
    rqli_call_init(call, RQLI_SCRIPT_RELEASE, keys);
    rqli_call_text(call, "-");
    rqli_call_chance(call);
}

/* False: a fault. */
static bool serve_once(struct rqli_conn *conn, const struct rqli_keys *keys, int64_t deadline_us,
                       struct rqli_outcome *outcome)
{
    struct rqli_exchange *exchange = NULL;
    struct rqli_call call;
    bool is_answered;

    rqli_serve_write(keys, &call);
    is_answered = rqli_call_run(conn, &call, deadline_us, &exchange, NULL) == RQL_OK &&
                  rqli_outcome_read(exchange->reply, outcome);
    rqli_exchange_give(exchange);
    return is_answered;
}

bool rqli_serve(struct rqli_conn *conn, const struct rqli_keys *keys, int64_t deadline_us)
{
    struct rqli_outcome outcome = {.second = RQLI_SERVED_PARTLY};

    while (outcome.second == RQLI_SERVED_PARTLY) {
        if (!serve_once(conn, keys, deadline_us, &outcome)) {
            return false;
        }
    }
    return outcome.second == RQLI_SERVED_ONE;
}

void rqli_serve_if_due(struct rqli_conn *conn, const struct rqli_keys *keys,
                       const struct rqli_reply *reply, int64_t deadline_us)
{
    if (rqli_serve_is_due(reply)) {
        (void)rqli_serve(conn, keys, deadline_us);
    }
}
