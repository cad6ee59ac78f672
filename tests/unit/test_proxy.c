/* The fault proxy does what its header says. */

#include "check.h"

#include "proxy.h"
#include "wait.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { SOON_MS = 5000, QUIET_MS = 30, DELAY_MS = 40, STEPS_MAX = 12 };

/* A proxy between `client` and `server`, both ends held by the test. */
struct line {
    char dir[64];
    struct sockaddr_un address;
    int listener;
    struct proxy *proxy;
    bool is_tcp;
    int client;
    int server;
};

/* What an end says or hears, and what the proxy is told. */
enum act {
    DONE,
    UP, /* it passes */
    DOWN,
    CLIENT_SAYS,
    CLIENT_HEARS,
    CLIENT_HEARS_NOTHING,
    CLIENT_HEARS_BYTES, /* one at a time */
    CLIENT_HEARS_END,
    CLIENT_ENDS, /* what it says, not what it hears */
    SERVER_SAYS,
    SERVER_HEARS,
    SERVER_HEARS_NOTHING,
    SERVER_HEARS_BYTES,
    SERVER_HEARS_END,
    SERVER_SHUTS,
    JOIN_ANEW,
    IS_REFUSED,
    DRIBBLE,
    FREEZE,
    THAW,
    HEAL,
    CUT,
    CUT_AFTER,
    CUT_REPLY,
    DROP_REPLY,
    REFUSE,
    ACCEPT,
};

struct step {
    enum act act;
    const char *text;
    enum proxy_direction way;
    unsigned n; /* bytes, or the n-th reply */
};

/* What the proxy has counted in the end; connections of 0: nobody looks. */
static const struct row {
    const char *name;
    bool is_tcp;
    struct proxy_counts counts;
    struct step steps[STEPS_MAX];
} rows[] = {
    {"bytes pass both ways and are counted",
     .steps = {{UP, "question"}, {DOWN, "+answer\r\n:1\r\n"}},
     .counts = {.connections = 1, .open = 1, .up_bytes = 8, .down_bytes = 13, .replies = 2}},
    {"an end passes after the bytes before it", .steps = {{CLIENT_SAYS, "last"},
                                                          {CLIENT_ENDS},
                                                          {SERVER_HEARS, "last"},
                                                          {SERVER_HEARS_END},
                                                          {DOWN, "+still heard\r\n"}}},
    {"dribble gives one byte at a time", .steps = {{DRIBBLE, .way = PROXY_BOTH},
                                                   {CLIENT_SAYS, "up we go"},
                                                   {SERVER_HEARS_BYTES, "up we go"},
                                                   {SERVER_SAYS, "$4\r\ndown\r\n"},
                                                   {CLIENT_HEARS_BYTES, "$4\r\ndown\r\n"}}},
    {"freeze keeps one direction and lets go later", .steps = {{FREEZE, .way = PROXY_UP},
                                                               {CLIENT_SAYS, "kept"},
                                                               {DOWN, "+passes\r\n"},
                                                               {SERVER_HEARS_NOTHING},
                                                               {THAW, .way = PROXY_UP},
                                                               {SERVER_HEARS, "kept"}}},
    {"freeze keeps an end as well", .steps = {{FREEZE, .way = PROXY_BOTH},
                                              {SERVER_SHUTS},
                                              {CLIENT_HEARS_NOTHING},
                                              {HEAL},
                                              {CLIENT_HEARS_END}}},
    {"cut_after delivers exactly so many bytes",
     .steps = {{CUT_AFTER, .way = PROXY_DOWN, .n = 4},
               {SERVER_SAYS, "+answer\r\n"},
               {CLIENT_HEARS, "+ans"},
               {CLIENT_HEARS_END}},
     .counts = {.connections = 1, .down_bytes = 4, .replies = 1}},
    {"cut_after counts one direction only and acts once",
     .steps = {{CUT_AFTER, .way = PROXY_UP, .n = 5},
               {DOWN, "+longer than five\r\n"},
               {UP, "1234"},
               {CLIENT_SAYS, "56"},
               {SERVER_HEARS, "5"},
               {SERVER_HEARS_END},
               {JOIN_ANEW},
               {UP, "much more than five"}}},
    {"cut_after nothing cuts at the next byte", .steps = {{CUT_AFTER, .way = PROXY_UP},
                                                          {DOWN, "+fine\r\n"},
                                                          {CLIENT_SAYS, "x"},
                                                          {SERVER_HEARS_END},
                                                          {CLIENT_HEARS_END}}},
    {"drop swallows the n-th reply whole",
     .steps = {{DROP_REPLY, .n = 2},
               {SERVER_SAYS, "+one\r\n*2\r\n$3\r\ntw"},
               {SERVER_SAYS, "o\r\n*1\r\n:2\r\n$-1\r\n+four\r\n"},
               {CLIENT_HEARS, "+one\r\n$-1\r\n+four\r\n"}},
     .counts = {.connections = 1, .open = 1, .down_bytes = 18, .replies = 4}},
    {"cut_reply ends the connection in its place",
     .steps = {{CUT_REPLY, .n = 2},
               {SERVER_SAYS, "+one\r\n+two\r\n+three\r\n"},
               {CLIENT_HEARS, "+one\r\n"},
               {CLIENT_HEARS_END},
               {SERVER_HEARS_END}}},
    {"what is no reply stream passes untouched",
     .steps = {{DOWN, "HTTP/1.1 400 Bad Request\r\n"}, {DROP_REPLY, .n = 1}, {DOWN, "+kept\r\n"}}},
    {"cut ends all", .steps = {{CUT}, {CLIENT_HEARS_END}, {SERVER_HEARS_END}},
     .counts = {.connections = 1}},
    {"cut welcomes new ones",
     .steps = {{CUT}, {CLIENT_HEARS_END}, {SERVER_HEARS_END}, {JOIN_ANEW}, {UP, "again"}},
     .counts = {.connections = 2, .open = 1, .up_bytes = 5}},
    {"refuse refuses until told otherwise",
     .steps = {{REFUSE}, {IS_REFUSED}, {UP, "old ones stay"}, {ACCEPT}, {JOIN_ANEW}}},
    {"a port works as a socket does", .is_tcp = true,
     .steps = {{UP, "over tcp"},
               {CUT_AFTER, .way = PROXY_DOWN, .n = 3},
               {SERVER_SAYS, "+answer\r\n"},
               {CLIENT_HEARS, "+an"},
               {CLIENT_HEARS_END},
               {REFUSE},
               {IS_REFUSED},
               {ACCEPT},
               {JOIN_ANEW}}},
};

static int dial(const struct line *line)
{
    const int family = line->is_tcp ? AF_INET : AF_UNIX;
    struct sockaddr_in port = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    const void *address = line->is_tcp ? (const void *)&port : &path;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (line->is_tcp) {
        port.sin_port = htons((uint16_t)proxy_port(line->proxy));
    } else {
        (void)snprintf(path.sun_path, sizeof path.sun_path, "%s", proxy_socket_path(line->proxy));
    }
    if (connect(fd, address, line->is_tcp ? sizeof port : sizeof path)) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

static int welcome(int listener)
{
    int fd;

    assert_true(wait_readable(listener, SOON_MS));
    fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    return fd;
}

static void join_ends(struct line *line)
{
    line->client = dial(line);
    assert_true(line->client >= 0);
    line->server = welcome(line->listener);
}

static void part_ends(const struct line *line)
{
    (void)close(line->client);
    (void)close(line->server);
}

static void open_line(struct line *line, bool is_tcp)
{
    *line = (struct line){.is_tcp = is_tcp, .address.sun_family = AF_UNIX};
    (void)snprintf(line->dir, sizeof line->dir, "/tmp/rql-test-XXXXXX");
    assert_non_null(mkdtemp(line->dir));
    (void)snprintf(line->address.sun_path, sizeof line->address.sun_path, "%s/s", line->dir);
    line->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(
        bind(line->listener, (const struct sockaddr *)&line->address, sizeof line->address), 0);
    assert_int_equal(listen(line->listener, 8), 0);
    line->proxy = (is_tcp ? proxy_start_tcp : proxy_start)(line->address.sun_path);
    join_ends(line);
}

static void close_line(struct line *line)
{
    line->proxy = proxy_stop(line->proxy);
    assert_null(line->proxy);
    part_ends(line);
    (void)close(line->listener);
    (void)unlink(line->address.sun_path);
    assert_int_equal(rmdir(line->dir), 0); /* the proxy has left nothing behind */
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Exactly this arrives next, in as many pieces as it likes. */
static void hear(int fd, const char *text)
{
    char heard[256] = {0};
    size_t length = 0;
    ssize_t piece;

    while (length < strlen(text)) {
        assert_true(wait_readable(fd, SOON_MS));
        piece = recv(fd, heard + length, strlen(text) - length, 0);
        assert_true(piece > 0);
        length += (size_t)piece;
    }
    assert_string_equal(heard, text);
}

static void hear_nothing(int fd)
{
    assert_false(wait_readable(fd, QUIET_MS));
}

/* The connection has ended, by FIN or RST. */
static void hear_the_end(int fd)
{
    char byte;

    assert_true(wait_readable(fd, SOON_MS));
    assert_true(recv(fd, &byte, 1, 0) <= 0);
}

static void hear_bytes(int fd, const char *text)
{
    char buffer[64];

    for (size_t i = 0; i < strlen(text); i++) {
        assert_true(wait_readable(fd, SOON_MS));
        assert_int_equal(recv(fd, buffer, sizeof buffer, 0), 1);
        assert_int_equal(buffer[0], text[i]);
    }
}

/* The proxy is told; false: that is not for it. */
static bool tell_proxy(struct proxy *proxy, const struct step *step)
{
    enum act act = step->act;

    if (act == DRIBBLE) {
        proxy_dribble(proxy, step->way, true);
    } else if (act == FREEZE || act == THAW) {
        proxy_freeze(proxy, step->way, act == FREEZE);
    } else if (act == HEAL) {
        proxy_heal(proxy);
    } else if (act == CUT) {
        proxy_cut(proxy);
    } else if (act == CUT_AFTER) {
        proxy_cut_after(proxy, step->way, step->n);
    } else if (act == CUT_REPLY) {
        proxy_cut_reply(proxy, step->n);
    } else if (act == DROP_REPLY) {
        proxy_drop_reply(proxy, step->n);
    } else if (act == REFUSE || act == ACCEPT) {
        proxy_refuse(proxy, act == REFUSE);
    } else {
        return false;
    }
    return true;
}

static void act(struct line *line, const struct step *step)
{
    enum act act = step->act;
    int fd = act <= CLIENT_ENDS ? line->client : line->server;

    if (act == UP || act == DOWN) {
        say(act == UP ? line->client : line->server, step->text);
        hear(act == UP ? line->server : line->client, step->text);
    } else if (act == CLIENT_SAYS || act == SERVER_SAYS) {
        say(fd, step->text);
    } else if (act == CLIENT_HEARS || act == SERVER_HEARS) {
        hear(fd, step->text);
    } else if (act == CLIENT_HEARS_NOTHING || act == SERVER_HEARS_NOTHING) {
        hear_nothing(fd);
    } else if (act == CLIENT_HEARS_BYTES || act == SERVER_HEARS_BYTES) {
        hear_bytes(fd, step->text);
    } else if (act == CLIENT_HEARS_END || act == SERVER_HEARS_END) {
        hear_the_end(fd);
    } else if (act == CLIENT_ENDS || act == SERVER_SHUTS) {
        assert_int_equal(shutdown(fd, act == CLIENT_ENDS ? SHUT_WR : SHUT_RDWR), 0);
    } else if (act == JOIN_ANEW) {
        part_ends(line);
        join_ends(line);
    } else if (act == IS_REFUSED) {
        assert_int_equal(dial(line), -1);
        assert_int_equal(errno, ECONNREFUSED);
    } else {
        assert_true(tell_proxy(line->proxy, step));
    }
}

static void every_switch_does_what_the_header_says(void **state)
{
    (void)state;
    for (const struct row *row = rows; row < rows + N_ROWS(rows); row++) {
        struct line line;
        struct proxy_counts counts;

        say_row(row->name);
        open_line(&line, row->is_tcp);
        for (const struct step *step = row->steps; step->act != DONE; step++) {
            print_message("#   step %d\n", (int)(step - row->steps));
            act(&line, step);
        }
        counts = proxy_counts(line.proxy);
        if (row->counts.connections > 0) {
            assert_int_equal(counts.connections, row->counts.connections);
            assert_int_equal(counts.open, row->counts.open);
            assert_int_equal(counts.up_bytes, row->counts.up_bytes);
            assert_int_equal(counts.down_bytes, row->counts.down_bytes);
            assert_int_equal(counts.replies, row->counts.replies);
        }
        close_line(&line);
    }
}

static void delay_holds_bytes_for_at_least_so_long(void **state)
{
    struct line line;
    int64_t began_us;

    (void)state;
    open_line(&line, false);
    proxy_delay(line.proxy, PROXY_DOWN, DELAY_MS);
    began_us = wait_clock_us();
    say(line.server, "+late\r\n");
    say(line.client, "at once");
    hear(line.server, "at once");
    hear(line.client, "+late\r\n");
    assert_true(wait_clock_us() - began_us >= DELAY_MS * 1000);
    close_line(&line);
}

static void repeat_says_everything_twice_and_lets_one_answer_through(void **state)
{
    struct line line;
    int again;

    (void)state;
    open_line(&line, false);
    proxy_repeat(line.proxy, true);
    part_ends(&line);
    join_ends(&line);
    again = welcome(line.listener);
    say(line.client, "question");
    hear(line.server, "question");
    hear(again, "question");
    say(again, "+swallowed\r\n");
    say(line.server, "+answer\r\n");
    hear(line.client, "+answer\r\n");
    hear_nothing(line.client);
    part_ends(&line);
    hear_the_end(again);
    (void)close(again);
    proxy_heal(line.proxy);
    join_ends(&line);
    hear_nothing(line.listener);
    close_line(&line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_switch_does_what_the_header_says),
        cmocka_unit_test(delay_holds_bytes_for_at_least_so_long),
        cmocka_unit_test(repeat_says_everything_twice_and_lets_one_answer_through),
    };

    return cmocka_run_group_tests_name("proxy", tests, NULL, NULL);
}
