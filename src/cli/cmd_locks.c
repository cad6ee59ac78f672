#include "convoy.h"
#include "format.h"
#include "locks.h"
#include "messages.h"
#include "names.h"
#include "outer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* info, queue, ls, who: the commands that show locks and queues. */

/* Longer names of metadata are cut in the table; JSON has them whole. */
enum { LABEL_SIZE = 256 };

/* Our keys may contain anything, because any client with write access can write there. A number
 * without a name comes from a newer library. */
const char *cli_status_text(rql_key_status status)
{
    switch (status) {
    case RQL_KEY_ALIVE:
        return "alive";
    case RQL_KEY_RELEASED:
        return "released";
    case RQL_KEY_WRONG_TYPE:
        return "wrong type";
    case RQL_KEY_MALFORMED:
        return "malformed";
    }
    return "unknown";
}

/* Returns "5/8": these units of a limit. If there is no limit below the largest one, it is left
 * out. */
static const char *share_text(char out[CLI_SHARE_SIZE], int64_t units, int64_t limit)
{
    const bool is_limited = limit > 0 && limit < RQL_SHARE_MAX;

    (void)snprintf(out, CLI_SHARE_SIZE, is_limited ? "%lld/%lld" : "%lld", (long long)units,
                   (long long)limit);
    return out;
}

const char *cli_holders_text(const rql_lock_info *info, char out[CLI_SHARE_SIZE])
{
    const bool is_limited = info->share_limit > 0 && info->share_limit < RQL_SHARE_MAX;

    if (info->used_units > 0 && is_limited) {
        return share_text(out, info->used_units, info->share_limit);
    }
    (void)snprintf(out, CLI_SHARE_SIZE, info->used_units > 0 ? "%lld share" : "%lld",
                   (long long)info->n_holders);
    return info->is_kept ? "kept" : out;
}

static void print_holders(struct out *out, const char *heading, const rql_lock_info *info)
{
    char text[CLI_SHARE_SIZE];

    out_text(out, heading, NULL, cli_holders_text(info, text));
    out_number(out, NULL, "n_holders", OUT_INT, info->n_holders);
    out_number(out, NULL, "used_units", OUT_INT, info->used_units);
    out_number(out, NULL, "share_limit", OUT_INT, info->share_limit);
}

/* Prints metadata. In JSON this is an object of its own, because users choose its names. In a list
 * of fields each is a line. */
static void print_meta(struct out *out, const rql_meta *meta, size_t count)
{
    char label[LABEL_SIZE];

    out_begin(out, "meta");
    for (size_t i = 0; i < count; i++) {
        out_text(out, NULL, meta[i].name, meta[i].value);
        (void)snprintf(label, sizeof label, "meta %s", meta[i].name);
        out_pair(out, label, meta[i].value);
    }
    out_end(out);
}

/* Prints the holder of a lock. A kept lock has none; for a lock of several the ids are those of no
 * client. */
static void print_owner(struct out *out, const struct cli_names *names, const rql_lock_info *info)
{
    const char *instead = info->is_kept ? "kept" : cli_is_of_several(info) ? "shared" : NULL;

    if (instead) {
        out_text(out, "HOLDER", NULL, instead);
    }
    cli_print_acquirer(out, names, instead ? NULL : "HOLDER", info->acquirer_id,
                       cli_holder_in(info->meta, info->n_meta));
    cli_print_host(out, names, instead ? NULL : "HOST", info->host_id);
}

/* Prints the fields of a lock. Fields that it does not have are left out of a list of fields. */
void cli_print_lock(struct out *out, const struct cli_names *names, const char *heading,
                    const rql_lock_info *info, bool with_node)
{
    const bool is_reentered = info->reentries > 0;

    out_text(out, heading, "name", info->name);
    out_text(out, NULL, "key", info->key);
    if (with_node) {
        out_text(out, "NODE", "node", info->node);
    }
    out_text(out, "STATUS", "status", cli_status_text(info->status));
    print_owner(out, names, info);
    print_holders(out, out->headings || info->used_units > 0 ? "HOLDERS" : NULL, info);
    out_bool(out, "is_kept", info->is_kept);
    out_age(out, "AGE", "acquired_at_us", info->acquired_at_us, info->server_us);
    out_number(out, "TTL", "ttl_ms", OUT_MS, info->ttl_ms);
    /* RQL_FOREVER is -1, which would be shown as unknown. In JSON it is null. */
    if (info->status == RQL_KEY_ALIVE && info->remaining_ms == RQL_FOREVER) {
        out_text(out, "LEFT", NULL, "forever");
        out_number(out, NULL, "remaining_ms", OUT_MS, info->remaining_ms);
    } else {
        out_number(out, "LEFT", "remaining_ms", OUT_MS, info->remaining_ms);
    }
    out_number(out, is_reentered ? "RE-ENTRIES" : NULL, "reentries", OUT_COUNT, info->reentries);
    out_number(out, NULL, "reentered_at_us", OUT_COUNT, info->reentered_at_us);
    out_number(out, is_reentered ? "EXTENDED BY" : NULL, "extended_ms", OUT_MS, info->extended_ms);
    out_number(out, NULL, "extended_at_us", OUT_COUNT, info->extended_at_us);
    out_number(out, NULL, "last_extension_ms", OUT_MS, info->last_extension_ms);
    out_number(out, info->token > 0 ? "TOKEN" : NULL, "token", OUT_COUNT, info->token);
    print_meta(out, info->meta, info->n_meta);
}

/* Prints the share that a holder has or a request wants. There is none if the lock is held, or
 * wanted, alone. */
static void print_share(struct out *out, int64_t units, int64_t limit)
{
    char text[CLI_SHARE_SIZE];

    out_text(out, "SHARE", NULL, units > 0 ? share_text(text, units, limit) : NULL);
    out_number(out, NULL, "share_units", OUT_INT, units);
    out_number(out, NULL, "share_limit", OUT_INT, limit);
}

void cli_print_requests(struct out *out, const struct cli_names *names, const rql_queue_info *info,
                        size_t most)
{
    for (size_t i = 0; i < info->n_requests && i < most; i++) {
        const rql_request_info *request = info->requests[i];

        out_begin(out, NULL);
        out_number(out, "POSITION", "position", OUT_INT, request->position);
        cli_print_acquirer(out, names, "ACQUIRER", request->acquirer_id,
                           cli_holder_in(request->meta, request->n_meta));
        cli_print_host(out, names, "HOST", request->host_id);
        out_age(out, "AGE", "score_us", request->score_us, info->server_us);
        print_share(out, request->share_units, request->share_limit);
        print_meta(out, request->meta, request->n_meta);
        out_end(out);
    }
}

/* Prints a queue for `queue`, whose rows are the requests, and for `ls --long --queues`, where the
 * queue is the row. Each has columns only for its own fields. */
static void print_queue(struct out *out, const struct cli_names *names, const rql_queue_info *info,
                        const struct cli_convoy *convoy, bool with_node)
{
    char name[CLI_NAME_SIZE];

    out_begin(out, NULL);
    out_text(out, "QUEUE", "name", info->name);
    out_text(out, NULL, "key", info->key);
    if (with_node) {
        out_text(out, "NODE", "node", info->node);
    }
    out_text(out, "STATUS", "status", cli_status_text(info->status));
    /* JSON has the requests themselves instead. */
    out_number(out, "WAITING", NULL, OUT_INT, (int64_t)info->n_requests);
    out_text(out, "FIRST", NULL,
             info->n_requests > 0 ? cli_request_name(names, info->requests[0], name) : NULL);
    if (convoy) {
        out_text(out, NULL, "convoy", convoy->text);
        out_bool(out, "is_circle", convoy->is_circle);
    }
    out_begin_list(out, "requests");
    cli_print_requests(out, names, info, info->n_requests);
    out_end(out);
    out_end(out);
}

/* Checks the status of a key. A key of another type, or with other content, is an error, however
 * much of it could be shown. Returns CLI_DONE, or the exit code after printing the result and a
 * line on stderr. */
static int check_key(struct cli_session *self, const char *what, rql_key_status status)
{
    if (status == RQL_KEY_ALIVE) {
        return CLI_DONE;
    }
    out_print(&self->out);
    cli_say("%s: its key is not a %s: %s", self->args->name, what, cli_status_text(status));
    return CLI_FAULT;
}

/* Shows a lock. A missing lock is an answer, with an exit code of its own, and no error: the
 * library returns RQL_NOT_FOUND and does not change `info`. */
static int show_lock(struct cli_session *self)
{
    CLI_AUTO(rql_free) rql_lock_info *info = NULL;
    CLI_AUTO(cli_names_free) struct cli_names names = {.clients = NULL};

    if (rql_lock_inspect(self->client, self->args->name, &info, &self->error) < 0) {
        return cli_fault(&self->error);
    }
    if (!info) {
        return cli_refuse(self, "the lock is free");
    }
    cli_names_read(&names, self);
    out_begin(&self->out, NULL);
    cli_print_lock(&self->out, &names, "NAME", info, self->args->node);
    out_end(&self->out);
    return check_key(self, "lock", info->status);
}

/* Finds what the holder of the lock waits for itself, with two readings of all locks. */
static rql_status find_convoy(struct cli_session *self, const struct cli_names *names,
                              struct cli_convoy *out)
{
    const struct timespec pause = {.tv_nsec = CLI_CONVOY_MS * 1000000L};
    __attribute__((cleanup(cli_wait_reading_free_p))) struct cli_wait_reading before = {.locks =
                                                                                            NULL};
    __attribute__((cleanup(cli_wait_reading_free_p))) struct cli_wait_reading now = {.locks = NULL};
    rql_status status = cli_wait_reading_read(&before, self->client, &self->error);

    if (status == RQL_OK) {
        (void)nanosleep(&pause, NULL);
        status = cli_wait_reading_read(&now, self->client, &self->error);
    }
    if (status == RQL_OK) {
        *out = cli_convoy_find(&now.waits, &before.waits, names, self->args->name);
    }
    return status;
}

rql_status cli_show_queue(struct cli_session *self, rql_key_status *status_of_key)
{
    static const char *const headings[] = {"POSITION", "AGE", "SHARE", "ACQUIRER", NULL};
    static const char *const with_ids[] = {"POSITION", "AGE", "SHARE", "ACQUIRER", "HOST", NULL};
    CLI_AUTO(rql_free) rql_queue_info *info = NULL;
    CLI_AUTO(cli_names_free) struct cli_names names = {.clients = NULL};
    __attribute__((cleanup(cli_convoy_free_p))) struct cli_convoy convoy = {.text = NULL};
    rql_status status = rql_queue_inspect(self->client, self->args->name, &info, &self->error);

    if (status == RQL_OK) {
        cli_names_read(&names, self);
        status = self->args->why ? find_convoy(self, &names, &convoy) : RQL_OK;
    }
    if (status != RQL_OK) {
        return status;
    }
    out_columns(&self->out, self->args->ids ? with_ids : headings);
    print_queue(&self->out, &names, info, self->args->why ? &convoy : NULL, false);
    if (self->args->why) {
        out_line(&self->out, "%s",
                 convoy.text ? convoy.text : "its holder waits for no other lock");
    }
    *status_of_key = info->status;
    return RQL_OK;
}

static int queue(struct cli_session *self)
{
    rql_key_status of_key = RQL_KEY_ALIVE;
    const rql_status status = cli_show_queue(self, &of_key);

    if (status < 0) {
        return cli_fault(&self->error);
    }
    return status == RQL_NOT_FOUND ? cli_refuse(self, "no request waits for it")
                                   : check_key(self, "queue", of_key);
}

static int compare_locks(const void *a, const void *b)
{
    const rql_lock_info *const *left = a;
    const rql_lock_info *const *right = b;

    return strcmp((*left)->name, (*right)->name);
}

static int compare_queues(const void *a, const void *b)
{
    const rql_queue_info *const *left = a;
    const rql_queue_info *const *right = b;

    return strcmp((*left)->name, (*right)->name);
}

/* Sorts by name, so that two listings can be compared. */
static void sort(void *items, size_t count, int (*compare)(const void *, const void *))
{
    if (count > 1) {
        qsort(items, count, sizeof(void *), compare);
    }
}

/* Lists names, which come sorted, or keys. */
static int list_names(struct cli_session *self)
{
    CLI_AUTO(rql_free) rql_text_list *list = NULL;
    const struct cli_args *args = self->args;
    const rql_status status = args->keys     ? rql_keys_list(self->client, &list, &self->error)
                              : args->queues ? rql_queues_list(self->client, &list, &self->error)
                                             : rql_locks_list(self->client, &list, &self->error);

    if (status != RQL_OK) {
        return cli_fault(&self->error);
    }
    if (args->keys) {
        sort(list->item, list->count, cli_compare_texts);
    }
    out_begin_list(&self->out, NULL);
    for (size_t i = 0; i < list->count; i++) {
        const char *item = list->item[i];

        if (cli_glob_matches(args->name, args->keys ? cli_name_of_key(item) : item)) {
            out_item(&self->out, item);
        }
    }
    out_end(&self->out);
    return CLI_DONE;
}

/* Lists queues. The library lists all of them; the glob filters them here. */
static int list_queues(struct cli_session *self)
{
    static const char *const headings[] = {"QUEUE", "STATUS", "WAITING", "FIRST", NULL};
    static const char *const with_node[] = {"QUEUE", "STATUS", "WAITING", "FIRST", "NODE", NULL};
    CLI_AUTO(rql_free) rql_queue_info_list *list = NULL;
    CLI_AUTO(cli_names_free) struct cli_names names = {.clients = NULL};

    if (rql_queues_inspect(self->client, &list, &self->error) != RQL_OK) {
        return cli_fault(&self->error);
    }
    sort(list->item, list->count, compare_queues);
    cli_names_read(&names, self);
    out_columns(&self->out, self->args->node ? with_node : headings);
    out_begin_list(&self->out, NULL);
    for (size_t i = 0; i < list->count; i++) {
        if (cli_glob_matches(self->args->name, list->item[i]->name)) {
            print_queue(&self->out, &names, list->item[i], NULL, self->args->node);
        }
    }
    out_end(&self->out);
    return CLI_DONE;
}

/* For bsearch() in queues that are sorted by compare_queues(). */
static int compare_to_queue(const void *key, const void *element)
{
    const rql_queue_info *const *queue = element;

    return strcmp(key, (*queue)->name);
}

/* Returns how many wait for the lock. A lock without a queue of its name has no waiters. The queues
 * are sorted by name. */
static int64_t n_waiting(const rql_lock_info *info, const rql_queue_info_list *queues)
{
    rql_queue_info *const *queue = NULL;

    if (queues->count > 0) {
        queue = bsearch(info->name, queues->item, queues->count, sizeof(void *), compare_to_queue);
    }
    return queue ? (int64_t)(*queue)->n_requests : 0;
}

/* Prints the fields that only `who` has. `ls` passes no queues. */
static void print_holder(struct out *out, const rql_lock_info *info,
                         const rql_queue_info_list *queues)
{
    if (!queues) {
        return;
    }
    /* `who` has no column for the status, so it replaces a holder that is not known. */
    if (info->status != RQL_KEY_ALIVE) {
        out_text(out, "HOLDER", NULL, cli_status_text(info->status));
    }
    out_number(out, NULL, "age_ms", OUT_MS, cli_age_ms(info->acquired_at_us, info->server_us));
    out_number(out, "WAITING", "waiting", OUT_INT, n_waiting(info, queues));
    /* JSON has all metadata. */
    out_text(out, "REASON", NULL, cli_meta_value(info->meta, info->n_meta, "reason"));
}

/* Lists locks. Everything is read before anything is printed, so an error half-way does not leave
 * half of a list. Locks and queues are not read at the same moment. */
static rql_status list_locks(struct cli_session *self, const char *const *headings, bool is_who)
{
    CLI_AUTO(rql_free) rql_lock_info_list *locks = NULL;
    CLI_AUTO(rql_free) rql_queue_info_list *queues = NULL;
    CLI_AUTO(cli_names_free) struct cli_names names = {.clients = NULL};

    rql_status status = rql_locks_inspect(self->client, &locks, &self->error);

    if (status == RQL_OK && is_who) {
        status = rql_queues_inspect(self->client, &queues, &self->error);
    }
    if (status != RQL_OK) {
        return status;
    }
    sort(locks->item, locks->count, compare_locks);
    if (queues) {
        sort(queues->item, queues->count, compare_queues);
    }
    cli_names_read(&names, self);
    out_columns(&self->out, headings);
    out_begin_list(&self->out, NULL);
    for (size_t i = 0; i < locks->count; i++) {
        if (cli_glob_matches(self->args->name, locks->item[i]->name)) {
            out_begin(&self->out, NULL);
            cli_print_lock(&self->out, &names, "LOCK", locks->item[i], self->args->node);
            print_holder(&self->out, locks->item[i], queues);
            out_end(&self->out);
        }
    }
    out_end(&self->out);
    return RQL_OK;
}

/* Prints a row for each holder of a lock; in JSON the lock, with its holders. */
static void print_lock_of(struct cli_session *self, const rql_lock_info *lock,
                          const rql_holder_list *holders, int64_t waiting)
{
    CLI_AUTO(cli_names_free) struct cli_names names = {.clients = NULL};
    struct out *out = &self->out;

    cli_names_read(&names, self);
    out_begin_list(out, NULL);
    out_begin(out, NULL);
    if (out->form == OUT_JSON) { /* in a table it would be one more row */
        cli_print_lock(out, &names, "LOCK", lock, self->args->node);
        out_number(out, NULL, "age_ms", OUT_MS, cli_age_ms(lock->acquired_at_us, lock->server_us));
        out_number(out, NULL, "waiting", OUT_INT, waiting);
    }
    out_begin_list(out, "holders");
    for (size_t i = 0; i < holders->count; i++) {
        const rql_holder_info *holder = holders->item[i];
        const bool is_endless = holder->remaining_ms == RQL_FOREVER;

        out_begin(out, NULL);
        out_text(out, "LOCK", NULL, lock->name);
        out_age(out, "AGE", "acquired_at_us", holder->acquired_at_us, holders->server_us);
        out_number(out, NULL, "ttl_ms", OUT_MS, holder->ttl_ms);
        out_number(out, is_endless ? NULL : "LEFT", "remaining_ms", OUT_MS, holder->remaining_ms);
        out_text(out, is_endless && holder->share_units == 0 ? "LEFT" : NULL, NULL, "forever");
        print_share(out, holder->share_units, holder->share_limit);
        out_numbers(out, "SLOTS", "slots", holder->slots, holder->n_slots);
        out_number(out, "WAITING", NULL, OUT_INT, waiting);
        cli_print_acquirer(out, &names, "HOLDER", holder->acquirer_id,
                           cli_holder_in(holder->meta, holder->n_meta));
        cli_print_host(out, &names, "HOST", holder->host_id);
        out_number(out, NULL, "token", OUT_COUNT, holder->token);
        out_text(out, "NODE", NULL, lock->node);
        out_text(out, "REASON", NULL, cli_meta_value(holder->meta, holder->n_meta, "reason"));
        print_meta(out, holder->meta, holder->n_meta);
        out_end(out);
    }
    out_end(out);
    out_end(out);
    out_end(out);
}

/* Shows the holders of the lock of this name. Returns false if it cannot: the lock is free or kept,
 * the key is no lock, or the name is a glob. Then it is listed as others are. */
static bool show_holders(struct cli_session *self, const char *const *headings)
{
    CLI_AUTO(rql_free) rql_lock_info *lock = NULL;
    CLI_AUTO(rql_free) rql_queue_info *queue = NULL;
    CLI_AUTO(rql_free) rql_holder_list *holders = NULL;
    const char *name = self->args->name;

    if (!name || strpbrk(name, "*?[\\") ||
        rql_lock_inspect(self->client, name, &lock, NULL) != RQL_OK ||
        rql_queue_inspect(self->client, name, &queue, NULL) < 0 ||
        rql_lock_holders(self->client, name, &holders, NULL) != RQL_OK ||
        lock->status != RQL_KEY_ALIVE || holders->count == 0) {
        return false;
    }
    out_columns(&self->out, headings);
    print_lock_of(self, lock, holders, queue ? (int64_t)queue->n_requests : 0);
    return true;
}

/* The columns of a listing, by what is shown. */
struct headings {
    const char *plain[OUT_COLUMNS_MAX + 1];
    const char *with_ids[OUT_COLUMNS_MAX + 1];
    const char *with_node[OUT_COLUMNS_MAX + 1];
    const char *with_both[OUT_COLUMNS_MAX + 1];
};

static const char *const *choose(const struct headings *self, const struct cli_args *args)
{
    if (args->node) {
        return args->ids ? self->with_both : self->with_node;
    }
    return args->ids ? self->with_ids : self->plain;
}

rql_status cli_show_who(struct cli_session *self)
{
#define BEGIN "LOCK", "AGE", "LEFT"
    static const struct headings of_locks = {
        {BEGIN, "HOLDERS", "WAITING", "HOLDER", "REASON"},
        {BEGIN, "HOLDERS", "WAITING", "HOLDER", "HOST", "REASON"},
        {BEGIN, "HOLDERS", "WAITING", "HOLDER", "NODE", "REASON"},
        {BEGIN, "HOLDERS", "WAITING", "HOLDER", "HOST", "NODE", "REASON"},
    };
    static const struct headings of_holders = {
        {BEGIN, "SHARE", "SLOTS", "WAITING", "HOLDER", "REASON"},
        {BEGIN, "SHARE", "SLOTS", "WAITING", "HOLDER", "HOST", "REASON"},
        {BEGIN, "SHARE", "SLOTS", "WAITING", "HOLDER", "NODE", "REASON"},
        {BEGIN, "SHARE", "SLOTS", "WAITING", "HOLDER", "HOST", "NODE", "REASON"},
    };
#undef BEGIN

    if (show_holders(self, choose(&of_holders, self->args))) {
        return RQL_OK;
    }
    return list_locks(self, choose(&of_locks, self->args), true);
}

static int who(struct cli_session *self)
{
    return cli_show_who(self) == RQL_OK ? CLI_DONE : cli_fault(&self->error);
}

/* Lists locks, queues or keys. SCAN is enough for names; --long reads each key. */
static int ls(struct cli_session *self)
{
    static const char *const headings[] = {"LOCK",  "STATUS",  "AGE",    "LEFT",
                                           "TOKEN", "HOLDERS", "HOLDER", NULL};
    static const char *const with_node[] = {"LOCK",    "STATUS", "AGE",  "LEFT", "TOKEN",
                                            "HOLDERS", "HOLDER", "NODE", NULL};

    if (!self->args->details && !self->args->node) {
        return list_names(self);
    }
    if (self->args->queues) {
        return list_queues(self);
    }
    return list_locks(self, self->args->node ? with_node : headings, false) == RQL_OK
               ? CLI_DONE
               : cli_fault(&self->error);
}

static int check_ls(struct cli_args *args)
{
    if (args->keys && (args->queues || args->details || args->node)) {
        return cli_misused(&cli_ls, "--keys goes with none of --queues, --long and --node", "");
    }
    return CLI_DONE;
}

/* Waits, and takes nothing: the lock may be taken again at once. */
static int wait_until_free(struct cli_session *self)
{
    const char *outer = cli_find_outer_lock(self);
    rql_lock_options options;
    rql_status status;

    if (outer) {
        return cli_refuse_outer_lock(self->args, outer);
    }
    rql_lock_options_init(self->client, &options);
    options.retry_count = RQL_FOREVER;
    if (self->args->wait_ms != CLI_UNSET) {
        options.timeout_ms = self->args->wait_ms;
    }
    status = rql_lock_wait_until_free(self->client, self->args->name, &options, &self->error);
    if (status > 0) {
        cli_say("%s", self->error.message);
        return CLI_REFUSED;
    }
    return status == RQL_OK ? CLI_DONE : cli_fault(&self->error);
}

const struct cli_command cli_info = {
    .name = "info",
    .usage = "NAME",
    .summary = "Show who holds a lock, since when, and for how long",
    .notes = "If the lock is free, it exits with 1 and prints null with --json.\n",
    .needs_name = true,
    .run = show_lock,
};

const struct cli_command cli_queue = {
    .name = "queue",
    .usage = "NAME",
    .summary = "Show who waits for a lock, first in line first",
    .notes =
        "If no request waits, it exits with 1 and prints null with --json.\n"
        "--why reads all locks and queues twice. It says what the holder of the lock waits for, "
        "if it does, and who holds that; also if the holder is an rql run inside of which "
        "another one waits.\n",
    .needs_name = true,
    .run = queue,
};

const struct cli_command cli_ls = {
    .name = "ls",
    .usage = "[GLOB] [--queues | --keys] [--long]",
    .summary = "List locks, queues or keys",
    .examples = "  rql ls 'orders:*' --long\n",
    .notes = CLI_GLOB_NOTE,
    .takes_glob = true,
    .prepare = check_ls,
    .run = ls,
};

const struct cli_command cli_who = {
    .name = "who",
    .usage = "[GLOB] [--json]",
    .summary = "Show who holds what, since when, and how many wait",
    .notes = CLI_GLOB_NOTE
    "HOLDERS is 5/8 if 5 units of 8 are in use, and \"3 share\" if the lock has no limit. "
    "HOLDERS and HOLDER are \"kept\" if the lock was released, and stays closed for a time because "
    "of rql once or --hold-at-least. "
    "The name of one lock shows a row for each of its holders.\n"
    "AGE, and the times in --json, are by the server's clock.\n",
    .takes_glob = true,
    .run = who,
};

const struct cli_command cli_wait = {
    .name = "wait",
    .usage = "NAME [--wait LIMIT]",
    .summary = "Wait until a lock is free, without taking it",
    .examples = "  rql wait deploy --wait 5m && ./smoke-test.sh\n",
    .notes = "Exits with 1 if the lock is still held when the time is over. Another client may\n"
             "take the lock at once: a command that must have it to itself needs rql run.\n",
    .needs_name = true,
    .run = wait_until_free,
};
