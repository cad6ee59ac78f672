#ifndef OWN_CLIENT_H
#define OWN_CLIENT_H

#include "check.h"
#include "no_server.h"

/* For a program in which each test has a client of its own, and no server. */

static rql_client *client;

BEFORE_EACH(set_up)
{
    client = client_without_server();
}

AFTER_EACH(tear_down)
{
    client = rqli_client_free(client);
}

#endif
