#include "check.h"

#include "common/clock.h"
#include "demo/show.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The judge of bench/demo.sh: what it calls a broken promise, and what it only leaves out. */

enum { SECOND_US = 1000000, TTL_US = 1000000, HOLD_US = 10, STILL_US = 1000 * STANDSTILL_MS };

enum { WAITS_MAX = 4, ENTRIES_MAX = 4, PAUSES_MAX = 3, LINES_MAX = 2, NEVER = -1 };

/* A hold from that time on, with a lease of a second. */
struct entry {
    int worker;
    int64_t entered_us;
    int64_t left_us; /* 0: HOLD_US later; NEVER: it lasts */
    int64_t token;   /* 0: one more than that of the entry before */
    bool is_late;    /* the entry was made when the lease was over */
};

struct line {
    const char *promise, *begin, *end;
};

/* What has happened, and what the judge makes of it. */
static const struct run {
    const char *name;
    struct seen waits[WAITS_MAX]; /* in the queue */
    struct entry entries[ENTRIES_MAX];
    struct standstill pauses[PAUSES_MAX]; /* of the first process */
    struct standstill other_pause;        /* of the second one */
    int64_t n_updates_lost;
    bool is_killed; /* the first worker, late */
    bool moves_on;  /* and somebody gets the lock */
    struct verdict wanted;
    bool is_broken; /* a promise */
    struct line lines[LINES_MAX];
} runs[] = {
    {"a wait is matched with the next entry of its worker",
     .waits = {{100, 0}, {200, 1}, {1100, 0}}, .entries = {{0, 1000}, {1, 2000}, {0, 3000}},
     .lines = {{"order was kept", "  ok ", "3 waits seen in the queue"}}},
    {"the wait that was passed over is counted, not those that passed it",
     .waits = {{100, 0}, {200, 1}, {300, 2}, {400, 3}},
     .entries = {{1, 1000}, {2, 2000}, {3, 3000}, {0, 4000}}, .wanted.waits_passed = 1,
     .is_broken = true,
     .lines = {{"order was kept", "  FAIL",
                "1 of 4 waits were passed over, 0 never served; A1 got it at "
                "0.004 s, after 4 ms, behind A2"}}},
    {"each wait that one has passed is counted", .waits = {{100, 0}, {200, 1}, {300, 2}},
     .entries = {{2, 1000}, {0, 2000}, {1, 3000}}, .wanted.waits_passed = 2},
    {"a wait that was seen in two places has not passed itself", .waits = {{100, 0}, {150, 0}},
     .entries = {{0, 1000}}},
    {"a wait of a process that stood still is left out", .waits = {{100, 0}, {200, THREADS}},
     .entries = {{THREADS, 1000}, {0, 400 + SECOND_US}}, .pauses = {{300, 300 + SECOND_US}},
     .wanted.waits_still = 1,
     .lines = {{"order was kept", "  ok ", "; 1 left out: their process was paused"}}},
    {"pauses before and behind a wait and a short one excuse nothing",
     .waits = {{2 * SECOND_US, 0}, {2 * SECOND_US + 1, THREADS}},
     .entries = {{THREADS, 3 * SECOND_US - 1000}, {0, 3 * SECOND_US}},
     .pauses = {{SECOND_US, 2 * SECOND_US},
                {3 * SECOND_US, 4 * SECOND_US},
                {2 * SECOND_US, 2 * SECOND_US + STILL_US - 1}},
     .wanted.waits_passed = 1},
    {"a wait that is left out has passed nobody",
     .waits = {{2 * SECOND_US, 0}, {2 * SECOND_US + 1, THREADS}},
     .entries = {{THREADS, 3 * SECOND_US - 1000}, {0, 3 * SECOND_US}},
     .other_pause = {2 * SECOND_US, 3 * SECOND_US}, .wanted.waits_still = 1},
    {"a wait that was never served is a broken promise", .waits = {{100, 0}, {2000, 0}},
     .entries = {{0, 1000}}, .wanted.waits_forgotten = 1, .is_broken = true,
     .lines = {{"order was kept", "  FAIL", "1 never served"}}},
    {"two holds at once are seen", .entries = {{0, 1000, 3000}, {1, 2000}}, .wanted.overlaps = 1,
     .is_broken = true, .lines = {{"no two holds overlapped", "  FAIL", "1 overlaps in 2 holds"}}},
    {"a holder that stood still beyond its ttl has overlapped with nobody",
     .entries = {{0, 1000, 2 * SECOND_US}, {1, 1000 + TTL_US}}, .n_updates_lost = 1,
     .wanted.outlived = 1,
     .lines = {{"no two holds overlapped", "  ok ", "; 1 left out: the holder was paused"},
               {"no update was lost", "  -- ", "not tested: 1 holders were paused"}}},
    {"the lease of a holder that stood still protects it to its end",
     .entries = {{0, 1000, 2 * SECOND_US}, {1, 999 + TTL_US}},
     .wanted = {.outlived = 1, .overlaps = 1}},
    {"an entry that was made after the lease says nothing of order",
     .entries = {{1, 2 * SECOND_US, .token = 2}, {0, 2 * SECOND_US + 1, 3 * SECOND_US, 1, true}},
     .wanted.outlived = 1},
    {"a token that fell and a lost update are seen", .entries = {{0, 1000}, {1, 2000, .token = 1}},
     .n_updates_lost = 1, .wanted.token_faults = 1, .is_broken = true,
     .lines = {{"fencing tokens rose", "  FAIL", "1 of 2"},
               {"no update was lost", "  FAIL", "1 of 2"}}},
    {"nobody gets the lock of a holder that was killed",
     .entries = {{0, 1000, NEVER}, {THREADS, 1000 + TTL_US}}, .n_updates_lost = 1,
     .is_killed = true, .is_broken = true,
     .lines = {{"survived a dead holder", "  FAIL",
                "the lock was not granted again after the kill"}}},
    {"a holder that was killed has lost its lock by the ttl",
     .entries = {{0, 1000, NEVER}, {THREADS, 1000 + TTL_US}}, .n_updates_lost = 1,
     .is_killed = true, .moves_on = true,
     .lines = {{"survived a dead holder", "  ok ", "the next waiter got it"}}},
    {"nothing is said of a kill that never was", .entries = {{0, 1000}},
     .lines = {{"survived a dead holder", "  -- ", "before a holder could be killed"}}},
    {"a run without a hold or a wait is no proof", .is_broken = true,
     .lines = {{"order was kept", "  -- ", "not tested: no wait could be judged"}}},
};

/* The monotonic clock is that of the wall here. */
static void enter(struct stage *stage, const struct entry *entry)
{
    size_t n = atomic_fetch_add(&stage->n_holds, 1);
    struct hold *hold = &stage->hold[n];
    int64_t left_us = entry->left_us ? entry->left_us : entry->entered_us + HOLD_US;

    hold->worker = entry->worker;
    hold->entered_us = entry->entered_us;
    hold->entered_ns = entry->entered_us * 1000;
    hold->until_ns = entry->is_late ? 0 : (entry->entered_us + TTL_US) * 1000;
    atomic_store(&hold->left_ns, left_us == NEVER ? 0 : left_us * 1000);
    atomic_store(&hold->token, entry->token ? entry->token : (int64_t)n + 1);
}

static void enact(const struct run *run, struct stage *stage, struct watch *watch)
{
    for (size_t i = 0; i < WAITS_MAX && run->waits[i].score_us > 0; i++) {
        watch->seen[watch->n_seen++] = run->waits[i];
    }
    for (size_t i = 0; i < ENTRIES_MAX && run->entries[i].entered_us > 0; i++) {
        enter(stage, &run->entries[i]);
    }
    atomic_store(&stage->counter, (int64_t)stage_holds(stage) - run->n_updates_lost);
    for (size_t i = 0; i < PAUSES_MAX; i++) {
        note_pause(&stage->pulse[0], run->pauses[i].since_us, run->pauses[i].until_us);
    }
    note_pause(&stage->pulse[1], run->other_pause.since_us, run->other_pause.until_us);
}

/* Stores what show_verdict() prints of a promise, and returns its result. */
static bool print_verdict(const struct verdict *verdict, const struct killing *killing,
                          const char *promise, char line[256])
{
    struct show show = {.length_ns = RQLB_SECOND};
    FILE *file = tmpfile();
    int out = dup(STDOUT_FILENO);
    bool is_kept;

    assert_true(file && out >= 0);
    (void)fflush(stdout);
    assert_true(dup2(fileno(file), STDOUT_FILENO) >= 0);
    is_kept = show_verdict(&show, verdict, killing);
    (void)fflush(stdout);
    assert_true(dup2(out, STDOUT_FILENO) >= 0);
    (void)close(out);
    rewind(file);
    do {
        assert_non_null(fgets(line, 256, file));
    } while (!strstr(line, promise));
    (void)fclose(file);
    return is_kept;
}

static void check_lines(const struct run *run, const struct verdict *verdict,
                        const struct killing *killing)
{
    for (size_t i = 0; i < LINES_MAX && run->lines[i].promise; i++) {
        char text[256];

        assert_int_equal(print_verdict(verdict, killing, run->lines[i].promise, text),
                         !run->is_broken);
        assert_non_null(strstr(text, run->lines[i].begin));
        assert_non_null(strstr(text, run->lines[i].end));
    }
}

TEST(the_judge_tells_a_broken_promise_from_what_it_leaves_out)
{
    EACH_ROW (run, runs) {
        struct stage *stage = calloc(1, sizeof *stage);
        struct watch *watch = calloc(1, sizeof *watch);
        struct killing killing = {.process = NOBODY, .worker = NOBODY, .next_worker = NOBODY};
        struct verdict found = {0};

        assert_true(stage && watch);
        if (run->is_killed) {
            killing.process = killing.worker = 0;
            killing.killed_ns = 3000LL * SECOND_US;
            killing.moved_on_ns = run->moves_on ? killing.killed_ns + 1 : 0;
        }
        enact(run, stage, watch);
        assert_true(judge(stage, watch, &killing, &found));
        CHECK_ALL(
            EQ(found.waits_passed, run->wanted.waits_passed),
            EQ(found.waits_still, run->wanted.waits_still),
            EQ(found.waits_forgotten, run->wanted.waits_forgotten),
            EQ(found.overlaps, run->wanted.overlaps), EQ(found.outlived, run->wanted.outlived),
            EQ(found.token_faults, run->wanted.token_faults),
            EQ(found.waits_granted, found.waits_seen - found.waits_still - found.waits_forgotten));
        check_lines(run, &found, &killing);
        free(watch);
        free(stage);
    }
}
