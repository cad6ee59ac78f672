#ifndef RQLI_SWEEP_OPTIONS_H
#define RQLI_SWEEP_OPTIONS_H

/* Settings of one sweep: defaults from the client's options, validation. */

#include <rql/sweep.h>

/* The caller's struct over the defaults that the client's options give, checked. NULL: those. */
rql_status rqli_sweep_options_read(rql_sweep_options *out, const rql_options *client,
                                   const rql_sweep_options *given, rql_error *error);

#endif
