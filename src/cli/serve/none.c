#include "serve.h"

#include "messages.h"

/* In place of the HTTP server, where the library for it was not there. */

int serve_check(const struct cli_command *command, const struct cli_args *args, const char *address)
{
    (void)args;
    if (!address) {
        return CLI_DONE;
    }
    cli_say("%s: HTTP needs libmicrohttpd, and this program was built without it (-Dserve=enabled)",
            command->name);
    return CLI_FAULT;
}

/* Without an address there is nothing to start, and with one serve_check() has refused it. */
int serve_start(const struct serve_wish *wish, struct serve **out)
{
    (void)wish;
    (void)out;
    return CLI_FAULT;
}

void serve_stop(struct serve *self)
{
    (void)self;
}
