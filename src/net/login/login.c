/* The first commands of a connection, before any about a lock. */

#include "net/login/login.h"

#include "base/cancel_fd.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/scope.h"
#include "net/login/arrival.h"
#include "net/login/ask.h"
#include "net/login/client_name.h"
#include "net/login/credentials.h"
#include "net/login/hello.h"
#include "net/login/rights.h"
#include "net/login/sentinels.h"
#include "net/sock/decode.h"
#include "net/sock/shards.h"
#include "net/sock/site.h"
#include "net/sock/socket.h"
#include "wire/answer.h"
#include "wire/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The questions, in the order in which they are asked, except for the last round trip (SUBSCRIBE
 * and CHANGES, or KILL and ARRIVE). Unnecessary ones are left out: HELLO covers AUTH, CLIENT_ID,
 * SETNAME and WRITE, which are the old commands, for servers that do not know it. The questions
 * from SETNAME on are optional and may be refused, except for RING and ARRIVE. */
enum question {
    HELLO,
    AUTH,
    SELECT,
    TIME,
    CLIENT_ID,
    PUBLISH,
    SUBSCRIBE,
    SETNAME,
    WRITE,
    CLIENT_INFO,
    INFO,
    SCRIPTS,
    NAME,
    OWN_RING,
    RING,
    CHANGES,
    KILL,
    ARRIVE,
    QUESTIONS
};

/* The server is asked in several questions which scripts it has: Redis closes the connection of a
 * client that has not logged in yet and sends a command of more than ten words, before the client
 * can read why its login has failed. */
enum {
    SCRIPTS_EACH = 8,
    SCRIPTS_QUESTIONS = (RQLI_SCRIPT_COUNT + SCRIPTS_EACH - 1) / SCRIPTS_EACH
};

/* More bytes than all commands of a login have: a URL has up to 4096 bytes, and so may a separate
 * password. */
enum { WORDS_SIZE = 8192 };

/* A sentinel's answer may be this old: many connections may be made at the same time. */
enum { FRESH_US = 100000 };

/* One login: the questions in the order of their replies, and where the replies go. */
struct login {
    struct rqli_socket *sock;
    struct rqli_command command;
    struct rqli_arena arena;
    enum question sent[QUESTIONS + SCRIPTS_QUESTIONS + RQLI_PARTITIONS];
    int n_scripts;        /* questions about scripts that were answered */
    bool needs_old_words; /* HELLO did not return everything that is needed */
    struct rqli_clock_reading *reading;
    const char *user;     /* or NULL */
    const char *password; /* or NULL */
    rql_credentials asked;
    rql_error no_ring; /* why this client's list of shards could not be written */
    struct rqli_arrivals arrivals;
};

static void login_free(struct login *self)
{
    if (self->command.data) {
        explicit_bzero(self->command.data, self->command.capacity); /* the password was in it */
    }
    explicit_bzero(&self->asked, sizeof self->asked);
    rqli_command_fini(&self->command);
    rqli_arena_reset(&self->arena);
    free(self);
}

RQLI_DEFINE_AUTO(struct login *, login_free);

static bool may_ask(const struct login *self, enum question question)
{
    return rqli_rights_may_ask(self->sock->site, question);
}

/* With a pause no login can do without INFO: once the user has the right, the next one succeeds. */
static bool must_know_run(const struct login *self)
{
    const struct rqli_era *eras = self->sock->site->session->eras;

    return eras && eras->pause_ms > 0;
}

/* Returns the command buffer for the next question. Its number is that of the commands before it,
 * so each command is begun before next() is called again. */
static struct rqli_command *next_question(struct login *self, enum question question)
{
    self->sent[self->command.n_commands] = question;
    return &self->command;
}

void rqli_login_write_probe(struct rqli_command *command)
{
    rqli_command_words(command, "ZREM", RQLI_KEY_LIVE, "-", NULL);
}

/* Finds the credentials of the URL, or those that the caller's function returns now. The login
 * keeps user and password, because the old commands may follow after HELLO. */
static rql_status find_credentials(struct login *self, int64_t deadline_us, rql_error *error)
{
    const struct rqli_site *site = self->sock->site;
    rql_credentials *asked = &self->asked;
    rql_status status;

    self->user = site->session->url->user;
    self->password = site->session->url->password;
    if (!site->session->credentials) {
        return RQL_OK;
    }
    status = rqli_credentials_ask(site, deadline_us, asked, &self->sock->renew_us, error);
    if (status) {
        return status;
    }
    self->user = *asked->user ? asked->user : NULL;
    self->password = *asked->user || *asked->password ? asked->password : NULL;
    return RQL_OK;
}

/* Asks for RESP2, because a push between replies would be read as one of them. A password without a
 * user is that of the user "default". */
static void write_hello(struct login *self, const char *name)
{
    struct rqli_command *command = next_question(self, HELLO);

    rqli_command_begin(command, self->password ? 7 : 4);
    rqli_command_text(command, "HELLO");
    rqli_command_text(command, "2");
    if (self->password) {
        rqli_command_text(command, "AUTH");
        rqli_command_text(command, self->user ? self->user : "default");
        rqli_command_text(command, self->password);
    }
    rqli_command_text(command, "SETNAME");
    rqli_command_text(command, name);
}

/* number: of the question, counted from 0. */
static void ask_for_scripts(struct rqli_command *command, int number)
{
    int from = number * SCRIPTS_EACH;
    int left = RQLI_SCRIPT_COUNT - from;
    int count = left < SCRIPTS_EACH ? left : SCRIPTS_EACH;

    rqli_command_begin(command, 2 + count);
    rqli_command_text(command, "SCRIPT");
    rqli_command_text(command, "EXISTS");
    for (int i = from; i < from + count; i++) {
        rqli_command_slice(command, (struct rqli_slice){rqli_scripts[i].sha1, 40});
    }
}

/* Returns the scripts that the server has, by its answer to that question; none if it does not
 * say. */
static uint64_t read_scripts(const struct rqli_reply *reply, int number)
{
    size_t count = reply->type == RQLI_REPLY_ARRAY ? reply->count : 0;
    uint64_t known = 0;

    for (size_t i = 0; i < count && i < SCRIPTS_EACH; i++) {
        known |= (uint64_t)(reply->items[i].integer == 1) << i;
    }
    return known << SCRIPTS_EACH * number;
}

/* Writes all questions at once, so that a login is one round trip. PUBLISH is among them because
 * scripts push grants in this user's name: a missing right would be noticed only when a lock is
 * handed over. */
static void write_questions(struct login *self, bool is_for_commands)
{
    const struct rqli_session *session = self->sock->site->session;
    const struct rqli_url *url = session->url;
    const bool is_old = self->needs_old_words;
    const bool is_partitioned = rqli_url_is_partitioned(url);
    char database[16];
    char name[RQLI_CLIENT_NAME_SIZE];

    (void)snprintf(name, sizeof name, "rql-%s", session->identity);
    if (session->name) {
        rqli_client_name_of_connection(session->name, is_for_commands, name);
    }
    if (is_old) {
        if (self->password) {
            rqli_credentials_write(self->user, self->password, next_question(self, AUTH));
        }
    } else {
        write_hello(self, name);
    }
    if (url->database != 0) {
        (void)snprintf(database, sizeof database, "%d", url->database);
        rqli_command_words(next_question(self, SELECT), "SELECT", database, NULL);
    }
    if (session->is_bare) {
        return;
    }
    rqli_command_words(next_question(self, TIME), "TIME", NULL);
    if (is_old) {
        rqli_command_words(next_question(self, CLIENT_ID), "CLIENT", "ID", NULL);
    }
    if (!is_partitioned) {
        rqli_push_ping(next_question(self, PUBLISH), &rqli_key_sets[RQLI_WHOLE], session->identity);
    }
    if (is_old && may_ask(self, SETNAME)) {
        rqli_command_words(next_question(self, SETNAME), "CLIENT", "SETNAME", name, NULL);
    }
    if (is_old && is_for_commands) {
        rqli_login_write_probe(next_question(self, WRITE));
    }
    if (is_for_commands && may_ask(self, CLIENT_INFO)) {
        rqli_command_words(next_question(self, CLIENT_INFO), "CLIENT", "INFO", NULL);
    }
    if (is_for_commands && (may_ask(self, INFO) || must_know_run(self))) {
        rqli_command_words(next_question(self, INFO), "INFO", "server", NULL);
    }
    if (is_for_commands && may_ask(self, SCRIPTS)) {
        for (int i = 0; i < SCRIPTS_QUESTIONS; i++) {
            ask_for_scripts(next_question(self, SCRIPTS), i);
        }
    }
    if (is_for_commands && session->name && !is_partitioned && /* net/op/cluster.c does it there */
        may_ask(self, NAME)) {
        rqli_client_name_write(session->name, next_question(self, NAME));
        rqli_client_name_on_login(session->name, self->reading->sent_us);
    }
    if (url->ring && is_for_commands) { /* the first client sets it, the others compare */
        rqli_command_words(next_question(self, OWN_RING), "SET", RQLI_KEY_RING, url->ring, "NX",
                           NULL);
        rqli_command_words(next_question(self, RING), "GET", RQLI_KEY_RING, NULL);
    }
}

/* Takes the reply to an optional question. CLIENT INFO: "id=7 addr=127.0.0.1:4711 laddr=..."; INFO:
 * lines, one of them "run_id:" and 40 hex digits. */
static void take_optional(struct login *self, enum question question,
                          const struct rqli_reply *reply)
{
    struct rqli_seat *seat = &self->sock->seat;

    rqli_rights_note(self->sock->site, question, reply);
    if (question == NAME && !may_ask(self, NAME)) {
        rqli_client_name_on_refused(self->sock->site->session->name);
    } else if (question == SCRIPTS) {
        self->sock->scripts |= read_scripts(reply, self->n_scripts++);
    } else if (question == WRITE) {
        self->sock->is_read_only =
            reply->type == RQLI_REPLY_ERROR && rqli_reply_says(reply, "READONLY");
    } else if (question == OWN_RING && reply->type == RQLI_REPLY_ERROR) {
        (void)rqli_reply_fault(reply, "SET " RQLI_KEY_RING, self->sock->site->where,
                               &self->no_ring);
    } else if (reply->type == RQLI_REPLY_TEXT && question == CLIENT_INFO) {
        rqli_reply_copy_between(seat->address, sizeof seat->address, reply, " addr=", " laddr=");
    } else if (reply->type == RQLI_REPLY_TEXT && question == INFO) {
        rqli_reply_copy_between(seat->run_id, sizeof seat->run_id, reply, "\nrun_id:", "\r");
    }
}

/* Old servers reject HELLO as unknown, or before AUTH; then the old commands are needed. A wrong
 * password, or a server that is loading, would make the old commands fail as well. */
static rql_status take_hello(struct login *self, const struct rqli_reply *reply, rql_error *error)
{
    const bool is_error = reply->type == RQLI_REPLY_ERROR;
    const struct rqli_reply *role;
    const struct rqli_reply *id;
    rql_status status;

    if (is_error && (rqli_reply_says(reply, "NOAUTH") || rqli_reply_says(reply, "NOPERM"))) {
        rqli_rights_note(self->sock->site, HELLO, reply);
        self->needs_old_words = true;
        return RQL_OK;
    }
    if (is_error && rqli_reply_class(reply) == RQL_E_SERVER) {
        self->needs_old_words = true;
        return rqli_hello_check_unknown(self->sock->site, error);
    }
    if (is_error || reply->type != RQLI_REPLY_ARRAY || reply->count % 2 != 0) {
        return rqli_reply_fault(reply, rqli_reply_says(reply, "WRONGPASS") ? "AUTH" : "HELLO",
                                self->sock->site->where, error);
    }
    status = rqli_hello_check(self->sock->site, reply, error);
    if (status) {
        return status;
    }
    id = rqli_reply_field(reply, "id", RQLI_REPLY_INTEGER);
    role = rqli_reply_field(reply, "role", RQLI_REPLY_TEXT);
    self->needs_old_words = !id || !role;
    if (id && role) {
        self->sock->seat.client_id = id->integer;
        self->sock->is_read_only = !rqli_reply_is(role, "master");
    }
    return RQL_OK;
}

/* An error to a question before SETNAME fails the login. A TIME that cannot be read fails it too,
 * and so does a reply to SUBSCRIBE that confirms no subscription. */
static rql_status take_reply(struct login *self, enum question question,
                             const struct rqli_reply *reply, rql_error *error)
{
    const struct rqli_site *site = self->sock->site;
    static const char *const names[SETNAME] = {"HELLO",     "AUTH",    "SELECT",   "TIME",
                                               "CLIENT ID", "PUBLISH", "SUBSCRIBE"};

    if (question == HELLO) {
        return take_hello(self, reply, error);
    }
    if (question == ARRIVE) {
        return rqli_arrivals_read(&self->arrivals, site, reply, error);
    }
    if (question == RING) {
        return rqli_shards_check(site->where, site->session->url->ring, reply, &self->no_ring,
                                 error);
    }
    if (question >= SETNAME) {
        take_optional(self, question, reply);
        return RQL_OK;
    }
    if (reply->type == RQLI_REPLY_ERROR && rqli_reply_says(reply, "NOPERM")) {
        return rqli_rights_check(site, self->user, names[question], reply, error);
    }
    if (reply->type == RQLI_REPLY_ERROR ||
        (question == TIME && !rqli_time_read(reply, &self->reading->server_us)) ||
        (question == SUBSCRIBE && rqli_push_read(reply).kind != RQLI_PUSHED_CONFIRMATION)) {
        return rqli_reply_fault(reply, names[question], site->where, error);
    }
    if (question == TIME) {
        self->reading->received_us = rqli_now_us();
    } else if (question == CLIENT_ID) {
        self->sock->seat.client_id = reply->integer;
    }
    return RQL_OK;
}

/* Sends the questions and takes the replies. It stops at the first reply that fails the login: the
 * socket is closed then, so no other command can get the remaining ones. After a HELLO that failed
 * the other replies mean nothing, because everything is asked again. The arena is reset for each
 * reply, because together they do not fit the arena's first bytes. */
static rql_status ask_server(struct login *self, int64_t deadline_us, rql_error *error)
{
    const bool had_old_words = self->needs_old_words;
    rql_status status = rqli_ask_send(self->sock, &self->command, deadline_us, error);

    for (int i = 0; !status && i < self->command.n_commands; i++) {
        struct rqli_reply reply = {0};

        status = rqli_ask_read(self->sock, &self->arena, &reply, deadline_us, error);
        if (!status && self->needs_old_words == had_old_words) {
            status = take_reply(self, self->sent[i], &reply, error);
        }
        rqli_arena_reset(&self->arena);
    }
    return status;
}

/* Ends the predecessor's connection, but only if it is surely ours: a restarted server gives old
 * ids, and at a Unix socket old addresses, to other clients. If that cannot be known, or KILL is
 * not allowed, the commands that were sent there are still limited by their not_after. */
static void write_end_of(struct login *self, const struct rqli_seat *predecessor)
{
    char id[24];

    if (predecessor->client_id == 0 || !*predecessor->address || !*predecessor->run_id ||
        strcmp(predecessor->run_id, self->sock->seat.run_id) != 0 || !may_ask(self, KILL)) {
        return;
    }
    (void)snprintf(id, sizeof id, "%lld", (long long)predecessor->client_id);
    rqli_command_words(next_question(self, KILL), "CLIENT", "KILL", "ID", id, "ADDR",
                       predecessor->address, NULL);
}

/* For commands: the last round trip, if there is anything to ask. */
static rql_status settle_in(struct login *self, const struct rqli_seat *predecessor,
                            int64_t deadline_us, rql_error *error)
{
    rql_status status;
    int first;

    /* Many arrivals make the buffer move: no copy of the password may stay behind. */
    explicit_bzero(self->command.data, self->command.capacity);
    rqli_command_reset(&self->command);
    write_end_of(self, predecessor);
    first = self->command.n_commands;
    status = rqli_arrivals_write(&self->arrivals, self->sock, &self->command, error);
    for (int i = first; i < self->command.n_commands; i++) {
        self->sent[i] = ARRIVE;
    }
    if (!status && self->command.n_commands > 0) {
        status = ask_server(self, deadline_us, error);
    }
    rqli_arrivals_end(&self->arrivals, self->sock, status);
    return status;
}

/* Subscribes; only pushes may follow. With partitions that is done after the login, for those that
 * a caller waits for (net/conn/subscription.h). The right to be notified of changes may be missing:
 * then waiters poll. A push between the two answers is taken for the second and lost, which does no
 * harm, because all waiters poll after a new subscription. */
static rql_status subscribe_to_pushes(struct login *self, int64_t deadline_us, rql_error *error)
{
    if (rqli_site_is_partitioned(self->sock->site)) {
        return RQL_OK;
    }
    rqli_command_reset(&self->command);
    self->sent[0] = SUBSCRIBE;
    self->sent[1] = CHANGES;
    rqli_push_subscribe(&self->command, &rqli_key_sets[RQLI_WHOLE],
                        self->sock->site->session->identity, may_ask(self, CHANGES));
    return ask_server(self, deadline_us, error);
}

/* Sends HELLO, and if its answer says too little, the old commands on the same connection. */
static rql_status introduce_client(struct login *self, bool is_for_commands, int64_t deadline_us,
                                   rql_error *error)
{
    rql_status status = find_credentials(self, deadline_us, error);
    const bool knows_hello = may_ask(self, HELLO);

    if (status) {
        return status;
    }
    /* Long texts do not make the buffer move: a copy with the password in it would stay behind. */
    if (!rqli_command_reserve(&self->command, WORDS_SIZE)) {
        return rqli_fail_nomem(error);
    }
    self->needs_old_words = !knows_hello;
    self->reading->sent_us = rqli_now_us();
    write_questions(self, is_for_commands);
    status = ask_server(self, deadline_us, error);
    if (!status && self->needs_old_words && knows_hello) {
        rqli_command_reset(&self->command);
        self->reading->sent_us = rqli_now_us();
        write_questions(self, is_for_commands);
        status = ask_server(self, deadline_us, error);
    }
    return status;
}

/* The socket is connected; its decoder is for this connection only. Bytes after the answers would
 * be taken for the reply to the first command; a subscriber may have a push there already. */
static rql_status log_in(struct rqli_socket *sock, const struct rqli_seat *predecessor,
                         int64_t deadline_us, struct rqli_clock_reading *reading_out,
                         rql_error *error)
{
    RQLI_AUTO(login_free) struct login *self = calloc(1, sizeof *self);
    rql_status status;

    if (!self) {
        return rqli_fail_nomem(error);
    }
    self->sock = sock;
    self->reading = reading_out;
    status = introduce_client(self, predecessor != NULL, deadline_us, error);
    if (!status && !sock->site->session->is_bare) {
        status = predecessor ? settle_in(self, predecessor, deadline_us, error)
                             : subscribe_to_pushes(self, deadline_us, error);
    }
    if (!status && predecessor && !rqli_decoder_is_empty(&sock->decoder)) {
        status = rqli_fail(error, RQL_E_PROTOCOL, "%s: more replies than commands at login",
                           sock->site->where);
    }
    return status;
}

/* Appends an address, because the place in the message (site->where) names the sentinels, or has a
 * name with several addresses. */
static void append_address(rql_error *error, const char *address)
{
    size_t length;

    if (error) {
        length = strlen(error->message);
        (void)snprintf(error->message + length, sizeof error->message - length, " (%s)", address);
    }
}

static rql_status find_and_log_in(struct rqli_socket *sock, const struct rqli_seat *predecessor,
                                  int64_t deadline_us, struct rqli_clock_reading *reading_out,
                                  rql_error *error)
{
    struct rqli_master *master = sock->site->master;
    struct rqli_master_claim claim = {.address = sock->site->address};
    char node[RQLI_ADDRESS_TEXT_SIZE];
    rql_status status = RQL_OK;

    if (master) {
        status = rqli_sentinels_find(master, rqli_now_us() - FRESH_US, deadline_us, &claim, error);
    }
    if (status) {
        return status;
    }
    sock->node = claim.address;
    if (master) {
        rqli_master_enter(master, &sock->of_master, &claim.address);
    }
    status = rqli_ask_open(sock, deadline_us, error);
    if (!status) {
        status = log_in(sock, predecessor, deadline_us, reading_out, error);
    }
    if (!status && master) {
        status = rqli_sentinels_confirm(sock, &claim, error);
    }
    if (status && master) {
        rqli_sentinels_distrust(master, &claim);
        append_address(error, rqli_address_print(&sock->node, node));
    }
    return status;
}

/* Each connection has a new seat: the predecessor's is the caller's copy. */
rql_status rqli_login(struct rqli_socket *sock, const struct rqli_seat *predecessor,
                      int64_t deadline_us, struct rqli_clock_reading *reading_out, rql_error *error)
{
    rql_status status;

    sock->seat = (struct rqli_seat){0};
    sock->is_read_only = false;
    sock->scripts = 0;
    sock->renew_us = 0;
    status = find_and_log_in(sock, predecessor, deadline_us, reading_out, error);
    if (status) {
        rqli_socket_close(sock); /* a closed socket is allowed */
    }
    return status;
}

/* ---- any of several addresses ---- */

/* Several servers can share one name, such as a headless service of Kubernetes: all of them accept
 * connections, and one is the master. */

/* True: another address of the name may do better. A replica is of no use, nor is a server that
 * does not answer or is loading. A wrong password is wrong everywhere. In a cluster replicas know
 * the masters; sentinels name one server. */
static bool wants_other_address(const struct rqli_socket *sock, rql_status status)
{
    const struct rqli_site *site = sock->site;
    const bool is_useless = status == RQL_E_IO || status == RQL_E_UNAVAILABLE ||
                            (status == RQL_OK && sock->is_read_only);

    return is_useless && sock->peer.n_addresses > 1 && !site->master &&
           site->session->url->arrangement != RQLI_CLUSTER;
}

/* A connection to a replica, kept while a better one is sought. */
struct spare {
    struct rqli_socket sock;
    struct rqli_clock_reading reading;
};

/* Moves the socket out. The caller's is closed then, and knows which address was tried. */
static void keep_spare(struct spare *self, struct rqli_socket *sock,
                       const struct rqli_clock_reading *reading)
{
    if (self->sock.fd >= 0) {
        rqli_socket_close(sock);
        return;
    }
    *self = (struct spare){*sock, *reading};
    sock->fd = -1;
    sock->tls = NULL;
    sock->decoder = (struct rqli_decoder){0};
}

/* Tries the addresses in turn. If no server there is a master, the first replica is taken, because
 * locks can be inspected there. */
rql_status rqli_login_any(struct rqli_socket *sock, const struct rqli_seat *predecessor,
                          int64_t deadline_us, struct rqli_clock_reading *reading_out,
                          rql_error *error)
{
    struct spare replica = {.sock = {.fd = -1}};
    char address[RQLI_PEER_TEXT_SIZE];
    rql_status status = rqli_login(sock, predecessor, deadline_us, reading_out, error);
    int n_left = sock->peer.n_addresses;

    while (wants_other_address(sock, status)) {
        memcpy(sock->peer.refused, sock->peer.at, sizeof sock->peer.refused);
        if (!status) {
            keep_spare(&replica, sock, reading_out);
        }
        if (--n_left == 0 || rqli_time_is_up(deadline_us)) {
            break;
        }
        status = rqli_login(sock, predecessor, deadline_us, reading_out, error);
    }
    if (replica.sock.fd >= 0 && sock->fd >= 0) {
        rqli_socket_close(&replica.sock);
    } else if (replica.sock.fd >= 0) {
        replica.sock.peer = sock->peer;
        *sock = replica.sock;
        *reading_out = replica.reading;
        status = RQL_OK;
    }
    if (status && sock->peer.n_addresses > 1 && !sock->site->master) {
        append_address(error, rqli_peer_print(&sock->peer, address));
    }
    return status;
}
