#include "check.h"

#include "reply_tree.h"

#include "net/login/slots.h"

#include <stdio.h>

#define NODE(host, port) TREE(tree_text(host), tree_int(port), tree_text("an id"))
#define RANGE(first, last, ...) TREE(tree_int(first), tree_int(last), __VA_ARGS__)

static const struct rqli_address asked = {"asked", 7000};

/* Who has which partitions: "a:1=0-63 -=64-127", and how many masters there are. */
static void print_map(const struct rqli_slots *map, char *out, size_t size)
{
    size_t length = 0;

    for (size_t p = 0; p < RQLI_PARTITIONS; p++) {
        int owner = map->owners[p];
        bool is_last = p + 1 == RQLI_PARTITIONS || map->owners[p + 1] != owner;
        char place[RQLI_ADDRESS_TEXT_SIZE] = "-";

        assert_in_range(owner + 1, 0, map->n_masters);
        if (p == 0 || map->owners[p - 1] != owner) {
            length += (size_t)snprintf(
                out + length, size - length, "%s=%zu-",
                owner < 0 ? place : rqli_address_print(&map->masters[owner], place), p);
        }
        if (is_last) {
            length += (size_t)snprintf(out + length, size - length, "%zu ", p);
        }
    }
    (void)snprintf(out + length, size - length, "of %zu", map->n_masters);
}

/* Nothing is expected of what is no map. */
struct map_row {
    const char *name;
    struct rqli_reply reply;
    const char *expected;
};

static void check_map(const struct map_row *row)
{
    static struct rqli_slots map;
    static struct rqli_slots before;
    char text[512];

    memset(&map, 'x', sizeof map);
    before = map;
    assert_int_equal(rqli_slots_read(&map, &row->reply, &asked), row->expected != NULL);
    if (row->expected) {
        print_map(&map, text, sizeof text);
        assert_string_equal(text, row->expected);
    } else {
        assert_memory_equal(&map, &before, sizeof map);
    }
}

TEST(a_map_says_who_has_the_tag_of_each_partition)
{
    const struct map_row rows[] = {
        {"one master has all", TREE(RANGE(0, 16383, NODE("a", 1))), "a:1=0-127 of 1"},
        {"three, each with a replica, in any order",
         TREE(RANGE(10923, 16383, NODE("10.0.0.3", 6379), NODE("10.0.0.6", 6379)),
              RANGE(0, 5460, NODE("10.0.0.1", 6379), NODE("10.0.0.4", 6379)),
              RANGE(5461, 10922, NODE("10.0.0.2", 6379), NODE("10.0.0.5", 6379))),
         "10.0.0.1:6379=0-42 10.0.0.2:6379=43-84 10.0.0.3:6379=85-127 of 3"},
        {"what counts is the slot of the tag, which is not the first of the partition",
         TREE(RANGE(0, 3 * 128 + 20, NODE("a", 1)), RANGE(3 * 128 + 21, 16383, NODE("b", 2))),
         "a:1=0-2 b:2=3-127 of 2"},
        {"one slot of a partition is enough, and two are no partition",
         TREE(RANGE(64, 64, NODE("a", 1)), RANGE(65, 65, NODE("b", 2)),
              RANGE(128, 180, NODE("c", 3))),
         "a:1=0-0 -=1-127 of 1"},
        {"several ranges of one master",
         TREE(RANGE(0, 1023, NODE("a", 1)), RANGE(1024, 8191, NODE("b", 1)),
              RANGE(8192, 16383, NODE("a", 1))),
         "a:1=0-7 b:1=8-63 a:1=64-127 of 2"},
        {"ports tell masters apart",
         TREE(RANGE(0, 8191, NODE("a", 1)), RANGE(8192, 16383, NODE("a", 2))),
         "a:1=0-63 a:2=64-127 of 2"},
        {"a range that nobody has",
         TREE(RANGE(0, 8191, NODE("a", 1)), RANGE(12288, 16383, NODE("b", 1))),
         "a:1=0-63 -=64-95 b:1=96-127 of 2"},
        {"nobody has any", tree_array(NULL, 0), "-=0-127 of 0"},
        {"a name and IPv6",
         TREE(RANGE(0, 8191, NODE("node-1.example.org", 1)), RANGE(8192, 16383, NODE("::1", 2))),
         "node-1.example.org:1=0-63 [::1]:2=64-127 of 2"},
        {"a node that has no name is the one that was asked",
         TREE(RANGE(0, 4095, NODE("", 1)), RANGE(4096, 8191, NODE("?", 2)),
              RANGE(8192, 16383, TREE(tree_nil(), tree_int(3)))),
         "asked:1=0-31 asked:2=32-63 asked:3=64-127 of 3"},
        {"more about a node",
         TREE(RANGE(0, 16383,
                    TREE(tree_text("a"), tree_int(1), tree_text("an id"),
                         TREE(tree_text("hostname"), tree_text("b"))))),
         "a:1=0-127 of 1"},
        {"a replica is not looked at", TREE(RANGE(0, 16383, NODE("a", 1), tree_nil())),
         "a:1=0-127 of 1"},
    };

    EACH_ROW (row, rows) {
        check_map(row);
    }
}

TEST(what_is_no_map_is_not_read)
{
    const struct rqli_reply good = RANGE(0, 5460, NODE("a", 1));
    char longest[RQLI_HOST_SIZE] = {0};
    char longer[RQLI_HOST_SIZE + 1] = {0};
    const struct map_row rows[] = {
        {"the longest host", TREE(good, RANGE(0, 0, NODE(memset(longest, 'n', 253), 1))),
         "a:1=0-42 -=43-127 of 1"},
        {"one that is longer", TREE(good, RANGE(0, 0, NODE(memset(longer, 'n', 254), 1)))},
        {"an error", tree_error("ERR This instance has cluster support disabled")},
        {"nil", tree_nil()},
        {"a text", tree_text("a")},
        {"a row that is no list", TREE(good, tree_int(1))},
        {"an empty row", TREE(good, tree_array(NULL, 0))},
        {"no master", TREE(good, TREE(tree_int(0), tree_int(1)))},
        {"no first slot", TREE(good, TREE(tree_text("0"), tree_int(1), NODE("b", 1)))},
        {"no last slot", TREE(good, TREE(tree_int(0), tree_nil(), NODE("b", 1)))},
        {"a slot below 0", TREE(good, RANGE(-1, 5, NODE("b", 1)))},
        {"a slot above 16383", TREE(good, RANGE(0, 16384, NODE("b", 1)))},
        {"the last before the first", TREE(good, RANGE(6, 5, NODE("b", 1)))},
        {"a master that is no list", TREE(good, RANGE(5461, 5461, tree_text("b")))},
        {"a master without a port", TREE(good, RANGE(5461, 5461, TREE(tree_text("b"))))},
        {"port 0", TREE(good, RANGE(5461, 5461, NODE("b", 0)))},
        {"port 65536", TREE(good, RANGE(5461, 5461, NODE("b", 65536)))},
        {"a port of 33 bits", TREE(good, RANGE(5461, 5461, NODE("b", 0x100000001)))},
        {"a port that is a text",
         TREE(good, RANGE(5461, 5461, TREE(tree_text("b"), tree_text("1"))))},
        {"a host that is a number", TREE(good, RANGE(5461, 5461, TREE(tree_int(1), tree_int(1))))},
        {"a host with a blank", TREE(good, RANGE(5461, 5461, NODE("b c", 1)))},
        {"a host with a NUL",
         TREE(good, RANGE(5461, 5461, TREE(tree_bytes("b\0c", 3), tree_int(1))))},
    };

    EACH_ROW (row, rows) {
        check_map(row);
    }
}

TEST(there_is_room_for_as_many_masters_as_partitions)
{
    static struct rqli_reply nodes[16384][2];
    static struct rqli_reply parts[16384][3];
    static struct rqli_reply ranges[16384];
    static struct rqli_slots map;
    const struct rqli_reply reply = tree_array(ranges, N_ROWS(ranges));

    for (size_t i = 0; i < N_ROWS(ranges); i++) {
        nodes[i][0] = tree_text("a");
        nodes[i][1] = tree_int((int64_t)i + 1);
        parts[i][0] = tree_int((int64_t)i);
        parts[i][1] = tree_int((int64_t)i);
        parts[i][2] = tree_array(nodes[i], 2);
        ranges[i] = tree_array(parts[i], 3);
    }
    assert_true(rqli_slots_read(&map, &reply, &asked));
    assert_int_equal(map.n_masters, RQLI_PARTITIONS);
    for (int p = 0; p < RQLI_PARTITIONS; p++) {
        assert_int_equal(map.owners[p], p);
        assert_in_range(map.masters[p].port - 1, 128 * p + 62, 128 * p + 66);
    }
}

TEST(an_error_says_which_way_to_go)
{
    static const struct {
        const char *name; /* the error */
        enum rqli_way way;
        const char *expected;
    } rows[] = {
        {"MOVED 3999 127.0.0.1:6381", RQLI_WAY_MOVED, "127.0.0.1:6381"},
        {"MOVED 0 node-1.example.org:1", RQLI_WAY_MOVED, "node-1.example.org:1"},
        {"MOVED 16383 ::1:7000", RQLI_WAY_MOVED, "[::1]:7000"},
        {"MOVED 3999 fe80::1%eth0:7000", RQLI_WAY_MOVED, "[fe80::1%eth0]:7000"},
        {"MOVED 3999 :6381", RQLI_WAY_MOVED, "asked:6381"},
        {"MOVED 3999 ?:6381", RQLI_WAY_MOVED, "asked:6381"},
        {"MOVED 3999 a:1 and more", RQLI_WAY_MOVED, "a:1"},
        {"ASK 3999 10.1.2.3:65535", RQLI_WAY_AGAIN},
        {"TRYAGAIN Multiple keys request during rehashing of slot", RQLI_WAY_AGAIN},
        {"TRYAGAIN", RQLI_WAY_AGAIN},
        {"CLUSTERDOWN Hash slot not served", RQLI_WAY_DOWN},
        {"CLUSTERDOWN The cluster is down", RQLI_WAY_DOWN},
        {"MOVED", RQLI_WAY_NONE},
        {"MOVED ", RQLI_WAY_NONE},
        {"MOVED 3999", RQLI_WAY_NONE},
        {"MOVED 3999 ", RQLI_WAY_NONE},
        {"MOVED  3999 a:1", RQLI_WAY_NONE},
        {"MOVED a:1 3999", RQLI_WAY_NONE},
        {"MOVED -1 a:1", RQLI_WAY_NONE},
        {"MOVED 16384 a:1", RQLI_WAY_NONE},
        {"MOVED 3999 a", RQLI_WAY_NONE},
        {"MOVED 3999 a:", RQLI_WAY_NONE},
        {"MOVED 3999 a:0", RQLI_WAY_NONE},
        {"MOVED 3999 a:65536", RQLI_WAY_NONE},
        {"MOVED 3999 a:b", RQLI_WAY_NONE},
        {"MOVED 3999 a/b:1", RQLI_WAY_NONE},
        {"ASKING 3999 a:1", RQLI_WAY_NONE},
        {"ERR MOVED 3999 a:1", RQLI_WAY_NONE},
        {"LOADING Redis is loading the dataset in memory", RQLI_WAY_NONE},
        {"", RQLI_WAY_NONE},
    };

    EACH_ROW (row, rows) {
        const struct rqli_address untouched = {"untouched", 5};
        const struct rqli_reply reply = tree_error(row->name);
        struct rqli_address target = untouched;
        char text[RQLI_ADDRESS_TEXT_SIZE];

        assert_int_equal(rqli_way_of(&reply, &asked, &target), row->way);
        assert_string_equal(rqli_address_print(&target, text),
                            row->expected ? row->expected : "untouched:5");
    }
}
