#ifndef TOP_PRINT_H
#define TOP_PRINT_H

#include "look.h"

/* Adds the rows of a look that the filter lets through to the sink: a table, or one object of JSON,
 * which has the queues and the hosts of the look as well. */
void top_print(struct out *out, struct top_look *look, enum top_order order,
               const struct top_filter *filter);

#endif
