#include "check.h"

#include "common/clock.h"
#include "demo/show.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The judge of bench/demo.sh: what it calls a broken promise, and what it only leaves out. */

enum { SECOND_US = 1000000, TTL_US = 1000000, HOLD_US = 10 };

static struct stage *stage;
static struct watch *watch;
static struct killing killing;
static struct verdict verdict;

BEFORE_EACH(nothing_has_happened)
{
    stage = calloc(1, sizeof *stage);
    watch = calloc(1, sizeof *watch);
    assert_true(stage && watch);
    killing = (struct killing){.process = NOBODY, .worker = NOBODY, .next_worker = NOBODY};
    verdict = (struct verdict){0};
}

AFTER_EACH(all_is_freed)
{
    free(watch);
    free(stage);
}

/* A hold from that time on, with a ttl of a second; the monotonic clock is that of the wall here.
 */
static struct hold *enter(int worker, int64_t entered_us)
{
    size_t n = atomic_fetch_add(&stage->n_holds, 1);
    struct hold *hold = &stage->hold[n];

    hold->worker = worker;
    hold->entered_us = entered_us;
    hold->entered_ns = entered_us * 1000;
    hold->until_ns = (entered_us + TTL_US) * 1000;
    atomic_store(&hold->left_ns, (entered_us + HOLD_US) * 1000);
    atomic_store(&hold->token, (int64_t)n + 1);
    atomic_fetch_add(&stage->counter, 1);
    return hold;
}

static void leave(struct hold *hold, int64_t left_us)
{
    atomic_store(&hold->left_ns, left_us * 1000);
}

static void see(int worker, int64_t score_us)
{
    watch->seen[watch->n_seen++] = (struct seen){score_us, worker};
}

static void pronounce(void)
{
    assert_true(judge(stage, watch, &killing, &verdict));
}

/* What show_verdict() prints of a promise, and its result. */
static bool printed(const char *promise, char *line, size_t size)
{
    struct show show = {.length_ns = RQLB_SECOND};
    FILE *file = tmpfile();
    int out = dup(STDOUT_FILENO);
    bool good;
    bool found = false;

    assert_true(file && out >= 0);
    (void)fflush(stdout);
    assert_true(dup2(fileno(file), STDOUT_FILENO) >= 0);
    good = show_verdict(&show, &verdict, &killing);
    (void)fflush(stdout);
    assert_true(dup2(out, STDOUT_FILENO) >= 0);
    (void)close(out);
    rewind(file);
    while (!found && fgets(line, (int)size, file)) {
        found = strstr(line, promise) != NULL;
    }
    (void)fclose(file);
    assert_true(found);
    return good;
}

static void check_line(bool is_good, const char *promise, const char *begin, const char *end)
{
    char line[256];

    assert_int_equal(printed(promise, line, sizeof line), is_good);
    assert_non_null(strstr(line, begin));
    assert_non_null(strstr(line, end));
}

TEST(a_wait_is_matched_with_the_next_entry_of_its_worker)
{
    see(0, 100);
    see(1, 200);
    see(0, 1100);
    enter(0, 1000);
    enter(1, 2000);
    enter(0, 3000);
    pronounce();
    assert_int_equal(verdict.waits_granted, 3);
    assert_int_equal(verdict.waits_passed, 0);
    check_line(true, "order was kept", "  ok ", "3 waits seen in the queue");
}

TEST(the_wait_that_was_passed_over_is_counted_and_not_those_that_passed)
{
    see(0, 100);
    see(1, 200);
    see(2, 300);
    see(3, 400);
    enter(1, 1000);
    enter(2, 2000);
    enter(3, 3000);
    enter(0, 4000);
    pronounce();
    assert_int_equal(verdict.waits_passed, 1);
    check_line(false, "order was kept", "  FAIL", "1 of 4 waits were passed over");
}

TEST(each_wait_that_one_has_passed_is_counted)
{
    see(0, 100);
    see(1, 200);
    see(2, 300);
    enter(2, 1000);
    enter(0, 2000);
    enter(1, 3000);
    pronounce();
    assert_int_equal(verdict.waits_passed, 2);
}

TEST(a_wait_that_was_seen_with_two_places_has_not_passed_itself)
{
    see(0, 100);
    see(0, 150);
    enter(0, 1000);
    pronounce();
    assert_int_equal(verdict.waits_passed, 0);
}

TEST(a_wait_of_a_process_that_stood_still_is_left_out)
{
    see(0, 100);
    see(THREADS, 200);
    note_pause(&stage->pulse[0], 300, 300 + SECOND_US);
    enter(THREADS, 1000);
    enter(0, 400 + SECOND_US);
    pronounce();
    assert_int_equal(verdict.waits_passed, 0);
    assert_int_equal(verdict.waits_still, 1);
    check_line(true, "order was kept", "  ok ", "; 1 left out: their process stood still");
}

TEST(a_pause_before_or_behind_a_wait_and_a_short_one_excuse_nothing)
{
    see(0, 2 * SECOND_US);
    see(THREADS, 2 * SECOND_US + 1);
    note_pause(&stage->pulse[0], SECOND_US, 2 * SECOND_US);
    note_pause(&stage->pulse[0], 3 * SECOND_US, 4 * SECOND_US);
    note_pause(&stage->pulse[0], 2 * SECOND_US, 2 * SECOND_US + 1000 * STANDSTILL_MS - 1);
    note_pause(&stage->pulse[1], 2 * SECOND_US, 3 * SECOND_US);
    enter(THREADS, 3 * SECOND_US - 1000);
    enter(0, 3 * SECOND_US);
    pronounce();
    assert_int_equal(verdict.waits_still, 1); /* the other's, which then has passed nobody */
    stage->pulse[1].n = 0;
    verdict = (struct verdict){0};
    pronounce();
    assert_int_equal(verdict.waits_passed, 1);
}

TEST(a_wait_that_was_never_served_is_a_broken_promise)
{
    see(0, 100);
    see(0, 2000);
    enter(0, 1000);
    pronounce();
    assert_int_equal(verdict.waits_forgotten, 1);
    check_line(false, "order was kept", "  FAIL", "1 never served");
}

TEST(two_holds_at_once_are_seen)
{
    leave(enter(0, 1000), 3000);
    enter(1, 2000);
    pronounce();
    assert_int_equal(verdict.overlaps, 1);
    check_line(false, "no two holds overlapped", "  FAIL", "1 overlaps in 2 holds");
}

TEST(a_holder_that_stood_still_beyond_its_ttl_has_overlapped_with_nobody)
{
    struct hold *hold = enter(0, 1000);

    leave(hold, 2 * SECOND_US);
    enter(1, 1000 + TTL_US);
    atomic_store(&stage->counter, 1); /* what the first one has written last */
    pronounce();
    assert_int_equal(verdict.overlaps, 0);
    assert_int_equal(verdict.outlived, 1);
    check_line(true, "no two holds overlapped", "  ok ", "; 1 left out: the holder stood still");
    check_line(true, "no update was lost", "  -- ", "not tested: 1 holders stood still");
}

TEST(the_lease_of_a_holder_that_stood_still_protects_it_to_its_end)
{
    leave(enter(0, 1000), 2 * SECOND_US);
    enter(1, 999 + TTL_US);
    pronounce();
    assert_int_equal(verdict.overlaps, 1);
}

TEST(an_entry_that_was_made_after_the_lease_says_nothing_of_order)
{
    struct hold *late;

    enter(1, 2 * SECOND_US);
    late = enter(0, 2 * SECOND_US + 1);
    late->until_ns = 0;
    leave(late, 3 * SECOND_US);
    atomic_store(&late->token, 1);
    atomic_store(&stage->hold[0].token, 2);
    pronounce();
    assert_int_equal(verdict.overlaps, 0);
    assert_int_equal(verdict.token_faults, 0);
}

TEST(a_token_that_fell_and_a_lost_update_are_seen)
{
    enter(0, 1000);
    atomic_store(&enter(1, 2000)->token, 1);
    atomic_store(&stage->counter, 1);
    pronounce();
    assert_int_equal(verdict.token_faults, 1);
    check_line(false, "fencing tokens rose", "  FAIL", "1 of 2");
    check_line(false, "no update was lost", "  FAIL", "1 of 2");
}

TEST(a_holder_that_was_killed_late_has_lost_its_lock_by_the_ttl)
{
    killing = (struct killing){.process = 0, .worker = 0, .killed_ns = 3000LL * SECOND_US};
    leave(enter(0, 1000), 0);
    enter(THREADS, 1000 + TTL_US);
    atomic_store(&stage->counter, 1);
    pronounce();
    assert_int_equal(verdict.overlaps, 0);
    check_line(false, "survived a dead holder", "  FAIL", "nobody got the lock after the kill");
    killing.moved_on_ns = killing.killed_ns + 1;
    check_line(true, "survived a dead holder", "  ok ", "moved on");
}

TEST(nothing_is_said_of_a_kill_that_never_was)
{
    enter(0, 1000);
    pronounce();
    check_line(true, "survived a dead holder", "  -- ", "before a holder could be killed");
}

TEST(a_run_without_a_hold_or_a_wait_is_no_proof)
{
    pronounce();
    check_line(false, "order was kept", "  -- ", "not tested: no wait was seen");
}
