#include "remote.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the thread that reads does itself: clients, actors, swarms, and the network between them and
 * the server. */

/* ---- clients ---- */

/* Its name goes to the listeners, and is freed with it. */
struct client {
    char name[NAME_SIZE]; /* first: whoever is told of the client has its name */
    rql_client *library;
    bool samples; /* what its sampler answers */
    atomic_int n_sampled;
    char hangs_at[NAME_SIZE]; /* within its listener, at the first event whose name ends so */
    sem_t may_go_on;
    rql_swarm *stops; /* when it goes on */
    rql_credentials credentials;
    atomic_int n_asked; /* for them */
};

static bool sample(int64_t percent, void *data)
{
    struct client *self = data;

    (void)percent;
    self->n_sampled++;
    return self->samples;
}

/* No mutex is held: the library can be called, with the same client. */
static void say_event_and_call(const rql_event *event, void *data)
{
    const struct client *self = data;
    rql_lock_options quiet;
    rql_lock *lock = NULL;
    rql_stats stats;

    rql_lock_options_init(self->library, &quiet);
    quiet.instrumenter = NULL;
    quiet.logger = NULL;
    if (rql_lock_acquire(self->library, "within", &quiet, &lock, NULL) ||
        rql_lock_release(lock, NULL) || rql_client_stats(self->library, &stats)) {
        wrong(NULL, "a listener may not call the library");
    }
    say_event(event, data);
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);
    size_t of_end = strlen(end);

    return length >= of_end && strcmp(text + length - of_end, end) == 0;
}

/* Until the line "listen_on", which may name a swarm to be stopped from within. */
static void say_event_and_hang(const rql_event *event, void *data)
{
    struct client *self = data;

    if (self->hangs_at[0] && ends_with(event->name, self->hangs_at)) {
        while (sem_wait(&self->may_go_on)) { /* a signal came */
        }
        self->hangs_at[0] = '\0';
        if (self->stops) {
            rql_swarm_stop(self->stops);
        }
    }
    say_event(event, data);
}

static rql_status listen_on(struct call *call)
{
    struct client *self = find_object(A_CLIENT, call->words, "client");

    if (cJSON_HasObjectItem(call->words, "stop")) {
        self->stops = find_object(A_SWARM, call->words, "stop");
    }
    (void)sem_post(&self->may_go_on);
    return RQL_OK;
}

/* "events", "logs", "sampler": true or false; "calls_back": within each event; "hangs_at": one. */
static void set_listening(const cJSON *words, struct client *self, rql_options *out)
{
    const cJSON *sampler = cJSON_GetObjectItem(words, "sampler");

    if (is_set(words, "events")) {
        out->instrumenter = say_event;
        out->instrumenter_data = self->name;
    }
    if (is_set(words, "calls_back")) {
        out->instrumenter = say_event_and_call;
        out->instrumenter_data = self;
    }
    if (cJSON_HasObjectItem(words, "hangs_at")) {
        (void)strncat(self->hangs_at, text_in(words, "hangs_at"), sizeof self->hangs_at - 1);
        (void)sem_init(&self->may_go_on, 0, 0);
        out->instrumenter = say_event_and_hang;
        out->instrumenter_data = self;
    }
    if (is_set(words, "logs")) {
        out->logger = say_log_line;
        out->logger_data = self->name;
    }
    if (sampler) {
        self->samples = cJSON_IsTrue(sampler);
        out->log_sampler = out->instr_sampler = sample;
        out->log_sampler_data = out->instr_sampler_data = self;
    }
}

static pthread_mutex_t credentials_mutex = PTHREAD_MUTEX_INITIALIZER;

/* Without a user there are none for now. */
static rql_status give_credentials(rql_credentials *out, int64_t timeout_ms, void *data)
{
    struct client *self = data;

    (void)timeout_ms;
    (void)pthread_mutex_lock(&credentials_mutex);
    self->n_asked++;
    *out = self->credentials;
    (void)pthread_mutex_unlock(&credentials_mutex);
    return out->user[0] ? RQL_OK : RQL_E_IO;
}

/* "user", "password", "valid_ms": of the logins from now on. */
static void read_credentials(const cJSON *words, struct client *self)
{
    (void)pthread_mutex_lock(&credentials_mutex);
    self->credentials = (rql_credentials){.valid_ms = number_or(words, "valid_ms", 0)};
    (void)snprintf(self->credentials.user, sizeof self->credentials.user, "%s",
                   text_or(words, "user", ""));
    (void)snprintf(self->credentials.password, sizeof self->credentials.password, "%s",
                   text_or(words, "password", ""));
    (void)pthread_mutex_unlock(&credentials_mutex);
}

static rql_status change_credentials(struct call *call)
{
    read_credentials(call->words, find_object(A_CLIENT, call->words, "client"));
    return RQL_OK;
}

static rql_status make_client(struct call *call)
{
    const cJSON *credentials = cJSON_GetObjectItem(call->words, "credentials");
    struct client *self = own_memory(sizeof *self);
    rql_options options;
    rql_status status;

    (void)strncat(self->name, text_in(call->words, "client"), sizeof self->name - 1);
    read_client_options(call->words, &options);
    set_listening(call->words, self, &options);
    if (credentials) {
        read_credentials(credentials, self);
        options.credentials = give_credentials;
        options.credentials_data = self;
    }
    status = rql_client_new(&options, &self->library, &call->error);
    if (status) {
        free(self);
    } else {
        add_object(A_CLIENT, call->words, "client", self);
    }
    return status;
}

rql_client *client_in(const cJSON *words)
{
    return ((struct client *)find_object(A_CLIENT, words, "client"))->library;
}

static rql_status free_client(struct call *call)
{
    struct client *self = take_object(A_CLIENT, call->words, "client");

    (void)rql_client_free(self->library);
    free(self);
    return RQL_OK;
}

static rql_status tell_stats(struct call *call)
{
    const struct client *self = find_object(A_CLIENT, call->words, "client");
    rql_stats stats = {0};
    rql_status status = rql_client_stats(self->library, &stats);

    add_stats(call->reply, &stats);
    (void)cJSON_AddNumberToObject(call->reply, "n_sampled", self->n_sampled);
    (void)cJSON_AddNumberToObject(call->reply, "n_asked", self->n_asked);
    return status;
}

/* ---- options ---- */

static rql_status tell_options(struct call *call)
{
    cJSON *defaults = cJSON_AddObjectToObject(call->reply, "defaults");
    const rql_option_row *row;

    for (size_t i = 0; (row = rql_option_row_at(i)) != NULL; i++) {
        (void)cJSON_AddStringToObject(defaults, row->name,
                                      row->gem_value ? row->gem_value : row->default_value);
    }
    return RQL_OK;
}

static rql_status set_option(struct call *call)
{
    rql_options options;

    rql_options_init(&options);
    return rql_options_set(&options, text_in(call->words, "name"), text_in(call->words, "value"),
                           &call->error);
}

/* ---- actors ---- */

static rql_status make_thread(struct call *call)
{
    add_object(AN_ACTOR, call->words, "name", actor_new(client_in(call->words), NULL));
    return RQL_OK;
}

static rql_status make_loop(struct call *call)
{
    rql_client *client = client_in(call->words);
    rql_loop *loop = NULL;
    rql_status status = rql_loop_open(client, NULL, &loop, &call->error);

    if (status == RQL_OK) {
        add_object(AN_ACTOR, call->words, "name", actor_new(client, loop));
    }
    return status;
}

static rql_status end_actor(struct call *call)
{
    return actor_end(take_object(AN_ACTOR, call->words, "name"), &call->error);
}

bool perform_here(cJSON *words)
{
    static const struct call_row rows[] = {
        {"client", make_client},      {"credentials", change_credentials},
        {"end", end_actor},           {"end_block", end_block},
        {"end_swarm", end_swarm},     {"enough", end_scarcity},
        {"free", free_client},        {"go_on", go_on},
        {"listen_on", listen_on},     {"loop", make_loop},
        {"options", tell_options},    {"scarce", begin_scarcity},
        {"set_option", set_option},   {"stats", tell_stats},
        {"stop_swarm", stop_swarm},   {"swarm", start_swarm},
        {"swarm_status", tell_swarm}, {"thread", make_thread},
    };

    return make_call(rows, sizeof rows / sizeof rows[0], NULL, words);
}
