/*
 * What grows: queues, keys, zombies and clients. By hand:
 *
 *   rql-bench-scale locks SOCKET      fills the server, then: queue|list|scan|flush NUMBER ...
 *   rql-bench-scale clients SOCKET    idle|awake CLIENTS ...
 *
 * Orders are those of protocol.h. The server is this program's own.
 */

#include "perf/scale.h"
#include "common/process.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    struct fault *fault = shared_memory(sizeof *fault); /* children raise it too */
    bool of_locks = argc == 3 && strcmp(argv[1], "locks") == 0;

    if (argc != 3 || (!of_locks && strcmp(argv[1], "clients") != 0)) {
        (void)fprintf(stderr, "usage: %s locks|clients SOCKET\n", argv[0]);
        return 2;
    }
    if (!fault) {
        perror(argv[0]);
        return 3;
    }
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis writes with a plain write() */
    if (of_locks) {
        scale_locks(argv[2], fault);
    } else {
        scale_clients(argv[2], fault);
    }
    if (fault_text(fault)) {
        (void)fprintf(stderr, "scale: %s\n", fault_text(fault));
        return 3;
    }
    return 0;
}
