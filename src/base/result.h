#ifndef RQLI_RESULT_H
#define RQLI_RESULT_H

/* The results of calls.
 *
 * Some are structs of the caller, which may have been compiled with another version of the library,
 * in which they were shorter or longer. The first member of each is its size, a size_t. */

#include <rql/inspect.h>
#include <rql/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The size of a struct whose last member is that one. */
#define RQLI_UP_TO(type, member) (offsetof(type, member) + sizeof((type *)0)->member)

/* Returns whether an init call has set the struct up, with at least these bytes: those of the
 * members of its first version. */
bool rqli_is_set_up(const void *given, size_t least);

/* Checks options that are set up. A newer program may pass a longer struct than ours, which has
 * `known` bytes, as long as all members that we do not know are zero. */
rql_status rqli_check_known(const void *given, size_t known, rql_error *error);

/* Checks that rql_result_init() has set the struct up, with at least the members of its first
 * version, which are `least` bytes. NULL, which means that the caller wants no result, passes. */
rql_status rqli_result_check(const void *result, size_t least, rql_error *error);

/* Copies to the caller's struct of `size` bytes the members that it has in common with ours, which
 * has n. Its other members are 0, and its first one says how many bytes are filled in. */
void rqli_result_fill(void *out, size_t size, const void *ours, size_t n);

/*
 * Results that the library allocates, and the caller releases with rql_free().
 */

/* Memory of that size, all zero, or NULL. */
void *rqli_result_new(size_t size);

/* From now on rql_free(result) also frees `part`, which rqli_result_new() has made and which has
 * no other owner. NULL is nothing. */
void rqli_result_adopt(void *result, void *part);

/* For RQLI_AUTO(rql_free). */
static inline void rql_free_p(void *slot)
{
    void *result;

    memcpy(&result, slot, sizeof result);
    (void)rql_free(result);
}

#endif
