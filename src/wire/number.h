#ifndef RQLI_NUMBER_H
#define RQLI_NUMBER_H

/* Numbers as Ruby's Float() and Integer() read them, and scores as servers print them.
 * What Ruby refuses or reads otherwise (leading zeros are octal there) is refused. No locale. */

#include "base/text.h"

/* Decimal seconds, with an exponent if there is one, to microseconds, rounded. No inf, no nan, none
 * that does not fit. */
bool rqli_gem_seconds(struct rqli_slice text, int64_t *out_us);

/* Digits with an optional sign and no leading zero. */
bool rqli_gem_integer(struct rqli_slice text, int64_t *out);

#endif
