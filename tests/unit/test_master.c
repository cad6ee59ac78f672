#include "check.h"

#include "base/clock.h"
#include "net/sock/master.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* Whom sentinels name, and what becomes of the connections there are. */

enum { CONNS_MAX = 8 };

static struct rqli_master master;

static struct {
    struct rqli_master_conn conn;
    int fds[2];
} ends[CONNS_MAX];

static struct rqli_master_claim claim_of(char name, int64_t epoch)
{
    struct rqli_master_claim claim = {.address.port = 6379, .epoch = epoch};

    (void)snprintf(claim.address.host, sizeof claim.address.host, "%c", name);
    return claim;
}

static bool has_ended(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

/* A node as a letter, with its epoch; then what comes of it: f first, s same, o other, l left.
 * Which of the connections made so far have ended by then, oldest first: x, or - while it lasts;
 * NULL: a sentinel names the node and nobody connects, of which only an l is seen. */
struct step {
    char node;
    int epoch;
    char news;
    const char *conns;
};

static const struct row {
    const char *name;
    struct step steps[CONNS_MAX];
} rows[] = {
    {"the first", {{'a', 0, 'f', "-"}, {'a', 0, 's', "--"}}},
    {"one that was chosen", {{'a', 0, 'f', "-"}, {'a', 0, 's', "--"}, {'b', 1, 'o', "xx-"}}},
    {"a sentinel has not heard of it",
     {{'a', 3, 'f', "-"}, {'b', 4, 'o', "x-"}, {'a', 3, 'l', "x-l"}, {'c', 2, 'l', "x-ll"}}},
    {"it is named before its epoch is",
     {{'a', 3, 'f', "-"}, {'b', 3, 'o', "x-"}, {'a', 3, 'l', "x-l"}, {'b', 4, 's', "x-l-"}}},
    {"and back, by the next failover",
     {{'a', 3, 'f', "-"}, {'b', 4, 'o', "x-"}, {'a', 5, 'o', "xx-"}, {'b', 4, 'l', "xx-l"}}},
    {"the same is chosen once more",
     {{'a', 3, 'f', "-"}, {'a', 4, 's', "--"}, {'b', 3, 'l', "--l"}}},
    {"a sentinel is new, and right",
     {{'a', 3, 'f', "-"}, {'a', 0, 's', "--"}, {'b', 2, 'l', "--l"}}},
    {"there was no failover yet", {{'a', 0, 'f', "-"}, {'b', 0, 'o', "x-"}, {'c', 0, 'o', "xx-"}}},
    {"no epoch is known",
     {{'a', -1, 'f', "-"}, {'b', -1, 'o', "x-"}, {'a', -1, 'l', "x-l"}, {'c', -1, 'o', "xxx-"}}},
    {"the epoch of the master in use is learned",
     {{'a', 0, 'f', "-"}, {'b', 1, 'o'}, {'a', 2, 's'}, {'b', 1, 'l'}}},
};

static enum rqli_master_news news_of(char letter)
{
    static const char letters[] = "fsol";

    return (enum rqli_master_news)(strchr(letters, letter) - letters);
}

static void enter(struct rqli_master_conn *conn, const struct rqli_master_claim *claim, int fd)
{
    rqli_master_enter(&master, conn, &claim->address);
    rqli_master_on_connected(conn, fd);
}

static void take_step(const struct step *step, int i)
{
    struct rqli_master_claim claim = claim_of(step->node, step->epoch);

    assert_int_equal(rqli_master_hear(&master, &claim), step->news != 'l');
    if (!step->conns) {
        return;
    }
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[i].fds), 0);
    enter(&ends[i].conn, &claim, ends[i].fds[0]);
    assert_int_equal(rqli_master_join(&master, &ends[i].conn, &claim), news_of(step->news));
    for (int j = 0; j <= i; j++) {
        assert_int_equal(has_ended(ends[j].fds[1]), step->conns[j] == 'x');
    }
}

TEST(connections_lead_to_the_newest_master)
{
    EACH_ROW (row, rows) {
        int count = 0;

        rqli_master_init(&master);
        for (const struct step *step = row->steps; step->node; step++) {
            take_step(step, count);
            count += step->conns != NULL;
        }
        for (int i = 0; i < count; i++) {
            rqli_master_leave(&ends[i].conn);
            rqli_master_leave(&ends[i].conn); /* twice is fine */
            (void)close(ends[i].fds[0]);
            (void)close(ends[i].fds[1]);
        }
        rqli_master_fini(&master);
    }
}

/* They may say the same until they have heard of it, and after the next failover. */
TEST(sentinels_without_epochs_are_believed_after_a_while_if_they_name_the_master_before)
{
    static const struct {
        const char *name;
        int epoch;
        int left_ms_ago;
        bool is_believed;
    } claims[] = {
        {"just now", RQLI_MASTER_NO_EPOCH, 0, false},
        {"long ago", RQLI_MASTER_NO_EPOCH, 3000, true},
        {"long ago, but its epoch is over", 0, 3000, false},
    };

    EACH_ROW (row, claims) {
        struct rqli_master_claim before = claim_of('a', row->epoch);
        struct rqli_master_claim now = claim_of('b', row->epoch);
        struct rqli_master_conn conn = {{0}};

        rqli_master_init(&master);
        enter(&conn, &before, -1);
        assert_int_equal(rqli_master_join(&master, &conn, &before), RQLI_MASTER_FIRST);
        assert_int_equal(rqli_master_join(&master, &conn, &now), RQLI_MASTER_OTHER);
        if (row->left_ms_ago > 0) {
            master.shared.left_us = rqli_now_us() - INT64_C(1000) * row->left_ms_ago;
        }
        assert_int_equal(rqli_master_hear(&master, &before), row->is_believed);
        rqli_master_leave(&conn);
        rqli_master_fini(&master);
    }
}

TEST(what_was_known_can_be_forgotten)
{
    struct rqli_master_claim old = claim_of('a', 7);
    struct rqli_master_claim fresh = claim_of('b', 0);
    struct rqli_master_conn conns[2] = {{{0}}};
    struct rqli_address at;

    rqli_master_init(&master);
    enter(&conns[0], &old, -1);
    enter(&conns[1], &fresh, -1);
    assert_int_equal(rqli_master_join(&master, &conns[0], &old), RQLI_MASTER_FIRST);
    assert_false(rqli_master_hear(&master, &fresh));
    rqli_master_forget(&master);
    assert_int_equal(rqli_master_join(&master, &conns[1], &fresh), RQLI_MASTER_OTHER);
    at = rqli_master_at(&master);
    assert_true(rqli_address_is(&at, &fresh.address));
    rqli_master_leave(&conns[0]);
    rqli_master_leave(&conns[1]);
    rqli_master_fini(&master);
}
