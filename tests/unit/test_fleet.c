#include "check.h"

#include "base/pause.h"
#include "net/fleet/fleet.h"
#include "observe/observe.h"

#include "reply_tree.h"

/* Which server has which partition, and what becomes of calls whose keys are elsewhere. */

static const struct rqli_url url = {.arrangement = RQLI_CLUSTER};
static const struct rqli_session session = {.url = &url};

static void init_fleet(struct rqli_fleet *fleet)
{
    assert_true(rqli_fleet_init(fleet, 1));
    fleet->first.site.session = &session;
}

static bool carries(const struct rqli_node *node)
{
    return rqli_site_carries(&node->site, 5);
}

/* Whoever is asked first of all has none that nobody has named it for. */
TEST(a_node_carries_what_it_is_given_until_another_is)
{
    static const struct {
        const char *name;
        bool is_other;
    } rows[] = {{"the first", false}, {"another", true}, {"the same again", true}};
    const struct rqli_address address = {.host = "127.0.0.1", .port = 7001};
    static struct rqli_fleet fleet;
    struct rqli_node *other;

    init_fleet(&fleet);
    other = rqli_fleet_at(&fleet, &address);
    assert_non_null(other);
    CHECK_ALL(EQ(carries(&fleet.first), false), EQ(carries(other), false));
    EACH_ROW (row, rows) {
        rqli_fleet_give(&fleet, 5, row->is_other ? other : &fleet.first);
        CHECK_ALL(EQ(carries(&fleet.first), !row->is_other), EQ(carries(other), row->is_other));
    }
    assert_ptr_equal(rqli_fleet_node(&fleet, &rqli_key_sets[5]), other);
    rqli_fleet_fini(&fleet);
}

static int n_told;

static void on_line(const rql_log_record *record, void *data)
{
    n_told++;
    assert_string_equal(record->name, "too_many_nodes");
    assert_string_equal(record->fields[0].text, data);
}

/* They stay known for good. One is told of; those that are known are found all the same. */
TEST(a_client_follows_to_so_many_addresses)
{
    char stranger[] = "10.0.0.1:4096";
    struct rqli_subject subject = {.logger = on_line, .logger_data = stranger};
    const struct rqli_session reporting = {.url = &url, .subject = &subject};
    struct rqli_address address = {.host = "10.0.0.1"};
    static struct rqli_fleet fleet;

    init_fleet(&fleet);
    fleet.first.site.session = &reporting;
    for (address.port = 1; address.port < RQLI_NODES_MAX; address.port++) {
        assert_non_null(rqli_fleet_at(&fleet, &address));
    }
    for (; address.port < RQLI_NODES_MAX + 2; address.port++) {
        assert_null(rqli_fleet_at(&fleet, &address));
    }
    assert_int_equal(n_told, !RQLI_LIGHT);
    address.port = RQLI_NODES_MAX - 1;
    assert_non_null(rqli_fleet_at(&fleet, &address));
    rqli_fleet_fini(&fleet);
}

/* Where a node is told before it is asked, which another does. */
TEST(who_is_to_be_told_first_is_not_asked_yet)
{
    static struct rqli_fleet fleet;
    struct rqli_worker map_reader = {0};
    struct rqli_reply reply = tree_error("MOVED 5 127.0.0.1:7001");
    struct rqli_retries retries = {.until_us = rqli_after_ms(rqli_now_us(), 60000)};

    init_fleet(&fleet);
    fleet.map_reader = &map_reader;
    fleet.tells_first = true;
    assert_int_equal(rqli_call_verdict(&fleet, &fleet.first, &rqli_key_sets[5], &reply, &retries),
                     RQLI_LATER);
    CHECK_ALL(EQ(retries.again_us > 0, true), EQ(retries.n_moved, 0));
    assert_ptr_equal(rqli_fleet_node(&fleet, &rqli_key_sets[5]), &fleet.first);
    assert_ptr_equal(atomic_load(&fleet.named), fleet.shared.last);
    rqli_fleet_fini(&fleet);
}

TEST(a_pause_is_doubled_from_the_first_to_the_most)
{
    CHECK_ALL(EQ(rqli_pause_us(RQLI_PAUSE_REDIRECT, 0), 5000),
              EQ(rqli_pause_us(RQLI_PAUSE_REDIRECT, 2), 20000),
              EQ(rqli_pause_us(RQLI_PAUSE_REDIRECT, 5), 100000),
              EQ(rqli_pause_us(RQLI_PAUSE_REDIRECT, UINT8_MAX), 100000),
              EQ(rqli_pause_us(RQLI_PAUSE_CALL, 1), 20000));
}

/* A caller that goes by again_us alone would go on for ever if it held a pause that is not to be.
 */
TEST(what_has_done_nothing_is_asked_again_while_there_is_time)
{
    static const struct {
        const char *reply;
        int64_t within_ms; /* that there are left */
        uint8_t n_before;  /* retries so far */
        enum rqli_verdict verdict;
    } rows[] = {
        {"NOSCRIPT No matching script.", 0, 0, RQLI_HERE},
        {"NOSCRIPT No matching script.", 0, 15, RQLI_HERE},
        {"NOSCRIPT No matching script.", 60000, 16, RQLI_FAULT},
        {"MOVED 5 127.0.0.1:7001", 0, 0, RQLI_THERE},
        {"MOVED 5 127.0.0.1:7001", 0, 4, RQLI_THERE},
        {"MOVED 5 127.0.0.1:7001", 60000, 5, RQLI_FAULT},
        {"TRYAGAIN", 60000, 0, RQLI_LATER},
        {"TRYAGAIN", 0, 0, RQLI_FAULT},
        {"ASK 5 127.0.0.1:7001", 60000, 0, RQLI_LATER},
        {"CLUSTERDOWN Hash slot not served", 60000, 0, RQLI_LATER},
        {"CLUSTERDOWN Hash slot not served", 0, 0, RQLI_FAULT},
        {"ERR what", 60000, 0, RQLI_FAULT},
    };
    static struct rqli_fleet fleet;
    struct rqli_worker map_reader = {0};

    init_fleet(&fleet);
    fleet.map_reader = &map_reader;
    EACH_BY (row, rows, row->reply) {
        struct rqli_reply reply = tree_error(row->reply);
        bool is_later = row->verdict == RQLI_LATER;
        struct rqli_retries retries = {.until_us = rqli_after_ms(rqli_now_us(), row->within_ms),
                                       .again_us = 1,
                                       .n_flushed = row->n_before,
                                       .n_moved = row->n_before};
        enum rqli_verdict verdict =
            rqli_call_verdict(&fleet, &fleet.first, &rqli_key_sets[5], &reply, &retries);
        bool is_down = atomic_exchange(&fleet.first.down_us, 0) > 0;

        CHECK_ALL(EQ(verdict, row->verdict), EQ(retries.again_us > 0, is_later),
                  EQ(retries.n_pauses, is_later),
                  EQ(is_down, strncmp(row->reply, "CLUSTERDOWN", 11) == 0),
                  EQ(atomic_exchange(&fleet.silent_us, 0) > 0, is_down));
    }
    rqli_fleet_fini(&fleet);
}
