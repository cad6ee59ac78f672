/*
 * What grows: queues, keys, zombies and clients; and what logins cost. By hand:
 *
 *   rql-bench-scale locks SOCKET      fills it, then: queue|list|scan|zombies|flush NUMBER ...
 *   rql-bench-scale clients SOCKET    idle|awake CLIENTS ...
 *   rql-bench-scale logins URL        full|resumed LOGINS ...
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

    static const struct {
        const char *name;
        void (*obey)(const char *address, struct fault *fault);
    } parts[] = {{"locks", scale_locks}, {"clients", scale_clients}, {"logins", scale_logins}};

    size_t part = 0;

    while (part < 3 && (argc != 3 || strcmp(argv[1], parts[part].name) != 0)) {
        part++;
    }
    if (part == 3) {
        (void)fprintf(stderr, "usage: %s locks|clients|logins ADDRESS\n", argv[0]);
        return 2;
    }
    if (!fault) {
        perror(argv[0]);
        return 3;
    }
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis writes with a plain write() */
    parts[part].obey(argv[2], fault);
    if (fault_text(fault)) {
        (void)fprintf(stderr, "scale: %s\n", fault_text(fault));
        return 3;
    }
    return 0;
}
