#ifndef RQLI_LOCAL_START_H
#define RQLI_LOCAL_START_H

/* Starts the guard of the private server (local_guard.sh): detached from this process, in a session
 * of its own, with none of its descriptors, and nobody's child. */

#include <rql/status.h>

enum rqli_local_task {
    RQLI_LOCAL_START, /* no server is there; the caller holds the lock of the folder */
    RQLI_LOCAL_ADOPT, /* a server is there that has lost its guard */
};

/* RQL_OK: the guard was started; what becomes of it shows at the socket. */
rql_status rqli_local_start(enum rqli_local_task task, const char *folder, rql_error *error);

#endif
