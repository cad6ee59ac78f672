#ifndef RQLI_REPORT_H
#define RQLI_REPORT_H

/* A report of diagnose.h while it is made: check after check, and what is said of the last one. No
 * I/O. Memory that runs out is noted, and found out at the end. */

#include <rql/diagnose.h>

struct rqli_report;

/* Checks of other groups than these are left out; NULL: none is. NULL: no memory. */
struct rqli_report *rqli_report_new(const char *groups);
struct rqli_report *rqli_report_free(struct rqli_report *self); /* NULL is fine */

/* Is one of these groups wanted? Words with a blank between two. */
bool rqli_report_wants(const struct rqli_report *self, const char *groups);

/* From now on checks are about this one of several servers, and name it; NULL: about all. It stays
 * as long as the report. */
void rqli_report_of(struct rqli_report *self, const char *node);

/* A new check. `id` is static. */
void rqli_report_add(struct rqli_report *self, const char *id, rql_check_level level,
                     const char *title, ...) __attribute__((format(printf, 4, 5)));

/* Of the last one, if that is neither well nor skipped: so whoever judges says it in any case.
 * `why` is static. */
void rqli_report_say(struct rqli_report *self, const char *why, const char *fix, ...)
    __attribute__((format(printf, 3, 4)));

/* Of the last one, at most RQLI_REPORT_FOUND. `name` is static. */
enum { RQLI_REPORT_FOUND = 6 };

void rqli_report_number(struct rqli_report *self, const char *name, int64_t value);
void rqli_report_text(struct rqli_report *self, const char *name, const char *text);

/* For the caller; free it all the same. */
rql_status rqli_report_give(struct rqli_report **self, const rql_server_info *server,
                            int64_t uptime_s, rql_report **out, rql_error *error);

#endif
