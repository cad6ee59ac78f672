#include "net/perform.h"

#include "base/error.h"
#include "base/scope.h"

RQLI_DEFINE_AUTO(struct rqli_exchange *, rqli_exchange_give);

static rql_status carry(struct rqli_exchange *exchange, const struct rqli_call *call,
                        bool with_text, int64_t deadline_us, rql_error *error)
{
    rql_status status;

    rqli_command_reset(&exchange->command);
    if (call->pushes_first) {
        rqli_command_begin(&exchange->command, 1);
        rqli_command_text(&exchange->command, "PING");
    }
    rqli_call_write(call, &exchange->command, with_text);
    status = rqli_exchange_run(exchange, deadline_us, error);
    if (!status && call->pushes_first) {
        exchange->reply++; /* whatever the first one says */
    }
    return status;
}

rql_status rqli_perform(struct rqli_conn *conn, const struct rqli_call *call, int64_t deadline_us,
                        struct rqli_exchange **out, rql_error *error)
{
    RQLI_AUTO(rqli_exchange_give) struct rqli_exchange *exchange = rqli_exchange_take(conn);
    rql_status status;

    if (!exchange) {
        return rqli_fail_nomem(error);
    }
    status = carry(exchange, call, false, deadline_us, error);
    if (!status && exchange->reply->type == RQLI_REPLY_ERROR &&
        rqli_reply_says(exchange->reply, "NOSCRIPT")) {
        status = carry(exchange, call, true, deadline_us, error);
    }
    if (status) {
        return status;
    }
    if (exchange->reply->type == RQLI_REPLY_ERROR) {
        return rqli_exchange_fault(exchange, exchange->reply, rqli_scripts[call->script].name,
                                   call->keys->lock.data, error);
    }
    *out = RQLI_GIVE(exchange);
    return RQL_OK;
}
