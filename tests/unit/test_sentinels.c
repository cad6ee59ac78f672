#include "check.h"

#include "base/clock.h"
#include "net/login/sentinels.h"
#include "no_server.h"
#include "peer.h"
#include "wait.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/eventfd.h>

/* What several sentinels say together. Each of them is played by a thread. */

enum {
    SENTINELS = 2,
    LONG_MS = 20000,
    SHORT_MS = 100,
    SAID_SIZE = 512,
    HEARD_SIZE = 1024,
    OTHER_PORT = 7001,
    CONNS_MAX = 4,
    OFTEN = 4
};

/* Long after they were found to know older masters only. */
#define LONG_AGO_US INT64_C(11000000)

static struct sentinel {
    int fd;
    int port;
    pthread_t thread;
    char state[SAID_SIZE];  /* what is said of the master */
    char others[SAID_SIZE]; /* and of the other sentinels */
    atomic_int n_asked;
    atomic_bool is_silent;
} played[SENTINELS];

/* Its own sentinels are asked by a thread, and these by the tests alone. */
static rql_client *client;
static char password[300]; /* longer than all that is said behind it */
static const char *flags;  /* of all that is said of a master */
static struct rqli_sentinels *sentinels;
static struct rqli_master *master;

/* Of what is said. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* False: the connection has ended. */
static bool answer(struct sentinel *self, int peer)
{
    char heard[HEARD_SIZE];
    ssize_t got = recv(peer, heard, sizeof heard - 1, 0);
    const char *said = PEER_SUBSCRIBED;

    heard[got > 0 ? got : 0] = '\0';
    (void)pthread_mutex_lock(&mutex);
    if (strstr(heard, "GET-MASTER-ADDR-BY-NAME")) {
        (void)atomic_fetch_add(&self->n_asked, 1);
        said = self->state;
    } else if (strstr(heard, "SENTINELS")) {
        said = self->others;
    }
    if (atomic_load(&self->is_silent)) {
        said = "";
    }
    got = got > 0 ? send(peer, said, strlen(said), MSG_NOSIGNAL) : got;
    (void)pthread_mutex_unlock(&mutex);
    return got >= 0 && heard[0] != '\0';
}

static void *play(void *data)
{
    struct sentinel *self = data;
    struct pollfd at[1 + CONNS_MAX] = {{self->fd, POLLIN, 0}};
    nfds_t n = 1;
    bool goes_on = true;

    while (goes_on) {
        (void)poll(at, n, -1);
        for (nfds_t i = n; i-- > 1;) {
            if (at[i].revents && !answer(self, at[i].fd)) {
                (void)close(at[i].fd);
                at[i] = at[--n];
            }
        }
        if (at[0].revents) {
            int peer = accept(self->fd, NULL, NULL);

            goes_on = peer >= 0 && n <= CONNS_MAX;
            at[n] = (struct pollfd){peer, POLLIN, 0};
            n += goes_on;
        }
    }
    while (n-- > 1) {
        (void)close(at[n].fd);
    }
    return NULL;
}

static void listen_here(struct sentinel *self)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;

    *self = (struct sentinel){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    assert_int_equal(bind(self->fd, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(self->fd, 1), 0);
    assert_int_equal(getsockname(self->fd, (struct sockaddr *)&at, &size), 0);
    self->port = ntohs(at.sin_port);
}

/* The master is at this port, since this failover. Port 0: it does not know it. */
static void say(size_t i, int port, int epoch)
{
    char digits[16];
    char number[16];

    (void)snprintf(digits, sizeof digits, "%d", port);
    (void)snprintf(number, sizeof number, "%d", epoch);
    (void)pthread_mutex_lock(&mutex);
    if (port == 0) {
        (void)snprintf(played[i].state, SAID_SIZE, "*-1\r\n-ERR No such master\r\n");
    } else {
        (void)snprintf(played[i].state, SAID_SIZE,
                       "*2\r\n$9\r\n127.0.0.1\r\n$%zu\r\n%s\r\n"
                       "*4\r\n$5\r\nflags\r\n$%zu\r\n%s\r\n$12\r\nconfig-epoch\r\n$%zu\r\n%s\r\n",
                       strlen(digits), digits, strlen(flags), flags, strlen(number), number);
    }
    (void)pthread_mutex_unlock(&mutex);
}

/* The others are those at these two ports. */
static void name(size_t i, int first, int last)
{
    char ports[2][16];

    (void)snprintf(ports[0], sizeof ports[0], "%d", first);
    (void)snprintf(ports[1], sizeof ports[1], "%d", last);
    (void)pthread_mutex_lock(&mutex);
    (void)snprintf(played[i].others, SAID_SIZE,
                   "*2\r\n"
                   "*4\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n$4\r\nport\r\n$%zu\r\n%s\r\n"
                   "*4\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n$4\r\nport\r\n$%zu\r\n%s\r\n",
                   strlen(ports[0]), ports[0], strlen(ports[1]), ports[1]);
    (void)pthread_mutex_unlock(&mutex);
}

BEFORE_EACH(set_up)
{
    char url[1024];

    flags = "master";
    for (size_t i = 0; i < SENTINELS; i++) {
        listen_here(&played[i]);
        say(i, 6379, 1);
        (void)snprintf(played[i].others, SAID_SIZE, "*0\r\n");
        assert_int_equal(pthread_create(&played[i].thread, NULL, play, &played[i]), 0);
    }
    memset(password, 'x', sizeof password - 1);
    (void)snprintf(url, sizeof url,
                   "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/m?sentinel_password=%s",
                   played[0].port, played[1].port, password);
    client = client_of_url(url);
    sentinels = rqli_sentinels_new(&client->fleet.first.site);
    assert_non_null(sentinels);
    master = sentinels->masters;
    master->site = &client->fleet.first.site;
}

AFTER_EACH(tear_down)
{
    sentinels = rqli_sentinels_free(sentinels);
    client = rqli_client_free(client);
    for (size_t i = 0; i < SENTINELS; i++) {
        (void)shutdown(played[i].fd, SHUT_RDWR);
        (void)pthread_join(played[i].thread, NULL);
        (void)close(played[i].fd);
    }
}

/* None of them is too slow, however busy the machine is. */
static rql_status find(int64_t since_us, struct rqli_master_claim *claim)
{
    sentinels->shared.share_us = rqli_after_ms(0, LONG_MS);
    return rqli_sentinels_find(master, since_us, rqli_after_ms(rqli_now_us(), LONG_MS), claim,
                               NULL);
}

/* A server has said that it is the master of this claim. */
static void confirm(struct rqli_master *of, int port, int64_t epoch)
{
    struct rqli_master_claim claim = {.address = {"127.0.0.1", port}, .epoch = epoch};
    struct rqli_master_conn conn = {{0}};

    rqli_master_enter(of, &conn, &claim.address);
    assert_int_equal(rqli_master_join(of, &conn, &claim), RQLI_MASTER_FIRST);
    rqli_master_leave(&conn);
}

TEST(the_first_that_knows_the_master_is_believed_and_asked_first_from_then_on)
{
    struct rqli_master_claim claim;

    say(0, 0, 0);
    CHECK_OK(find(0, &claim));
    CHECK_ALL(EQ(claim.address.port, 6379), EQ(sentinels->shared.first, 1),
              EQ(played[0].n_asked, 1), EQ(played[1].n_asked, 1));
    CHECK_OK(find(rqli_now_us() + 1, &claim));
    CHECK_ALL(EQ(played[0].n_asked, 1), EQ(played[1].n_asked, 2));
}

/* One answer is for all who ask at the time, and is not asked for again until it is too old. */
TEST(an_answer_counts_for_those_who_have_asked_before_it_came)
{
    struct rqli_master_claim claim;
    int64_t begun_us = rqli_now_us();

    CHECK_OK(find(begun_us, &claim));
    CHECK_OK(find(begun_us, &claim));
    assert_int_equal(played[0].n_asked, 1);
    say(0, OTHER_PORT, 2);
    CHECK_OK(find(rqli_now_us() + 1, &claim));
    CHECK_ALL(EQ(claim.address.port, OTHER_PORT), EQ(played[0].n_asked, 2));
}

/* Of those the URL names each is known once. */
TEST(other_sentinels_are_learned_once)
{
    struct rqli_master_claim claim;

    name(0, played[1].port, OTHER_PORT);
    CHECK_OK(find(0, &claim));
    CHECK_ALL(EQ(sentinels->shared.n_known, 3), EQ(sentinels->shared.known[2].port, OTHER_PORT));
}

/* A sentinel does not name itself. */
TEST(one_that_the_url_does_not_name_stays_known_when_it_has_answered)
{
    struct rqli_master_claim claim;

    sentinels->n_named = sentinels->shared.n_known = 1;
    name(0, OTHER_PORT, played[1].port);
    name(1, OTHER_PORT, played[0].port);
    CHECK_OK(find(0, &claim));
    assert_int_equal(sentinels->shared.n_known, 3);
    say(0, 0, 0);
    say(1, 6379, 1);
    sentinels->shared.first = 2;
    CHECK_OK(find(rqli_now_us() + 1, &claim));
    CHECK_ALL(EQ(played[1].n_asked, 1), EQ(sentinels->shared.n_known, 3),
              EQ(sentinels->shared.known[sentinels->shared.first].port, played[1].port));
    CHECK_OK(find(rqli_now_us() + 1, &claim));
    CHECK_ALL(EQ(played[0].n_asked, 1), EQ(played[1].n_asked, 2));
}

/* It may have used up all the time there was. */
TEST(one_that_is_silent_is_not_asked_first_again)
{
    struct rqli_master_claim claim;
    rql_error error;
    char port[16];

    atomic_store(&played[0].is_silent, true);
    sentinels->shared.share_us = rqli_after_ms(0, LONG_MS);
    CHECK_ALL(
        EQ(rqli_sentinels_find(master, 0, rqli_after_ms(rqli_now_us(), SHORT_MS), &claim, &error),
           RQL_E_IO),
        EQ(sentinels->shared.first, 1), EQ(played[1].n_asked, 0));
    (void)snprintf(port, sizeof port, ":%d: ", played[0].port);
    assert_non_null(strstr(error.message, port));
    CHECK_OK(find(0, &claim));
    CHECK_ALL(EQ(sentinels->shared.first, 1), EQ(played[1].n_asked, 1));
}

/* Also if two of them are silent, and there is little time. */
TEST(each_that_the_url_names_has_its_part_of_the_time)
{
    static const struct {
        const char *name;
        int64_t connect_timeout_ms;
        int64_t share_us;
    } rows[] = {
        {"more than it needs", 1000, 300000},
        {"less", 500, 250000},
    };

    EACH_ROW (row, rows) {
        client->session.connect_timeout_ms = row->connect_timeout_ms;
        sentinels = rqli_sentinels_free(sentinels);
        sentinels = rqli_sentinels_new(&client->fleet.first.site);
        assert_non_null(sentinels);
        assert_int_equal(sentinels->shared.share_us, row->share_us);
    }
}

TEST(who_named_a_server_that_cannot_be_had_is_not_asked_first_again)
{
    struct rqli_master_claim claim;
    struct rqli_master_claim other = {.address = {"127.0.0.1", OTHER_PORT}};

    CHECK_OK(find(0, &claim));
    rqli_sentinels_distrust(master, &other); /* somebody else's */
    assert_int_equal(sentinels->shared.first, 0);
    rqli_sentinels_distrust(master, &claim);
    rqli_sentinels_distrust(master, &claim); /* once for an answer */
    assert_int_equal(sentinels->shared.first, 1);
    CHECK_OK(find(0, &claim));
    CHECK_ALL(EQ(played[0].n_asked, 1), EQ(played[1].n_asked, 1));
}

/* The master in use was made by a later failover than all or some of them have heard of. */
static const struct round {
    const char *name;
    int epochs[SENTINELS]; /* 0: it does not know it */
    bool is_long;          /* since they were found so */
    rql_status status;
    int port; /* that is believed: 7000 + the epoch */
} rounds[] = {
    {"the first is up to date", {9, 3}, false, RQL_OK, 7009},
    {"the second is up to date", {3, 9}, false, RQL_OK, 7009},
    {"none of them is", {3, 4}, false, RQL_E_UNAVAILABLE, 0},
    {"none of them has been for long", {3, 4}, true, RQL_OK, 7004},
    {"nor in the other order", {4, 3}, true, RQL_OK, 7004},
    {"half of them are not, for long", {3, 0}, true, RQL_E_UNAVAILABLE, 0},
};

TEST(sentinels_that_know_less_are_believed_if_they_are_most_of_them_for_long)
{
    EACH_ROW (row, rounds) {
        struct rqli_master_claim claim;

        tear_down(); /* each has masters of its own */
        set_up();
        confirm(master, OTHER_PORT - 1, 8);
        for (size_t i = 0; i < SENTINELS; i++) {
            say(i, row->epochs[i] ? 7000 + row->epochs[i] : 0, row->epochs[i]);
        }
        master->said.older_us = row->is_long ? rqli_now_us() - LONG_AGO_US : 0;
        assert_int_equal(find(0, &claim), row->status);
        assert_true(row->status || claim.address.port == row->port);
    }
}

TEST(a_round_in_which_they_are_not_most_begins_the_time_again)
{
    struct rqli_master_claim claim;

    confirm(master, OTHER_PORT - 1, 8);
    say(0, OTHER_PORT, 3);
    say(1, 0, 0);
    master->said.older_us = rqli_now_us() - LONG_AGO_US;
    assert_int_equal(find(0, &claim), RQL_E_UNAVAILABLE);
    say(1, OTHER_PORT, 3);
    assert_int_equal(find(0, &claim), RQL_E_UNAVAILABLE);
    master->said.older_us = rqli_now_us() - LONG_AGO_US;
    CHECK_OK(find(0, &claim));
}

static bool is_asked_often(void *data)
{
    (void)data;
    return played[0].n_asked >= OFTEN;
}

TEST(no_password_is_left_in_memory)
{
    const struct rqli_command *command = &sentinels->asked.command;
    struct rqli_master_claim claim;

    CHECK_OK(find(0, &claim));
    assert_true(command->capacity > sizeof password);
    assert_null(memmem(command->data, command->capacity, "xxxxxxxx", 8));
}

/* By the thread of a client that is used. Another server may be the master soon. */
TEST(a_master_that_is_taken_for_dead_is_asked_for_often)
{
    struct rqli_sentinels *own = client->sentinels;

    client->options.sentinel_check_ms = 60000;
    flags = "s_down,master";
    say(0, OTHER_PORT, 1);
    confirm(own->masters, OTHER_PORT, 1);
    assert_int_equal(eventfd_write(own->changed_fd, 1), 0);
    assert_true(wait_until(is_asked_often, NULL, LONG_MS));
}
