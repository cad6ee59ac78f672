#ifndef RQLI_RANDOM_H
#define RQLI_RANDOM_H

/* Random numbers. Identities and nonces come from the system each time, because a copy of the
 * machine or process would draw the same ones; jitter need not. */

#include "base/text.h"

#include <rql/base.h>
#include <stdbool.h>
#include <stdint.h>

enum { RQLI_HEX_SIZE = 33 };

/* Writes 128 bits from getrandom() as 32 lower case digits, terminated. Returns false if the system
 * has none. */
bool rqli_random_hex(char out[RQLI_HEX_SIZE]);

/* Returns 0 to bound - 1; not for secrets. */
uint32_t rqli_random_below(uint32_t bound);

/* Acquirer and host ids, in the form of the gem's, with the numbers of base/threads.h. Opaque to
 * all but the scripts: the identity, of 32 digits, ends both, and names the client's channel and
 * heartbeat. */

void rqli_acquirer_id(char out[RQL_ID_SIZE], uint64_t task, const char *identity);
/* Writes the id for the number-th request of this thread that is an acquirer of its own; no task
 * has this id. */
void rqli_own_acquirer_id(char out[RQL_ID_SIZE], uint64_t number, const char *identity);
void rqli_host_id(char out[RQL_ID_SIZE], uint64_t thread, const char *identity);

/* Returns whether an acquirer or host id is one of the gem's, whose identities have 16 digits. */
bool rqli_is_of_ruby(struct rqli_slice id);

#endif
