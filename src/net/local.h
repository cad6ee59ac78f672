#ifndef RQLI_LOCAL_H
#define RQLI_LOCAL_H

/* The private server of `local:`: one redis-server or valkey-server per user, on a Unix socket in a
 * directory that only the user can enter, without persistence, `noeviction`. A guard ends it when
 * it has had no client and no lock for a while. */

#include <rql/status.h>
#include <stdint.h>

/* Makes sure that a server answers at `path`, starting one if needed, before deadline_us.
 * RQL_OK, or RQL_E_IO with one line that says what is missing ("no redis-server or valkey-server in
 * PATH"), what failed and where, or RQL_E_NOMEM. Several processes at once start one server (file
 * lock). On RQL_OK *out_fd is connected to it. */
rql_status rqli_local_join(const char *path, int64_t deadline_us, int *out_fd, rql_error *error);

#endif
