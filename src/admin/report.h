#ifndef RQLI_REPORT_H
#define RQLI_REPORT_H

/* Makes a report of diagnose.h: check after check, each with its explanation and its findings.
 * No I/O. If memory runs out, that is noted and reported at the end. */

#include <rql/diagnose.h>

struct rqli_report;

/* Makes a report that leaves out the checks of other groups; groups NULL: none is left out.
 * Returns NULL without memory. */
struct rqli_report *rqli_report_new(const char *groups);
struct rqli_report *rqli_report_free(struct rqli_report *self); /* NULL is fine */

/* Says whether one of these groups is wanted. They are words with a blank between two. */
bool rqli_report_wants(const struct rqli_report *self, const char *groups);

/* From now on checks are about this one of several servers, and name it; NULL: about all. The
 * text must live as long as the report. */
void rqli_report_of(struct rqli_report *self, const char *node);

/* Adds a check. `id` is static. */
void rqli_report_add(struct rqli_report *self, const char *id, rql_check_level level,
                     const char *title, ...) __attribute__((format(printf, 4, 5)));

/* Explains the last check, unless it is OK or skipped. So a check can call this without looking
 * at its level. `why` is static. */
void rqli_report_say(struct rqli_report *self, const char *why, const char *fix, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds a finding to the last check, which has at most RQLI_REPORT_FOUND. `name` is static. */
enum { RQLI_REPORT_FOUND = 6 };

void rqli_report_number(struct rqli_report *self, const char *name, int64_t value);
void rqli_report_text(struct rqli_report *self, const char *name, const char *text);

/* Gives the report to the caller; *self has to be freed all the same. */
rql_status rqli_report_give(struct rqli_report **self, const rql_server_info *server,
                            int64_t uptime_s, rql_report **out, rql_error *error);

#endif
