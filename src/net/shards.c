#include "net/shards.h"

#include "base/text.h"

/* The last step of splitmix64, which has no two inputs with one output. */
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
