#ifndef NO_SERVER_H
#define NO_SERVER_H

#include "lock/client.h"

/* A client whose server is never asked. */
static inline rql_client *client_of_url(const char *url)
{
    rql_client *made = NULL;
    rql_options options;

    rql_options_init(&options);
    options.url = url;
    CHECK_OK(rqli_client_make(&made, &options, NULL));
    return made;
}

static inline rql_client *client_without_server(void)
{
    return client_of_url("unix:///nonexistent/rql");
}

static inline rql_client *client_without_cluster(void)
{
    return client_of_url("redis+cluster://127.0.0.1:1");
}

#endif
