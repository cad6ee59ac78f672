#include "admin/info.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/result.h"
#include "lock/client.h"
#include "net/op/op_threads.h"

#include <rql/admin.h>
#include <stdlib.h>
#include <string.h>

/*
 * Asks the holders of a host to release their locks (lua/optional.md 72). The locks are listed
 * first; then each holder of the host is asked alone, by a script that compares the owner once
 * more.
 */

/* What ask.lua answers. */
enum { NOT_HELD = 0, IS_ASKED = 1 };

/* The holds that are found. A holder belongs to the host if its host has this id, or if its client
 * runs on the machine of this name. */
struct drain {
    struct rqli_reader reader;
    const char *host;
    const rql_client_info_list *clients;
    int64_t within_ms;
    rql_hold_info **item;
    size_t count;
};

static void drain_fini_p(struct drain *self)
{
    for (size_t i = 0; i < self->count; i++) {
        (void)rql_free(self->item[i]);
    }
    free(self->item);
}

static bool is_of_host(const struct drain *self, const char *host_id)
{
    const rql_client_info *client = rql_clients_find(self->clients, host_id);

    return host_id &&
           (strcmp(host_id, self->host) == 0 || (client && strcmp(client->host, self->host) == 0));
}

static bool is_host_id(const char *host)
{
    static const char prefix[] = "rql:hst:";

    return strncmp(host, prefix, sizeof prefix - 1) == 0;
}

/* Fails if the host is the name of a machine of which no client is known. */
static rql_status check_host(const struct drain *self)
{
    for (size_t i = 0; i < self->clients->count; i++) {
        if (strcmp(self->clients->item[i]->host, self->host) == 0) {
            return RQL_OK;
        }
    }
    return is_host_id(self->host)
               ? RQL_OK
               : rqli_fail(self->reader.error, RQL_NOT_FOUND,
                           "%s: no client is listed for this machine: none runs there, or none "
                           "reports its machine (option client_names); a host id needs no client",
                           self->host);
}

/* Asks one holder. A name that librql does not take is that of a lock of the gem, whose holder
 * cannot be asked. */
static rql_status ask(const struct drain *self, const char *name, const rql_holder_info *holder,
                      int64_t *answer)
{
    rql_client *client = self->reader.client;
    const int64_t until_us = rqli_client_until_us(client, rqli_now_us());
    RQLI_AUTO(rqli_batch_give) struct rqli_batch *batch = NULL;
    struct rqli_named lock;
    struct rqli_op_route route;
    struct rqli_call call;
    rql_status status;

    *answer = -1;
    if (rqli_named_init(&lock, client, name, NULL) != RQL_OK) {
        return RQL_OK;
    }
    route = rqli_client_route(client, &lock.keys);
    rqli_call_init(&call, RQLI_SCRIPT_ASK, &lock.keys);
    rqli_call_text(&call, holder->acquirer_id);
    rqli_call_text(&call, holder->host_id);
    rqli_call_int(&call, self->within_ms);
    status = rqli_call_run(&route, &call, until_us, &batch, self->reader.error);
    if (!status && batch->reply->type != RQLI_REPLY_INTEGER) {
        status = rqli_batch_fault(batch, batch->reply, "ask", name, self->reader.error);
    }
    if (!status) {
        *answer = batch->reply->integer;
    }
    return status;
}

/* Adds a hold, with a copy of the name. Its texts are those of the holders of its lock, which the
 * first hold of that lock owns. */
static rql_status add(struct drain *self, const char *name, const rql_holder_info *holder,
                      bool is_asked)
{
    const size_t size = strlen(name) + 1;
    rql_hold_info *info = rqli_result_new(sizeof *info + size);
    rql_hold_info **item = reallocarray(self->item, self->count + 1, sizeof(void *));

    self->item = item ? item : self->item;
    if (!info || !item) {
        (void)rql_free(info);
        return rqli_fail_nomem(self->reader.error);
    }
    *info = (rql_hold_info){.holder = holder, .is_asked = is_asked};
    info->name = memcpy(info + 1, name, size);
    self->item[self->count++] = info;
    return RQL_OK;
}

/* Says whether this share, in a lock of several, has ended: the next call that lets others in
 * removes it. */
static bool has_ended(const rql_holder_info *holder)
{
    return holder->share_units > 0 && holder->remaining_ms == 0;
}

/* Asks those of the lock's holders that belong to the host. One that has released the lock
 * meanwhile is left out. */
static rql_status ask_holders(struct drain *self, const rql_lock_info *lock)
{
    const size_t first = self->count;
    RQLI_AUTO(rql_free) rql_holder_list *holders = NULL;
    rql_status status = rqli_read_holders(&self->reader, rqli_slice_of(lock->key), &holders);

    for (size_t i = 0; !status && i < holders->count; i++) {
        const rql_holder_info *holder = holders->item[i];
        int64_t answer = NOT_HELD;

        if (is_of_host(self, holder->host_id) && !has_ended(holder)) {
            status = ask(self, lock->name, holder, &answer);
        }
        if (!status && answer != NOT_HELD) {
            status = add(self, lock->name, holder, answer == IS_ASKED);
        }
    }
    if (self->count > first) {
        rqli_result_adopt(self->item[first], RQLI_GIVE(holders));
    }
    return status;
}

/* Says whether a holder of this lock may belong to the host: only a lock of one names its own. */
static bool may_be_held(const struct drain *self, const rql_lock_info *lock)
{
    return (lock->status == RQL_KEY_ALIVE || lock->status == RQL_KEY_MALFORMED) &&
           (rqli_lock_info_is_of_several(lock) || is_of_host(self, lock->host_id));
}

static rql_status ask_all(struct drain *self)
{
    RQLI_AUTO(rql_free) rql_lock_info_list *locks = NULL;
    rql_status status = rql_locks_inspect(self->reader.client, &locks, self->reader.error);

    for (size_t i = 0; !status && i < locks->count; i++) {
        self->reader.where = locks->item[i]->key;
        if (may_be_held(self, locks->item[i])) {
            status = ask_holders(self, locks->item[i]);
        }
    }
    return status;
}

/* Hands the holds over to the list. */
static rql_status give(struct drain *self, rql_hold_list **out)
{
    rql_hold_list *list = rqli_result_new(sizeof *list + self->count * sizeof(void *));

    if (!list) {
        return rqli_fail_nomem(self->reader.error);
    }
    list->item = self->count > 0 ? (rql_hold_info **)(list + 1) : NULL;
    while (list->count < self->count) {
        list->item[list->count] = self->item[list->count];
        rqli_result_adopt(list, list->item[list->count++]);
    }
    self->count = 0;
    *out = list;
    return RQL_OK;
}

static rql_status check(rql_client *client, const char *host, int64_t within_ms, const void *out,
                        rql_error *error)
{
    rql_status status = rqli_client_check(client, error);

    if (!status && (!host || !out)) {
        status = rqli_fail(error, RQL_E_INVALID, "%s is NULL", host ? "out" : "host");
    }
    if (!status && (within_ms < 0 || within_ms > RQL_TTL_MAX_MS)) {
        status = rqli_fail(error, RQL_E_INVALID, "within_ms is %lld; it must be 0 to %lld",
                           (long long)within_ms, (long long)RQL_TTL_MAX_MS);
    }
    return status;
}

rql_status rql_host_drain(rql_client *client, const char *host, int64_t within_ms,
                          rql_hold_list **out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rql_free) rql_client_info_list *clients = NULL;
    RQLI_AUTO(drain_fini)
    struct drain drain = {
        .reader = {.client = client, .error = error}, .host = host, .within_ms = within_ms};
    rql_status status = check(client, host, within_ms, out, error);

    status = status ? status : rql_clients_list(client, &clients, error);
    if (status) {
        return status;
    }
    drain.clients = clients;
    status = check_host(&drain);
    status = status ? status : ask_all(&drain);
    return status ? status : give(&drain, out);
}
