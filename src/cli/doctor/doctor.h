#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

/*
 * Checks a server and the locks on it. Each file of checks reads facts from the server and has a
 * table that judges them. A row of the table is one possible result of a check: the first row of a
 * check whose condition holds is its result.
 */

#include "exit.h"

#include <rql/admin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum doctor_level {
    DOCTOR_OK,
    DOCTOR_NOTE, /* good to know */
    DOCTOR_WARN, /* will cause problems */
    DOCTOR_FAIL, /* locks are not safe, or do not work */
    DOCTOR_SKIP, /* the check could not run; the title says why */
    DOCTOR_LEVELS,
};

struct doctor;

/*
 * One possible result of a check. The texts may contain facts: "{name}", "{name:ms}" (of
 * microseconds), "{name:s}" (the same in seconds), "{name:size}" (of bytes, in MB), "{name:plural}"
 * (an "s" unless the number is 1).
 */
struct doctor_row {
    const char *id; /* group and name, such as "mem.policy" */
    enum doctor_level level;
    const char *flag; /* the row holds if this fact is not 0; NULL: always */
    const char *title;
    const char *why; /* NULL if the level is OK or SKIP; the same for the fix */
    const char *fix; /* a command if there is one */
};

#define DOCTOR_GOOD_ROW(id, flag, title)                                                           \
    {                                                                                              \
        id, DOCTOR_OK, flag, title, NULL, NULL                                                     \
    }
#define DOCTOR_SKIP_ROW(id, flag, title)                                                           \
    {                                                                                              \
        id, DOCTOR_SKIP, flag, title, NULL, NULL                                                   \
    }

/* When a group is run: for each of several servers; only with a client that may lock; also for
 * metrics. */
enum { DOCTOR_EACH = 1, DOCTOR_LOCKS = 2, DOCTOR_BRIEF = 4 };

/* The checks of one file. */
struct doctor_group {
    const struct doctor_row *rows; /* the rows of a check follow each other */
    size_t n_rows;
    /* Reads the facts. Returns false if it cannot; `error` then says why. */
    bool (*read)(struct doctor *self);
    unsigned kind;
};

extern const struct doctor_group doctor_rights;
extern const struct doctor_group doctor_server;
extern const struct doctor_group doctor_trips;
extern const struct doctor_group doctor_swarm;
extern const struct doctor_group doctor_keys;
extern const struct doctor_group doctor_use;
extern const struct doctor_group doctor_clocks;

/* A fact that a check has found, for its texts, and for programs. */
struct doctor_fact {
    const char *id;   /* the check that it belongs to; "": only the table uses it */
    const char *name; /* such as "evicted_keys" */
    char *text;       /* NULL: it is a number */
    int64_t number;
};

enum { DOCTOR_FACTS = 64, DOCTOR_FINDINGS = 6, DOCTOR_REPLICAS = 16, DOCTOR_ADDRESS = 280 };

/* The result of a check. */
struct doctor_check {
    const char *id;
    enum doctor_level level;
    char *title;
    char *why; /* or NULL; the same for the fix */
    char *fix;
    size_t n_found;
    struct doctor_fact found[DOCTOR_FINDINGS];
};

/* A reading of three clocks: the server read its own between the two readings of ours. */
struct doctor_clocks {
    int64_t sent_us;
    int64_t received_us;
    int64_t server_us; /* 0: no reading */
    int64_t wall_us;   /* this machine's time of day at sent_us */
};

/* What is to be checked. */
struct doctor_wish {
    const rql_options *options; /* of the clients that the doctor makes */
    bool is_brief;              /* only the groups for metrics, which take no lock */
    int64_t time_limit_ms;      /* no check begins later */
    int64_t max_keys;           /* a database with more keys is not searched */
};

/* One diagnosis. Freed with doctor_free(). */
struct doctor {
    struct doctor_wish wish;
    int64_t end_us;
    rql_client *bare;   /* sends single commands, for a user without rights, too */
    rql_client *client; /* takes locks; NULL: it could not be made, */
    rql_error why;      /* and this is why */
    rql_error error;    /* of the last step that failed */

    size_t node;            /* the index of the server that is examined */
    rql_server_info server; /* its description, */
    rql_server_info first;  /* and that of the first of several */
    bool is_partitioned;    /* there are, or may be, several */
    int64_t uptime_s;       /* of the first; -1: not known */
    char run_id[2][64];     /* as two connections report it; or empty */
    struct doctor_clocks clocks;
    int64_t n_ruby; /* hosts and acquirers of the Ruby gem */
    size_t n_replicas;
    char replicas[DOCTOR_REPLICAS][DOCTOR_ADDRESS]; /* "host:port", as the master sees them */

    size_t n_facts; /* of the group that is run */
    struct doctor_fact facts[DOCTOR_FACTS];

    size_t n_checks;
    struct doctor_check *checks;
    size_t n_of[DOCTOR_LEVELS]; /* number of checks of each level */
    size_t n_late;              /* groups for which no time was left */
};

/* Examines the server of these options. Returns false if the server cannot be reached, or the login
 * failed; `error` says why. */
bool doctor_run(struct doctor *self, const struct doctor_wish *wish);
void doctor_free_p(struct doctor *self);

/* Writes the command that gives the user of these options the rights that it lacks for the commands
 * of the program. Returns false if no right is missing, or the server cannot be asked. */
enum { DOCTOR_LINE = 1024 };

bool doctor_write_rights(const rql_options *options, char out[DOCTOR_LINE]);

/* ---- for the files of checks ---- */

void doctor_number(struct doctor *self, const char *id, const char *name, int64_t value);
void doctor_text(struct doctor *self, const char *id, const char *name, const char *text);

/* Sets a fact that only rows of the table use. */
void doctor_flag(struct doctor *self, const char *name, bool value);

/* Sends a command to a server; the words end in NULL. */
rql_status doctor_send(rql_client *client, size_t node, const char *const *words, rql_reply **out,
                       rql_error *error);

/* Sends a command to the server that is examined; the words end in NULL. Returns NULL if there is
 * no reply. */
rql_reply *doctor_ask(struct doctor *self, const char *const *words);

#define DOCTOR_ASK(self, ...) doctor_ask((self), (const char *const[]){__VA_ARGS__, NULL})

/* Returns the name of the server that is examined, as rql_lock_node() returns it for its locks: the
 * name of a master that sentinels watch, wherever it is. After doctor_run(): of the first one. */
const char *doctor_where(const struct doctor *self);

/* Makes a client that only sends single commands. Returns NULL after a fault. */
rql_client *doctor_bare_client(const rql_options *options, const char *url, rql_error *error);

/* Copies the value of a line of INFO, whose mark is "\nname:"; *out is empty if there is none. */
void doctor_info_text(const rql_reply *info, const char *mark, char *out, size_t size);
int64_t doctor_info_number(const rql_reply *info, const char *mark); /* -1: there is none */

struct doctor_clocks doctor_read_clocks(rql_client *bare);

#endif
