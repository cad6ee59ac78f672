#include "admin/diagnosis.h"

#include "net/conn/batch_threads.h"

#include <stdio.h>
#include <string.h>

/*
 * Finds the commands that this user may not send. Each command is sent in a form that does nothing:
 * the server checks rights before arguments, so a command that is allowed but makes no sense gets
 * an error of another kind. Unlike ACL DRYRUN, that needs no right of its own, and it is the same
 * on all servers.
 */

enum { WORDS_MAX = 7, LINE_SIZE = 768 };

/* The use that needs a right. Each role needs the rights of the roles above it, too. */
enum role { LOCK, INSPECT, SWEEP, FORCE, OF_USE, N_ROLES };

static const char *const role_names[N_ROLES] = {"lock", "look at locks and queues",
                                                "sweep, and run a swarm", "unlock by force",
                                                "do what is of use"};

/* "$" stands for our scratch key, which no client uses. */
static const struct right {
    enum role role;
    const char *name; /* as ACL has it; "~..." is a key that locks work without */
    const char *words[WORDS_MAX];
} rights[] = {
    {LOCK, "evalsha", {"EVALSHA", "0000000000000000000000000000000000000000", "0"}},
    {LOCK, "eval", {"EVAL", "return 1", "0"}},
    {LOCK, "time", {"TIME"}},
    {LOCK,
     "exists",
     {"EXISTS", "$", RQLI_KEY_QUEUE "-", RQLI_KEY_REQUESTS "-", RQLI_KEY_LIVE, RQLI_KEY_FENCE,
      RQLI_KEY_ERA}},
    {LOCK, "del", {"DEL", "$"}},
    {LOCK, "hget", {"HGET", "$", "f"}},
    {LOCK, "hset", {"HSET", "$", "f", "v", "g"}},
    {LOCK, "hmget", {"HMGET", "$", "f"}},
    {LOCK, "hdel", {"HDEL", "$", "f"}},
    {LOCK, "hexists", {"HEXISTS", "$", "f"}},
    {LOCK, "hincrby", {"HINCRBY", "$", "f", "-"}},
    {LOCK, "hlen", {"HLEN", "$"}},
    {LOCK, "hgetall", {"HGETALL", "$"}},
    {LOCK, "pttl", {"PTTL", "$"}},
    {LOCK, "pexpire", {"PEXPIRE", "$", "1"}},
    {LOCK, "get", {"GET", "$"}},
    {LOCK, "set", {"SET", "$", "v", "-"}},
    {LOCK, "zadd", {"ZADD", "$", "-", "m"}},
    {LOCK, "zrem", {"ZREM", "$", "m"}},
    {LOCK, "zscore", {"ZSCORE", "$", "m"}},
    {LOCK, "zcard", {"ZCARD", "$"}},
    {LOCK, "zrange", {"ZRANGE", "$", "0", "0"}},
    {LOCK, "zrank", {"ZRANK", "$", "m"}},
    {LOCK, "zremrangebyscore", {"ZREMRANGEBYSCORE", "$", "-", "-"}},
    {LOCK, "zremrangebyrank", {"ZREMRANGEBYRANK", "$", "0", "0"}},
    {LOCK, "publish", {"PUBLISH", RQLI_CHANNEL "-", ""}},
    {LOCK, "spublish", {"SPUBLISH", RQLI_CHANNEL "-", ""}},
    {LOCK, "cluster|slots", {"CLUSTER", "SLOTS"}},
    {LOCK, "ping", {"PING"}},
    {INSPECT, "scan", {"SCAN", "0", "COUNT", "1"}},
    {INSPECT, "hscan", {"HSCAN", "$", "0"}},
    {SWEEP, "zcount", {"ZCOUNT", "$", "-", "-"}},
    {SWEEP, "unlink", {"UNLINK", "$"}},
    {FORCE, "exec", {"EXEC"}},
    {FORCE, "expire", {"EXPIRE", "$", "1"}},
    {OF_USE, "info", {"INFO", "server"}},
    {OF_USE, "client|info", {"CLIENT", "INFO"}},
    {OF_USE, "client|kill", {"CLIENT", "KILL", "ID", "0"}},
    {OF_USE, "script|exists", {"SCRIPT", "EXISTS", "0000000000000000000000000000000000000000"}},
    {OF_USE, "client|tracking", {"CLIENT", "TRACKING", "-"}},
    {OF_USE, "client|caching", {"CLIENT", "CACHING", "-"}},
    {OF_USE, "memory|usage", {"MEMORY", "USAGE", "$"}},
    {OF_USE, "config|get", {"CONFIG", "GET", "maxmemory"}},
    {OF_USE, "slowlog|get", {"SLOWLOG", "GET", "1"}},
    {OF_USE, "wait", {"WAIT", "0", "-"}},
    {OF_USE, "waitaof", {"WAITAOF", "0", "0", "-"}},
    {OF_USE, "~" RQLI_KEY_CLIENTS, {"HLEN", RQLI_KEY_CLIENTS}},
};

enum { N_RIGHTS = sizeof rights / sizeof rights[0] };

/* Rights that cannot be tried: the command would leave something behind, or make the connection
 * unusable. */
static const char *const untried[N_ROLES] = {[LOCK] = " +hsetnx +hello", [FORCE] = " +multi"};

/* The missing rights. The line names all rights of the lowest role that is incomplete, except
 * for those that this server does not know, because it would refuse the line. */
struct missing {
    size_t of_role[N_ROLES];
    bool is_unknown[N_RIGHTS];
    bool key;
    bool channel;
    bool has_keys;     /* a command that names a key was let through */
    bool has_channels; /* or PUBLISH */
    char names[LINE_SIZE];
    char line[LINE_SIZE];
};

/* Matches "No permissions to access a key", "one of the keys", "the 'x' key", and the same for
 * channels. */
static bool is_about(const struct rqli_reply *reply, const char *what)
{
    return strstr(reply->text.data, "to access") && strstr(reply->text.data, what);
}

static bool is_about_channels(const struct right *right)
{
    return strcmp(right->name, "publish") == 0 || strcmp(right->name, "spublish") == 0;
}

static void append(char text[LINE_SIZE], const char *before, const char *word)
{
    const size_t length = strlen(text);

    (void)snprintf(text + length, LINE_SIZE - length, "%s%s", before, word);
}

static void take(struct missing *self, const struct right *right, const struct rqli_reply *reply)
{
    if (!rqli_reply_is_refused(reply)) {
        self->has_keys = self->has_keys || strcmp(right->words[1] ? right->words[1] : "", "$") == 0;
        self->has_channels = self->has_channels || is_about_channels(right);
        return;
    }
    if (!rqli_reply_says(reply, "NOPERM")) {
        self->is_unknown[right - rights] = true;
    } else if (is_about(reply, "channel")) {
        self->channel = true;
    } else if (is_about(reply, "key") && right->role != OF_USE) {
        self->key = true;
    } else {
        self->of_role[right->role]++;
        append(self->names, *self->names ? " " : "", right->name);
    }
}

/* A single server publishes with another command than several servers, and only a cluster has a
 * map. */
static bool is_needed(const struct right *right, const rql_client *client)
{
    if (strcmp(right->name, "publish") == 0) {
        return !client->is_partitioned;
    }
    if (strcmp(right->name, "spublish") == 0) {
        return client->is_partitioned;
    }
    return client->fleet.map_reader || strcmp(right->name, "cluster|slots") != 0;
}

/* Writes all rights of the role, and of the roles above it. A pattern is left out if the user
 * has one already: a server refuses a line that adds a pattern to "*". */
static void write_line(struct missing *self, enum role role, const rql_client *client)
{
    if (self->key || !self->has_keys) {
        append(self->line, "", "'~rql:*' ");
    }
    if (self->channel || !self->has_channels) {
        append(self->line, "", client->is_partitioned ? "'&rql:*' " : "'&rql:wake:*' ");
    }
    append(self->line, "", client->is_partitioned ? "+ssubscribe +sunsubscribe" : "+subscribe");
    for (size_t i = 0; i < N_RIGHTS; i++) {
        if (rights[i].role <= role && rights[i].name[0] != '~' && !self->is_unknown[i] &&
            is_needed(&rights[i], client)) {
            append(self->line, " +", rights[i].name);
        }
    }
    for (enum role each = LOCK; each <= role; each++) {
        append(self->line, "", untried[each] ? untried[each] : "");
    }
}

/* If the server does not tell the user's name, it is the one of the URL. Without that it is
 * "default", as in Redis. */
static const char *user_of(const struct rqli_diagnosis *self, const struct rqli_reply *who)
{
    const char *of_url = self->client->url.user;

    return who->type == RQLI_REPLY_TEXT ? who->text.data : of_url ? of_url : "default";
}

static void judge(struct rqli_diagnosis *self, struct missing *missing, const char *user)
{
    const bool cannot_lock = missing->of_role[LOCK] > 0 || missing->key || missing->channel;
    enum role role = LOCK;

    while (role < OF_USE && missing->of_role[role] == 0) {
        role++;
    }
    role = cannot_lock ? LOCK : role;
    write_line(missing, role, self->client);
    if (cannot_lock || missing->of_role[role] > 0) {
        rqli_report_add(self->report, "acl.rights", cannot_lock ? RQL_CHECK_FAIL : RQL_CHECK_NOTE,
                        "user %s may not %s; missing:%s%s%s%s", user, role_names[role],
                        *missing->names ? " " : "", missing->names,
                        missing->key ? " keys rql:*" : "",
                        !missing->channel              ? ""
                        : self->client->is_partitioned ? " channels rql:*"
                                                       : " channels rql:wake:*");
    } else {
        rqli_report_add(self->report, "acl.rights", RQL_CHECK_OK, "user %s has all rights", user);
    }
    rqli_report_text(self->report, "user", user);
    rqli_report_text(self->report, "missing", missing->names);
    rqli_report_say(self->report,
                    cannot_lock ? "no lock can be taken, or none can be handed over"
                                : "locks work; what the missing rights are for does not",
                    "redis-cli ACL SETUSER %s %s", user, missing->line);
}

void rqli_diagnose_rights(struct rqli_diagnosis *self)
{
    RQLI_AUTO(rqli_batch_give)
    struct rqli_batch *batch = rqli_batch_take(rqli_conns_choose(&self->node->conns));
    struct missing missing = {.key = false};
    const char *key = self->of_scratch.keys.lock.data;

    if (!rqli_diagnosis_has_time(self, "acl.rights")) {
        return;
    }
    for (size_t i = 0; batch && i < N_RIGHTS; i++) {
        const char *const *words = rights[i].words;
        size_t count = 0;

        while (count < WORDS_MAX && words[count]) {
            count++;
        }
        rqli_command_begin(&batch->command, count);
        for (size_t j = 0; j < count; j++) {
            rqli_command_text(&batch->command, strcmp(words[j], "$") == 0 ? key : words[j]);
        }
    }
    if (batch) {
        rqli_command_words(&batch->command, "ACL", "WHOAMI", NULL);
    }
    if (!rqli_diagnosis_run(self, "acl.rights", batch)) {
        return;
    }
    for (size_t i = 0; i < N_RIGHTS; i++) {
        if (is_needed(&rights[i], self->client)) {
            take(&missing, &rights[i], &batch->reply[i]);
        }
    }
    judge(self, &missing, user_of(self, &batch->reply[N_RIGHTS]));
}
