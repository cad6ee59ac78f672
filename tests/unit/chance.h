#ifndef CHANCE_H
#define CHANCE_H

/* Chance that can be had again: the same seed gives the same test. */

#include <stdint.h>

/* The seed must not be 0. */
static inline uint32_t chance_below(uint32_t *seed, uint32_t bound)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed % bound;
}

#endif
