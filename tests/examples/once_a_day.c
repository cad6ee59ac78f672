/* Gives the work of each day to the first process that asks:
 *
 *     once_a_day digest && ./send-digest
 *
 * The program does not release the lock, which ends at midnight (UTC). Until then the lock records
 * that the work was done. If the work fails, "rql unlock NAME --force" allows another attempt. */
#include <rql/rql.h>
#include <stdio.h>
#include <time.h>

enum { DAY_MS = 24 * 3600 * 1000 };

/* Returns the time until midnight (UTC). */
static int64_t left_of_day_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return DAY_MS - (now.tv_sec % (24 * 3600) * 1000 + now.tv_nsec / 1000000);
}

int main(int argc, char **argv)
{
    rql_client *client = NULL;
    rql_lock_options of_day;
    rql_lock *lock;
    rql_error error;
    rql_status status;

    if (argc != 2 || rql_client_open(NULL, &client, &error)) {
        fprintf(stderr, "%s\n", argc != 2 ? "Usage: once_a_day NAME" : error.message);
        return 2;
    }
    rql_lock_options_init(client, &of_day);
    of_day.ttl_ms = left_of_day_ms();
    of_day.auto_extend = false; /* no renewal: the lock ends with the day */
    status = rql_lock_try(client, argv[1], &of_day, &lock, &error);
    if (status < 0) {
        fprintf(stderr, "%s\n", error.message);
    } else {
        printf("%s\n", status ? "already done" : "to be done");
    }
    if (!status) {
        lock = rql_lock_forget(lock); /* frees the handle; the lock stays */
    }
    rql_client_free(client);
    return status < 0 ? 2 : status > 0;
}
