#include "check.h"

#include "base/error.h"

#include <errno.h>

TEST(a_fault_is_described)
{
    rql_error error = {0};

    assert_int_equal(rqli_fail(&error, RQL_E_SERVER, "%s: %d", "release", 7), RQL_E_SERVER);
    assert_int_equal(error.status, RQL_E_SERVER);
    assert_string_equal(error.message, "release: 7");
    assert_int_equal(rqli_fail(NULL, RQL_E_AUTH, "nobody listens"), RQL_E_AUTH);
    assert_int_equal(rqli_fail_nomem(&error), RQL_E_NOMEM);
    assert_int_equal(error.status, RQL_E_NOMEM);
    assert_string_not_equal(error.message, "release: 7");
    assert_int_equal(rqli_fail_nomem(NULL), RQL_E_NOMEM);
}

static void fail_with(const void *data)
{
    (void)rqli_fail(NULL, *(const rql_status *)data, "x");
}

TEST(every_fault_and_outcome_is_raised_and_keeps_errno_where_it_says_something)
{
    for (rql_status status = RQL_E_NOT_DURABLE; status <= RQL_CANCELLED; status++) {
        rql_error error = {.sys_errno = -1};
        bool tells = status == RQL_E_IO || status == RQL_E_UNKNOWN;

        errno = ECONNRESET;
        if (status == RQL_OK) {
            assert_true(aborts(fail_with, &status));
            continue;
        }
        assert_int_equal(rqli_fail(&error, status, "x"), status);
        assert_int_equal(error.sys_errno, tells ? ECONNRESET : 0);
    }
}

TEST(a_long_message_is_cut)
{
    struct {
        rql_error error;
        char behind[8];
    } room = {.behind = "behind"};

    char text[2 * RQL_ERROR_MESSAGE_SIZE];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(rqli_fail(&room.error, RQL_E_SERVER, "%s", text), RQL_E_SERVER);
    assert_int_equal(strlen(room.error.message), RQL_ERROR_MESSAGE_SIZE - 1);
    assert_string_equal(room.behind, "behind");
}

TEST(every_status_has_a_text_of_its_own)
{
    enum { LEAST = RQL_E_NOT_DURABLE, MOST = RQL_CANCELLED };

    for (int a = LEAST - 1; a <= MOST + 1; a++) {
        const char *text = rql_status_text((rql_status)a);

        assert_true(strlen(text) > 1);
        assert_int_equal(strcmp(text, "unknown status") == 0, a < LEAST || a > MOST);
        for (int b = LEAST; b < a && a <= MOST; b++) {
            assert_string_not_equal(text, rql_status_text((rql_status)b));
        }
    }
}
