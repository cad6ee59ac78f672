/* Lets at most COUNT processes work at the same time, for example as many as a licence or a
 * graphics card allows:
 *
 *     permits gpu 8
 *
 * Each permit is a lock. If no permit is free, the process waits for one permit, which is chosen at
 * random. */
#include <rql/rql.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static rql_status take_one(rql_client *client, const char *pool, int count, rql_lock **out)
{
    rql_lock_options options;
    rql_status status = RQL_FAIL_FAST_NO_TRY;
    char name[RQL_NAME_MAX];
    int first = rand() % count;

    rql_lock_options_init(client, &options);
    for (int i = 0; i < count && status > 0; i++) {
        snprintf(name, sizeof name, "%s:%d", pool, (first + i) % count);
        status = rql_lock_try(client, name, &options, out, NULL);
    }
    if (status > 0) { /* all permits are taken */
        status = rql_lock_acquire(client, name, &options, out, NULL);
    }
    return status;
}

int main(int argc, char **argv)
{
    int count = argc == 3 ? (int)strtol(argv[2], NULL, 10) : 0;
    rql_client *client = NULL;
    rql_lock *permit = NULL;
    rql_error error;
    rql_status status = RQL_E_INVALID;

    if (count < 1) {
        fprintf(stderr, "Usage: permits POOL COUNT\n");
    } else if (rql_client_open(NULL, &client, &error)) {
        fprintf(stderr, "%s\n", error.message);
    } else {
        srand((unsigned)time(NULL) ^ (unsigned)clock());
        status = take_one(client, argv[1], count, &permit);
        printf("%s\n", status ? rql_status_text(status) : rql_lock_name(permit));
        fflush(stdout);
        getchar(); /* ... the work; here it lasts until the input ends ... */
        status = status ? status : rql_lock_release(permit, NULL);
    }
    rql_client_free(client);
    return status != RQL_OK;
}
