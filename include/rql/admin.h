#ifndef RQL_ADMIN_H
#define RQL_ADMIN_H

/**
 * @file admin.h
 * @brief The calls of operators' tools, in addition to those of a worker in <rql/rql.h>.
 *
 * A tool inspects servers, locks, queues and hosts, and ends locks of other clients. A worker needs
 * nothing of it.
 */

#include <rql/base.h>
#include <rql/command.h>
#include <rql/hosts.h>
#include <rql/inspect.h>
#include <rql/rql.h>
#include <rql/stats.h>
#include <rql/status.h>
#include <rql/sweep.h>

RQL_BEGIN_DECLS

/**
 * Reads a duration as people write it: "500ms", "0.5s", "1h30m", "30d".
 *
 * A duration is one number or more, each with its unit: `d`, `h`, `m`, `s` or `ms`. The units go
 * from the longest to the shortest, and each occurs at most once. The last number may have up to
 * nine digits after a decimal point. Only 0 needs no unit. A '-' in front makes the duration
 * negative.
 *
 * @param[in]  text    The text.
 * @param[out] out_ms  The duration in milliseconds; untouched unless RQL_OK.
 * @param[out] error   Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         `*out_ms` is set.
 * @retval RQL_E_INVALID  The text is not a duration, is not a whole number of milliseconds, or is
 *                        too long for 64 bits; or a pointer is NULL.
 *
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_duration_parse(const char *text, int64_t *out_ms,
                                                     rql_error *error);

/** One row of the options table. All strings are static. */
typedef struct rql_option_row {
    const char *name;  /**< Field of ::rql_options. */
    const char *env;   /**< Environment variable. */
    const char *unit;  /**< "ms", "us", "tries", "keys", "percent", or "" for texts and switches. */
    const char *range; /**< For people: "1 to 600000", "queued | random". */
    const char *default_value; /**< The library's default, as text. */
    const char *gem_value;     /**< The gem's default, as text; NULL: the library's. */
    const char *help;          /**< One line that describes the option. */
} rql_option_row;

/**
 * Returns a row of the options table. The library validates, documents and parses options by this
 * table.
 *
 * @param[in] index  0 for the first row.
 * @return The row, which is static; or NULL past the last one.
 * @threads Callable from any thread.
 */
RQL_API const rql_option_row *rql_option_row_at(size_t index);

RQL_END_DECLS

#endif
