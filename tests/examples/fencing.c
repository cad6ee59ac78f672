/* Writes to a file, but not if this process has lost its lock to a later holder that has written:
 *
 *     fencing ledger.txt "a line"
 *
 * A lock alone cannot stop a holder that is too late: a process may sleep for longer than its lock
 * lives, and write when it wakes. A resource can stop such a process if the resource stores the
 * highest token that it has seen. Here the first line of the file is that token. A writer with a
 * lower token is refused. */
#include <rql/rql.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

/* Compares the token with the stored one and writes, in one step, as every fenced resource must.
 * Returns 0 if the text was written. */
static int write_fenced(const char *path, long long token, const char *text)
{
    FILE *file = fopen(path, "a+");
    char line[32] = "0";
    int is_refused;

    if (!file || flock(fileno(file), LOCK_EX)) {
        perror(path);
        exit(2);
    }
    rewind(file);
    is_refused = fgets(line, sizeof line, file) && strtoll(line, NULL, 10) > token;
    if (!is_refused) {
        is_refused = ftruncate(fileno(file), 0);
        fprintf(file, "%lld\n%s\n", token, text);
    }
    return fclose(file) || is_refused;
}

int main(int argc, char **argv)
{
    rql_client *client = NULL;
    rql_lock *lock;
    rql_error error;
    int failed;

    if (argc != 3 || rql_client_open(NULL, &client, &error)) {
        fprintf(stderr, "%s\n", argc != 3 ? "Usage: fencing FILE TEXT" : error.message);
        return 2;
    }
    if (rql_lock_acquire(client, "ledger", NULL, &lock, &error)) {
        fprintf(stderr, "ledger: not acquired\n");
        return 2;
    }
    if (getenv("FENCING_SLEEPS")) { /* acts like a process that is paused here */
        getchar();
    }
    failed = write_fenced(argv[1], rql_lock_token(lock), argv[2]);
    printf("%s\n", failed ? "refused: a later holder has already written" : "written");
    (void)rql_lock_release(lock, NULL);
    rql_client_free(client);
    return failed;
}
