#ifndef REMOTE_H
#define REMOTE_H

/*
 * A program that performs public calls told in lines of JSON, and says in lines of JSON what came
 * of them:
 *
 *     {"id": 3, "do": "acquire", "as": "a", "lock": "h", "names": ["x"], "options": {...}}
 *     {"id": 3, "status": 0, "token": 17, ...}
 *
 * `as` is an actor: a thread, which does one call after the other and blocks in each, or a loop of
 * the library's. Everything else is done by the thread that reads. Each line is answered once, when
 * the call is over. Lines without an id tell what happens meanwhile: events, log lines, losses.
 *
 * A line that makes no sense is a mistake of the test: the program says so and ends.
 */

#include <rql/admin.h>
#include <rql/share.h>

#include <cJSON.h>
#include <stdbool.h>
#include <stddef.h>

enum { NAME_SIZE = 64, NAMES_MAX = 64, META_MAX = 65 };

/* ---- remote.c ---- */

/* Says one line, and deletes it. From any thread. */
void say(cJSON *line);

/* The call that a line tells of begins now: its answer says how long it took. */
void note_begin(cJSON *words);

/* NULL is null. */
void add_text(cJSON *to, const char *name, const char *text);

struct number {
    const char *name;
    int64_t value;
};

void add_numbers(cJSON *to, const struct number *numbers, size_t count);

/* A new array, empty for NULL. */
cJSON *texts_of(const rql_text_list *list);

/* Answers a line, with what the reply has already, and deletes both. NULL is fine for `error`. */
void answer_with(cJSON *reply, cJSON *words, rql_status status, const rql_error *error);
void answer(cJSON *words, rql_status status, const rql_error *error);

/* A call that is over when it returns. */
struct call {
    struct actor *actor; /* NULL: the thread that reads makes it */
    rql_client *client;  /* the actor's */
    const cJSON *words;  /* the line */
    cJSON *reply;        /* what is said beside status and error */
    rql_error error;
};

struct call_row {
    const char *name;
    rql_status (*run)(struct call *call);
};

/* Makes the call that the line names, and answers the line. False: there is no such call. */
bool make_call(const struct call_row *rows, size_t count, struct actor *actor, cJSON *words);

/* Ends the program: the test is wrong. */
void wrong(const cJSON *words, const char *what) __attribute__((noreturn));

/* ---- scarcity.c ---- */

/* Zeroed, and never refused; free() takes it. */
void *own_memory(size_t size);

/* What the calling thread asks for is this program's own from now on, or not any more. */
void exempt_thread(bool exempts);

/* Before anything else is done. */
void prepare_scarcity(void);

rql_status begin_scarcity(struct call *call);
rql_status end_scarcity(struct call *call);

/* ---- words.c ---- */

/* A member that has to be there, or a default. */
const char *text_in(const cJSON *words, const char *name);
const char *text_or(const cJSON *words, const char *name, const char *other);
int64_t number_or(const cJSON *words, const char *name, int64_t other);
bool is_set(const cJSON *words, const char *name);

/* A field of a struct of options, by its name. */
struct field {
    const char *name;
    size_t offset;
};

/* Where that which an item names is in the options, or NULL. */
void *field_in(void *options, const struct field *fields, size_t count, const cJSON *item);

/* What a line says about an acquisition; points into the line. */
struct settings {
    rql_lock_options lock;
    rql_series_options series;
    const char *names[NAMES_MAX];
    rql_meta meta[META_MAX];
    bool is_series;
};

void read_client_options(const cJSON *words, rql_options *out);
void read_settings(const rql_client *client, const cJSON *words, struct settings *out);

/* ---- observed.c ---- */

/* Of options of a client, with its name as their data. */
void say_event(const rql_event *event, void *client);
void say_log_line(const rql_log_record *record, void *client);

/* All that was counted, by the names of rql_stats_json(). */
void add_stats(cJSON *reply, const rql_stats *stats);

/* The system's number of the calling thread, as events have it. */
int64_t this_thread(void);

/* ---- objects.c: what was made, by its kind and name ---- */

enum kind { A_CLIENT, AN_ACTOR, A_HOLD, A_SWARM, A_BLOCK };

/* One name may be used for each kind. `words` is the line that names it, under `member`. */
void add_object(enum kind kind, const cJSON *words, const char *member, void *object);
void *find_object(enum kind kind, const cJSON *words, const char *member);

/* Finds it, and forgets the name. */
void *take_object(enum kind kind, const cJSON *words, const char *member);

/* How many there are, of all kinds. */
int count_objects(void);

/* A lock or a series that is held. */
struct hold {
    char name[NAME_SIZE];
    rql_lock *lock;
    rql_series *series;
    rql_series_result result; /* of a series */
    bool releases;            /* when it is lost */
    bool releases_late;       /* when it is lost, once more: its lazy release has returned */
    bool makes_way;           /* it is released when others wait for it */
    bool is_lazy;             /* may be told to be lost when it was released */
    struct hold *next;        /* of those */
};

/* ---- actors.c ---- */

struct actor;

/* A thread if `loop` is NULL. */
struct actor *actor_new(rql_client *client, rql_loop *loop);
rql_client *actor_client(const struct actor *self);
rql_loop *actor_loop(const struct actor *self);

/* On the actor's thread: performs what it is given until "leave", which is answered and has the
 * value of a block. Returns false when all has been done instead. */
bool actor_work(struct actor *self, int *value_out);

/* To be done by the actor's thread, in order. */
void actor_give(struct actor *self, cJSON *words);

/* Its thread has done all that it was given; a loop is closed. */
rql_status actor_end(struct actor *self, rql_error *error);

/* ---- calls ---- */

/* Each performs one line and answers it: calls_thread.c on an actor's thread, calls_loop.c with an
 * actor's loop, calls_client.c on the thread that reads. False: there is no such call. */
bool perform_on_thread(struct actor *actor, cJSON *words);
bool perform_on_loop(struct actor *actor, cJSON *words);
bool perform_here(cJSON *words);

bool wants_refusal(const cJSON *words);

/* Adds the refusal, if the status is one, and clears it. */
void end_refusal(cJSON *reply, rql_status status, rql_refusal *refusal);

/* Those that a lock has as a share. */
void add_slots(cJSON *reply, const rql_lock *lock);

/* What became of each lock of a series, also where it failed. */
void add_result(cJSON *reply, const struct hold *hold);

/* Adds what an acquisition has got, or why it has not. Keeps the hold by the name that the line has
 * for it, or frees it. */
void end_acquisition(cJSON *reply, const cJSON *words, rql_status status, struct hold *hold,
                     rql_refusal *refusal);

/* ---- calls_block.c ---- */

/* The block of the line has its locks. */
void say_running(const cJSON *words);

rql_status end_block(struct call *call);
rql_status run_block(struct call *call);

/* ---- calls_inspect.c ---- */

rql_status inspect(struct call *call);

/* ---- calls_sweep.c ---- */

rql_status sweep(struct call *call);

/* The sweep that stands at a step goes on. */
rql_status go_on(struct call *call);
rql_status drain_host(struct call *call);

/* ---- calls_client.c ---- */

rql_client *client_in(const cJSON *words);

/* ---- calls_swarm.c ---- */

rql_status start_swarm(struct call *call);
rql_status stop_swarm(struct call *call);
rql_status end_swarm(struct call *call);
rql_status tell_swarm(struct call *call);
rql_status probe_hosts(struct call *call);
rql_status tell_hosts(struct call *call);
rql_status tell_zombies(struct call *call);
rql_status flush_zombies(struct call *call);

/* ---- calls_thread.c ---- */

/* Who is told of its life: "logs" of the line has that be log lines alone, in the name of the hold.
 */
void set_listeners(const cJSON *words, struct hold *hold, rql_lock_options *out);

/* A hold that will have the line's name for it. */
struct hold *hold_new(const cJSON *words);
/* Those that were released lazily; their clients have ended. */
void free_past_holds(void);

#endif
