/* Shares a pool of numbered resources, such as graphics cards, ports or licences. Each of 6 threads
 * takes a resource that no other thread or process has, and gives it back after its work:
 *
 *     permits gpu 3
 *
 * A permit is a share of one lock. Its slot is the number of the resource. */
#include <pthread.h>
#include <rql/rql.h>
#include <rql/share.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { N_THREADS = 6 };

static rql_client *client;
static rql_lock_options of_permit;

static void *work(void *pool)
{
    const struct timespec a_while = {.tv_nsec = 20 * 1000 * 1000};
    rql_lock *permit;
    rql_error error;
    size_t n_slots;
    int resource;

    if (rql_lock_acquire(client, pool, &of_permit, &permit, &error)) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    resource = rql_lock_slots(permit, &n_slots)[0];
    printf("%d in use\n", resource);
    (void)nanosleep(&a_while, NULL); /* ... the work ... */
    printf("%d given back\n", resource);
    (void)rql_lock_release(permit, NULL);
    return NULL;
}

int main(int argc, char **argv)
{
    int n_resources = argc == 3 ? (int)strtol(argv[2], NULL, 10) : 0;
    pthread_t threads[N_THREADS];
    rql_error error;

    if (n_resources < 1 || rql_client_open(NULL, &client, &error)) {
        fprintf(stderr, "%s\n", n_resources < 1 ? "Usage: permits POOL COUNT" : error.message);
        return 1;
    }
    rql_lock_options_init(client, &of_permit);
    rql_lock_options_permit(&of_permit, 1, n_resources);
    of_permit.share_slots = true;
    for (int i = 0; i < N_THREADS; i++) {
        pthread_create(&threads[i], NULL, work, argv[1]);
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    rql_client_free(client);
    return 0;
}
