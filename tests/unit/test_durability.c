#include "check.h"

#include "net/conn/durability.h"
#include "reply_tree.h"

/* What is asked of the server, and what its answer is worth. */

enum { TIMEOUT_MS = 200 };

static const struct asked {
    const char *name;
    struct rqli_durability wanted;
    const char *said;
    int n_commands;
} asked[] = {
    {"nothing", {0}, "", 0},
    {"replicas", {2, false, TIMEOUT_MS}, "*3\r\n$4\r\nWAIT\r\n$1\r\n2\r\n$3\r\n200\r\n", 1},
    {"the disk",
     {0, true, TIMEOUT_MS},
     "*4\r\n$7\r\nWAITAOF\r\n$1\r\n1\r\n$1\r\n0\r\n$3\r\n200\r\n",
     1},
    {"both",
     {1, true, TIMEOUT_MS},
     "*3\r\n$4\r\nWAIT\r\n$1\r\n1\r\n$3\r\n200\r\n"
     "*4\r\n$7\r\nWAITAOF\r\n$1\r\n1\r\n$1\r\n0\r\n$3\r\n200\r\n",
     2},
};

TEST(one_command_asks_for_each)
{
    EACH_ROW (row, asked) {
        struct rqli_command command = {0};

        rqli_durability_write(&row->wanted, &command);
        assert_string_equal(text_of(&command), row->said);
        assert_int_equal(command.n_commands, row->n_commands);
        assert_in_range(command.length, 0, RQLI_ACKS_BYTES);
        assert_int_equal(rqli_durability_is_wanted(&row->wanted), row->n_commands > 0);
        rqli_command_fini(&command);
    }
}

/* Of several servers. */
TEST(what_all_say_is_the_least)
{
    static const struct {
        struct rqli_acks one;
        struct rqli_acks other;
        struct rqli_acks both;
    } rows[] = {
        {{2, true, 0}, {1, true, 0}, {1, true, 0}},
        {{1, false, 0}, {2, true, 0}, {1, false, 0}},
        {{2, true, 0}, {2, false, RQL_E_AUTH}, {2, false, RQL_E_AUTH}},
        {{0, false, RQL_E_SERVER}, {2, true, 0}, {0, false, RQL_E_SERVER}},
    };

    EACH (row, rows) {
        struct rqli_acks acks = row->one;

        rqli_acks_join(&acks, &row->other);
        assert_int_equal(acks.replicas, row->both.replicas);
        assert_int_equal(acks.is_synced, row->both.is_synced);
        assert_int_equal(acks.refused, row->both.refused);
    }
}

static const struct answered {
    const char *name;
    struct rqli_durability wanted;
    struct rqli_reply replies[RQLI_ACKS_MAX];
    struct rqli_acks acks;
    bool is_met;
} answered[] = {
    {"nothing is always met", {0}, {{0}}, {0}, true},
    {"as many", {2, false, 1}, {{.type = RQLI_REPLY_INTEGER, .integer = 2}}, {2, false, 0}, true},
    {"more", {1, false, 1}, {{.type = RQLI_REPLY_INTEGER, .integer = 2}}, {2, false, 0}, true},
    {"fewer", {2, false, 1}, {{.type = RQLI_REPLY_INTEGER, .integer = 1}}, {1, false, 0}, false},
    {"a refusal",
     {1, false, 1},
     {{.type = RQLI_REPLY_ERROR, .text = {"NOPERM this user", 16}}},
     {0, false, RQL_E_AUTH},
     false},
};

TEST(what_the_server_says_is_compared_with_what_was_wanted)
{
    struct rqli_acks acks;

    EACH_ROW (row, answered) {
        rqli_acks_read(&acks, &row->wanted, row->replies);
        CHECK_ALL(EQ(acks.replicas, row->acks.replicas), EQ(acks.is_synced, row->acks.is_synced),
                  EQ(acks.refused, row->acks.refused),
                  EQ(rqli_durability_is_met(&row->wanted, &acks), row->is_met));
    }
}

/* WAITAOF answers for the server, and for its replicas. */
TEST(the_disk_has_it_or_not)
{
    const struct rqli_durability wanted = {1, true, 1};

    for (int64_t n_synced = 0; n_synced < 2; n_synced++) {
        const struct rqli_reply replies[] = {tree_int(1), TREE(tree_int(n_synced), tree_int(3))};
        struct rqli_acks acks;

        rqli_acks_read(&acks, &wanted, replies);
        CHECK_ALL(EQ(acks.replicas, 1), EQ(acks.is_synced, n_synced > 0),
                  EQ(rqli_durability_is_met(&wanted, &acks), n_synced > 0));
    }
}

TEST(a_batch_wants_the_most_of_each_for_the_least_time)
{
    struct rqli_durability all = {0};

    rqli_durability_join(&all, &(struct rqli_durability){.replicas = 1, .timeout_ms = 30});
    rqli_durability_join(
        &all, &(struct rqli_durability){.fsync = true, .timeout_ms = 10, .until_us = 7000});
    rqli_durability_join(
        &all, &(struct rqli_durability){.replicas = 2, .timeout_ms = 20, .until_us = 5000});
    rqli_durability_join(&all, &(struct rqli_durability){.replicas = 1, .timeout_ms = 20});
    CHECK_ALL(EQ(all.replicas, 2), EQ(all.fsync, true), EQ(all.timeout_ms, 10),
              EQ(all.until_us, 5000));
}

/* The server may look at its timeouts a tick late. */
TEST(the_server_answers_before_its_caller_leaves)
{
    static const int64_t now_us = 1000000;

    static const struct {
        int64_t timeout_ms;
        int64_t left_us; /* 0: it is not known when the caller leaves */
        int64_t limited_ms;
    } rows[] = {
        {5000, 0, 5000}, {5000, 1000000, 900}, {300, 1000000, 300}, {5000, 100000, 50},
        {5000, 1000, 1}, {5000, 500, 1},       {5000, -20000, 1},
    };

    EACH (row, rows) {
        struct rqli_durability wanted = {.replicas = 1, .timeout_ms = row->timeout_ms};

        wanted.until_us = row->left_us ? now_us + row->left_us : 0;
        rqli_durability_limit(&wanted, now_us);
        assert_int_equal(wanted.timeout_ms, row->limited_ms);
    }
}
