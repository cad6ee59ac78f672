#ifndef CHANCE_H
#define CHANCE_H

/* Chance that can be had again: the same seed gives the same test. */

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/* Another one each time, said, and had again by RQL_TEST_SEED. */
static inline uint32_t chance_seed(void)
{
    const char *given = getenv("RQL_TEST_SEED");
    uint32_t seed = given ? (uint32_t)strtoul(given, NULL, 10) : (uint32_t)time(NULL) * 2654435761U;

    seed = seed ? seed : 1;
    print_message("# RQL_TEST_SEED=%u plays the same again\n", (unsigned)seed);
    return seed;
}

/* The seed must not be 0. */
static inline uint32_t chance_below(uint32_t *seed, uint32_t bound)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed % bound;
}

#endif
