/* Makes one of many processes the leader. When the leader ends, hangs or is cut off, another
 * process takes over:
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
    /* The token is the term: each term is higher than all earlier terms. */
    printf("leading, term %lld\n", (long long)rql_lock_token(lock));
    fflush(stdout);
    while (poll(&lost, 1, 1000) == 0) {
        /* ... the leader's work, once a second; everything it writes contains the term ... */
    }
    /* Printed before another process can lead. */
    printf("no longer leading\n");
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
    of_leader.ttl_ms = 3000; /* if the leader dies, there is no leader for this long */
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
