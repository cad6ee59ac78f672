#include "exit.h"

#include <stdlib.h>
#include <unistd.h>

/* Uses write(), because stdio may need memory. */
_Noreturn void cli_die_nomem(void)
{
    static const char line[] = "rql: out of memory\n";

    (void)!write(STDERR_FILENO, line, sizeof line - 1);
    _Exit(CLI_FAULT);
}

/* Ends the program, because it cannot continue without memory. The guard ends a command that runs
 * under a lock. */
void *cli_must(void *memory)
{
    if (!memory) {
        cli_die_nomem();
    }
    return memory;
}
