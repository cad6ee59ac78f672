#ifndef RQLI_RANDOM_H
#define RQLI_RANDOM_H

/* Chance. Identities and nonces come from the system for each use (F-58, F-59); jitter need not. */

#include <stdbool.h>
#include <stdint.h>

enum { RQLI_HEX_SIZE = 33 };

/* 128 bits from getrandom() as 32 lower case digits, terminated. False: the system has none. */
bool rqli_random_hex(char out[RQLI_HEX_SIZE]);

/* 0 to bound - 1; not for secrets. */
uint32_t rqli_random_below(uint32_t bound);

#endif
