#include "check.h"

#include "reply_tree.h"
#include "wire/answer.h"

#define NONCE "0123456789abcdef0123456789abcdef"
#define CHANGES "__redis__:invalidate"

static struct rqli_pushed read_three(const char *kind, const char *channel,
                                     struct rqli_reply payload)
{
    const struct rqli_reply reply = TREE(tree_text(kind), tree_text(channel), payload);

    return rqli_push_read(&reply);
}

/* Anybody may publish. */
TEST(a_payload_is_a_grant_within_bounds_or_a_hint_or_ignored)
{
    static const struct {
        const char *payload;
        enum rqli_pushed_kind kind;
        struct rqli_push push;
    } rows[] = {
        {NONCE " 77 1795254268468100 1000", RQLI_PUSHED_GRANT, {77, 1795254268468100, 1000, 0}},
        {NONCE " 77 5 1000 0,3", RQLI_PUSHED_GRANT, {77, 5, 1000, 0}},
        {NONCE " 1 1 1", RQLI_PUSHED_GRANT, {1, 1, 1, 0}},
        {NONCE " 9223372036854775807 2305843009213693951 2592000000",
         RQLI_PUSHED_GRANT,
         {INT64_MAX, RQLI_SERVER_US_MAX, 2592000000, 0}},
        {NONCE " 77 5 1000 0", RQLI_PUSHED_GRANT, {77, 5, 1000, 0}}, /* slots */
        {NONCE " 77 5 1000 1023", RQLI_PUSHED_GRANT, {77, 5, 1000, 0}},
        {NONCE " 77 5 1000 0,3", RQLI_PUSHED_GRANT, {77, 5, 1000, 0}},
        {NONCE " look", RQLI_PUSHED_HINT},
    };

    const char *ignored =
        NONCE "  look|" NONCE " loo|" NONCE " look |" NONCE " LOOK|look|look " NONCE
              "|0123456789abcdef look|| |    |" NONCE "|" NONCE " 77|" NONCE " 77 5|" NONCE
              " 77 5 |" NONCE " 77 5 1000 |" NONCE " 77 5 1000 x|" NONCE " 77 5 1000 0,x|" NONCE
              " 77 5 1000 ,1|" NONCE " 77 5 1000 1 2"
              "|0123456789abcdef0123456789abcde 77 5 1000|" NONCE "0 77 5 1000|" NONCE " x 5 1000"
              "|" NONCE " 77 x 1000|" NONCE " 77 5 x|" NONCE " 0 5 1000|" NONCE " -1 5 1000"
              "|" NONCE " 9223372036854775808 5 1000|" NONCE " 77 0 1000|" NONCE " 77 -5 1000"
              "|" NONCE " 77 2305843009213693952 1000|" NONCE " 77 5 0|" NONCE " 77 5 -1000|" NONCE
              " 77 5 2592000001"
              "|" NONCE " +77 5 1000|" NONCE "\t77 5 1000|" NONCE " 77 5 1000 -1|" NONCE
              " 77 5 1000 1 2|" NONCE " 77 5 1000 1 |" NONCE " 77 5 1000 1 2,3";
    char payload[PART_SIZE];

    EACH_BY (row, rows, row->payload) {
        struct rqli_pushed pushed = read_three("message", "rql:wake:me", tree_text(row->payload));

        assert_string_equal(pushed.nonce, NONCE);
        CHECK_ALL(EQ(pushed.kind, row->kind), EQ(pushed.push.token, row->push.token),
                  EQ(pushed.push.server_us, row->push.server_us),
                  EQ(pushed.push.lease_ms, row->push.lease_ms), EQ(pushed.push.received_us, 0));
    }
    while (next_part(&ignored, payload, NULL)) {
        struct rqli_pushed pushed = read_three("message", "rql:wake:me", tree_text(payload));

        assert_int_equal(pushed.kind, RQLI_PUSHED_NOTHING);
        assert_string_equal(pushed.nonce, "");
    }
}

/* FLUSHALL says nil; what names no single key may be any. */
TEST(a_changed_key_is_named_and_other_changes_are_of_all)
{
    const struct {
        struct rqli_reply payload;
        const char *key;
    } rows[] = {
        {TREE(tree_text("rql:lock:a")), "rql:lock:a"},
        {tree_nil(), ""},
        {tree_text("rql:lock:a"), ""},
        {tree_int(1), ""},
        {tree_array(NULL, 0), ""},
        {TREE(tree_text("rql:lock:a"), tree_text("rql:lock:b")), ""},
        {TREE(tree_int(5)), ""},
        {TREE(tree_nil()), ""},
    };

    EACH (row, rows) {
        struct rqli_pushed pushed = read_three("message", CHANGES, row->payload);
        size_t length = strlen(row->key);

        CHECK_ALL(EQ(pushed.kind, RQLI_PUSHED_CHANGE), EQ(pushed.lock_key.length, length));
        assert_true(length == 0 || memcmp(pushed.lock_key.data, row->key, length) == 0);
    }
}

TEST(every_kind_of_message_and_of_payload_is_told_apart)
{
    static const char *const others[] = {"",       "unsubscribe", "subscrib",    "subscribed",
                                         "messag", "message ",    "Message",     "pmessage",
                                         "pong",   "ssubscribe",  "sunsubscribe"};
    const struct rqli_reply grant = tree_text(NONCE " 77 5 1000");

    const struct {
        const char *name, *channel;
        struct rqli_reply payload;
        enum rqli_pushed_kind is;
    } rows[] = {
        {"message", "c", grant, RQLI_PUSHED_GRANT},
        {"message", "rql:wake:me", tree_nil(), RQLI_PUSHED_NOTHING},
        {"message", "rql:wake:me", tree_int(77), RQLI_PUSHED_NOTHING},
        {"message", "rql:wake:me", tree_array(&grant, 1), RQLI_PUSHED_NOTHING},
        {"message", "rql:wake:me", tree_error(NONCE " 77 5 1000"), RQLI_PUSHED_NOTHING},
        {"smessage", "c", grant, RQLI_PUSHED_GRANT},
        {"smessage", "c", tree_text(NONCE " look"), RQLI_PUSHED_HINT},
        {"smessage", CHANGES, tree_nil(), RQLI_PUSHED_NOTHING},
        {"subscribe", "c", grant, RQLI_PUSHED_CONFIRMATION},
        {"subscribe", "c", tree_int(1), RQLI_PUSHED_CONFIRMATION},
    };

    EACH_ROW (row, rows) {
        assert_int_equal(read_three(row->name, row->channel, row->payload).kind, row->is);
    }
    EACH_BY (row, others, *row) {
        assert_int_equal(read_three(*row, "c", grant).kind, RQLI_PUSHED_NOTHING);
    }
}

TEST(the_channel_of_a_slot_says_whose_it_is)
{
    static const struct {
        const char *name, *kind, *channel; /* NULL: nil */
        enum rqli_pushed_kind is;
        int partition; /* -1: none */
    } rows[] = {
        {"confirmed", "ssubscribe", "rql:{00axj}:wake:me", RQLI_PUSHED_CONFIRMATION, 0},
        {"taken away", "sunsubscribe", "rql:{17ebn}:wake:me", RQLI_PUSHED_END, 23},
        {"another tag of the same slots", "ssubscribe", "rql:{a}:wake:me", RQLI_PUSHED_NOTHING, -1},
        {"another prefix", "ssubscribe", "sql:{00axj}:wake:me", RQLI_PUSHED_NOTHING, -1},
        {"no channel behind the prefix", "ssubscribe", "rql:{00axj}:", RQLI_PUSHED_NOTHING, -1},
        {"a prefix cut off", "sunsubscribe", "rql:{00axj}", RQLI_PUSHED_NOTHING, -1},
        {"of all locks", "sunsubscribe", "rql:wake:me", RQLI_PUSHED_NOTHING, -1},
        {"nil", "sunsubscribe", NULL, RQLI_PUSHED_NOTHING, -1},
        {"not of a slot", "subscribe", "rql:{00axj}:wake:me", RQLI_PUSHED_CONFIRMATION, -1},
    };

    EACH_ROW (row, rows) {
        const struct rqli_reply reply = TREE(
            tree_text(row->kind), row->channel ? tree_text(row->channel) : tree_nil(), tree_int(1));
        const struct rqli_pushed pushed = rqli_push_read(&reply);

        assert_int_equal(pushed.kind, row->is);
        assert_ptr_equal(pushed.set, row->partition < 0 ? NULL : &rqli_key_sets[row->partition]);
        assert_string_equal(pushed.nonce, "");
    }
}

TEST(messages_of_another_shape_are_ignored)
{
    const struct rqli_reply items[] = {tree_text("message"), tree_text("c"),
                                       tree_text(NONCE " 77 5 1000"), tree_text("more")};
    const struct rqli_reply status = TREE(tree_status("message"), items[1], items[2]);
    const struct rqli_reply others[] = {
        tree_nil(),           tree_int(3),          tree_text("message"),
        tree_error("ERR no"), tree_array(items, 0), tree_array(items, 1),
        tree_array(items, 2), tree_array(items, 4), status};

    EACH (row, others) {
        assert_int_equal(rqli_push_read(row).kind, RQLI_PUSHED_NOTHING);
    }
}
