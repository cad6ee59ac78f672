#ifndef RQLI_NUMBER_H
#define RQLI_NUMBER_H

/* Reads numbers as Ruby's Float() and Integer() do, and scores as servers print them. Numbers that
 * Ruby refuses or reads otherwise (leading zeros mean octal there) are refused. No locale. */

#include "base/text.h"

/* Reads decimal seconds, with an optional exponent, as microseconds, rounded. Refuses inf, nan, and
 * a number that does not fit. */
bool rqli_gem_seconds(struct rqli_slice text, int64_t *out_us);

/* Reads digits with an optional sign and no leading zero. */
bool rqli_gem_integer(struct rqli_slice text, int64_t *out);

#endif
