#include "unit.h"

#include "net/waiters.h"

/* Whom a lock is handed to inside a client: one of those who wait for it. */

enum { COUNT = 9, AMONG = 8, HOLDER = 7, DIGITS = 33, NAME_SIZE = 16 };

static struct rqli_waiters waiters;
static struct rqli_waiter waiter[COUNT];
static struct rqli_waiter_nonce nonces[COUNT];
static char digits[COUNT][DIGITS];
static char acquirers[COUNT][NAME_SIZE];
static size_t n_roused;

static void rouse(struct rqli_waiters *self, struct rqli_waiter *one)
{
    (void)self;
    (void)one;
    n_roused++;
}

BEFORE_EACH(set_up)
{
    rqli_waiters_fini(&waiters);
    waiters = (struct rqli_waiters){.rouse = rouse};
    n_roused = 0;
    for (size_t i = 0; i < COUNT; i++) {
        (void)snprintf(acquirers[i], NAME_SIZE, "acq-%zu", i);
        (void)snprintf(digits[i], DIGITS, "%032zx", i * 7919);
        nonces[i] = (struct rqli_waiter_nonce){.digits = digits[i], .lock_key = rqli_slice_of("x")};
        waiter[i] = (struct rqli_waiter){.lock_key = rqli_slice_of("x"),
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

static void join(size_t i)
{
    assert_int_equal(rqli_waiters_join(&waiters, &waiter[i]), RQL_OK);
}

static void sleep_behind(size_t i, uint64_t in_front)
{
    waiter[i].in_front = in_front;
    waiter[i].may_be_handed = true;
    waiter[i].sleeps = true;
}

static struct rqli_waiter *choose(void)
{
    return rqli_waiters_choose(&waiters, rqli_slice_of("x"), HOLDER);
}

static struct rqli_transfer *const a_transfer = (struct rqli_transfer *)&waiters;

/* What has come for it already may be the lock; and what it asks just now may be answered by it. */
TEST(who_has_heard_of_something_or_asks_is_handed_nothing)
{
    static const struct {
        const char *name;
        bool is_awake, is_pushed, is_hinted, is_chosen, is_handed, is_behind_another, may_not;
    } rows[] = {
        {"it asks", .is_awake = true},
        {"it was pushed something", .is_pushed = true},
        {"it was told to ask", .is_hinted = true},
        {"it is about to be handed the lock", .is_chosen = true},
        {"it has been handed the lock", .is_handed = true},
        {"another is in front of it", .is_behind_another = true},
        {"its grant has to be the server's", .may_not = true},
    };

    EACH_ROW (row, rows) {
        set_up();
        sleep_behind(0, row->is_behind_another ? HOLDER + 1 : HOLDER);
        waiter[0].sleeps = !row->is_awake;
        waiter[0].pushed = row->is_pushed;
        waiter[0].hinted = row->is_hinted;
        waiter[0].is_chosen = row->is_chosen;
        waiter[0].handed = row->is_handed ? a_transfer : NULL;
        waiter[0].may_be_handed = !row->may_not;
        join(0);
        assert_null(choose());
        sleep_behind(1, HOLDER);
        join(1);
        assert_ptr_equal(choose(), &waiter[1]);
        assert_null(choose()); /* once */
    }
}

TEST(only_the_longest_waiting_are_looked_at)
{
    for (size_t n = 0; n <= AMONG; n++) {
        set_up();
        sleep_behind(n, HOLDER);
        for (size_t i = 0; i < COUNT; i++) {
            join(i);
        }
        assert_ptr_equal(choose(), n < AMONG ? &waiter[n] : NULL);
    }
}

TEST(who_is_chosen_takes_no_grant_and_is_told_once)
{
    for (int is_handed = 0; is_handed < 2; is_handed++) {
        struct rqli_pushed pushed = {.kind = RQLI_PUSHED_GRANT, .push = {.token = 7}};

        set_up();
        sleep_behind(0, HOLDER);
        join(0);
        assert_ptr_equal(choose(), &waiter[0]);
        memcpy(pushed.nonce, digits[0], DIGITS);
        rqli_waiters_deliver(&waiters, &pushed, 1);
        CHECK_ALL(EQ(n_roused, 0), EQ(waiter[0].pushed, false));
        if (is_handed) {
            rqli_waiters_hand_over(&waiters, &waiter[0], a_transfer);
        } else {
            rqli_waiters_pass_by(&waiters, &waiter[0]);
        }
        assert_ptr_equal(waiter[0].handed, is_handed ? a_transfer : NULL);
        CHECK_ALL(EQ(n_roused, 1), EQ(waiter[0].is_chosen, false), EQ(waiter[0].pushed, is_handed),
                  EQ(waiter[0].hinted, !is_handed));
        rqli_waiters_deliver(&waiters, &pushed, 1);
        CHECK_ALL(EQ(n_roused, is_handed ? 1 : 2), EQ(waiter[0].push.token, is_handed ? 0 : 7));
    }
}
