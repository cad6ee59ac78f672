#ifndef RQLI_RESULT_H
#define RQLI_RESULT_H

/* Structs in which a call returns its result. The caller owns them, and may have been compiled with
 * another version of the library, in which they were shorter or longer. The first member of each is
 * its size, a size_t. */

#include <rql/status.h>
#include <stddef.h>

/* The size of a struct whose last member is that one. */
#define RQLI_UP_TO(type, member) (offsetof(type, member) + sizeof((type *)0)->member)

/* Checks that rql_result_init() has set the struct up, with at least the members of its first
 * version, which are `least` bytes. NULL, which means that the caller wants no result, passes. */
rql_status rqli_result_check(const void *result, size_t least, rql_error *error);

/* Copies to the caller's struct of `size` bytes the members that it has in common with ours, which
 * has n. Its other members are 0, and its first one says how many bytes are filled in. */
void rqli_result_fill(void *out, size_t size, const void *ours, size_t n);

#endif
