#ifndef CLI_VIEW_H
#define CLI_VIEW_H

/* Locks and queues as the reading commands show them. */

#include "output.h"

#include <cJSON.h>
#include <rql/rql.h>

/* "alive", "released", "wrong type", "malformed". Static. */
const char *cli_key_status_text(rql_key_status status);

/* What is left of its ttl: "12.3s", "forever"; "-" where nothing is known. */
void cli_add_left(struct cli_table *table, const rql_lock_info *info);

cJSON *cli_lock_to_json(const rql_lock_info *info);
cJSON *cli_queue_to_json(const rql_queue_info *info);

/* Sorts by name, so that two listings can be compared. */
void cli_sort_locks(rql_lock_info_list *list);
void cli_sort_queues(rql_queue_info_list *list);

#endif
