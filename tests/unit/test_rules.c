#include "check.h"

#include "admin/rules.h"
#include "lock/client.h"
#include "reply_tree.h"

#define ACQ "rql:acq:18466/600/620/640/aaaaaaaaaaaaaaa1"
#define HST "rql:hst:18466/600/640/aaaaaaaaaaaaaaa1"
#define NONCE "0123456789abcdef0123456789abcdef"

static const rql_sweep_owner owner = {.acq_id = ACQ, .hst_id = HST};

/* By four fields, or by what is in a queue. */
TEST(what_is_seen_is_judged)
{
    const struct rqli_reply acq = tree_text(ACQ);
    const struct rqli_reply hst = tree_text(HST);
    const struct rqli_reply ts = tree_text("1.5");
    const struct rqli_reply nil = tree_nil();
    const struct rqli_reply whole = TREE(acq, hst, ts, nil);
    const struct rqli_reply hosts = TREE(acq, acq, ts, nil);
    const struct rqli_reply longer = TREE(tree_text(ACQ "1"), hst, nil, nil);
    const struct rqli_reply gone = TREE(nil, nil, nil, nil);

    const struct {
        const struct rqli_sweep_rule *rule;
        struct rqli_reply seen;
        enum rqli_sweep_verdict verdict;
    } rows[] = {
        {&rqli_rule_all_locks, whole, RQLI_SWEEP_REMOVE},
        {&rqli_rule_all_locks, gone, RQLI_SWEEP_REMOVE},
        {&rqli_rule_all_locks, acq, RQLI_SWEEP_MALFORMED},
        {&rqli_rule_locks_of, whole, RQLI_SWEEP_REMOVE},
        {&rqli_rule_locks_of, hosts, RQLI_SWEEP_KEEP},
        {&rqli_rule_locks_of, longer, RQLI_SWEEP_KEEP},
        {&rqli_rule_locks_of, gone, RQLI_SWEEP_KEEP},
        {&rqli_rule_locks_of, TREE(acq, hst, tree_int(1), nil), RQLI_SWEEP_MALFORMED},
        {&rqli_rule_locks_of, TREE(acq, hst, ts), RQLI_SWEEP_MALFORMED},
        {&rqli_rule_zombie_locks, whole, RQLI_SWEEP_REMOVE},
        {&rqli_rule_zombie_locks, hosts, RQLI_SWEEP_KEEP},
        {&rqli_rule_zombie_locks, gone, RQLI_SWEEP_KEEP},
        {&rqli_rule_all_queues, tree_int(3), RQLI_SWEEP_REMOVE},
        {&rqli_rule_all_queues, tree_int(0), RQLI_SWEEP_KEEP},
        {&rqli_rule_all_queues, nil, RQLI_SWEEP_MALFORMED},
        {&rqli_rule_requests_of, ts, RQLI_SWEEP_REMOVE},
        {&rqli_rule_requests_of, nil, RQLI_SWEEP_KEEP},
        {&rqli_rule_requests_of, tree_int(1), RQLI_SWEEP_MALFORMED},
        {&rqli_rule_dead_requests, tree_int(1), RQLI_SWEEP_REMOVE},
        {&rqli_rule_dead_requests, tree_int(0), RQLI_SWEEP_KEEP},
        {&rqli_rule_dead_requests, tree_text("1"), RQLI_SWEEP_MALFORMED},
        {&rqli_rule_dead_requests, tree_int(INT64_MAX), RQLI_SWEEP_MALFORMED},
        {&rqli_rule_zombie_requests, tree_int(1), RQLI_SWEEP_REMOVE},
        {&rqli_rule_zombie_requests, tree_int(0), RQLI_SWEEP_KEEP},
    };
    struct rqli_list dead = {0};
    const struct rqli_sweep sweep = {.owner = &owner, .dead_hosts = &dead};

    rqli_list_add(&dead, rqli_slice_of("a"), 0);
    rqli_list_add(&dead, rqli_slice_of(HST), 0);
    EACH (row, rows) {
        assert_int_equal(rqli_rule_judge(row->rule, &sweep, &row->seen), row->verdict);
    }
    rqli_list_fini_p(&dead);
}

TEST(each_rule_inspects_with_one_command)
{
    static const struct {
        const struct rqli_sweep_rule *rule;
        const char *bytes;
    } rows[] = {
        {&rqli_rule_all_locks, "*6\r\n$5\r\nHMGET\r\n$1\r\nk\r\n$6\r\nacq_id\r\n$6\r\nhst_id\r\n"
                               "$2\r\nts\r\n$9\r\nrql_nonce\r\n"},
        {&rqli_rule_all_queues, "*2\r\n$5\r\nZCARD\r\n$1\r\nk\r\n"},
        {&rqli_rule_requests_of, "*3\r\n$6\r\nZSCORE\r\n$1\r\nk\r\n$42\r\n" ACQ "\r\n"},
        {&rqli_rule_dead_requests,
         "*4\r\n$6\r\nZCOUNT\r\n$1\r\nk\r\n$4\r\n-inf\r\n$8\r\n1.500000\r\n"},
    };
    const struct rqli_sweep sweep = {.owner = &owner, .age.seconds = "1.500000"};

    EACH (row, rows) {
        struct rqli_command command = {0};

        rqli_rule_inspect(row->rule, &sweep, &command, rqli_slice_of("k"));
        rqli_command_slice(&command, (struct rqli_slice){"", 1});
        assert_int_equal(command.n_commands, 1);
        assert_memory_equal(command.data, row->bytes, strlen(row->bytes));
        assert_int_equal(command.length, strlen(row->bytes) + sizeof "$1\r\n\0\r\n" - 1);
        rqli_command_fini(&command);
    }
}

/* The numbers of an answer, and the fields of the result that they count in. */
TEST(answers_count_in_the_fields_of_the_result)
{
    static const struct {
        const struct rqli_sweep_rule *rule;
        struct rqli_outcome outcome;
        int64_t keys, queues, requests, served;
    } rows[] = {
        {&rqli_rule_all_queues, {1, 7, 0}, 1, 1, 7, 0},
        {&rqli_rule_all_queues, {0, 0, 0}, 0, 0, 0, 0},
        {&rqli_rule_all_locks, {1, 2, 0}, 1, 0, 0, 2},
        {&rqli_rule_locks_of, {0, 0, 0}, 0, 0, 0, 0},
        {&rqli_rule_requests_of, {1, 1, 0}, 0, 1, 1, 1},
        {&rqli_rule_requests_of, {0, 0, 0}, 0, 0, 0, 0},
        {&rqli_rule_zombie_locks, {1, 1, 0}, 1, 0, 0, 1},
        {&rqli_rule_zombie_requests, {3, -1, 2}, 0, 1, 3, 2},
    };
    const struct rqli_reply fields[] = {tree_nil(), tree_text(HST), tree_nil(), tree_nil()};
    const struct rqli_reply grant = tree_array(fields, 4);
    const struct rqli_reply counted = tree_int(9);
    const rql_sweep_options options = {.dry_run = false};

    EACH (row, rows) {
        bool is_lock = row->rule->inspection == RQLI_INSPECT_GRANT;
        struct rqli_sweep sweep = {.options = options};
        struct rqli_sweep_target target = {.key = rqli_slice_of("k"),
                                           .seen = is_lock ? &grant : &counted};

        assert_false(rqli_rule_count(row->rule, &sweep, &target, &row->outcome));
        CHECK_ALL(EQ(sweep.result.rel_key_cnt, row->keys),
                  EQ(sweep.result.tch_queue_cnt, row->queues),
                  EQ(sweep.result.rem_request_cnt, row->requests), EQ(target.served, row->served));
    }
}

/* What was not there is told as "", for the script to compare. */
TEST(a_grant_is_told_field_by_field)
{
    const struct rqli_reply fields[] = {tree_text(ACQ), tree_bytes("h\0st", 4), tree_nil(),
                                        tree_text(NONCE)};
    const struct rqli_reply seen = tree_array(fields, 4);
    const struct rqli_sweep_target target = {.seen = &seen};
    const struct rqli_sweep sweep = {0};
    struct rqli_call call;

    rqli_rule_write(&rqli_rule_all_locks, &sweep, &target, &call);
    CHECK_ALL(EQ(call.script, RQLI_SCRIPT_SWEEP_LOCK), EQ(call.n_args, 5),
              EQ(call.args[0].length, strlen(ACQ)), EQ(call.args[1].length, 4));
    assert_memory_equal(call.args[1].data, "h\0st", 4);
    assert_int_equal(call.args[2].length, 0);
    assert_memory_equal(call.args[3].data, NONCE, 32);
}

TEST(ages_are_counted_from_the_servers_clock)
{
    static const struct {
        int64_t now_us, ttl_ms;
        int64_t oldest_us;
        const char *seconds;
    } rows[] = {
        {1795254268468100, 86400000, 1795167868468100, "1795167868.468100"},
        {1795254268000007, 0, 1795254268000007, "1795254268.000007"},
        {5, 315360000000, 0, "0.000000"}, /* a server in 1970 */
    };

    EACH_BY (row, rows, row->seconds) {
        struct rqli_sweep_age age;

        rqli_sweep_age_init(&age, row->now_us, row->ttl_ms);
        assert_true(age.oldest_us == row->oldest_us);
        assert_string_equal(age.seconds, row->seconds);
    }
}

/* Steps go on from where the last one ended, and a queue is touched once. */
TEST(steps_through_a_queue_come_to_an_end)
{
    static const struct {
        int64_t counted;
        int64_t removed;
        struct rqli_outcome steps[4];
        bool goes_on[4];
        bool dry_run;
    } table[] = {
        {400, 143, {{0, 100, 0}, {40, 160, 0}, {100, 160, 0}, {3, -1, 1}}, {1, 1, 1, 0}, false},
        {400, 143, {{0, 100, 0}, {40, 200, 0}, {100, 300, 0}, {3, -1, 1}}, {1, 1, 1, 0}, true},
        /* all seen */
        {300, 140, {{0, 100, 0}, {40, 160, 0}, {100, 160, 0}, {0, 260, 1}}, {1, 1, 1, 0}, false},
        /* no step forward: no server does so */
        {300, 1, {{1, 99, 0}, {0, 99, 1}}, {1, 0}, false},
        {300, 41, {{1, 50, 0}, {40, 9, 1}}, {1, 0}, false},
    };

    EACH (row, table) {
        const rql_sweep_options options = {.dry_run = row->dry_run};
        const struct rqli_reply seen = tree_int(row->counted);
        struct rqli_sweep sweep = {.options = options};
        struct rqli_sweep_target target = {.seen = &seen};
        size_t step = 0;

        while (rqli_rule_count(&rqli_rule_dead_requests, &sweep, &target, &row->steps[step])) {
            assert_true(row->goes_on[step]);
            assert_true(target.from == row->steps[step].second);
            step++;
        }
        CHECK_ALL(EQ(row->goes_on[step], false), EQ(sweep.result.rem_request_cnt, row->removed),
                  EQ(sweep.result.tch_queue_cnt, 1), EQ(target.served, 1));
    }
}
