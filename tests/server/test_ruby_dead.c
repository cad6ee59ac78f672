#include "series_fixture.h"

#include "clients.h"
#include "dead.h"
#include "ruby.h"

/* Who has died in a queue of both: no living one of either kind waits for it longer than it must,
 * and nobody is overtaken because of it. */

enum {
    RUBY_POLL_US = (RUBY_DELAY_MS + RUBY_JITTER_MS) * 1000,
    SLACK_US = 300000, /* of a poll, on a busy machine */
    GRACE_US = 2000000,
    GRACE_MAX_US = 3000000, /* of all dead Rubies together */
    LONG_MS = 12000,
    N_DEAD_RUBIES = 5,
};

static rql_client *third;

static int set_up_three(void **state)
{
    int result = set_up(state);

    third = new_client();
    make_listen(client, other);
    make_listen(other, client);
    make_listen(third, client);
    return result;
}

static int tear_down_three(void **state)
{
    third = rql_client_free(third);
    return tear_down(state);
}

static struct ruby_waiter ruby_waiter_as(int number)
{
    struct ruby_waiter waiter = {.name = "x", .within_ms = LONG_MS};

    ruby_open(&waiter.ruby, number);
    return waiter;
}

static struct waiter waiter_of(rql_client *of)
{
    return (struct waiter){.client = of, .name = "x", .options = patient(of)};
}

/* What is known of the Rubies may stay for a while. */
static void check_nobody_waits(void)
{
    assert_int_equal(ask_int("ZCARD rql:lock_queue:x"), 0);
    assert_true(ask_int("EXISTS rql:req:x") == 0 || ask_int("PTTL rql:req:x") > 0);
}

/* `ruby` was next, `behind` comes after it, and nobody lost a time that counts. */
static void check_ruby_then_c(struct ruby_waiter *ruby, struct waiter *behind, int64_t freed_us,
                              const char *text)
{
    int64_t ruby_us;

    (void)ruby_waiter_join(ruby);
    CHECK_OK(waiter_join(behind));
    assert_true(ruby->has_it);
    ruby_us = ruby->granted_us - freed_us;
    print_message("# %s: Ruby after %lld us, the one behind after %lld us\n", text,
                  (long long)ruby_us, (long long)(behind->ended_us - freed_us));
    assert_true(ruby->granted_us < behind->ended_us);
    assert_true(ruby_us < GRACE_US);
    assert_true(ruby_us < RUBY_POLL_US + SLACK_US * wait_slowness());
    CHECK_OK(rql_lock_release(behind->lock, NULL));
    check_nobody_waits();
}

static void check_behind_dead_of_ours(const struct crowd *crowd)
{
    struct ruby_waiter ruby = ruby_waiter_as(1);
    struct waiter behind = waiter_of(third);
    rql_lock *held = hold(client, "x");
    int64_t freed_us;

    ruby.hold_ms = 20;
    plant_dead("x", crowd);
    ruby_waiter_start_as(&ruby, crowd->count + 1);
    waiter_start_as(&behind, crowd->count + 2);
    freed_us = wait_clock_us();
    CHECK_OK(rql_lock_release(held, NULL));
    check_ruby_then_c(&ruby, &behind, freed_us, crowd->text);
    ask("FLUSHALL");
}

static void a_ruby_behind_dead_of_ours_is_next(void **state)
{
    (void)state;
    check_behind_dead_of_ours(&(struct crowd){"a process killed just now", 1, DEAD_FRESH, false});
    check_behind_dead_of_ours(&(struct crowd){"a process killed long ago", 1, DEAD_SILENT, false});
    check_behind_dead_of_ours(&(struct crowd){"100 killed just now", 100, DEAD_FRESH, false});
    check_behind_dead_of_ours(&(struct crowd){"100 of one killed", 100, DEAD_FRESH, true});
    check_behind_dead_of_ours(&(struct crowd){"100 killed long ago", 100, DEAD_SILENT, false});
}

/* Nothing of ours frees the lock; the living one behind is told, or looks. */
static void a_ruby_behind_dead_of_ours_is_next_after_a_ruby(void **state)
{
    struct ruby_waiter ruby = ruby_waiter_as(1);
    struct waiter behind = waiter_of(third);
    struct ruby holder;
    int64_t freed_us;

    (void)state;
    ruby.hold_ms = 20;
    ruby_open(&holder, 2);
    assert_true(ruby_lock(&holder, "x", 60000, LONG_MS));
    plant_dead("x", &(struct crowd){"", 1, DEAD_FRESH, false});
    ruby_waiter_start_as(&ruby, 2);
    waiter_start_as(&behind, 3);
    freed_us = wait_clock_us();
    ruby_release(&holder, "x");
    (void)ruby_waiter_join(&ruby);
    CHECK_OK(waiter_join(&behind));
    print_message("# after a Ruby: Ruby after %lld us, the one behind after %lld us\n",
                  (long long)(ruby.granted_us - freed_us), (long long)(behind.ended_us - freed_us));
    assert_true(ruby.has_it);
    assert_true(ruby.granted_us < behind.ended_us);
    assert_true(ruby.granted_us - freed_us < GRACE_US + RUBY_POLL_US);
    CHECK_OK(rql_lock_release(behind.lock, NULL));
    ruby_close(&holder);
    check_nobody_waits();
}

/* One that lives and is not told of anything asks by itself: nobody can keep its turn for it, but
 * it comes back, and has one. */
static void who_lives_and_does_not_hear_is_served_too(void **state)
{
    struct ruby_waiter ruby = ruby_waiter_as(1);
    struct waiter behind = waiter_of(third);
    struct waiter unsubscribed;
    rql_options options = client_options();
    rql_client *limited;
    rql_lock *held = hold(client, "x");
    int64_t freed_us;
    char url[TEXT_SIZE];

    (void)state;
    ask("ACL SETUSER limited reset on >pw ~* &* +@all -subscribe");
    (void)snprintf(url, sizeof url, "unix://limited:pw@%s", server.socket_path);
    options.url = url;
    limited = new_client_with(&options);
    unsubscribed = waiter_of(limited);
    unsubscribed.releases = true;
    behind.releases = true;
    ruby.hold_ms = 20;
    waiter_start_as(&unsubscribed, 1);
    ruby_waiter_start_as(&ruby, 2);
    waiter_start_as(&behind, 3);
    freed_us = wait_clock_us();
    CHECK_OK(rql_lock_release(held, NULL));
    (void)ruby_waiter_join(&ruby);
    CHECK_OK(waiter_join(&behind));
    CHECK_OK(waiter_join(&unsubscribed));
    assert_true(ruby.has_it);
    assert_true(unsubscribed.ended_us - freed_us < GRACE_US);
    rql_client_free(limited);
    check_nobody_waits();
}

static void plant_dead_rubies(int count)
{
    for (int i = 0; i < count; i++) {
        ask("ZADD rql:lock_queue:x %lld.%06d rql:acq:30000/%d/620/640/bbbbbbbbbbbbbbb1",
            (long long)time(NULL) - 1, i, i);
    }
}

/* How long `waiter` needs for a lock that is free from now on. */
static int64_t time_to_grant(struct waiter *waiter, int64_t freed_us, const char *text)
{
    CHECK_OK(waiter_join(waiter));
    print_message("# %s: %lld us\n", text, (long long)(waiter->ended_us - freed_us));
    CHECK_OK(rql_lock_release(waiter->lock, NULL));
    check_nobody_waits();
    return waiter->ended_us - freed_us;
}

static void dead_rubies_cost_one_grace_together(void **state)
{
    struct waiter waiter = waiter_of(third);
    rql_lock *held = hold(client, "x");
    int64_t freed_us;
    int64_t took_us;

    (void)state;
    plant_dead_rubies(N_DEAD_RUBIES);
    waiter_start_as(&waiter, N_DEAD_RUBIES + 1);
    freed_us = wait_clock_us();
    CHECK_OK(rql_lock_release(held, NULL));
    took_us = time_to_grant(&waiter, freed_us, "5 dead Rubies");
    assert_true(took_us >= GRACE_US - 1000);
    assert_true(took_us < GRACE_MAX_US);
}

static void dead_rubies_cost_one_grace_with_many_who_wait(void **state)
{
    struct waiter waiter = waiter_of(third);
    struct waiter next = waiter_of(other);
    struct ruby holder;
    int64_t freed_us;

    (void)state;
    ruby_open(&holder, 2);
    assert_true(ruby_lock(&holder, "x", 60000, LONG_MS));
    plant_dead_rubies(20);
    waiter.releases = true;
    waiter_start_as(&waiter, 21);
    waiter_start_as(&next, 22);
    freed_us = wait_clock_us();
    ruby_release(&holder, "x");
    CHECK_OK(waiter_join(&waiter));
    assert_true(time_to_grant(&next, freed_us, "20 dead Rubies, two who wait") <
                GRACE_MAX_US + SLACK_US);
    assert_true(waiter.ended_us <= next.ended_us);
    ruby_close(&holder);
}

/* D of ours, dead Ruby, D, dead Ruby, ... */
static void dead_of_both_kinds_cost_one_grace_together(void **state)
{
    struct waiter waiter = waiter_of(third);
    rql_lock *held = hold(client, "x");
    int64_t freed_us;

    (void)state;
    plant_dead("x", &(struct crowd){"", N_DEAD_RUBIES, DEAD_FRESH, false});
    for (int i = 0; i < N_DEAD_RUBIES; i++) {
        freeReplyObject(redisCommand(raw, "EVAL %s 0 %d rql:acq:30000/%d/620/640/bbbbbbbbbbbbbbb1",
                                     "local score = redis.call('ZRANGE', 'rql:lock_queue:x', "
                                     "2 * ARGV[1], 2 * ARGV[1], 'WITHSCORES')[2] "
                                     "redis.call('ZADD', 'rql:lock_queue:x', "
                                     "string.format('%.7f', score + 0.0000005), ARGV[2])",
                                     i, i));
    }
    waiter_start_as(&waiter, 2 * N_DEAD_RUBIES + 1);
    freed_us = wait_clock_us();
    CHECK_OK(rql_lock_release(held, NULL));
    assert_true(time_to_grant(&waiter, freed_us, "5 dead Rubies among 5 dead of ours") <
                GRACE_MAX_US);
}

/* Those that live stand among the dead, and are not overtaken by ours behind all of them. (Of those
 * who come back the first to ask is the first.) */
static void living_rubies_among_dead_ones_are_next(void **state)
{
    struct ruby_waiter rubies[2] = {ruby_waiter_as(1), ruby_waiter_as(2)};
    struct waiter behind = waiter_of(third);
    rql_lock *held = hold(client, "x");
    int64_t freed_us;

    (void)state;
    plant_dead_rubies(2);
    for (int i = 0; i < 2; i++) {
        rubies[i].hold_ms = 20;
        ruby_waiter_start_as(&rubies[i], 3 + 2 * i);
        ask("ZADD rql:lock_queue:x %.6f rql:acq:30000/%d/620/640/bbbbbbbbbbbbbbb2", ruby_now(), i);
    }
    waiter_start_as(&behind, 7);
    freed_us = wait_clock_us();
    CHECK_OK(rql_lock_release(held, NULL));
    (void)ruby_waiter_join(&rubies[0]);
    (void)ruby_waiter_join(&rubies[1]);
    CHECK_OK(waiter_join(&behind));
    for (int i = 0; i < 2; i++) {
        print_message("# living Ruby %d: %lld us, the one behind %lld us\n", i,
                      (long long)(rubies[i].granted_us - freed_us),
                      (long long)(behind.ended_us - freed_us));
    }
    assert_true(rubies[0].has_it && rubies[1].has_it);
    assert_true(rubies[0].granted_us < behind.ended_us);
    assert_true(rubies[1].granted_us < behind.ended_us);
    assert_true(behind.ended_us - freed_us < 2 * GRACE_MAX_US);
    CHECK_OK(rql_lock_release(behind.lock, NULL));
    check_nobody_waits();
}

/* The grace is not begun anew by those who come while it runs. */
static void newcomers_do_not_prolong_the_grace(void **state)
{
    struct waiter waiter = waiter_of(third);
    struct waiter late[4];
    rql_lock *held = hold(client, "x");
    int64_t freed_us;

    (void)state;
    plant_dead_rubies(2);
    waiter.releases = true;
    waiter_start_as(&waiter, 3);
    freed_us = wait_clock_us();
    CHECK_OK(rql_lock_release(held, NULL));
    for (int i = 0; i < 4; i++) {
        ruby_sleep_ms(300);
        late[i] = waiter_of(i % 2 == 0 ? client : other);
        late[i].releases = true;
        waiter_start(&late[i]);
    }
    CHECK_OK(waiter_join(&waiter));
    for (int i = 0; i < 4; i++) {
        CHECK_OK(waiter_join(&late[i]));
    }
    assert_true(waiter.ended_us - freed_us < GRACE_MAX_US);
    assert_true(late[3].ended_us - freed_us < GRACE_MAX_US + SLACK_US * wait_slowness());
    check_nobody_waits();
}

/* It was at the head before, has had the lock, and is there once more. */
static void a_ruby_that_asks_again_has_its_while_again(void **state)
{
    struct ruby_waiter ruby = ruby_waiter_as(1);
    struct waiter between = waiter_of(other);
    struct waiter behind = waiter_of(third);
    rql_lock *held = hold(client, "x");
    int64_t freed_us;

    (void)state;
    ruby.hold_ms = 20;
    assert_false(ruby_try(&ruby.ruby, "x", 60000));
    waiter_start_as(&between, 2);
    CHECK_OK(rql_lock_release(held, NULL));
    freed_us = wait_clock_us();
    assert_true(ruby_try(&ruby.ruby, "x", 60000));
    ruby_release(&ruby.ruby, "x");
    CHECK_OK(waiter_join(&between));
    ruby_waiter_start_as(&ruby, 1);
    waiter_start_as(&behind, 2);
    ruby_sleep_ms((freed_us + GRACE_US - wait_clock_us()) / 1000 + 50);
    freed_us = wait_clock_us();
    CHECK_OK(rql_lock_release(between.lock, NULL));
    check_ruby_then_c(&ruby, &behind, freed_us, "a Ruby that asks again");
}

#define LONG_IDENTITY "0123456789abcdef0123456789abcdef"

static void a_ruby_with_a_long_identity_is_next(void **state)
{
    struct ruby_waiter ruby = {.name = "x", .within_ms = LONG_MS, .hold_ms = 20};
    struct waiter behind = waiter_of(third);
    rql_lock *held = hold(client, "x");
    int64_t freed_us;

    (void)state;
    ruby_open_as(&ruby.ruby, 1, LONG_IDENTITY);
    ruby_waiter_start_as(&ruby, 1);
    waiter_start_as(&behind, 2);
    freed_us = wait_clock_us();
    CHECK_OK(rql_lock_release(held, NULL));
    check_ruby_then_c(&ruby, &behind, freed_us, "identity of 32 digits");
}

struct worker {
    rql_client *client;
    pthread_t thread;
    int64_t until_us;
    bool has_failed;
};

static void *hand_over_again_and_again(void *data)
{
    struct worker *self = data;
    rql_lock_options options = patient(self->client);

    while (wait_clock_us() < self->until_us && !self->has_failed) {
        rql_lock *lock = NULL;

        self->has_failed = rql_lock_acquire(self->client, "x", &options, &lock, NULL) != RQL_OK;
        ruby_sleep_ms(10);
        self->has_failed = self->has_failed || rql_lock_release(lock, NULL) != RQL_OK;
    }
    return NULL;
}

static void a_ruby_with_a_long_identity_does_not_starve(void **state)
{
    struct worker workers[3] = {{.client = client}, {.client = other}, {.client = third}};
    struct ruby ruby;
    bool has_it;
    int64_t begun_us = wait_clock_us();

    (void)state;
    ruby_open_as(&ruby, 1, LONG_IDENTITY);
    for (int i = 0; i < 3; i++) {
        workers[i].until_us = begun_us + 6000000;
        assert_int_equal(
            pthread_create(&workers[i].thread, NULL, hand_over_again_and_again, &workers[i]), 0);
    }
    await_int(2, "ZCARD rql:lock_queue:x");
    begun_us = wait_clock_us();
    has_it = ruby_lock(&ruby, "x", 60000, 5000);
    print_message("# identity of 32 digits, beside three who hand over: %s after %lld us\n",
                  has_it ? "served" : "not served", (long long)(wait_clock_us() - begun_us));
    if (has_it) {
        ruby_release(&ruby, "x");
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_false(workers[i].has_failed);
    }
    ruby_close(&ruby);
    assert_true(has_it);
}

/* Dead, or of ours and robbed of its record: nobody can tell. */
static void an_id_without_a_record_has_one_grace(void **state)
{
    struct waiter waiter = waiter_of(third);
    rql_lock *held = hold(client, "x");
    int64_t freed_us;
    int64_t took_us;

    (void)state;
    plant_dead_rubies(1);
    for (int i = 0; i < 3; i++) {
        ask("ZADD rql:lock_queue:x %lld rql:acq:30000/%d/620/640/" LONG_IDENTITY,
            (long long)time(NULL) - 1, i);
    }
    waiter_start_as(&waiter, 5);
    freed_us = wait_clock_us();
    CHECK_OK(rql_lock_release(held, NULL));
    took_us = time_to_grant(&waiter, freed_us, "4 without a record");
    assert_true(took_us >= GRACE_US - 1000);
    assert_true(took_us < GRACE_MAX_US);
}

/* It puts both back by itself. */
static void a_living_waiter_whose_record_is_lost_keeps_its_place(void **state)
{
    struct waiter first = waiter_of(other);
    struct waiter second = waiter_of(third);
    rql_lock *held = hold(client, "x");

    (void)state;
    first.options.retry_delay_ms = 50;
    waiter_start_as(&first, 1);
    waiter_start_as(&second, 2);
    ask("DEL rql:req:x");
    await_int(2, "HLEN rql:req:x");
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&first));
    CHECK_OK(rql_lock_release(first.lock, NULL));
    CHECK_OK(waiter_join(&second));
    assert_true(first.token < second.token);
    CHECK_OK(rql_lock_release(second.lock, NULL));
    check_nobody_waits();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_three, tear_down_three)
        TEST(a_ruby_behind_dead_of_ours_is_next),
        TEST(a_ruby_behind_dead_of_ours_is_next_after_a_ruby),
        TEST(who_lives_and_does_not_hear_is_served_too),
        TEST(dead_rubies_cost_one_grace_together),
        TEST(dead_rubies_cost_one_grace_with_many_who_wait),
        TEST(dead_of_both_kinds_cost_one_grace_together),
        TEST(living_rubies_among_dead_ones_are_next),
        TEST(newcomers_do_not_prolong_the_grace),
        TEST(a_ruby_that_asks_again_has_its_while_again),
        TEST(a_ruby_with_a_long_identity_is_next),
        TEST(a_ruby_with_a_long_identity_does_not_starve),
        TEST(an_id_without_a_record_has_one_grace),
        TEST(a_living_waiter_whose_record_is_lost_keeps_its_place),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server_with_pattern, stop_server);
}
