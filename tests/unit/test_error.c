#include "check.h"

#include "base/error.h"

#include <errno.h>

static void fail_with(const void *data)
{
    (void)rqli_fail(NULL, *(const rql_status *)data, "x");
}

TEST(every_fault_and_outcome_is_raised_and_keeps_errno_where_it_says_something)
{
    for (rql_status status = RQL_E_NOT_DURABLE; status <= RQL_QUEUE_FULL; status++) {
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

TEST(every_status_has_a_text_of_its_own)
{
    enum { LEAST = RQL_E_NOT_DURABLE, MOST = RQL_QUEUE_FULL };

    for (int a = LEAST - 1; a <= MOST + 1; a++) {
        const char *text = rql_status_text((rql_status)a);

        assert_true(strlen(text) > 1);
        assert_int_equal(strcmp(text, "unknown status") == 0, a < LEAST || a > MOST);
        for (int b = LEAST; b < a && a <= MOST; b++) {
            assert_string_not_equal(text, rql_status_text((rql_status)b));
        }
    }
}
