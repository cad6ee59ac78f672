#ifndef RQLI_SECRET_H
#define RQLI_SECRET_H

/* Memory for passwords that have to be kept. It is in no core file, and is wiped when it is freed.
 * Each piece has pages of its own, so there should be few. */

#include <stddef.h>

/* Returns zeroed memory, or NULL if there is none. */
void *rqli_secret_new(size_t size);
void *rqli_secret_free(void *self); /* NULL is fine */

#endif
