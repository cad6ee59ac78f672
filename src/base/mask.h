#ifndef RQLI_MASK_H
#define RQLI_MASK_H

/* The host's signals are none of our threads' business: a thread begins with the mask of the one
 * that starts it, so that one holds all signals back meanwhile (F-65). */

#include <signal.h>

sigset_t rqli_mask_all(void); /* returns what was before */
void rqli_mask_restore(const sigset_t *before);

#endif
