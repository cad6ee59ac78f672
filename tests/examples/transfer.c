/* Takes several locks at once: all or none. Processes can name the locks in any order and never
 * deadlock:
 *
 *     transfer account:1 account:2 */
#include <rql/rql.h>
#include <stdio.h>

static int transfer(rql_client *client, const char *from, const char *to)
{
    const char *names[] = {from, to};
    rql_series_options options;
    rql_series *series;
    rql_error error;
    rql_status status;

    rql_series_options_init(&options);
    options.names = names;
    options.n_names = 2;
    status = rql_series_acquire(client, &options, &series, &error);
    if (status) {
        fprintf(stderr, "%s\n", status > 0 ? rql_status_text(status) : error.message);
        return 1;
    }
    printf("%s and %s: acquired\n", from, to);
    /* ... read both accounts, write both accounts ... */
    return rql_series_release(series, NULL, &error) != RQL_OK;
}

int main(int argc, char **argv)
{
    rql_client *client = NULL;
    rql_error error;
    int failed = 1;

    if (argc != 3) {
        fprintf(stderr, "Usage: transfer FROM TO\n");
    } else if (rql_client_open(NULL, &client, &error)) {
        fprintf(stderr, "%s\n", error.message);
    } else {
        failed = transfer(client, argv[1], argv[2]);
    }
    rql_client_free(client);
    return failed;
}
