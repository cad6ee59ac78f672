#include "admin/texts.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/ident.h"
#include "lock/client.h"
#include "lock/leases.h"
#include "lock/lock.h"

#include <dirent.h>

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
    rqli_texts_add(context, lock->name);
}

rql_status rql_acquired_locks(rql_client *client, rql_text_list **out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    struct rqli_texts names = {0};
    rql_status status = check(client, out, error);

    if (status) {
        return status;
    }
    rqli_leases_each(client->leases, add_name, &names);
    return rqli_texts_give(&names, out, error);
}

static void add_host(struct rqli_texts *hosts, const struct dirent *entry, const char *identity)
{
    char host[RQL_ID_SIZE];
    int64_t thread;

    if (rqli_parse_int(rqli_slice_of(entry->d_name), &thread)) {
        rqli_host_id(host, (pid_t)thread, identity);
        rqli_texts_add(hosts, host);
    }
}

rql_status rql_possible_host_ids(rql_client *client, rql_text_list **out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    struct rqli_texts hosts = {0};
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
    return rqli_texts_give(&hosts, out, error);
}
