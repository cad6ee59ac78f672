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
    KNOWN_SIZE = 128, /* of all words behind the name of a lock */
    UNSET = -1,
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
    bool tries, is_shared, has_slots, is_nested, is_detached;
    int64_t ttl_ms, wait_ms, max_ms, permits, units; /* UNSET: not given */
};

#define WORD_FIELD(field) offsetof(struct lock_words, field)
#define LONGEST_MS (INT64_C(1) << 53)

/* The words behind the name of a lock. */
static const struct lock_word {
    const char *name;

    enum { ALONE, WITH_MS, WITH_NUMBER, WITH_PAIR } kind;

    size_t offset; /* of the field that it sets; not of a pair */
    int64_t least, most;
} lock_words[] = {
    {"TTL", WITH_MS, WORD_FIELD(ttl_ms), 1, RQL_TTL_MAX_MS},
    {"WAIT", WITH_MS, WORD_FIELD(wait_ms), 0, LONGEST_MS},
    {"TRY", ALONE, WORD_FIELD(tries), 0, 0},
    {"SHARED", ALONE, WORD_FIELD(is_shared), 0, 0},
    {"PERMITS", WITH_NUMBER, WORD_FIELD(permits), 1, RQL_SHARE_MAX},
    {"UNITS", WITH_NUMBER, WORD_FIELD(units), 1, RQL_SHARE_MAX},
    {"SLOTS", ALONE, WORD_FIELD(has_slots), 0, 0},
    {"MAX", WITH_MS, WORD_FIELD(max_ms), 1, LONGEST_MS},
    {"NESTED", ALONE, WORD_FIELD(is_nested), 0, 0},
    {"META", WITH_PAIR, 0, 0, 0},
    {"DETACHED", ALONE, WORD_FIELD(is_detached), 0, 0},
};

enum { N_LOCK_WORDS = sizeof lock_words / sizeof lock_words[0] };

static const struct lock_word *find_word(const char *text)
{
    for (size_t i = 0; i < N_LOCK_WORDS; i++) {
        if (strcasecmp(lock_words[i].name, text) == 0) {
            return &lock_words[i];
        }
    }
    return NULL;
}

/* Returns the name that the words are behind, for errors: a word may have been taken for it. */
static const char *last_name(const struct lock_words *self)
{
    return self->wish.names[self->wish.n_names - 1];
}

static void refuse_word(struct agent_conn *conn, const char *lock, const char *text)
{
    char known[KNOWN_SIZE];
    size_t length = 0;

    for (size_t i = 0; i < N_LOCK_WORDS; i++) {
        length += (size_t)snprintf(known + length, sizeof known - length, "%s%s", i > 0 ? ", " : "",
                                   lock_words[i].name);
    }
    agent_reply_error(&conn->out, "ERR", "lock %.100s: unknown word: %.100s; words are %s", lock,
                      text, known);
}

/* Says what a word needs in place of this value; NULL: it has none. */
static void refuse_value(struct agent_conn *conn, const char *lock, const struct lock_word *known,
                         const char *text)
{
    const char *unit = known->kind == WITH_MS ? " of milliseconds" : "";
    int64_t number;

    if (!text) {
        agent_reply_error(&conn->out, "ERR", "lock %.100s: %s needs a number%s", lock, known->name,
                          unit);
    } else if (!read_number(text, 0, INT64_MAX, &number)) {
        agent_reply_error(&conn->out, "ERR", "lock %.100s: %s needs a number%s, not %.100s", lock,
                          known->name, unit, text);
    } else {
        agent_reply_error(&conn->out, "ERR",
                          "lock %.100s: %s needs a number%s from %lld to %lld, not %.100s", lock,
                          known->name, unit, (long long)known->least, (long long)known->most, text);
    }
}

/* Reads "META key value" at *at. False: an error was written. */
static bool read_meta(struct agent_conn *conn, const struct agent_request *request, size_t *at,
                      struct lock_words *out)
{
    rql_lock_options *options = &out->wish.options;

    if (*at + 2 >= request->count) {
        agent_reply_error(&conn->out, "ERR", "lock %.100s: META needs a key and a value",
                          last_name(out));
        return false;
    }
    if (options->n_meta == RQL_META_MAX_PAIRS) {
        agent_reply_error(&conn->out, "ERR", "lock %.100s: META may be given %d times",
                          last_name(out), RQL_META_MAX_PAIRS);
        return false;
    }
    out->meta[options->n_meta++] = (rql_meta){word(request, *at + 1), word(request, *at + 2)};
    *at += 2;
    return true;
}

/* Reads the word at *at, and what belongs to it. False: an error was written. */
static bool read_word(struct agent_conn *conn, const struct agent_request *request, size_t *at,
                      struct lock_words *out)
{
    const struct lock_word *known = find_word(word(request, *at));
    const char *value;
    void *field;

    if (!known) {
        refuse_word(conn, last_name(out), word(request, *at));
        return false;
    }
    if (known->kind == WITH_PAIR) {
        return read_meta(conn, request, at, out);
    }
    field = (char *)out + known->offset;
    if (known->kind == ALONE) {
        *(bool *)field = true;
        return true;
    }
    value = ++*at < request->count ? word(request, *at) : NULL;
    if (!value || !read_number(value, known->least, known->most, field)) {
        refuse_value(conn, last_name(out), known, value);
        return false;
    }
    return true;
}

/* Returns what is wrong with words that do not go together, or NULL. */
static const char *find_wrong(const struct lock_words *self)
{
    if (self->wish.is_series && (self->is_shared || self->permits != UNSET)) {
        return "a series holds its locks alone";
    }
    if (self->tries && self->wait_ms != UNSET) {
        return "TRY and WAIT exclude each other";
    }
    if (self->is_detached && self->max_ms != UNSET) {
        return "DETACHED and MAX exclude each other: the lock is not renewed";
    }
    if (self->is_shared && self->permits != UNSET) {
        return "SHARED and PERMITS exclude each other";
    }
    if ((self->units != UNSET || self->has_slots) && self->permits == UNSET) {
        return "UNITS and SLOTS need PERMITS";
    }
    return NULL;
}

/* Makes it one try, which a server that is away ends soon. */
static void try_once(rql_lock_options *options, const struct agent *agent)
{
    options->fail_fast = true;
    options->timeout_ms = agent->try_ms;
}

/* Makes the words options of the lock. */
static void apply_words(struct lock_words *self, const struct agent *agent)
{
    rql_lock_options *options = &self->wish.options;

    if (self->is_shared) {
        rql_lock_options_share(options);
    }
    if (self->permits != UNSET) {
        rql_lock_options_permit(options, self->units != UNSET ? self->units : 1, self->permits);
    }
    if (self->ttl_ms != UNSET) {
        options->ttl_ms = self->ttl_ms;
    }
    if (self->wait_ms != UNSET) {
        options->timeout_ms = self->wait_ms > 0 ? self->wait_ms : RQL_FOREVER;
    }
    if (self->max_ms != UNSET) {
        options->max_hold_ms = self->max_ms;
    }
    if (self->is_detached) {
        self->wish.kind = AGENT_HOLD_DETACHED;
    }
    options->share_slots = self->has_slots;
    options->nested = self->is_nested;
    if (self->tries) {
        try_once(options, agent);
    }
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

    self->tries = self->is_shared = self->has_slots = false;
    self->is_nested = self->is_detached = false;
    self->ttl_ms = self->wait_ms = self->max_ms = UNSET;
    self->permits = self->units = UNSET;
    *wish = (struct agent_wish){.kind = AGENT_HOLD_OF_CONN};
    rql_lock_options_init(conn->agent->client, &wish->options);
    wish->options.ttl_ms = TTL_MS;
    wish->options.timeout_ms = WAIT_MS;
    wish->options.retry_count = RQL_FOREVER;
    wish->options.conflict_strategy = RQL_WAIT_FOR_LOCK; /* a hold is of one client alone */
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
        if (!read_word(conn, request, &i, words)) {
            return;
        }
    }
    wrong = find_wrong(words);
    held = find_held(conn, &words->wish);
    if (wrong) {
        agent_reply_error(&conn->out, "ERR", "lock %.100s: %s", last_name(words), wrong);
    } else if (held) {
        agent_reply_error(&conn->out, "HELD", "this connection holds %.200s", held);
    } else {
        apply_words(words, conn->agent);
        add_holder(conn, words);
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
    try_once(&words.wish.options, conn->agent);
    add_holder(conn, &words);
    agent_hold_begin(conn, &words.wish);
}

/* ---- RQL.UNLOCK, RQL.UNLOCKSERIES ---- */

/* Reads a token. False: an error was written. */
static bool read_token(struct agent_conn *conn, const char *text, int64_t *out)
{
    const bool is_read = read_number(text, 0, INT64_MAX, out);

    if (!is_read) {
        agent_reply_error(&conn->out, "ERR", "a token is a number, not %.100s", text);
    }
    return is_read;
}

/* Finds the lock of this name, with this token unless it is UNSET. One of a series is not released
 * alone. Returns why there is none to release, or NULL. */
static const char *find_alone(const struct agent_conn *conn, const char *name, int64_t token,
                              struct agent_hold **out)
{
    size_t place;
    struct agent_hold *hold = agent_hold_find(conn, name, &place);

    *out = hold;
    if (!hold || hold->phase != AGENT_HOLD_HELD) {
        return "this connection does not hold it: it was lost or released, or another connection "
               "has it; RQL.HOLDER tells whether its token is in force";
    }
    if (hold->series) {
        return "this connection holds it in a series: RQL.UNLOCKSERIES releases all of it";
    }
    if (token != UNSET && token != rql_lock_token(hold->lock)) {
        return "this connection holds it with another token";
    }
    return NULL;
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
        agent_reply_not_held(&conn->out, self->why);
        free(self);
        return;
    }
    conn->phase = AGENT_CONN_BUSY;
    conn->caller = &self->conn;
}

/* RQL.UNLOCK name [token [name token]...] */
static void unlock(struct agent_conn *conn, const struct agent_request *request)
{
    int64_t tokens[AGENT_WORDS_MAX / 2] = {UNSET};
    struct agent_ending *ending;

    if (request->count > 2 && request->count % 2 == 0) {
        fail(conn, "each name needs its token");
        return;
    }
    for (size_t i = 2; i < request->count; i += 2) {
        if (!read_token(conn, word(request, i), &tokens[i / 2 - 1])) {
            return;
        }
    }
    ending = begin_ending(conn);
    for (size_t i = 1; i < request->count; i += 2) {
        struct agent_hold *hold;
        const char *why = find_alone(conn, word(request, i), tokens[i / 2], &hold);

        if (!why) {
            agent_hold_release(hold, ending);
        } else if (!ending->why) {
            ending->why = why;
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
    } else {
        ending->why = "this connection holds no such series: it was lost or released, or another "
                      "connection has it";
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
    int64_t token;

    if (read_token(conn, word(request, 2), &token)) {
        agent_call_find_holder(conn, word(request, 1), token);
    }
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

/* Refuses MULTI, and with it what follows up to EXEC or DISCARD. Clients send all of it at once:
 * after the error they would not know of a lock that was acquired. */
static void refuse_multi(struct agent_conn *conn, const struct agent_request *request)
{
    (void)request;
    conn->is_in_multi = true;
    fail(conn, "an rql agent has no transactions: send the commands without MULTI");
}

static void end_multi(struct agent_conn *conn, const struct agent_request *request)
{
    const bool is_exec = is_word(request, 0, "EXEC");

    if (!conn->is_in_multi) {
        fail(conn, is_exec ? "EXEC without MULTI" : "DISCARD without MULTI");
    } else if (is_exec) {
        agent_reply_error(&conn->out, "EXECABORT",
                          "Transaction discarded because of previous errors.");
    } else {
        agent_reply_status(&conn->out, "OK");
    }
    conn->is_in_multi = false;
}

static void reset(struct agent_conn *conn, const struct agent_request *request)
{
    (void)request;
    agent_holds_end(conn, AGENT_BY_CLIENT);
    conn->is_resp3 = false;
    conn->inherits = false;
    conn->is_in_multi = false;
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
        ENDS_MULTI = 4,  /* run behind a MULTI, which is refused */
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
    {"MULTI", 1, 1, refuse_multi, 0},
    {"EXEC", 1, 1, end_multi, ENDS_MULTI},
    {"DISCARD", 1, 1, end_multi, ENDS_MULTI},
    {"CLUSTER", 1, AGENT_WORDS_MAX, cluster, 0},
    {"RESET", 1, 1, reset, IS_FOR_ALL | ENDS_MULTI},
    {"QUIT", 1, AGENT_WORDS_MAX, quit, IS_FOR_ALL | ENDS_MULTI},
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
        agent_reply_error(&conn->out, "ERR",
                          "unknown command '%.100s': this is an rql agent, not a Redis server",
                          word(request, 0));
    } else if (request->count < command->least || request->count > command->most) {
        agent_reply_error(&conn->out, "ERR", "wrong number of arguments for '%s' command",
                          command->name);
    } else if (!conn->is_known && !(command->traits & IS_FOR_ALL)) {
        agent_reply_error(&conn->out, "NOAUTH", "Authentication required.");
    } else if (conn->is_in_multi && !(command->traits & ENDS_MULTI)) {
        fail(conn, "not run: it is behind a MULTI that was refused; send EXEC or DISCARD first");
    } else if (command->traits & TAKES_LOCKS && conn->agent->phase != AGENT_SERVES) {
        agent_reply_ending(&conn->out);
    } else {
        command->run(conn, request);
    }
}
