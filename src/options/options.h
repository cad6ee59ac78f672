#ifndef RQLI_OPTIONS_H
#define RQLI_OPTIONS_H

/* The options table and what it drives: defaults, validation, reading of sized structs. */

#include <rql/options.h>

/* RQL_E_UNSUPPORTED if somebody wants to listen to a light build; observe/ knows which one it is.
 */
rql_status rqli_listeners_check(rql_log_fn logger, rql_event_fn instrumenter, rql_error *error);

/* The caller's struct over the defaults, checked. NULL: the defaults. */
rql_status rqli_options_read(rql_options *out, const rql_options *given, rql_error *error);

/* The same for one acquisition, over the defaults of its client. */
rql_status rqli_lock_options_read(rql_lock_options *out, const rql_lock_options *defaults,
                                  const rql_lock_options *given, rql_error *error);

/* Fills a per-call struct from a client's options; NULL: from the library's defaults. */
void rqli_lock_options_fill(rql_lock_options *out, const rql_options *client);

/* A caller's sized struct over the defaults in *out, which is known bytes long; both start with
 * their size. The fields are still to be checked. For all structs of options. */
rql_status rqli_options_lay_over(void *out, size_t known, const void *given, size_t least,
                                 rql_error *error);

/* The other way: what a caller whose struct has `size` bytes gets of ours, which begins with its
 * size and is known bytes long. For all structs of options. */
void rqli_options_hand_out(void *out, size_t size, const void *ours, size_t known);

#endif
