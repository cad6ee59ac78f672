#include "check.h"

#include <stdlib.h>

/* A program in C runs only the tests whose names match the pattern RQL_TEST_ONLY, in which `*` is any text. */
__attribute__((constructor)) static void choose(void)
{
    const char *pattern = getenv("RQL_TEST_ONLY");

    if (pattern) {
        cmocka_set_test_filter(pattern);
    }
}
