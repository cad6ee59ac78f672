#include "demo/judge.h"

#include <stdlib.h>

enum { SETTLE_US = 100000 };

/* Holds of one worker, walked once, in the order of time. */
struct cursor {
    size_t next[WORKERS];
};

const struct hold *next_hold(const struct stage *stage, int64_t since_ns)
{
    size_t n = stage_holds(stage);

    if (n == 0 || stage->hold[n - 1].entered_ns <= since_ns) {
        return NULL;
    }
    while (n > 1 && stage->hold[n - 2].entered_ns > since_ns) {
        n--;
    }
    return &stage->hold[n - 1];
}

void count_hand_offs(const struct stage *stage, size_t from, size_t to, struct histogram *out)
{
    size_t i;
    int64_t left_ns;

    for (i = from > 0 ? from : 1; i < to; i++) {
        left_ns = atomic_load(&stage->hold[i - 1].left_ns);
        if (stage->hold[i].handed_over && left_ns != 0 && left_ns < stage->hold[i].entered_ns) {
            histogram_add(out, stage->hold[i].entered_ns - left_ns);
        }
    }
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A hold protects until it is left, its holder is killed, or its lease is over. */
static int64_t end_of(const struct hold *hold, const struct killing *killing)
{
    int64_t left_ns = atomic_load(&hold->left_ns);

    return smaller(left_ns != 0 ? left_ns : killing->killed_ns, hold->until_ns);
}

/* Entries are made inside the lock: in the order of holds if the lock works. If it does not, an
 * entry out of order shows as an overlap or as a token that fell. An entry that was made when the
 * lease was over already says nothing of either. */
static void judge_holds(const struct stage *stage, const struct killing *killing,
                        struct verdict *out)
{
    int64_t free_ns = 0;
    int64_t highest = 0;
    size_t i;

    for (i = 0; i < out->holds; i++) {
        const struct hold *hold = &stage->hold[i];

        out->outlived += has_outlived(hold);
        out->counter_wanted += atomic_load(&hold->left_ns) != 0;
        if (hold->until_ns == 0) {
            continue;
        }
        out->overlaps += hold->entered_ns < free_ns;
        out->token_faults += hold->token <= highest;
        free_ns = larger(free_ns, end_of(hold, killing));
        highest = larger(highest, hold->token);
    }
    out->counter = atomic_load(&stage->counter);
}

static void judge_shares(const struct stage *stage, const struct killing *killing,
                         struct verdict *out)
{
    size_t share[WORKERS] = {0};
    size_t i;
    int worker;

    for (i = 0; i < out->holds; i++) {
        share[stage->hold[i].worker]++;
    }
    out->least = out->holds;
    for (worker = 0; worker < WORKERS; worker++) {
        if (process_of(worker) == killing->process) {
            continue;
        }
        out->least = share[worker] < out->least ? share[worker] : out->least;
        out->most = share[worker] > out->most ? share[worker] : out->most;
    }
}

static int by_score(const void *left, const void *right)
{
    const struct seen *a = left;
    const struct seen *b = right;

    return (a->score_us > b->score_us) - (a->score_us < b->score_us);
}

/* The grant of a request: its worker's first hold that was entered at or after its arrival, because
 * a worker has one request at a time. The server's time of a grant would not do: that of a
 * hand-over inside a client may lie ahead. */
static const struct hold *grant_of(const struct stage *stage, size_t n_holds,
                                   const struct seen *seen, struct cursor *cursor)
{
    size_t *i = &cursor->next[seen->worker];

    while (*i < n_holds && (stage->hold[*i].worker != seen->worker ||
                            stage->hold[*i].entered_us < seen->score_us)) {
        (*i)++;
    }
    return *i < n_holds ? &stage->hold[*i] : NULL;
}

/* Who waits goes along, and keeps its place; until its client listens there it is passed by, as all
 * who do not. */
static bool is_moved(const struct watch *watch, const struct seen *seen, const struct hold *hold)
{
    size_t i;

    for (i = 0; i < watch->n_moves; i++) {
        const struct move *move = &watch->moves[i];

        if (seen->score_us <= move->until_us + SETTLE_US && hold->entered_us >= move->since_us) {
            return true;
        }
    }
    return false;
}

/* Whether the wait that ended with this hold counts. */
static bool judge_wait(const struct stage *stage, const struct watch *watch,
                       const struct seen *seen, const struct hold *hold, struct verdict *out)
{
    const struct pulse *pulse = &stage->pulse[process_of(seen->worker)];

    if (is_moved(watch, seen, hold)) {
        out->waits_moved++;
        return false;
    }
    if (stood_still(pulse, seen->score_us, hold->entered_us)) {
        out->waits_still++;
        return false;
    }
    out->waits_granted++;
    return true;
}

/* The waits in the order of their arrival, each with its grant, or NULL: it does not count. From
 * the last arrival to the first: a wait was passed over if one that came later was granted before.
 */
static void judge_waits(const struct seen *seen, const struct hold *const *grants,
                        struct verdict *out)
{
    const struct hold *earliest = NULL;
    size_t n = out->waits_seen;

    while (n-- > 0) {
        if (!grants[n]) {
            continue;
        }
        if (!earliest || grants[n]->entered_ns <= earliest->entered_ns) {
            earliest = grants[n];
            continue;
        }
        out->waits_passed++;
        out->passed = grants[n];
        out->passed_us = grants[n]->entered_us - seen[n].score_us;
        out->passed_by = earliest->worker;
    }
}

/* False: no memory. */
static bool judge_order(const struct stage *stage, struct watch *watch,
                        const struct killing *killing, struct verdict *out)
{
    const struct hold **grants = calloc(watch->n_seen + 1, sizeof(struct hold *));
    struct cursor cursor = {{0}};
    size_t i;

    if (!grants) {
        return false;
    }
    qsort(watch->seen, watch->n_seen, sizeof watch->seen[0], by_score);
    out->waits_seen = watch->n_seen;
    for (i = 0; i < watch->n_seen; i++) {
        const struct seen *seen = &watch->seen[i];
        const struct hold *hold = grant_of(stage, out->holds, seen, &cursor);

        if (!hold) {
            out->waits_forgotten += process_of(seen->worker) != killing->process;
        } else if (judge_wait(stage, watch, seen, hold, out)) {
            grants[i] = hold;
        }
    }
    judge_waits(watch->seen, grants, out);
    free(grants);
    return true;
}

bool judge(const struct stage *stage, struct watch *watch, const struct killing *killing,
           struct verdict *out)
{
    out->holds = stage_holds(stage);
    judge_holds(stage, killing, out);
    judge_shares(stage, killing, out);
    count_hand_offs(stage, 0, out->holds, &out->hand_offs);
    return judge_order(stage, watch, killing, out);
}
