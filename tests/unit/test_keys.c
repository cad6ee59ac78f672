#include "check.h"

#include "script/keys.h"

static void check_slice(struct rqli_slice slice, const char *expected)
{
    assert_int_equal(slice.length, strlen(expected));
    assert_memory_equal(slice.data, expected, slice.length);
}

static void keys_carry_the_name_as_it_is(void **state)
{
    struct rqli_keys keys;

    (void)state;
    rqli_keys_init(&keys, "a:b {c}*");
    check_slice(keys.lock, "rql:lock:a:b {c}*");
    check_slice(keys.queue, "rql:lock_queue:a:b {c}*");
    check_slice(keys.requests, "rql:req:a:b {c}*");
}

static void the_longest_name_fits(void **state)
{
    char name[RQL_NAME_MAX + 1];
    char expected[RQL_NAME_MAX + 32];
    struct rqli_keys keys;

    (void)state;
    memset(name, 'n', RQL_NAME_MAX);
    name[RQL_NAME_MAX] = '\0';
    rqli_keys_init(&keys, name);
    (void)snprintf(expected, sizeof expected, "rql:lock:%s", name);
    check_slice(keys.lock, expected);
    (void)snprintf(expected, sizeof expected, "rql:lock_queue:%s", name);
    check_slice(keys.queue, expected);
    (void)snprintf(expected, sizeof expected, "rql:req:%s", name);
    check_slice(keys.requests, expected);
}

static void keys_can_be_built_again_in_the_same_place(void **state)
{
    struct rqli_keys keys;

    (void)state;
    rqli_keys_init(&keys, "a-long-name");
    rqli_keys_init(&keys, "b");
    check_slice(keys.lock, "rql:lock:b");
    check_slice(keys.queue, "rql:lock_queue:b");
    check_slice(keys.requests, "rql:req:b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_carry_the_name_as_it_is),
        cmocka_unit_test(the_longest_name_fits),
        cmocka_unit_test(keys_can_be_built_again_in_the_same_place),
    };

    return cmocka_run_group_tests_name("keys", tests, NULL, NULL);
}
