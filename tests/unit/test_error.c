#include "check.h"

#include "aborts.h"
#include "base/error.h"

#include <errno.h>
#include <string.h>

static void a_fault_is_described(void **state)
{
    rql_error error = {0};

    (void)state;
    assert_int_equal(rqli_fail(&error, RQL_E_SERVER, "%s: %d", "release", 7), RQL_E_SERVER);
    assert_int_equal(error.status, RQL_E_SERVER);
    assert_string_equal(error.message, "release: 7");
    assert_int_equal(rqli_fail(NULL, RQL_E_AUTH, "nobody listens"), RQL_E_AUTH);
    assert_int_equal(rqli_fail_nomem(&error), RQL_E_NOMEM);
    assert_int_equal(error.status, RQL_E_NOMEM);
    assert_string_not_equal(error.message, "release: 7");
    assert_int_equal(rqli_fail_nomem(NULL), RQL_E_NOMEM);
}

static void errno_is_kept_where_it_says_something(void **state)
{
    (void)state;
    for (int status = RQL_E_UNSUPPORTED; status < 0; status++) {
        rql_error error = {.sys_errno = -1};
        bool tells = status == RQL_E_IO || status == RQL_E_UNKNOWN;

        errno = ECONNRESET;
        assert_int_equal(rqli_fail(&error, (rql_status)status, "x"), status);
        assert_int_equal(error.sys_errno, tells ? ECONNRESET : 0);
    }
}

static void a_long_message_is_cut(void **state)
{
    struct {
        rql_error error;
        char behind[8];
    } room = {.behind = "behind"};

    char text[2 * RQL_ERROR_MESSAGE_SIZE];

    (void)state;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(rqli_fail(&room.error, RQL_E_SERVER, "%s", text), RQL_E_SERVER);
    assert_int_equal(strlen(room.error.message), RQL_ERROR_MESSAGE_SIZE - 1);
    assert_string_equal(room.behind, "behind");
}

static void every_status_has_a_text_of_its_own(void **state)
{
    enum { LEAST = RQL_E_UNSUPPORTED, MOST = RQL_CANCELLED };

    (void)state;
    for (int a = LEAST; a <= MOST; a++) {
        const char *text = rql_status_text((rql_status)a);

        assert_true(strlen(text) > 1);
        assert_string_not_equal(text, "unknown status");
        for (int b = LEAST; b < a; b++) {
            assert_string_not_equal(text, rql_status_text((rql_status)b));
        }
    }
    assert_string_equal(rql_status_text((rql_status)(LEAST - 1)), "unknown status");
    assert_string_equal(rql_status_text((rql_status)(MOST + 1)), "unknown status");
}

static void fail_with(void *data)
{
    (void)rqli_fail(NULL, *(const rql_status *)data, "x");
}

static void only_faults_are_raised(void **state)
{
    rql_status ok = RQL_OK;
    rql_status outcome = RQL_TIMED_OUT;

    (void)state;
    assert_true(aborts(fail_with, &ok));
    assert_true(aborts(fail_with, &outcome));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fault_is_described),
        cmocka_unit_test(errno_is_kept_where_it_says_something),
        cmocka_unit_test(a_long_message_is_cut),
        cmocka_unit_test(every_status_has_a_text_of_its_own),
        cmocka_unit_test(only_faults_are_raised),
    };

    return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
