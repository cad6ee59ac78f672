/* Takes jobs until a signal ends the program. If a job has started, the program finishes the job
 * before it releases the lock and ends:
 *
 *     drain jobs & kill -TERM $! */
#include <rql/rql.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

static volatile sig_atomic_t is_ending;

static void on_signal(int number)
{
    (void)number;
    is_ending = 1;
}

static void work(void)
{
    const struct timespec a_while = {.tv_nsec = 100 * 1000 * 1000};

    printf("job started\n");
    fflush(stdout);
    (void)nanosleep(&a_while, NULL); /* ... the work ... */
    printf("job finished\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const struct sigaction action = {.sa_handler = on_signal};
    rql_client *client = NULL;
    rql_lock_options of_job;
    rql_lock *lock;
    rql_error error;
    rql_status status = RQL_OK;

    if (argc != 2 || rql_client_open(NULL, &client, &error)) {
        fprintf(stderr, "%s\n", argc != 2 ? "Usage: drain NAME" : error.message);
        return 1;
    }
    (void)sigaction(SIGTERM, &action, NULL);
    rql_lock_options_init(client, &of_job);
    of_job.timeout_ms = 500; /* a signal is noticed within this time */
    while (!is_ending && status >= 0) {
        status = rql_lock_acquire(client, argv[1], &of_job, &lock, &error);
        if (!status) {
            work();
            status = rql_lock_release(lock, &error);
        }
    }
    printf("%s\n", status < 0 ? error.message : "stopped; no lock and no request is left");
    rql_client_free(client); /* waits for calls that the server has not confirmed yet */
    return status < 0;
}
