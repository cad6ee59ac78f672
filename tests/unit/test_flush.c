#include "check.h"

#include "base/clock.h"
#include "no_server.h"
#include "reply_tree.h"
#include "swarm.h"

/* Who looks for dead hosts, and what becomes of them. The test is the driver of the operation, and
 * the server. */

enum {
    TTL_MS = 20000,
    PERIOD_MS = 5000,
    LEASE_MS = 2 * PERIOD_MS + 1,
    AT_ONCE = 50,
    CROWD = 120,
    NAME_SIZE = 32
};

static struct rql_swarm swarm;
static struct rqli_op *op;
static struct rqli_command command;

static void begin_swarm(rql_client *client)
{
    swarm = (struct rql_swarm){.client = client,
                               .flusher_client = client,
                               .options.zombie_ttl_ms = TTL_MS,
                               .options.zombie_lock_scan_size = 10,
                               .options.zombie_queue_scan_size = 10};
    rqli_element_init(&swarm.flusher, &rqli_flusher_ops, &swarm);
    swarm.flusher.period_us = PERIOD_MS * 1000;
}

static void end_swarm(void)
{
    rqli_element_fini(&swarm.flusher);
    swarm.client = rqli_client_free(swarm.client);
}

BEFORE_EACH(set_up)
{
    begin_swarm(client_without_server());
}

AFTER_EACH(tear_down)
{
    end_swarm();
    rqli_command_fini(&command);
}

static void be_partitioned(void)
{
    end_swarm();
    begin_swarm(client_without_cluster());
}

static enum rqli_op_next begin(void)
{
    op = rqli_flusher_ops.begin(&swarm, true);
    return op->ops->next(op);
}

static void end(void)
{
    rqli_flusher_ops.end(&swarm, op->status);
}

static const struct rqli_call *asked(size_t i)
{
    static struct rqli_call call;

    rqli_command_reset(&command);
    rqli_call_begin(&call, &command);
    op->ops->write(op, i, &call);
    return &call;
}

static void drop(const struct rqli_batch *batch)
{
    (void)batch;
}

static void answer(size_t i, struct rqli_reply reply)
{
    struct rqli_batch batch = {.drop = drop, .reply = &reply};

    op->ops->read(op, i, &batch, &reply, NULL);
}

static void lose(size_t i)
{
    const rql_error fault = {.status = RQL_E_IO, .message = "cut off"};

    op->ops->read(op, i, NULL, NULL, &fault);
}

static enum rqli_op_next next(void)
{
    return op->ops->next(op);
}

/* ---- who may look ---- */

#define ELECTED TREE(tree_int(1), tree_text("0"))
#define ELECTED_AND_MORE TREE(tree_int(1), tree_text("7"))
#define ONE_IS_DEAD(cursor) TREE(tree_int(1), tree_text(cursor), tree_text("h"), tree_text("5.5"))
#define ANOTHER_IS TREE(tree_int(0))

TEST(a_look_says_who_asks_for_how_long_and_what_is_dead)
{
    const struct rqli_call *call;

    assert_int_equal(begin(), RQLI_OP_AGAIN);
    call = asked(0);
    CHECK_ALL(EQ(op->n_calls, 1), EQ(call->script, RQLI_SCRIPT_SWARM_LOOK), EQ(call->n_args, 5));
    assert_string_equal(call->args[0].data, swarm.flusher_client->identity);
    assert_string_equal(call->args[4].data, "0");
    assert_memory_equal(call->args[1].data, "10001", call->args[1].length);
    assert_memory_equal(call->args[2].data, "20000000", call->args[2].length);
    assert_memory_equal(call->args[3].data, "10000000", call->args[3].length);
    answer(0, ELECTED_AND_MORE);
    assert_int_equal(next(), RQLI_OP_AGAIN);
    assert_string_equal(asked(0)->args[4].data, "7"); /* where it goes on */
    answer(0, ELECTED);
    assert_int_equal(next(), RQLI_OP_OVER);
    end();
}

/* The pages of a walk, a letter each: e, it is elected, and that was all; m, there are more; d, one
 * is dead, and there are more; D, one is dead, and that was all; n, another one is elected; x, no
 * answer; ? and !, one that makes no sense. */
static const struct walk {
    const char *name;
    const char *pages;
    rql_status status;
    bool sweeps;     /* then */
    bool is_elected; /* in the end */
} walks[] = {
    {"another one is elected", "n", RQL_OK, false, false},
    {"nobody is dead", "mme", RQL_OK, false, true},
    {"one is dead", "mD", RQL_OK, true, true},
    {"it is elected no more behind a page of the dead", "dn", RQL_OK, false, false},
    {"no answer", "x", RQL_E_IO, false, false},
    {"no answer behind a page of the dead", "dx", RQL_E_IO, false, true},
    {"an answer that makes no sense", "?", RQL_E_PROTOCOL, false, false},
    {"an answer that names a host and nothing else of it", "!", RQL_E_PROTOCOL, false, true},
};

static void answer_page(char page)
{
    const struct {
        char letter;
        struct rqli_reply reply;
    } pages[] = {
        {'e', ELECTED},
        {'m', ELECTED_AND_MORE},
        {'d', ONE_IS_DEAD("7")},
        {'D', ONE_IS_DEAD("0")},
        {'n', ANOTHER_IS},
        {'?', tree_text("0")},
        {'!', TREE(tree_int(1), tree_text("0"), tree_text("h"))},
    };

    for (size_t i = 0; i < N_ROWS(pages); i++) {
        if (pages[i].letter == page) {
            answer(0, pages[i].reply);
        }
    }
    if (page == 'x') {
        lose(0);
    }
}

TEST(only_the_elected_one_ends_what_the_dead_held)
{
    EACH_ROW (row, walks) {
        enum rqli_op_next wanted = begin();

        atomic_store(&swarm.is_flusher, true); /* it was, at the step before */
        for (const char *page = row->pages; *page; page++) {
            assert_int_equal(wanted, RQLI_OP_AGAIN);
            answer_page(*page);
            wanted = next();
        }
        CHECK_ALL(EQ(wanted, row->sweeps ? RQLI_OP_AGAIN : RQLI_OP_OVER),
                  EQ(swarm.flush.phase, row->sweeps ? RQLI_FLUSH_SWEEP : RQLI_FLUSH_LOOK),
                  EQ(op->status, row->status));
        end();
        assert_int_equal(atomic_load(&swarm.is_flusher), row->is_elected);
    }
}

/* Who steps down says so everywhere: another one may look at each of them then. */
TEST(who_is_elected_steps_down)
{
    for (int is_cluster = 0; is_cluster < 2; is_cluster++) {
        if (is_cluster) {
            be_partitioned();
        }
        assert_null(rqli_flusher_ops.begin_last(&swarm));
        atomic_store(&swarm.is_flusher, true);
        op = rqli_flusher_ops.begin_last(&swarm);
        assert_int_equal(next(), RQLI_OP_AGAIN);
        assert_int_equal(op->n_calls, is_cluster ? RQLI_PARTITIONS : 1);
        for (size_t i = 0; i < op->n_calls; i++) {
            assert_string_equal(asked(i)->args[4].data, "-");
            assert_ptr_equal(asked(i)->set, rqli_client_nth_set(swarm.client, i));
            answer(i, ELECTED);
        }
        assert_int_equal(next(), RQLI_OP_OVER);
        rqli_flusher_ops.end_last(&swarm, op->status);
        assert_false(atomic_load(&swarm.is_flusher));
    }
}

/* ---- several partitions ---- */

/* The first one elects; what the others say of that, and which of them are silent, is no matter. */
TEST(who_is_elected_in_the_first_partition_looks_at_all)
{
    enum { DEAD_IN = 3, SILENT = 5, LAST = RQLI_PARTITIONS - 2 };

    be_partitioned();
    assert_int_equal(begin(), RQLI_OP_AGAIN);
    assert_int_equal(op->n_calls, 1);
    assert_ptr_equal(asked(0)->set, &rqli_key_sets[0]);
    answer(0, ELECTED);
    assert_int_equal(next(), RQLI_OP_AGAIN);
    assert_int_equal(op->n_calls, RQLI_PARTITIONS - 1);
    for (size_t i = 0; i < op->n_calls; i++) {
        assert_ptr_equal(asked(i)->set, &rqli_key_sets[i + 1]);
        if (i == SILENT) {
            lose(i);
        } else {
            answer(i, i == DEAD_IN ? ONE_IS_DEAD("0") : i == LAST ? ANOTHER_IS : ELECTED);
        }
    }
    assert_int_equal(next(), RQLI_OP_AGAIN);
    CHECK_ALL(EQ(swarm.flush.phase, RQLI_FLUSH_SWEEP), EQ(swarm.flush.has_dead[DEAD_IN + 1], true),
              EQ(swarm.flush.has_dead[DEAD_IN], false), EQ(swarm.flush.is_elected, true),
              EQ(swarm.flush.fault.status, RQL_E_IO));
    end();
}

/* ---- the dead ---- */

/* So many dead of a set of keys: "h0", ... */
static void answer_dead(size_t i, size_t first, size_t count)
{
    static struct rqli_reply items[2 + 2 * CROWD];
    static char names[CROWD][NAME_SIZE];

    items[0] = tree_int(1);
    items[1] = tree_text("0");
    for (size_t n = 0; n < count; n++) {
        (void)snprintf(names[n], NAME_SIZE, "h%03zu", first + n);
        items[2 + 2 * n] = tree_text(names[n]);
        items[3 + 2 * n] = tree_text("5.5");
    }
    answer(i, tree_array(items, 2 + 2 * count));
}

/* Nothing is found. Until something else than the sweep is asked for. */
static enum rqli_op_next sweep(void)
{
    enum rqli_op_next wanted = RQLI_OP_AGAIN;

    while (wanted == RQLI_OP_AGAIN && swarm.flush.phase == RQLI_FLUSH_SWEEP) {
        (void)asked(0);
        answer(0, TREE(tree_text("0"), tree_array(NULL, 0)));
        wanted = next();
    }
    return wanted;
}

/* Each n-th of them has come back, and stays. */
static void answer_removed(size_t count, size_t back)
{
    static struct rqli_reply items[CROWD + 1];

    for (size_t n = 0; n <= count; n++) {
        items[n] = tree_int(n % back == 0 ? 0 : 1);
    }
    answer(0, tree_array(items, count + 1));
}

TEST(the_dead_are_removed_fifty_at_a_time)
{
    static const size_t counts[] = {AT_ONCE, AT_ONCE, CROWD - 2 * AT_ONCE};

    enum { BACK = 4 };

    char name[NAME_SIZE];
    size_t at = 0;

    assert_int_equal(begin(), RQLI_OP_AGAIN);
    answer_dead(0, 0, CROWD);
    assert_int_equal(next(), RQLI_OP_AGAIN);
    assert_int_equal(sweep(), RQLI_OP_AGAIN);
    for (size_t i = 0; i < N_ROWS(counts); i++) {
        CHECK_ALL(EQ(swarm.flush.phase, RQLI_FLUSH_REMOVE), EQ(op->n_calls, 1),
                  EQ(asked(0)->script, RQLI_SCRIPT_SWARM_REMOVE), EQ(asked(0)->n_args, counts[i]));
        (void)snprintf(name, sizeof name, "h%03zu", at);
        assert_string_equal(asked(0)->args[0].data, name);
        answer_removed(counts[i], BACK);
        at += counts[i];
        assert_int_equal(next(), at < CROWD ? RQLI_OP_AGAIN : RQLI_OP_OVER);
    }
    /* Of each call the first one, and each fourth behind it, has come back. */
    assert_int_equal(swarm.flush.flushed.hosts.count, CROWD - 13 - 13 - 5);
    end();
}

/* Or else it has an effect. */
TEST(a_cancellation_behind_the_last_answer_comes_too_late)
{
    for (size_t at = 0; at < 2; at++) {
        assert_int_equal(begin(), RQLI_OP_AGAIN);
        answer_dead(0, 0, 2 * AT_ONCE);
        assert_int_equal(next(), RQLI_OP_AGAIN);
        assert_int_equal(sweep(), RQLI_OP_AGAIN);
        for (size_t i = 0; i <= at; i++) {
            answer_removed(AT_ONCE, CROWD);
            op->is_cancelled = i == at;
            assert_int_equal(next(), i == at ? RQLI_OP_OVER : RQLI_OP_AGAIN);
        }
        assert_int_equal(op->status, at == 0 ? RQL_STOPPED : RQL_OK);
        end();
    }
}

/* Each partition has hosts of its own, so no call is about two of them. */
TEST(hosts_of_two_partitions_are_removed_by_two_calls)
{
    be_partitioned();
    assert_int_equal(begin(), RQLI_OP_AGAIN);
    answer_dead(0, 0, 2);
    assert_int_equal(next(), RQLI_OP_AGAIN);
    for (size_t i = 0; i < op->n_calls; i++) {
        if (i == 0) {
            answer_dead(i, 1, 3);
        } else {
            answer(i, ELECTED);
        }
    }
    assert_int_equal(next(), RQLI_OP_AGAIN);
    assert_int_equal(swarm.flush.verdicts.count, 5);
    assert_int_equal(sweep(), RQLI_OP_AGAIN);
    for (size_t number = 0; number < 2; number++) {
        assert_ptr_equal(asked(0)->set, &rqli_key_sets[number]);
        assert_int_equal(asked(0)->n_args, 2 + number);
        answer_removed(2 + number, CROWD);
        assert_int_equal(next(), number == 0 ? RQLI_OP_AGAIN : RQLI_OP_OVER);
    }
    end();
}

/* A name with a NUL would be another one for whoever reads it as a text. */
TEST(a_host_whose_name_is_no_text_is_left_alone)
{
    assert_int_equal(begin(), RQLI_OP_AGAIN);
    answer(0, TREE(tree_int(1), tree_text("0"), tree_bytes("h\0x", 3), tree_text("5.5")));
    assert_int_equal(next(), RQLI_OP_OVER);
    end();
}

/* The election lasts for two periods and a sweep may last for longer. */
TEST(a_long_sweep_renews_its_election)
{
    static const struct {
        const char *name;
        int64_t ago_ms;
        bool renews;
        bool has_answer;
    } rows[] = {
        {"a moment ago", 0, false, true},
        {"an eighth of the lease ago", LEASE_MS / 8, false, true},
        {"a third of the lease ago", LEASE_MS / 3, true, true},
        {"and the answer is lost, which is no matter", LEASE_MS / 3, true, false},
    };

    EACH_ROW (row, rows) {
        assert_int_equal(begin(), RQLI_OP_AGAIN);
        answer(0, ONE_IS_DEAD("0"));
        assert_int_equal(next(), RQLI_OP_AGAIN);
        swarm.flush.renewed_us = rqli_now_us() - row->ago_ms * 1000;
        (void)asked(0);
        answer(0, TREE(tree_text("0"), tree_array(NULL, 0)));
        assert_int_equal(next(), RQLI_OP_AGAIN);
        assert_int_equal(swarm.flush.phase == RQLI_FLUSH_RENEW, row->renews);
        if (row->renews) {
            assert_string_equal(asked(0)->args[0].data, swarm.flusher_client->identity);
            assert_int_equal(asked(0)->args[4].length, 0); /* it only renews */
            if (row->has_answer) {
                answer(0, ELECTED);
            } else {
                lose(0);
            }
            assert_int_equal(next(), RQLI_OP_AGAIN);
        }
        CHECK_ALL(EQ(swarm.flush.phase, RQLI_FLUSH_SWEEP), EQ(op->status, RQL_OK));
        end();
    }
}
