#ifndef CLI_CLASSES_H
#define CLI_CLASSES_H

/* Classes of locks, for metrics. Names of locks are too many for metrics, and may be confidential.
 * A file assigns locks to classes; each line is a glob, a blank and the class. The first match
 * counts. A lock that matches no line is in "other". */

#include <rql/admin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CLI_CLASSES_MAX = 50 };

struct cli_class {
    const char *name;
    int64_t locks;
    int64_t holders;
    int64_t units_used;
    int64_t waiting;
    int64_t dead; /* waiting requests that are so old that they are considered dead */
    int64_t oldest_hold_ms;
    int64_t oldest_wait_ms;
};

/* A zeroed struct has no class, not even "other". */
struct cli_classes {
    size_t n_lines;

    struct cli_class_line {
        char *text; /* owned; the other fields point into it */
        const char *glob;
        size_t class;
    } line[CLI_CLASSES_MAX];

    size_t count;
    struct cli_class class[CLI_CLASSES_MAX + 1]; /* "other" is the first */
};

/* Reads the classes from this file. If the path is NULL, there is only "other". Returns false after
 * reporting an error in the file. */
bool cli_classes_read(struct cli_classes *self, const char *path);
void cli_classes_free_p(struct cli_classes *self);

/* Replaces the counts by those of these locks and queues. Ages are by the server's clock. */
void cli_classes_count(struct cli_classes *self, const rql_lock_info_list *locks,
                       const rql_queue_info_list *queues, int64_t dead_ms);

#endif
