#include "flush.h"

#include "admin/rules.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "lock/client.h"
#include "lock/notify.h"
#include "options/options.h"
#include "swarm_inside.h"
#include "talk.h"
#include "wire/pack.h"

#include <stdio.h>

enum {
    CURSOR_SIZE = 24,
    BURIED_AT_ONCE = 50,
    ROUNDS_MAX = 1 << 20, /* of one walk over the hosts: a server that never ends it is broken */
};

struct look {
    const struct rqli_flush *flush;
    char cursor[CURSOR_SIZE];
};

static void write_look(const void *context, struct rqli_command *command, bool with_text)
{
    const struct look *look = context;
    struct rqli_call call;

    rqli_call_init(&call, RQLI_SCRIPT_SWARM_LOOK, NULL);
    rqli_call_text(&call, look->flush->me);
    rqli_call_int(&call, look->flush->lease_ms);
    rqli_call_int(&call, look->flush->zombie_ttl_ms * 1000);
    rqli_call_int(&call, look->flush->wait_ms * 1000);
    rqli_call_text(&call, look->cursor);
    rqli_call_write(&call, command, with_text);
}

static bool all_are_texts(const struct rqli_reply *items, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (items[i].type != RQLI_REPLY_TEXT) {
            return false;
        }
    }
    return true;
}

/* Notes the dead of a page. False: not what the script answers. */
static bool take_page(struct rqli_flush *self, struct look *look, const struct rqli_reply *reply)
{
    if (reply->type != RQLI_REPLY_ARRAY || reply->count < 1 ||
        reply->items[0].type != RQLI_REPLY_INTEGER) {
        return false;
    }
    self->is_elected = reply->items[0].integer == 1;
    if (!self->is_elected) {
        return true;
    }
    if (reply->count % 2 != 0 || !all_are_texts(reply->items + 1, reply->count - 1) ||
        reply->items[1].text.length >= CURSOR_SIZE) {
        return false;
    }
    (void)snprintf(look->cursor, sizeof look->cursor, "%s", reply->items[1].text.data);
    for (size_t i = 2; i < reply->count; i += 2) {
        if (rqli_is_plain(reply->items[i].text)) {
            rqli_list_add(&self->dead, reply->items[i].text, 0);
        }
    }
    return true;
}

static rql_status ask_look(struct rqli_flush *self, struct look *look, rql_error *error)
{
    const struct rqli_talk talk = {self->via, "swarm_look", write_look, look};
    RQLI_AUTO(rqli_exchange_give) struct rqli_exchange *exchange = NULL;
    rql_status status = rqli_talk_run(&talk, &exchange, error);

    if (!status && !take_page(self, look, exchange->reply)) {
        status =
            rqli_exchange_fault(exchange, exchange->reply, "swarm_look", RQLI_KEY_HOSTS, error);
    }
    self->renewed_us = status ? self->renewed_us : rqli_now_us();
    return status;
}

static bool is_wanted(const struct rqli_flush *self)
{
    return !self->goes_on || self->goes_on(self->context);
}

static rql_status look_at_all(struct rqli_flush *self, rql_error *error)
{
    struct look look = {.flush = self, .cursor = "0"};
    rql_status status = RQL_OK;

    for (int i = 0; !status && i < ROUNDS_MAX; i++) {
        status = ask_look(self, &look, error);
        if (!status && (!self->is_elected || strcmp(look.cursor, "0") == 0)) {
            break;
        }
        status = status || is_wanted(self) ? status : RQL_STOPPED;
    }
    if (!status && self->dead.failed) {
        status = rqli_fail_nomem(error);
    }
    rqli_list_sort(&self->dead);
    return status;
}

/* Long rounds stay elected; a fault here shows at the next look. */
static bool on_progress(int64_t done, int64_t found, void *context)
{
    struct rqli_flush *self = context;
    struct look look = {.flush = self, .cursor = ""};

    (void)done;
    (void)found;
    if (self->me[0] != '\0' && rqli_now_us() - self->renewed_us > self->lease_ms * 1000 / 4) {
        (void)ask_look(self, &look, NULL);
    }
    return is_wanted(self);
}

static rql_status sweep_all(struct rqli_flush *self, rql_error *error)
{
    RQLI_AUTO(rqli_sweep_fini)
    struct rqli_sweep sweep = {
        .client = self->via,
        .options = {.on_progress = on_progress, .user_data = self},
        .error = error,
        .dead_hosts = &self->dead,
        .locks = &self->locks,
        .acquirers = &self->acquirers,
    };
    rql_status status;

    rqli_sweep_add(&sweep, &rqli_rule_zombie_locks, self->lock_scan_size);
    rqli_sweep_add(&sweep, &rqli_rule_zombie_requests, self->queue_scan_size);
    status = rqli_sweep_run(&sweep);
    self->removed = sweep.result.rem_request_cnt;
    self->handed_over = sweep.result.handed_over_cnt;
    return status;
}

struct burial {
    const struct rqli_item *hosts;
    size_t n;
};

static void write_burial(const void *context, struct rqli_command *command, bool with_text)
{
    const struct burial *burial = context;
    struct rqli_call call;

    rqli_call_init(&call, RQLI_SCRIPT_SWARM_REMOVE, NULL);
    for (size_t i = 0; i < burial->n; i++) {
        rqli_call_slice(&call, burial->hosts[i].text);
    }
    rqli_call_write(&call, command, with_text);
}

static bool take_burial(struct rqli_flush *self, const struct burial *burial,
                        const struct rqli_reply *reply)
{
    if (reply->type != RQLI_REPLY_ARRAY || reply->count != burial->n + 1) {
        return false;
    }
    for (size_t i = 0; i < burial->n; i++) {
        if (reply->items[i].type != RQLI_REPLY_INTEGER) {
            return false;
        }
        if (reply->items[i].integer == 1) {
            rqli_list_add(&self->hosts, burial->hosts[i].text, 0);
        }
    }
    return true;
}

static rql_status bury_some(struct rqli_flush *self, struct burial *burial, rql_error *error)
{
    const struct rqli_talk talk = {self->via, "swarm_remove", write_burial, burial};
    RQLI_AUTO(rqli_exchange_give) struct rqli_exchange *exchange = NULL;
    rql_status status = rqli_talk_run(&talk, &exchange, error);

    if (!status && !take_burial(self, burial, exchange->reply)) {
        status =
            rqli_exchange_fault(exchange, exchange->reply, "swarm_remove", RQLI_KEY_HOSTS, error);
    }
    return status;
}

static rql_status bury(struct rqli_flush *self, rql_error *error)
{
    rql_status status = RQL_OK;

    for (size_t at = 0; !status && at < self->dead.count; at += BURIED_AT_ONCE) {
        size_t left = self->dead.count - at;
        struct burial burial = {self->dead.item + at,
                                left < BURIED_AT_ONCE ? left : BURIED_AT_ONCE};

        status = bury_some(self, &burial, error);
    }
    return status;
}

static void notify_flushed(const struct rqli_flush *self, int64_t begun_us, rql_status status)
{
    const struct rqli_subject subject = rqli_subject_of_swarm(self->client);
    const struct rqli_figures figures = {
        .status = status,
        .host_cnt = (int64_t)self->hosts.count,
        .rel_key_cnt = (int64_t)self->locks.count,
        .rem_request_cnt = self->removed,
        .handed_over_cnt = self->handed_over,
        .rel_time_us = rqli_now_us() - begun_us,
        .at_us = rqli_server_clock_now_us(self->client),
    };

    rqli_observe(RQLI_ON_ZOMBIES_FLUSHED, &subject, &figures);
}

rql_status rqli_flush_run(struct rqli_flush *self, rql_error *error)
{
    int64_t begun_us = rqli_now_us();
    rql_status status = look_at_all(self, error);

    if (status || !self->is_elected || self->dead.count == 0) {
        return status;
    }
    status = sweep_all(self, error);
    status = status ? status : bury(self, error);
    rqli_list_sort(&self->acquirers);
    notify_flushed(self, begun_us, status);
    return status;
}

void rqli_flush_resign(struct rqli_flush *self)
{
    struct look look = {.flush = self, .cursor = "-"};

    if (self->is_elected) {
        (void)ask_look(self, &look, NULL);
        self->is_elected = false;
    }
}

void rqli_flush_fini_p(struct rqli_flush *self)
{
    rqli_list_fini_p(&self->dead);
    rqli_list_fini_p(&self->hosts);
    rqli_list_fini_p(&self->acquirers);
    rqli_list_fini_p(&self->locks);
}

int64_t rqli_flush_look_ms(int64_t zombie_ttl_ms, int64_t flush_period_ms)
{
    int64_t by_ttl_ms = zombie_ttl_ms / 4;
    int64_t by_period_ms = flush_period_ms / 2;
    int64_t look_ms = by_ttl_ms < by_period_ms ? by_ttl_ms : by_period_ms;

    return look_ms > 1 ? look_ms : 1;
}

void rqli_flush_init(struct rqli_flush *self, rql_client *via, const rql_swarm_options *options)
{
    *self = (struct rqli_flush){
        .client = via,
        .via = via,
        .me = "",
        .zombie_ttl_ms = options->zombie_ttl_ms,
        .lock_scan_size = options->zombie_lock_scan_size,
        .queue_scan_size = options->zombie_queue_scan_size,
    };
}

rql_status rql_flush_zombies(rql_client *client, const rql_swarm_options *options,
                             rql_zombies **out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    __attribute__((cleanup(rqli_flush_fini_p))) struct rqli_flush flush = {.me = ""};
    rql_swarm_options read;
    rql_status status = rqli_client_check(client, error);

    status =
        status ? status : rqli_options_read(RQLI_OF_SWARM, &read, &client->options, options, error);
    if (status) {
        return status;
    }
    rqli_flush_init(&flush, client, &read);
    status = rqli_flush_run(&flush, error);
    return status || !out ? status : rqli_zombies_give(&flush, out, error);
}
