#include "command.h"

#include "call.h"
#include "exit.h"
#include "names.h"

#include <errno.h>
#include <rql/share.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    TTL_MS = 15000,
    WAIT_MS = 10000,
    INFO_SIZE = 1024,
};

/* ---- words ---- */

static const char *word(const struct agent_request *request, size_t index)
{
    return request->words[index].data;
}

static bool is_word(const struct agent_request *request, size_t index, const char *text)
{
    return strcasecmp(word(request, index), text) == 0;
}

/* Reads a whole number in this range, without a sign in front of 0 or more. */
static bool read_number(const char *text, int64_t least, int64_t most, int64_t *out)
{
    char *end;

    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    errno = 0;
    *out = strtoll(text, &end, 10);
    return *end == '\0' && errno == 0 && *out >= least && *out <= most;
}

static void fail(struct agent_conn *conn, const char *message)
{
    agent_reply_error(&conn->out, "ERR", "%s", message);
}

/* ---- RQL.LOCK, RQL.SERIES ---- */

struct lock_words {
    struct agent_wish wish;
    rql_meta meta[RQL_META_MAX_PAIRS];
    char holder[AGENT_HOLDER_SIZE];
    bool tries, waits;
    int64_t permits, units; /* 0: not given */
};

/* Reads "NAME value" into a number. *at is the place of NAME. False: the value is missing or out of
 * range. */
static bool read_value(const struct agent_request *request, size_t *at, int64_t least, int64_t most,
                       int64_t *out)
{
    return ++*at < request->count && read_number(word(request, *at), least, most, out);
}

static bool read_meta(const struct agent_request *request, size_t *at, struct lock_words *out)
{
    rql_lock_options *options = &out->wish.options;

    if (*at + 2 >= request->count || options->n_meta == RQL_META_MAX_PAIRS) {
        return false;
    }
    out->meta[options->n_meta++] = (rql_meta){word(request, *at + 1), word(request, *at + 2)};
    *at += 2;
    return true;
}

/* Reads the word at *at, and its value. */
static bool read_option(const struct agent_request *request, size_t *at, struct lock_words *out)
{
    rql_lock_options *options = &out->wish.options;
    const int64_t longest_ms = INT64_C(1) << 53;

    if (is_word(request, *at, "TTL")) {
        return read_value(request, at, 1, RQL_TTL_MAX_MS, &options->ttl_ms);
    }
    if (is_word(request, *at, "WAIT")) {
        out->waits = true;
        return read_value(request, at, 0, longest_ms, &options->timeout_ms);
    }
    if (is_word(request, *at, "MAX")) {
        return read_value(request, at, 1, longest_ms, &options->max_hold_ms);
    }
    if (is_word(request, *at, "PERMITS")) {
        return read_value(request, at, 1, RQL_SHARE_MAX, &out->permits);
    }
    if (is_word(request, *at, "UNITS")) {
        return read_value(request, at, 1, RQL_SHARE_MAX, &out->units);
    }
    if (is_word(request, *at, "META")) {
        return read_meta(request, at, out);
    }
    if (is_word(request, *at, "TRY")) {
        out->tries = true;
    } else if (is_word(request, *at, "SHARED")) {
        options->share_units = 1;
    } else if (is_word(request, *at, "NESTED")) {
        options->nested = true;
    } else if (is_word(request, *at, "SLOTS")) {
        options->share_slots = true;
    } else if (is_word(request, *at, "DETACHED")) {
        out->wish.kind = AGENT_HOLD_DETACHED;
    } else {
        return false;
    }
    return true;
}

/* Checks words that go together. Returns what is wrong, or NULL. */
static const char *finish_options(struct lock_words *self)
{
    rql_lock_options *options = &self->wish.options;

    if (self->wish.is_series && (options->share_units > 0 || self->permits > 0)) {
        return "a series holds its locks alone";
    }
    if (self->tries && self->waits) {
        return "TRY and WAIT exclude each other";
    }
    if (options->share_units > 0 && self->permits > 0) {
        return "SHARED and PERMITS exclude each other";
    }
    if ((self->units > 0 || options->share_slots) && self->permits == 0) {
        return "UNITS and SLOTS need PERMITS";
    }
    if (options->share_units > 0) {
        rql_lock_options_share(options);
    }
    if (self->permits > 0) {
        rql_lock_options_permit(options, self->units > 0 ? self->units : 1, self->permits);
    }
    options->fail_fast = self->tries;
    if (self->waits && options->timeout_ms == 0) {
        options->timeout_ms = RQL_FOREVER;
    }
    return NULL;
}

/* Adds the pair by which `rql who` names the client's program in place of this one, unless the
 * client has named itself, or leaves no room for it. */
static void add_holder(struct agent_conn *conn, struct lock_words *out)
{
    rql_lock_options *options = &out->wish.options;
    size_t size = strlen(CLI_HOLDER_NAME) + AGENT_HOLDER_SIZE;

    if (cli_holder_in(out->meta, options->n_meta)) {
        return;
    }
    for (size_t i = 0; i < options->n_meta; i++) {
        size += strlen(out->meta[i].name) + strlen(out->meta[i].value);
    }
    if (options->n_meta < RQL_META_MAX_PAIRS && size <= RQL_META_MAX_BYTES) {
        agent_conn_describe(conn, out->holder);
        out->meta[options->n_meta++] = (rql_meta){CLI_HOLDER_NAME, out->holder};
    }
}

/* Sets the defaults of a wish for locks with the names in front of the word `end`. */
static void init_words(struct lock_words *self, const struct agent_conn *conn,
                       const struct agent_request *request, size_t first, size_t end)
{
    struct agent_wish *wish = &self->wish;

    self->tries = self->waits = false;
    self->permits = self->units = 0;
    *wish = (struct agent_wish){.kind = AGENT_HOLD_OF_CONN};
    rql_lock_options_init(conn->agent->client, &wish->options);
    wish->options.ttl_ms = TTL_MS;
    wish->options.timeout_ms = WAIT_MS;
    wish->options.retry_count = RQL_FOREVER;
    wish->options.meta = self->meta;
    for (size_t i = first; i < end; i++) {
        wish->names[wish->n_names++] = word(request, i);
    }
}

static const char *find_held(const struct agent_conn *conn, const struct agent_wish *wish)
{
    size_t place;

    for (size_t i = 0; i < wish->n_names; i++) {
        if (agent_hold_find(conn, wish->names[i], &place)) {
            return wish->names[i];
        }
    }
    return NULL;
}

/* Reads the words from `first` on, and begins to acquire. */
static void acquire(struct agent_conn *conn, const struct agent_request *request, size_t first,
                    struct lock_words *words)
{
    const char *wrong;
    const char *held;

    for (size_t i = first; i < request->count; i++) {
        if (!read_option(request, &i, words)) {
            agent_reply_error(&conn->out, "ERR", "wrong word or value: %.100s",
                              word(request, i < request->count ? i : request->count - 1));
            return;
        }
    }
    add_holder(conn, words);
    wrong = finish_options(words);
    held = find_held(conn, &words->wish);
    if (wrong) {
        fail(conn, wrong);
    } else if (held) {
        agent_reply_error(&conn->out, "HELD", "this connection holds %.200s", held);
    } else {
        agent_hold_begin(conn, &words->wish);
    }
}

/* RQL.LOCK name [TTL ms] [WAIT ms] [TRY] [SHARED] [PERMITS limit [UNITS n] [SLOTS]] [MAX ms]
 * [META key value]... [NESTED] [DETACHED] */
static void lock(struct agent_conn *conn, const struct agent_request *request)
{
    struct lock_words words;

    init_words(&words, conn, request, 1, 2);
    acquire(conn, request, 2, &words);
}

/* RQL.SERIES count name... [TTL ms] [WAIT ms] [TRY] [MAX ms] [META key value]... [NESTED]
 * [DETACHED] */
static void series(struct agent_conn *conn, const struct agent_request *request)
{
    const size_t first = 2;
    struct lock_words words;
    int64_t count;

    if (!read_number(word(request, 1), 1, RQL_SERIES_MAX, &count) ||
        first + (size_t)count > request->count) {
        fail(conn, "the count is not that of names");
        return;
    }
    init_words(&words, conn, request, first, first + (size_t)count);
    words.wish.is_series = true;
    acquire(conn, request, first + (size_t)count, &words);
}

/* FENCELOCK.ACQUIRE name seconds: one try; the lock outlives the connection. */
static void acquire_fence(struct agent_conn *conn, const struct agent_request *request)
{
    struct lock_words words;
    int64_t seconds;

    if (!read_number(word(request, 2), 1, RQL_TTL_MAX_MS / 1000, &seconds)) {
        fail(conn, "invalid timeout");
        return;
    }
    init_words(&words, conn, request, 1, 2);
    if (find_held(conn, &words.wish)) {
        agent_reply_null(&conn->out, conn->is_resp3);
        return;
    }
    words.wish.kind = AGENT_HOLD_FENCE;
    words.wish.options.ttl_ms = seconds * 1000;
    words.wish.options.fail_fast = true;
    add_holder(conn, &words);
    agent_hold_begin(conn, &words.wish);
}

/* ---- RQL.UNLOCK, RQL.UNLOCKSERIES ---- */

/* Returns the lock of this name, with this token if there is one. One of a series is not released
 * alone. */
static struct agent_hold *find_alone(const struct agent_conn *conn, const char *name,
                                     const char *token)
{
    size_t place;
    struct agent_hold *hold = agent_hold_find(conn, name, &place);
    int64_t number;

    if (!hold || hold->phase != AGENT_HOLD_HELD || hold->series) {
        return NULL;
    }
    if (token &&
        (!read_number(token, 0, INT64_MAX, &number) || number != rql_lock_token(hold->lock))) {
        return NULL;
    }
    return hold;
}

static struct agent_ending *begin_ending(struct agent_conn *conn)
{
    struct agent_ending *self = cli_must(calloc(1, sizeof *self));

    self->conn = conn;
    return self;
}

/* Waits for the releases that have begun. */
static void await_ending(struct agent_conn *conn, struct agent_ending *self)
{
    if (self->left == 0) {
        agent_reply_not_held(&conn->out);
        free(self);
        return;
    }
    conn->phase = AGENT_CONN_BUSY;
    conn->caller = &self->conn;
}

/* RQL.UNLOCK name [token [name token]...] */
static void unlock(struct agent_conn *conn, const struct agent_request *request)
{
    struct agent_ending *ending;

    if (request->count > 2 && request->count % 2 == 0) {
        fail(conn, "each name needs its token");
        return;
    }
    ending = begin_ending(conn);
    for (size_t i = 1; i < request->count; i += 2) {
        struct agent_hold *hold = find_alone(conn, word(request, i),
                                             i + 1 < request->count ? word(request, i + 1) : NULL);

        if (hold) {
            agent_hold_release(hold, ending);
        }
    }
    await_ending(conn, ending);
}

/* RQL.UNLOCKSERIES id */
static void unlock_series(struct agent_conn *conn, const struct agent_request *request)
{
    struct agent_ending *ending = begin_ending(conn);
    struct agent_hold *hold = conn->holds;
    int64_t id;

    if (!read_number(word(request, 1), 1, INT64_MAX, &id)) {
        id = -1;
    }
    while (hold && !(hold->series_id == id && hold->phase == AGENT_HOLD_HELD)) {
        hold = hold->next;
    }
    if (hold) {
        agent_hold_release(hold, ending);
    }
    await_ending(conn, ending);
}

/* RQL.HELD name */
static void held(struct agent_conn *conn, const struct agent_request *request)
{
    size_t place;
    const struct agent_hold *hold = agent_hold_find(conn, word(request, 1), &place);
    const bool is_held = hold && hold->phase == AGENT_HOLD_HELD;

    agent_reply_number(&conn->out,
                       is_held ? rql_lock_remaining_ms(agent_hold_lock(hold, place)) : 0);
}

/* RQL.HOLDER name token */
static void holder(struct agent_conn *conn, const struct agent_request *request)
{
    agent_call_find_holder(conn, word(request, 1), word(request, 2));
}

/* RQL.UNLOCKSECRET name secret, and FENCELOCK.RELEASE with the same words */
static void unlock_secret(struct agent_conn *conn, const struct agent_request *request)
{
    agent_call_release(conn->agent, conn, word(request, 1), word(request, 2));
}

/* RQL.WHO [pattern] */
static void who(struct agent_conn *conn, const struct agent_request *request)
{
    agent_call_look(conn, AGENT_CALL_WHO, request->count > 1 ? word(request, 1) : "*");
}

/* RQL.QUEUE name */
static void queue(struct agent_conn *conn, const struct agent_request *request)
{
    agent_call_look(conn, AGENT_CALL_QUEUE, word(request, 1));
}

/* RQL.INHERIT */
static void inherit(struct agent_conn *conn, const struct agent_request *request)
{
    (void)request;
    conn->inherits = true;
    for (struct agent_hold *hold = conn->holds; hold; hold = hold->next) {
        agent_process_leave(hold->process);
        hold->process = NULL;
    }
    agent_reply_status(&conn->out, "OK");
}

/* ---- what clients of Redis send ---- */

static void ping(struct agent_conn *conn, const struct agent_request *request)
{
    if (request->count > 1) {
        agent_reply_text(&conn->out, word(request, 1));
    } else {
        agent_reply_status(&conn->out, "PONG");
    }
}

static void echo(struct agent_conn *conn, const struct agent_request *request)
{
    agent_reply_text(&conn->out, word(request, 1));
}

/* Notes the name of a connection. False: an error was written. */
static bool set_label(struct agent_conn *conn, const char *label)
{
    const size_t length = strlen(label);

    for (size_t i = 0; i < length; i++) {
        if (label[i] < '!' || label[i] > '~') {
            fail(conn, "Client names cannot contain spaces, newlines or special characters.");
            return false;
        }
    }
    if (length >= sizeof conn->label) {
        fail(conn, "the name is too long");
        return false;
    }
    memcpy(conn->label, label, length + 1);
    return true;
}

/* Takes as long for every wrong password of the same length. */
static bool is_password(const char *own, const char *given)
{
    const size_t own_length = strlen(own);
    const size_t length = strlen(given);
    size_t difference = own_length ^ length;

    for (size_t i = 0; i < length; i++) {
        difference |= (unsigned char)own[i % own_length] ^ (unsigned char)given[i];
    }
    return difference == 0;
}

/* Checks the only user. Without a password any is right: the mode of the socket decides. False: an
 * error was written. */
static bool log_in(struct agent_conn *conn, const char *user, const char *given)
{
    const char *own = conn->agent->password;

    if (strcmp(user, "default") == 0 && (!own || is_password(own, given))) {
        conn->is_known = true;
        return true;
    }
    agent_reply_error(&conn->out, "WRONGPASS",
                      "invalid username-password pair or user is disabled.");
    return false;
}

/* Reads an option of HELLO at *at, and its values. False: an error was written. */
static bool read_hello(struct agent_conn *conn, const struct agent_request *request, size_t *at)
{
    if (is_word(request, *at, "SETNAME") && *at + 1 < request->count) {
        return set_label(conn, word(request, ++*at));
    }
    if (is_word(request, *at, "AUTH") && *at + 2 < request->count) {
        *at += 2;
        return log_in(conn, word(request, *at - 1), word(request, *at));
    }
    agent_reply_error(&conn->out, "ERR", "Syntax error in HELLO option '%.100s'",
                      word(request, *at));
    return false;
}

/* HELLO [version [AUTH user password] [SETNAME name]] */
static void hello(struct agent_conn *conn, const struct agent_request *request)
{
    int64_t version = conn->is_resp3 ? 3 : 2;

    if (request->count > 1 && !read_number(word(request, 1), 0, INT64_MAX, &version)) {
        fail(conn, "Protocol version is not an integer or out of range");
        return;
    }
    if (version != 2 && version != 3) {
        agent_reply_error(&conn->out, "NOPROTO", "unsupported protocol version");
        return;
    }
    for (size_t i = 2; i < request->count; i++) {
        if (!read_hello(conn, request, &i)) {
            return;
        }
    }
    if (!conn->is_known) {
        agent_reply_error(&conn->out, "NOAUTH",
                          "HELLO must be called with the client already authenticated, otherwise "
                          "the HELLO <proto> AUTH <user> <pass> option can be used");
        return;
    }
    conn->is_resp3 = version == 3;
    agent_reply_begin(&conn->out, conn->is_resp3 ? '%' : '*', conn->is_resp3 ? 7 : 14);
    agent_reply_text(&conn->out, "server");
    agent_reply_text(&conn->out, "redis");
    agent_reply_text(&conn->out, "version");
    agent_reply_text(&conn->out, "7.0.0");
    agent_reply_text(&conn->out, "proto");
    agent_reply_number(&conn->out, version);
    agent_reply_text(&conn->out, "id");
    agent_reply_number(&conn->out, (int64_t)conn->id);
    agent_reply_text(&conn->out, "mode");
    agent_reply_text(&conn->out, "standalone");
    agent_reply_text(&conn->out, "role");
    agent_reply_text(&conn->out, "master");
    agent_reply_text(&conn->out, "modules");
    agent_reply_begin(&conn->out, '*', 0);
}

/* CLIENT SETNAME name | GETNAME | SETINFO name value | ID */
static void client(struct agent_conn *conn, const struct agent_request *request)
{
    if (is_word(request, 1, "SETNAME") && request->count == 3) {
        if (set_label(conn, word(request, 2))) {
            agent_reply_status(&conn->out, "OK");
        }
    } else if (is_word(request, 1, "GETNAME") && request->count == 2) {
        if (conn->label[0] != '\0') {
            agent_reply_text(&conn->out, conn->label);
        } else {
            agent_reply_null_text(&conn->out, conn->is_resp3);
        }
    } else if (is_word(request, 1, "SETINFO") && request->count == 4) {
        agent_reply_status(&conn->out, "OK");
    } else if (is_word(request, 1, "ID") && request->count == 2) {
        agent_reply_number(&conn->out, (int64_t)conn->id);
    } else {
        agent_reply_error(&conn->out, "ERR", "unknown subcommand '%.100s'", word(request, 1));
    }
}

/* COMMAND [COUNT | DOCS ...]: what a shell asks for its hints. */
static void command(struct agent_conn *conn, const struct agent_request *request)
{
    if (request->count > 1 && is_word(request, 1, "COUNT")) {
        agent_reply_number(&conn->out, 0);
    } else {
        agent_reply_begin(&conn->out, conn->is_resp3 && request->count > 1 ? '%' : '*', 0);
    }
}

/* INFO: the first lines are those that clients look for, the others are the agent's. */
static void info(struct agent_conn *conn, const struct agent_request *request)
{
    const struct agent *agent = conn->agent;
    rql_stats stats = {.size = 0};
    char text[INFO_SIZE];

    (void)request;
    (void)!rql_client_stats(agent->client, &stats); /* a light build counts nothing */
    (void)snprintf(
        text, sizeof text,
        "# Server\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\n"
        "# Persistence\r\nloading:0\r\n# Replication\r\nrole:master\r\n"
        "# Clients\r\nconnected_clients:%zu\r\nmaxclients:%zu\r\n"
        "# Locks\r\nheld:%zu\r\nwaiting:%zu\r\nacquired_total:%lld\r\n"
        "handed_over_here_total:%lld\r\nreleased_by_end_total:%llu\r\nlost_total:%lld\r\n",
        agent->n_conns, agent->most_conns, agent->n_held, agent->n_waiting,
        (long long)stats.acquisitions, (long long)stats.local_hand_overs,
        (unsigned long long)agent->n_ended, (long long)stats.lost);
    agent_reply_text(&conn->out, text);
}

static void select_db(struct agent_conn *conn, const struct agent_request *request)
{
    if (is_word(request, 1, "0")) {
        agent_reply_status(&conn->out, "OK");
    } else {
        fail(conn, "DB index is out of range");
    }
}

static void auth(struct agent_conn *conn, const struct agent_request *request)
{
    if (request->count < 3 && conn->agent->password) {
        if (log_in(conn, "default", word(request, 1))) {
            agent_reply_status(&conn->out, "OK");
        }
    } else if (request->count < 3) {
        fail(conn, "AUTH <password> called without any password configured for the default user. "
                   "Are you sure your configuration is correct?");
    } else if (log_in(conn, word(request, 1), word(request, 2))) {
        agent_reply_status(&conn->out, "OK");
    }
}

static void reset(struct agent_conn *conn, const struct agent_request *request)
{
    (void)request;
    agent_holds_end(conn, AGENT_BY_CLIENT);
    conn->is_resp3 = false;
    conn->inherits = false;
    conn->is_known = !conn->agent->password;
    conn->label[0] = '\0';
    agent_reply_status(&conn->out, "RESET");
}

static void quit(struct agent_conn *conn, const struct agent_request *request)
{
    (void)request;
    agent_reply_status(&conn->out, "OK");
    conn->phase = AGENT_CONN_ENDING;
    agent_holds_end(conn, AGENT_BY_CLIENT);
}

static void cluster(struct agent_conn *conn, const struct agent_request *request)
{
    (void)request;
    fail(conn, "This instance has cluster support disabled");
}

/* ---- the table ---- */

static const struct command {
    const char *name;
    size_t least, most; /* words, the name included */
    void (*run)(struct agent_conn *conn, const struct agent_request *request);

    enum {
        TAKES_LOCKS = 1, /* refused while the agent is draining */
        IS_FOR_ALL = 2,  /* also for who has not sent the password */
    } traits;
} commands[] = {
    {"RQL.LOCK", 2, AGENT_WORDS_MAX, lock, TAKES_LOCKS},
    {"RQL.SERIES", 3, AGENT_WORDS_MAX, series, TAKES_LOCKS},
    {"RQL.UNLOCK", 2, AGENT_WORDS_MAX, unlock, 0},
    {"RQL.UNLOCKSERIES", 2, 2, unlock_series, 0},
    {"RQL.UNLOCKSECRET", 3, 3, unlock_secret, 0},
    {"RQL.HELD", 2, 2, held, 0},
    {"RQL.HOLDER", 3, 3, holder, 0},
    {"RQL.WHO", 1, 2, who, 0},
    {"RQL.QUEUE", 2, 2, queue, 0},
    {"RQL.INHERIT", 1, 1, inherit, 0},
    {"FENCELOCK.ACQUIRE", 3, 3, acquire_fence, TAKES_LOCKS},
    {"FENCELOCK.RELEASE", 3, 3, unlock_secret, 0},
    {"PING", 1, 2, ping, 0},
    {"ECHO", 2, 2, echo, 0},
    {"HELLO", 1, AGENT_WORDS_MAX, hello, IS_FOR_ALL},
    {"AUTH", 2, 3, auth, IS_FOR_ALL},
    {"CLIENT", 2, AGENT_WORDS_MAX, client, 0},
    {"COMMAND", 1, AGENT_WORDS_MAX, command, 0},
    {"INFO", 1, AGENT_WORDS_MAX, info, 0},
    {"SELECT", 2, 2, select_db, 0},
    {"CLUSTER", 1, AGENT_WORDS_MAX, cluster, 0},
    {"RESET", 1, 1, reset, IS_FOR_ALL},
    {"QUIT", 1, AGENT_WORDS_MAX, quit, IS_FOR_ALL},
};

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcasecmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

/* No word may have a NUL: the rest of it would be ignored. */
static bool has_nul(const struct agent_request *request)
{
    for (size_t i = 0; i < request->count; i++) {
        if (strlen(request->words[i].data) != request->words[i].length) {
            return true;
        }
    }
    return false;
}

void agent_command_run(struct agent_conn *conn, const struct agent_request *request)
{
    const struct command *command = find_command(word(request, 0));

    if (has_nul(request)) {
        fail(conn, "a word has a NUL byte");
    } else if (!command) {
        agent_reply_error(&conn->out, "ERR", "unknown command '%.100s'", word(request, 0));
    } else if (request->count < command->least || request->count > command->most) {
        agent_reply_error(&conn->out, "ERR", "wrong number of arguments for '%s' command",
                          command->name);
    } else if (!conn->is_known && command->traits != IS_FOR_ALL) {
        agent_reply_error(&conn->out, "NOAUTH", "Authentication required.");
    } else if (command->traits == TAKES_LOCKS && conn->agent->phase != AGENT_SERVES) {
        agent_reply_error(&conn->out, "UNAVAILABLE", "the agent is about to end");
    } else {
        command->run(conn, request);
    }
}
