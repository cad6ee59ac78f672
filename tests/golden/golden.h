#ifndef GOLDEN_H
#define GOLDEN_H

/* The replay of recorded sessions of the gem (README.md of this folder): what its parts share.
 *
 * A recording is a list of steps of up to three processes, A, B and C. In a replay each of them is
 * either a client of the library or, when the cast says so, Ruby: then the commands that the gem
 * sent are sent again, raw. All functions but calls_run() are for the main thread. */

#include "check.h"
#include "proxy.h"
#include "redis_server.h"
#include "wait.h"

#include <rql/rql.h>

#include <cjson/cJSON.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

enum { GOLDEN_TEXT_SIZE = 2048, GOLDEN_CLIENTS = 8, GOLDEN_RUNS = 8, GOLDEN_META = 16 };

/* ---- names.c: what the recording calls an id or an instant, and what it is now ---- */

struct names {
    struct {
        char recorded[RQL_ID_SIZE];
        char replayed[RQL_ID_SIZE];
    } ids[64];

    size_t n_ids;

    struct {
        double recorded;
        double replayed;
    } times[256];

    size_t n_times;
};

/* Shortest form that reads back to the same double, ".0" if whole: Float#to_s. */
void names_float(double value, char out[32]);

bool names_is_id(const char *text);
bool names_is_time(double value, double at_s);                  /* within two days of `at_s` */
bool names_time_of(const char *text, double at_s, double *out); /* is it one, as a text? */
const char *names_replayed_id(const struct names *self, const char *recorded);
bool names_match_id(struct names *self, const char *recorded, const char *replayed);
bool names_match_time(struct names *self, double recorded, double replayed, double now_s);

bool names_recorded_time(const struct names *self, double replayed, double *out);
bool names_replayed_time(const struct names *self, double recorded, double *out);

/* One argument of a raw command: instants are moved from `at_s` to `now_s`, ids are those of now;
 * one that is not known stays what it is. */
void names_move(struct names *self, const char *recorded, const double at_and_now_s[2],
                char out[GOLDEN_TEXT_SIZE]);

/* A recorded text with the ids and instants of now. */
void names_translate(const struct names *self, const char *recorded, char out[GOLDEN_TEXT_SIZE]);

/* ---- world.c: the server, the clients and their network ---- */

struct world {
    struct redis_server server;
    redisContext *raw;
    int64_t io_timeout_ms;
    struct proxy *proxy; /* of the clients, when the recording has faults; or NULL */
    const char *ruby;    /* the processes that are Ruby: "", "A", "B" ... */

    struct {
        char name[40]; /* "A", or "A" and an identity of its own */
        rql_client *client;
        rql_swarm *swarm; /* or NULL */
    } clients[GOLDEN_CLIENTS];
    struct names names;
};

void world_open(struct world *self); /* the server */

/* For one replay. With a time-out the clients go through a proxy that can fail. */
void world_reset(struct world *self, const char *ruby, int64_t io_timeout_ms);
void world_end_replay(struct world *self);
void world_close(struct world *self);
bool world_is_ruby(const struct world *self, const char *process);
rql_client *world_client(struct world *self, const char *process, const char *identity);
rql_swarm **world_swarm(struct world *self, const rql_client *client);
double world_now_s(struct world *self); /* the server's clock */

/* Sends recorded commands, instants moved. */
void world_send(struct world *self, const cJSON *command, double at_s);

/* All keys as the server has them at one instant: {now, keys: [{key, type, pttl, value}]}. */
cJSON *world_dump(struct world *self);

/* ---- silence.c: does the machine stand still? ---- */

struct silence;

struct silence *silence_watch(const struct redis_server *server);
int64_t silence_end(struct silence *self); /* the longest silence of the server, in us; frees */

/* ---- compare.c, compare_keys.c: results and keys against the recording; false: `why` says where
 * and what ---- */

struct comparison {
    struct world *world;
    double at_s;  /* when it was recorded */
    double now_s; /* when it was replayed */
    char why[GOLDEN_TEXT_SIZE];
};

bool compare_value(struct comparison *self, const char *path, const cJSON *recorded,
                   const cJSON *replayed);
bool compare_outcome(struct comparison *self, const cJSON *recorded, const cJSON *replayed);
bool compare_keys(struct comparison *self, const cJSON *recorded, const cJSON *dump);
bool compare_text(struct comparison *self, const char *recorded, const char *replayed);
bool compare_differs(struct comparison *self, const char *path, const cJSON *recorded,
                     const cJSON *replayed);
bool compare_fail(struct comparison *self, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- strict.c: would the gem's readers take this key? ---- */

/* Of one key of a dump; NULL, or what is wrong with it. */
const char *strict_fault(const cJSON *key);

/* ---- own.c: what only the library writes ---- */

bool own_is_key(const char *key);    /* rql:live, rql:fence, rql:swarm:..., rql:req:NAME */
bool own_is_field(const char *name); /* of a lock */
const char *own_field_fault(const char *name, const char *value);
const char *own_key_fault(const cJSON *key);
bool own_is_acquirer(const char *id); /* ours have 32 digits at the end */

/* ---- calls.c, outcomes.c, series.c, sweeps.c, views.c, settings.c: a call of the gem, done by the
 * library ---- */

/* One call, in the thread that makes it. */
struct run {
    struct world *world;
    struct run *root;  /* the call whose block this is in; itself */
    const cJSON *call; /* op, args, options, block, ... */
    const char *process;
    rql_client *client;
    cJSON *outcome; /* {result} or {error}, and nested: of the caller */
    bool is_async;
    bool is_unsettled; /* its withdrawal goes on in the background */
    int64_t begun_us;
    pthread_t thread;

    struct {
        pthread_mutex_t mutex;
        pthread_cond_t changed;
        bool is_inside; /* the block has begun to hold */
        bool may_end;   /* the recording has come to its end */
        bool has_ended;
    } shared; /* everything in here under shared.mutex */
};

/* The recorded options of a call, as the library's. */
struct call_settings {
    rql_lock_options options;
    rql_meta meta[GOLDEN_META];
    char values[GOLDEN_META][64];
    rql_refusal refusal;
};

void calls_run(struct run *self);
void calls_read(const struct run *self, struct call_settings *out);
void calls_play_block(struct run *self, cJSON *nested);
void calls_add_nested(cJSON *outcome, cJSON *nested); /* owns it from then on */
cJSON *calls_block_outcome(const struct run *self);
const cJSON *calls_fault_at(const cJSON *call, const char *command);
cJSON *calls_error(const char *class_name, const char *message);
cJSON *calls_fault(rql_status status, const rql_error *error);
cJSON *calls_refusal(rql_status status, bool raises, const char *message); /* NULL: is none */
cJSON *calls_lock(const rql_lock *lock);
const char *calls_argument(const struct run *self);

/* Ops that only look, and operators' calls. NULL: not one of these. */
cJSON *views_run(const struct run *self, const char *op);
/* Puts an item where its name belongs: sets are compared in order. */
void views_add_sorted(cJSON *list, cJSON *item, const char *name, const char *name_field);

cJSON *settings_run(const struct run *self, const char *op);
cJSON *sweeps_run(const struct run *self, const char *op);
cJSON *swarms_run(struct run *self, const char *op);
cJSON *series_run(struct run *self);

/* ---- differences.c: where library and gem differ, and what cannot be replayed ---- */

/* Recordings and differences as they were read; main() loads them. */
extern cJSON *golden_differences;

/* The recorded step as the library is expected to answer it: a copy, changed by differences.json.
 * NULL: the step is left out. */
cJSON *differences_apply(const cJSON *recording, int step, const char *ruby);

/* Why a scenario is not replayed, or NULL. */

/* ---- play.c, state.c ---- */

/* Do the keys fit the step, and would Ruby read them? What was learned from keys that do not fit is
 * forgotten. */
bool state_check(struct comparison *self, const cJSON *step);

void play(struct world *world, const cJSON *recording, const char *ruby);

#endif
