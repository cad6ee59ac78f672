/* Does one job of a kind at a time, for all processes and hosts, and lets at most a few wait for
 * it. A job that finds more is refused at once, so that its caller can be told to come back later:
 *
 *     job_queue export 10 */
#include <rql/rql.h>
#include <stdio.h>
#include <stdlib.h>

enum { DONE = 0, FAILED = 1, BUSY = 75 };

static void work(void)
{
    printf("working\n");
    fflush(stdout);
    (void)getchar(); /* ... the work ... */
    printf("done\n");
}

int main(int argc, char **argv)
{
    rql_client *client;
    rql_lock_options options;
    rql_lock *lock;
    rql_error error;
    rql_status status;

    if (argc != 3) {
        fprintf(stderr, "Usage: job_queue NAME MAX_WAITING\n");
        return FAILED;
    }
    if (rql_client_open(NULL, &client, &error)) {
        fprintf(stderr, "%s\n", error.message);
        return FAILED;
    }
    rql_lock_options_init(client, &options);
    options.timeout_ms = RQL_FOREVER;
    options.max_waiters = strtol(argv[2], NULL, 10);
    status = rql_lock_acquire(client, argv[1], &options, &lock, &error);
    if (status == RQL_OK) {
        work();
        (void)rql_lock_release(lock, NULL);
    } else {
        fprintf(stderr, "%s\n", error.message);
    }
    rql_client_free(client);
    return status == RQL_OK ? DONE : status == RQL_QUEUE_FULL ? BUSY : FAILED;
}
