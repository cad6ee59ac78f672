#ifndef RQLB_FAULT_H
#define RQLB_FAULT_H

/* The first fault of several processes, in shared memory. It ends the program; later ones are
 * mostly its consequences and are dropped. Zero is "none". */

#include <stdatomic.h>
#include <stdbool.h>

enum { FAULT_TEXT_SIZE = 320 };

struct fault {
    atomic_bool raised; /* text is being written */
    atomic_bool told;   /* text is complete */
    char text[FAULT_TEXT_SIZE];
};

void fault_raise(struct fault *self, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "what: reason", with the reason that errno gives. */
void fault_raise_errno(struct fault *self, const char *what);

/* NULL: none. */
const char *fault_text(const struct fault *self);

#endif
