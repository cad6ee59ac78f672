#include "base/error.h"
#include "base/ident.h"
#include "cancel.h"
#include "client.h"
#include "keeper.h"
#include "lock.h"
#include "script/pack.h"

#include <dirent.h>
#include <stdlib.h>

/* Texts of unknown number, laid out at the end in the one allocation of a list. */
struct texts {
    char **item;
    size_t count;
    size_t capacity;
    bool failed;
};

static void texts_fini(struct texts *self)
{
    size_t i;

    for (i = 0; i < self->count; i++) {
        free(self->item[i]);
    }
    free(self->item);
}

static void texts_add(struct texts *self, const char *text)
{
    if (self->count == self->capacity) {
        size_t capacity = self->capacity > 0 ? 2 * self->capacity : 16;
        char **item = realloc(self->item, capacity * sizeof *item);

        if (!item) {
            self->failed = true;
            return;
        }
        self->item = item;
        self->capacity = capacity;
    }
    self->item[self->count] = strdup(text);
    if (self->item[self->count]) {
        self->count++;
    } else {
        self->failed = true;
    }
}

static rql_status lay_out(const struct texts *self, rql_text_list **out, rql_error *error)
{
    size_t size = sizeof **out + self->count * sizeof(char *);
    rql_text_list *list;
    char *cursor;
    size_t i;

    for (i = 0; i < self->count; i++) {
        size += strlen(self->item[i]) + 1;
    }
    list = self->failed ? NULL : malloc(size);
    if (!list) {
        return rqli_fail_nomem(error);
    }
    list->count = self->count;
    list->item = (const char **)(list + 1);
    cursor = (char *)(list->item + list->count);
    for (i = 0; i < self->count; i++) {
        list->item[i] = rqli_pack(&cursor, rqli_slice_of(self->item[i]));
    }
    *out = list;
    return RQL_OK;
}

/* The texts end here, whatever becomes of the list. */
static rql_status texts_give(struct texts *self, rql_text_list **out, rql_error *error)
{
    rql_status status = lay_out(self, out, error);

    texts_fini(self);
    return status;
}

static rql_status check(const rql_client *client, const void *out, rql_error *error)
{
    rql_status status = rqli_client_check(client, error);

    if (!status && !out) {
        status = rqli_fail(error, RQL_E_INVALID, "no place for the result");
    }
    return status;
}

static void add_name(const rql_lock *lock, void *context)
{
    texts_add(context, lock->name);
}

rql_status rql_acquired_locks(rql_client *client, rql_text_list **out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    struct texts names = {0};
    rql_status status = check(client, out, error);

    if (status) {
        return status;
    }
    rqli_keeper_each(client->keeper, add_name, &names);
    return texts_give(&names, out, error);
}

static void add_host(struct texts *hosts, const struct dirent *entry, const char *identity)
{
    char host[RQL_ID_SIZE];
    int64_t thread;

    if (rqli_parse_int(rqli_slice_of(entry->d_name), &thread)) {
        rqli_host_id(host, (pid_t)thread, identity);
        texts_add(hosts, host);
    }
}

rql_status rql_possible_host_ids(rql_client *client, rql_text_list **out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    struct texts hosts = {0};
    rql_status status = check(client, out, error);
    const struct dirent *entry;
    DIR *threads;

    if (status) {
        return status;
    }
    threads = opendir("/proc/self/task");
    if (!threads) {
        return rqli_fail(error, RQL_E_IO, "/proc/self/task cannot be read");
    }
    while ((entry = readdir(threads))) { /* NOLINT(concurrency-mt-unsafe): a DIR of our own */
        add_host(&hosts, entry, client->identity);
    }
    (void)closedir(threads);
    return texts_give(&hosts, out, error);
}
