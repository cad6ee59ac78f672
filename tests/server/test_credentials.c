#include "async_fixture.h"

enum { SHORT_VALID_MS = 400 };

/* A user whose password is changed while a client is connected. */

static _Atomic int n_asked;   /* how often give_current() was called */
static _Atomic int current;   /* number of the password */
static _Atomic int valid_ms;  /* 0: no end */
static _Atomic bool has_none; /* for now */

static void change_password(int number)
{
    current = number;
    ask("ACL SETUSER app reset on >sesame%d ~* &* +@all", number);
}

/* On whatever thread connects: it is one word that is read. */
static rql_status give_current(rql_credentials *out, int64_t timeout_ms, void *data)
{
    (void)timeout_ms;
    (void)data;
    n_asked++;
    if (has_none) {
        return RQL_E_IO;
    }
    out->valid_ms = valid_ms;
    (void)snprintf(out->user, sizeof out->user, "app");
    (void)snprintf(out->password, sizeof out->password, "sesame%d", current);
    return RQL_OK;
}

/* A client that asks for its credentials at each login, which is valid for a moment. */
static void set_up(void)
{
    rql_options options = client_options();

    n_asked = 0;
    valid_ms = SHORT_VALID_MS;
    has_none = false;
    options.credentials = give_current;
    change_password(1);
    ask("CONFIG RESETSTAT");
    ask("ACL LOG RESET");
    client = new_client_with(&options);
    other = new_client();
}

/* To change a user's password ends none of its connections, so the test does. That of commands is
 * made anew by the next call; the one that listens may not be needed so soon. */
TEST(every_connection_asks_again)
{
    valid_ms = 0;
    for (int number = 1; number <= 3; number++) {
        struct waiter waiter = {.client = client, .name = "x", .releases = true};
        rql_lock *held;
        int before = n_asked;

        change_password(number);
        ask("CLIENT KILL USER app");
        held = hold(client, "x");
        waiter.options = patient(client);
        waiter_start_as(&waiter, 1);
        CHECK_OK(rql_lock_release(held, NULL));
        CHECK_OK(waiter_join(&waiter));
        if (number > 1) {
            assert_true(n_asked >= before + 1);
        }
    }
    expect_nothing_left("x");
}

static size_t n_refused(void)
{
    redisReply *reply = ask_reply("ACL LOG");
    size_t count = reply->elements;

    freeReplyObject(reply);
    return count;
}

/* Made since the client was. */
static int64_t n_connections(void)
{
    redisReply *reply = ask_reply("INFO stats");
    const char *at = strstr(reply->str, "total_connections_received:");
    int64_t count = at ? strtoll(strchr(at, ':') + 1, NULL, 10) : -1;

    freeReplyObject(reply);
    return count;
}

static bool auth_was_said(const void *unused)
{
    (void)unused;
    return calls_of("auth") >= 1;
}

static bool auth_was_said_twice(const void *unused)
{
    (void)unused;
    return calls_of("auth") >= 2;
}

static bool was_asked_twice(const void *unused)
{
    (void)unused;
    return n_asked >= 2;
}

/* A login is renewed by who uses its connection. */
static void work_until(bool (*holds)(const void *data))
{
    int64_t begun_us = wait_clock_us();

    while (!holds(NULL)) {
        CHECK_OK(rql_lock_release(hold(client, "x"), NULL));
        if (wait_clock_us() - begun_us > AWAIT_MS * INT64_C(1000) * wait_slowness()) {
            fail_msg("it did not come to that in time");
        }
    }
}

/* By AUTH, with what is in force then. */
TEST(a_login_that_ends_is_renewed_on_its_connection)
{
    CHECK_OK(rql_lock_release(hold(client, "x"), NULL));
    change_password(2);
    work_until(auth_was_said_twice);
    assert_int_equal(n_asked, 3);
    assert_int_equal(n_refused(), 0);
    assert_int_equal(n_connections(), 1);
}

/* It is said again a second later, and meanwhile all goes on. */
TEST(a_renewal_in_vain_is_tried_again)
{
    CHECK_OK(rql_lock_release(hold(client, "x"), NULL));
    has_none = true;
    work_until(was_asked_twice);
    has_none = false;
    work_until(auth_was_said);
    assert_int_equal(n_asked, 3);
    assert_int_equal(n_connections(), 1);
}

TEST(a_loop_renews_its_login_as_well)
{
    int64_t begun_us = wait_clock_us();

    open_loop_of(client);
    while (!auth_was_said_twice(NULL)) {
        struct asked asked = {.options = patient(client), .releases = true};

        start_asking(&asked, "x");
        run_until(is_released, &asked);
        CHECK_OK(asked.release_status);
        assert_true(wait_clock_us() - begun_us < AWAIT_MS * INT64_C(1000) * wait_slowness());
    }
    assert_int_equal(n_refused(), 0);
    assert_int_equal(n_connections(), 1);
    end_loop();
}

/* A subscriber may not send AUTH, so it connects again. The server has then seen one connection for
 * commands and three for pushes. */
static bool listens_anew(const void *data)
{
    (void)data;
    return n_connections() >= 4;
}

static bool listens_again(void *of)
{
    return listens_anew(of);
}

static rql_lock *hold_by_another(void)
{
    rql_lock *held = hold(other, "x");

    ask("CONFIG RESETSTAT");
    return held;
}

TEST(who_listens_connects_anew)
{
    rql_lock *held = hold_by_another();
    struct waiter waiter = {
        .client = client, .name = "x", .options = patient(client), .releases = true};

    waiter_start_as(&waiter, 1);
    assert_true(wait_until(listens_again, NULL, AWAIT_MS));
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&waiter));
    assert_int_equal(n_refused(), 0);
}

TEST(a_loop_that_listens_does_so_too)
{
    rql_lock *held = hold_by_another();
    struct asked asked = {.options = patient(client), .releases = true};

    open_loop_of(client);
    start_asking(&asked, "x");
    run_until(listens_anew, NULL);
    CHECK_OK(rql_lock_release(held, NULL));
    run_until(is_released, &asked);
    CHECK_OK(asked.release_status);
    end_loop();
}

static rql_status give_none(rql_credentials *out, int64_t timeout_ms, void *data)
{
    (void)out;
    (void)timeout_ms;
    (void)data;
    return RQL_TIMED_OUT;
}

TEST(whoever_gets_none_is_told)
{
    rql_options options = client_options();
    rql_error error = {0};

    options.credentials = give_none;
    client = rql_client_free(client);
    client = new_client_with(&options);
    assert_int_equal(rql_client_connect(client, &error), RQL_E_AUTH);
    assert_non_null(strstr(error.message, "no credentials to log in with"));
}

FIXTURE(start_server, stop_server, set_up, free_clients);
