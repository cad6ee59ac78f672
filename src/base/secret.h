#ifndef RQLI_SECRET_H
#define RQLI_SECRET_H

/* Memory for passwords that have to stay. It is in no core file, and wiped at its end. Each piece
 * has pages of its own, so there should be few. */

#include <stddef.h>

/* Zeroed. NULL: no memory. */
void *rqli_secret_new(size_t size);
void *rqli_secret_free(void *self); /* NULL is fine */

#endif
