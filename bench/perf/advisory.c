#include "perf/advisory.h"

#include <endian.h>
#include <libpq-fe.h>
#include <stdlib.h>

struct hand {
    PGconn *connection;
    struct fault *fault;
};

static void *open_site(const struct site *site)
{
    struct site *copy = malloc(sizeof *copy);

    if (copy) {
        *copy = *site;
    }
    return copy;
}

/* Frees the result. */
static bool judge(struct hand *self, PGresult *result, ExecStatusType wanted)
{
    bool good = PQresultStatus(result) == wanted;

    if (!good) {
        fault_raise(self->fault, "postgresql: %s", PQerrorMessage(self->connection));
    }
    PQclear(result);
    return good;
}

static bool prepare(struct hand *self, const char *name, const char *text)
{
    return judge(self, PQprepare(self->connection, name, text, 1, NULL), PGRES_COMMAND_OK);
}

static void leave(void *hand)
{
    struct hand *self = hand;

    PQfinish(self->connection);
    free(self);
}

static bool get_ready(struct hand *self)
{
    if (PQstatus(self->connection) != CONNECTION_OK) {
        fault_raise(self->fault, "postgresql: %s", PQerrorMessage(self->connection));
        return false;
    }
    return prepare(self, "take", "select pg_advisory_lock($1::int8)") &&
           prepare(self, "give", "select pg_advisory_unlock($1::int8)");
}

static void *enter(void *shared, int seat)
{
    const struct site *site = shared;
    struct hand *self = calloc(1, sizeof *self);

    (void)seat;
    if (!self) {
        fault_raise(site->fault, "out of memory");
        return NULL;
    }
    self->fault = site->fault;
    self->connection = PQconnectdb(site->address);
    if (!get_ready(self)) {
        leave(self);
        return NULL;
    }
    return self;
}

static bool call(struct hand *self, const char *statement, const struct prize *prize)
{
    int64_t number = (int64_t)htobe64((uint64_t)prize->number);
    const char *values[] = {(const char *)&number};
    const int lengths[] = {sizeof number};
    const int formats[] = {1};

    return judge(self, PQexecPrepared(self->connection, statement, 1, values, lengths, formats, 1),
                 PGRES_TUPLES_OK);
}

static bool take(void *hand, const struct prize *prize)
{
    return call(hand, "take", prize);
}

static bool give(void *hand, const struct prize *prize)
{
    return call(hand, "give", prize);
}

const struct contender contender_advisory = {
    .name = "advisory",
    .open = open_site,
    .close = free,
    .enter = enter,
    .leave = leave,
    .take = take,
    .give = give,
};
