#include <rql/stats.h>
#include <string.h>

_Static_assert(sizeof(rql_stats) % sizeof(int64_t) == 0, "all but the size are counts");

void rql_stats_add(rql_stats *into, const rql_stats *from)
{
    char *to_bytes = (char *)into;
    const char *from_bytes = (const char *)from;
    /* Each is as long as its writer knew the struct: a field that one of them lacks stays
     * unchanged. */
    size_t end = into->size < from->size ? into->size : from->size;

    /* Every field after the size is a count. */
    for (size_t at = sizeof into->size; at + sizeof(int64_t) <= end; at += sizeof(int64_t)) {
        int64_t a;
        int64_t b;

        memcpy(&a, to_bytes + at, sizeof a);
        memcpy(&b, from_bytes + at, sizeof b);
        a += b;
        memcpy(to_bytes + at, &a, sizeof a);
    }
}
