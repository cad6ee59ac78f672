#ifndef CLIENTS_H
#define CLIENTS_H

#include "fixture.h"

/* Two clients, not connected yet: make_clients() empties the server first. */
extern rql_client *client;
extern rql_client *other;

void make_clients(void);
void free_clients(void);

#endif
