#include "check.h"

#include "lock/waiting.h"

#include <string.h>

enum { COUNT = 50, LOCKS = 7, DIGITS = 33, NAME_SIZE = 16 };

static struct rqli_waiting waiting;
static struct rqli_guest guests[COUNT];
static struct rqli_nonce nonces[COUNT];
static char digits[COUNT][DIGITS];
static char names[COUNT][NAME_SIZE]; /* each has its own: none outlives its guest */
static size_t n_visited;
static struct rqli_guest *visited[COUNT];

static int set_up(void **state)
{
    (void)state;
    waiting = (struct rqli_waiting){0};
    n_visited = 0;
    for (size_t i = 0; i < COUNT; i++) {
        (void)snprintf(names[i], NAME_SIZE, "lock-%zu", i % LOCKS);
        (void)snprintf(digits[i], DIGITS, "%032zx", i * 7919);
        nonces[i] = (struct rqli_nonce){.digits = digits[i], .lock_key = rqli_slice_of(names[i])};
        guests[i] = (struct rqli_guest){
            .lock_key = rqli_slice_of(names[i]), .nonces = &nonces[i], .n_nonces = 1};
    }
    return 0;
}

static void join(size_t i)
{
    assert_int_equal(rqli_waiting_join(&waiting, &guests[i]), RQL_OK);
}

static struct rqli_guest *leave(size_t i)
{
    struct rqli_guest *leader = rqli_waiting_leave(&waiting, &guests[i]);

    memset(names[i], 'x', NAME_SIZE - 1);
    return leader;
}

static void visit(struct rqli_guest *guest)
{
    visited[n_visited++] = guest;
}

static void the_oldest_leads(void **state)
{
    (void)state;
    assert_true(rqli_waiting_is_empty(&waiting));
    for (size_t i = 0; i < COUNT; i++) {
        join(i);
        assert_int_equal(rqli_waiting_leads(&guests[i]), i < LOCKS);
    }
    /* Each that goes leaves the lead to the next for its lock; a follower leaves none. */
    assert_null(leave(2 * LOCKS));
    for (size_t i = 0; i < COUNT; i++) {
        size_t next = i == LOCKS ? 3 * LOCKS : i + LOCKS;

        if (i == 2 * LOCKS) {
            continue;
        }
        assert_ptr_equal(leave(i), next < COUNT ? &guests[next] : NULL);
        assert_true(next >= COUNT || rqli_waiting_leads(&guests[next]));
    }
    assert_true(rqli_waiting_is_empty(&waiting));
}

static void guests_are_found_by_nonce(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        join(i);
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_ptr_equal(rqli_waiting_of_nonce(&waiting, digits[i]), &guests[i]);
    }
    for (size_t i = 0; i < COUNT; i++) {
        (void)leave(i);
        assert_null(rqli_waiting_of_nonce(&waiting, digits[i]));
    }
}

static void all_are_visited_or_those_who_lead(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        join(i);
    }
    rqli_waiting_each(&waiting, false, visit);
    assert_int_equal(n_visited, COUNT);
    n_visited = 0;
    rqli_waiting_each(&waiting, true, visit);
    assert_int_equal(n_visited, LOCKS);
    n_visited = 0;
    rqli_waiting_each_of(&waiting, rqli_slice_of("lock-3"), false, visit);
    assert_int_equal(n_visited, (COUNT - 3 + LOCKS - 1) / LOCKS);
    assert_ptr_equal(visited[0], &guests[3]);
    assert_ptr_equal(visited[1], &guests[3 + LOCKS]);
    n_visited = 0;
    rqli_waiting_each_of(&waiting, rqli_slice_of("lock-3"), true, visit);
    assert_int_equal(n_visited, 1);
    n_visited = 0;
    rqli_waiting_each_of(&waiting, rqli_slice_of("lock-9"), false, visit);
    assert_int_equal(n_visited, 0);
    for (size_t i = 0; i < COUNT; i++) {
        (void)leave(i);
    }
}

static void leave_at_visit(struct rqli_guest *guest)
{
    n_visited++;
    (void)rqli_waiting_leave(&waiting, guest);
}

static void who_is_visited_may_go(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        join(i);
    }
    rqli_waiting_each(&waiting, false, leave_at_visit);
    assert_int_equal(n_visited, COUNT);
    assert_true(rqli_waiting_is_empty(&waiting));
}

static void a_named_acquirer_waits_once_for_a_lock(void **state)
{
    (void)state;
    guests[0].acquirer = "me";
    guests[LOCKS].acquirer = "me";      /* the same lock */
    guests[1].acquirer = "me";          /* another */
    guests[2 * LOCKS].acquirer = "you"; /* the same lock */
    join(0);
    assert_int_equal(rqli_waiting_join(&waiting, &guests[LOCKS]), RQL_E_BUSY);
    assert_null(rqli_waiting_of_nonce(&waiting, digits[LOCKS]));
    join(1);
    join(2 * LOCKS);
    assert_ptr_equal(leave(0), &guests[2 * LOCKS]);
    join(LOCKS);
    (void)leave(1);
    (void)leave(LOCKS);
    (void)leave(2 * LOCKS);
    assert_true(rqli_waiting_is_empty(&waiting));
}

static void a_named_series_waits_once_for_each_of_its_locks(void **state)
{
    (void)state;
    guests[0].lock_key = (struct rqli_slice){NULL, 0};
    guests[0].n_nonces = 3;
    guests[0].acquirer = "me";
    guests[LOCKS + 2].acquirer = "me"; /* the last of its locks */
    join(0);
    assert_int_equal(rqli_waiting_join(&waiting, &guests[LOCKS + 2]), RQL_E_BUSY);
    assert_null(rqli_waiting_leave(&waiting, &guests[0]));
    join(LOCKS + 2);
    assert_int_equal(rqli_waiting_join(&waiting, &guests[0]), RQL_E_BUSY);
    assert_null(rqli_waiting_of_nonce(&waiting, digits[0]));
    (void)leave(LOCKS + 2);
    join(0);
    assert_null(rqli_waiting_leave(&waiting, &guests[0]));
    assert_true(rqli_waiting_is_empty(&waiting));
}

/* It waits for several locks: it leads itself, and every change concerns it. */
static void a_series_is_found_by_each_of_its_nonces(void **state)
{
    (void)state;
    guests[0].lock_key = (struct rqli_slice){NULL, 0};
    guests[0].n_nonces = 3;
    join(0);
    guests[5].nonces = &nonces[5];
    join(5);
    assert_true(rqli_waiting_leads(&guests[0]));
    for (size_t i = 0; i < 3; i++) {
        assert_ptr_equal(rqli_waiting_of_nonce(&waiting, digits[i]), &guests[0]);
    }
    rqli_waiting_each_of(&waiting, rqli_slice_of("lock-9"), true, visit);
    assert_int_equal(n_visited, 1);
    rqli_waiting_each(&waiting, true, visit);
    assert_int_equal(n_visited, 3);
    assert_null(rqli_waiting_leave(&waiting, &guests[0]));
    assert_null(rqli_waiting_of_nonce(&waiting, digits[2]));
    (void)leave(5);
    assert_true(rqli_waiting_is_empty(&waiting));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, set_up)
        TEST(the_oldest_leads),
        TEST(guests_are_found_by_nonce),
        TEST(all_are_visited_or_those_who_lead),
        TEST(who_is_visited_may_go),
        TEST(a_named_acquirer_waits_once_for_a_lock),
        TEST(a_named_series_waits_once_for_each_of_its_locks),
        TEST(a_series_is_found_by_each_of_its_nonces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
