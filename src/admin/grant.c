#include "admin/force.h"
#include "admin/info.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/text.h"
#include "lock/client.h"
#include "wire/answer.h"
#include "wire/number.h"

#include <rql/sweep.h>

/*
 * Calls of operators that end one grant or one request, as it was seen, and nothing else.
 */

/* Reads the nonce of the grant with this token, if the lock has one holder, or is kept: then it
 * begins with "kept", and is no secret that a caller could give. *nonce stays "": there is none. */
static rql_status read_nonce(rql_client *client, const struct rqli_named *lock, int64_t wanted,
                             char nonce[RQL_SECRET_SIZE], rql_error *error)
{
    const char *key = lock->keys.lock.data;
    RQLI_AUTO(rqli_batch_give) struct rqli_batch *batch = NULL;
    rql_status status = rqli_query_about(client, &lock->keys, &batch, error, "HMGET", key,
                                         "rql_nonce", "rql_token", NULL);
    const struct rqli_reply *fields;
    int64_t token;

    if (status) {
        return rqli_reader_status(status, rqli_client_node(client, &lock->keys), error);
    }
    fields = batch->reply->items;
    if (batch->reply->type != RQLI_REPLY_ARRAY || batch->reply->count != 2) {
        return rqli_batch_fault(batch, batch->reply, "HMGET", key, error);
    }
    if (fields[0].type == RQLI_REPLY_TEXT && fields[0].text.length == RQL_SECRET_SIZE - 1 &&
        fields[1].type == RQLI_REPLY_TEXT && rqli_parse_int(fields[1].text, &token) &&
        token == wanted) {
        (void)rqli_pack(&nonce, fields[0].text);
    }
    return RQL_OK;
}

/* The same for a lock of one or of several. */
static rql_status find_nonce(rql_client *client, const struct rqli_named *lock, int64_t token,
                             char nonce[RQL_SECRET_SIZE], rql_error *error)
{
    struct rqli_sharer_search search = {.token = token};
    rql_status status = read_nonce(client, lock, token, nonce, error);

    if (!status && nonce[0] == '\0') {
        status = rqli_sharer_find(client, &lock->keys, &search, error);
        memcpy(nonce, search.nonce, sizeof search.nonce);
    }
    return status;
}

/* A nonce is never granted twice, so the release can end no newer grant. */
rql_status rql_lock_end_grant(rql_client *client, const char *name, int64_t token, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    char nonce[RQL_SECRET_SIZE] = "";
    struct rqli_named lock;
    rql_status status = rqli_named_init(&lock, client, name, error);

    if (!status && token < 1) {
        status = rqli_fail(error, RQL_E_INVALID, "token is %lld; it must be 1 or more",
                           (long long)token);
    }
    status = status ? status : find_nonce(client, &lock, token, nonce, error);
    if (!status && nonce[0] != '\0') {
        status = rqli_end_by_secret(client, name, nonce, RQLI_ENDED_FORCED, error);
    } else if (!status) {
        status = RQL_NOT_HELD;
    }
    return status == RQL_NOT_HELD
               ? rqli_fail(error, RQL_NOT_HELD, "%s: no grant with the token %lld is in force",
                           name, (long long)token)
               : status;
}

rql_status rql_request_remove(rql_client *client, const char *name, const char *acquirer_id,
                              rql_error *error)
{
    RQLI_DEFER_CANCEL;
    struct rqli_named lock;
    struct rqli_outcome outcome;
    struct rqli_call call;
    rql_status status = rqli_named_init(&lock, client, name, error);

    if (!status && (!acquirer_id || *acquirer_id == '\0' || strlen(acquirer_id) >= RQL_ID_SIZE)) {
        status =
            rqli_fail(error, RQL_E_INVALID, "acquirer_id must have 1 to %d bytes", RQL_ID_SIZE - 1);
    }
    if (status) {
        return status;
    }
    rqli_call_init(&call, RQLI_SCRIPT_SWEEP_REQUEST, &lock.keys);
    rqli_call_text(&call, acquirer_id);
    rqli_call_text(&call, "0");
    rqli_call_random(&call);
    status = rqli_run_end(client, &call, &outcome, error);
    if (!status && outcome.what != 1) {
        status = rqli_fail(error, RQL_NOT_FOUND, "%s: the acquirer does not wait for it", name);
    }
    return status;
}
