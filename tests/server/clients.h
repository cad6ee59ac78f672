#ifndef CLIENTS_H
#define CLIENTS_H

/* Each test begins with an empty server, a client and another one, neither of them connected. */

#include "fixture.h"

static rql_client *client;
static rql_client *other;

static inline int set_up(void **state)
{
    (void)state;
    ask("FLUSHALL");
    client = new_client();
    other = new_client();
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    client = rql_client_free(client);
    other = rql_client_free(other);
    return 0;
}

#endif
