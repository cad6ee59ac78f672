#include "net/sock/shards.h"

#include "base/error.h"
#include "base/text.h"
#include "wire/keys.h"

#include <stdlib.h>
#include <string.h>

/* The last step of splitmix64, in which no two inputs have the same output. */
static uint64_t mix(uint64_t bits)
{
    bits = (bits ^ bits >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ bits >> 27) * UINT64_C(0x94d049bb133111eb);
    return bits ^ bits >> 31;
}

size_t rqli_shard_of(const char *const *names, size_t count, unsigned partition)
{
    uint64_t highest = 0;
    size_t best = 0;

    for (size_t i = 0; i < count; i++) {
        uint64_t score = mix(rqli_hash_text(RQLI_HASH_START, names[i]) ^ partition);

        if (score > highest || (score == highest && strcmp(names[i], names[best]) > 0)) {
            highest = score;
            best = i;
        }
    }
    return best;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

char *rqli_shards_ring(const char *const *names, size_t count)
{
    const char **sorted = calloc(count, sizeof *sorted);
    size_t size = 1;
    char *ring;
    char *end;

    for (size_t i = 0; sorted && i < count; i++) {
        sorted[i] = names[i];
        size += strlen(names[i]) + 1;
    }
    ring = sorted ? malloc(size) : NULL;
    if (ring) {
        qsort(sorted, count, sizeof *sorted, compare);
        end = stpcpy(ring, sorted[0]);
        for (size_t i = 1; i < count; i++) {
            end = stpcpy(stpcpy(end, ","), sorted[i]);
        }
    }
    free(sorted);
    return ring;
}

/* Clients with different lists would not exclude each other, so the first client's list counts. It
 * counts also on a server that takes no writes just now, for lack of memory or replicas, because
 * the locks there have to be seen, and released. A server without a list has no locks either. */
rql_status rqli_shards_check(const char *where, const char *ring, const struct rqli_reply *reply,
                             const rql_error *refused, rql_error *error)
{
    if (reply->type == RQLI_REPLY_NIL && refused->status) {
        return rqli_fail(error, refused->status, "%s", refused->message);
    }
    if (reply->type == RQLI_REPLY_NIL || rqli_reply_is(reply, ring)) {
        return RQL_OK;
    }
    if (reply->type != RQLI_REPLY_TEXT) {
        return rqli_reply_fault(reply, "GET " RQLI_KEY_RING, where, error);
    }
    return rqli_fail(
        error, RQL_E_INVALID,
        "%.80s: others share the locks out over %.*s, this client over %s; to change that, stop "
        "all clients and delete the key " RQLI_KEY_RING " on each server",
        where, (int)reply->text.length, reply->text.data, ring);
}
