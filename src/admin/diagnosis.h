#ifndef RQLI_DIAGNOSIS_H
#define RQLI_DIAGNOSIS_H

/*
 * One diagnosis, in the files diagnose*.c: each has the checks of some groups. Pure functions judge
 * a server by its own replies, which were all asked for at once.
 */

#include "admin/report.h"
#include "lock/client.h"
#include "wire/reply.h"

#include <rql/hosts.h>
#include <rql/inspect.h>
#include <rql/swarm.h>

/* A reading of both clocks: the server read its clock between the two readings of ours. */
struct rqli_two_clocks {
    int64_t sent_us;
    int64_t received_us;
    int64_t server_us; /* 0: no reading */
    int64_t wall_us;   /* this machine's time of day at sent_us */
};

enum { RQLI_REPLICAS_MAX = 16, RQLI_SCRATCH_SIZE = RQLI_HEX_SIZE + 16 };

struct rqli_diagnosis {
    rql_client *client;
    rql_diagnose_options options;
    int64_t end_us; /* no check begins later */
    struct rqli_report *report;
    struct rqli_node *node; /* the server that is asked: the first of several, then each other */
    rql_server_info server; /* how that server describes itself */
    int64_t p99_us;         /* of round trips; -1: not measured */
    struct rqli_two_clocks first;
    int64_t n_ruby; /* hosts and acquirers of Ruby that were seen */
    int64_t uptime_s;
    struct rqli_address replicas[RQLI_REPLICAS_MAX]; /* as the master sees them */
    size_t n_replicas;
    char scratch[RQLI_SCRATCH_SIZE]; /* the name of our scratch lock, */
    struct rqli_named of_scratch;    /* and its keys, which are on that server */
};

/* Runs commands that change nothing, within the time of the diagnosis. If there is no answer, or
 * no batch, the check is noted as skipped. This is inline so that every reader and tool can see
 * that it needs a batch. */
bool rqli_diagnosis_send(struct rqli_diagnosis *self, const char *id, struct rqli_batch *batch);

static inline bool rqli_diagnosis_run(struct rqli_diagnosis *self, const char *id,
                                      struct rqli_batch *batch)
{
    if (!batch) {
        rqli_report_add(self->report, id, RQL_CHECK_SKIP, "%s: out of memory", id);
        return false;
    }
    return rqli_diagnosis_send(self, id, batch);
}

/* Says whether time is left. If it is not, the check is noted as skipped. */
bool rqli_diagnosis_has_time(struct rqli_diagnosis *self, const char *id);

/* Counts the keys or hosts of a kind, and keeps the names of the first few. A zeroed struct is
 * empty. */
enum { RQLI_EXAMPLES_SIZE = 256 };

struct rqli_examples {
    int64_t count;
    char names[RQLI_EXAMPLES_SIZE]; /* "a, b, c" */
};

void rqli_examples_add(struct rqli_examples *self, struct rqli_slice name);

/* ---- diagnose_server.c: srv, mem, dur, net.timeout, use.scripts ---- */

/* The server's replies about itself; each may be an error. */
struct rqli_told {
    const rql_server_info *server;
    const struct rqli_reply *info;    /* INFO */
    const struct rqli_reply *slowlog; /* SLOWLOG GET */
    const struct rqli_reply *config;  /* CONFIG GET, one reply for each name */
    size_t n_config;
    int64_t server_us; /* the server's clock; 0: not known */
};

void rqli_judge_server(struct rqli_report *report, const struct rqli_told *told);

/* Reads "\nslave<index>:" of INFO: "ip=...,port=...,state=online,offset=1,lag=0". False: there
 * is no such replica. */
bool rqli_read_replica(const struct rqli_reply *info, int index, struct rqli_address *at,
                       int64_t *lag_s);

/* Asks the server, judges it, and notes its uptime and its replicas. */
void rqli_diagnose_server(struct rqli_diagnosis *self);

/* ---- diagnose_rights.c: acl ---- */

void rqli_diagnose_rights(struct rqli_diagnosis *self);

/* ---- diagnose_use.c: use, net.same_server ---- */

void rqli_diagnose_use(struct rqli_diagnosis *self);

/* ---- diagnose_keys.c: keys; sees Ruby ---- */

void rqli_diagnose_keys(struct rqli_diagnosis *self);

/* ---- diagnose_swarm.c: swarm; sees Ruby ---- */

void rqli_diagnose_swarm(struct rqli_diagnosis *self);
void rqli_judge_swarm_settings(struct rqli_report *report, const rql_client_info_list *clients);

/* The state of the swarm, as it was read. */
struct rqli_swarm_sight {
    const rql_host_info_list *hosts;
    int64_t server_us;  /* the server's clock at that time */
    int64_t n_held;     /* locks of dead hosts; -1: not known */
    bool lacks_flusher; /* no client is elected, and Ruby does not flush either */
};

void rqli_judge_swarm(struct rqli_report *report, const rql_options *options,
                      const struct rqli_swarm_sight *seen);

/* ---- diagnose_clock.c: clk, net.rtt, net.connect ---- */

void rqli_diagnose_first_clocks(struct rqli_diagnosis *self);
void rqli_diagnose_round_trips(struct rqli_diagnosis *self);
void rqli_diagnose_connecting(struct rqli_diagnosis *self);
void rqli_diagnose_clocks(struct rqli_diagnosis *self);
void rqli_diagnose_replicas(struct rqli_diagnosis *self);
void rqli_judge_clocks(struct rqli_report *report, const struct rqli_two_clocks *first,
                       const struct rqli_two_clocks *now, bool sees_ruby);

#endif
