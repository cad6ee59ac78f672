#include "fixture.h"

#include <stdatomic.h>

/* A user whose password is changed while a client is connected. */

static _Atomic int current; /* number of the password */

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
    rql_client *client;

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
    (void)rql_client_free(client);
    expect_nothing_left("x");
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
    rql_client *client;

    (void)state;
    options.credentials = give_none;
    client = new_client_with(&options);
    assert_int_equal(rql_client_connect(client, &error), RQL_E_AUTH);
    assert_non_null(strstr(error.message, "no credentials to log in with"));
    (void)rql_client_free(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_connection_asks_again),
        cmocka_unit_test(whoever_gets_none_is_told),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
