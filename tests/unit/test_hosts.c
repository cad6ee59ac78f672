#include "check.h"

#include "lock/hosts.h"

/* Which threads of a client the server is told of, and where. No thread, no clock. */

enum { ZOMBIE_TTL_MS = 15000 };

static bool all_live(uint64_t thread)
{
    (void)thread;
    return true;
}

static bool even_live(uint64_t thread)
{
    return thread % 2 == 0;
}

static const struct rqli_key_set *const whole = &rqli_key_sets[RQLI_WHOLE];

/* What a plan says of one set of keys. */
struct told {
    const struct rqli_key_set *set;
    size_t n_new;
    size_t n_known;
    size_t n_leaving;
};

/* Groups come in the order of their sets; `told` ends with one that has none. */
static void expect_groups(const struct rqli_hosts_plan *plan, const struct told *told)
{
    size_t g = 0;

    for (; told[g].set && g < plan->n_groups; g++) {
        const struct rqli_hosts_group *group = &plan->groups[g];

        CHECK_ALL(EQ(group->set - rqli_key_sets, told[g].set - rqli_key_sets),
                  EQ(group->n_new, told[g].n_new), EQ(group->n_known, told[g].n_known),
                  EQ(group->n_leaving, told[g].n_leaving));
    }
    assert_int_equal(g, plan->n_groups);
    assert_null(told[g].set);
}

static void apply(struct rqli_hosts *hosts, struct rqli_hosts_plan *plan)
{
    for (size_t g = 0; g < plan->n_groups; g++) {
        rqli_hosts_apply(hosts, plan, &plan->groups[g]);
    }
    rqli_hosts_plan_fini_p(plan);
}

static void expect_plan(struct rqli_hosts *hosts, enum rqli_hosts_who who, bool (*lives)(uint64_t),
                        const struct told *told)
{
    struct rqli_hosts_plan plan;

    assert_true(rqli_hosts_plan(hosts, who, lives, &plan));
    expect_groups(&plan, told);
    apply(hosts, &plan);
}

TEST(hosts_come_and_go)
{
    struct rqli_hosts *hosts = rqli_hosts_new();

    assert_false(rqli_hosts_meet(hosts, whole, 1));
    expect_plan(hosts, RQLI_HOSTS_ALL, all_live, (struct told[]){{NULL}});
    rqli_hosts_open(hosts, ZOMBIE_TTL_MS, NULL, NULL);
    for (uint64_t thread = 40; thread > 0; thread--) {
        assert_false(rqli_hosts_meet(hosts, whole, thread)); /* no handles are counted */
        assert_false(rqli_hosts_meet(hosts, whole, thread));
    }
    expect_plan(hosts, RQLI_HOSTS_NEW, even_live, (struct told[]){{whole, 20, 0, 0}, {NULL}});
    assert_int_equal(rqli_hosts_known(hosts), 20);
    rqli_hosts_meet(hosts, whole, 3);
    expect_plan(hosts, RQLI_HOSTS_NEW, all_live, (struct told[]){{whole, 1, 0, 0}, {NULL}});
    expect_plan(hosts, RQLI_HOSTS_ALL, even_live, (struct told[]){{whole, 0, 20, 1}, {NULL}});
    rqli_hosts_add(hosts, whole, 7, true);
    expect_plan(hosts, RQLI_HOSTS_ALL, even_live, (struct told[]){{whole, 1, 20, 0}, {NULL}});
    rqli_hosts_add(hosts, whole, 7, true);
    expect_plan(hosts, RQLI_HOSTS_HOLDERS, all_live, (struct told[]){{whole, 0, 1, 20}, {NULL}});
    assert_true(rqli_hosts_are_told(hosts, whole));
    expect_plan(hosts, RQLI_HOSTS_NONE, all_live, (struct told[]){{whole, 0, 0, 1}, {NULL}});
    assert_false(rqli_hosts_are_told(hosts, whole));
    expect_plan(hosts, RQLI_HOSTS_ALL, all_live, (struct told[]){{NULL}});
    rqli_hosts_free(hosts);
}

/* What happens to thread 5 and its lock in partition p. */
enum event { MEETS, LETS_GO, HOLDS, TELLS, PLANS, PLANS_NEW, PLANS_HOLDERS };

static const struct stay {
    const char *name;
    enum event events[4];
    size_t n_events;
    size_t n_new, n_known, n_leaving; /* of the next plan for all */
} stays_in_partitions[] = {
    {"who asks is told", {MEETS}, 1, 1, 0, 0},
    {"who was told is known", {MEETS, PLANS}, 2, 0, 1, 0},
    {"who has ended in between was never there", {MEETS, LETS_GO}, 2, 0, 0, 0},
    {"who has ended leaves", {MEETS, PLANS, LETS_GO}, 3, 0, 0, 1},
    {"who asks for two stays", {MEETS, MEETS, PLANS, LETS_GO}, 4, 0, 1, 0},
    {"who introduces itself is known", {MEETS, TELLS}, 2, 0, 1, 0},
    {"who introduced itself and has ended leaves", {MEETS, TELLS, LETS_GO}, 3, 0, 0, 1},
    {"who holds is told", {HOLDS}, 1, 1, 0, 0},
    {"a holder that was told leaves", {HOLDS, PLANS}, 2, 0, 0, 1},
    {"who has left is forgotten", {MEETS, PLANS, LETS_GO, PLANS}, 4, 0, 0, 0},
    {"who is told between heartbeats is known", {MEETS, PLANS_NEW}, 2, 0, 1, 0},
    {"who only asks leaves when a swarm stops", {MEETS, PLANS, PLANS_HOLDERS}, 3, 0, 0, 0},
    {"who holds stays when a swarm stops", {MEETS, PLANS, HOLDS, PLANS_HOLDERS}, 4, 0, 1, 0},
};

static void take_event(struct rqli_hosts *hosts, const struct rqli_key_set *set, enum event event)
{
    struct rqli_hosts_plan plan;

    switch (event) {
    case MEETS:
        assert_true(rqli_hosts_meet(hosts, set, 5));
        break;
    case LETS_GO:
        rqli_hosts_let_go(hosts, set, 5);
        break;
    case HOLDS:
        rqli_hosts_add(hosts, set, 5, true);
        break;
    case TELLS:
        assert_true(rqli_hosts_must_tell(hosts, set, 5, ZOMBIE_TTL_MS + 1));
        rqli_hosts_on_told(hosts, set, 5);
        assert_false(rqli_hosts_must_tell(hosts, set, 5, ZOMBIE_TTL_MS + 1));
        break;
    case PLANS:
    case PLANS_NEW:
    case PLANS_HOLDERS:
        assert_true(rqli_hosts_plan(hosts,
                                    event == PLANS       ? RQLI_HOSTS_ALL
                                    : event == PLANS_NEW ? RQLI_HOSTS_NEW
                                                         : RQLI_HOSTS_HOLDERS,
                                    all_live, &plan));
        apply(hosts, &plan);
        break;
    }
}

TEST(a_thread_is_a_host_where_it_asks_or_holds)
{
    const struct rqli_key_set *set = &rqli_key_sets[77];

    EACH_ROW (row, stays_in_partitions) {
        struct rqli_hosts *hosts = rqli_hosts_new();
        bool is_there = row->n_new + row->n_known + row->n_leaving > 0;

        rqli_hosts_open(hosts, ZOMBIE_TTL_MS, NULL, NULL);
        for (size_t i = 0; i < row->n_events; i++) {
            take_event(hosts, set, row->events[i]);
        }
        expect_plan(hosts, RQLI_HOSTS_ALL, all_live,
                    (struct told[]){
                        {is_there ? set : NULL, row->n_new, row->n_known, row->n_leaving}, {NULL}});
        rqli_hosts_free(hosts);
    }
}

TEST(partitions_are_told_of_their_own_hosts)
{
    const struct rqli_key_set *first = &rqli_key_sets[0];
    const struct rqli_key_set *last = &rqli_key_sets[RQLI_PARTITIONS - 1];
    struct rqli_hosts *hosts = rqli_hosts_new();
    struct rqli_hosts_plan plan;

    rqli_hosts_open(hosts, ZOMBIE_TTL_MS, NULL, NULL);
    rqli_hosts_meet(hosts, last, 2);
    rqli_hosts_meet(hosts, first, 2);
    rqli_hosts_meet(hosts, first, 4);
    rqli_hosts_meet(hosts, last, 3); /* has ended */
    assert_true(rqli_hosts_plan(hosts, RQLI_HOSTS_ALL, even_live, &plan));
    expect_groups(&plan, (struct told[]){{first, 2, 0, 0}, {last, 1, 0, 0}, {NULL}});
    rqli_hosts_apply(hosts, &plan, &plan.groups[1]); /* the other one has not answered */
    rqli_hosts_plan_fini_p(&plan);
    assert_int_equal(rqli_hosts_known(hosts), 1);
    assert_true(rqli_hosts_are_told(hosts, first)); /* perhaps */
    assert_false(rqli_hosts_are_told(hosts, &rqli_key_sets[1]));
    expect_plan(hosts, RQLI_HOSTS_NEW, even_live, (struct told[]){{first, 2, 0, 0}, {NULL}});
    assert_int_equal(rqli_hosts_known(hosts), 2); /* one of them in both */
    rqli_hosts_let_go(hosts, first, 2);
    rqli_hosts_let_go(hosts, first, 4);
    expect_plan(hosts, RQLI_HOSTS_ALL, even_live,
                (struct told[]){{first, 0, 0, 2}, {last, 0, 1, 0}, {NULL}});
    assert_false(rqli_hosts_are_told(hosts, first));
    rqli_hosts_free(hosts);
}

/* Between heartbeats only who is new is told: of the others that says nothing. Where an answer was
 * lost the server may have had the host, and given it up. */
TEST(a_plan_for_the_new_says_whether_it_has_all_and_who_was_told_before)
{
    static const struct {
        const char *name;
        uint64_t thread;
        bool is_answered;
        bool tells_all;
        size_t n_retried;
    } rows[] = {
        {"the first is all there are", 1, true, true, 0},
        {"the second is told alone", 2, false, false, 0},
        {"the second had no answer", 2, false, false, 1},
    };
    const struct rqli_key_set *set = &rqli_key_sets[0];
    struct rqli_hosts *hosts = rqli_hosts_new();
    struct rqli_hosts_plan plan;

    rqli_hosts_open(hosts, ZOMBIE_TTL_MS, NULL, NULL);
    EACH_ROW (row, rows) {
        rqli_hosts_meet(hosts, set, row->thread);
        assert_true(rqli_hosts_plan(hosts, RQLI_HOSTS_NEW, all_live, &plan));
        CHECK_ALL(EQ(plan.groups[0].n_new, 1), EQ(plan.groups[0].n_retried, row->n_retried),
                  EQ(plan.groups[0].tells_all, row->tells_all));
        if (row->is_answered) {
            apply(hosts, &plan);
        } else {
            rqli_hosts_plan_fini_p(&plan);
        }
    }
    rqli_hosts_free(hosts);
}

static const struct request {
    const char *name;
    size_t set;
    int64_t ttl_ms;
    bool is_open;
    bool must_tell;
} requests[] = {
    {"it ends before anybody could be found dead", 3, ZOMBIE_TTL_MS, true, false},
    {"it lives longer", 3, ZOMBIE_TTL_MS + 1, true, true},
    {"it lives longer, and no swarm runs", 3, ZOMBIE_TTL_MS + 1, false, false},
    {"it lives longer, and there is one server", RQLI_WHOLE, ZOMBIE_TTL_MS + 1, true, false},
};

TEST(who_asks_for_a_long_time_is_introduced)
{
    EACH_ROW (row, requests) {
        struct rqli_hosts *hosts = rqli_hosts_new();

        rqli_hosts_open(hosts, ZOMBIE_TTL_MS, NULL, NULL);
        rqli_hosts_meet(hosts, &rqli_key_sets[row->set], 5);
        if (!row->is_open) {
            rqli_hosts_close(hosts);
        }
        assert_int_equal(rqli_hosts_must_tell(hosts, &rqli_key_sets[row->set], 5, row->ttl_ms),
                         row->must_tell);
        rqli_hosts_free(hosts);
    }
}

static void count_call(void *data)
{
    (*(int *)data)++;
}

/* The number of a thread that has ended may be that of a new one, met while the old one leaves. */
TEST(host_that_is_met_while_it_leaves_comes_back)
{
    struct rqli_hosts *hosts = rqli_hosts_new();
    struct rqli_hosts_plan plan;
    int calls = 0;

    rqli_hosts_open(hosts, ZOMBIE_TTL_MS, count_call, &calls);
    rqli_hosts_meet(hosts, whole, 5);
    expect_plan(hosts, RQLI_HOSTS_ALL, all_live, (struct told[]){{whole, 1, 0, 0}, {NULL}});
    assert_true(rqli_hosts_plan(hosts, RQLI_HOSTS_ALL, even_live, &plan));
    assert_int_equal(plan.groups[0].n_leaving, 1);
    rqli_hosts_meet(hosts, whole, 5);
    assert_int_equal(calls, 1);
    apply(hosts, &plan);
    assert_int_equal(calls, 2); /* it is told at once */
    expect_plan(hosts, RQLI_HOSTS_ALL, all_live, (struct told[]){{whole, 1, 0, 0}, {NULL}});
    rqli_hosts_free(hosts);
}
