#include "agent_lock.h"

#include "agent/path.h"
#include "format.h"
#include "messages.h"
#include "os.h"
#include "outer.h"

#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>

enum {
    CONNECT_MS = 5000,
    CONNECT_PAUSE_MS = 20,
    LEAST_FD = 64, /* scripts use small numbers, and would replace the connection, or write to it */
    READ_SIZE = 4096,
    ANSWER_MS = 100, /* for a question on which depends whether the command is ended */
    ANSWERS_AT_ONCE = 16,
    WORDS_MAX = 256, /* of a request to the agent */
    NUMBERS_MAX = 8,
    NUMBER_SIZE = 24,
    ASK_AGAIN = 30, /* while a renewal is due, the agent is asked thirty times in a TTL */
    ASK_LEAST_MS = 20,
};

static const int64_t longest_ms = INT64_C(1) << 53; /* that the agent takes */

struct cli_agent_lock {
    const char *name; /* borrowed */
    redisContext *redis;
    bool is_refused; /* it is not to be had, and there was no fault */
    bool is_cut;     /* the connection has ended */
    bool is_gone;    /* the lock was lost */
    int64_t token;
    int64_t ttl_ms;
    int64_t release_ms; /* for the answer to a release */
    int64_t end_ms;     /* the cli_now_ms() until which the lock is held at least */
    int64_t asked_ms;   /* when the question was sent that has no answer yet; 0: there is none */
    int64_t next_ms;    /* when to ask next */
    size_t n_slots;
    int slots[RQL_SLOT_UNITS_MAX];
};

/* ---- the connection ---- */

static void free_reply(redisReply **slot)
{
    if (*slot) {
        freeReplyObject(*slot);
    }
}

#define AUTO_REPLY __attribute__((cleanup(free_reply))) redisReply

static bool is_readable(int fd, int64_t end_ms)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    int64_t left_ms;
    int ready;

    do {
        left_ms = end_ms - cli_now_ms();
        left_ms = left_ms > 0 ? left_ms : 0;
        ready = poll(&one, 1,
                     end_ms == INT64_MAX ? -1
                     : left_ms > INT_MAX ? INT_MAX
                                         : (int)left_ms);
    } while (ready < 0 && errno == EINTR);
    return ready > 0;
}

/* Reads without blocking: other processes have the connection, and may read what has come. */
static void read_some(struct cli_agent_lock *self)
{
    char data[READ_SIZE];
    const ssize_t length = recv(self->redis->fd, data, sizeof data, MSG_DONTWAIT);

    if (length > 0) {
        self->is_cut = redisReaderFeed(self->redis->reader, data, (size_t)length) != REDIS_OK;
    } else {
        self->is_cut = length == 0 || (errno != EAGAIN && errno != EINTR);
    }
}

/* Returns the next reply, which the caller frees; NULL: there is none until end_ms, or the
 * connection has ended. */
static redisReply *await_reply(struct cli_agent_lock *self, int64_t end_ms)
{
    void *reply = NULL;

    while (!self->is_cut) {
        self->is_cut = redisGetReplyFromReader(self->redis, &reply) != REDIS_OK;
        if (reply || self->is_cut || !is_readable(self->redis->fd, end_ms)) {
            break;
        }
        read_some(self);
    }
    return reply;
}

/* Sends a request. If the agent has closed the connection, the requests are dropped: what it has
 * sent before is still to be read, up to the end of the connection, and may say why. */
static void send_words(struct cli_agent_lock *self, const char **words, size_t count)
{
    bool can_send =
        !self->is_cut && redisAppendCommandArgv(self->redis, (int)count, words, NULL) == REDIS_OK;
    int is_done = 0;

    while (can_send && is_done == 0) {
        can_send = redisBufferWrite(self->redis, &is_done) == REDIS_OK;
    }
}

/* Whoever listens at the usual path may be trusted if it is this user or root: another user could
 * have made the folder. */
static bool is_trusted(int fd)
{
    struct cli_os_peer peer;

    return cli_os_peer(fd, &peer) && (peer.uid == 0 || peer.uid == geteuid());
}

/* Connects. An agent with too many clients that it has not accepted yet refuses for a moment. */
static redisContext *connect_to(const char *path)
{
    const struct timeval limit = {.tv_sec = CONNECT_MS / 1000};
    const struct timespec pause = {.tv_nsec = CONNECT_PAUSE_MS * 1000000L};
    const int64_t end_ms = cli_after_ms(CONNECT_MS);
    redisContext *redis = cli_must(redisConnectUnixWithTimeout(path, limit));

    while (redis->err == REDIS_ERR_IO && errno == EAGAIN && cli_now_ms() < end_ms) {
        redisFree(redis);
        (void)nanosleep(&pause, NULL);
        redis = cli_must(redisConnectUnixWithTimeout(path, limit));
    }
    return redis;
}

/* The connection is closed at exec, but for the command. */
static void move_up(redisContext *redis)
{
    const int fd = fcntl(redis->fd, F_DUPFD_CLOEXEC, LEAST_FD);

    if (fd >= 0) {
        (void)close(redis->fd);
        redis->fd = fd;
    } else { /* the limit of descriptors is small */
        (void)fcntl(redis->fd, F_SETFD, FD_CLOEXEC);
    }
}

/* Says why there is no connection. code: errno of the last attempt. */
static void say_refused(const char *path, int code, const char *message)
{
    if (code == EACCES) {
        cli_say("the agent at %s may not be used by this user: %s", path, message);
    } else if (code == EAGAIN) {
        cli_say("the agent at %s has accepted no client for %d s", path, CONNECT_MS / 1000);
    } else {
        cli_say("no agent at %s: %s; start one with rql agent", path, message);
    }
}

static int open_connection(struct cli_agent_lock *self, const char *wanted)
{
    const bool is_usual = *wanted == '\0';
    char usual[CLI_SOCKET_PATH_SIZE];

    if (is_usual) {
        agent_default_path(usual);
        wanted = usual;
    }
    if (strlen(wanted) >= CLI_SOCKET_PATH_SIZE) {
        cli_say("%s: is too long for the path of a socket", wanted);
        return CLI_FAULT;
    }
    self->redis = connect_to(wanted);
    if (self->redis->err != 0) {
        say_refused(wanted, errno, self->redis->errstr);
        return CLI_FAULT;
    }
    if (is_usual && !is_trusted(self->redis->fd)) {
        cli_say("the agent at %s is another user's", wanted);
        return CLI_FAULT;
    }
    move_up(self->redis);
    return CLI_DONE;
}

static void drop(struct cli_agent_lock *self)
{
    if (self->redis) {
        redisFree(self->redis);
    }
    free(self);
}

/* ---- the request ---- */

struct words {
    const char *item[WORDS_MAX];
    size_t count;
    char numbers[NUMBERS_MAX][NUMBER_SIZE];
    size_t n_numbers;
};

static void add(struct words *self, const char *word)
{
    self->item[self->count++] = word;
}

static void add_number(struct words *self, const char *word, int64_t number)
{
    char *text = self->numbers[self->n_numbers++];

    (void)snprintf(text, NUMBER_SIZE, "%lld",
                   (long long)(number < longest_ms ? number : longest_ms));
    add(self, word);
    add(self, text);
}

static int64_t wait_of(const struct cli_args *args)
{
    return args->wait_ms == CLI_UNSET ? args->options.timeout_ms : args->wait_ms;
}

static bool is_one_try(const struct cli_args *args)
{
    return args->fail_fast || wait_of(args) == 0;
}

/* With a TTL of at most --max-hold the lock ends in time even if no process is left to end it. */
static int64_t ttl_of(const struct cli_args *args)
{
    const int64_t ttl_ms = args->options.ttl_ms;

    return args->max_hold_ms > 0 && args->max_hold_ms < ttl_ms ? args->max_hold_ms : ttl_ms;
}

static void add_wait(struct words *self, const struct cli_args *args)
{
    const int64_t wait_ms = wait_of(args);

    if (is_one_try(args)) {
        add(self, "TRY");
    } else {
        add_number(self, "WAIT", wait_ms == RQL_FOREVER ? 0 : wait_ms);
    }
}

static void add_hold(struct words *self, const struct cli_args *args)
{
    const int64_t ttl_ms = ttl_of(args);

    add_number(self, "TTL", ttl_ms);
    if (!args->options.auto_extend) {
        add_number(self, "MAX", ttl_ms);
    } else if (args->max_hold_ms > 0) { /* neither unset nor forever */
        add_number(self, "MAX", args->max_hold_ms);
    }
}

static void add_share(struct words *self, const struct cli_args *args)
{
    if (args->shared) {
        add(self, "SHARED");
    }
    if (args->permits != CLI_UNSET) {
        add_number(self, "PERMITS", args->permits);
    }
    if (args->units != CLI_UNSET) {
        add_number(self, "UNITS", args->units);
    }
    if (args->slots) {
        add(self, "SLOTS");
    }
}

static void add_meta(struct words *self, const char *name, const char *value)
{
    add(self, "META");
    add(self, name);
    add(self, value);
}

static void send_request(struct cli_agent_lock *self, const struct cli_args *args,
                         const char *traceparent)
{
    const char *inherit[] = {"RQL.INHERIT"};
    struct words words = {.count = 0};

    add(&words, "RQL.LOCK");
    add(&words, args->name);
    add_wait(&words, args);
    add_hold(&words, args);
    add_share(&words, args);
    for (size_t i = 0; i < args->n_meta; i++) {
        add_meta(&words, args->meta[i].name, args->meta[i].value);
    }
    if (traceparent) {
        add_meta(&words, "traceparent", traceparent);
    }
    if (cli_is_nested()) {
        add(&words, "NESTED");
    }
    send_words(self, inherit, 1);
    send_words(self, words.item, words.count);
}

/* ---- the answer ---- */

static int64_t number_at(const redisReply *reply, size_t index)
{
    return index < reply->elements && reply->element[index]->type == REDIS_REPLY_INTEGER
               ? reply->element[index]->integer
               : 0;
}

/* Reads "token, remaining, slots". */
static bool read_grant(struct cli_agent_lock *self, const redisReply *reply)
{
    const redisReply *slots = reply->elements == 3 ? reply->element[2] : NULL;

    self->token = number_at(reply, 0);
    if (self->token <= 0 || !slots || slots->elements > RQL_SLOT_UNITS_MAX) {
        return false;
    }
    for (size_t i = 0; i < slots->elements; i++) {
        self->slots[self->n_slots++] = (int)number_at(slots, i);
    }
    return true;
}

static int refuse(struct cli_agent_lock *self, const struct cli_args *args)
{
    self->is_refused = true;
    if (is_one_try(args)) {
        cli_say("%s: not acquired: it is held", args->name);
    } else {
        cli_say("%s: not acquired within %g s", args->name, (double)wait_of(args) / 1000);
    }
    return cli_code_of_refusal(args, CLI_REFUSED);
}

/* Says what the agent has answered in place of a lock. */
static int fail(struct cli_agent_lock *self, const struct cli_args *args, const redisReply *reply)
{
    if (reply && reply->type == REDIS_REPLY_NIL) {
        return refuse(self, args);
    }
    if (reply && reply->type == REDIS_REPLY_ERROR) {
        cli_say("%s: the agent answers: %s", args->name, reply->str);
        return strncmp(reply->str, "INVALID", 7) == 0 ? CLI_USAGE : CLI_FAULT;
    }
    cli_say("%s: the agent %s", args->name,
            reply          ? "has sent an answer of another kind"
            : self->is_cut ? "has closed the connection"
                           : "does not answer");
    return CLI_FAULT;
}

/* Returns the cli_now_ms() until which the answer to a request is awaited that was sent now. */
static int64_t end_of_wait(const struct cli_agent_lock *self, const struct cli_args *args)
{
    const int64_t wait_ms = is_one_try(args) ? 0 : wait_of(args);

    return wait_ms == RQL_FOREVER ? INT64_MAX : cli_after_ms(wait_ms + self->release_ms);
}

/* Finds out whether this program runs under the lock that it wants, in any process: the wait would
 * never end. Returns false after a line on stderr if it does, or if the agent does not know: then
 * *code is the exit code. The agent has one such question at a time answered by the server, so the
 * answer is awaited for as long as the lock would be. Nothing is sent before it is there: it would
 * be read as the answer to the request. */
static bool may_wait(struct cli_agent_lock *self, const struct cli_args *args, int *code)
{
    const int64_t token = cli_outer_token(args->name);
    char text[NUMBER_SIZE];
    const char *words[] = {"RQL.HOLDER", args->name, text};
    AUTO_REPLY *reply = NULL;

    if (token <= 0) {
        return true;
    }
    (void)snprintf(text, sizeof text, "%lld", (long long)token);
    send_words(self, words, sizeof words / sizeof words[0]);
    reply = await_reply(self, end_of_wait(self, args));
    if (!reply || reply->type != REDIS_REPLY_INTEGER) {
        *code = fail(self, args, reply);
        return false;
    }
    self->is_refused = reply->integer == 1;
    *code = self->is_refused ? cli_refuse_outer_lock(args, args->name) : CLI_DONE;
    return !self->is_refused;
}

/* Waits for the lock, and asks at once how long it is held: the answer to the request may have come
 * late, and does not say when it was written. Returns whether the lock is held. If not, *code is
 * the exit code after a line on stderr: that of a refusal can be 0. */
static bool await_lock(struct cli_agent_lock *self, const struct cli_args *args, int *code)
{
    const int64_t end_ms = end_of_wait(self, args);
    AUTO_REPLY *inherited = await_reply(self, end_ms);
    AUTO_REPLY *reply = NULL;

    if (!inherited || inherited->type != REDIS_REPLY_STATUS) {
        *code = fail(self, args, inherited);
        return false;
    }
    reply = await_reply(self, end_ms);
    if (!reply || reply->type != REDIS_REPLY_ARRAY || !read_grant(self, reply)) {
        *code = fail(self, args, reply);
        return false;
    }
    self->end_ms = cli_now_ms() + self->ttl_ms;
    while (cli_agent_lock_look(self) != RQL_GONE && self->asked_ms != 0 && !self->is_cut &&
           cli_agent_lock_remaining_ms(self) > 0) {
        (void)is_readable(self->redis->fd, self->end_ms);
    }
    if (self->is_gone || self->is_cut || cli_agent_lock_remaining_ms(self) <= 0) {
        cli_say("%s: lost as soon as it was acquired", self->name);
        *code = CLI_LOST;
        return false;
    }
    return true;
}

int cli_agent_lock_acquire(const struct cli_args *args, const char *traceparent,
                           struct cli_agent_lock **out, bool *is_refused)
{
    struct cli_agent_lock *self = cli_must(calloc(1, sizeof *self));
    bool is_held = false;
    int code;

    *self = (struct cli_agent_lock){
        .name = args->name,
        .ttl_ms = ttl_of(args),
        .release_ms = args->options.connect_timeout_ms + args->options.io_timeout_ms,
    };
    code = open_connection(self, args->agent);
    if (code == CLI_DONE && may_wait(self, args, &code)) {
        send_request(self, args, traceparent);
        is_held = await_lock(self, args, &code);
    }
    *is_refused = self->is_refused;
    if (!is_held) {
        drop(self);
        self = NULL;
    }
    *out = self;
    return code;
}

int64_t cli_agent_lock_token(const struct cli_agent_lock *self)
{
    return self->token;
}

int64_t cli_agent_lock_ttl_ms(const struct cli_agent_lock *self)
{
    return self->ttl_ms;
}

const int *cli_agent_lock_slots(const struct cli_agent_lock *self, size_t *count)
{
    *count = self->n_slots;
    return self->n_slots > 0 ? self->slots : NULL;
}

int cli_agent_lock_fd(const struct cli_agent_lock *self)
{
    return self->redis->fd;
}

/* ---- while the command runs ---- */

/* The agent renews the lock when a third of the TTL is over. It is asked then, and often until it
 * has renewed. An answer that was read late is about the past: the next question is due at once. */
static void read_remaining(struct cli_agent_lock *self, const redisReply *reply)
{
    const int64_t told_ms = reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
    const int64_t remaining_ms = told_ms < self->ttl_ms ? told_ms : self->ttl_ms;
    const int64_t pause_ms = self->ttl_ms / ASK_AGAIN;
    int64_t due_ms;

    self->is_gone = remaining_ms <= 0;
    self->end_ms = self->asked_ms + remaining_ms;
    due_ms = self->end_ms - self->ttl_ms / 3 * 2;
    self->next_ms = self->asked_ms + (pause_ms > ASK_LEAST_MS ? pause_ms : ASK_LEAST_MS);
    self->next_ms = self->next_ms > due_ms ? self->next_ms : due_ms;
    self->asked_ms = 0;
}

static void ask(struct cli_agent_lock *self)
{
    const char *words[] = {"RQL.HELD", self->name};

    self->asked_ms = cli_now_ms();
    send_words(self, words, sizeof words / sizeof words[0]);
}

/* Reads what comes until then. Notices the end of the connection, too. */
static void read_news(struct cli_agent_lock *self, int64_t end_ms)
{
    redisReply *reply = NULL;

    for (int i = 0; i < ANSWERS_AT_ONCE && (reply = await_reply(self, end_ms)) != NULL; i++) {
        if (self->asked_ms != 0) {
            read_remaining(self, reply);
            end_ms = 0; /* nothing else is waited for */
        }
        freeReplyObject(reply);
    }
}

static bool is_doubtful(const struct cli_agent_lock *self)
{
    return cli_agent_lock_remaining_ms(self) < self->ttl_ms / 2;
}

rql_lock_state cli_agent_lock_look(struct cli_agent_lock *self)
{
    read_news(self, 0);
    if (cli_now_ms() >= cli_agent_lock_next_ms(self)) {
        ask(self);
        /* If this program was stopped, the lock may have been renewed meanwhile. */
        read_news(self, is_doubtful(self) ? cli_after_ms(ANSWER_MS) : 0);
    }
    if (self->is_gone) {
        return RQL_GONE;
    }
    return is_doubtful(self) ? RQL_DOUBTFUL : RQL_HELD;
}

int cli_agent_lock_news_fd(const struct cli_agent_lock *self)
{
    return self->is_cut || self->is_gone ? -1 : self->redis->fd;
}

int64_t cli_agent_lock_next_ms(const struct cli_agent_lock *self)
{
    return self->is_cut || self->is_gone || self->asked_ms != 0 ? INT64_MAX : self->next_ms;
}

int64_t cli_agent_lock_remaining_ms(const struct cli_agent_lock *self)
{
    const int64_t left_ms = self->end_ms - cli_now_ms();

    return left_ms > 0 && !self->is_gone ? left_ms : 0;
}

bool cli_agent_lock_is_cut(const struct cli_agent_lock *self)
{
    return self->is_cut;
}

/* ---- the release ---- */

static rql_status release(struct cli_agent_lock *self, rql_error *error)
{
    const bool was_cut = self->is_cut; /* which the command was ended for */
    const bool had_ended = cli_agent_lock_remaining_ms(self) <= 0;
    const int64_t end_ms = cli_after_ms(self->release_ms);
    char token[NUMBER_SIZE];
    const char *words[] = {"RQL.UNLOCK", self->name, token};
    AUTO_REPLY *held = self->asked_ms != 0 && !self->is_cut ? await_reply(self, end_ms) : NULL;
    AUTO_REPLY *reply = NULL;

    if (self->is_gone || was_cut ||
        (held && held->type == REDIS_REPLY_INTEGER && held->integer <= 0)) {
        return RQL_NOT_HELD;
    }
    (void)snprintf(token, sizeof token, "%lld", (long long)self->token);
    send_words(self, words, sizeof words / sizeof words[0]);
    reply = await_reply(self, end_ms);
    if (reply && reply->type == REDIS_REPLY_INTEGER) {
        return RQL_OK;
    }
    if ((reply && reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOTHELD", 7) == 0) ||
        (had_ended && self->is_cut)) {
        return RQL_NOT_HELD;
    }
    *error = (rql_error){.status = RQL_E_UNKNOWN};
    (void)snprintf(error->message, sizeof error->message,
                   "%s: the agent has not confirmed the release: %s", self->name,
                   reply && reply->type == REDIS_REPLY_ERROR ? reply->str
                   : self->is_cut ? "it has closed the connection; the lock ends by its TTL"
                                  : "no answer; the lock ends with this connection");
    return RQL_E_UNKNOWN;
}

/* What the command has left running may have the connection, too: it is ended for all. */
rql_status cli_agent_lock_release(struct cli_agent_lock *self, rql_error *error)
{
    const rql_status status = release(self, error);

    (void)shutdown(self->redis->fd, SHUT_RDWR);
    drop(self);
    return status;
}
