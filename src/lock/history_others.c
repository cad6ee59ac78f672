#include "lock/history_others.h"

#include "base/dlist.h"
#include "lock/record.h"
#include "wire/reply.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST = 500,        /* holds that wait for their names */
    ASKED_AT_ONCE = 32 /* identities in one call */
};

struct other {
    struct rqli_dlink link;
    const char *acquirer; /* in `memory`, as all texts of the hold */
    size_t place;         /* of its identity in the call that is under way */
    struct rqli_ended_hold hold;
    char memory[];
};

struct rqli_history_others {
    struct rqli_record record; /* first */
    struct rqli_dlist waiting; /* under the mutex of the background */
    size_t n_waiting;
    size_t n_asked; /* identities in the call that is under way */
};

static struct other *other_of(struct rqli_dlink *link)
{
    return RQLI_OWNER(link, struct other, link);
}

/* An id ends with "/<identity>". */
static const char *identity_of(const char *acquirer)
{
    const char *slash = strrchr(acquirer, '/');

    return slash ? slash + 1 : acquirer;
}

/* Returns where the identity is among n; n: nowhere. */
static size_t place_of(const char *const *identities, size_t n, const char *identity)
{
    size_t i = 0;

    while (i < n && strcmp(identities[i], identity) != 0) {
        i++;
    }
    return i;
}

/* Asks for the entries of the first, and for each identity once, because a dead host may have held
 * many locks. */
static void write_question(struct rqli_duty *duty, struct rqli_call *call)
{
    struct rqli_history_others *self = (struct rqli_history_others *)duty;
    const char *asked[ASKED_AT_ONCE];

    rqli_call_init_of_set(call, RQLI_SCRIPT_COUNT, duty->set);
    rqli_call_text(call, "HMGET");
    rqli_call_slice(call, duty->set->clients);
    self->n_asked = 0;
    for (struct rqli_dlink *at = self->waiting.first; at; at = at->next) {
        struct other *other = other_of(at);
        const char *identity = identity_of(other->acquirer);

        other->place = place_of(asked, self->n_asked, identity);
        if (other->place == self->n_asked && self->n_asked < ASKED_AT_ONCE) {
            asked[self->n_asked++] = identity;
            rqli_call_text(call, identity);
        }
    }
}

/* Adds a hold, with the name in this entry; without one, with the id of who held it. */
static void add(struct rqli_history *history, struct other *other, struct rqli_slice entry)
{
    char name[RQLI_HOLD_CLIENT_SIZE];
    struct rqli_writer writer;

    rqli_writer_init(&writer, name, sizeof name);
    if (!rqli_client_entry_write(&writer, entry)) {
        rqli_write_text(&writer, other->acquirer);
    }
    (void)rqli_writer_end(&writer);
    other->hold.client = rqli_slice_of(name);
    other->hold.user = rqli_client_entry_text(entry, "\"user\":");
    other->hold.host = rqli_client_entry_text(entry, "\"host\":");
    rqli_history_add(history, &other->hold);
}

/* Takes the holds that the call has asked for off those that wait. */
static struct rqli_dlist take_asked(struct rqli_history_others *self)
{
    struct rqli_dlist asked = {0};
    struct rqli_dlink *at = self->waiting.first;

    while (at) {
        struct other *other = other_of(at);

        at = at->next;
        if (other->place < self->n_asked) {
            rqli_dlist_remove(&self->waiting, &other->link);
            rqli_dlist_add(&asked, &other->link);
            self->n_waiting--;
        }
    }
    return asked;
}

/* Without an answer, names stay unknown. */
static void read_answer(struct rqli_duty *duty, const struct rqli_batch *answer,
                        const struct rqli_reply *reply, rql_status fault)
{
    struct rqli_history_others *self = (struct rqli_history_others *)duty;
    rql_client *client = self->record.client;
    bool is_known = reply && reply->type == RQLI_REPLY_ARRAY && reply->count == self->n_asked;
    struct rqli_dlist asked = take_asked(self);
    struct rqli_dlink *link;

    (void)answer;
    self->n_asked = 0;
    rqli_background_unlock(client->background);
    while ((link = rqli_dlist_take_first(&asked)) != NULL) {
        struct other *other = other_of(link);
        const struct rqli_reply *item = is_known ? &reply->items[other->place] : NULL;

        add(client->history, other,
            item && item->type == RQLI_REPLY_TEXT ? item->text : (struct rqli_slice){"", 0});
        free(other);
    }
    rqli_background_lock(client->background);
    rqli_record_plan_next(&self->record, self->n_waiting > 0, reply || fault == RQL_E_UNKNOWN);
}

struct rqli_history_others *rqli_history_others_new(rql_client *client)
{
    static const struct rqli_duty_ops ops = {
        .begin = rqli_record_begin, .write = write_question, .read = read_answer};

    struct rqli_history_others *self = calloc(1, sizeof *self);

    if (self) {
        rqli_record_init(&self->record, client, &ops);
    }
    return self;
}

struct rqli_history_others *rqli_history_others_free(struct rqli_history_others *self)
{
    while (self && self->waiting.first) {
        free(other_of(rqli_dlist_take_first(&self->waiting)));
    }
    free(self);
    return NULL;
}

void rqli_history_others_hurry(struct rqli_history_others *self)
{
    rqli_background_lock(self->record.client->background);
    rqli_record_hurry(&self->record);
    rqli_background_unlock(self->record.client->background);
}

/* Copies the hold and its texts. NULL: no memory. */
static struct other *copy(struct rqli_slice acquirer, const struct rqli_ended_hold *hold)
{
    struct other *self =
        malloc(sizeof *self + acquirer.length + hold->name.length + hold->reason.length + 3);
    char *cursor;

    if (self) {
        cursor = self->memory;
        self->place = ASKED_AT_ONCE; /* in no call */
        self->hold = *hold;
        self->hold.is_counted = true;
        self->acquirer = rqli_pack(&cursor, acquirer);
        self->hold.name = rqli_slice_of(rqli_pack(&cursor, hold->name));
        self->hold.reason = rqli_slice_of(rqli_pack(&cursor, hold->reason));
        if (self->hold.reason.length > RQLI_REASON_MAX) {
            self->hold.reason.length = RQLI_REASON_MAX;
        }
    }
    return self;
}

void rqli_history_note_other(rql_client *client, struct rqli_slice acquirer,
                             const struct rqli_ended_hold *hold)
{
    struct rqli_history_others *self = client->history_others;
    struct other *other = client->history ? copy(acquirer, hold) : NULL;

    if (!client->history) {
        return;
    }
    rqli_background_lock(client->background);
    if (other && self->n_waiting < MOST && rqli_record_plan(&self->record)) {
        rqli_dlist_add(&self->waiting, &other->link);
        self->n_waiting++;
    } else {
        rqli_history_add_use(client->history, hold);
        free(other);
    }
    rqli_background_unlock(client->background);
}
