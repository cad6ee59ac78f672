#ifndef CLI_CLASSES_H
#define CLI_CLASSES_H

/* Classes of locks, for metrics: names of locks are many, and are nobody's business there. A file
 * says which locks are of which class, a line each: a glob, a blank, the class. The first that
 * matches counts; what none matches is "other". */

#include <rql/rql.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CLI_CLASSES_MAX = 50 };

struct cli_class {
    const char *name;
    int64_t locks;
    int64_t waiting;
    int64_t dead; /* of those that wait: so old that nobody is thought to wait for them */
    int64_t oldest_hold_ms;
    int64_t oldest_wait_ms;
};

/* Zero has none, not even "other". */
struct cli_classes {
    size_t n_lines;

    struct cli_class_line {
        char *text; /* owned; what the rest refers to is in it */
        const char *glob;
        size_t class;
    } line[CLI_CLASSES_MAX];

    size_t count;
    struct cli_class class[CLI_CLASSES_MAX + 1]; /* "other" is the first */
};

/* NULL: "other" alone. False after having said what is wrong with the file. */
bool cli_classes_read(struct cli_classes *self, const char *path);
void cli_classes_free_p(struct cli_classes *self);

/* What a server has, in place of what was counted before. Ages are by this machine's clock. */
void cli_classes_count(struct cli_classes *self, const rql_lock_info_list *locks,
                       const rql_queue_info_list *queues, int64_t dead_ms);

#endif
