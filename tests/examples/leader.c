/* One of many is the leader; when it ends, hangs or is cut off, another one is:
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
    printf("no longer leading\n"); /* before anybody else can be */
    fflush(stdout);
}

int main(int argc, char **argv)
{
    rql_client *client = NULL;
    rql_options options;
    rql_lock_options of_leader;
    rql_lock *lock;
    rql_error error;
    rql_status status = RQL_OK;

    rql_options_init(&options);
    if (argc != 2 || rql_options_from_env(&options, &error) ||
        rql_client_new(&client, &options, &error)) {
        fprintf(stderr, "%s\n", argc != 2 ? "Usage: leader NAME" : error.message);
        return 1;
    }
    rql_lock_options_init(client, &of_leader);
    of_leader.ttl_ms = 3000; /* so long nobody leads after the leader has died */
    of_leader.auto_extend = true;
    of_leader.retry_count = RQL_FOREVER;
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
