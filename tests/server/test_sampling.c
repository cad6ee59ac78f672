#include "fixture.h"

/* Who is told: sampled once for each acquisition, and nobody is asked when nobody listens. */

enum { MANY = 300 };

struct counts {
    int lines;
    int events;
    int asked;
    bool answer;
    int64_t percent;
};

static struct counts counts;
static rql_options options;
static rql_client *client;

static void count_line(const rql_log_record *record, void *user_data)
{
    (void)record;
    ((struct counts *)user_data)->lines++;
}

static void count_event(const rql_event *event, void *user_data)
{
    (void)event;
    ((struct counts *)user_data)->events++;
}

static bool count_asked(int64_t percent, void *user_data)
{
    struct counts *self = user_data;

    self->asked++;
    self->percent = percent;
    return self->answer;
}

static int set_up(void **state)
{
    (void)state;
    ask("FLUSHALL");
    counts = (struct counts){0};
    options = client_options();
    options.logger = count_line;
    options.logger_data = &counts;
    options.instrumenter = count_event;
    options.instrumenter_data = &counts;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    client = rql_client_free(client);
    return 0;
}

static void sample(int64_t percent)
{
    options.log_sampling_enabled = true;
    options.log_sampling_percent = percent;
    options.instr_sampling_enabled = true;
    options.instr_sampling_percent = percent;
}

static void sample_with_function(void)
{
    sample(15);
    options.log_sampler = count_asked;
    options.log_sampler_data = &counts;
    options.instr_sampler = count_asked;
    options.instr_sampler_data = &counts;
}

/* Four lines and two events, if all is told. */
static void take_and_release(const rql_lock_options *of_call)
{
    CHECK_OK(rql_lock_release(hold_with(client, "x", of_call), NULL));
}

static void without_sampling_all_is_told(void **state)
{
    (void)state;
    client = new_client_with(&options);
    take_and_release(NULL);
    assert_int_equal(counts.lines, 4);
    assert_int_equal(counts.events, 2);
}

/* What it has been told of before its block. */
static int look_in_block(rql_lock *lock, void *data)
{
    (void)lock;
    *(struct counts *)data = counts;
    return 0;
}

static void a_block_is_told_of_as_it_goes(void **state)
{
    struct counts before = {0};
    rql_block block = {.run = look_in_block, .user_data = &before};

    (void)state;
    client = new_client_with(&options);
    CHECK_OK(rql_with_lock(client, "x", NULL, &block, NULL));
    assert_int_equal(before.lines, 3);
    assert_int_equal(before.events, 1);
    assert_int_equal(counts.lines, 4);
    assert_int_equal(counts.events, 2);
}

static void a_hundred_percent_is_all(void **state)
{
    (void)state;
    sample(100);
    client = new_client_with(&options);
    for (int i = 0; i < MANY; i++) {
        take_and_release(NULL);
    }
    assert_int_equal(counts.lines, 4 * MANY);
    assert_int_equal(counts.events, 2 * MANY);
}

/* The gem's 0 is one of 101. More than 40 of 300 does not happen in the life of the universe. */
static void no_percent_is_nearly_nothing(void **state)
{
    (void)state;
    sample(0);
    client = new_client_with(&options);
    for (int i = 0; i < MANY; i++) {
        take_and_release(NULL);
    }
    assert_true(counts.lines < 40 * 4);
    assert_true(counts.events < 40 * 2);
    assert_int_equal(counts.lines % 4, 0); /* the whole life, or nothing of it */
    assert_int_equal(counts.events % 2, 0);
}

static void an_own_sampler_is_asked_once_for_a_life(void **state)
{
    (void)state;
    sample_with_function();
    client = new_client_with(&options);
    take_and_release(NULL);
    assert_int_equal(counts.asked, 2);
    assert_int_equal(counts.percent, 15);
    assert_int_equal(counts.lines, 0);
    assert_int_equal(counts.events, 0);
    counts.answer = true;
    take_and_release(NULL);
    assert_int_equal(counts.asked, 4);
    assert_int_equal(counts.lines, 4);
    assert_int_equal(counts.events, 2);
}

static void what_is_wanted_anyway_is_not_sampled(void **state)
{
    rql_lock_options of_call;

    (void)state;
    sample_with_function();
    client = new_client_with(&options);
    rql_lock_options_init(client, &of_call);
    of_call.log_sample_this = true;
    of_call.instr_sample_this = true;
    take_and_release(&of_call);
    assert_int_equal(counts.asked, 0);
    assert_int_equal(counts.lines, 4);
    assert_int_equal(counts.events, 2);
}

static void a_series_is_sampled_as_one(void **state)
{
    static const char *const names[] = {"a", "b"};
    rql_series_options of_call;
    rql_series *series = NULL;

    (void)state;
    sample_with_function();
    client = new_client_with(&options);
    rql_series_options_init(&of_call);
    of_call.names = names;
    of_call.n_names = 2;
    for (of_call.mode = RQL_SERIES_ATOMIC; of_call.mode <= RQL_SERIES_GEM; of_call.mode++) {
        counts.asked = 0;
        counts.answer = of_call.mode == RQL_SERIES_GEM;
        CHECK_OK(rql_series_acquire(client, &of_call, &series, NULL));
        CHECK_OK(rql_series_release(series, NULL, NULL));
        assert_int_equal(counts.asked, 2);
    }
    assert_int_equal(counts.lines, 9); /* 1 of the series, 3 of each lock, 1 and 1 of the series */
    assert_int_equal(counts.events, 4);
}

static void calls_for_operators_are_sampled_each(void **state)
{
    (void)state;
    sample_with_function();
    client = new_client_with(&options);
    CHECK_OK(rql_force_unlock(client, "x", NULL, NULL));
    assert_int_equal(counts.asked, 1); /* they have events only */
    assert_int_equal(counts.events, 0);
    counts.answer = true;
    CHECK_OK(rql_clear_locks(client, NULL, NULL, NULL));
    assert_int_equal(counts.asked, 2);
    assert_int_equal(counts.events, 1);
}

static void nobody_is_asked_when_nobody_listens(void **state)
{
    (void)state;
    sample_with_function();
    options.logger = NULL;
    options.instrumenter = NULL;
    client = new_client_with(&options);
    take_and_release(NULL);
    CHECK_OK(rql_force_unlock(client, "x", NULL, NULL));
    CHECK_OK(rql_clear_locks(client, NULL, NULL, NULL));
    assert_int_equal(counts.asked, 0);
    assert_int_equal(counts.lines, 0);
    assert_int_equal(counts.events, 0);
}

static void one_call_may_have_listeners_of_its_own(void **state)
{
    struct counts own = {0};
    rql_lock_options of_call;

    (void)state;
    client = new_client_with(&options);
    rql_lock_options_init(client, &of_call);
    of_call.logger_data = &own;
    of_call.instrumenter = NULL;
    take_and_release(&of_call);
    assert_int_equal(own.lines, 4);
    assert_int_equal(counts.lines, 0);
    assert_int_equal(counts.events, 0);
    take_and_release(NULL);
    assert_int_equal(counts.lines, 4);
}

/* No mutex is held: the library can be called, with the same client. */
static void call_back(const rql_event *event, void *user_data)
{
    struct counts *self = user_data;
    rql_lock_options quiet;
    rql_lock *lock = NULL;
    rql_stats stats;

    self->events++;
    rql_lock_options_init(client, &quiet);
    quiet.instrumenter = NULL;
    quiet.logger = NULL;
    self->asked += rql_lock_acquire(client, "within", &quiet, &lock, NULL) == RQL_OK;
    self->asked += rql_lock_release(lock, NULL) == RQL_OK;
    self->asked += rql_client_stats(client, &stats) == RQL_OK;
    (void)event;
}

static void a_listener_may_call_the_library(void **state)
{
    (void)state;
    options.instrumenter = call_back;
    client = new_client_with(&options);
    take_and_release(NULL);
    assert_int_equal(counts.events, 2);
    assert_int_equal(counts.asked, 6);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_sampling_all_is_told),
        TEST(a_block_is_told_of_as_it_goes),
        TEST(a_hundred_percent_is_all),
        TEST(no_percent_is_nearly_nothing),
        TEST(an_own_sampler_is_asked_once_for_a_life),
        TEST(what_is_wanted_anyway_is_not_sampled),
        TEST(a_series_is_sampled_as_one),
        TEST(calls_for_operators_are_sampled_each),
        TEST(nobody_is_asked_when_nobody_listens),
        TEST(one_call_may_have_listeners_of_its_own),
        TEST(a_listener_may_call_the_library),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests_name("sampling", tests, start_server, stop_server);
}
