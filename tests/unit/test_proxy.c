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

enum { SOON_MS = 5000, QUIET_MS = 30, DELAY_MS = 40 };

/* A proxy between `client` and `server`, both ends held by the test. */
struct line {
    char dir[64];
    struct sockaddr_un address;
    int listener;
    struct proxy *proxy;
    int client;
    int server;
};

static int dial(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address)) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

static void join_ends(struct line *line)
{
    line->client = dial(proxy_socket_path(line->proxy));
    assert_true(line->client >= 0);
    assert_true(wait_readable(line->listener, SOON_MS));
    line->server = accept(line->listener, NULL, NULL);
    assert_true(line->server >= 0);
}

static int open_line(void **state)
{
    struct line *line = calloc(1, sizeof *line);

    assert_non_null(line);
    (void)snprintf(line->dir, sizeof line->dir, "/tmp/rql-test-XXXXXX");
    assert_non_null(mkdtemp(line->dir));
    line->address.sun_family = AF_UNIX;
    (void)snprintf(line->address.sun_path, sizeof line->address.sun_path, "%s/s", line->dir);
    line->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(
        bind(line->listener, (const struct sockaddr *)&line->address, sizeof line->address), 0);
    assert_int_equal(listen(line->listener, 8), 0);
    line->proxy = proxy_start(line->address.sun_path);
    join_ends(line);
    *state = line;
    return 0;
}

static int close_line(void **state)
{
    struct line *line = *state;

    line->proxy = proxy_stop(line->proxy);
    (void)close(line->client);
    (void)close(line->server);
    (void)close(line->listener);
    (void)unlink(line->address.sun_path);
    assert_int_equal(rmdir(line->dir), 0); /* the proxy has left nothing behind */
    free(line);
    return 0;
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

static void bytes_pass_both_ways_and_are_counted(void **state)
{
    struct line *line = *state;
    struct proxy_counts counts;

    say(line->client, "question");
    hear(line->server, "question");
    say(line->server, "+answer\r\n:1\r\n");
    hear(line->client, "+answer\r\n:1\r\n");
    counts = proxy_counts(line->proxy);
    assert_int_equal(counts.connections, 1);
    assert_int_equal(counts.open, 1);
    assert_int_equal(counts.up_bytes, 8);
    assert_int_equal(counts.down_bytes, 13);
    assert_int_equal(counts.replies, 2);
}

static void an_end_passes_after_the_bytes_before_it(void **state)
{
    struct line *line = *state;

    say(line->client, "last");
    assert_int_equal(shutdown(line->client, SHUT_WR), 0);
    hear(line->server, "last");
    hear_the_end(line->server);
    say(line->server, "+still heard\r\n");
    hear(line->client, "+still heard\r\n");
}

static void expect_single_bytes(int from, int to, const char *text)
{
    char buffer[64];
    size_t i;

    say(from, text);
    for (i = 0; i < strlen(text); i++) {
        assert_true(wait_readable(to, SOON_MS));
        assert_int_equal(recv(to, buffer, sizeof buffer, 0), 1);
        assert_int_equal(buffer[0], text[i]);
    }
}

static void dribble_gives_one_byte_at_a_time(void **state)
{
    struct line *line = *state;

    proxy_dribble(line->proxy, PROXY_BOTH, true);
    expect_single_bytes(line->client, line->server, "up we go");
    expect_single_bytes(line->server, line->client, "$4\r\ndown\r\n");
}

static void delay_holds_bytes_for_at_least_so_long(void **state)
{
    struct line *line = *state;
    int64_t began_us;

    proxy_delay(line->proxy, PROXY_DOWN, DELAY_MS);
    began_us = wait_clock_us();
    say(line->server, "+late\r\n");
    say(line->client, "at once");
    hear(line->server, "at once");
    hear(line->client, "+late\r\n");
    assert_true(wait_clock_us() - began_us >= DELAY_MS * 1000);
}

static void freeze_keeps_one_direction_and_lets_go_later(void **state)
{
    struct line *line = *state;

    proxy_freeze(line->proxy, PROXY_UP, true);
    say(line->client, "kept");
    say(line->server, "+passes\r\n");
    hear(line->client, "+passes\r\n");
    hear_nothing(line->server);
    proxy_freeze(line->proxy, PROXY_UP, false);
    hear(line->server, "kept");
}

static void freeze_keeps_an_end_as_well(void **state)
{
    struct line *line = *state;

    proxy_freeze(line->proxy, PROXY_BOTH, true);
    assert_int_equal(shutdown(line->server, SHUT_RDWR), 0);
    hear_nothing(line->client);
    proxy_heal(line->proxy);
    hear_the_end(line->client);
}

static void cut_after_delivers_exactly_so_many_bytes(void **state)
{
    struct line *line = *state;

    proxy_cut_after(line->proxy, PROXY_DOWN, 4);
    say(line->server, "+answer\r\n");
    hear(line->client, "+ans");
    hear_the_end(line->client);
    assert_int_equal(proxy_counts(line->proxy).open, 0);
    assert_int_equal(proxy_counts(line->proxy).down_bytes, 4);
}

static void cut_after_counts_one_direction_only_and_acts_once(void **state)
{
    struct line *line = *state;

    proxy_cut_after(line->proxy, PROXY_UP, 5);
    say(line->server, "+longer than five\r\n");
    hear(line->client, "+longer than five\r\n");
    say(line->client, "1234");
    hear(line->server, "1234");
    say(line->client, "56");
    hear(line->server, "5");
    hear_the_end(line->server);

    (void)close(line->client);
    (void)close(line->server);
    join_ends(line);
    say(line->client, "much more than five");
    hear(line->server, "much more than five");
}

static void cut_after_nothing_cuts_at_the_next_byte(void **state)
{
    struct line *line = *state;

    proxy_cut_after(line->proxy, PROXY_UP, 0);
    say(line->server, "+fine\r\n");
    hear(line->client, "+fine\r\n");
    say(line->client, "x");
    hear_the_end(line->server);
    hear_the_end(line->client);
}

static void drop_swallows_the_nth_reply_whole(void **state)
{
    struct line *line = *state;

    proxy_drop_reply(line->proxy, 2);
    say(line->server, "+one\r\n*2\r\n$3\r\ntw");
    say(line->server, "o\r\n*1\r\n:2\r\n$-1\r\n+four\r\n");
    hear(line->client, "+one\r\n$-1\r\n+four\r\n");
    assert_int_equal(proxy_counts(line->proxy).replies, 4);
}

static void cut_reply_ends_the_connection_in_its_place(void **state)
{
    struct line *line = *state;

    proxy_cut_reply(line->proxy, 2);
    say(line->server, "+one\r\n+two\r\n+three\r\n");
    hear(line->client, "+one\r\n");
    hear_the_end(line->client);
    hear_the_end(line->server);
}

static void what_is_no_reply_stream_passes_untouched(void **state)
{
    struct line *line = *state;

    say(line->server, "HTTP/1.1 400 Bad Request\r\n");
    hear(line->client, "HTTP/1.1 400 Bad Request\r\n");
    proxy_drop_reply(line->proxy, 1);
    say(line->server, "+kept\r\n");
    hear(line->client, "+kept\r\n");
}

static void cut_ends_all_and_welcomes_new_ones(void **state)
{
    struct line *line = *state;

    proxy_cut(line->proxy);
    hear_the_end(line->client);
    hear_the_end(line->server);
    assert_int_equal(proxy_counts(line->proxy).open, 0);

    (void)close(line->client);
    (void)close(line->server);
    join_ends(line);
    say(line->client, "again");
    hear(line->server, "again");
    assert_int_equal(proxy_counts(line->proxy).connections, 2);
}

static void refuse_refuses_until_told_otherwise(void **state)
{
    struct line *line = *state;

    proxy_refuse(line->proxy, true);
    assert_int_equal(dial(proxy_socket_path(line->proxy)), -1);
    assert_int_equal(errno, ECONNREFUSED);
    say(line->client, "old ones stay");
    hear(line->server, "old ones stay");

    proxy_refuse(line->proxy, false);
    (void)close(line->client);
    (void)close(line->server);
    join_ends(line);
}

static int dial_tcp(const struct proxy *proxy)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)proxy_port(proxy));
    if (connect(fd, (const struct sockaddr *)&address, sizeof address)) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

static void a_port_works_as_a_socket_does(void **state)
{
    const struct line *line = *state;
    struct proxy *proxy = proxy_start_tcp(line->address.sun_path);
    int client = dial_tcp(proxy);
    int server;

    assert_true(client >= 0);
    assert_true(wait_readable(line->listener, SOON_MS));
    server = accept(line->listener, NULL, NULL);
    say(client, "over tcp");
    hear(server, "over tcp");
    proxy_cut_after(proxy, PROXY_DOWN, 3);
    say(server, "+answer\r\n");
    hear(client, "+an");
    hear_the_end(client);

    proxy_refuse(proxy, true);
    assert_int_equal(dial_tcp(proxy), -1);
    proxy_refuse(proxy, false);
    (void)close(client);
    client = dial_tcp(proxy);
    assert_true(client >= 0);
    proxy = proxy_stop(proxy);
    assert_null(proxy);
    (void)close(client);
    (void)close(server);
}

#define ON_A_LINE(test) cmocka_unit_test_setup_teardown(test, open_line, close_line)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_A_LINE(bytes_pass_both_ways_and_are_counted),
        ON_A_LINE(an_end_passes_after_the_bytes_before_it),
        ON_A_LINE(dribble_gives_one_byte_at_a_time),
        ON_A_LINE(delay_holds_bytes_for_at_least_so_long),
        ON_A_LINE(freeze_keeps_one_direction_and_lets_go_later),
        ON_A_LINE(freeze_keeps_an_end_as_well),
        ON_A_LINE(cut_after_delivers_exactly_so_many_bytes),
        ON_A_LINE(cut_after_counts_one_direction_only_and_acts_once),
        ON_A_LINE(cut_after_nothing_cuts_at_the_next_byte),
        ON_A_LINE(drop_swallows_the_nth_reply_whole),
        ON_A_LINE(cut_reply_ends_the_connection_in_its_place),
        ON_A_LINE(what_is_no_reply_stream_passes_untouched),
        ON_A_LINE(cut_ends_all_and_welcomes_new_ones),
        ON_A_LINE(refuse_refuses_until_told_otherwise),
        ON_A_LINE(a_port_works_as_a_socket_does),
    };

    return cmocka_run_group_tests_name("proxy", tests, NULL, NULL);
}
