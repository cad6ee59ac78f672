/* A lock alone cannot stop whoever is too late: a process may sleep for longer than its lock lives,
 * and write when it wakes. A resource that keeps the highest token it has seen can:
 *
 *     fencing ledger.txt "a line"
 *
 * The file's first line is that token; whoever comes with a lower one is refused. */
#include <rql/rql.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

/* What the resource does, however it is built: compare and write in one step. */
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
        fprintf(stderr, "not now\n");
        return 2;
    }
    if (getenv("FENCING_SLEEPS")) { /* where a machine may stand still: see what is refused then */
        getchar();
    }
    failed = write_fenced(argv[1], rql_lock_token(lock), argv[2]);
    printf("%s\n", failed ? "refused: somebody else has written since" : "written");
    (void)rql_lock_release(lock, NULL);
    rql_client_free(client);
    return failed;
}
