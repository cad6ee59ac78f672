#include "glob.h"

#include <fnmatch.h>

bool cli_glob_matches(const struct cli_args *args, const char *name)
{
    return !args->name || fnmatch(args->name, name, 0) == 0;
}

/* What does not match stays in the list's allocation, behind its end: the list frees its items by
 * their count, so these are freed here. */
void cli_glob_locks(const struct cli_args *args, rql_lock_info_list *list)
{
    size_t kept = 0;

    for (size_t i = 0; i < list->count; i++) {
        rql_lock_info *const info = list->item[i];

        if (cli_glob_matches(args, info->name)) {
            list->item[kept++] = info;
        } else {
            (void)rql_lock_info_free(info);
        }
    }
    list->count = kept;
}

void cli_glob_queues(const struct cli_args *args, rql_queue_info_list *list)
{
    size_t kept = 0;

    for (size_t i = 0; i < list->count; i++) {
        rql_queue_info *const info = list->item[i];

        if (cli_glob_matches(args, info->name)) {
            list->item[kept++] = info;
        } else {
            (void)rql_queue_info_free(info);
        }
    }
    list->count = kept;
}
