#include "check.h"

#include "base/clock.h"
#include "lock/leases.h"
#include "no_server.h"
#include "reply_tree.h"
#include "swarm.h"

/* What a heartbeat tells of which hosts. The test is the driver of the operation, and the server.
 */

enum { TTL_MS = 15000, CALLS_MAX = 4, SENT_US = 1000000, LATER_US = 5000 };

static struct rql_swarm swarm;
static struct rqli_op *op;

BEFORE_EACH(set_up)
{
    rql_client *client = client_without_server();

    swarm = (struct rql_swarm){
        .client = client, .prober_client = client, .options.zombie_ttl_ms = TTL_MS};
    rqli_hosts_open(client->hosts, TTL_MS, NULL, NULL);
}

AFTER_EACH(tear_down)
{
    swarm.client = rqli_client_free(swarm.client);
}

static void drop(const struct rqli_batch *batch)
{
    (void)batch;
}

static int64_t number(struct rqli_slice text)
{
    int64_t value;

    assert_true(rqli_parse_int(text, &value));
    return value;
}

/* Threads that hold a lock at the next heartbeat. */
static void hold(uint64_t from, uint64_t to)
{
    for (uint64_t thread = from; thread < to; thread++) {
        rqli_hosts_add(swarm.client->hosts, &rqli_key_sets[RQLI_WHOLE], thread, true);
    }
}

static const struct beat {
    const char *name;
    uint64_t holds[2][2]; /* who holds a lock then: from here up to there */
    size_t n_calls;

    struct {
        int64_t n_new, n_known;
        size_t n;
    } calls[CALLS_MAX];

    size_t lost; /* no answer to this call; 0: to all there is one, or counted from 1 */
    int64_t n_dead;
    size_t n_hosts; /* that are known then */
} beats[] = {
    {"one is new", {{1, 2}}, 1, {{1, 0, 1}}, 0, 0, 1},
    {"a hundred in one call", {{1, 101}}, 1, {{99, 1, 100}}, 0, 0, 100},
    {"more in several", {{1, 251}}, 3, {{100, 0, 100}, {50, 50, 100}, {0, 50, 50}}, 0, 0, 250},
    {"new ones, known ones, and some that leave",
     {{1, 201}, {251, 401}},
     4,
     {{100, 0, 100}, {50, 50, 100}, {0, 100, 100}, {0, 50, 100}},
     0,
     0,
     350},
    {"a call has no answer",
     {{1, 251}},
     4,
     {{50, 50, 100}, {0, 100, 100}, {0, 50, 100}, {0, 0, 100}},
     2,
     0,
     350},
    {"some were declared dead",
     {{1, 251}},
     4,
     {{50, 50, 100}, {0, 100, 100}, {0, 50, 100}, {0, 0, 100}},
     0,
     7,
     250},
};

static void take_call(const struct beat *row, size_t i)
{
    const rql_error fault = {.status = RQL_E_IO, .message = "cut off"};
    struct rqli_reply reply = TREE(tree_int(1), tree_int(i == 0 ? row->n_dead : 0));
    /* Later calls may be sent earlier. */
    struct rqli_batch batch = {
        .drop = drop, .reply = &reply, .sent_us = SENT_US + (i == 1 ? 0 : LATER_US)};
    struct rqli_call call;

    rqli_call_begin(&call, NULL);
    op->ops->write(op, i, &call);
    CHECK_ALL(EQ(call.script, RQLI_SCRIPT_SWARM_PROBE), EQ(call.n_args, 2 + row->calls[i].n),
              EQ(number(call.args[0]), row->calls[i].n_new),
              EQ(number(call.args[1]), row->calls[i].n_known));
    if (row->lost == i + 1) {
        op->ops->read(op, i, NULL, NULL, &fault);
    } else {
        op->ops->read(op, i, &batch, &reply, NULL);
    }
}

/* Leases are relied on from when the first of all calls was sent, if all of them are answered. */
static void check_leases(const struct beat *row)
{
    int64_t end_us = rqli_leases_host_end_us(swarm.client->leases, &rqli_key_sets[RQLI_WHOLE]);
    int64_t sent_us = row->n_calls > 1 ? SENT_US : SENT_US + LATER_US;

    if (!row->lost) {
        assert_int_equal(end_us, rqli_after_ms(sent_us, TTL_MS) - rqli_lease_margin_us(TTL_MS));
    }
}

TEST(each_call_says_how_many_of_its_hosts_are_new_and_how_many_are_known)
{
    EACH_ROW (row, beats) {
        for (size_t i = 0; i < N_ROWS(row->holds); i++) {
            hold(row->holds[i][0], row->holds[i][1]);
        }
        op = rqli_prober_ops.begin(&swarm, true);
        assert_int_equal(op->ops->next(op), RQLI_OP_AGAIN);
        assert_int_equal(op->n_calls, row->n_calls);
        for (size_t i = 0; i < op->n_calls; i++) {
            take_call(row, i);
        }
        assert_int_equal(op->ops->next(op), RQLI_OP_OVER);
        CHECK_ALL(EQ(op->status, row->lost ? RQL_E_IO : RQL_OK),
                  EQ(swarm.probe.n_dead, row->n_dead),
                  EQ(rqli_hosts_known(swarm.client->hosts), row->n_hosts));
        check_leases(row);
    }
}

static struct rqli_op *begin_beat(struct rql_swarm *of)
{
    hold(1, 2);
    return rqli_prober_ops.begin(of, true);
}

/* Takes the reply to the one call of a heartbeat, which is over then. */
static void finish(struct rqli_op *beat)
{
    struct rqli_reply reply = TREE(tree_int(1), tree_int(0));
    struct rqli_batch batch = {.drop = drop, .reply = &reply, .sent_us = SENT_US};

    beat->ops->read(beat, 0, &batch, &reply, NULL);
    assert_int_equal(beat->ops->next(beat), RQLI_OP_OVER);
    assert_int_equal(beat->status, RQL_OK);
}

/* A heartbeat by hand is one without zombie_ttl_ms. */
TEST(a_heartbeat_of_the_swarm_goes_ahead_of_the_next_one_by_hand)
{
    struct rql_swarm by_hand[] = {swarm, swarm};
    struct rqli_op *first;
    struct rqli_op *next;
    struct rqli_op *own;

    by_hand[0].options.zombie_ttl_ms = 0;
    by_hand[1].options.zombie_ttl_ms = 0;
    first = begin_beat(&by_hand[0]);
    next = begin_beat(&by_hand[1]);
    own = begin_beat(&swarm);
    assert_int_equal(first->ops->next(first), RQLI_OP_AGAIN);
    assert_int_equal(own->ops->next(own), RQLI_OP_WAIT);
    finish(first);
    assert_int_equal(next->ops->next(next), RQLI_OP_WAIT);
    assert_int_equal(own->ops->next(own), RQLI_OP_AGAIN);
    finish(own);
    assert_int_equal(next->ops->next(next), RQLI_OP_AGAIN);
    finish(next);
}

/* A second one waits until the first is over. One that is cancelled before all is answered says so,
 * and one that is cancelled later has done its work. */
TEST(a_heartbeat_waits_for_another_of_its_client_and_may_be_cancelled)
{
    const struct beat *row = &beats[0];
    struct rql_swarm second = swarm;
    struct rqli_op *later;

    hold(row->holds[0][0], row->holds[0][1]);
    op = rqli_prober_ops.begin(&swarm, true);
    later = rqli_prober_ops.begin(&second, true);
    assert_int_equal(op->ops->next(op), RQLI_OP_AGAIN);
    assert_int_equal(later->ops->next(later), RQLI_OP_WAIT);
    op->is_cancelled = true;
    assert_int_equal(op->ops->next(op), RQLI_OP_OVER);
    assert_int_equal(op->status, RQL_STOPPED);

    op = later;
    hold(row->holds[0][0], row->holds[0][1]);
    assert_int_equal(op->ops->next(op), RQLI_OP_AGAIN);
    take_call(row, 0);
    op->is_cancelled = true;
    assert_int_equal(op->ops->next(op), RQLI_OP_OVER);
    assert_int_equal(op->status, RQL_OK);
}
