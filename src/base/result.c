#include "base/result.h"

#include "base/error.h"

#include <rql/options.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

/* Longer structs are uninitialised memory, not newer programs. */
enum { STRUCT_SIZE_MAX = 4096 };

void rql_result_init_sized(void *result, size_t size)
{
    memset(result, 0, size);
    memcpy(result, &size, sizeof size);
}

/* Every struct of options or results begins with its size_t and has the alignment of rql_options,
 * so its own size is a multiple of that. Memory that was never initialised nearly always fails at
 * one of the three checks. */
bool rqli_is_set_up(const void *given, size_t least)
{
    size_t size;

    memcpy(&size, given, sizeof size);
    return size >= least && size <= STRUCT_SIZE_MAX && size % alignof(rql_options) == 0;
}

rql_status rqli_check_known(const void *given, size_t known, rql_error *error)
{
    const unsigned char *bytes = given;
    size_t size;

    memcpy(&size, given, sizeof size);
    for (size_t i = known; i < size; i++) {
        if (bytes[i] != 0) {
            return rqli_fail(error, RQL_E_INVALID,
                             "options: has fields this library does not know");
        }
    }
    return RQL_OK;
}

rql_status rqli_result_check(const void *result, size_t least, rql_error *error)
{
    return !result || rqli_is_set_up(result, least)
               ? RQL_OK
               : rqli_fail(error, RQL_E_INVALID, "result: not set up by rql_result_init()");
}

void rqli_result_fill(void *out, size_t size, const void *ours, size_t n)
{
    const size_t common = size < n ? size : n;

    memset(out, 0, size);
    memcpy(out, ours, common);
    memcpy(out, &common, sizeof common);
}

/* Comes before each block of a result. A result and the blocks that it has adopted are a chain. */
struct block {
    alignas(max_align_t) struct block *next;
};

static struct block *block_of(void *result)
{
    return (struct block *)result - 1;
}

void *rqli_result_new(size_t size)
{
    struct block *block = calloc(1, sizeof *block + size);

    return block ? block + 1 : NULL;
}

void rqli_result_adopt(void *result, void *part)
{
    struct block *first = block_of(result);
    struct block *last;

    if (!part) {
        return;
    }
    last = block_of(part);
    while (last->next) {
        last = last->next;
    }
    last->next = first->next;
    first->next = block_of(part);
}

void *rql_free(void *result)
{
    struct block *block = result ? block_of(result) : NULL;

    while (block) {
        struct block *next = block->next;

        free(block);
        block = next;
    }
    return NULL;
}
