#include "check.h"

#include "lock/background.h"
#include "lock/client.h"
#include "no_server.h"
#include "peer.h"

/* The batches of the background thread. The test takes its steps, and there is no server. */

enum { LONG_US = 60000000 };

static rql_client *client;
static struct rqli_background *background;
static struct rqli_duty duty;
static struct rqli_duty dropper;
static int n_read;

BEFORE_EACH(set_up)
{
    client = client_without_cluster();
    background = client->background;
    n_read = 0;
}

AFTER_EACH(tear_down)
{
    client = rqli_client_free(client);
}

static bool begin(struct rqli_duty *self, int64_t now_us)
{
    (void)self;
    (void)now_us;
    return true;
}

/* Its subject ends while the batch of the other duty is being made. */
static bool begin_to_drop(struct rqli_duty *self, int64_t now_us)
{
    (void)self;
    (void)now_us;
    rqli_background_drop(background, &duty);
    return false;
}

static void write_call(struct rqli_duty *self, struct rqli_call *call)
{
    (void)self;
    rqli_command_words(rqli_call_plain(call), "PING", NULL);
}

static void read_reply(struct rqli_duty *self, const struct rqli_batch *answer,
                       const struct rqli_reply *reply, rql_status fault)
{
    (void)self;
    (void)answer;
    (void)reply;
    n_read++;
    assert_int_equal(fault, RQL_E_IO);
}

static const struct rqli_duty_ops ops = {.begin = begin, .write = write_call, .read = read_reply};
static const struct rqli_duty_ops ops_to_drop = {.begin = begin_to_drop};

/* Makes a duty due. */
static void add(struct rqli_duty *self, const struct rqli_duty_ops *of, int64_t at_us)
{
    *self = (struct rqli_duty){.ops = of, .set = &rqli_key_sets[0]};
    rqli_background_lock(background);
    assert_true(rqli_timers_reserve(&background->shared.others));
    rqli_timers_set(&background->shared.others, &self->due, at_us);
    rqli_background_unlock(background);
}

static bool is_down(void)
{
    return atomic_load(&client->fleet.first.down_us) > 0;
}

TEST(a_node_counts_as_silent_when_a_batch_cannot_be_sent)
{
    add(&duty, &ops, 1);
    (void)rqli_background_step(&background->worker);
    assert_int_equal(n_read, 1);
    assert_true(is_down());
}

/* A loss is found over the same connection, so no pause between two attempts may be long. */
TEST(a_connection_is_made_again_soon_while_a_lock_may_be_lost)
{
    const struct rqli_conn *conn = client->fleet.first.background;
    struct rqli_timers *losses = &background->shared.losses;
    struct rqli_due loss = {0};

    for (int may_lose = 0; may_lose < 2; may_lose++) {
        if (may_lose) {
            assert_true(rqli_timers_reserve(losses));
            rqli_timers_set(losses, &loss, rqli_now_us() + LONG_US);
        }
        add(&duty, &ops, 1);
        (void)rqli_background_step(&background->worker);
        assert_int_equal(conn->shared.longest_us, may_lose ? RQLI_SERVER_LOOK_US : 0);
    }
    rqli_timers_unreserve(losses, &loss);
}

TEST(a_node_does_not_count_as_silent_when_all_duties_of_its_batch_were_dropped)
{
    int peer = peer_of(client->fleet.first.background);

    add(&duty, &ops, 1);
    add(&dropper, &ops_to_drop, 2);
    (void)rqli_background_step(&background->worker);
    assert_int_equal(n_read, 0);
    assert_int_equal(background->shared.batch.count, 0);
    assert_int_equal(peer_hear(peer, NULL), 0);
    assert_false(is_down());
    (void)close(peer);
}
