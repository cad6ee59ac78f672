#ifndef RQLI_META_H
#define RQLI_META_H

/* The rules for metadata (F-93): few and small pairs that cannot pass for fields of the lock. */

#include <rql/options.h>

/* RQL_E_INVALID names the first pair that is wrong, by its index. */
rql_status rqli_meta_check(const rql_meta *meta, size_t n_meta, rql_error *error);

#endif
