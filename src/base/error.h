#ifndef RQLI_ERROR_H
#define RQLI_ERROR_H

/* Raises faults and outcomes. Each is raised exactly once, where it is first known. */

#include <rql/status.h>

/* Fills *error (NULL is fine) and returns status, which must not be RQL_OK. errno is saved in
 * sys_errno for RQL_E_IO and RQL_E_UNKNOWN. */
rql_status rqli_fail(rql_error *error, rql_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The one way to report that memory ran out. It is inline, so that the compiler sees in every
 * caller that the result is no success. */
static inline rql_status rqli_fail_nomem(rql_error *error)
{
    (void)rqli_fail(error, RQL_E_NOMEM, "out of memory; nothing was sent");
    return RQL_E_NOMEM;
}

/* Passes on a fault that was raised in a struct of the callee, and returns status. A call that
 * tries several times raises the fault of each try there, because the caller's struct has to stay
 * unchanged if a later try succeeds: *error is only filled if status is not RQL_OK. */
static inline rql_status rqli_pass(rql_error *error, rql_status status, const rql_error *fault)
{
    if (status && error) {
        *error = *fault;
    }
    return status;
}

#endif
