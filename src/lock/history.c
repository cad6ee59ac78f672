#include "lock/history.h"

#include "base/clock.h"
#include "base/dlist.h"
#include "lock/record.h"
#include "lock/usage.h"
#include "observe/observe.h"
#include "options/options.h"
#include "wire/reply.h"

#include <stdlib.h>
#include <string.h>

/*
 * Two records, each sent by a duty of its own:
 *
 * - the usage, which leaves nothing out for lack of room, because a hold only adds to a sum;
 * - single holds, of which those that find no room are left out and counted.
 *
 * Single holds are sent again until the server answers, because a reader keeps one for each token.
 * Sums that were sent without an answer are not sent again: they may have been added. Both are sent
 * again if the server says that it has done nothing, as when it is busy or full.
 */

enum {
    HOLDS_MAX = 500,   /* single holds that wait */
    TEXT_SIZE = 65536, /* of one call; the rest goes with the next */
    HOLD_SIZE = 2048,  /* a single hold with all its texts */
};

#define LONG_US INT64_C(1000000) /* holds and waits of this length are kept one by one */

/* A single hold, as it is sent. */
struct single {
    struct rqli_dlink link;
    size_t length;
    char text[];
};

/* One of the two records. */
struct part {
    struct rqli_record record; /* first */
    struct rqli_history *history;
    char text[TEXT_SIZE]; /* of the call that is under way */
};

struct rqli_history {
    rql_client *client;
    struct rqli_slice user; /* in the entry of the client's name */
    struct rqli_slice host;
    char of_client[RQLI_HOLD_CLIENT_SIZE];

    struct {
        bool is_refused;   /* the server does not let this user write */
        int64_t n_dropped; /* holds that the usage lacks, and that the server has not heard of */
        int64_t n_told;    /* of them, in the call that is under way */
        struct rqli_usage sums;
        struct rqli_dlist singles; /* those that wait, the oldest first */
        size_t n_singles;
        size_t n_sent; /* of them, in the call that is under way */
        struct part usage;
        struct part of_singles;
    } shared; /* under the mutex of the background */
};

/* The callers of all functions up to rqli_history_add() hold that mutex. */

static void count_dropped(const struct rqli_history *self, int64_t n_records)
{
    rqli_stats_count(self->client->stats, 0, RQLI_STAT_HISTORY_DROPPED, n_records);
}

/* Counts holds that the usage lacks. */
static void drop(struct rqli_history *self, int64_t n_holds)
{
    self->shared.n_dropped += n_holds;
    count_dropped(self, n_holds);
}

/* Takes an error reply. A user without the rights, or a key of another type, ends the history for
 * as long as the client lives. */
static void on_error(struct rqli_history *self, const struct rqli_reply *reply)
{
    const rql_status status = rqli_reply_class(reply);

    self->shared.is_refused = status == RQL_E_AUTH || status == RQL_E_WRONG_TYPE;
}

/* Returns whether a call was not sent, or was refused before it did anything. */
static bool has_done_nothing(const struct rqli_reply *reply, rql_status fault)
{
    return reply ? rqli_reply_did_nothing(reply) : fault != RQL_E_UNKNOWN;
}

/* ---- the usage ---- */

/* The call may be the repetition of one that has done nothing, in a cluster whose partitions move:
 * then its sums have to wait again first. */
static void write_usage(struct rqli_duty *duty, struct rqli_call *call)
{
    struct part *part = (struct part *)duty;
    struct rqli_history *self = part->history;
    struct rqli_keys *keys = &part->record.keys;
    int64_t day;
    size_t length;

    drop(self, rqli_usage_take_back(&self->shared.sums));
    length = rqli_usage_write(&self->shared.sums, part->text, sizeof part->text, &day);
    self->shared.n_told = self->shared.n_dropped;
    keys->lock = rqli_usage_key(keys->set, day, part->record.key);
    rqli_call_init(call, RQLI_SCRIPT_USAGE, keys);
    rqli_call_text(call, rqli_history_words[self->client->options.history]);
    rqli_call_int(call, self->shared.n_told);
    rqli_call_slice(call, (struct rqli_slice){part->text, length});
    call->brings_text = true;
}

static void read_usage(struct rqli_duty *duty, const struct rqli_batch *answer,
                       const struct rqli_reply *reply, rql_status fault)
{
    struct part *part = (struct part *)duty;
    struct rqli_history *self = part->history;
    struct rqli_usage *sums = &self->shared.sums;
    bool is_added = reply && reply->type != RQLI_REPLY_ERROR;
    bool is_undone = has_done_nothing(reply, fault);

    (void)answer;
    if (is_added || (!reply && !is_undone)) {
        self->shared.n_dropped -= self->shared.n_told;
    }
    self->shared.n_told = 0;
    if (is_undone) {
        drop(self, rqli_usage_take_back(sums));
    } else if (is_added) {
        (void)rqli_usage_end_sent(sums);
    } else {
        drop(self, rqli_usage_end_sent(sums));
    }
    if (reply && !is_added) {
        on_error(self, reply);
    }
    rqli_record_plan_next(&part->record, sums->n_waiting > 0, !is_undone);
}

/* ---- single holds ---- */

static struct single *single_of(struct rqli_dlink *link)
{
    return RQLI_OWNER(link, struct single, link);
}

static void end_singles(struct rqli_history *self, size_t count)
{
    for (; count > 0; count--) {
        free(single_of(rqli_dlist_take_first(&self->shared.singles)));
        self->shared.n_singles--;
    }
}

/* Writes as many as there is room for, from the oldest on. */
static void write_singles(struct rqli_duty *duty, struct rqli_call *call)
{
    struct part *part = (struct part *)duty;
    struct rqli_history *self = part->history;
    struct rqli_keys *keys = &part->record.keys;
    struct rqli_dlink *at = self->shared.singles.first;
    size_t length = 0;

    self->shared.n_sent = 0;
    while (at && length + single_of(at)->length <= sizeof part->text) {
        memcpy(part->text + length, single_of(at)->text, single_of(at)->length);
        length += single_of(at)->length;
        self->shared.n_sent++;
        at = at->next;
    }
    keys->lock = rqli_history_key(keys->set, part->record.key);
    rqli_call_init(call, RQLI_SCRIPT_HISTORY, keys);
    rqli_call_slice(call, (struct rqli_slice){part->text, length});
    call->brings_text = true;
}

static void read_singles(struct rqli_duty *duty, const struct rqli_batch *answer,
                         const struct rqli_reply *reply, rql_status fault)
{
    struct part *part = (struct part *)duty;
    struct rqli_history *self = part->history;
    bool is_over = reply && !has_done_nothing(reply, fault);

    (void)answer;
    if (is_over && reply->type == RQLI_REPLY_ERROR) {
        count_dropped(self, (int64_t)self->shared.n_sent);
        on_error(self, reply);
    }
    if (is_over) {
        end_singles(self, self->shared.n_sent);
    }
    self->shared.n_sent = 0;
    rqli_record_plan_next(&part->record, self->shared.n_singles > 0, is_over);
}

static void put(struct rqli_writer *out, const char *name, struct rqli_slice value)
{
    rqli_write_format(out, " %zu %s %zu ", strlen(name), name, value.length);
    rqli_write_bytes(out, value.data, value.length);
}

static void put_number(struct rqli_writer *out, const char *name, int64_t value)
{
    char digits[32];

    put(out, name, (struct rqli_slice){digits, rqli_format_int(digits, value)});
}

/* Writes a hold in the form that history.lua reads. */
static size_t write_hold(const struct rqli_ended_hold *hold, char out[HOLD_SIZE])
{
    static const char *const endings[] = {
        [RQLI_ENDED_RELEASED] = "released", [RQLI_ENDED_EXPIRED] = "expired",
        [RQLI_ENDED_LOST] = "lost",         [RQLI_ENDED_KILLED] = "killed",
        [RQLI_ENDED_FLUSHED] = "flushed",   [RQLI_ENDED_FORCED] = "forced",
        [RQLI_ENDED_UNKNOWN] = "unknown",
    };

    struct rqli_writer writer;

    rqli_writer_init(&writer, out, HOLD_SIZE);
    rqli_write_text(&writer, "\n22"); /* names and values */
    put(&writer, "name", hold->name);
    put(&writer, "user", hold->user);
    put(&writer, "host", hold->host);
    put(&writer, "client", hold->client);
    put(&writer, "reason", hold->reason);
    put(&writer, "ended", rqli_slice_of(endings[hold->ending]));
    put_number(&writer, "at_us", hold->at_us);
    put_number(&writer, "waited_us", hold->waited_us);
    put_number(&writer, "held_us", hold->held_us);
    put_number(&writer, "units", hold->units);
    put_number(&writer, "token", hold->token);
    return rqli_writer_end(&writer);
}

static struct single *new_single(const struct rqli_ended_hold *hold)
{
    char text[HOLD_SIZE];
    size_t length = write_hold(hold, text);
    struct single *single = malloc(sizeof *single + length);

    if (single) {
        single->length = length;
        memcpy(single->text, text, length);
    }
    return single;
}

static void add_single(struct rqli_history *self, const struct rqli_ended_hold *hold)
{
    struct single *single = self->shared.n_singles < HOLDS_MAX ? new_single(hold) : NULL;

    if (!single || !rqli_record_plan(&self->shared.of_singles.record)) {
        count_dropped(self, 1);
        free(single);
        return;
    }
    rqli_dlist_add(&self->shared.singles, &single->link);
    self->shared.n_singles++;
}

/* ---- both ---- */

static void add_use(struct rqli_history *self, const struct rqli_ended_hold *hold)
{
    const struct rqli_use use = {.holds = 1,
                                 .held_us = rqli_later(hold->held_us, 0),
                                 .waited_us = rqli_later(hold->waited_us, 0),
                                 .lost = hold->ending != RQLI_ENDED_RELEASED};
    char field[RQLI_USAGE_FIELD_SIZE];

    rqli_usage_field(hold->user, hold->host, hold->name, field);
    if (rqli_usage_add(&self->shared.sums, hold->at_us / RQLI_DAY_US, field, &use)) {
        (void)rqli_record_plan(&self->shared.usage.record); /* or with the next hold */
    } else {
        drop(self, 1);
    }
}

void rqli_history_add_use(struct rqli_history *self, const struct rqli_ended_hold *hold)
{
    struct rqli_ended_hold nameless = *hold;

    nameless.user = nameless.host = (struct rqli_slice){"", 0};
    if (!self->shared.is_refused) {
        add_use(self, &nameless);
    }
    count_dropped(self, 1);
}

static void add(struct rqli_history *self, const struct rqli_ended_hold *hold, bool is_single)
{
    if (!self->shared.is_refused && hold->is_counted) {
        add_use(self, hold);
    }
    if (!self->shared.is_refused && is_single) {
        add_single(self, hold);
    }
}

/* Returns whether a hold is kept one by one: it did not end by a release, or it is what the option
 * asks for. Without the mutex, because the sampler is the caller's. */
static bool is_kept(const rql_options *options, const struct rqli_ended_hold *hold)
{
    if (hold->ending != RQLI_ENDED_RELEASED) {
        return true;
    }
    if (options->history == RQL_HISTORY_LONG) {
        return hold->held_us >= LONG_US || hold->waited_us >= LONG_US;
    }
    return !options->instr_sampling_enabled ||
           rqli_is_drawn(options->instr_sampler, options->instr_sampler_data,
                         options->instr_sampling_percent);
}

void rqli_history_add(struct rqli_history *self, const struct rqli_ended_hold *hold)
{
    bool is_single = is_kept(&self->client->options, hold);

    rqli_background_lock(self->client->background);
    add(self, hold, is_single);
    rqli_background_unlock(self->client->background);
}

/* ---- from the making of a client to its end ---- */

struct rqli_history *rqli_history_new(rql_client *client)
{
    static const struct rqli_duty_ops of_usage = {
        .begin = rqli_record_begin, .write = write_usage, .read = read_usage};
    static const struct rqli_duty_ops of_singles = {
        .begin = rqli_record_begin, .write = write_singles, .read = read_singles};

    const struct rqli_slice entry = rqli_slice_of(client->name.entry);
    struct rqli_history *self = calloc(1, sizeof *self);
    struct rqli_writer writer;

    if (!self) {
        return NULL;
    }
    self->client = client;
    self->user = rqli_client_entry_text(entry, "\"user\":");
    self->host = rqli_client_entry_text(entry, "\"host\":");
    rqli_writer_init(&writer, self->of_client, sizeof self->of_client);
    (void)rqli_client_entry_write(&writer, entry);
    (void)rqli_writer_end(&writer);
    self->shared.usage.history = self->shared.of_singles.history = self;
    rqli_record_init(&self->shared.usage.record, client, &of_usage);
    rqli_record_init(&self->shared.of_singles.record, client, &of_singles);
    return self;
}

struct rqli_history *rqli_history_free(struct rqli_history *self)
{
    if (self) {
        end_singles(self, self->shared.n_singles);
        rqli_usage_fini(&self->shared.sums);
        free(self);
    }
    return NULL;
}

void rqli_history_hurry(struct rqli_history *self)
{
    rqli_background_lock(self->client->background);
    rqli_record_hurry(&self->shared.usage.record);
    rqli_record_hurry(&self->shared.of_singles.record);
    rqli_background_unlock(self->client->background);
}

/* ---- holds of this client ---- */

const char *rqli_reason_in(const rql_meta *meta, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(meta[i].name, "reason") == 0) {
            return meta[i].value;
        }
    }
    return NULL;
}

void rqli_history_keep_reason(rql_lock *lock, const rql_lock_options *options)
{
    const char *reason =
        lock->client->history ? rqli_reason_in(options->meta, options->n_meta) : NULL;

    if (reason && !lock->reason) {
        lock->reason = strndup(reason, RQLI_REASON_MAX);
    }
}

/* Returns whether the TTL of a lock is over. Its lease may have ended before, because its host may
 * have been declared dead: then another client ends the hold. */
static bool has_expired(const rql_lock *lock, int64_t now_us)
{
    return now_us >= lock->kept.lease.deadline_us;
}

/* Returns the hold of a lock that is off the leases, or whose loss is being reported. If another
 * has ended it before its TTL was over, the other counts it. */
static struct rqli_ended_hold hold_of(const rql_lock *lock, enum rqli_ending ending)
{
    const struct rqli_history *self = lock->client->history;
    const int64_t now_us = rqli_now_us();
    const int64_t end_us = rqli_earlier(now_us, rqli_lease_end_us(&lock->kept.lease));
    const int64_t held_us = rqli_later(end_us - lock->held_us, 0);

    return (struct rqli_ended_hold){
        .name = rqli_slice_of(lock->name),
        .user = self->user,
        .host = self->host,
        .client = rqli_slice_of(self->of_client),
        .reason = rqli_slice_of(lock->reason ? lock->reason : ""),
        .at_us = lock->ts_us + held_us,
        .waited_us = lock->waited_us,
        .held_us = held_us,
        .token = lock->token,
        .units = lock->share.units,
        .ending = ending,
        .is_counted = ending != RQLI_ENDED_LOST || has_expired(lock, now_us),
    };
}

/* True: it is a hold of its own, and a history is kept. */
static bool is_noted(const rql_lock *lock)
{
    return lock->client->history && lock->process == RQL_LOCK_OBTAINING;
}

/* Returns how a hold has ended, by the status of its release. */
static enum rqli_ending ending_of(const rql_lock *lock, rql_status status)
{
    if (status <= 0) {
        return status == RQL_OK ? RQLI_ENDED_RELEASED : RQLI_ENDED_UNKNOWN;
    }
    return has_expired(lock, rqli_now_us()) ? RQLI_ENDED_EXPIRED : RQLI_ENDED_LOST;
}

void rqli_history_note_release(const rql_lock *lock, rql_status status)
{
    if (is_noted(lock) && !lock->kept.lease.is_reported) {
        const struct rqli_ended_hold hold = hold_of(lock, ending_of(lock, status));

        rqli_history_add(lock->client->history, &hold);
    }
}

void rqli_history_note_loss(const rql_lock *lock)
{
    if (is_noted(lock)) {
        const struct rqli_ended_hold hold = hold_of(lock, RQLI_ENDED_LOST);

        add(lock->client->history, &hold, true);
    }
}
