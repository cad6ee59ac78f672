#include "admin/info.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/random.h"
#include "base/result.h"
#include "base/threads.h"
#include "lock/leases.h"
#include "lock/lock.h"
#include "wire/command.h"

#include <rql/inspect.h>
#include <stdlib.h>
#include <string.h>

/*
 * Calls that show locks and queues. All of them only read. Their result was true on the server at
 * some time during the call, key by key, and not at one instant for all keys.
 */

/* Prefix of locks and queues alike; our own keys begin otherwise (lua/README.md 1). */
#define PREFIX_OF_ALL "rql:lock"

/* Most keys of one SCAN, whatever the option says, because the server serves no other client
 * meanwhile. */
enum { SCAN_COUNT_MAX = 10000 };

/* This is here because a refusal points to descriptions of a lock and of a queue. */
void rql_refusal_clear(rql_refusal *refusal)
{
    if (!refusal) {
        return;
    }
    (void)rql_free(refusal->holder);
    (void)rql_free(refusal->queue);
    rql_result_init_sized(refusal, refusal->size);
}

/* Checks the arguments of every public call here: a client of this process, and a place for the
 * result. */
static rql_status check_out(const rql_client *client, const void *out, rql_error *error)
{
    rql_status status = rqli_client_check(client, error);

    if (!status && !out) {
        status = rqli_fail(error, RQL_E_INVALID, "out is NULL");
    }
    return status;
}

/* Checks the arguments of a call about one name. */
static rql_status check_named(struct rqli_named *lock, const rql_client *client, const char *name,
                              const void *out, rql_error *error)
{
    rql_status status = check_out(client, out, error);

    return status ? status : rqli_named_init(lock, client, name, error);
}

/* A key of another type counts as existing, too: a caller that asks "is it locked?" cannot take
 * the lock then. */
static rql_status read_exists(rql_client *client, const struct rqli_keys *keys, const char *key,
                              bool *out, rql_error *error)
{
    RQLI_AUTO(rqli_batch_give) struct rqli_batch *batch = NULL;
    rql_status status = rqli_query_about(client, keys, &batch, error, "EXISTS", key, NULL);

    if (status) {
        return rqli_reader_status(status, rqli_client_node(client, keys), error);
    }
    if (batch->reply->type != RQLI_REPLY_INTEGER) {
        return rqli_batch_fault(batch, batch->reply, "EXISTS", key, error);
    }
    *out = batch->reply->integer != 0;
    return RQL_OK;
}

rql_status rql_lock_exists(rql_client *client, const char *name, bool *out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    struct rqli_named lock;
    rql_status status = check_named(&lock, client, name, out, error);

    return status ? status : read_exists(client, &lock.keys, lock.keys.lock.data, out, error);
}

rql_status rql_queue_exists(rql_client *client, const char *name, bool *out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    struct rqli_named lock;
    rql_status status = check_named(&lock, client, name, out, error);

    return status ? status : read_exists(client, &lock.keys, lock.keys.queue.data, out, error);
}

rql_status rql_lock_inspect(rql_client *client, const char *name, rql_lock_info **out,
                            rql_error *error)
{
    RQLI_DEFER_CANCEL;
    const struct rqli_reader reader = {.client = client, .where = name, .error = error};
    RQLI_AUTO(rql_free) rql_lock_info *info = NULL;
    struct rqli_named lock;
    rql_status status = check_named(&lock, client, name, out, error);

    if (!status) {
        const struct rqli_item key = {.text = lock.keys.lock};

        status = rqli_read_locks(&reader, &key, 1, &info);
    }
    /* A key that is gone has a description as well, which the listings need. Here it is freed. */
    if (!status && info->status == RQL_KEY_RELEASED) {
        status = rqli_fail(error, RQL_NOT_FOUND, "%s: the lock is free", name);
    }
    if (!status) {
        *out = RQLI_GIVE(info);
    }
    return status;
}

rql_status rql_lock_holders(rql_client *client, const char *name, rql_holder_list **out,
                            rql_error *error)
{
    RQLI_DEFER_CANCEL;
    const struct rqli_reader reader = {.client = client, .where = name, .error = error};
    RQLI_AUTO(rql_free) rql_holder_list *list = NULL;
    struct rqli_named lock;
    rql_status status = check_named(&lock, client, name, out, error);

    status = status ? status : rqli_read_holders(&reader, lock.keys.lock, &list);
    if (!status) {
        *out = RQLI_GIVE(list);
    }
    return status;
}

rql_status rql_queue_inspect(rql_client *client, const char *name, rql_queue_info **out,
                             rql_error *error)
{
    RQLI_DEFER_CANCEL;
    const struct rqli_reader reader = {.client = client, .where = name, .error = error};
    RQLI_AUTO(rql_free) rql_queue_info *info = NULL;
    struct rqli_named lock;
    rql_status status = check_named(&lock, client, name, out, error);

    if (!status) {
        const struct rqli_item key = {.text = lock.keys.queue};

        status = rqli_read_queues(&reader, &key, 1, &info);
    }
    if (!status && info->status == RQL_KEY_RELEASED) {
        status = rqli_fail(error, RQL_NOT_FOUND, "%s: no request waits for it", name);
    }
    if (!status) {
        *out = RQLI_GIVE(info);
    }
    return status;
}

/* Finds all keys with this prefix, sorted, each once. A key that came during the walk may be
 * missing, and one that went may still be among them. */
static rql_status walk_keys(rql_client *client, struct rqli_walk *walk, const char *prefix,
                            rql_error *error)
{
    const struct rqli_reader reader = {.client = client, .where = prefix, .error = error};
    int64_t count = rqli_smaller(client->options.key_extraction_batch_size, SCAN_COUNT_MAX);

    rqli_walk_init(walk, prefix, NULL);
    return rqli_walk_read_all(&reader, walk, count);
}

/* Lists the keys with this prefix, or the names in them, sorted. */
static rql_status list(rql_client *client, const char *prefix, bool as_names, rql_text_list **out,
                       rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rqli_walk_fini) struct rqli_walk walk = {0};
    rql_status status = check_out(client, out, error);

    status = status ? status : walk_keys(client, &walk, prefix, error);
    if (status) {
        return status;
    }
    return as_names ? rqli_list_give_names(&walk.found, prefix, out, error)
                    : rqli_list_give(&walk.found, out, error);
}

rql_status rql_locks_list(rql_client *client, rql_text_list **out, rql_error *error)
{
    return list(client, RQLI_KEY_LOCK, true, out, error);
}

rql_status rql_queues_list(rql_client *client, rql_text_list **out, rql_error *error)
{
    return list(client, RQLI_KEY_QUEUE, true, out, error);
}

/* Lists the keys that the gem counts as its own, by how they begin. */
rql_status rql_keys_list(rql_client *client, rql_text_list **out, rql_error *error)
{
    return list(client, PREFIX_OF_ALL, false, out, error);
}

/* The items are pointers of any type. A fault may have left some of them NULL. */
static void adopt_all(void *list, const void *items, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        void *item;

        memcpy(&item, (const char *)items + i * sizeof item, sizeof item);
        rqli_result_adopt(list, item);
    }
}

/* Describes the locks with these keys, which are sorted. */
static rql_status give_locks(rql_client *client, const struct rqli_list *keys,
                             rql_lock_info_list **out, rql_error *error)
{
    const struct rqli_reader reader = {
        .client = client, .where = RQLI_KEY_LOCK "*", .error = error};
    RQLI_AUTO(rql_free)
    rql_lock_info_list *list = rqli_result_new(sizeof *list + keys->count * sizeof(void *));
    rql_status status;

    if (!list) {
        return rqli_fail_nomem(error);
    }
    list->count = keys->count;
    list->item = (rql_lock_info **)(list + 1);
    status = rqli_read_locks(&reader, keys->item, list->count, list->item);
    adopt_all(list, list->item, list->count);
    if (!status) {
        *out = RQLI_GIVE(list);
    }
    return status;
}

/* Works like give_locks(). */
static rql_status give_queues(rql_client *client, const struct rqli_list *keys,
                              rql_queue_info_list **out, rql_error *error)
{
    const struct rqli_reader reader = {
        .client = client, .where = RQLI_KEY_QUEUE "*", .error = error};
    RQLI_AUTO(rql_free)
    rql_queue_info_list *list = rqli_result_new(sizeof *list + keys->count * sizeof(void *));
    rql_status status;

    if (!list) {
        return rqli_fail_nomem(error);
    }
    list->count = keys->count;
    list->item = (rql_queue_info **)(list + 1);
    status = rqli_read_queues(&reader, keys->item, list->count, list->item);
    adopt_all(list, list->item, list->count);
    if (!status) {
        *out = RQLI_GIVE(list);
    }
    return status;
}

rql_status rql_locks_inspect(rql_client *client, rql_lock_info_list **out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rqli_walk_fini) struct rqli_walk walk = {0};
    rql_status status = check_out(client, out, error);

    status = status ? status : walk_keys(client, &walk, RQLI_KEY_LOCK, error);
    return status ? status : give_locks(client, &walk.found, out, error);
}

rql_status rql_queues_inspect(rql_client *client, rql_queue_info_list **out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rqli_walk_fini) struct rqli_walk walk = {0};
    rql_status status = check_out(client, out, error);

    status = status ? status : walk_keys(client, &walk, RQLI_KEY_QUEUE, error);
    return status ? status : give_queues(client, &walk.found, out, error);
}

/* Adds the key of a name, which may be longer than a caller's own. */
static void add_key(const rql_client *client, struct rqli_list *out, const char *name, bool is_lock)
{
    const struct rqli_slice text = rqli_slice_of(name);
    char *memory = malloc(rqli_keys_room(text));
    struct rqli_keys keys;

    if (!memory) {
        out->failed = true;
        return;
    }
    rqli_keys_init(&keys, memory, rqli_client_key_set(client, name), text);
    rqli_list_add(out, is_lock ? keys.lock : keys.queue, 0);
    free(memory);
}

/* What a caller names. */
struct names {
    const char *const *item;
    size_t count;
};

/* Makes the keys of these names, sorted as those of a walk are, because a batch reads keys of one
 * set. */
static rql_status make_keys(const rql_client *client, const struct names *names, bool are_locks,
                            struct rqli_list *out, rql_error *error)
{
    if (names->count > 0 && !names->item) {
        return rqli_fail(error, RQL_E_INVALID, "names is NULL");
    }
    for (size_t i = 0; i < names->count; i++) {
        if (!names->item[i]) {
            return rqli_fail(error, RQL_E_INVALID, "names[%zu] is NULL", i);
        }
        add_key(client, out, names->item[i], are_locks);
    }
    rqli_list_sort(out);
    return out->failed ? rqli_fail_nomem(error) : RQL_OK;
}

rql_status rql_locks_read(rql_client *client, const char *const *names, size_t n_names,
                          rql_lock_info_list **out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    const struct names wanted = {names, n_names};
    RQLI_AUTO(rqli_list_fini) struct rqli_list keys = {0};
    rql_status status = check_out(client, out, error);

    status = status ? status : make_keys(client, &wanted, true, &keys, error);
    return status ? status : give_locks(client, &keys, out, error);
}

rql_status rql_queues_read(rql_client *client, const char *const *names, size_t n_names,
                           rql_queue_info_list **out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    const struct names wanted = {names, n_names};
    RQLI_AUTO(rqli_list_fini) struct rqli_list keys = {0};
    rql_status status = check_out(client, out, error);

    status = status ? status : make_keys(client, &wanted, false, &keys, error);
    return status ? status : give_queues(client, &keys, out, error);
}

/* Caller holds the mutex of the leases, so this only copies the name. */
static void add_name(const rql_lock *lock, void *context)
{
    rqli_list_add(context, rqli_slice_of(lock->name), 0);
}

/* Asks no server. Lists a name for each hold, in no particular order: a re-entry is a hold of
 * its own. */
rql_status rql_client_held_locks(rql_client *client, rql_text_list **out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rqli_list_fini) struct rqli_list names = {0};
    rql_status status = check_out(client, out, error);

    if (status) {
        return status;
    }
    rqli_leases_each(client->leases, add_name, &names);
    return rqli_list_give(&names, out, error);
}

/* Context of rqli_threads_each(): the list, and the identity that the ids need. */
struct possible_hosts {
    struct rqli_list *hosts;
    const char *identity;
};

static void add_host(uint64_t thread, void *context)
{
    const struct possible_hosts *self = context;
    char host[RQL_ID_SIZE];

    rqli_host_id(host, thread, self->identity);
    rqli_list_add(self->hosts, rqli_slice_of(host), 0);
}

/* Each thread of the process is a host of its own to other clients, whether it holds locks or
 * not. A thread that has not used the library yet is no host, except for the caller's. Asks no
 * server, because an id is made of the thread's number and the client's identity. */
rql_status rql_client_host_ids(rql_client *client, rql_text_list **out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rqli_list_fini) struct rqli_list hosts = {0};
    struct possible_hosts self = {.hosts = &hosts};
    rql_status status = check_out(client, out, error);

    if (status) {
        return status;
    }
    if (rqli_thread_number() == 0) {
        return rqli_fail_nomem(error);
    }
    self.identity = client->identity;
    rqli_threads_each(add_host, &self);
    return rqli_list_give(&hosts, out, error);
}
