#include "net/perform_each.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/scope.h"

RQLI_DEFINE_AUTO(struct rqli_exchange *, rqli_exchange_give);

/* With the text the first call teaches the script to the server, for the others as well. */
static rql_status carry(struct rqli_exchange *exchange, const struct rqli_calls *calls,
                        bool with_text, int64_t deadline_us, rql_error *error)
{
    struct rqli_call call;

    rqli_command_reset(&exchange->command);
    for (size_t i = 0; i < calls->count; i++) {
        calls->write(calls->context, i, &call);
        rqli_call_write(&call, &exchange->command, with_text && i == 0);
    }
    return rqli_exchange_run(exchange, deadline_us, error);
}

static size_t count_unknown(const struct rqli_exchange *exchange, size_t count)
{
    size_t n_unknown = 0;

    for (size_t i = 0; i < count; i++) {
        const struct rqli_reply *reply = &exchange->reply[i];

        n_unknown += reply->type == RQLI_REPLY_ERROR && rqli_reply_says(reply, "NOSCRIPT");
    }
    return n_unknown;
}

rql_status rqli_perform_each(struct rqli_conn *conn, struct rqli_calls *calls, int64_t deadline_us,
                             struct rqli_exchange **out, rql_error *error)
{
    RQLI_AUTO(rqli_exchange_give) struct rqli_exchange *exchange = rqli_exchange_take(conn);
    rql_status status;
    size_t n_unknown;

    calls->is_repeated = false;
    if (!exchange) {
        return rqli_fail_nomem(error);
    }
    status = carry(exchange, calls, false, deadline_us, error);
    n_unknown = status ? 0 : count_unknown(exchange, calls->count);
    while (n_unknown > 0 && rqli_now_us() < deadline_us) {
        calls->is_repeated = calls->is_repeated || n_unknown < calls->count;
        status = carry(exchange, calls, true, deadline_us, error);
        n_unknown = status ? 0 : count_unknown(exchange, calls->count);
    }
    if (status) {
        return status;
    }
    *out = RQLI_GIVE(exchange);
    return RQL_OK;
}
