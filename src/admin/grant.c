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

/* What the caller sees of a grant, and what ends it. */
struct grant {
    int64_t token;
    char secret[RQL_SECRET_SIZE]; /* "": not found */
};

/* The nonce of a kept lock is no secret that a caller could give: it begins with "kept". */
static void note_secret(struct grant *self, struct rqli_slice nonce, int64_t token)
{
    char *cursor = self->secret;

    if (token == self->token && nonce.length == sizeof self->secret - 1) {
        (void)rqli_pack(&cursor, nonce);
    }
}

/* Finds the nonce of the grant among the fields of a lock, of one holder or of several. */
static void find_secret(struct grant *self, const struct rqli_reply *hash)
{
    struct rqli_slice nonce = {"", 0};
    int64_t token = -1;

    for (size_t i = 0; i + 1 < hash->count; i += 2) {
        const struct rqli_slice name = hash->items[i].text;
        const struct rqli_slice value = hash->items[i + 1].text;
        struct rqli_sharer sharer;

        if (rqli_slice_is(name, "rql_nonce")) {
            nonce = value;
        } else if (rqli_slice_is(name, "rql_token")) {
            (void)rqli_parse_int(value, &token);
        } else if (rqli_sharer_read(name, value, &sharer)) {
            note_secret(self, sharer.nonce, sharer.token);
        }
    }
    note_secret(self, nonce, token);
}

static rql_status read_secret(rql_client *client, const struct rqli_named *lock, struct grant *self,
                              rql_error *error)
{
    RQLI_AUTO(rqli_batch_give) struct rqli_batch *batch = NULL;
    rql_status status = rqli_read_fields(client, &lock->keys, &batch, error);

    if (!status) {
        find_secret(self, batch->reply);
    }
    return status;
}

/* A nonce is never granted twice, so the release can end no newer grant. */
rql_status rql_lock_end_grant(rql_client *client, const char *name, int64_t token, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    struct grant grant = {.token = token};
    struct rqli_named lock;
    rql_status status = rqli_named_init(&lock, client, name, error);

    if (!status && token < 1) {
        status = rqli_fail(error, RQL_E_INVALID, "token is %lld; it must be 1 or more",
                           (long long)token);
    }
    status = status ? status : read_secret(client, &lock, &grant, error);
    if (!status && grant.secret[0] != '\0') {
        status = rqli_end_by_secret(client, name, grant.secret, RQLI_ENDED_FORCED, error);
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
