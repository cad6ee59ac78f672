#ifndef RQLI_IDENT_H
#define RQLI_IDENT_H

/* Who is asking: acquirer and host ids (wire.md section 2). Opaque to everybody but settle.lua,
 * which tells ours from Ruby's by the length of the identity. */

#include <rql/base.h>
#include <sys/types.h>

void rqli_acquirer_id(char out[RQL_ID_SIZE], uint64_t task, const char *identity);
/* That of the number-th request of this thread that is an acquirer of its own; no task's. */
void rqli_own_acquirer_id(char out[RQL_ID_SIZE], uint64_t number, const char *identity);
void rqli_host_id(char out[RQL_ID_SIZE], pid_t thread, const char *identity);

/* The kernel's number of this thread; kept per thread, made anew after fork. */
pid_t rqli_thread_id(void);

#endif
