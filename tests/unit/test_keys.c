#include "check.h"

#include "wire/command.h"

#include <stdlib.h>

static void check_slice(struct rqli_slice slice, const char *expected)
{
    assert_int_equal(slice.length, strlen(expected));
    assert_memory_equal(slice.data, expected, slice.length);
}

static void keys_carry_the_name_as_it_is(void **state)
{
    char memory[RQLI_KEYS_ROOM];
    struct rqli_keys keys;

    (void)state;
    rqli_keys_init(&keys, memory, rqli_slice_of("a:b {c}*"));
    check_slice(keys.lock, "rql:lock:a:b {c}*");
    check_slice(keys.queue, "rql:lock_queue:a:b {c}*");
    check_slice(keys.requests, "rql:req:a:b {c}*");
}

static void the_longest_name_fits(void **state)
{
    char name[RQL_NAME_MAX + 1];
    char expected[RQL_NAME_MAX + 32];
    char memory[RQLI_KEYS_ROOM];
    struct rqli_keys keys;

    (void)state;
    memset(name, 'n', RQL_NAME_MAX);
    name[RQL_NAME_MAX] = '\0';
    rqli_keys_init(&keys, memory, rqli_slice_of(name));
    (void)snprintf(expected, sizeof expected, "rql:lock:%s", name);
    check_slice(keys.lock, expected);
    (void)snprintf(expected, sizeof expected, "rql:lock_queue:%s", name);
    check_slice(keys.queue, expected);
    (void)snprintf(expected, sizeof expected, "rql:req:%s", name);
    check_slice(keys.requests, expected);
}

static void keys_can_be_built_again_in_the_same_place(void **state)
{
    char memory[RQLI_KEYS_ROOM];
    struct rqli_keys keys;

    (void)state;
    rqli_keys_init(&keys, memory, rqli_slice_of("a-long-name"));
    rqli_keys_init(&keys, memory, rqli_slice_of("b"));
    check_slice(keys.lock, "rql:lock:b");
    check_slice(keys.queue, "rql:lock_queue:b");
    check_slice(keys.requests, "rql:req:b");
}

/* Such as SCAN finds: longer than ours may be, and with any byte. */
static void any_name_has_keys_in_memory_of_its_own(void **state)
{
    enum { LENGTH = 3 * RQL_NAME_MAX };

    char name[LENGTH];
    const struct rqli_slice slice = {name, LENGTH};
    char *memory = malloc(rqli_keys_room(slice));
    struct rqli_keys keys;

    (void)state;
    assert_non_null(memory);
    memset(name, '\0', LENGTH);
    rqli_keys_init(&keys, memory, slice);
    assert_int_equal(keys.lock.length, strlen("rql:lock:") + LENGTH);
    assert_int_equal(keys.queue.length, strlen("rql:lock_queue:") + LENGTH);
    assert_int_equal(keys.requests.length, strlen("rql:req:") + LENGTH);
    assert_memory_equal(keys.queue.data, "rql:lock_queue:\0", sizeof "rql:lock_queue:");
    rqli_keys_init(&keys, memory, (struct rqli_slice){"", 0});
    check_slice(keys.requests, "rql:req:");
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_carry_the_name_as_it_is),
        cmocka_unit_test(the_longest_name_fits),
        cmocka_unit_test(keys_can_be_built_again_in_the_same_place),
        cmocka_unit_test(any_name_has_keys_in_memory_of_its_own),
    };

    return cmocka_run_group_tests_name("keys", tests, NULL, NULL);
}
