#include "check.h"

#include "base/clock.h"
#include "chance.h"
#include "lock/lease.h"

#include <rql/base.h>

enum { BEGUN_US = 7000000, N_LIVES = 4000, N_EVENTS = 60 };

#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

/* Asked for and granted in full; plain unless told otherwise. */
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

static struct rqli_lease plain(int64_t ttl_ms)
{
    const struct rqli_lease_terms terms = terms_of(ttl_ms);
    struct rqli_lease lease;

    rqli_lease_init(&lease, &terms);
    return lease;
}

static struct rqli_lease renewed(int64_t ttl_ms, int64_t max_hold_ms)
{
    struct rqli_lease_terms terms = terms_of(ttl_ms);
    struct rqli_lease lease;

    terms.renews = true;
    terms.max_hold_ms = max_hold_ms;
    rqli_lease_init(&lease, &terms);
    return lease;
}

/* What was handed over lives for a second until it is claimed: its new holder may be dead. */
static struct rqli_lease handed_over(int64_t ttl_ms, bool renews)
{
    struct rqli_lease_terms terms = terms_of(ttl_ms);
    struct rqli_lease lease;

    terms.left_ms = 1000;
    terms.renews = renews;
    terms.is_claimed = false;
    rqli_lease_init(&lease, &terms);
    return lease;
}

static void check_state(const struct rqli_lease *lease, int64_t at_us, rql_lock_state expected)
{
    assert_int_equal(rqli_lease_state(lease, BEGUN_US + at_us), expected);
}

static int64_t due_at(const struct rqli_lease *lease)
{
    int64_t due_us = rqli_lease_due_us(lease);

    return due_us == RQLI_NEVER_US ? RQLI_NEVER_US : due_us - BEGUN_US;
}

/* 0: no renewal is wanted. */
static int64_t wanted_ms(const struct rqli_lease *lease, int64_t at_us)
{
    int64_t ttl_ms = 0;
    bool wants = rqli_lease_wants_renewal(lease, BEGUN_US + at_us, &ttl_ms);

    assert_int_equal(wants, ttl_ms >= 1);
    return wants ? ttl_ms : 0;
}

static void the_margin_is_a_hundredth_and_never_more_than_half(void **state)
{
    static const struct {
        int64_t ttl_ms;
        int64_t margin_us;
    } cases[] = {
        {1, 500},    {2, 1000},     {9, 4500},
        {10, 5000},  {11, 5000},    {500, 5000},
        {501, 5010}, {5000, 50000}, {RQL_TTL_MAX_MS, RQL_TTL_MAX_MS * 10},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        print_message("# ttl %lld\n", (long long)cases[i].ttl_ms);
        assert_int_equal(rqli_lease_margin_us(cases[i].ttl_ms), cases[i].margin_us);
    }
}

static void a_plain_lease_is_held_up_to_its_margin(void **state)
{
    const struct rqli_lease lease = plain(5000);

    (void)state;
    check_state(&lease, 0, RQL_HELD);
    check_state(&lease, 4949999, RQL_HELD);
    check_state(&lease, 4950000, RQL_GONE);
    assert_int_equal(rqli_lease_remaining_ms(&lease, BEGUN_US), 4950);
    assert_int_equal(rqli_lease_remaining_ms(&lease, BEGUN_US + 4949000), 1);
    assert_int_equal(rqli_lease_remaining_ms(&lease, BEGUN_US + 4949001), 0);
    assert_int_equal(rqli_lease_remaining_ms(&lease, BEGUN_US + 9000000), 0);
    assert_int_equal(due_at(&lease), 4950000);
    assert_int_equal(wanted_ms(&lease, 4949999), 0);
}

static void what_the_server_left_counts_not_what_was_asked_for(void **state)
{
    static const struct {
        int64_t left_ms;
        int64_t deadline_us;
    } cases[] = {
        {700, 693000},
        {1, 500},
        {0, 0},
        {-1, -500},
        {INT64_MAX, RQL_TTL_MAX_MS * 990}, /* a server may say anything */
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct rqli_lease_terms terms = terms_of(5000);
        struct rqli_lease lease;

        print_message("# left %lld\n", (long long)cases[i].left_ms);
        terms.left_ms = cases[i].left_ms;
        rqli_lease_init(&lease, &terms);
        check_state(&lease, cases[i].deadline_us - 1, RQL_HELD);
        check_state(&lease, cases[i].deadline_us, RQL_GONE);
    }
}

static void renewal_is_due_at_a_third_and_late_at_two(void **state)
{
    struct rqli_lease lease = renewed(3000, RQL_FOREVER);

    (void)state;
    assert_int_equal(due_at(&lease), 1000000);
    assert_int_equal(wanted_ms(&lease, 999999), 0);
    assert_int_equal(wanted_ms(&lease, 1000000), 3000);
    check_state(&lease, 1999999, RQL_HELD);
    check_state(&lease, 2000000, RQL_DOUBTFUL);
    check_state(&lease, 2969999, RQL_DOUBTFUL);
    check_state(&lease, 2970000, RQL_GONE);
    rqli_lease_on_extended(&lease, BEGUN_US + 2100000, 3000);
    check_state(&lease, 2500000, RQL_HELD);
    assert_int_equal(due_at(&lease), 3100000);
    check_state(&lease, 4100000, RQL_DOUBTFUL);
    check_state(&lease, 5070000, RQL_GONE);
}

static void a_short_rest_is_told_before_it_would_be_renewed(void **state)
{
    struct rqli_lease_terms terms = terms_of(3000);
    struct rqli_lease lease;

    (void)state;
    terms.left_ms = 500;
    terms.renews = true;
    rqli_lease_init(&lease, &terms);
    assert_int_equal(due_at(&lease), 495000);
}

static void a_hand_over_is_claimed_for_what_the_grant_was_for(void **state)
{
    struct rqli_lease lease = handed_over(60000, false);

    (void)state;
    assert_int_equal(due_at(&lease), 333333);
    assert_int_equal(wanted_ms(&lease, 333332), 0);
    assert_int_equal(wanted_ms(&lease, 333333), 59666);
    check_state(&lease, 666665, RQL_HELD);
    check_state(&lease, 666666, RQL_DOUBTFUL);
    check_state(&lease, 990000, RQL_GONE);
    rqli_lease_on_extended(&lease, BEGUN_US + 400000, 59666);
    assert_true(lease.is_claimed);
    check_state(&lease, 59000000, RQL_HELD);
    assert_int_equal(due_at(&lease), 400000 + 59666000 - 596660);
    assert_int_equal(wanted_ms(&lease, 50000000), 0);
}

static void a_claim_of_a_renewed_lease_is_a_renewal(void **state)
{
    struct rqli_lease lease = handed_over(60000, true);

    (void)state;
    assert_int_equal(wanted_ms(&lease, 333333), 60000);
    rqli_lease_on_extended(&lease, BEGUN_US + 400000, 60000);
    assert_int_equal(due_at(&lease), 20400000);
}

static void a_claim_that_came_too_late_is_not_made(void **state)
{
    const struct rqli_lease lease = handed_over(900, false);

    (void)state;
    assert_int_equal(wanted_ms(&lease, 899000), 1);
    assert_int_equal(wanted_ms(&lease, 899001), 0);
}

static void renewal_ends_with_max_hold(void **state)
{
    struct rqli_lease lease = renewed(3000, 5000);

    (void)state;
    assert_int_equal(wanted_ms(&lease, 1000000), 3000);
    assert_int_equal(wanted_ms(&lease, 2500000), 2500);
    rqli_lease_on_extended(&lease, BEGUN_US + 2500000, 2500);
    assert_int_equal(wanted_ms(&lease, 4999000), 1);
    assert_int_equal(wanted_ms(&lease, 4999001), 0);
    rqli_lease_stop_renewal(&lease);
    assert_int_equal(due_at(&lease), 4975000);
    check_state(&lease, 4974999, RQL_HELD);
    check_state(&lease, 4975000, RQL_GONE);
}

static void a_setback_is_tried_again_after_a_pause(void **state)
{
    static const struct {
        int64_t ttl_ms;
        int64_t pause_us;
    } cases[] = {{60000, 3000000}, {1000, 50000}, {420, 21000}, {400, 20000}, {100, 20000}};

    struct rqli_lease unclaimed = handed_over(60000, false);

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct rqli_lease lease = renewed(cases[i].ttl_ms, RQL_FOREVER);

        print_message("# ttl %lld\n", (long long)cases[i].ttl_ms);
        rqli_lease_on_setback(&lease, BEGUN_US + 5000);
        assert_int_equal(lease.renew_us, BEGUN_US + 5000 + cases[i].pause_us);
        check_state(&lease, cases[i].ttl_ms * 990 - 5000, RQL_DOUBTFUL);
    }
    rqli_lease_on_setback(&unclaimed, BEGUN_US + 400000);
    assert_int_equal(due_at(&unclaimed), 450000);
}

static void a_doubt_is_verified_at_once(void **state)
{
    struct rqli_lease lease = plain(5000);

    (void)state;
    rqli_lease_on_doubt(&lease, BEGUN_US + 1000000);
    check_state(&lease, 1000000, RQL_DOUBTFUL);
    assert_int_equal(due_at(&lease), 1000000);
    assert_int_equal(wanted_ms(&lease, 1000000), 3950); /* no more than we believe in */
    rqli_lease_on_extended(&lease, BEGUN_US + 1000100, 3950);
    check_state(&lease, 1100000, RQL_HELD);
    assert_int_equal(due_at(&lease), 1000100 + 3950000 - 39500);
    assert_int_equal(wanted_ms(&lease, 2000000), 0);
}

/* The server may have answered it before its clock jumped. */
static void an_answer_to_an_earlier_question_settles_no_doubt(void **state)
{
    struct rqli_lease lease = renewed(5000, RQL_FOREVER);

    (void)state;
    rqli_lease_on_doubt(&lease, BEGUN_US + 1800000);
    rqli_lease_on_extended(&lease, BEGUN_US + 1799999, 5000);
    check_state(&lease, 1900000, RQL_DOUBTFUL);
    assert_int_equal(due_at(&lease), 1800000);
    rqli_lease_on_doubt(&lease, BEGUN_US + 2000000); /* and it jumps again */
    rqli_lease_on_extended(&lease, BEGUN_US + 1999999, 5000);
    check_state(&lease, 2000000, RQL_DOUBTFUL);
    rqli_lease_on_extended(&lease, BEGUN_US + 2000000, 5000);
    check_state(&lease, 2100000, RQL_HELD);
    assert_int_equal(due_at(&lease), 2000000 + 1666666);
}

/* The leases' thread and the caller extend over connections of their own. */
static void an_overtaken_answer_takes_nothing_back(void **state)
{
    struct rqli_lease lease = handed_over(5000, false);

    (void)state;
    rqli_lease_on_extended(&lease, BEGUN_US + 400000, 60000);
    rqli_lease_on_extended(&lease, BEGUN_US + 350000, 4650);
    assert_int_equal(due_at(&lease), 400000 + 59400000);
    rqli_lease_on_extended(&lease, BEGUN_US + 400000, 50000);
    assert_int_equal(due_at(&lease), 400000 + 49500000);
}

static void a_shortening_never_lengthens_and_outlives_what_was_sent_before(void **state)
{
    struct rqli_lease lease = plain(30000);

    (void)state;
    rqli_lease_on_shortened(&lease, BEGUN_US + 1000000, 5000);
    assert_int_equal(due_at(&lease), 5950000);
    rqli_lease_on_shortened(&lease, BEGUN_US + 2000000, 60000);
    assert_int_equal(due_at(&lease), 5950000);
    rqli_lease_on_extended(&lease, BEGUN_US + 1999999, 30000);
    assert_int_equal(due_at(&lease), 5950000);
    rqli_lease_on_shortened(&lease, BEGUN_US + 1000000, 6000); /* overtaken itself */
    rqli_lease_on_extended(&lease, BEGUN_US + 1999999, 30000);
    assert_int_equal(due_at(&lease), 5950000);
    rqli_lease_on_extended(&lease, BEGUN_US + 2000000, 30000);
    assert_int_equal(due_at(&lease), 31700000);
}

static void what_is_gone_stays_gone(void **state)
{
    struct rqli_lease lease = renewed(5000, RQL_FOREVER);

    (void)state;
    rqli_lease_on_gone(&lease);
    check_state(&lease, 1, RQL_GONE);
    rqli_lease_on_extended(&lease, BEGUN_US + 1, 5000);
    rqli_lease_on_doubt(&lease, BEGUN_US + 1);
    rqli_lease_on_setback(&lease, BEGUN_US + 1);
    check_state(&lease, 2, RQL_GONE);
    assert_int_equal(wanted_ms(&lease, 4000000), 0);
    assert_int_equal(rqli_lease_remaining_ms(&lease, BEGUN_US + 2), 0);
}

static void a_loss_is_due_at_once_until_it_is_told(void **state)
{
    struct rqli_lease lease = plain(5000);

    (void)state;
    rqli_lease_on_gone(&lease);
    assert_int_equal(rqli_lease_due_us(&lease), 0);
    lease.is_reported = true;
    assert_int_equal(rqli_lease_due_us(&lease), RQLI_NEVER_US);
}

static void without_renewal_it_ends_by_its_ttl(void **state)
{
    struct rqli_lease lease = renewed(3000, RQL_FOREVER);

    (void)state;
    rqli_lease_stop_renewal(&lease);
    check_state(&lease, 2969999, RQL_HELD);
    check_state(&lease, 2970000, RQL_GONE);
    assert_int_equal(due_at(&lease), 2970000);
    assert_int_equal(wanted_ms(&lease, 2900000), 0);
    rqli_lease_on_extended(&lease, BEGUN_US + 1000000, 3000); /* by the caller */
    assert_int_equal(due_at(&lease), 3970000);
    assert_int_equal(wanted_ms(&lease, 3900000), 0);
}

/* The same, computed anew for each question from what has happened. */
struct model {
    struct rqli_lease_terms terms;
    int64_t from_us; /* of the last grant or extension */
    int64_t left_ms;
    int64_t pause_end_us; /* of a setback since then, or -1 */
    int64_t doubted_us;   /* not settled, or -1 */
    bool is_gone;
};

static bool is_paced(const struct model *model)
{
    return model->terms.renews || !model->terms.is_claimed;
}

static int64_t third_us(const struct model *model)
{
    return (model->terms.is_claimed ? model->terms.ttl_ms : 1000) * 1000 / 3;
}

static int64_t model_end(const struct model *model)
{
    int64_t margin_us = model->left_ms * 1000 / 100;

    margin_us = margin_us > 5000 ? margin_us : 5000;
    margin_us = margin_us > model->left_ms * 500 ? model->left_ms * 500 : margin_us;
    return model->from_us + model->left_ms * 1000 - margin_us;
}

static rql_lock_state model_state(const struct model *model, int64_t now_us)
{
    if (model->is_gone || now_us >= model_end(model)) {
        return RQL_GONE;
    }
    if (model->doubted_us >= 0 ||
        (is_paced(model) && now_us >= model->from_us + 2 * third_us(model))) {
        return RQL_DOUBTFUL;
    }
    return RQL_HELD;
}

static int64_t model_renewal(const struct model *model)
{
    if (model->pause_end_us >= 0) {
        return model->pause_end_us;
    }
    if (model->doubted_us >= 0) {
        return model->doubted_us;
    }
    return is_paced(model) ? model->from_us + third_us(model) : RQLI_NEVER_US;
}

static int64_t model_wants(const struct model *model, int64_t now_us)
{
    int64_t hold_end_us = BEGUN_US + model->terms.max_hold_ms * 1000;
    int64_t end_us = model_end(model);

    if (model->is_gone || now_us < model_renewal(model)) {
        return 0;
    }
    if (!model->terms.renews && !model->terms.is_claimed) {
        end_us = BEGUN_US + model->terms.ttl_ms * 1000;
    }
    if (model->terms.renews) {
        end_us = now_us + model->terms.ttl_ms * 1000;
        end_us = model->terms.max_hold_ms >= 0 && end_us > hold_end_us ? hold_end_us : end_us;
    }
    return end_us > now_us ? (end_us - now_us) / 1000 : 0;
}

static void extend_both(struct model *model, struct rqli_lease *lease, int64_t sent_us,
                        int64_t left_ms)
{
    rqli_lease_on_extended(lease, sent_us, left_ms);
    if (model->is_gone || sent_us < model->from_us) {
        return;
    }
    model->from_us = sent_us;
    model->left_ms = left_ms;
    model->pause_end_us = -1;
    model->terms.is_claimed = true;
    model->doubted_us = sent_us < model->doubted_us ? model->doubted_us : -1;
}

static void set_back_both(struct model *model, struct rqli_lease *lease, int64_t now_us)
{
    int64_t pause_us = (model->terms.is_claimed ? model->terms.ttl_ms : 1000) * 50;

    rqli_lease_on_setback(lease, now_us);
    model->pause_end_us = now_us + (pause_us > 20000 ? pause_us : 20000);
}

static void doubt_both(struct model *model, struct rqli_lease *lease, int64_t now_us)
{
    rqli_lease_on_doubt(lease, now_us);
    if (!model->is_gone) {
        model->doubted_us = now_us;
        model->pause_end_us = -1;
    }
}

static void happen(struct model *model, struct rqli_lease *lease, uint32_t *seed, int64_t now_us)
{
    switch (chance_below(seed, 24)) {
    case 0:
        rqli_lease_on_gone(lease);
        model->is_gone = true;
        break;
    case 1:
    case 2:
        doubt_both(model, lease, now_us);
        break;
    case 3:
    case 4:
    case 5:
        set_back_both(model, lease, now_us);
        break;
    case 6:
    case 7:
    case 8:
    case 9:
        extend_both(model, lease, now_us - chance_below(seed, 300000),
                    1 + chance_below(seed, 8000));
        break;
    default:
        break;
    }
}

static void compare(const struct model *model, const struct rqli_lease *lease, int64_t now_us)
{
    rql_lock_state expected = model_state(model, now_us);
    int64_t renewal_us = model_renewal(model);
    int64_t end_us = model_end(model);

    assert_int_equal(rqli_lease_state(lease, now_us), expected);
    assert_int_equal(rqli_lease_remaining_ms(lease, now_us),
                     expected == RQL_GONE ? 0 : (end_us - now_us) / 1000);
    assert_int_equal(wanted_ms(lease, now_us - BEGUN_US), model_wants(model, now_us));
    if (!model->is_gone) {
        assert_int_equal(rqli_lease_due_us(lease), renewal_us < end_us ? renewal_us : end_us);
    }
}

static void live(uint32_t *seed)
{
    struct rqli_lease_terms terms = terms_of(1 + chance_below(seed, 8000));
    struct model model;
    struct rqli_lease lease;
    int64_t now_us = BEGUN_US;

    terms.renews = chance_below(seed, 2) > 0;
    terms.is_claimed = chance_below(seed, 2) > 0;
    terms.left_ms = terms.is_claimed ? terms.ttl_ms : 1000;
    terms.max_hold_ms = chance_below(seed, 2) ? RQL_FOREVER : (int64_t)chance_below(seed, 9000);
    model = (struct model){terms, BEGUN_US, terms.left_ms, -1, -1, false};
    rqli_lease_init(&lease, &terms);
    for (int i = 0; i < N_EVENTS; i++) {
        compare(&model, &lease, now_us);
        now_us += chance_below(seed, 400000);
        compare(&model, &lease, now_us);
        happen(&model, &lease, seed, now_us);
    }
}

static void every_life_is_that_of_the_model(void **state)
{
    uint32_t *seed = *state;

    for (int i = 0; i < N_LIVES; i++) {
        live(seed);
    }
}

static int say_seed(void **state)
{
    print_message("# last seed %u\n", (unsigned)*(uint32_t *)*state);
    return 0;
}

/* What its host may be taken for dead at bounds it as its own deadline does. */
static void it_ends_with_its_host(void **state)
{
    struct rqli_lease lease = plain(10000);

    (void)state;
    assert_int_equal(rqli_lease_end_us(&lease), lease.deadline_us);
    lease.host_end_us = BEGUN_US + 2000000;
    assert_int_equal(rqli_lease_end_us(&lease), lease.host_end_us);
    assert_int_equal(rqli_lease_due_us(&lease), lease.host_end_us);
    assert_int_equal(rqli_lease_remaining_ms(&lease, BEGUN_US + 500000), 1500);
    check_state(&lease, 1999999, RQL_HELD);
    check_state(&lease, 2000000, RQL_GONE);
    lease.host_end_us = lease.deadline_us + 1;
    check_state(&lease, 2000000, RQL_HELD);
    assert_int_equal(rqli_lease_end_us(&lease), lease.deadline_us);
}

static void a_doubt_is_not_left_open_for_a_share_of_a_long_ttl(void **state)
{
    struct rqli_lease lease = plain(86400000);

    (void)state;
    rqli_lease_on_doubt(&lease, BEGUN_US);
    rqli_lease_on_setback(&lease, BEGUN_US);
    assert_int_equal(rqli_lease_due_us(&lease), BEGUN_US + 1000000);
}

int main(void)
{
    uint32_t seed = 2463534242U;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_margin_is_a_hundredth_and_never_more_than_half),
        cmocka_unit_test(a_plain_lease_is_held_up_to_its_margin),
        cmocka_unit_test(what_the_server_left_counts_not_what_was_asked_for),
        cmocka_unit_test(renewal_is_due_at_a_third_and_late_at_two),
        cmocka_unit_test(a_short_rest_is_told_before_it_would_be_renewed),
        cmocka_unit_test(a_hand_over_is_claimed_for_what_the_grant_was_for),
        cmocka_unit_test(a_claim_of_a_renewed_lease_is_a_renewal),
        cmocka_unit_test(a_claim_that_came_too_late_is_not_made),
        cmocka_unit_test(renewal_ends_with_max_hold),
        cmocka_unit_test(a_setback_is_tried_again_after_a_pause),
        cmocka_unit_test(a_doubt_is_verified_at_once),
        cmocka_unit_test(an_answer_to_an_earlier_question_settles_no_doubt),
        cmocka_unit_test(an_overtaken_answer_takes_nothing_back),
        cmocka_unit_test(a_shortening_never_lengthens_and_outlives_what_was_sent_before),
        cmocka_unit_test(what_is_gone_stays_gone),
        cmocka_unit_test(it_ends_with_its_host),
        cmocka_unit_test(a_doubt_is_not_left_open_for_a_share_of_a_long_ttl),
        cmocka_unit_test(a_loss_is_due_at_once_until_it_is_told),
        cmocka_unit_test(without_renewal_it_ends_by_its_ttl),
        cmocka_unit_test_prestate_setup_teardown(every_life_is_that_of_the_model, NULL, say_seed,
                                                 &seed),
    };

    return cmocka_run_group_tests_name("lease", tests, NULL, NULL);
}
