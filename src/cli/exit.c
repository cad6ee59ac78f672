#include "exit.h"

#include <stdlib.h>
#include <unistd.h>

/* By write(): stdio may need memory. */
_Noreturn void cli_die_nomem(void)
{
    static const char line[] = "rql: out of memory\n";

    (void)!write(STDERR_FILENO, line, sizeof line - 1);
    _Exit(CLI_FAULT);
}

/* Without memory there is nothing to go on with: what runs under a lock is ended by the guard. */
void *cli_must(void *memory)
{
    if (!memory) {
        cli_die_nomem();
    }
    return memory;
}
