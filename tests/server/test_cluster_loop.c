#include "async_fixture.h"
#include "children.h"
#include "lock/async.h"
#include "lock/client.h"
#include "net/conn/push_loop.h"
#include "net/op/cluster.h"

#include <inttypes.h>

/* A loop's connections to the nodes of a cluster, which are closed while it has nothing to do
 * there.
 */

enum {
    NODES = 2,
    NO_POLL_MS = 600000,
    UNUSED_MS = 200, /* so long one stays that nobody uses */
};

#include "cluster.h"

static void set_up_impatient_loop(void)
{
    make_clients();
    client->cluster->unused_us = UNUSED_MS * INT64_C(1000);
    open_loop_of(client);
}

/* What is pushed, or answered, to the parent stays for the parent. */
static void run_copy(void)
{
    rql_acquiring what = {.done = on_asked};

    must(rql_lock_acquire_async(loop, "x", NULL, &what, NULL) == RQL_E_FORKED, LEAST_CODE);
    (void)uv_run(&uv, UV_RUN_NOWAIT);
    (void)uv_run(&uv, UV_RUN_NOWAIT);
}

TEST(a_child_touches_the_connections_to_no_node)
{
    struct asked asked[NODES];
    char name[NODES][16];
    unsigned from = 0;

    for (size_t i = 0; i < NODES; i++) {
        draw_name(name[i], "f", i, &from);
        asked[i] = asked_for();
        take(&asked[i], name[i]);
    }
    expect_good_end(start_limited_child(run_copy));
    for (size_t i = 0; i < NODES; i++) {
        CHECK_OK(release_and_wait(asked[i].lock));
    }
}

/* It is listened to, and asks nothing just now: it can be handed the lock. */
static bool sleeps(const void *data)
{
    const rql_request *request = data;
    const struct rqli_acquire *acquire = &request->acquire;

    return acquire->waiter.stay == RQLI_WAITER_SLEEPS &&
           rqli_pushes_view(acquire->pushes, &acquire->waiter).delivers;
}

/* What the loop has at a node: by what numbers the node lists it. 0: it is down. */
struct seats {
    int64_t each[3]; /* for commands, for what is to be safe, for pushes */
};

static int64_t seat_of(const struct rqli_conn_loop *conn)
{
    return rqli_conn_loop_is_up(conn) ? rqli_conn_loop_socket(conn)->seat.client_id : 0;
}

static const struct rqli_loop_node *node_with(const char *name)
{
    return rqli_loop_nodes_find(&loop->nodes, rqli_fleet_node(&client->fleet, set_of(name)));
}

static struct seats seats_at(const char *name)
{
    const struct rqli_loop_node *node = node_with(name);

    return node ? (struct seats){{seat_of(node->op.conn), seat_of(node->durable.conn),
                                  seat_of(node->pushes.conn)}}
                : (struct seats){{0}};
}

static bool is_alone(const void *node)
{
    return !((const struct rqli_loop_node *)node)->next;
}

/* By the node that is looked at. */
static bool are_left(const void *data)
{
    const struct seats *seats = data;
    char text[TEXT_SIZE];
    redisReply *listed;
    bool are;

    (void)snprintf(text, sizeof text, "CLIENT LIST ID %" PRId64 " %" PRId64 " %" PRId64,
                   seats->each[0], seats->each[1], seats->each[2]);
    listed = ask_reply(text);
    are = listed->len == 0;
    freeReplyObject(listed);
    return are;
}

/* Each of its connections to the node is used, the one for pushes by who waits for this lock. */
static void use_all_at(const char *name)
{
    struct asked first = asked_for();
    struct asked behind = asked_for();

    first.options.replicas = 1;
    first.options.replica_timeout_ms = 1;
    first.options.durability_is_advice = true;
    take(&first, name);
    behind.releases = true;
    start_asking(&behind, name);
    run_until(sleeps, behind.what.request);
    CHECK_OK(release_and_wait(first.lock));
    run_until(is_released, &behind);
    CHECK_OK(behind.release_status);
}

/* Where a lock is held they stay. */
TEST(a_node_that_a_loop_does_not_use_is_left_alone)
{
    struct asked kept[NODES];
    struct seats seats[NODES];
    char name[NODES][16];
    const struct rqli_loop_node *second;
    struct seats now;
    unsigned from = 0;

    for (size_t i = 0; i < NODES; i++) {
        draw_name(name[i], "u", i, &from);
        kept[i] = asked_for();
        take(&kept[i], name[i]);
        draw_name(name[i], "u", i, &from);
        look_at(i);
        use_all_at(name[i]);
        seats[i] = seats_at(name[i]);
        assert_false(are_left(&seats[i]));
    }
    second = node_with(name[1]);
    CHECK_OK(release_and_wait(kept[1].lock));
    run_until(are_left, &seats[1]);
    now = seats_at(name[1]);
    assert_memory_equal(&now, (&(struct seats){{0}}), sizeof now);
    now = seats_at(name[0]);
    assert_memory_equal(&now, &seats[0], sizeof now);
    run_until(is_alone, &loop->nodes.first); /* its rounds are without the other */
    assert_int_equal(client->fleet.silent_us, 0);
    use_all_at(name[1]);
    assert_ptr_equal(node_with(name[1]), second);
    run_until(is_alone, &loop->nodes.first);
    CHECK_OK(release_and_wait(kept[0].lock));
}

/* Though nothing is held there, and nothing is waited for. */
TEST(a_node_that_a_loop_has_just_used_stays)
{
    struct seats seats;
    struct seats now;
    unsigned from = 0;
    char name[16];

    client->cluster->unused_us = NO_POLL_MS * INT64_C(1000); /* from the next look on */
    draw_name(name, "w", 1, &from);
    look_at(1);
    use_all_at(name);
    seats = seats_at(name);
    assert_false(are_left(&seats));
    run_for_ms(2 * UNUSED_MS);
    now = seats_at(name);
    assert_memory_equal(&now, &seats, sizeof now);
}

/* Who does not poll has nobody but the push. */
TEST(a_node_at_which_a_loop_waits_is_not_left)
{
    struct asked asked = asked_for();
    struct seats seats;
    struct seats now;
    unsigned from = 0;
    rql_lock *lock;
    char name[16];

    draw_name(name, "v", 1, &from);
    look_at(1);
    lock = hold(other, name);
    asked.options.retry_delay_ms = NO_POLL_MS;
    start_asking(&asked, name);
    run_until(sleeps, asked.what.request);
    seats = seats_at(name);
    run_for_ms(3 * UNUSED_MS);
    now = seats_at(name);
    assert_memory_equal(&now, &seats, sizeof now);
    CHECK_OK(rql_lock_release(lock, NULL));
    await_asked(&asked);
    CHECK_OK(asked.status);
    CHECK_OK(release_and_wait(asked.lock));
}

/* By one connection alone. */
TEST(a_node_at_which_a_loop_holds_is_in_use)
{
    struct asked asked = asked_for();
    unsigned from = 0;
    char name[16];

    draw_name(name, "w", 1, &from);
    take(&asked, name);
    run_for_ms(3 * UNUSED_MS);
    assert_non_null(node_with(name));
    CHECK_OK(release_and_wait(asked.lock));
}

/* Nothing stands in line at the node while the release of the first pauses between two attempts.
 * The server comes back without the lock. */
TEST(a_hand_over_is_told_by_a_node_that_was_put_aside_meanwhile)
{
    struct asked first = asked_for();
    struct asked behind = asked_for();
    int status = INT_MAX;
    const rql_done done = {on_released_status, &status};
    unsigned from = 0;
    char name[16];

    client->cluster->unused_us = 1000; /* other threads read it from the first lock on */
    draw_name(name, "t", 1, &from);
    look_at(1);
    take(&first, name);
    start_asking(&behind, name);
    run_until(sleeps, behind.what.request);
    redis_server_pause(&nodes[1]);
    CHECK_OK(rql_lock_release_async(loop, first.lock, &done, NULL));
    await_asked(&behind);
    CHECK_OK(behind.status);
    redis_server_kill(&nodes[1]);
    run_until(is_alone, &loop->nodes.first);
    assert_int_equal(status, INT_MAX);
    CHECK_OK(redis_server_restart(&nodes[1]));
    redisFree(raws[1]);
    raws[1] = redis_server_connect(&nodes[1]);
    look_at(1);
    run_until(is_told, &status);
    CHECK_OK(status); /* the call without a reply may have done it */
    assert_int_equal(release_and_wait(behind.lock), RQL_NOT_HELD);
}

FIXTURE(start_nodes, stop_nodes, set_up_impatient_loop, tear_down_loop);
