#include "check.h"

#include "net/conn/waiters.h"

/* Many enough for the tables to grow twice. */
enum { COUNT = 60, LOCKS = 7, DIGITS = 33, NAME_SIZE = 16, STEPS = 20000, AMONG = 8, HOLDER = 7 };

static struct rqli_waiters waiters;
static struct rqli_waiter waiter[COUNT];
static struct rqli_waiter_nonce nonces[COUNT];
static char digits[COUNT][DIGITS];
static char names[COUNT][NAME_SIZE]; /* each has its own: none outlives its waiter */
static char acquirers[COUNT][NAME_SIZE];
static size_t n_roused;
static struct rqli_waiter *roused[COUNT];
static bool leaves_when_roused;

static void rouse(struct rqli_waiters *self, struct rqli_waiter *one)
{
    roused[n_roused++] = one;
    if (leaves_when_roused) {
        (void)rqli_waiters_leave(self, one);
    }
}

/* Waiter i waits for lock i % LOCKS, as acquirer i. */
BEFORE_EACH(set_up)
{
    rqli_waiters_fini(&waiters);
    waiters = (struct rqli_waiters){.rouse = rouse};
    n_roused = 0;
    leaves_when_roused = false;
    for (size_t i = 0; i < COUNT; i++) {
        (void)snprintf(names[i], NAME_SIZE, "lock-%zu", i % LOCKS);
        (void)snprintf(acquirers[i], NAME_SIZE, "acq-%zu", i);
        (void)snprintf(digits[i], DIGITS, "%032zx", i * 7919);
        nonces[i] =
            (struct rqli_waiter_nonce){.digits = digits[i], .lock_key = rqli_slice_of(names[i])};
        waiter[i] = (struct rqli_waiter){.lock_key = rqli_slice_of(names[i]),
                                         .acquirer = acquirers[i],
                                         .nonces = &nonces[i],
                                         .n_nonces = 1};
    }
}

AFTER_EACH(tear_down)
{
    rqli_waiters_fini(&waiters);
    waiters = (struct rqli_waiters){0};
}

/* It waits for the locks of the next three as well. */
static void be_several(size_t i)
{
    waiter[i].lock_key = (struct rqli_slice){0};
    waiter[i].n_nonces = 4;
}

static void join(size_t i)
{
    assert_int_equal(rqli_waiters_join(&waiters, &waiter[i]), RQL_OK);
}

static void join_all(void)
{
    for (size_t i = 0; i < COUNT; i++) {
        join(i);
    }
}

static struct rqli_waiter *leave(size_t i)
{
    struct rqli_waiter *leader = rqli_waiters_leave(&waiters, &waiter[i]);

    memset(names[i], 'x', NAME_SIZE - 1);
    return leader;
}

/* Whom a push for this nonce rouses, or NULL. */
static struct rqli_waiter *hinted_by(const char *nonce)
{
    struct rqli_pushed pushed = {.kind = RQLI_PUSHED_HINT};

    memcpy(pushed.nonce, nonce, DIGITS);
    n_roused = 0;
    rqli_waiters_deliver(&waiters, &pushed, 1);
    return n_roused > 0 ? roused[0] : NULL;
}

/* Who comes behind others for its lock asks over the connection of who leads, whoever that is by
 * then. */
TEST(who_waits_for_one_lock_asks_over_one_connection)
{
    static char conns[3];

    for (size_t i = 0; i < 3; i++) {
        waiter[i * LOCKS].conn = (struct rqli_conn *)&conns[i];
    }
    waiter[1].conn = (struct rqli_conn *)&conns[2];
    join(0);
    join(LOCKS);
    join(1);
    (void)leave(0);
    join((size_t)2 * LOCKS);
    assert_ptr_equal(waiter[0].conn, &conns[0]);
    assert_ptr_equal(waiter[LOCKS].conn, &conns[0]);
    assert_ptr_equal(waiter[2 * LOCKS].conn, &conns[0]);
    assert_ptr_equal(waiter[1].conn, &conns[2]);
}

/* Its grant has to be safe, and is asked for where WAIT follows. */
TEST(a_waiter_that_keeps_its_connection_shares_it_with_none)
{
    static const struct {
        const char *name;
        bool leader_keeps, keeps;
    } rows[] = {{"both share", false, false},
                {"who leads keeps its own", true, false},
                {"who comes behind it keeps its own", false, true},
                {"both keep their own", true, true}};

    static char conns[2];

    EACH_ROW (row, rows) {
        waiter[0].keeps_conn = row->leader_keeps;
        waiter[0].conn = (struct rqli_conn *)&conns[0];
        waiter[LOCKS].keeps_conn = row->keeps;
        waiter[LOCKS].conn = (struct rqli_conn *)&conns[1];
        join(0);
        join(LOCKS);
        assert_ptr_equal(waiter[0].conn, &conns[0]);
        assert_ptr_equal(waiter[LOCKS].conn, &conns[row->leader_keeps || row->keeps ? 1 : 0]);
        (void)rqli_waiters_leave(&waiters, &waiter[LOCKS]);
        (void)rqli_waiters_leave(&waiters, &waiter[0]);
    }
}

TEST(one_for_several_waits_once_for_each_of_its_locks)
{
    be_several(0);
    waiter[LOCKS + 2].acquirer = acquirers[0];
    join(0);
    assert_int_equal(rqli_waiters_join(&waiters, &waiter[LOCKS + 2]), RQL_E_BUSY);
    assert_null(rqli_waiters_leave(&waiters, &waiter[0]));
    join(LOCKS + 2);
    assert_int_equal(rqli_waiters_join(&waiters, &waiter[0]), RQL_E_BUSY);
    assert_null(hinted_by(digits[0]));
    (void)rqli_waiters_leave(&waiters, &waiter[LOCKS + 2]);
    join(0);
    for (size_t i = 0; i < 4; i++) {
        assert_ptr_equal(hinted_by(digits[i]), &waiter[0]);
    }
    assert_true(rqli_waiter_leads(&waiter[0]));
    be_several(10);
    join(10);
    assert_true(rqli_waiter_leads(&waiter[10]));
    assert_null(rqli_waiters_leave(&waiters, &waiter[0])); /* nobody leads in its place */
}

/* Who watches, and what changed: how many are roused? All leave the watch. */
static const struct change {
    const char *name;
    const char *lock; /* NULL: all may have changed */
    size_t n_roused;
} changes[] = {
    {"a lock that some watch", "lock-3", 2 + 2},
    {"a lock that nobody waits for", "lock-9", 2},
    {"all: those who lead", NULL, LOCKS + 2},
};

TEST(a_change_is_for_those_who_watch)
{
    EACH_ROW (row, changes) {
        struct rqli_pushed pushed = {.kind = RQLI_PUSHED_CHANGE};

        set_up();
        waiter[3].watches = true;
        waiter[3 + LOCKS].watches = true;
        waiter[4].watches = true;
        for (size_t i = COUNT - 8; i < COUNT; i += 4) {
            be_several(i);
            waiter[i].watches = true;
            join(i);
        }
        for (size_t i = 0; i < COUNT - 8; i++) {
            join(i);
        }
        if (row->lock) {
            pushed.lock_key = rqli_slice_of(row->lock);
        }
        rqli_waiters_deliver(&waiters, &pushed, 1);
        assert_int_equal(n_roused, row->n_roused);
        for (size_t i = 0; i < n_roused; i++) {
            assert_true(roused[i]->hinted);
            assert_false(roused[i]->watches);
        }
    }
}

/* The change may come before it joins again. */
TEST(a_waiter_that_leaves_watches_no_longer)
{
    join(0);
    waiter[0].watches = true;
    assert_null(rqli_waiters_leave(&waiters, &waiter[0]));
    assert_false(waiter[0].watches);
}

/* A poll for the lock alone lets no sharer in. */
TEST(those_that_share_a_lock_have_a_leader_of_their_own)
{
    const struct rqli_pushed change = {.kind = RQLI_PUSHED_CHANGE,
                                       .lock_key = rqli_slice_of("lock-0")};
    const size_t alone = 0;
    const size_t sharer = LOCKS;
    const size_t next_sharer = (size_t)2 * LOCKS;

    waiter[sharer].shares = true;
    waiter[next_sharer].shares = true;
    join(alone);
    join(sharer);
    join(next_sharer);
    assert_true(rqli_waiter_leads(&waiter[alone]) && rqli_waiter_leads(&waiter[sharer]));
    assert_false(rqli_waiter_leads(&waiter[next_sharer]));
    for (size_t i = 0; i < next_sharer + 1; i += LOCKS) {
        waiter[i].watches = true;
        waiter[i].may_be_handed = true;
        waiter[i].stay = RQLI_WAITER_SLEEPS;
    }
    assert_ptr_equal(rqli_waiters_choose(&waiters, rqli_slice_of("lock-0"), 0), &waiter[alone]);
    rqli_waiters_deliver(&waiters, &change, 1);
    assert_int_equal(n_roused, 3);
    assert_null(leave(alone));
    assert_ptr_equal(leave(sharer), &waiter[next_sharer]);
}

TEST(the_others_for_a_lock_are_hinted_by_whoever_leads)
{
    join_all();
    rqli_waiters_hint_others(&waiters, &waiter[LOCKS + 2]);
    assert_int_equal(n_roused, 0);
    rqli_waiters_hint_others(&waiters, &waiter[2]);
    assert_int_equal(n_roused, (COUNT - 2 + LOCKS - 1) / LOCKS - 1);
    assert_ptr_equal(roused[0], &waiter[LOCKS + 2]); /* the oldest first */
    assert_ptr_equal(roused[1], &waiter[2 * LOCKS + 2]);
    assert_false(waiter[2].hinted);
    n_roused = 0;
    be_several(5); /* as it is looked at here */
    rqli_waiters_hint_others(&waiters, &waiter[5]);
    assert_int_equal(n_roused, COUNT - 1);
    waiter[5].lock_key = rqli_slice_of(names[5]);
    waiter[5].n_nonces = 1;
}

/* What others watch is lost with the subscription: they watch anew when they lead. */
TEST(those_who_lead_can_be_hinted_alone_and_all_can)
{
    join_all();
    waiter[LOCKS + 2].watches = true;
    rqli_waiters_hint_leaders(&waiters, NULL);
    assert_int_equal(n_roused, LOCKS);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(waiter[i].hinted, i < LOCKS);
        assert_false(waiter[i].watches);
    }
    n_roused = 0;
    rqli_waiters_hint_all(&waiters, NULL);
    assert_int_equal(n_roused, COUNT);
}

/* Of one partition, whose channel is new. */
TEST(those_of_one_partition_are_hinted_alone)
{
    static const struct rqli_key_set sets[2];

    for (size_t i = 0; i < COUNT; i++) {
        waiter[i].set = &sets[i % LOCKS == 3];
    }
    join_all();
    rqli_waiters_hint_leaders(&waiters, &sets[1]);
    assert_int_equal(n_roused, 1);
    assert_ptr_equal(roused[0], &waiter[3]);
    n_roused = 0;
    rqli_waiters_hint_all(&waiters, &sets[1]);
    assert_int_equal(n_roused, (COUNT - 3 + LOCKS - 1) / LOCKS);
}

TEST(who_has_come_to_lead_is_told_once)
{
    join_all();
    rqli_waiters_hint_successors(&waiters);
    assert_int_equal(n_roused, 0);
    (void)leave(LOCKS + 1); /* led by another */
    (void)leave(2);
    (void)leave(LOCKS + 2);
    (void)leave(3);
    for (int i = 0; i < 2; i++) {
        rqli_waiters_hint_successors(&waiters);
        assert_int_equal(n_roused, 2);
        assert_true(waiter[2 * LOCKS + 2].hinted && waiter[LOCKS + 3].hinted);
    }
}

TEST(who_is_roused_may_go)
{
    leaves_when_roused = true;
    join_all();
    rqli_waiters_hint_others(&waiters, &waiter[0]);
    assert_int_equal(n_roused, (COUNT + LOCKS - 1) / LOCKS - 1);
    assert_true(rqli_waiter_leads(&waiter[0]));
    n_roused = 0;
    rqli_waiters_hint_leaders(&waiters, NULL); /* who leads goes, and the next, that leads then */
    assert_int_equal(n_roused, COUNT - ((COUNT + LOCKS - 1) / LOCKS - 1));
    assert_null(waiters.all.first);
}

/* ---- who is handed a lock inside the client: one of those who wait for it ---- */

static void let_sleep(size_t i, uint64_t in_front)
{
    waiter[i].in_front = in_front;
    waiter[i].may_be_handed = true;
    waiter[i].stay = RQLI_WAITER_SLEEPS;
}

static void sleep_behind(size_t i, uint64_t in_front)
{
    join(i);
    let_sleep(i, in_front);
}

static struct rqli_waiter *choose(void)
{
    return rqli_waiters_choose(&waiters, rqli_slice_of(names[0]), HOLDER);
}

static struct rqli_transfer *const a_transfer = (struct rqli_transfer *)&waiters;

/* What has come for it already may be the lock; and what it asks just now may be answered by it. */
TEST(who_has_heard_of_something_or_asks_is_handed_nothing)
{
    static const struct {
        const char *name;
        enum rqli_waiter_stay stay;
        bool is_pushed, is_hinted, is_handed, is_behind_another, may_not;
    } rows[] = {
        {"it asks", RQLI_WAITER_ASKS},
        {"it was pushed something", RQLI_WAITER_SLEEPS, .is_pushed = true},
        {"it was told to ask", RQLI_WAITER_SLEEPS, .is_hinted = true},
        {"it is about to be handed the lock", RQLI_WAITER_CHOSEN},
        {"it has been handed the lock", RQLI_WAITER_SLEEPS, .is_handed = true},
        {"another is in front of it", RQLI_WAITER_SLEEPS, .is_behind_another = true},
        {"its grant has to be the server's", RQLI_WAITER_SLEEPS, .may_not = true},
    };

    EACH_ROW (row, rows) {
        set_up();
        sleep_behind(0, row->is_behind_another ? HOLDER + 1 : HOLDER);
        waiter[0].stay = row->stay;
        waiter[0].pushed = row->is_pushed;
        waiter[0].hinted = row->is_hinted;
        waiter[0].handed = row->is_handed ? a_transfer : NULL;
        waiter[0].may_be_handed = !row->may_not;
        assert_null(choose());
        sleep_behind(LOCKS, HOLDER);
        assert_ptr_equal(choose(), &waiter[LOCKS]);
        assert_null(choose()); /* once */
    }
}

TEST(only_the_longest_waiting_are_looked_at)
{
    for (size_t n = 0; n <= AMONG; n++) {
        set_up();
        join_all();
        let_sleep(n * LOCKS, HOLDER);
        assert_ptr_equal(choose(), n < AMONG ? &waiter[n * LOCKS] : NULL);
    }
}

TEST(who_is_chosen_takes_no_grant_and_is_told_once)
{
    for (int is_handed = 0; is_handed < 2; is_handed++) {
        struct rqli_pushed pushed = {.kind = RQLI_PUSHED_GRANT, .push = {.token = 7}};

        set_up();
        sleep_behind(0, HOLDER);
        assert_ptr_equal(choose(), &waiter[0]);
        memcpy(pushed.nonce, digits[0], DIGITS);
        rqli_waiters_deliver(&waiters, &pushed, 1);
        CHECK_ALL(EQ(n_roused, 0), EQ(waiter[0].pushed, false));
        rqli_waiters_hand_over(&waiters, &waiter[0], is_handed ? a_transfer : NULL);
        assert_ptr_equal(waiter[0].handed, is_handed ? a_transfer : NULL);
        CHECK_ALL(EQ(n_roused, 1), EQ(waiter[0].stay, RQLI_WAITER_SLEEPS),
                  EQ(waiter[0].pushed, is_handed), EQ(waiter[0].hinted, !is_handed));
        rqli_waiters_deliver(&waiters, &pushed, 1);
        CHECK_ALL(EQ(n_roused, is_handed ? 1 : 2), EQ(waiter[0].push.token, is_handed ? 0 : 7));
    }
}

/* ---- against a model: an array that is searched one by one ---- */

static struct rqli_waiter *model[COUNT];
static size_t n_model;

static bool is_for_lock(const struct rqli_waiter *one, const struct rqli_waiter *other)
{
    return one->lock_key.length == other->lock_key.length &&
           memcmp(one->lock_key.data, other->lock_key.data, one->lock_key.length) == 0;
}

static struct rqli_waiter *model_leader(const struct rqli_waiter *of)
{
    for (size_t i = 0; i < n_model; i++) {
        if (is_for_lock(model[i], of)) {
            return model[i];
        }
    }
    return NULL;
}

static void step(size_t i)
{
    struct rqli_waiter *one = &waiter[i];

    if (!rqli_waiter_has_joined(one)) {
        join(i);
        model[n_model++] = one;
    } else {
        bool led = model_leader(one) == one;
        struct rqli_waiter *leader = rqli_waiters_leave(&waiters, one);
        size_t at = 0;

        while (model[at] != one) {
            at++;
        }
        /* Pointers they are. NOLINTNEXTLINE(bugprone-sizeof-expression) */
        memmove(&model[at], &model[at + 1], (--n_model - at) * sizeof model[0]);
        assert_ptr_equal(leader, led ? model_leader(one) : NULL);
    }
}

TEST(random_steps_end_as_in_a_model)
{
    uint32_t seed = chance_seed();

    n_model = 0;
    for (int n = 0; n < STEPS; n++) {
        const struct rqli_waiter *at;

        step(chance_below(&seed, COUNT));
        if (n % 100 != 0) {
            continue;
        }
        at = rqli_waiters_first(&waiters);
        for (size_t i = 0; i < n_model; i++) {
            assert_ptr_equal(at, model[i]);
            assert_int_equal(rqli_waiter_leads(at), model_leader(at) == at);
            at = rqli_waiter_next(at);
        }
        assert_null(at);
        for (size_t i = 0; i < COUNT; i++) {
            assert_ptr_equal(hinted_by(digits[i]),
                             rqli_waiter_has_joined(&waiter[i]) ? &waiter[i] : NULL);
        }
    }
}
