/* Reads or writes a file that many processes use. Readers run at the same time, a writer runs
 * alone:
 *
 *     reader_writer settings read
 *     reader_writer settings write
 *
 * When the writer has written, it becomes a reader. Other readers are let in, but no other writer
 * changes what it goes on to read. */
#include <rql/rql.h>
#include <rql/share.h>
#include <stdio.h>
#include <string.h>

static void do_step(const char *what)
{
    printf("%s\n", what);
    fflush(stdout);
    (void)getchar(); /* ... the work; here it lasts until the next line of the input ... */
}

int main(int argc, char **argv)
{
    int is_writer = argc == 3 && strcmp(argv[2], "write") == 0;
    int is_reader = argc == 3 && strcmp(argv[2], "read") == 0;
    rql_client *client = NULL;
    rql_lock_options as_reader;
    rql_lock *lock = NULL;
    rql_error error;
    rql_status status = RQL_E_INVALID;

    if (!is_writer && !is_reader) {
        fprintf(stderr, "Usage: reader_writer NAME read|write\n");
        return 1;
    }
    status = rql_client_open(NULL, &client, &error);
    if (!status) {
        rql_lock_options_init(client, &as_reader);
        rql_lock_options_share(&as_reader);
        /* A writer asks for the lock alone, as a request does by default. */
        status = rql_lock_acquire(client, argv[1], is_reader ? &as_reader : NULL, &lock, &error);
    }
    if (!status && is_writer) {
        do_step("writing");
        status = rql_lock_lower(lock, &as_reader, &error);
    }
    if (!status) {
        do_step("reading");
    }
    if (lock) {
        status = rql_lock_release(lock, status ? NULL : &error);
    }
    if (status) {
        fprintf(stderr, "%s\n", error.message);
    }
    rql_client_free(client);
    return status != RQL_OK;
}
