#include "async_fixture.h"

enum { SHORT_VALID_MS = 400 };

/* A user whose password is changed while a client is connected. */

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
    _Atomic int *n_asked = data;

    (void)timeout_ms;
    (*n_asked)++;
    if (has_none) {
        return RQL_E_IO;
    }
    out->valid_ms = valid_ms;
    (void)snprintf(out->user, sizeof out->user, "app");
    (void)snprintf(out->password, sizeof out->password, "sesame%d", current);
    return RQL_OK;
}

/* To change a user's password ends none of its connections, so the test does. That of commands is
 * made anew by the next call; the one that listens may not be needed so soon. */
static void every_connection_asks_again(void **state)
{
    _Atomic int n_asked = 0;
    rql_options options = client_options();

    (void)state;
    options.credentials = give_current;
    options.credentials_data = &n_asked;
    change_password(1);
    client = new_client_with(&options);
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
    client = rql_client_free(client);
    expect_nothing_left("x");
}

static rql_client *client_that_asks(_Atomic int *n_asked)
{
    rql_options options = client_options();

    options.credentials = give_current;
    options.credentials_data = n_asked;
    change_password(1);
    ask("CONFIG RESETSTAT");
    ask("ACL LOG RESET");
    return new_client_with(&options);
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

static bool was_asked_twice(const void *n_asked)
{
    return *(const _Atomic int *)n_asked >= 2;
}

/* A login is renewed by who uses its connection. */
static void work_until(rql_client *asking, bool (*holds)(const void *data), const void *data)
{
    int64_t begun_us = wait_clock_us();

    while (!holds(data)) {
        CHECK_OK(rql_lock_release(hold(asking, "x"), NULL));
        if (wait_clock_us() - begun_us > AWAIT_MS * INT64_C(1000) * wait_slowness()) {
            fail_msg("it did not come to that in time");
        }
    }
}

/* By AUTH, with what is in force then. */
static void a_login_that_ends_is_renewed_on_its_connection(void **state)
{
    _Atomic int n_asked = 0;
    rql_client *asking;

    (void)state;
    valid_ms = SHORT_VALID_MS;
    asking = client_that_asks(&n_asked);
    CHECK_OK(rql_lock_release(hold(asking, "x"), NULL));
    change_password(2);
    work_until(asking, auth_was_said_twice, NULL);
    assert_int_equal(n_asked, 3);
    assert_int_equal(n_refused(), 0);
    assert_int_equal(n_connections(), 1);
    (void)rql_client_free(asking);
    valid_ms = 0;
}

/* It is said again a second later, and meanwhile all goes on. */
static void a_renewal_in_vain_is_tried_again(void **state)
{
    _Atomic int n_asked = 0;
    rql_client *asking;

    (void)state;
    valid_ms = SHORT_VALID_MS;
    asking = client_that_asks(&n_asked);
    CHECK_OK(rql_lock_release(hold(asking, "x"), NULL));
    has_none = true;
    work_until(asking, was_asked_twice, &n_asked);
    has_none = false;
    work_until(asking, auth_was_said, NULL);
    assert_int_equal(n_asked, 3);
    assert_int_equal(n_connections(), 1);
    (void)rql_client_free(asking);
    valid_ms = 0;
}

static void end_loop(void)
{
    close_loop();
    uv_close((uv_handle_t *)&budget, NULL);
    CHECK_OK(uv_run(&uv, UV_RUN_DEFAULT));
    CHECK_OK(uv_loop_close(&uv));
}

static void a_loop_renews_its_login_as_well(void **state)
{
    _Atomic int n_asked = 0;
    rql_client *asking;
    int64_t begun_us;

    (void)state;
    valid_ms = SHORT_VALID_MS;
    asking = client_that_asks(&n_asked);
    (void)open_loop_of(asking);
    begun_us = wait_clock_us();
    while (!auth_was_said_twice(NULL)) {
        struct asked asked = {.options = patient(asking), .releases = true};

        start_asking(&asked, "x");
        run_until(is_released, &asked);
        CHECK_OK(asked.release_status);
        assert_true(wait_clock_us() - begun_us < AWAIT_MS * INT64_C(1000) * wait_slowness());
    }
    assert_int_equal(n_refused(), 0);
    assert_int_equal(n_connections(), 1);
    end_loop();
    (void)rql_client_free(asking);
    valid_ms = 0;
}

/* One for commands, and the third for pushes. */
static bool listens_anew(const void *data)
{
    (void)data;
    return n_connections() >= 4;
}

/* Who is subscribed may not say AUTH. */
static bool listens_again(void *of)
{
    return listens_anew(of);
}

static void who_listens_connects_anew(void **state)
{
    _Atomic int n_asked = 0;
    rql_client *holding = new_client();
    rql_lock *held = hold(holding, "x");
    struct waiter waiter = {.name = "x", .releases = true};

    (void)state;
    valid_ms = SHORT_VALID_MS;
    waiter.client = client_that_asks(&n_asked);
    waiter.options = patient(waiter.client);
    waiter_start_as(&waiter, 1);
    assert_true(wait_until(listens_again, NULL, AWAIT_MS));
    CHECK_OK(rql_lock_release(held, NULL));
    CHECK_OK(waiter_join(&waiter));
    assert_int_equal(n_refused(), 0);
    (void)rql_client_free(waiter.client);
    (void)rql_client_free(holding);
    valid_ms = 0;
}

static void a_loop_that_listens_does_so_too(void **state)
{
    _Atomic int n_asked = 0;
    rql_client *holding = new_client();
    rql_lock *held = hold(holding, "x");
    rql_client *asking;
    struct asked asked = {.releases = true};

    (void)state;
    valid_ms = SHORT_VALID_MS;
    asking = client_that_asks(&n_asked);
    (void)open_loop_of(asking);
    asked.options = patient(asking);
    start_asking(&asked, "x");
    run_until(listens_anew, NULL);
    CHECK_OK(rql_lock_release(held, NULL));
    run_until(is_released, &asked);
    CHECK_OK(asked.release_status);
    end_loop();
    (void)rql_client_free(asking);
    (void)rql_client_free(holding);
    valid_ms = 0;
}

static rql_status give_none(rql_credentials *out, int64_t timeout_ms, void *data)
{
    (void)out;
    (void)timeout_ms;
    (void)data;
    return RQL_TIMED_OUT;
}

static void whoever_gets_none_is_told(void **state)
{
    rql_options options = client_options();
    rql_error error = {0};

    (void)state;
    options.credentials = give_none;
    client = new_client_with(&options);
    assert_int_equal(rql_client_connect(client, &error), RQL_E_AUTH);
    assert_non_null(strstr(error.message, "no credentials to log in with"));
    client = rql_client_free(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_connection_asks_again),
        cmocka_unit_test(whoever_gets_none_is_told),
        cmocka_unit_test(a_login_that_ends_is_renewed_on_its_connection),
        cmocka_unit_test(a_renewal_in_vain_is_tried_again),
        cmocka_unit_test(a_loop_renews_its_login_as_well),
        cmocka_unit_test(who_listens_connects_anew),
        cmocka_unit_test(a_loop_that_listens_does_so_too),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
