/* What the tools of the tests would get wrong without a test that fails: the fault proxy does what
 * its header says, threads run at the same time, and waiting for a condition ends. */

#include "check.h"

#include "proxy.h"
#include "threads.h"
#include "wait.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { SOON_MS = 5000, QUIET_MS = 30, STEPS_MAX = 10, THREADS = 8 };

/* What becomes of the bytes between a client (c) and a server (s), and what the proxy has counted
 * in the end; connections of 0: nobody looks. A step is a word to the proxy, or of an end:
 *     > says   < hears   1 hears byte by byte   - hears nothing   . hears the end   / ends */
static const struct row {
    const char *name;
    const char *steps[STEPS_MAX];
    struct proxy_counts counts;
    bool is_tcp;
} rows[] = {
    {"bytes pass both ways and are counted",
     {"c>question", "s<question", "s>+answer\r\n:1\r\n", "c<+answer\r\n:1\r\n"},
     {.connections = 1, .open = 1, .up_bytes = 8, .down_bytes = 13, .replies = 2}},
    {"an end passes after the bytes before it", {"c>last", "c/", "s<last", "s.", "s>+a", "c<+a"}},
    {"dribble gives one byte at a time",
     {"dribble 3", "c>up we go", "s1up we go", "s>$4\r\ndown\r\n", "c1$4\r\ndown\r\n"}},
    {"freeze keeps one direction and lets go later",
     {"freeze 1", "c>kept", "s>+passes\r\n", "c<+passes\r\n", "s-", "thaw 1", "s<kept"}},
    {"freeze keeps an end as well", {"freeze 3", "s/", "c-", "heal", "c."}},
    {"cut_after delivers exactly so many bytes",
     {"cut_after 2 4", "s>+answer\r\n", "c<+ans", "c."},
     {.connections = 1, .down_bytes = 4, .replies = 1}},
    {"cut_after counts one direction only and acts once",
     {"cut_after 1 5", "s>+more\r\n", "c<+more\r\n", "c>123456", "s<12345", "s.", "anew",
      "c>much more", "s<much more"}},
    {"cut_after nothing cuts at the next byte",
     {"cut_after 1 0", "s>+fine\r\n", "c<+fine\r\n", "c>x", "s.", "c."}},
    {"drop swallows the n-th reply whole",
     {"drop_reply 2", "s>+one\r\n*2\r\n$3\r\ntw", "s>o\r\n*1\r\n:2\r\n$-1\r\n+four\r\n",
      "c<+one\r\n$-1\r\n+four\r\n"},
     {.connections = 1, .open = 1, .down_bytes = 18, .replies = 4}},
    {"cut_reply ends the connection in its place",
     {"cut_reply 2", "s>+one\r\n+two\r\n+three\r\n", "c<+one\r\n", "c.", "s."}},
    {"what is no reply stream passes untouched",
     {"s>HTTP/1.1\r\n", "c<HTTP/1.1\r\n", "drop_reply 1", "s>+kept\r\n", "c<+kept\r\n"}},
    {"cut ends all and welcomes new ones",
     {"cut 0", "c.", "s.", "anew", "c>again", "s<again"},
     {.connections = 2, .open = 1, .up_bytes = 5}},
    {"refuse refuses until told otherwise, over TCP",
     {"refuse 1", "refused", "c>old", "s<old", "refuse 0", "anew"},
     .is_tcp = true},
    {"delay holds bytes for at least so long",
     {"delay 2 40", "s>+late\r\n", "c>at once", "s<at once", "c<+late\r\n"}},
};

/* A proxy between two ends that are both held by the test. */
struct line {
    struct sockaddr_un address;
    int listener;
    int client;
    int server;
    int64_t began_us;
    int64_t delay_us; /* before the client hears anything */
    struct proxy *proxy;
    bool is_tcp;
};

static int dial(const struct line *line)
{
    struct sockaddr_in port = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    const void *address = line->is_tcp ? (const void *)&port : &path;
    int fd = socket(line->is_tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    port.sin_port = htons((uint16_t)proxy_port(line->proxy));
    (void)snprintf(path.sun_path, sizeof path.sun_path, "%s", proxy_socket_path(line->proxy));
    if (connect(fd, address, line->is_tcp ? sizeof port : sizeof path)) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

static void join_ends(struct line *line)
{
    line->client = dial(line);
    assert_true(line->client >= 0);
    assert_true(wait_readable(line->listener, SOON_MS));
    line->server = accept(line->listener, NULL, NULL);
    assert_true(line->server >= 0);
}

static void part_ends(const struct line *line)
{
    (void)close(line->client);
    (void)close(line->server);
}

/* Exactly this arrives next, in as many pieces as it likes, or one byte at a time. */
static void hear(int fd, const char *text, bool one_by_one)
{
    char heard[256] = {0};
    size_t length = 0;

    while (length < strlen(text)) {
        ssize_t piece;

        assert_true(wait_readable(fd, SOON_MS));
        piece = recv(fd, heard + length, one_by_one ? 64 : strlen(text) - length, 0);
        assert_true(piece > 0 && (piece == 1 || !one_by_one));
        length += (size_t)piece;
    }
    assert_string_equal(heard, text);
}

static void act(const struct line *line, const char *step)
{
    int fd = step[0] == 'c' ? line->client : line->server;
    const char *text = step + 2;
    char byte;

    if (step[1] == '>') {
        assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
    } else if (step[1] == '-') {
        assert_false(wait_readable(fd, QUIET_MS));
    } else if (step[1] == '/') {
        assert_int_equal(shutdown(fd, step[0] == 'c' ? SHUT_WR : SHUT_RDWR), 0);
    } else if (step[1] == '.') { /* by FIN or RST */
        assert_true(wait_readable(fd, SOON_MS));
        assert_true(recv(fd, &byte, 1, 0) <= 0);
    } else {
        hear(fd, text, step[1] == '1');
        assert_true(step[0] == 's' || wait_clock_us() - line->began_us >= line->delay_us);
    }
}

/* Words to the proxy, and to us: a new connection; and none is to be had. */
static void tell(struct line *line, const char *step)
{
    struct proxy *proxy = line->proxy;
    char *end = NULL;
    int first = (int)strtol(step + strcspn(step, " "), &end, 10);
    int second = (int)strtol(end, NULL, 10);
    char word[16];

    (void)snprintf(word, sizeof word, "%.*s", (int)strcspn(step, " "), step);
    if (strcmp(word, "anew") == 0) {
        part_ends(line);
        join_ends(line);
    } else if (strcmp(word, "refused") == 0) {
        assert_int_equal(dial(line), -1);
        assert_int_equal(errno, ECONNREFUSED);
    } else if (strcmp(word, "dribble") == 0) {
        proxy_dribble(proxy, first, true);
    } else if (strcmp(word, "freeze") == 0 || strcmp(word, "thaw") == 0) {
        proxy_freeze(proxy, first, *word == 'f');
    } else if (strcmp(word, "delay") == 0) {
        line->began_us = wait_clock_us();
        line->delay_us = (int64_t)second * 1000;
        proxy_delay(proxy, first, second);
    } else if (strcmp(word, "heal") == 0) {
        proxy_heal(proxy);
    } else if (strcmp(word, "cut") == 0) {
        proxy_cut(proxy);
    } else if (strcmp(word, "cut_after") == 0) {
        proxy_cut_after(proxy, first, second);
    } else if (strcmp(word, "cut_reply") == 0) {
        proxy_cut_reply(proxy, first);
    } else if (strcmp(word, "drop_reply") == 0) {
        proxy_drop_reply(proxy, first);
    } else {
        assert_string_equal(word, "refuse");
        proxy_refuse(proxy, first);
    }
}

static void play(struct line *line, const struct row *row)
{
    struct proxy_counts counts;

    line->proxy = (row->is_tcp ? proxy_start_tcp : proxy_start)(line->address.sun_path);
    join_ends(line);
    for (size_t i = 0; i < STEPS_MAX && row->steps[i]; i++) {
        const char *step = row->steps[i];

        print_message("#   step %zu\n", i);
        if ((step[0] == 'c' || step[0] == 's') && strchr("><1-./", step[1])) {
            act(line, step);
        } else {
            tell(line, step);
        }
    }
    counts = proxy_counts(line->proxy);
    assert_true(row->counts.connections == 0 || memcmp(&counts, &row->counts, sizeof counts) == 0);
    part_ends(line);
    assert_null(proxy_stop(line->proxy));
}

TEST(every_switch_does_what_the_header_says)
{
    EACH_ROW (row, rows) {
        struct line line = {.is_tcp = row->is_tcp, .address.sun_family = AF_UNIX};
        char dir[] = "/tmp/rql-test-XXXXXX";

        assert_non_null(mkdtemp(dir));
        (void)snprintf(line.address.sun_path, sizeof line.address.sun_path, "%s/s", dir);
        line.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(
            bind(line.listener, (const struct sockaddr *)&line.address, sizeof line.address), 0);
        assert_int_equal(listen(line.listener, 8), 0);
        play(&line, row);
        (void)close(line.listener);
        (void)unlink(line.address.sun_path);
        assert_int_equal(rmdir(dir), 0); /* the proxy has left nothing behind */
    }
}

struct crowd {
    atomic_size_t inside;
    atomic_size_t met; /* how many threads saw all the others */
};

static bool all_are_inside(void *data)
{
    struct crowd *crowd = data;

    return atomic_load(&crowd->inside) == THREADS;
}

static void meet(size_t index, void *data)
{
    struct crowd *crowd = data;

    (void)index;
    (void)atomic_fetch_add(&crowd->inside, 1);
    if (wait_until(all_are_inside, crowd, SOON_MS)) {
        (void)atomic_fetch_add(&crowd->met, 1);
    }
}

TEST(threads_run_at_the_same_time_and_waiting_ends)
{
    struct crowd crowd = {0};
    struct crowd empty = {0};
    int64_t began_us = wait_clock_us();

    assert_false(wait_until(all_are_inside, &empty, 5));
    assert_true(wait_clock_us() - began_us >= 5000);
    threads_run(THREADS, meet, &crowd);
    assert_int_equal(atomic_load(&crowd.met), THREADS);
}
