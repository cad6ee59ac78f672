enum { NODES = 1, NAMES = 1000, LONGEST = 24 };

#include "cluster.h"

/* Short ones of few bytes, so that braces stand in every order. */
static size_t draw_bytes(unsigned *seed, char *name)
{
    static const char bytes[] = "{}{}ab\xc3";
    size_t length = (size_t)rand_r(seed) % LONGEST + 1;

    for (size_t i = 0; i < length; i++) {
        name[i] = bytes[(size_t)rand_r(seed) % sizeof bytes]; /* its NUL, too */
    }
    return length;
}

static void the_server_has_the_same_slot_for_a_name(void **state)
{
    unsigned seed = 1;

    (void)state;
    for (int i = 0; i < NAMES; i++) {
        char name[LONGEST];
        size_t length = draw_bytes(&seed, name);
        redisReply *reply = redisCommand(raw, "CLUSTER KEYSLOT %b", name, length);

        assert_non_null(reply);
        assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
        assert_int_equal(rqli_keyslot((struct rqli_slice){name, length}), reply->integer);
        freeReplyObject(reply);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_server_has_the_same_slot_for_a_name),
    };

    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    return cmocka_run_group_tests(tests, start_nodes, stop_nodes);
}
