#include "check.h"

#include "admin/rules.h"
#include "lock/client.h"
#include "options/options.h"
#include "reply_tree.h"

#include <string.h>

#define ACQ "rql:acq:18466/600/620/640/aaaaaaaaaaaaaaa1"
#define HST "rql:hst:18466/600/640/aaaaaaaaaaaaaaa1"
#define NONCE "0123456789abcdef0123456789abcdef"

static const rql_sweep_owner owner = {.acq_id = ACQ, .hst_id = HST};
static struct rqli_list dead;

struct judged {
    const struct rqli_sweep_rule *rule;
    struct rqli_reply seen;
    enum rqli_sweep_verdict verdict;
};

static void check_judged(const struct judged *rows, size_t n)
{
    const struct rqli_sweep sweep = {.owner = &owner, .dead_hosts = &dead};

    for (size_t i = 0; i < n; i++) {
        print_message("# row %zu\n", i);
        assert_int_equal(rqli_rule_judge(rows[i].rule, &sweep, &rows[i].seen), rows[i].verdict);
    }
}

static void locks_are_judged_by_four_fields(void **state)
{
    const struct rqli_reply whole[] = {tree_text(ACQ), tree_text(HST), tree_text("1.5"),
                                       tree_nil()};
    const struct rqli_reply hosts[] = {tree_text(ACQ), tree_text(ACQ), tree_text("1.5"),
                                       tree_nil()};
    const struct rqli_reply longer[] = {tree_text(ACQ "1"), tree_text(HST), tree_nil(), tree_nil()};
    const struct rqli_reply gone[] = {tree_nil(), tree_nil(), tree_nil(), tree_nil()};
    const struct rqli_reply odd[] = {tree_text(ACQ), tree_text(HST), tree_int(1), tree_nil()};
    const struct judged rows[] = {
        {&rqli_rule_all_locks, tree_array(whole, 4), RQLI_SWEEP_REMOVE},
        {&rqli_rule_all_locks, tree_array(gone, 4), RQLI_SWEEP_REMOVE},
        {&rqli_rule_all_locks, tree_text(ACQ), RQLI_SWEEP_MALFORMED},
        {&rqli_rule_locks_of, tree_array(whole, 4), RQLI_SWEEP_REMOVE},
        {&rqli_rule_locks_of, tree_array(hosts, 4), RQLI_SWEEP_KEEP},
        {&rqli_rule_locks_of, tree_array(longer, 4), RQLI_SWEEP_KEEP},
        {&rqli_rule_locks_of, tree_array(gone, 4), RQLI_SWEEP_KEEP},
        {&rqli_rule_locks_of, tree_array(odd, 4), RQLI_SWEEP_MALFORMED},
        {&rqli_rule_locks_of, tree_array(whole, 3), RQLI_SWEEP_MALFORMED},
        {&rqli_rule_zombie_locks, tree_array(whole, 4), RQLI_SWEEP_REMOVE},
        {&rqli_rule_zombie_locks, tree_array(hosts, 4), RQLI_SWEEP_KEEP},
        {&rqli_rule_zombie_locks, tree_array(gone, 4), RQLI_SWEEP_KEEP},
    };

    (void)state;
    rqli_list_add(&dead, rqli_slice_of("a"), 0);
    rqli_list_add(&dead, rqli_slice_of(HST), 0);
    check_judged(rows, TREE_COUNT(rows));
    rqli_list_fini_p(&dead);
}

static void queues_are_judged_by_what_is_in_them(void **state)
{
    const struct judged rows[] = {
        {&rqli_rule_all_queues, tree_int(3), RQLI_SWEEP_REMOVE},
        {&rqli_rule_all_queues, tree_int(0), RQLI_SWEEP_KEEP},
        {&rqli_rule_all_queues, tree_nil(), RQLI_SWEEP_MALFORMED},
        {&rqli_rule_requests_of, tree_text("1.5"), RQLI_SWEEP_REMOVE},
        {&rqli_rule_requests_of, tree_nil(), RQLI_SWEEP_KEEP},
        {&rqli_rule_requests_of, tree_int(1), RQLI_SWEEP_MALFORMED},
        {&rqli_rule_dead_requests, tree_int(1), RQLI_SWEEP_REMOVE},
        {&rqli_rule_dead_requests, tree_int(0), RQLI_SWEEP_KEEP},
        {&rqli_rule_dead_requests, tree_text("1"), RQLI_SWEEP_MALFORMED},
        {&rqli_rule_dead_requests, tree_int(INT64_MAX), RQLI_SWEEP_MALFORMED},
        {&rqli_rule_zombie_requests, tree_int(1), RQLI_SWEEP_REMOVE},
        {&rqli_rule_zombie_requests, tree_int(0), RQLI_SWEEP_KEEP},
    };

    (void)state;
    check_judged(rows, TREE_COUNT(rows));
}

static void each_rule_inspects_with_one_command(void **state)
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

    (void)state;
    for (size_t i = 0; i < TREE_COUNT(rows); i++) {
        struct rqli_command command = {0};

        rqli_rule_inspect(rows[i].rule, &sweep, &command, rqli_slice_of("k"));
        rqli_command_slice(&command, (struct rqli_slice){"", 1});
        assert_int_equal(command.n_commands, 1);
        assert_memory_equal(command.data, rows[i].bytes, strlen(rows[i].bytes));
        assert_int_equal(command.length, strlen(rows[i].bytes) + sizeof "$1\r\n\0\r\n" - 1);
        rqli_command_fini(&command);
    }
}

/* The numbers of an answer, and the fields of the result that they count in. */
static void answers_count_in_the_fields_of_the_result(void **state)
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

    (void)state;
    for (size_t i = 0; i < TREE_COUNT(rows); i++) {
        bool is_lock = rows[i].rule->inspection == RQLI_INSPECT_GRANT;
        struct rqli_sweep sweep = {.options = options};
        struct rqli_sweep_target target = {.key = rqli_slice_of("k"),
                                           .seen = is_lock ? &grant : &counted};

        print_message("# row %zu\n", i);
        assert_false(rqli_rule_count(rows[i].rule, &sweep, &target, &rows[i].outcome));
        assert_int_equal(sweep.result.rel_key_cnt, rows[i].keys);
        assert_int_equal(sweep.result.tch_queue_cnt, rows[i].queues);
        assert_int_equal(sweep.result.rem_request_cnt, rows[i].requests);
        assert_int_equal(target.served, rows[i].served);
    }
}

/* What was not there is told as "", for the script to compare. */
static void a_grant_is_told_field_by_field(void **state)
{
    const struct rqli_reply fields[] = {tree_text(ACQ), tree_bytes("h\0st", 4), tree_nil(),
                                        tree_text(NONCE)};
    const struct rqli_reply seen = tree_array(fields, 4);
    const struct rqli_sweep_target target = {.seen = &seen};
    const struct rqli_sweep sweep = {0};
    struct rqli_call call;

    (void)state;
    rqli_rule_write(&rqli_rule_all_locks, &sweep, &target, &call);
    assert_int_equal(call.script, RQLI_SCRIPT_SWEEP_LOCK);
    assert_int_equal(call.n_args, 5);
    assert_int_equal(call.args[0].length, strlen(ACQ));
    assert_int_equal(call.args[1].length, 4);
    assert_memory_equal(call.args[1].data, "h\0st", 4);
    assert_int_equal(call.args[2].length, 0);
    assert_memory_equal(call.args[3].data, NONCE, 32);
}

static void ages_are_counted_from_the_servers_clock(void **state)
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

    (void)state;
    for (size_t i = 0; i < N_ROWS(rows); i++) {
        struct rqli_sweep_age age;

        say_row(rows[i].seconds);
        rqli_sweep_age_init(&age, rows[i].now_us, rows[i].ttl_ms);
        assert_true(age.oldest_us == rows[i].oldest_us);
        assert_string_equal(age.seconds, rows[i].seconds);
    }
}

/* Steps go on from where the last one ended, and a queue is touched once. */
static void steps_through_a_queue_come_to_an_end(void **state)
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

    (void)state;
    for (size_t i = 0; i < TREE_COUNT(table); i++) {
        const rql_sweep_options options = {.dry_run = table[i].dry_run};
        const struct rqli_reply seen = tree_int(table[i].counted);
        struct rqli_sweep sweep = {.options = options};
        struct rqli_sweep_target target = {.seen = &seen};
        size_t step = 0;

        print_message("# row %zu\n", i);
        while (rqli_rule_count(&rqli_rule_dead_requests, &sweep, &target, &table[i].steps[step])) {
            assert_true(table[i].goes_on[step]);
            assert_true(target.from == table[i].steps[step].second);
            step++;
        }
        assert_false(table[i].goes_on[step]);
        assert_int_equal(sweep.result.rem_request_cnt, table[i].removed);
        assert_int_equal(sweep.result.tch_queue_cnt, 1);
        assert_int_equal(target.served, 1);
    }
}

static void options_come_from_the_client(void **state)
{
    rql_options client;
    rql_sweep_options options;

    (void)state;
    rql_options_init(&client);
    CHECK_OK(rqli_options_read(RQLI_OF_SWEEP, &options, &client, NULL, NULL));
    assert_int_equal(options.size, sizeof options);
    assert_int_equal(options.batch_size, 100);
    assert_int_equal(options.lock_scan_size, 300);
    assert_int_equal(options.queue_scan_size, 300);
    assert_int_equal(options.dead_ttl_ms, 86400000);
    assert_false(options.dry_run);
    assert_null(options.on_progress);
    client.lock_release_batch_size = 7;
    client.clear_locks_of_lock_scan_size = 8;
    client.clear_locks_of_queue_scan_size = 9;
    client.dead_request_ttl_ms = 10;
    CHECK_OK(rqli_options_read(RQLI_OF_SWEEP, &options, &client, NULL, NULL));
    assert_int_equal(options.batch_size, 7);
    assert_int_equal(options.lock_scan_size, 8);
    assert_int_equal(options.queue_scan_size, 9);
    assert_int_equal(options.dead_ttl_ms, 10);
}

static void options_are_checked(void **state)
{
    static const struct {
        size_t offset;
        int64_t least;
        int64_t most;
    } numbers[] = {
        {offsetof(rql_sweep_options, batch_size), 1, 100000},
        {offsetof(rql_sweep_options, lock_scan_size), 1, 100000},
        {offsetof(rql_sweep_options, queue_scan_size), 1, 100000},
        {offsetof(rql_sweep_options, dead_ttl_ms), 0, INT64_C(315360000000)},
    };

    rql_options client;
    rql_sweep_options given;
    rql_sweep_options read;
    rql_error error;

    (void)state;
    rql_options_init(&client);
    for (size_t i = 0; i < TREE_COUNT(numbers); i++) {
        const int64_t bad[] = {numbers[i].least - 1, numbers[i].most + 1, INT64_MIN, INT64_MAX};
        int64_t *field = (int64_t *)(void *)((char *)&given + numbers[i].offset);

        for (size_t j = 0; j < TREE_COUNT(bad); j++) {
            rql_sweep_options_init(NULL, &given);
            *field = bad[j];
            assert_int_equal(rqli_options_read(RQLI_OF_SWEEP, &read, &client, &given, &error),
                             RQL_E_INVALID);
            assert_non_null(strstr(error.message, "must be"));
        }
        *field = numbers[i].least;
        CHECK_OK(rqli_options_read(RQLI_OF_SWEEP, &read, &client, &given, NULL));
        *field = numbers[i].most;
        CHECK_OK(rqli_options_read(RQLI_OF_SWEEP, &read, &client, &given, NULL));
    }
    memset((char *)&given + offsetof(rql_sweep_options, dry_run), 7, 1);
    assert_int_equal(rqli_options_read(RQLI_OF_SWEEP, &read, &client, &given, NULL), RQL_E_INVALID);
    memset(&given, 0, sizeof given);
    assert_int_equal(rqli_options_read(RQLI_OF_SWEEP, &read, &client, &given, NULL), RQL_E_INVALID);
}

/* A program that was built with fewer fields, and one with more. */
static void programs_of_other_ages_are_understood(void **state)
{
    struct {
        rql_sweep_options known;
        int64_t newer;
    } given;

    const size_t older = offsetof(rql_sweep_options, queue_scan_size);
    rql_options client;
    rql_sweep_options read;

    (void)state;
    rql_options_init(&client);
    memset(&given, 0xFF, sizeof given);
    rql_sweep_options_init_sized(NULL, &given.known, older);
    assert_int_equal(given.known.queue_scan_size, -1);
    given.known.batch_size = 5;
    CHECK_OK(rqli_options_read(RQLI_OF_SWEEP, &read, &client, &given.known, NULL));
    assert_int_equal(read.batch_size, 5);
    assert_int_equal(read.queue_scan_size, 300);
    rql_sweep_options_init_sized(NULL, &given.known, sizeof given);
    assert_int_equal(given.newer, 0);
    CHECK_OK(rqli_options_read(RQLI_OF_SWEEP, &read, &client, &given.known, NULL));
    given.newer = 1;
    assert_int_equal(rqli_options_read(RQLI_OF_SWEEP, &read, &client, &given.known, NULL),
                     RQL_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(locks_are_judged_by_four_fields),
        cmocka_unit_test(queues_are_judged_by_what_is_in_them),
        cmocka_unit_test(each_rule_inspects_with_one_command),
        cmocka_unit_test(answers_count_in_the_fields_of_the_result),
        cmocka_unit_test(a_grant_is_told_field_by_field),
        cmocka_unit_test(ages_are_counted_from_the_servers_clock),
        cmocka_unit_test(steps_through_a_queue_come_to_an_end),
        cmocka_unit_test(options_come_from_the_client),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(programs_of_other_ages_are_understood),
    };

    return cmocka_run_group_tests_name("rules", tests, NULL, NULL);
}
