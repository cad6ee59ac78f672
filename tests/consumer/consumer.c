/* The smallest program there is, in C99 and in C++17: takes a lock and releases it. */
#include <rql/rql.h>

int main(int argc, char **argv)
{
    rql_options options;
    rql_client *client = NULL;
    rql_lock *lock = NULL;

    rql_options_init(&options);
    options.url = argv[argc - 1];
    return rql_client_new(&client, &options, NULL) ||
           rql_lock_acquire(client, "consumer", NULL, &lock, NULL) ||
           rql_lock_release(lock, NULL) || rql_client_free(client) != NULL;
}
