#include "check.h"

#include "lock/acquisition.h"
#include "lock/client.h"
#include "lock/lock.h"
#include "lock/reason.h"
#include "own_client.h"

#include <rql/admin.h>

/* The text of rql_error for an acquisition that did not succeed. */

/* The fault of the last try that had one, the result of the acquisition, and a part of the text. */
static const struct row {
    const char *name;
    rql_status fault;
    rql_status status;
    const char *text;
} rows[] = {
    {"the last fault is the result", RQL_E_IO, RQL_E_IO, "the fault"},
    {"a grant was not durable", RQL_E_NOT_DURABLE, RQL_E_NOT_DURABLE, "the fault"},
    {"a grant was not durable, and a later try broke", RQL_E_IO, RQL_E_NOT_DURABLE,
     "x: no grant is known to have been durable in time; the request is withdrawn"},
    {"a grant was not durable, and there was no memory for the reason", RQL_OK, RQL_E_NOT_DURABLE,
     "x: no grant is known to have been durable in time; the request is withdrawn"},
    {"the withdrawal was not confirmed", RQL_E_NOT_DURABLE, RQL_E_UNKNOWN,
     "x: the server has not confirmed the withdrawal"},
    {"there was no memory for the reason", RQL_OK, RQL_E_IO, "no memory to keep why"},
};

TEST(the_text_is_about_the_status)
{
    EACH_ROW (row, rows) {
        rql_lock *lock = rqli_lock_new(client, "x", 0);
        rql_error fault = {.status = row->fault, .message = "the fault"};
        rql_error error = {.status = RQL_OK};
        const struct rqli_acquire acquire = {.client = client,
                                             .locks = &lock,
                                             .count = 1,
                                             .error = row->fault ? &fault : NULL,
                                             .op = {.status = row->status}};

        rqli_acquire_raise(&acquire, &error);
        assert_int_equal(error.status, row->status);
        assert_non_null(strstr(error.message, row->text));
        rqli_lock_free(lock);
    }
}
