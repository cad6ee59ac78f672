#include "unit.h"

#include "net/fleet.h"

/* Which server has which partition. */

static struct rqli_fleet fleet;

static bool carries(const struct rqli_node *node)
{
    return rqli_endpoint_carries(&node->endpoint, 5);
}

/* Whoever is asked first of all has none that nobody has named it for. */
TEST(a_node_carries_what_it_is_given_until_another_is)
{
    const struct rqli_address address = {.host = "127.0.0.1", .port = 7001};
    struct rqli_node *other;

    assert_true(rqli_fleet_init(&fleet, 1));
    other = rqli_fleet_at(&fleet, &address);
    assert_non_null(other);
    CHECK_ALL(EQ(carries(&fleet.first), false), EQ(carries(other), false));
    rqli_fleet_give(&fleet, 5, &fleet.first);
    CHECK_ALL(EQ(carries(&fleet.first), true), EQ(carries(other), false));
    rqli_fleet_give(&fleet, 5, other);
    CHECK_ALL(EQ(carries(&fleet.first), false), EQ(carries(other), true));
    rqli_fleet_give(&fleet, 5, other);
    CHECK_ALL(EQ(carries(&fleet.first), false), EQ(carries(other), true));
    assert_ptr_equal(rqli_fleet_node(&fleet, &rqli_key_sets[5]), other);
    rqli_fleet_fini(&fleet);
}
