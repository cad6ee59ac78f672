#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "lock/client.h"
#include "net/conn/batch_threads.h"

#include <rql/diagnose.h>

/* Measures the server without locks of ours, and the CPU time that it has used. */

enum { FRACTION_SIZE = 32, US_PER_S = 1000000 };

#define PLAIN_TTL_MS "10000"

static const char delete_own[] = "if redis.call('GET', KEYS[1]) == ARGV[1] then "
                                 "return redis.call('DEL', KEYS[1]) else return 0 end";

static rql_status ping(rql_client *client, rql_error *error)
{
    RQLI_AUTO(rqli_batch_give) struct rqli_batch *batch = NULL;

    return rqli_query(client, &batch, error, "PING", NULL);
}

/* Takes and releases the lock of every handbook: the value names the owner. The key is deleted
 * unless no answer came. */
static rql_status use_plain_lock(rql_client *client, const char *key, rql_error *error)
{
    RQLI_AUTO(rqli_batch_give) struct rqli_batch *taken = NULL;
    RQLI_AUTO(rqli_batch_give) struct rqli_batch *given = NULL;
    const char *owner = rql_client_identity(client);
    rql_status status =
        rqli_query(client, &taken, error, "SET", key, owner, "NX", "PX", PLAIN_TTL_MS, NULL);

    if (status) {
        return status;
    }
    if (taken->reply->type == RQLI_REPLY_NIL) {
        return rqli_fail(error, RQL_NOT_HELD, "%s: held by another client", key);
    }
    status = rqli_query(client, &given, error, "EVAL", delete_own, "1", key, owner, NULL);
    if (status) {
        return status;
    }
    return given->reply->integer == 1
               ? RQL_OK
               : rqli_fail(error, RQL_NOT_HELD, "%s: expired before its release", key);
}

/* Reads "12.003456" as microseconds; the fraction has six digits. False: the text has another
 * form. */
static bool read_seconds(const struct rqli_reply *info, const char *mark, int64_t *out_us)
{
    char text[FRACTION_SIZE] = "";
    struct rqli_slice rest;
    int64_t seconds;
    int64_t fraction_us;

    rqli_reply_copy_between(text, sizeof text, info, mark, "\r");
    rest = rqli_slice_of(text);
    if (!rqli_parse_int(rqli_slice_take(&rest, rqli_slice_before(rest, ".")), &seconds) ||
        !rqli_slice_skip(&rest, ".") || rest.length != 6 || !rqli_parse_int(rest, &fraction_us)) {
        return false;
    }
    *out_us = seconds * US_PER_S + fraction_us;
    return true;
}

static rql_status read_cpu(rql_client *client, int64_t *out_us, rql_error *error)
{
    RQLI_AUTO(rqli_batch_give) struct rqli_batch *batch = NULL;
    rql_status status = rqli_query(client, &batch, error, "INFO", "cpu", NULL);
    int64_t system_us;
    int64_t user_us;

    if (status) {
        return status;
    }
    if (batch->reply->type != RQLI_REPLY_TEXT ||
        !read_seconds(batch->reply, "\nused_cpu_sys:", &system_us) ||
        !read_seconds(batch->reply, "\nused_cpu_user:", &user_us)) {
        return rqli_fail(error, RQL_E_SERVER,
                         "INFO does not say what CPU time the server has used");
    }
    *out_us = system_us + user_us;
    return RQL_OK;
}

rql_status rql_measure(rql_client *client, rql_measured what, const char *key, int64_t *out_us,
                       rql_error *error)
{
    RQLI_DEFER_CANCEL;
    const int64_t begun_us = rqli_now_us();
    rql_status status = rqli_client_check(client, error);

    if (status) {
        return status;
    }
    if (!out_us || (what == RQL_MEASURE_PLAIN_LOCK && !key)) {
        return rqli_fail(error, RQL_E_INVALID, "rql_measure: a pointer is NULL");
    }
    switch (what) {
    case RQL_MEASURE_PING:
        status = ping(client, error);
        break;
    case RQL_MEASURE_PLAIN_LOCK:
        status = use_plain_lock(client, key, error);
        break;
    case RQL_MEASURE_SERVER_CPU:
        return read_cpu(client, out_us, error);
    default:
        return rqli_fail(error, RQL_E_INVALID, "rql_measure: there is no measure %d", (int)what);
    }
    if (status == RQL_OK) {
        *out_us = rqli_now_us() - begun_us;
    }
    return status;
}
