#include "check.h"

#include "base/clock.h"
#include "net/login/sentinel.h"
#include "net/sock/site.h"
#include "peer.h"

/* What a sentinel may answer. */

enum { LONG_MS = 20000, TEXT_SIZE = 8192 };

#define AT "*2\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n"
#define STATE(flags_length, flags, epoch_length, epoch)                                            \
    "*4\r\n$5\r\nflags\r\n$" #flags_length "\r\n" flags "\r\n$12\r\nconfig-epoch\r\n"              \
    "$" #epoch_length "\r\n" #epoch "\r\n"
#define DENIED "-NOPERM this user has no permissions to run the 'sentinel|master' command\r\n"

static char where[] = "its sentinel";
static const struct rqli_site site = {.where = where};
static struct rqli_sentinel sentinel;
static int peer;
static int64_t deadline_us;

BEFORE_EACH(set_up)
{
    int fds[2];

    deadline_us = rqli_after_ms(rqli_now_us(), LONG_MS);
    rqli_sentinel_init(&sentinel, &site);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_true(rqli_decoder_init(&sentinel.sock.decoder));
    sentinel.sock.fd = fds[0];
    peer = fds[1];
}

AFTER_EACH(tear_down)
{
    rqli_sentinel_fini(&sentinel);
    (void)close(peer);
}

/* Each of them says what it sees by itself (s_down), and what they have agreed on (o_down). Either
 * is a reason to ask soon again, because another may become the master. */
static const struct word {
    const char *name;
    const char *said;
    int64_t epoch;
    rql_status status;
    bool is_down;
    bool is_closed;
} words[] = {
    {"it is up", AT STATE(6, "master", 1, 7), .epoch = 7},
    {"only this one takes it for dead", AT STATE(13, "s_down,master", 1, 7), .is_down = true,
     .epoch = 7},
    {"the others take it for dead", AT STATE(13, "o_down,master", 1, 7), .is_down = true,
     .epoch = 7},
    {"all do", AT STATE(20, "s_down,o_down,master", 2, 12), .is_down = true, .epoch = 12},
    {"an epoch that is none", AT STATE(6, "master", 2, x7), .epoch = RQLI_MASTER_NO_EPOCH},
    {"no state", AT "*0\r\n", .epoch = RQLI_MASTER_NO_EPOCH},
    {"no right to know more", AT DENIED, .epoch = RQLI_MASTER_NO_EPOCH},
    {"it does not know it", "*-1\r\n-ERR No such master with that name\r\n",
     .status = RQL_E_UNAVAILABLE},
    {"nor by no address", "*0\r\n-ERR No such master with that name\r\n",
     .status = RQL_E_UNAVAILABLE},
    {"no login", "-NOAUTH Authentication required.\r\n-NOAUTH Authentication required.\r\n",
     .status = RQL_E_AUTH, .is_closed = true},
    {"an address without a port", "*1\r\n$9\r\n127.0.0.1\r\n*0\r\n", .status = RQL_E_PROTOCOL,
     .is_closed = true},
    {"a port that is none", "*2\r\n$9\r\n127.0.0.1\r\n$5\r\n65536\r\n*0\r\n",
     .status = RQL_E_PROTOCOL, .is_closed = true},
};

TEST(what_it_says_of_a_master_is_understood)
{
    EACH_ROW (row, words) {
        struct rqli_master_claim claim;
        rql_error error;

        tear_down();
        set_up();
        peer_say(peer, row->said);
        CHECK_ALL(
            EQ(rqli_sentinel_ask(&sentinel, "mymaster", deadline_us, &claim, &error), row->status),
            EQ(claim.is_down, row->is_down), EQ(claim.epoch, row->epoch),
            EQ(claim.address.port, row->status ? 0 : 6379),
            EQ(rqli_sentinel_is_open(&sentinel), !row->is_closed));
        assert_int_equal(peer_hear(peer, NULL), 2);
    }
}

/* So many others, each n-th of which has no port. */
static void say_others(int count, int wrong)
{
    static char text[TEXT_SIZE];
    int length = snprintf(text, sizeof text, "*%d\r\n", count);

    for (int i = 0; i < count; i++) {
        length += snprintf(text + length, sizeof text - (size_t)length,
                           "*4\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n$4\r\nport\r\n$4\r\n%s\r\n",
                           wrong > 0 && i % wrong == 0 ? "none" : "7000");
    }
    peer_say(peer, text);
}

/* Many may watch one master, and there is room for so many. */
TEST(no_more_others_are_taken_than_there_is_room_for)
{
    static const struct {
        const char *name;
        int count;
        int wrong;
        size_t taken;
    } rows[] = {
        {"none", 0, 0, 0},
        {"two", 2, 0, 2},
        {"as many as there is room for", RQLI_SENTINELS_MAX, 0, RQLI_SENTINELS_MAX},
        {"one more", RQLI_SENTINELS_MAX + 1, 0, RQLI_SENTINELS_MAX},
        {"many more", 4 * RQLI_SENTINELS_MAX, 0, RQLI_SENTINELS_MAX},
        {"some that cannot be asked", 9, 3, 6},
    };

    EACH_ROW (row, rows) {
        struct rqli_address out[RQLI_SENTINELS_MAX + 1] = {{{0}}};
        size_t count = RQLI_SENTINELS_MAX;

        say_others(row->count, row->wrong);
        CHECK_ALL(EQ(rqli_sentinel_others(&sentinel, "mymaster", deadline_us, out, &count), RQL_OK),
                  EQ(count, row->taken), EQ(out[row->taken].port, 0));
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(out[i].port, 7000);
        }
    }
    peer_say(peer, DENIED);
    CHECK_OK(rqli_sentinel_others(&sentinel, "mymaster", deadline_us, NULL, &(size_t){0}));
}

TEST(news_are_taken_as_they_come)
{
    static const char news[] = "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$1\r\nx\r\n";

    peer_say(peer, PEER_SUBSCRIBED);
    CHECK_OK(rqli_sentinel_subscribe(&sentinel, deadline_us));
    for (int i = 0; i < 2; i++) {
        peer_say(peer, news);
        peer_say(peer, news);
        rqli_sentinel_take_news(&sentinel);
        assert_true(rqli_sentinel_is_open(&sentinel));
        assert_true(rqli_socket_is_quiet(&sentinel.sock));
    }
    assert_int_equal(shutdown(peer, SHUT_RDWR), 0);
    rqli_sentinel_take_news(&sentinel);
    assert_false(rqli_sentinel_is_open(&sentinel));
}

TEST(who_is_denied_the_news_is_closed)
{
    peer_say(peer, DENIED);
    assert_int_equal(rqli_sentinel_subscribe(&sentinel, deadline_us), RQL_E_UNSUPPORTED);
    assert_false(rqli_sentinel_is_open(&sentinel));
}
