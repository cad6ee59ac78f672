#ifndef RQLI_IDENT_H
#define RQLI_IDENT_H

/* Who is asking: acquirer and host ids, in the form of the gem's. Opaque to everybody but the
 * scripts: the identity, of 32 digits, ends both, and names the client's channel and sign of life.
 */

#include <rql/base.h>
#include <sys/types.h>

void rqli_acquirer_id(char out[RQL_ID_SIZE], uint64_t task, const char *identity);
/* That of the number-th request of this thread that is an acquirer of its own; no task's. */
void rqli_own_acquirer_id(char out[RQL_ID_SIZE], uint64_t number, const char *identity);
void rqli_host_id(char out[RQL_ID_SIZE], pid_t thread, const char *identity);

/* The kernel's number of this thread; kept per thread, made anew after fork. */
pid_t rqli_thread_id(void);

#endif
