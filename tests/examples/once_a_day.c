/* Something is done once a day, by whoever comes first:
 *
 *     once_a_day digest && ./send-digest
 *
 * The lock is kept, not released: it ends at midnight (UTC), and remembers until then that it was
 * done. If the work fails, "rql unlock NAME --force" lets it be done again. */
#include <rql/rql.h>
#include <stdio.h>
#include <time.h>

enum { DAY_MS = 24 * 3600 * 1000 };

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
    of_day.auto_extend = false; /* the lock ends with the day */
    status = rql_lock_try(client, argv[1], &of_day, &lock, &error);
    if (status < 0) {
        fprintf(stderr, "%s\n", error.message);
    } else {
        printf("%s\n", status ? "done already" : "to be done");
    }
    if (!status) {
        lock = rql_lock_forget(lock); /* the handle goes, the lock stays */
    }
    rql_client_free(client);
    return status < 0 ? 2 : status > 0;
}
