#include "base/result.h"

#include "base/error.h"

#include <stdalign.h>
#include <string.h>

/* Far above the size of any struct of results: a larger one was never set up. */
enum { SIZE_MAX_BYTES = 1 << 20 };

void rql_result_init_sized(void *result, size_t size)
{
    memset(result, 0, size);
    memcpy(result, &size, sizeof size);
}

/* Every such struct has members that are aligned like its size, so its own size is a multiple of
 * that. Memory that was never set up nearly always fails here. */
rql_status rqli_result_check(const void *result, size_t least, rql_error *error)
{
    size_t size;

    if (!result) {
        return RQL_OK;
    }
    memcpy(&size, result, sizeof size);
    if (size < least || size > SIZE_MAX_BYTES || size % alignof(size_t) != 0) {
        return rqli_fail(error, RQL_E_INVALID, "result: not set up by rql_result_init()");
    }
    return RQL_OK;
}

void rqli_result_fill(void *out, size_t size, const void *ours, size_t n)
{
    const size_t common = size < n ? size : n;

    memset(out, 0, size);
    memcpy(out, ours, common);
    memcpy(out, &common, sizeof common);
}
