#ifndef NO_SERVER_H
#define NO_SERVER_H

#include "lock/client.h"

/* A client whose server is never asked. */
static inline rql_client *client_without_server(void)
{
    rql_client *made = NULL;
    rql_options options;

    rql_options_init(&options);
    options.url = "unix:///nonexistent/rql";
    CHECK_OK(rqli_client_make(&made, &options, NULL));
    return made;
}

#endif
