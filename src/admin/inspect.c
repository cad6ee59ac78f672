#include "admin/reader.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/scope.h"
#include "lock/client.h"
#include "wire/keys.h"

#include <rql/inspect.h>

#define PREFIX_OF_ALL "rql:lock"

RQLI_DEFINE_AUTO(rql_lock_info *, rql_lock_info_free);
RQLI_DEFINE_AUTO(rql_queue_info *, rql_queue_info_free);
RQLI_DEFINE_AUTO(rql_lock_info_list *, rql_lock_info_list_free);
RQLI_DEFINE_AUTO(rql_queue_info_list *, rql_queue_info_list_free);

void rql_refusal_clear(rql_refusal *refusal)
{
    if (!refusal) {
        return;
    }
    (void)rql_lock_info_free(refusal->holder);
    (void)rql_queue_info_free(refusal->queue);
    *refusal = (rql_refusal){0};
}

static rql_status check_out(const rql_client *client, const void *out, rql_error *error)
{
    rql_status status = rqli_client_check(client, error);

    if (!status && !out) {
        status = rqli_fail(error, RQL_E_INVALID, "no place for the result");
    }
    return status;
}

/* About one name. */
struct question {
    struct rqli_reader reader;
    struct rqli_keys keys;
    char memory[RQLI_KEYS_ROOM];
};

static rql_status question_init(struct question *self, rql_client *client, const char *name,
                                const void *out, rql_error *error)
{
    rql_status status = check_out(client, out, error);

    status = status ? status : rqli_name_check(name, error);
    if (!status) {
        self->reader = (struct rqli_reader){client, name, error};
        rqli_keys_init(&self->keys, self->memory, rqli_slice_of(name));
    }
    return status;
}

rql_status rql_is_locked(rql_client *client, const char *name, bool *out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    struct question about;
    rql_status status = question_init(&about, client, name, out, error);

    return status ? status : rqli_read_exists(&about.reader, about.keys.lock, out);
}

rql_status rql_is_queued(rql_client *client, const char *name, bool *out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    struct question about;
    rql_status status = question_init(&about, client, name, out, error);

    return status ? status : rqli_read_exists(&about.reader, about.keys.queue, out);
}

rql_status rql_get_lock_info(rql_client *client, const char *name, rql_lock_info **out,
                             rql_error *error)
{
    RQLI_DEFER_CANCEL;
    struct question about;
    RQLI_AUTO(rql_lock_info_free) rql_lock_info *info = NULL;
    rql_status status = question_init(&about, client, name, out, error);

    if (!status) {
        status = rqli_read_locks(&about.reader, &about.keys.lock, 1, &info);
    }
    if (!status && info->status == RQL_KEY_RELEASED) {
        status = RQL_NOT_FOUND;
    }
    if (!status) {
        *out = RQLI_GIVE(info);
    }
    return status;
}

rql_status rql_get_queue_info(rql_client *client, const char *name, rql_queue_info **out,
                              rql_error *error)
{
    RQLI_DEFER_CANCEL;
    struct question about;
    RQLI_AUTO(rql_queue_info_free) rql_queue_info *info = NULL;
    rql_status status = question_init(&about, client, name, out, error);

    if (!status) {
        status = rqli_read_queues(&about.reader, &about.keys.queue, 1, &info);
    }
    if (!status && info->status == RQL_KEY_RELEASED) {
        status = RQL_NOT_FOUND;
    }
    if (!status) {
        *out = RQLI_GIVE(info);
    }
    return status;
}

rql_lock_info *rql_lock_info_free(rql_lock_info *info)
{
    free(info);
    return NULL;
}

rql_queue_info *rql_queue_info_free(rql_queue_info *info)
{
    free(info);
    return NULL;
}

rql_text_list *rql_text_list_free(rql_text_list *list)
{
    free(list);
    return NULL;
}

static rql_status list_keys(rql_client *client, const char *prefix, rql_text_list **out,
                            rql_error *error)
{
    RQLI_DEFER_CANCEL;
    const struct rqli_reader reader = {client, prefix, error};
    RQLI_AUTO(rqli_scan_fini) struct rqli_scan scan;
    rql_status status;

    rqli_scan_init(&scan, prefix);
    status = check_out(client, out, error);
    if (!status) {
        status = rqli_read_scan(&reader, &scan);
    }
    return status ? status : rqli_scan_texts(&scan, out, error);
}

rql_status rql_list_locks(rql_client *client, rql_text_list **out, rql_error *error)
{
    return list_keys(client, RQLI_KEY_LOCK, out, error);
}

rql_status rql_list_queues(rql_client *client, rql_text_list **out, rql_error *error)
{
    return list_keys(client, RQLI_KEY_QUEUE, out, error);
}

rql_status rql_list_keys(rql_client *client, rql_text_list **out, rql_error *error)
{
    return list_keys(client, PREFIX_OF_ALL, out, error);
}

/* All keys with the prefix of the scan, and a list with room for as many; NULL: *status says why.
 */
static void *new_list(const struct rqli_reader *reader, struct rqli_scan *scan, size_t head_size,
                      rql_status *status)
{
    void *list = NULL;

    *status = rqli_read_scan(reader, scan);
    if (!*status) {
        list = calloc(1, head_size + scan->count * sizeof(void *));
        *status = list ? RQL_OK : rqli_fail_nomem(reader->error);
    }
    return list;
}

rql_status rql_list_locks_info(rql_client *client, rql_lock_info_list **out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    const struct rqli_reader reader = {client, RQLI_KEY_LOCK "*", error};
    RQLI_AUTO(rql_lock_info_list_free) rql_lock_info_list *list = NULL;
    RQLI_AUTO(rqli_scan_fini) struct rqli_scan scan;
    rql_status status = check_out(client, out, error);

    rqli_scan_init(&scan, RQLI_KEY_LOCK);
    list = status ? NULL : new_list(&reader, &scan, sizeof *list, &status);
    if (list) {
        list->count = scan.count;
        list->item = (rql_lock_info **)(list + 1);
        status = rqli_read_locks(&reader, scan.keys, scan.count, list->item);
    }
    if (!status) {
        *out = RQLI_GIVE(list);
    }
    return status;
}

rql_status rql_list_queues_info(rql_client *client, rql_queue_info_list **out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    const struct rqli_reader reader = {client, RQLI_KEY_QUEUE "*", error};
    RQLI_AUTO(rql_queue_info_list_free) rql_queue_info_list *list = NULL;
    RQLI_AUTO(rqli_scan_fini) struct rqli_scan scan;
    rql_status status = check_out(client, out, error);

    rqli_scan_init(&scan, RQLI_KEY_QUEUE);
    list = status ? NULL : new_list(&reader, &scan, sizeof *list, &status);
    if (list) {
        list->count = scan.count;
        list->item = (rql_queue_info **)(list + 1);
        status = rqli_read_queues(&reader, scan.keys, scan.count, list->item);
    }
    if (!status) {
        *out = RQLI_GIVE(list);
    }
    return status;
}

rql_lock_info_list *rql_lock_info_list_free(rql_lock_info_list *list)
{
    for (size_t i = 0; list && i < list->count; i++) {
        free(list->item[i]);
    }
    free(list);
    return NULL;
}

rql_queue_info_list *rql_queue_info_list_free(rql_queue_info_list *list)
{
    for (size_t i = 0; list && i < list->count; i++) {
        free(list->item[i]);
    }
    free(list);
    return NULL;
}
