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

/* A name may have 512 bytes. */
TEST(a_line_that_is_too_long_keeps_its_beginning_and_its_end)
{
    static const char why[] = ": not acquired: it is held; held by web-3 worker[814]";
    char name[RQL_NAME_MAX + 1];
    rql_error error;

    for (size_t length = 1; length <= RQL_NAME_MAX; length++) {
        for (size_t shift = 0; shift < 2; shift++) {
            for (size_t i = 0; i < length; i++) {
                name[i] = "\xC3\xA9"[(i + shift) % 2]; /* as UTF-8, or cut at its beginning */
            }
            name[length] = '\0';
            (void)rqli_fail(&error, RQL_TIMED_OUT, "%s%s", name, why);
            assert_memory_equal(error.message, name, length < 90 ? length : 90);
            assert_string_equal(error.message + strlen(error.message) - strlen(why), why);
            if (strlen(name) + strlen(why) >= sizeof error.message) {
                assert_non_null(strstr(error.message, "..."));
                assert_true((strstr(error.message, "...") - error.message + (ptrdiff_t)shift) % 2 ==
                            0);
            }
        }
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
