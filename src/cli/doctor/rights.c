#include "doctor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/*
 * acl: finds the commands that this user may not send. Each command is sent in a form that does
 * nothing: the server checks rights before arguments, so a command that is allowed but makes no
 * sense gets an error of another kind. Unlike ACL DRYRUN, that needs no right of its own.
 *
 * Several threads ask at the same time, so that a distant server takes a few round trips and not
 * one for each right.
 */

enum { WORDS_MAX = 8, THREADS = 8, WORD_SIZE = 128, LINE_SIZE = 768 };

/* What a right is needed for. Each role needs the rights of the roles above it, too. */
enum role { LOCK, INSPECT, SWEEP, FORCE, OPTIONAL, N_ROLES };

#define KEY "rql:lock:rql-doctor"
#define NO_SCRIPT "0000000000000000000000000000000000000000"

static const struct right {
    enum role role;
    const char *name;             /* as ACL has it; "~..." is a key that locks work without */
    const char *words[WORDS_MAX]; /* the last one is NULL */
} rights[] = {
    {LOCK, "evalsha", {"EVALSHA", NO_SCRIPT, "0"}},
    {LOCK, "eval", {"EVAL", "return 1", "0"}},
    {LOCK, "time", {"TIME"}},
    {LOCK,
     "exists",
     {"EXISTS", KEY, "rql:lock_queue:-", "rql:req:-", "rql:live", "rql:fence", "rql:era"}},
    {LOCK, "del", {"DEL", KEY}},
    {LOCK, "hget", {"HGET", KEY, "f"}},
    {LOCK, "hset", {"HSET", KEY, "f", "v", "g"}},
    {LOCK, "hmget", {"HMGET", KEY, "f"}},
    {LOCK, "hdel", {"HDEL", KEY, "f"}},
    {LOCK, "hexists", {"HEXISTS", KEY, "f"}},
    {LOCK, "hincrby", {"HINCRBY", KEY, "f", "-"}},
    {LOCK, "hlen", {"HLEN", KEY}},
    {LOCK, "hgetall", {"HGETALL", KEY}},
    {LOCK, "pttl", {"PTTL", KEY}},
    {LOCK, "pexpire", {"PEXPIRE", KEY, "1"}},
    {LOCK, "get", {"GET", KEY}},
    {LOCK, "set", {"SET", KEY, "v", "-"}},
    {LOCK, "zadd", {"ZADD", KEY, "-", "m"}},
    {LOCK, "zrem", {"ZREM", KEY, "m"}},
    {LOCK, "zscore", {"ZSCORE", KEY, "m"}},
    {LOCK, "zcard", {"ZCARD", KEY}},
    {LOCK, "zrange", {"ZRANGE", KEY, "0", "0"}},
    {LOCK, "zrank", {"ZRANK", KEY, "m"}},
    {LOCK, "zremrangebyscore", {"ZREMRANGEBYSCORE", KEY, "-", "-"}},
    {LOCK, "zremrangebyrank", {"ZREMRANGEBYRANK", KEY, "0", "0"}},
    {LOCK, "publish", {"PUBLISH", "rql:wake:-", ""}},
    {LOCK, "spublish", {"SPUBLISH", "rql:wake:-", ""}},
    {LOCK, "cluster|slots", {"CLUSTER", "SLOTS"}},
    {LOCK, "ping", {"PING"}},
    {INSPECT, "scan", {"SCAN", "0", "COUNT", "1"}},
    {INSPECT, "hscan", {"HSCAN", KEY, "0"}},
    {SWEEP, "unlink", {"UNLINK", KEY}},
    {FORCE, "exec", {"EXEC"}},
    {FORCE, "expire", {"EXPIRE", KEY, "1"}},
    {OPTIONAL, "info", {"INFO", "server"}},
    {OPTIONAL, "dbsize", {"DBSIZE"}},
    {OPTIONAL, "client|info", {"CLIENT", "INFO"}},
    {OPTIONAL, "client|kill", {"CLIENT", "KILL", "ID", "0"}},
    {OPTIONAL, "script|exists", {"SCRIPT", "EXISTS", NO_SCRIPT}},
    {OPTIONAL, "client|tracking", {"CLIENT", "TRACKING", "-"}},
    {OPTIONAL, "client|caching", {"CLIENT", "CACHING", "-"}},
    {OPTIONAL, "memory|usage", {"MEMORY", "USAGE", KEY}},
    {OPTIONAL, "config|get", {"CONFIG", "GET", "maxmemory"}},
    {LOCK, "wait", {"WAIT", "0", "-"}},
    {LOCK, "waitaof", {"WAITAOF", "0", "0", "-"}},
    {LOCK, "command|info", {"COMMAND", "INFO", "ping"}},
    {OPTIONAL, "xadd", {"XADD", KEY, "-", "f", "v"}},
    {OPTIONAL, "xtrim", {"XTRIM", KEY, "MAXLEN", "-"}},
    {OPTIONAL, "xlen", {"XLEN", KEY}},
    {OPTIONAL, "xrevrange", {"XREVRANGE", KEY, "-", "+"}},
    {OPTIONAL, "xdel", {"XDEL", KEY, "-"}},
    {OPTIONAL, "~rql:clients", {"HLEN", "rql:clients"}},
    {OPTIONAL, "~rql:usage:*", {"HSET", "rql:usage:-", "f", "v", "g"}},
    {OPTIONAL, "~rql:history", {"XADD", "rql:history", "-", "f", "v"}},
};

enum { N_RIGHTS = sizeof rights / sizeof rights[0] };

/* Rights that cannot be tried, because the command would leave something behind, or make the
 * connection unusable. The fix always names them together with others of their role. */
static const char *const untried[N_ROLES] = {[LOCK] = " +hsetnx +hello", [FORCE] = " +multi"};

/* ---- asking ---- */

struct questions {
    struct doctor *doctor;
    atomic_size_t next;
    rql_reply *replies[N_RIGHTS];
    atomic_bool has_failed;
    rql_error error; /* of the first question without a reply */
};

static void *ask_some(void *user_data)
{
    struct questions *self = user_data;
    size_t i;

    while (!atomic_load(&self->has_failed) && (i = atomic_fetch_add(&self->next, 1)) < N_RIGHTS) {
        rql_error error;

        if (doctor_send(self->doctor->bare, self->doctor->node, rights[i].words, &self->replies[i],
                        &error) != RQL_OK &&
            !atomic_exchange(&self->has_failed, true)) {
            self->error = error;
        }
    }
    return NULL;
}

/* If no thread can be started, the caller's asks everything. */
static bool ask_all(struct questions *self)
{
    pthread_t threads[THREADS];
    size_t n_started = 0;

    while (n_started < THREADS && pthread_create(&threads[n_started], NULL, ask_some, self) == 0) {
        n_started++;
    }
    (void)ask_some(self);
    for (size_t i = 0; i < n_started; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    if (atomic_load(&self->has_failed)) {
        self->doctor->error = self->error;
    }
    return !atomic_load(&self->has_failed);
}

static void free_replies_p(struct questions *self)
{
    for (size_t i = 0; i < N_RIGHTS; i++) {
        (void)rql_free(self->replies[i]);
    }
}

/* ---- what is missing ---- */

struct missing {
    size_t of_role[N_ROLES];
    bool right[N_RIGHTS];
    bool key;
    bool channel;
    bool has_keys;     /* a command that names a key was let through */
    bool has_channels; /* or PUBLISH */
};

/* A single server publishes with another command than several servers, and only a cluster has a
 * map. What makes grants durable is needed if the options ask for that. */
static bool is_needed(const struct doctor *self, const struct right *right)
{
    if (strcmp(right->name, "wait") == 0) {
        return self->wish.options->replicas > 0;
    }
    if (strcmp(right->name, "waitaof") == 0 || strcmp(right->name, "command|info") == 0) {
        return self->wish.options->fsync;
    }
    if (strcmp(right->name, "publish") == 0) {
        return !self->is_partitioned;
    }
    if (strcmp(right->name, "spublish") == 0) {
        return self->is_partitioned;
    }
    return strcmp(right->name, "cluster|slots") != 0 ||
           strstr(self->wish.options->url, "+cluster://");
}

static void append(char text[LINE_SIZE], const char *before, const char *word)
{
    const size_t length = strlen(text);

    (void)snprintf(text + length, LINE_SIZE - length, "%s%s", before, word);
}

/* Takes the reply to a question. The server says "No permissions to access a key", "one of the
 * keys", "the 'x' key", and the same for channels; any other refusal is about the command. A
 * command that this server does not know is not missing. */
static void take(struct missing *self, size_t i, const rql_reply *reply)
{
    const struct right *right = &rights[i];
    const char *text =
        rql_reply_get_type(reply) == RQL_REPLY_ERROR ? rql_reply_text(reply, NULL) : "";
    const bool is_access = strstr(text, "to access") != NULL;

    if (!strstr(text, "NOPERM")) { /* a refused EXEC says "EXECABORT" first */
        const bool is_known = !strstr(text, "unknown command");

        self->has_keys |= is_known && right->words[1] && strcmp(right->words[1], KEY) == 0;
        self->has_channels |= is_known && strstr(right->name, "publish");
    } else if (is_access && strstr(text, "channel")) {
        self->channel = true;
    } else if (is_access && strstr(text, "key") && right->role != OPTIONAL) {
        self->key = true;
    } else {
        self->of_role[right->role]++;
        self->right[i] = true;
    }
}

/* Writes the rules for the missing rights of the roles up to this one. A pattern is left out if the
 * user has one already: a server refuses a line that adds a pattern to "*". */
static void write_rules(const struct doctor *self, const struct missing *missing, enum role role,
                        char line[LINE_SIZE])
{
    const bool is_partitioned = self->is_partitioned;

    if (missing->key || !missing->has_keys) {
        append(line, " ", "'~rql:*'");
    }
    if (missing->channel || !missing->has_channels) {
        append(line, " ", is_partitioned ? "'&rql:*'" : "'&rql:wake:*'");
    }
    for (size_t i = 0; i < N_RIGHTS; i++) {
        if (missing->right[i] && rights[i].role <= role) {
            append(line, rights[i].name[0] == '~' ? " " : " +", rights[i].name);
        }
    }
    if (missing->of_role[LOCK] > 0 || missing->channel) {
        append(line, is_partitioned ? " +ssubscribe +sunsubscribe" : " +subscribe", untried[LOCK]);
    }
    if (role >= FORCE && missing->of_role[FORCE] > 0) {
        append(line, "", untried[FORCE]);
    }
}

/* Copies the name of the user. If the server does not report it, it is that of the URL, or
 * "default". */
static void read_user(struct doctor *self, char out[WORD_SIZE])
{
    CLI_AUTO(rql_free) rql_reply *reply = DOCTOR_ASK(self, "ACL", "WHOAMI");
    const char *login = strstr(self->wish.options->url, "://");

    (void)snprintf(out, WORD_SIZE, "default");
    if (rql_reply_get_type(reply) == RQL_REPLY_TEXT) {
        (void)snprintf(out, WORD_SIZE, "%s", rql_reply_text(reply, NULL));
    } else if (login && strchr(login, '@') && strcspn(login + 3, ":") > 0) {
        (void)snprintf(out, WORD_SIZE, "%.*s", (int)strcspn(login + 3, ":"), login + 3);
    }
}

static bool find_missing(struct doctor *self, struct missing *out)
{
    __attribute__((cleanup(free_replies_p))) struct questions questions = {.doctor = self};

    *out = (struct missing){.key = false};
    if (!ask_all(&questions)) {
        return false;
    }
    for (size_t i = 0; i < N_RIGHTS; i++) {
        if (is_needed(self, &rights[i])) {
            take(out, i, questions.replies[i]);
        }
    }
    return true;
}

/* ---- the check ---- */

static bool read_rights(struct doctor *self)
{
    static const char *const flags[N_ROLES] = {"lacks_locks", "lacks_inspection", "lacks_sweeps",
                                               "lacks_force", "lacks_options"};
    struct missing missing;
    enum role role = LOCK;
    char user[WORD_SIZE];
    char rules[LINE_SIZE] = "";
    char names[LINE_SIZE] = "";

    if (!find_missing(self, &missing)) {
        return false;
    }
    read_user(self, user);
    while (role < OPTIONAL && missing.of_role[role] == 0 && !missing.key && !missing.channel) {
        role++;
    }
    write_rules(self, &missing, role, rules);
    for (size_t i = 0; i < N_RIGHTS; i++) {
        if (missing.right[i] && rights[i].role <= role) {
            append(names, *names ? " " : "", rights[i].name);
        }
    }
    if (missing.key) {
        append(names, *names ? " " : "", "keys rql:*");
    }
    if (missing.channel) {
        append(names, *names ? " " : "",
               self->is_partitioned ? "channels rql:*" : "channels rql:wake:*");
    }
    doctor_text(self, "acl.rights", "user", user);
    doctor_text(self, "acl.rights", "missing", names);
    doctor_text(self, "", "rules", rules);
    if (*names) {
        doctor_flag(self, flags[role], true);
    }
    return true;
}

#define FIX "redis-cli ACL SETUSER {user}{rules}"

static const struct doctor_row rows[] = {
    {"acl.rights", DOCTOR_FAIL, "lacks_locks", "user {user} may not take locks; missing: {missing}",
     "without these rights no lock can be taken or handed over", FIX},
    {"acl.rights", DOCTOR_NOTE, "lacks_inspection",
     "user {user} may not list locks and queues; missing: {missing}",
     "locks work, but commands such as rql ls and rql who do not", FIX},
    {"acl.rights", DOCTOR_NOTE, "lacks_sweeps",
     "user {user} may not sweep or run a swarm; missing: {missing}",
     "locks work, but rql swarm, rql clear and rql dead do not", FIX},
    {"acl.rights", DOCTOR_NOTE, "lacks_force",
     "user {user} may not unlock by force; missing: {missing}",
     "locks work, but rql unlock --force does not", FIX},
    {"acl.rights", DOCTOR_NOTE, "lacks_options",
     "user {user} lacks optional rights; missing: {missing}",
     "locks work; some checks, some faster ways or the history are not available", FIX},
    DOCTOR_GOOD_ROW("acl.rights", NULL, "user {user} has all rights"),
};

const struct doctor_group doctor_rights = {rows, sizeof rows / sizeof rows[0], read_rights,
                                           DOCTOR_EACH};

/* ---- for other commands ---- */

bool doctor_write_rights(const rql_options *options, char out[DOCTOR_LINE])
{
    CLI_AUTO(doctor_free)
    struct doctor self = {.wish.options = options};
    struct missing missing;
    char user[WORD_SIZE];
    char rules[LINE_SIZE] = "";

    self.bare = doctor_bare_client(options, NULL, &self.error);
    if (!self.bare || rql_client_ping(self.bare, &self.first, &self.error) != RQL_OK) {
        return false;
    }
    self.is_partitioned = self.first.partitions >= 0;
    if (!find_missing(&self, &missing)) {
        return false;
    }
    read_user(&self, user);
    write_rules(&self, &missing, FORCE, rules);
    (void)snprintf(out, DOCTOR_LINE, "redis-cli ACL SETUSER %s%s", user, rules);
    return *rules != '\0';
}
