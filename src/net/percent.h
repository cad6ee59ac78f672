#ifndef RQLI_PERCENT_H
#define RQLI_PERCENT_H

/* Percent-decoding of the parts of a URL. RQL_E_INVALID, which names the part and none of its
 * bytes, or RQL_E_NOMEM. */

#include "base/text.h"

#include <rql/status.h>

/* Decoded and terminated, which takes no more than the text and one byte; *next is behind it then.
 */
rql_status rqli_percent_write(char **next, struct rqli_slice text, const char *part,
                              rql_error *error);

/* *out is the caller's to free, also after a failure. */
rql_status rqli_percent_decode(char **out, struct rqli_slice text, const char *part,
                               rql_error *error);

/* The same into memory of base/secret.h. */
rql_status rqli_percent_decode_secret(char **out, struct rqli_slice text, const char *part,
                                      rql_error *error);

#endif
