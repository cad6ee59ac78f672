#include "net/fleet.h"

bool rqli_fleet_init(struct rqli_fleet *self, unsigned connections)
{
    for (size_t i = 0; i < RQLI_KEY_SETS; i++) {
        atomic_init(&self->of[i], &self->first);
    }
    return rqli_node_init(&self->first, connections);
}

void rqli_fleet_fini(struct rqli_fleet *self)
{
    rqli_node_fini(&self->first);
}

void rqli_fleet_abandon(struct rqli_fleet *self)
{
    rqli_node_abandon(&self->first);
}
