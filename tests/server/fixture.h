#ifndef FIXTURE_H
#define FIXTURE_H

/* What the tests of the lock calls share: a server, a second connection to it that bypasses the
 * library, clients, and acquisitions that wait in a thread of their own. A test program has one
 * server; without RQL_TEST_REDIS it skips its tests. */

#include "check.h"
#include "redis_server.h"
#include "wait.h"

#include <rql/admin.h>

#include <hiredis.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TEXT_SIZE = 1024, AWAIT_MS = 10000 };

#define FORMAT(number, first) __attribute__((format(printf, number, first)))
#define FORMAT_COMMAND(text, format)                                                               \
    do {                                                                                           \
        va_list args;                                                                              \
                                                                                                   \
        va_start(args, format);                                                                    \
        (void)vsnprintf(text, sizeof text, format, args);                                          \
        va_end(args);                                                                              \
    } while (0)

extern struct redis_server server;
extern redisContext *raw;

void start_server(void);
void stop_server(void);
void empty_server(void);

/* Commands to the server, split at blanks. The first returns the reply, which is no error. */
redisReply *ask_reply(const char *text);
void ask(const char *format, ...) FORMAT(1, 2);

/* Returns the integer, or the integer in a text, of the reply; INT64_MIN for nil. */
int64_t ask_int(const char *format, ...) FORMAT(1, 2);

/* Waits until the command returns the value. */
void await_int(int64_t value, const char *format, ...) FORMAT(2, 3);

struct expected {
    char text[TEXT_SIZE];
    int64_t value;
};

bool is_as_expected(void *expected);

/* How often the server has run a command, for clients and for scripts. */
int64_t calls_of(const char *command);

/* A number in a section of INFO. */
int64_t info_of(const char *section, const char *name);

/* The open descriptors of this process; one more shows that a thread connects. */
int count_descriptors(void);
void await_descriptors(int least);

/* No client waits for the lock, and none that waited has left anything. */
#define CHECK_QUEUE_IS_EMPTY(name)                                                                 \
    do {                                                                                           \
        assert_int_equal(ask_int("ZCARD rql:lock_queue:%s", name), 0);                             \
        assert_int_equal(ask_int("HLEN rql:req:%s", name), 0);                                     \
    } while (0)

/* Waits until neither lock nor queue nor requests are there. */
void expect_nothing_left(const char *name);

/* For wait_until(): is it later than this time of wait_clock_us()? */
bool is_past(void *us);

rql_options client_options(void);
rql_client *new_client_with(const rql_options *options);
rql_client *new_client(void);

/* Two clients, not connected yet: make_clients() empties the server first. */
extern rql_client *client;
extern rql_client *other;

void make_clients(void);
void free_clients(void);

rql_series_options series_of(const char *const *names, size_t count);

/* Waits as long as it takes, with a ttl that does not end within a test. */
rql_lock_options patient(const rql_client *of);
rql_lock *hold_with(rql_client *by, const char *name, const rql_lock_options *options);
rql_lock *hold(rql_client *by, const char *name);

/* An acquisition in a thread of its own. */
struct waiter {
    rql_client *client;
    const char *name;
    rql_lock_options options;
    bool releases; /* at once, in its thread */
    pthread_t thread;
    rql_lock *lock;
    rql_status status;
    rql_error error;
};

void *run_waiter(void *waiter);
void waiter_start(struct waiter *self);

/* Returns when the server has `count` waiters of the lock, this one included. */
void waiter_start_as(struct waiter *self, int64_t count);
rql_status waiter_join(struct waiter *self);

#endif
