#include "check.h"

#include "admin/diagnosis.h"
#include "base/random.h"
#include "reply_tree.h"

/* What a server says, and the verdict. */

enum { NOW_S = 1800000000, SECOND_US = 1000000, MS_US = 1000 };

static struct rqli_report *made;
static rql_report *report;

BEFORE_EACH(begin)
{
    made = rqli_report_new(NULL);
    report = NULL;
}

AFTER_EACH(end)
{
    (void)rqli_report_free(made);
    (void)rql_report_free(report);
}

static const rql_check *check_of(const char *id)
{
    static const rql_server_info server = {.size = sizeof server};

    if (!report) {
        assert_int_equal(rqli_report_give(&made, &server, 0, &report, NULL), RQL_OK);
    }
    for (size_t i = 0; i < report->count; i++) {
        if (strcmp(report->check[i]->id, id) == 0) {
            return report->check[i];
        }
    }
    fail_msg("no check %s", id);
    return NULL;
}

static void begin_again(void)
{
    end();
    begin();
}

/* As a server without faults has it; a row adds to it in front, for the first line of a name
 * counts.
 */
#define GOOD                                                                                       \
    "\nconnected_clients:1\r\nmaxclients:100\r\nused_memory:900\r\nmaxmemory:0\r\n"                \
    "maxmemory_policy:noeviction\r\nevicted_keys:0\r\naof_enabled:1\r\n"                           \
    "aof_last_write_status:ok\r\nrdb_last_bgsave_status:ok\r\nlatest_fork_usec:0\r\n"              \
    "number_of_cached_scripts:20\r\nconnected_slaves:0\r\n"

/* A server of this product, version and role, with so many replicas, of whom so many are demanded.
 */
static rql_server_info server_of(const char *product, const char *version, int replicas, int least)
{
    rql_server_info info = {.replicas = replicas, .min_replicas_to_write = least};

    (void)snprintf(info.product, sizeof info.product, "%s", product);
    (void)snprintf(info.version, sizeof info.version, "%s", version);
    (void)snprintf(info.role, sizeof info.role, "master");
    return info;
}

/* Judges a server by its replies to INFO, SLOWLOG GET and CONFIG GET. */
static void judge(const rql_server_info *server, struct rqli_reply info, struct rqli_reply slowlog,
                  struct rqli_reply config)
{
    const struct rqli_told told = {.server = server,
                                   .info = &info,
                                   .slowlog = &slowlog,
                                   .config = &config,
                                   .n_config = 1,
                                   .server_us = INT64_C(1) * NOW_S * SECOND_US};

    rqli_judge_server(made, &told);
}

static void judge_info(const rql_server_info *server, const char *info)
{
    judge(server, tree_text(info), tree_array(NULL, 0), TREE(tree_text(""), tree_text("")));
}

static void judge_slowlog(struct rqli_reply slowlog)
{
    const rql_server_info server = server_of("redis", "7.0.15", 0, 0);

    judge(&server, tree_text(GOOD), slowlog, tree_nil());
}

TEST(what_info_and_config_say_is_judged)
{
    static const struct {
        const char *name;
        const char *info;
        const char *option;
        const char *value;
        const char *id;
        rql_check_level level;
    } rows[] = {
        {"no policy", GOOD, "", "", "mem.policy", RQL_CHECK_OK},
        {"evicts, unlimited", "\nmaxmemory_policy:volatile-lru\r" GOOD, "", "", "mem.policy",
         RQL_CHECK_WARN},
        {"evicts", "\nmaxmemory:1000\r\nmaxmemory_policy:allkeys-lru\r" GOOD, "", "", "mem.policy",
         RQL_CHECK_FAIL},
        {"limited", "\nmaxmemory:1000\r" GOOD, "", "", "mem.policy", RQL_CHECK_OK},
        {"evicted, once", "\nevicted_keys:1\r" GOOD, "", "", "mem.evicted", RQL_CHECK_NOTE},
        {"evicted, and does", "\nevicted_keys:1\r\nmaxmemory_policy:allkeys-lru\r" GOOD, "", "",
         "mem.evicted", RQL_CHECK_FAIL},
        {"90 %", "\nmaxmemory:1000\r" GOOD, "", "", "mem.room", RQL_CHECK_OK},
        {"91 %", "\nused_memory:910\r\nmaxmemory:1000\r" GOOD, "", "", "mem.room", RQL_CHECK_WARN},
        {"always", GOOD, "appendfsync", "always", "dur.persist", RQL_CHECK_OK},
        {"everysec", GOOD, "appendfsync", "everysec", "dur.persist", RQL_CHECK_NOTE},
        {"nobody may ask how", GOOD, "", "", "dur.persist", RQL_CHECK_NOTE},
        {"snapshots", "\naof_enabled:0\r" GOOD, "save", "60 1", "dur.persist", RQL_CHECK_NOTE},
        {"cannot append", "\naof_last_write_status:err\r" GOOD, "", "", "dur.persist",
         RQL_CHECK_FAIL},
        {"cannot save", "\nrdb_last_bgsave_status:err\r" GOOD, "", "", "dur.persist",
         RQL_CHECK_FAIL},
        {"cannot save, goes on", "\nrdb_last_bgsave_status:err\r" GOOD,
         "stop-writes-on-bgsave-error", "no", "dur.persist", RQL_CHECK_NOTE},
        {"80 of 100", "\nconnected_clients:80\r" GOOD, "", "", "srv.busy", RQL_CHECK_OK},
        {"81 of 100", "\nconnected_clients:81\r" GOOD, "", "", "srv.busy", RQL_CHECK_WARN},
        {"81 of 100, told by CONFIG", "\nconnected_clients:81\r\nmaxclients:-\r" GOOD, "maxclients",
         "100", "srv.busy", RQL_CHECK_WARN},
        {"a fork", "\nlatest_fork_usec:100000\r" GOOD, "", "", "srv.busy", RQL_CHECK_OK},
        {"a long fork", "\nlatest_fork_usec:100001\r" GOOD, "", "", "srv.busy", RQL_CHECK_WARN},
        {"scripts", "\nnumber_of_cached_scripts:10000\r" GOOD, "", "", "use.scripts", RQL_CHECK_OK},
        {"too many scripts", "\nnumber_of_cached_scripts:10001\r" GOOD, "", "", "use.scripts",
         RQL_CHECK_WARN},
        {"no timeout", GOOD, "timeout", "0", "net.timeout", RQL_CHECK_OK},
        {"a minute", GOOD, "timeout", "60", "net.timeout", RQL_CHECK_OK},
        {"less", GOOD, "timeout", "59", "net.timeout", RQL_CHECK_WARN},
        {"nobody may ask for the timeout", GOOD, "", "", "net.timeout", RQL_CHECK_SKIP},
        {"nothing is said", "", "", "", "mem.policy", RQL_CHECK_SKIP},
    };

    const rql_server_info server = server_of("redis", "7.0.15", 0, 0);

    EACH_ROW (row, rows) {
        judge(&server, tree_text(row->info), tree_array(NULL, 0),
              TREE(tree_text(row->option), tree_text(row->value)));
        assert_int_equal(check_of(row->id)->level, row->level);
        begin_again();
    }
}

/* The user may not ask, or the server is none: a status, a number, nil, or another list. */
TEST(what_is_not_answered_as_it_should_be_is_skipped)
{
    static const char *const ids[] = {"mem.policy",  "mem.evicted", "mem.room",
                                      "dur.persist", "srv.busy",    "use.scripts",
                                      "net.timeout", "srv.slow",    "dur.replicas"};
    const struct rqli_reply rows[] = {
        tree_error("NOPERM x"),
        tree_status("OK"),
        tree_int(1),
        tree_nil(),
    };
    const rql_server_info server = server_of("redis", "7.0.15", -1, -1);

    EACH (row, rows) {
        judge(&server, *row, *row, *row);
        for (size_t i = 0; i < N_ROWS(ids); i++) {
            assert_int_equal(check_of(ids[i])->level, RQL_CHECK_SKIP);
            assert_null(check_of(ids[i])->why);
            assert_null(check_of(ids[i])->fix);
        }
        begin_again();
    }
}

TEST(servers_are_known_by_kind_and_version)
{
    static const struct {
        const char *product;
        const char *version;
        rql_check_level of_kind;
        rql_check_level of_version;
    } rows[] = {
        {"redis", "6.2.0", RQL_CHECK_OK, RQL_CHECK_OK},
        {"redis", "6.0.16", RQL_CHECK_OK, RQL_CHECK_FAIL},
        {"redis", "5.9.9", RQL_CHECK_OK, RQL_CHECK_FAIL},
        {"redis", "7.0.0", RQL_CHECK_OK, RQL_CHECK_OK},
        {"redis", "10.1", RQL_CHECK_OK, RQL_CHECK_OK},
        {"valkey", "8.1.1", RQL_CHECK_OK, RQL_CHECK_OK},
        {"other", "", RQL_CHECK_WARN, RQL_CHECK_OK},
    };

    EACH_BY (row, rows, row->version) {
        const rql_server_info server = server_of(row->product, row->version, 0, 0);

        judge_info(&server, GOOD);
        CHECK_ALL(EQ(check_of("srv.kind")->level, row->of_kind),
                  EQ(check_of("srv.version")->level, row->of_version));
        begin_again();
    }
}

#define REPLICAS                                                                                   \
    "\nslave0:ip=10.0.0.1,port=6379,state=online,offset=1,lag=1\r\n"                               \
    "slave1:ip=fd00::2,port=6380,state=online,offset=1,lag="

TEST(replicas_are_read_and_judged)
{
    static const struct {
        const char *name;
        const char *info;
        int replicas;
        int least;
        bool by_sentinels;
        rql_check_level level;
    } rows[] = {
        {"none", GOOD, 0, 0, false, RQL_CHECK_OK},
        {"none demanded", GOOD, 1, 0, false, RQL_CHECK_WARN},
        {"one demanded", GOOD, 1, 1, false, RQL_CHECK_OK},
        {"nobody may ask", GOOD, 1, -1, false, RQL_CHECK_SKIP},
        {"a failover that may come", GOOD, 0, 0, true, RQL_CHECK_WARN},
        {"near", REPLICAS "1\r\n" GOOD, 2, 1, false, RQL_CHECK_OK},
        {"far", REPLICAS "2\r\n" GOOD, 2, 1, false, RQL_CHECK_WARN},
    };
    const struct rqli_reply info = tree_text(REPLICAS "7\r\n" GOOD);
    struct rqli_address at;
    int64_t lag_s = 0;

    EACH_ROW (row, rows) {
        rql_server_info server = server_of("redis", "7.0.15", row->replicas, row->least);

        server.is_by_sentinels = row->by_sentinels;
        judge_info(&server, row->info);
        assert_int_equal(check_of("dur.replicas")->level, row->level);
        begin_again();
    }
    assert_true(rqli_read_replica(&info, 1, &at, &lag_s));
    assert_string_equal(at.host, "fd00::2");
    CHECK_ALL(EQ(at.port, 6380), EQ(lag_s, 7), EQ(rqli_read_replica(&info, 2, &at, &lag_s), false));
}

/* Number, seconds, microseconds, words. */
#define SLOW(age_s, took_us)                                                                       \
    TREE(tree_int(1), tree_int(NOW_S - (age_s)), tree_int(took_us), TREE(tree_text("KEYS")))

TEST(slow_commands_of_the_last_day_count)
{
    const rql_check *check;

    judge_slowlog(
        TREE(SLOW(1, 10000), SLOW(86300, 25000), SLOW(1, 9999), SLOW(86500, 99000), tree_int(1)));
    check = check_of("srv.slow");
    CHECK_ALL(EQ(check->level, RQL_CHECK_WARN), EQ(check->found[0].number, 2),
              EQ(check->found[1].number, 25000));
    assert_non_null(strstr(check->title, "25 ms (KEYS)"));
}

TEST(entries_of_another_shape_are_no_slow_commands)
{
    const struct rqli_reply head[] = {tree_int(1), tree_int(NOW_S), tree_int(20000)};
    const struct rqli_reply rows[] = {
        tree_nil(),
        TREE(head[0], head[1], head[2]),
        TREE(head[0], head[1], head[2], tree_text("KEYS")),
        TREE(head[0], head[1], head[2], tree_array(NULL, 0)),
        TREE(head[0], head[1], head[2], TREE(tree_nil())),
        TREE(head[0], head[1], head[2], TREE(tree_int(7))),
        TREE(head[0], head[1], tree_text("20000"), TREE(tree_text("KEYS"))),
    };

    judge_slowlog(tree_array(rows, N_ROWS(rows)));
    assert_int_equal(check_of("srv.slow")->level, RQL_CHECK_OK);
}

/* Ours is ahead by `ahead`, its clock went `more` further in a second, and each reading took
 * `trip`.
 */
TEST(clocks_are_judged_within_what_is_known)
{
    static const struct {
        const char *name;
        int64_t ahead_us;
        int64_t more_us;
        int64_t trip_us;
        rql_check_level skew;
        rql_check_level skew_with_ruby;
        rql_check_level rate;
    } rows[] = {
        {"alike", 0, 0, 0, RQL_CHECK_OK, RQL_CHECK_OK, RQL_CHECK_OK},
        {"a second", SECOND_US, 0, 0, RQL_CHECK_OK, RQL_CHECK_OK, RQL_CHECK_OK},
        {"more", SECOND_US + 1, 0, 0, RQL_CHECK_NOTE, RQL_CHECK_WARN, RQL_CHECK_OK},
        {"behind", -SECOND_US - 1, 0, 0, RQL_CHECK_NOTE, RQL_CHECK_WARN, RQL_CHECK_OK},
        {"perhaps", SECOND_US + 50 * MS_US, 0, 100 * MS_US, RQL_CHECK_OK, RQL_CHECK_OK,
         RQL_CHECK_OK},
        {"surely", SECOND_US + 50 * MS_US + 1, 0, 100 * MS_US, RQL_CHECK_NOTE, RQL_CHECK_WARN,
         RQL_CHECK_OK},
        {"0.1 %", 0, MS_US, 0, RQL_CHECK_OK, RQL_CHECK_OK, RQL_CHECK_OK},
        {"more than 0.1 %", 0, MS_US + 1, 0, RQL_CHECK_OK, RQL_CHECK_OK, RQL_CHECK_WARN},
        {"less far", 0, -MS_US - 1, 0, RQL_CHECK_OK, RQL_CHECK_OK, RQL_CHECK_WARN},
        {"perhaps more", 0, 21 * MS_US, 10 * MS_US, RQL_CHECK_OK, RQL_CHECK_OK, RQL_CHECK_OK},
        {"surely more", 0, 21 * MS_US + 1, 10 * MS_US, RQL_CHECK_OK, RQL_CHECK_OK, RQL_CHECK_WARN},
    };

    const int64_t start_us = INT64_C(1) * NOW_S * SECOND_US;

    EACH_ROW (row, rows) {
        const struct rqli_two_clocks first = {
            .sent_us = 0, .received_us = row->trip_us, .server_us = start_us};
        const struct rqli_two_clocks now = {
            .sent_us = SECOND_US,
            .received_us = SECOND_US + row->trip_us,
            .server_us = start_us + SECOND_US + row->more_us,
            .wall_us = start_us + SECOND_US + row->more_us + row->ahead_us - row->trip_us / 2,
        };

        rqli_judge_clocks(made, &first, &now, false);
        CHECK_ALL(EQ(check_of("clk.skew")->level, row->skew),
                  EQ(check_of("clk.rate")->level, row->rate));
        begin_again();
        rqli_judge_clocks(made, &first, &now, true);
        assert_int_equal(check_of("clk.skew")->level, row->skew_with_ruby);
        begin_again();
    }
}

/* Dead is who is silent for 15 s; flushed by 10 s later, and 5 s are given on top. A second host
 * lives. -1: not known whether the dead hold something. */
TEST(hosts_are_judged_by_how_long_they_are_dead_and_what_they_hold)
{
    static const struct {
        int64_t silent_us;
        int64_t n_held;
        bool is_zombie;
        bool lacks_flusher;
        rql_check_level alive;
        rql_check_level clock;
    } rows[] = {
        {SECOND_US, -1, false, false, RQL_CHECK_OK, RQL_CHECK_OK},
        {30 * SECOND_US, -1, true, false, RQL_CHECK_OK, RQL_CHECK_OK},
        {30 * SECOND_US + 1, -1, true, false, RQL_CHECK_FAIL, RQL_CHECK_OK},
        {30 * SECOND_US + 1, 1, true, false, RQL_CHECK_FAIL, RQL_CHECK_OK},
        {30 * SECOND_US + 1, 0, true, false, RQL_CHECK_NOTE, RQL_CHECK_OK},
        {SECOND_US, -1, false, true, RQL_CHECK_NOTE, RQL_CHECK_OK},
        {30 * SECOND_US + 1, 1, true, true, RQL_CHECK_FAIL, RQL_CHECK_OK},
        {-SECOND_US, -1, false, false, RQL_CHECK_OK, RQL_CHECK_OK},
        {-SECOND_US - 1, -1, false, false, RQL_CHECK_OK, RQL_CHECK_WARN},
    };

    const int64_t now_us = INT64_C(1) * NOW_S * SECOND_US;
    const rql_host_info_list no_hosts = {0, NULL};
    const struct rqli_swarm_sight nobody = {&no_hosts, SECOND_US, -1, true};
    rql_options options;

    rql_options_init(&options);
    rqli_judge_swarm(made, &options, &nobody); /* without a living host there need be no flusher */
    assert_int_equal(check_of("swarm.alive")->level, RQL_CHECK_OK);
    begin_again();
    EACH (row, rows) {
        rql_host_info each[] = {{"h", row->is_zombie, now_us - row->silent_us},
                                {"alive", false, now_us}};
        rql_host_info *item[] = {&each[0], &each[1]};
        const rql_host_info_list hosts = {2, item};
        const struct rqli_swarm_sight seen = {&hosts, now_us, row->n_held, row->lacks_flusher};

        rqli_judge_swarm(made, &options, &seen);
        CHECK_ALL(EQ(check_of("swarm.alive")->level, row->alive),
                  EQ(check_of("swarm.clock")->level, row->clock));
        begin_again();
    }
}

/* Of each: which machine, process, ttl and probes; 0: no swarm's. */
TEST(swarms_that_differ_are_named)
{
    static const struct {
        const char *what;
        const char *title;
        rql_check_level level;
        rql_client_info of[4];
    } rows[] = {
        {"none", "no swarm tells its settings", RQL_CHECK_OK, {{.host = "a", .zombie_ttl_ms = -1}}},
        {"one of two connections",
         "all of 1 swarms use a zombie_ttl of 15000 ms",
         RQL_CHECK_OK,
         {{.host = "a", .pid = 1, .zombie_ttl_ms = 15000, .probe_period_ms = 5000},
          {.host = "a", .pid = 1, .zombie_ttl_ms = 15000, .probe_period_ms = 5000}}},
        {"the most are right",
         "2 of 3 swarms use a zombie_ttl of 60000 ms, the others another one: c",
         RQL_CHECK_WARN,
         {{.host = "c", .pid = 1, .zombie_ttl_ms = 15000},
          {.host = "a", .pid = 1, .zombie_ttl_ms = 60000},
          {.host = "b", .pid = 1, .zombie_ttl_ms = 60000}}},
        {"of as many the shorter",
         "1 of 2 swarms use a zombie_ttl of 15000 ms, the others another one: a",
         RQL_CHECK_WARN,
         {{.host = "a", .pid = 1, .zombie_ttl_ms = 60000},
          {.host = "a", .pid = 2, .zombie_ttl_ms = 15000}}},
        {"slow probes",
         "a swarm on a probes every 5001 ms, with a zombie_ttl of 15000",
         RQL_CHECK_WARN,
         {{.host = "a", .zombie_ttl_ms = 15000, .probe_period_ms = 5001}}},
    };

    EACH_BY (row, rows, row->what) {
        rql_client_info each[4];
        rql_client_info *item[4];
        rql_client_info_list clients = {0, item};

        memcpy(each, row->of, sizeof each);
        while (clients.count < 4 && each[clients.count].host) {
            item[clients.count] = &each[clients.count];
            clients.count++;
        }
        rqli_judge_swarm_settings(made, &clients);
        assert_string_equal(check_of("swarm.config")->title, row->title);
        assert_int_equal(check_of("swarm.config")->level, row->level);
        begin_again();
    }
}

TEST(rubys_ids_are_known_by_their_end)
{
    static const struct {
        const char *id;
        bool is_of_ruby;
    } rows[] = {
        {"rql:acq:1/2/3/4/0123456789abcdef", true},
        {"rql:acq:1/2/3/4/0123456789abcdef0123456789abcdef", false},
        {"0123456789abcdef", false},
        {"", false},
    };

    EACH_BY (row, rows, row->id) {
        assert_int_equal(rqli_is_of_ruby(rqli_slice_of(row->id)), row->is_of_ruby);
    }
}

TEST(a_report_counts_its_checks_and_keeps_reasons_of_what_is_amiss)
{
    rqli_report_add(made, "a.x", RQL_CHECK_OK, "fine");
    rqli_report_say(made, "why", "fix");
    rqli_report_add(made, "a.y", RQL_CHECK_NOTE, "%d", 7);
    rqli_report_say(made, "why", "fix %d", 8);
    for (int i = 0; i < 2 * RQLI_REPORT_FOUND; i++) {
        rqli_report_number(made, "n", i);
    }
    for (int i = 0; i < 100; i++) {
        rqli_report_add(made, "b.z", i % 2 == 0 ? RQL_CHECK_FAIL : RQL_CHECK_WARN, "%d", i);
    }
    rqli_report_add(made, "b.s", RQL_CHECK_SKIP, "not seen");
    assert_null(check_of("a.x")->why);
    assert_string_equal(check_of("a.y")->title, "7");
    assert_string_equal(check_of("a.y")->fix, "fix 8");
    assert_string_equal(check_of("a.y")->group, "a");
    CHECK_ALL(EQ(check_of("a.y")->n_found, RQLI_REPORT_FOUND), EQ(report->count, 103),
              EQ(report->n_notes, 1), EQ(report->n_warnings, 50), EQ(report->n_failures, 50),
              EQ(report->n_skipped, 1));
}

TEST(a_report_has_the_groups_that_are_wanted)
{
    (void)rqli_report_free(made);
    made = rqli_report_new("mem dur");
    assert_true(rqli_report_wants(made, "use dur"));
    assert_false(rqli_report_wants(made, "memory du"));
    rqli_report_add(made, "mem.x", RQL_CHECK_NOTE, "seen");
    rqli_report_add(made, "me.x", RQL_CHECK_FAIL, "not wanted");
    rqli_report_number(made, "n", 1);
    rqli_report_say(made, "why", "fix");
    assert_int_equal(check_of("mem.x")->n_found, 0);
    assert_null(report->check[0]->why);
    CHECK_ALL(EQ(report->count, 1), EQ(report->n_notes, 1), EQ(report->n_failures, 0));
}
