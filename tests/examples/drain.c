/* Takes jobs until SIGTERM. If a job has started, the program finishes the job before it releases
 * the lock and ends; if it waits for the lock, it leaves the queue:
 *
 *     drain jobs & kill -TERM $! */
#include <pthread.h>
#include <rql/rql.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

static rql_client *client;

static void work(void)
{
    const struct timespec a_while = {.tv_nsec = 100 * 1000 * 1000};

    printf("job started\n");
    (void)nanosleep(&a_while, NULL); /* ... the work ... */
    printf("job finished\n");
}

static void *take_jobs(void *name)
{
    rql_lock *lock;
    rql_error error;

    while (!rql_lock_acquire(client, name, NULL, &lock, &error)) {
        work();
        (void)rql_lock_release(lock, NULL);
    }
    printf("no more jobs: %s\n", error.message); /* the client is drained */
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t worker;
    sigset_t ending;
    rql_error error;
    int signal_number;

    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 2 || rql_client_open(NULL, &client, &error)) {
        fprintf(stderr, "%s\n", argc != 2 ? "Usage: drain NAME" : error.message);
        return 1;
    }
    (void)sigemptyset(&ending);
    (void)sigaddset(&ending, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &ending, NULL); /* for the worker too, which inherits it */
    (void)pthread_create(&worker, NULL, take_jobs, argv[1]);
    (void)sigwait(&ending, &signal_number);
    if (rql_client_drain(client, 30 * 1000, &error)) { /* nothing is acquired from here on */
        fprintf(stderr, "%s\n", error.message);
    }
    (void)pthread_join(worker, NULL);
    rql_client_free(client); /* waits for calls that the server has not confirmed yet */
    printf("stopped; no lock and no request is left\n");
    return 0;
}
