/* One of many processes is the leader. When it ends, hangs or is cut off, another one takes over:
 *
 *     leader scheduler */
#include <poll.h>
#include <rql/rql.h>
#include <stdio.h>

static void lead(rql_lock *lock)
{
    struct pollfd lost = {.events = POLLIN};

    if (rql_lock_lost_fd(lock, &lost.fd, NULL)) {
        return;
    }
    printf("leading, term %lld\n", (long long)rql_lock_token(lock)); /* terms rise */
    fflush(stdout);
    while (poll(&lost, 1, 1000) == 0) {
        /* ... what the leader does each second, with the term in all that it writes ... */
    }
    printf("no longer leading\n"); /* before another process can lead */
    fflush(stdout);
}

int main(int argc, char **argv)
{
    rql_client *client = NULL;
    rql_lock_options of_leader;
    rql_lock *lock;
    rql_error error;
    rql_status status = RQL_OK;

    if (argc != 2 || rql_client_open(NULL, &client, &error)) {
        fprintf(stderr, "%s\n", argc != 2 ? "Usage: leader NAME" : error.message);
        return 1;
    }
    rql_lock_options_init(client, &of_leader);
    of_leader.ttl_ms = 3000; /* after a leader has died, there is none for this long */
    of_leader.timeout_ms = RQL_FOREVER;
    while (status >= 0) {
        status = rql_lock_acquire(client, argv[1], &of_leader, &lock, &error);
        if (!status) {
            lead(lock);
            (void)rql_lock_release(lock, NULL);
        }
    }
    fprintf(stderr, "%s\n", error.message);
    rql_client_free(client);
    return 1;
}
