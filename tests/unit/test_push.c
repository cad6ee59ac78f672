#include "check.h"

#include "reply_tree.h"
#include "wire/answer.h"

#define NONCE "0123456789abcdef0123456789abcdef"
#define CHANGES "__redis__:invalidate"

static struct rqli_pushed read_three(struct rqli_reply first, struct rqli_reply second,
                                     struct rqli_reply third)
{
    const struct rqli_reply items[] = {first, second, third};

    return rqli_push_read(
        &(struct rqli_reply){.type = RQLI_REPLY_ARRAY, .count = TREE_COUNT(items), .items = items});
}

static struct rqli_pushed read_message(const char *payload)
{
    return read_three(tree_text("message"), tree_text("rql:wake:me"), tree_text(payload));
}

static void a_grant_is_read(void **state)
{
    struct rqli_pushed pushed = read_message(NONCE " 77 1795254268468100 1000");

    (void)state;
    assert_int_equal(pushed.kind, RQLI_PUSHED_GRANT);
    assert_string_equal(pushed.nonce, NONCE);
    assert_int_equal(pushed.push.token, 77);
    assert_int_equal(pushed.push.server_us, 1795254268468100);
    assert_int_equal(pushed.push.lease_ms, 1000);
    assert_int_equal(pushed.push.received_us, 0);
}

static const struct {
    const char *payload;
    enum rqli_pushed_kind kind;
} payloads[] = {
    {NONCE " 1 1 1", RQLI_PUSHED_GRANT},
    {NONCE " 9223372036854775807 2305843009213693951 2592000000", RQLI_PUSHED_GRANT},
    {NONCE " look", RQLI_PUSHED_HINT},
    {NONCE "  look", RQLI_PUSHED_NOTHING},
    {NONCE " loo", RQLI_PUSHED_NOTHING},
    {NONCE " look ", RQLI_PUSHED_NOTHING},
    {NONCE " LOOK", RQLI_PUSHED_NOTHING},
    {"look", RQLI_PUSHED_NOTHING},
    {"look " NONCE, RQLI_PUSHED_NOTHING},
    {"0123456789abcdef look", RQLI_PUSHED_NOTHING},
    {"", RQLI_PUSHED_NOTHING},
    {" ", RQLI_PUSHED_NOTHING},
    {"    ", RQLI_PUSHED_NOTHING},
    {NONCE, RQLI_PUSHED_NOTHING},
    {NONCE " 77", RQLI_PUSHED_NOTHING},
    {NONCE " 77 5", RQLI_PUSHED_NOTHING},
    {NONCE " 77 5 ", RQLI_PUSHED_NOTHING},
    {NONCE " 77 5 1000 ", RQLI_PUSHED_NOTHING},
    {NONCE " 77 5 1000 x", RQLI_PUSHED_NOTHING},
    {NONCE "  77 5 1000", RQLI_PUSHED_NOTHING},
    {" " NONCE " 77 5 1000", RQLI_PUSHED_NOTHING},
    {"0123456789abcdef0123456789abcde 77 5 1000", RQLI_PUSHED_NOTHING},
    {NONCE "0 77 5 1000", RQLI_PUSHED_NOTHING},
    {NONCE " x 5 1000", RQLI_PUSHED_NOTHING},
    {NONCE " 77 x 1000", RQLI_PUSHED_NOTHING},
    {NONCE " 77 5 x", RQLI_PUSHED_NOTHING},
    {NONCE " 0 5 1000", RQLI_PUSHED_NOTHING},
    {NONCE " -1 5 1000", RQLI_PUSHED_NOTHING},
    {NONCE " 9223372036854775808 5 1000", RQLI_PUSHED_NOTHING},
    {NONCE " 77 0 1000", RQLI_PUSHED_NOTHING},
    {NONCE " 77 -5 1000", RQLI_PUSHED_NOTHING},
    {NONCE " 77 2305843009213693952 1000", RQLI_PUSHED_NOTHING},
    {NONCE " 77 5 0", RQLI_PUSHED_NOTHING},
    {NONCE " 77 5 -1000", RQLI_PUSHED_NOTHING},
    {NONCE " 77 5 2592000001", RQLI_PUSHED_NOTHING},
    {NONCE " +77 5 1000", RQLI_PUSHED_NOTHING},
    {NONCE "\t77 5 1000", RQLI_PUSHED_NOTHING},
};

/* Anybody may publish. */
static void what_is_no_grant_within_bounds_and_no_hint_is_ignored(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_ROWS(payloads); i++) {
        struct rqli_pushed pushed = read_message(payloads[i].payload);

        print_message("# payload '%s'\n", payloads[i].payload);
        assert_int_equal(pushed.kind, payloads[i].kind);
        assert_string_equal(pushed.nonce, payloads[i].kind == RQLI_PUSHED_NOTHING ? "" : NONCE);
    }
}

static void a_payload_of_another_type_is_no_grant(void **state)
{
    const struct rqli_reply text = tree_text(NONCE " 77 5 1000");
    const struct rqli_reply others[] = {tree_nil(), tree_int(77), tree_array(&text, 1),
                                        tree_error(NONCE " 77 5 1000")};

    (void)state;
    for (size_t i = 0; i < TREE_COUNT(others); i++) {
        struct rqli_pushed pushed =
            read_three(tree_text("message"), tree_text("rql:wake:me"), others[i]);

        assert_int_equal(pushed.kind, RQLI_PUSHED_NOTHING);
    }
}

static struct rqli_pushed read_change(struct rqli_reply payload)
{
    return read_three(tree_text("message"), tree_text(CHANGES), payload);
}

/* FLUSHALL says nil; what names no single key may be any. */
static void a_changed_key_is_named_and_other_changes_are_of_all(void **state)
{
    const struct rqli_reply keys[] = {tree_text("rql:lock:a"), tree_text("rql:lock:b")};
    const struct rqli_reply odd[] = {tree_int(5), tree_nil()};

    const struct {
        struct rqli_reply payload;
        const char *key;
    } rows[] = {
        {tree_array(keys, 1), "rql:lock:a"}, {tree_nil(), ""},
        {tree_text("rql:lock:a"), ""},       {tree_int(1), ""},
        {tree_array(keys, 0), ""},           {tree_array(keys, 2), ""},
        {tree_array(&odd[0], 1), ""},        {tree_array(&odd[1], 1), ""},
    };

    (void)state;
    for (size_t i = 0; i < N_ROWS(rows); i++) {
        struct rqli_pushed pushed = read_change(rows[i].payload);
        size_t length = strlen(rows[i].key);

        print_message("# payload %zu\n", i);
        assert_int_equal(pushed.kind, RQLI_PUSHED_CHANGE);
        assert_int_equal(pushed.lock_key.length, length);
        assert_true(length == 0 || memcmp(pushed.lock_key.data, rows[i].key, length) == 0);
    }
}

static void every_kind_of_message_is_told_apart(void **state)
{
    const struct rqli_reply status = {.type = RQLI_REPLY_STATUS, .text = {"message", 7}};

    const struct {
        struct rqli_reply kind;
        enum rqli_pushed_kind pushed;
    } rows[] = {
        {tree_text("message"), RQLI_PUSHED_GRANT},
        {tree_text("subscribe"), RQLI_PUSHED_CONFIRMATION},
        {tree_text(""), RQLI_PUSHED_NOTHING},
        {tree_text("unsubscribe"), RQLI_PUSHED_NOTHING},
        {tree_text("subscrib"), RQLI_PUSHED_NOTHING},
        {tree_text("subscribed"), RQLI_PUSHED_NOTHING},
        {tree_text("messag"), RQLI_PUSHED_NOTHING},
        {tree_text("message "), RQLI_PUSHED_NOTHING},
        {tree_text("Message"), RQLI_PUSHED_NOTHING},
        {tree_text("pmessage"), RQLI_PUSHED_NOTHING},
        {tree_text("pong"), RQLI_PUSHED_NOTHING},
        {status, RQLI_PUSHED_NOTHING},
    };
    const struct rqli_reply payload = tree_text(NONCE " 77 5 1000");

    (void)state;
    for (size_t i = 0; i < N_ROWS(rows); i++) {
        print_message("# kind '%s'\n", rows[i].kind.text.data);
        assert_int_equal(read_three(rows[i].kind, tree_text("c"), payload).kind, rows[i].pushed);
    }
    assert_int_equal(read_three(tree_text("subscribe"), tree_text("c"), tree_int(1)).kind,
                     RQLI_PUSHED_CONFIRMATION);
}

static void messages_of_another_shape_are_ignored(void **state)
{
    const struct rqli_reply items[] = {tree_text("message"), tree_text("c"),
                                       tree_text(NONCE " 77 5 1000"), tree_text("more")};
    const struct rqli_reply others[] = {
        tree_nil(),           tree_int(3),          tree_text("message"), tree_error("ERR no"),
        tree_array(items, 0), tree_array(items, 1), tree_array(items, 2), tree_array(items, 4)};

    (void)state;
    for (size_t i = 0; i < TREE_COUNT(others); i++) {
        print_message("# reply %zu\n", i);
        assert_int_equal(rqli_push_read(&others[i]).kind, RQLI_PUSHED_NOTHING);
    }
}

static void it_subscribes_to_its_own_channel_and_to_changes(void **state)
{
    static const char expected[] = "*2\r\n$9\r\nSUBSCRIBE\r\n$41\r\nrql:wake:" NONCE "\r\n"
                                   "*2\r\n$9\r\nSUBSCRIBE\r\n$20\r\n" CHANGES "\r\n";
    struct rqli_command command = {0};

    (void)state;
    rqli_push_subscribe(&command, NONCE);
    assert_int_equal(command.n_commands, 2);
    assert_int_equal(command.length, sizeof expected - 1);
    assert_memory_equal(command.data, expected, sizeof expected - 1);
    rqli_command_fini(&command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_grant_is_read),
        cmocka_unit_test(what_is_no_grant_within_bounds_and_no_hint_is_ignored),
        cmocka_unit_test(a_payload_of_another_type_is_no_grant),
        cmocka_unit_test(a_changed_key_is_named_and_other_changes_are_of_all),
        cmocka_unit_test(every_kind_of_message_is_told_apart),
        cmocka_unit_test(messages_of_another_shape_are_ignored),
        cmocka_unit_test(it_subscribes_to_its_own_channel_and_to_changes),
    };

    return cmocka_run_group_tests_name("push", tests, NULL, NULL);
}
