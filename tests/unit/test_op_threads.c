#include "check.h"

#include "base/clock.h"
#include "lock/client.h"
#include "net/op/op.h"
#include "net/op/op_threads.h"
#include "no_server.h"
#include "one_op.h"
#include "peer.h"

#include <poll.h>
#include <pthread.h>

/* An operation on the thread of its caller, whose calls are to be safe. The server is the test. */

enum { CALLS = 2, ROUNDS_MAX = 2, LONG_MS = 20000, HEARD_SIZE = 1 << 16 };

#define UNKNOWN "-NOSCRIPT No matching script. Please use EVAL.\r\n"
#define DONE ":1\r\n"
#define ACKED(n) ":" #n "\r\n"

/* What the server says, each time that it has heard calls with WAIT behind them. */
static const struct row {
    const char *name;
    const char *says[ROUNDS_MAX];
    int64_t replicas;
    bool is_of_words; /* commands, of no script */
} rows[] = {
    {"both calls at once", {DONE DONE ACKED(2)}, 2},
    {"a repeated call is safer than the first", {DONE UNKNOWN ACKED(0), DONE ACKED(2)}, 0},
    {"a repeated call is less safe", {UNKNOWN DONE ACKED(2), DONE ACKED(1)}, 1},
    {"what did nothing says nothing", {UNKNOWN UNKNOWN ACKED(0), DONE DONE ACKED(2)}, 2},
    {"a fault names its command", {"-OOM x\r\n-OOM x\r\n" ACKED(2)}, INT64_MAX, true},
};

struct server {
    const struct row *row;
    int peer;
};

/* No assertion: this is another thread. What goes wrong shows in what its caller has read. */
static void *serve(void *data)
{
    static char text[HEARD_SIZE];
    const struct server *self = data;

    for (size_t i = 0; i < ROUNDS_MAX && self->row->says[i]; i++) {
        struct pollfd readable = {.fd = self->peer, .events = POLLIN};
        size_t length = 0;

        memset(text, 0, sizeof text);
        while (!strstr(text, "\r\nWAIT\r\n") && length < sizeof text - 1 &&
               poll(&readable, 1, LONG_MS) == 1) {
            ssize_t got = recv(self->peer, text + length, sizeof text - 1 - length, 0);

            if (got <= 0) {
                return NULL;
            }
            length += (size_t)got;
        }
        (void)send(self->peer, self->row->says[i], strlen(self->row->says[i]), MSG_NOSIGNAL);
    }
    return NULL;
}

TEST(a_round_is_as_safe_as_the_least_safe_of_its_calls)
{
    static const struct rqli_durability wanted = {.replicas = 1, .timeout_ms = LONG_MS};

    EACH_ROW (row, rows) {
        rql_client *client = client_without_server();
        struct server server = {row, peer_of(client->fleet.first.conns.durable)};
        pthread_t thread;

        memset(&one, 0, sizeof one);
        one.is_of_words = row->is_of_words;
        rqli_keys_init(&one.keys, one.memory, &rqli_key_sets[RQLI_WHOLE], rqli_slice_of("x"));
        one.op = (struct rqli_op){
            .ops = &one_ops,
            .route = rqli_client_route(client, &one.keys),
            .n_calls = CALLS,
            .until_us = rqli_after_ms(rqli_now_us(), LONG_MS),
            .durability = &wanted,
        };
        one.op.route.use = RQLI_OP_DURABLE;
        assert_int_equal(pthread_create(&thread, NULL, serve, &server), 0);
        CHECK_OK(rqli_op_run(&one.op));
        assert_int_equal(pthread_join(thread, NULL), 0);
        CHECK_ALL(EQ(one.n_replies, row->is_of_words ? 0 : CALLS),
                  EQ(one.was_sent, row->is_of_words), EQ(one.op.acks.replicas, row->replicas));
        assert_non_null(strstr(one.error.message, row->is_of_words ? "TYPE on rql:key: OOM" : ""));
        (void)close(server.peer);
        (void)rqli_client_free(client);
    }
}
