#ifndef RQLI_TABLE_H
#define RQLI_TABLE_H

/* The options table: the one place that knows names, defaults and ranges. Constant. */

#include "options/options.h"

/* The least that a sized struct can have: the first version had more. */
enum {
    RQLI_OPTIONS_LEAST = offsetof(rql_options, connect_timeout_ms),
    RQLI_LOCK_OPTIONS_LEAST = offsetof(rql_lock_options, queue_ttl_ms),
};

struct rqli_option {
    rql_option_row shown;

    enum rqli_option_kind {
        RQLI_OPTION_INT,
        RQLI_OPTION_BOOL,
        RQLI_OPTION_ENUM,
        RQLI_OPTION_TEXT,
    } kind;

    bool forever; /* RQL_FOREVER is a value too */

    size_t offset;         /* in rql_options */
    size_t call_offset;    /* in rql_lock_options */
    const char *call_name; /* its name there, or NULL: it is not there */
    int64_t min;
    int64_t max;
    int64_t fallback;         /* the default, as a number */
    const char *const *words; /* of switches and strategies, by value; NULL-terminated */
};

/* The index-th option, or NULL past the last one. */
const struct rqli_option *rqli_option_at(size_t index);

/* The same for the fields that only one acquisition has; their rows are not for users. */
const struct rqli_option *rqli_call_option_at(size_t index);

/* Bytes of its field. */
size_t rqli_option_width(const struct rqli_option *self);

/* The value of a number, switch or strategy, whatever bytes the field has. */
int64_t rqli_option_load(const struct rqli_option *self, const void *field);
void rqli_option_store(const struct rqli_option *self, void *field, int64_t value);

bool rqli_option_accepts(const struct rqli_option *self, int64_t value);

/* name: what the user knows the field by. */
rql_status rqli_option_check(const struct rqli_option *self, const void *field, const char *name,
                             rql_error *error);

/* Is this a size that an init call can have written? */
rql_status rqli_option_check_size(size_t size, size_t least, rql_error *error);

#endif
