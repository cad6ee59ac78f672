#include "admin/rules.h"

#include "base/clock.h"
#include "lock/client.h"
#include "lock/history_others.h"
#include "lock/leases.h"
#include "wire/command.h"

#include <string.h>

/*
 * The rules of the sweeps, as data: which keys a rule is about, the script that decides about a key
 * and sweeps it in one step, with its arguments, and how the numbers of its answer are counted. The
 * rules are at the end of the file.
 */

/* Writes the arguments in the order of the script's @args. The texts of the owner outlive the
 * call. */
void rqli_rule_write(const struct rqli_sweep_rule *self, const struct rqli_sweep *sweep,
                     const struct rqli_sweep_target *target, struct rqli_call *call)
{
    const rql_sweep_owner *owner = sweep->owner;

    rqli_call_init(call, self->script, &target->keys);
    for (size_t i = 0; i < RQLI_RULE_ARGUMENTS; i++) {
        switch (self->arguments[i]) {
        case RQLI_ARGUMENT_NONE:
            return;
        case RQLI_ARGUMENT_ACQUIRER:
            rqli_call_text(call, owner ? owner->acquirer_id : "");
            break;
        case RQLI_ARGUMENT_HOST:
            rqli_call_text(call, owner ? owner->host_id : "");
            break;
        case RQLI_ARGUMENT_OLDEST:
            rqli_call_int(call, sweep->oldest_us);
            break;
        case RQLI_ARGUMENT_FROM:
            rqli_call_int(call, target->from);
            break;
        case RQLI_ARGUMENT_DRY_RUN:
            rqli_call_int(call, sweep->options.dry_run);
            break;
        case RQLI_ARGUMENT_RANDOM:
            rqli_call_random(call);
            break;
        }
    }
}

/* Returns how many requests of the queue, or shares of the lock, were seen. `from` counts those
 * that stay before the next page, but not those that were removed. A dry run removes nothing, so
 * `from` counts them all.
 * */
static int64_t seen_so_far(const struct rqli_sweep *sweep, const struct rqli_sweep_target *target)
{
    return target->from + (sweep->options.dry_run ? 0 : target->removed);
}

/* Goes to the next page of a queue, up to the end of the queue, where a free lock is served, but
 * not past the length that the first page counted: waiters may put themselves back all the while.
 * The answer is {removed, served, place to go on from or -1, length}. */
static bool goes_on(const struct rqli_sweep *sweep, struct rqli_sweep_target *target,
                    const struct rqli_outcome *page)
{
    int64_t seen_before = seen_so_far(sweep, target);

    if (target->length == 0) {
        target->length = page->fourth;
    }
    target->removed += page->what;
    target->from = page->third;
    return target->from >= 0 && seen_so_far(sweep, target) > seen_before &&
           seen_so_far(sweep, target) <= target->length;
}

/* Goes to the next page of shares. Its place is a cursor, which does not show how far the pages
 * have come. So the pages are counted: a lock has no more shares than RQL_SHARE_MAX. */
static bool has_more_shares(struct rqli_sweep_target *target, const struct rqli_outcome *page)
{
    target->removed += page->what;
    target->from = page->third;
    target->pages++;
    return target->from > 0 && target->pages < RQL_SHARE_MAX;
}

/* A script that works page by page is called several times for a key, which counts once.
 * `served` keeps the last number that was not 0. */
bool rqli_rule_count(const struct rqli_sweep_rule *self, struct rqli_sweep *sweep,
                     struct rqli_sweep_target *target, const struct rqli_outcome *outcome)
{
    bool is_first = outcome->what > 0 && target->removed == 0;

    if (self->kind != RQLI_SWEEPS_REQUESTS) {
        sweep->result.released += is_first;
    }
    if (!rqli_rule_ends_locks(self)) {
        sweep->result.queues += is_first;
        sweep->result.requests += outcome->what;
    }
    if (outcome->second > 0) {
        target->served = outcome->second;
    }
    if (self->is_paged) {
        return self->kind == RQLI_SWEEPS_SHARES ? has_more_shares(target, outcome)
                                                : goes_on(sweep, target, outcome);
    }
    target->removed += outcome->what;
    return false;
}

/* Says whether this client holds the lock. If so, the holder need not wait for its next renewal
 * to learn of the loss. A swarm sweeps as its flusher's client, which holds nothing: there the next
 * heartbeat detects it. */
static bool is_own(const rql_client *client, struct rqli_slice acquirer)
{
    size_t length = strlen(client->identity);

    return acquirer.length > length &&
           memcmp(acquirer.data + acquirer.length - length, client->identity, length) == 0;
}

/* Only a flush has the list; a sweep by an operator has none. A lock without an owner has no
 * acquirer. */
static void note_acquirer(struct rqli_sweep *sweep, const struct rqli_reply *item)
{
    if (sweep->acquirers && item->type == RQLI_REPLY_TEXT && item->text.length > 0) {
        rqli_list_add(sweep->acquirers, rqli_slice_of(item->text.data), 0);
    }
}

static bool are_texts(const struct rqli_reply *items, size_t n)
{
    size_t i = 0;

    while (i < n && items[i].type == RQLI_REPLY_TEXT) {
        i++;
    }
    return i == n;
}

/* Adds a hold that has been ended to the history. A kept lock, one of several as a whole, and what
 * has no owner, are no holds. */
static void note_hold(const struct rqli_sweep_rule *self, const struct rqli_sweep *sweep,
                      const struct rqli_sweep_target *target, struct rqli_slice acquirer,
                      struct rqli_ended_hold *hold)
{
    bool is_flush = self == &rqli_rule_zombie_locks || self == &rqli_rule_zombie_shares;

    if (acquirer.length > 0 && !rqli_slice_is(acquirer, RQLI_SHARED_ACQUIRER) &&
        !rqli_slice_is(acquirer, RQLI_KEPT_ACQUIRER)) {
        hold->name = rqli_name_in(target->keys.lock, RQLI_KEY_LOCK);
        hold->waited_us = -1;
        hold->ending = is_flush ? RQLI_ENDED_FLUSHED : RQLI_ENDED_FORCED;
        rqli_history_note_other(sweep->client, acquirer, hold);
    }
}

static int64_t number_of(const struct rqli_reply *item)
{
    int64_t number;

    return rqli_parse_int(item->text, &number) ? number : -1;
}

/* A page of shares has the server's time behind its four numbers, and then three words for each
 * that was removed. */
static void note_page(const struct rqli_sweep_rule *self, struct rqli_sweep *sweep,
                      const struct rqli_sweep_target *target, const struct rqli_reply *reply)
{
    enum { NOW = 4, FIRST, EACH = 3 };

    if (reply->count <= FIRST || !are_texts(reply->items + NOW, reply->count - NOW)) {
        return;
    }
    for (size_t i = FIRST; i + EACH <= reply->count; i += EACH) {
        const struct rqli_reply *item = &reply->items[i];
        struct rqli_ended_hold hold = {
            .at_us = number_of(&reply->items[NOW]),
            .token = number_of(&item[1]),
            .units = number_of(&item[2]),
        };

        hold.held_us = hold.token < 0 ? -1 : rqli_later(hold.at_us - hold.token, 0);
        note_acquirer(sweep, item);
        note_hold(self, sweep, target, item->text, &hold);
    }
}

/* Other scripts say whose the lock was behind two numbers; a dry run does not. */
void rqli_rule_note_owners(const struct rqli_sweep_rule *self, struct rqli_sweep *sweep,
                           const struct rqli_sweep_target *target, const struct rqli_reply *reply)
{
    enum { OWNER = 2, NONCE, TOKEN, NOW, HELD, REASON, UNITS };

    const struct rqli_reply *items = reply->items;

    if (self->is_paged) {
        note_page(self, sweep, target, reply);
    } else if (reply->count > REASON && are_texts(items + OWNER, reply->count - OWNER)) {
        note_acquirer(sweep, &items[OWNER]);
        note_hold(self, sweep, target, items[OWNER].text,
                  &(struct rqli_ended_hold){
                      .reason = items[REASON].text,
                      .at_us = number_of(&items[NOW]),
                      .held_us = number_of(&items[HELD]),
                      .token = number_of(&items[TOKEN]),
                      .units = reply->count > UNITS ? number_of(&items[UNITS]) : 0,
                  });
        if (is_own(sweep->client, items[OWNER].text)) {
            rqli_leases_on_taken(sweep->client->leases, items[NONCE].text);
        }
    }
}

/* The answer of each script begins with {removed, served} (lua/README.md 9). */

#define LOCKS .kind = RQLI_SWEEPS_LOCKS, .prefix = RQLI_KEY_LOCK, .pattern = RQLI_KEY_LOCK "*"
#define SHARES .kind = RQLI_SWEEPS_SHARES, .prefix = RQLI_KEY_SHARES, .pattern = RQLI_KEY_SHARES "*"
#define QUEUES .prefix = RQLI_KEY_QUEUE, .pattern = RQLI_KEY_QUEUE "*"

const struct rqli_sweep_rule rqli_rule_queues = {
    QUEUES,
    .kind = RQLI_SWEEPS_QUEUES,
    .script = RQLI_SCRIPT_SWEEP_QUEUE,
    .arguments = {RQLI_ARGUMENT_DRY_RUN},
};

const struct rqli_sweep_rule rqli_rule_locks = {
    LOCKS,
    .script = RQLI_SCRIPT_SWEEP_LOCK,
    .arguments = {RQLI_ARGUMENT_ACQUIRER, RQLI_ARGUMENT_HOST, RQLI_ARGUMENT_DRY_RUN,
                  RQLI_ARGUMENT_RANDOM},
};

/* sweep_lock.lua compares the owner of the lock, and a lock of several has none. */
const struct rqli_sweep_rule rqli_rule_shares = {
    SHARES,
    .script = RQLI_SCRIPT_SWEEP_SHARE,
    .arguments = {RQLI_ARGUMENT_ACQUIRER, RQLI_ARGUMENT_HOST, RQLI_ARGUMENT_DRY_RUN,
                  RQLI_ARGUMENT_RANDOM},
};

const struct rqli_sweep_rule rqli_rule_requests = {
    QUEUES,
    .kind = RQLI_SWEEPS_REQUESTS,
    .script = RQLI_SCRIPT_SWEEP_REQUEST,
    .arguments = {RQLI_ARGUMENT_ACQUIRER, RQLI_ARGUMENT_DRY_RUN, RQLI_ARGUMENT_RANDOM},
};

const struct rqli_sweep_rule rqli_rule_dead_requests = {
    QUEUES,
    .kind = RQLI_SWEEPS_REQUESTS,
    .script = RQLI_SCRIPT_SWEEP_DEAD,
    .arguments = {RQLI_ARGUMENT_OLDEST, RQLI_ARGUMENT_FROM, RQLI_ARGUMENT_DRY_RUN},
    .is_paged = true,
};

const struct rqli_sweep_rule rqli_rule_zombie_locks = {
    LOCKS,
    .script = RQLI_SCRIPT_FLUSH_LOCK,
    .arguments = {RQLI_ARGUMENT_RANDOM},
};

const struct rqli_sweep_rule rqli_rule_zombie_shares = {
    SHARES,
    .script = RQLI_SCRIPT_FLUSH_SHARES,
    .arguments = {RQLI_ARGUMENT_FROM, RQLI_ARGUMENT_RANDOM},
    .is_paged = true,
};

const struct rqli_sweep_rule rqli_rule_zombie_requests = {
    QUEUES,
    .kind = RQLI_SWEEPS_REQUESTS,
    .script = RQLI_SCRIPT_FLUSH_QUEUE,
    .arguments = {RQLI_ARGUMENT_FROM},
    .is_paged = true,
};
