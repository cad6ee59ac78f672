/* Lets one process at a time do some work, on any number of machines:
 *
 *     mutex report
 *
 * The request waits in the queue for up to 10 seconds. The library renews the lock until the work
 * is done. If this process dies, the lock ends with its TTL. */
#include <rql/rql.h>
#include <stdio.h>

static int work_under(rql_client *client, const char *name)
{
    rql_lock *lock;
    rql_error error;
    rql_status status = rql_lock_acquire(client, name, NULL, &lock, &error);

    if (status) { /* above 0: not acquired in time; below 0: a fault, which error describes */
        fprintf(stderr, "%s: %s\n", name, status > 0 ? rql_status_text(status) : error.message);
        return 1;
    }
    printf("%s: acquired, token %lld\n", name, (long long)rql_lock_token(lock));
    /* ... the work ... */
    status = rql_lock_release(lock, &error);
    if (status == RQL_NOT_HELD) {
        fprintf(stderr, "%s: lost during the work, which may have to be undone\n", name);
    } else if (status) {
        fprintf(stderr, "%s: %s\n", name, error.message);
    }
    return status != RQL_OK;
}

int main(int argc, char **argv)
{
    rql_client *client = NULL;
    rql_error error;
    int failed = 1;

    if (argc != 2) {
        fprintf(stderr, "Usage: mutex NAME (RQL_URL names the server)\n");
    } else if (rql_client_open(NULL, &client, &error)) {
        fprintf(stderr, "%s\n", error.message);
    } else {
        failed = work_under(client, argv[1]);
    }
    rql_client_free(client);
    return failed;
}
