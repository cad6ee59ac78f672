#ifndef RQLI_LOCAL_H
#define RQLI_LOCAL_H

/*
 * The private server of `local:`: one redis-server or valkey-server per user, on a Unix socket in a
 * directory that only the user can enter, without persistence, `noeviction`. A guard ends the
 * server when it has had no client and no lock for a while.
 */

#include <rql/status.h>
#include <stdbool.h>
#include <stdint.h>

/* Connects to the server at `path`. If none answers there, starts one if may_start is set. RQL_OK,
 * or RQL_E_IO with one line that says that no server is running, which program is missing ("no
 * redis-server or valkey-server in PATH"), or which step failed and where, or RQL_E_NOMEM. Several
 * processes together start one server (file lock). */
rql_status rqli_local_join(const char *path, bool may_start, int64_t deadline_us, int *out_fd,
                           rql_error *error);

#endif
