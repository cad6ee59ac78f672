#include "check.h"

#include "base/clock.h"
#include "lock/lease.h"

#include <rql/base.h>

enum { BEGUN_US = 7000000, STEPS_MAX = 14, NONE = -1 };

/* As times that a lease is due. */
#define NEVER RQLI_NEVER_US
#define AT_ONCE (-BEGUN_US)

static struct rqli_lease_terms terms_of(int64_t ttl_ms)
{
    return (struct rqli_lease_terms){
        .ttl_ms = ttl_ms,
        .left_ms = ttl_ms,
        .begun_us = BEGUN_US,
        .max_hold_ms = RQL_FOREVER,
        .is_claimed = true,
    };
}

static int64_t due_at(const struct rqli_lease *lease)
{
    int64_t due_us = rqli_earlier(rqli_lease_renewal_us(lease), rqli_lease_loss_us(lease));

    return due_us == RQLI_NEVER_US ? NEVER : due_us - BEGUN_US;
}

/* 0: no renewal is wanted. */
static int64_t wanted_ms(const struct rqli_lease *lease, int64_t now_us)
{
    int64_t ttl_ms = 0;
    bool wants = rqli_lease_wants_renewal(lease, now_us, &ttl_ms);

    assert_int_equal(wants, ttl_ms >= 1);
    return wants ? ttl_ms : 0;
}

/* What happens when, with so many ms or us; then what the lease is at that time, when it is due
 * next, for how long it wants to be renewed, and, unless 0, how long it is relied on. */
struct step {
    enum event {
        END,
        LOOK,
        EXTENDED,
        SHORTENED,
        SETBACK,
        DOUBT,
        UNCONFIRMED, /* relied on until that time at most */
        LOST,
        STOPPED,
        FORGOTTEN,
        REPORTED,
        HOST_ENDS, /* at that time */
    } event;

    int64_t at_us;
    int64_t with;
    rql_lock_state state;
    int64_t due_us;
    int64_t wants_ms;
    int64_t left_ms;
};

/* Asked for and granted in full unless told otherwise; what was handed over lives for a second
 * until it is claimed. */
struct life {
    const char *name;
    int64_t ttl_ms;
    int64_t left_ms;
    int64_t hold_ms;
    bool renews;
    bool is_handed_over;
    struct step steps[STEPS_MAX];
};

static const struct life lives[] = {
    {"a plain lease is held up to its margin", .ttl_ms = 5000,
     .steps = {{LOOK, 0, 0, RQL_HELD, 4950000, 0, 4950},
               {LOOK, 4949000, 0, RQL_HELD, 4950000, 0, 1},
               {LOOK, 4949001, 0, RQL_HELD, 4950000, 0, NONE},
               {LOOK, 4949999, 0, RQL_HELD, 4950000, 0, NONE},
               {LOOK, 4950000, 0, RQL_GONE, 4950000, 0, NONE},
               {LOOK, 9000000, 0, RQL_GONE, 4950000, 0, NONE}}},
    {"renewal is due at a third and late at two", .ttl_ms = 3000, .renews = true,
     .steps = {{LOOK, 999999, 0, RQL_HELD, 1000000, 0},
               {LOOK, 1000000, 0, RQL_HELD, 1000000, 3000},
               {LOOK, 1999999, 0, RQL_HELD, 1000000, 3000},
               {LOOK, 2000000, 0, RQL_DOUBTFUL, 1000000, 3000},
               {LOOK, 2969999, 0, RQL_DOUBTFUL, 1000000, 3000},
               {LOOK, 2970000, 0, RQL_GONE, 1000000, 3000},
               {EXTENDED, 2100000, 3000, RQL_HELD, 3100000, 0},
               {LOOK, 2500000, 0, RQL_HELD, 3100000, 0},
               {LOOK, 4100000, 0, RQL_DOUBTFUL, 3100000, 3000},
               {LOOK, 5070000, 0, RQL_GONE, 3100000, 3000}}},
    {"a short rest is told before it would be renewed", .ttl_ms = 3000, .left_ms = 500,
     .renews = true, .steps = {{LOOK, 0, 0, RQL_HELD, 495000, 0}}},
    {"a hand-over is claimed for what the grant was for", .ttl_ms = 60000, .is_handed_over = true,
     .steps = {{LOOK, 333332, 0, RQL_HELD, 333333, 0},
               {LOOK, 333333, 0, RQL_HELD, 333333, 59666},
               {LOOK, 666665, 0, RQL_HELD, 333333, 59333},
               {LOOK, 666666, 0, RQL_DOUBTFUL, 333333, 59333},
               {LOOK, 990000, 0, RQL_GONE, 333333, 59010},
               {EXTENDED, 400000, 59666, RQL_HELD, 400000 + 59666000 - 596660, 0},
               {LOOK, 50000000, 0, RQL_HELD, 59469340, 0},
               {LOOK, 59000000, 0, RQL_HELD, 59469340, 0}}},
    {"a claim of a renewed lease is a renewal", .ttl_ms = 60000, .renews = true,
     .is_handed_over = true,
     .steps = {{LOOK, 333333, 0, RQL_HELD, 333333, 60000},
               {EXTENDED, 400000, 60000, RQL_HELD, 20400000, 0}}},
    {"a claim is for what the grant was for, with max_hold too", .ttl_ms = 20000, .hold_ms = 300,
     .renews = true, .is_handed_over = true,
     .steps = {{LOOK, 333333, 0, RQL_HELD, 333333, 19666},
               {EXTENDED, 400000, 19600, RQL_HELD, 400000 + 6666666, 0},
               {LOOK, 7066666, 0, RQL_HELD, 7066666, 0}}},
    {"a claim that came too late is not made", .ttl_ms = 900, .is_handed_over = true,
     .steps = {{LOOK, 899000, 0, RQL_DOUBTFUL, 333333, 1},
               {LOOK, 899001, 0, RQL_DOUBTFUL, 333333, 0}}},
    {"renewal ends with max_hold", .ttl_ms = 3000, .hold_ms = 5000, .renews = true,
     .steps = {{LOOK, 1000000, 0, RQL_HELD, 1000000, 3000},
               {LOOK, 2500000, 0, RQL_DOUBTFUL, 1000000, 2500},
               {EXTENDED, 2500000, 2500, RQL_HELD, 3500000, 0},
               {LOOK, 4999000, 0, RQL_GONE, 3500000, 1},
               {LOOK, 4999001, 0, RQL_GONE, 3500000, 0},
               {STOPPED, 4974999, 0, RQL_DOUBTFUL, 3500000, 0},
               {LOOK, 4975000, 0, RQL_GONE, 3500000, 0}}},
    {"without renewal it ends by its ttl, but its caller may extend it", .ttl_ms = 3000,
     .renews = true,
     .steps = {{STOPPED, 0, 0, RQL_HELD, 2970000, 0},
               {LOOK, 2900000, 0, RQL_HELD, 2970000, 0},
               {LOOK, 2969999, 0, RQL_HELD, 2970000, 0},
               {LOOK, 2970000, 0, RQL_GONE, 2970000, 0},
               {EXTENDED, 1000000, 3000, RQL_HELD, 3970000, 0},
               {LOOK, 3900000, 0, RQL_HELD, 3970000, 0}}},
    {"what is forgotten is not renewed", .ttl_ms = 3000, .renews = true,
     .steps = {{FORGOTTEN, 1000000, 0, RQL_HELD, 2970000, 0},
               {LOOK, 2900000, 0, RQL_HELD, 2970000, 0}}},
    {"what is forgotten is still claimed", .ttl_ms = 3000, .is_handed_over = true,
     .steps = {{FORGOTTEN, 100000, 0, RQL_HELD, 100000, 2900},
               {EXTENDED, 100000, 2900, RQL_HELD, 2971000, 0}}},
    {"a setback of 60 s is tried again after 3 s", /* a twentieth */
     .ttl_ms = 60000, .renews = true,
     .steps = {{SETBACK, 5000, 0, RQL_HELD, 3005000, 0},
               {LOOK, 59395000, 0, RQL_DOUBTFUL, 3005000, 60000}}},
    {"a setback of 420 ms is tried again after 21 ms", .ttl_ms = 420, .renews = true,
     .steps = {{SETBACK, 5000, 0, RQL_HELD, 26000, 0},
               {LOOK, 410800, 0, RQL_DOUBTFUL, 26000, 420}}},
    {"a setback of 100 ms is tried again after 20 ms", .ttl_ms = 100, .renews = true,
     .steps = {{SETBACK, 5000, 0, RQL_HELD, 25000, 0}, {LOOK, 94000, 0, RQL_DOUBTFUL, 25000, 100}}},
    {"a setback of a claim is tried again after a twentieth of its second", .ttl_ms = 60000,
     .is_handed_over = true, .steps = {{SETBACK, 400000, 0, RQL_HELD, 450000, 0}}},
    {"a doubt is verified at once, for no more than is believed in", .ttl_ms = 5000,
     .steps = {{DOUBT, 1000000, 0, RQL_DOUBTFUL, 1000000, 3950},
               {EXTENDED, 1000100, 3950, RQL_HELD, 1000100 + 3950000 - 39500, 0},
               {LOOK, 1100000, 0, RQL_HELD, 4910600, 0},
               {LOOK, 2000000, 0, RQL_HELD, 4910600, 0}}},
    {"a doubt is not left open for a share of a long ttl", .ttl_ms = 86400000,
     .steps = {{DOUBT, 0, 0, RQL_DOUBTFUL, 0, 85536000},
               {SETBACK, 0, 0, RQL_DOUBTFUL, 1000000, 0}}},
    {"a doubt is verified after max_hold", .ttl_ms = 60000, .hold_ms = 1000, .renews = true,
     .steps = {{DOUBT, 2000000, 0, RQL_DOUBTFUL, 2000000, 57400},
               {EXTENDED, 2000100, 57400, RQL_HELD, 2000100 + 20000000, 0},
               {LOOK, 22000100, 0, RQL_HELD, 22000100, 0}}},
    {"a doubt is verified before renewal stops", .ttl_ms = 5000, .renews = true,
     .steps = {{DOUBT, 1000000, 0, RQL_DOUBTFUL, 1000000, 5000},
               {FORGOTTEN, 1000000, 0, RQL_DOUBTFUL, 1000000, 3950},
               {STOPPED, 1000000, 0, RQL_DOUBTFUL, 1000000, 3950},
               {EXTENDED, 1000100, 3950, RQL_HELD, 4910600, 0}}},
    /* The server may have answered it before its clock jumped, and jumped again. */
    {"an answer to an earlier question settles no doubt", .ttl_ms = 5000, .renews = true,
     .steps = {{DOUBT, 1800000, 0, RQL_DOUBTFUL, 1800000, 5000},
               {EXTENDED, 1799999, 5000, RQL_DOUBTFUL, 1800000, 0},
               {LOOK, 1900000, 0, RQL_DOUBTFUL, 1800000, 5000},
               {DOUBT, 2000000, 0, RQL_DOUBTFUL, 2000000, 5000},
               {EXTENDED, 1999999, 5000, RQL_DOUBTFUL, 2000000, 0},
               {LOOK, 2000000, 0, RQL_DOUBTFUL, 2000000, 5000},
               {EXTENDED, 2000000, 5000, RQL_HELD, 3666666, 0},
               {LOOK, 2100000, 0, RQL_HELD, 3666666, 0}}},
    /* A renewal would overtake the hand-over, find nothing, and be taken for a loss. */
    {"a doubt renews nothing that the server may not have heard of", .ttl_ms = 60000,
     .renews = true,
     .steps = {{UNCONFIRMED, 0, 4000000, RQL_HELD, 4000000, 0},
               {DOUBT, 1000000, 0, RQL_DOUBTFUL, 4000000, 0, 3000},
               {LOOK, 3999999, 0, RQL_DOUBTFUL, 4000000, 0},
               {EXTENDED, 1000000, 60000, RQL_HELD, 21000000, 0}}},
    {"a shorter deadline stays when the hand-over is not confirmed", .ttl_ms = 1000,
     .steps = {{UNCONFIRMED, 0, 4000000, RQL_HELD, 990000, 0, 990}}},
    /* The leases' thread and the caller extend over connections of their own. */
    {"an overtaken answer takes nothing back, one of the same time does", .ttl_ms = 5000,
     .is_handed_over = true,
     .steps = {{EXTENDED, 400000, 60000, RQL_HELD, 400000 + 59400000, 0},
               {EXTENDED, 350000, 4650, RQL_HELD, 400000 + 59400000, 0},
               {EXTENDED, 400000, 50000, RQL_HELD, 400000 + 49500000, 0}}},
    {"an overtaken answer that grants more counts, but not after a shortening or a doubt",
     .ttl_ms = 3000, .renews = true,
     .steps = {{EXTENDED, 1000000, 3000, RQL_HELD, 2000000, 0, 2970},
               {EXTENDED, 900000, 60000, RQL_HELD, 2000000, 0, 59400},
               {LOOK, 3000000, 0, RQL_DOUBTFUL, 2000000, 57300, 57300},
               {SHORTENED, 1500000, 5000, RQL_HELD, 2000000, 0, 4950},
               {EXTENDED, 1499999, 60000, RQL_HELD, 2000000, 0, 4950},
               {DOUBT, 1600000, 0, RQL_DOUBTFUL, 1600000, 4850},
               {EXTENDED, 1700000, 5000, RQL_HELD, 2700000, 0, 4950},
               {EXTENDED, 1599999, 60000, RQL_HELD, 2700000, 0, 5050},
               {LOST, 1499999, 0, RQL_GONE, AT_ONCE, 0, NONE},
               {EXTENDED, 900000, 60000, RQL_GONE, AT_ONCE, 0, NONE}}},
    {"a shortening never lengthens and outlives what was sent before", .ttl_ms = 30000,
     .steps = {{SHORTENED, 1000000, 5000, RQL_HELD, 5950000, 0},
               {SHORTENED, 2000000, 60000, RQL_HELD, 5950000, 0},
               {EXTENDED, 1999999, 30000, RQL_HELD, 5950000, 0},
               {SHORTENED, 1000000, 6000, RQL_HELD, 5950000, 0}, /* overtaken itself */
               {EXTENDED, 1999999, 30000, RQL_HELD, 5950000, 0},
               {EXTENDED, 2000000, 30000, RQL_HELD, 31700000, 0}}},
    {"what is gone stays gone, due at once until it is told", .ttl_ms = 5000, .renews = true,
     .steps = {{LOST, 1, 0, RQL_GONE, AT_ONCE, 0, NONE},
               {EXTENDED, 1, 5000, RQL_GONE, AT_ONCE, 0, NONE},
               {DOUBT, 1, 0, RQL_GONE, AT_ONCE, 0, NONE},
               {SETBACK, 1, 0, RQL_GONE, AT_ONCE, 0, NONE},
               {LOOK, 4000000, 0, RQL_GONE, AT_ONCE, 0, NONE},
               {REPORTED, 4000000, 0, RQL_GONE, NEVER, 0, NONE}}},
    /* What its host may be taken for dead at bounds it as its own deadline does. */
    {"it ends with its host", .ttl_ms = 10000,
     .steps = {{LOOK, 0, 0, RQL_HELD, 9900000, 0, 9900},
               {HOST_ENDS, 500000, 2000000, RQL_HELD, 2000000, 0, 1500},
               {LOOK, 1999999, 0, RQL_HELD, 2000000, 0, NONE},
               {LOOK, 2000000, 0, RQL_GONE, 2000000, 0, NONE},
               {HOST_ENDS, 2000000, 9900001, RQL_HELD, 9900000, 0, 7900}}},
};

static void happen(struct rqli_lease *lease, const struct step *step, int64_t now_us)
{
    switch (step->event) {
    case EXTENDED:
        rqli_lease_on_extended(lease, now_us, step->with);
        break;
    case SHORTENED:
        rqli_lease_on_shortened(lease, now_us, step->with);
        break;
    case SETBACK:
        rqli_lease_on_setback(lease, now_us);
        break;
    case DOUBT:
        rqli_lease_on_doubt(lease, now_us);
        break;
    case UNCONFIRMED:
        rqli_lease_on_unconfirmed(lease, BEGUN_US + step->with);
        break;
    case LOST:
        rqli_lease_on_gone(lease);
        break;
    case STOPPED:
        rqli_lease_stop_renewal(lease, now_us);
        break;
    case FORGOTTEN:
        rqli_lease_on_forgotten(lease, now_us);
        break;
    case REPORTED:
        lease->is_reported = true;
        break;
    case HOST_ENDS:
        lease->host_end_us = BEGUN_US + step->with;
        break;
    case END:
    case LOOK:
        break;
    }
}

static struct rqli_lease born(const struct life *life)
{
    struct rqli_lease_terms terms = terms_of(life->ttl_ms);
    struct rqli_lease lease;

    terms.left_ms = life->is_handed_over ? 1000 : life->left_ms ? life->left_ms : life->ttl_ms;
    terms.max_hold_ms = life->hold_ms ? life->hold_ms : RQL_FOREVER;
    terms.renews = life->renews;
    terms.is_claimed = !life->is_handed_over;
    rqli_lease_init(&lease, &terms);
    return lease;
}

TEST(every_life_goes_as_told)
{
    EACH_ROW (row, lives) {
        struct rqli_lease lease = born(row);

        for (const struct step *step = row->steps; step->event != END; step++) {
            int64_t now_us = BEGUN_US + step->at_us;

            print_message("#   step %d\n", (int)(step - row->steps));
            happen(&lease, step, now_us);
            assert_int_equal(rqli_lease_state(&lease, now_us), step->state);
            assert_int_equal(due_at(&lease), step->due_us);
            assert_int_equal(wanted_ms(&lease, now_us), step->wants_ms);
            assert_true(step->left_ms == 0 || rqli_lease_remaining_ms(&lease, now_us) ==
                                                  (step->left_ms == NONE ? 0 : step->left_ms));
        }
    }
}

TEST(the_margin_is_a_hundredth_and_never_more_than_half)
{
    static const struct {
        int64_t ttl_ms;
        int64_t margin_us;
    } rows[] = {
        {1, 500},    {2, 1000},     {9, 4500},
        {10, 5000},  {11, 5000},    {500, 5000},
        {501, 5010}, {5000, 50000}, {RQL_TTL_MAX_MS, RQL_TTL_MAX_MS * 10},
    };

    EACH (row, rows) {
        print_message("# ttl %lld\n", (long long)row->ttl_ms);
        assert_int_equal(rqli_lease_margin_us(row->ttl_ms), row->margin_us);
    }
}

/* Whatever the server grants, at first and later. */
TEST(no_more_is_relied_on_than_the_most)
{
    const int64_t deadline_us = BEGUN_US + 3000 * 1000 - rqli_lease_margin_us(3000);
    struct rqli_lease_terms terms = terms_of(5000);
    struct rqli_lease lease;

    terms.most_ms = 3000;
    rqli_lease_init(&lease, &terms);
    assert_int_equal(lease.deadline_us, deadline_us);
    rqli_lease_on_extended(&lease, BEGUN_US + 1, 9000);
    assert_int_equal(lease.deadline_us, deadline_us + 1);
    rqli_lease_on_extended(&lease, BEGUN_US + 2, 2999);
    assert_int_equal(lease.deadline_us, BEGUN_US + 2 + 2999 * 1000 - rqli_lease_margin_us(2999));
    terms = terms_of(5000);
    terms.left_ms = INT64_MAX; /* a server may say anything */
    rqli_lease_init(&lease, &terms);
    assert_int_equal(lease.deadline_us, BEGUN_US + RQL_TTL_MAX_MS * 990);
}
