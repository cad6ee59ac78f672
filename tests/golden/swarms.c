#include "golden.h"

/* The gem's calls about the swarm. */

static int64_t ttl_of(const struct run *self)
{
    const cJSON *ttl =
        cJSON_GetObjectItem(cJSON_GetObjectItem(self->call, "options"), "zombie_ttl");
    rql_swarm_options options;

    rql_swarm_options_init(self->client, &options);
    return ttl ? (int64_t)ttl->valuedouble : options.zombie_ttl_ms;
}

static void add_list(cJSON *object, const char *name, const rql_text_list *texts)
{
    cJSON *list = cJSON_AddArrayToObject(object, name);

    for (size_t i = 0; i < texts->count; i++) {
        views_add_sorted(list, cJSON_CreateString(texts->item[i]), texts->item[i], NULL);
    }
}

static cJSON *list_outcome(rql_status status, const rql_error *error, rql_text_list *texts)
{
    cJSON *outcome;

    if (status) {
        return calls_fault(status, error);
    }
    outcome = cJSON_CreateObject();
    add_list(outcome, "result", texts);
    (void)rql_text_list_free(texts);
    return outcome;
}

typedef rql_status (*list_zombies)(rql_client *, int64_t ttl_ms, rql_text_list **, rql_error *);

static cJSON *zombies_by(list_zombies list, struct run *self)
{
    rql_text_list *texts = NULL;
    rql_error error = {0};
    rql_status status = list(self->client, ttl_of(self), &texts, &error);

    return list_outcome(status, &error, texts);
}

static cJSON *zombie_locks(struct run *self)
{
    return zombies_by(rql_zombie_locks, self);
}

static cJSON *zombie_hosts(struct run *self)
{
    return zombies_by(rql_zombie_hosts, self);
}

static cJSON *zombie_acquirers(struct run *self)
{
    return zombies_by(rql_zombie_acquirers, self);
}

static cJSON *zombies_outcome(rql_zombies *zombies, bool are_flushed)
{
    cJSON *outcome = cJSON_CreateObject();
    cJSON *result = cJSON_AddObjectToObject(outcome, "result");

    if (are_flushed) {
        (void)cJSON_AddBoolToObject(result, "ok", true);
    }
    add_list(result, are_flushed ? "deleted_zombie_hosts" : "zombie_hosts", zombies->hosts);
    add_list(result, are_flushed ? "deleted_zombie_acquirers" : "zombie_acquirers",
             zombies->acquirers);
    add_list(result, are_flushed ? "deleted_zombie_locks" : "zombie_locks", zombies->locks);
    (void)rql_zombies_free(zombies);
    return outcome;
}

static cJSON *zombies_info(struct run *self)
{
    rql_zombies *zombies = NULL;
    rql_error error = {0};
    rql_status status = rql_zombies_info(self->client, ttl_of(self), &zombies, &error);

    return status ? calls_fault(status, &error) : zombies_outcome(zombies, false);
}

static cJSON *flush_zombies(struct run *self)
{
    const cJSON *size =
        cJSON_GetObjectItem(cJSON_GetObjectItem(self->call, "options"), "lock_scan_size");
    rql_swarm_options options;
    rql_zombies *zombies = NULL;
    rql_error error = {0};
    rql_status status;

    rql_swarm_options_init(self->client, &options);
    options.zombie_ttl_ms = ttl_of(self);
    if (size) {
        options.zombie_lock_scan_size = (int64_t)size->valuedouble;
        options.zombie_queue_scan_size = (int64_t)size->valuedouble;
    }
    status = rql_flush_zombies(self->client, &options, &zombies, &error);
    return status ? calls_fault(status, &error) : zombies_outcome(zombies, true);
}

static cJSON *probe_hosts(struct run *self)
{
    rql_text_list *hosts = NULL;
    int64_t at_us = 0;
    rql_error error = {0};
    rql_status status = rql_probe_hosts(self->client, &hosts, &at_us, &error);
    cJSON *outcome;
    cJSON *result;

    if (status) {
        return calls_fault(status, &error);
    }
    outcome = cJSON_CreateObject();
    result = cJSON_AddObjectToObject(outcome, "result");
    (void)cJSON_AddBoolToObject(result, "ok", true);
    result = cJSON_AddObjectToObject(result, "result");
    for (size_t i = 0; i < hosts->count; i++) {
        (void)cJSON_AddNumberToObject(result, hosts->item[i], (double)at_us / 1000000);
    }
    (void)rql_text_list_free(hosts);
    return outcome;
}

static cJSON *swarm_info(struct run *self)
{
    rql_host_info_list *hosts = NULL;
    rql_error error = {0};
    rql_status status = rql_swarm_info(self->client, ttl_of(self), &hosts, &error);
    cJSON *outcome;
    cJSON *result;

    if (status) {
        return calls_fault(status, &error);
    }
    outcome = cJSON_CreateObject();
    result = cJSON_AddObjectToObject(outcome, "result");
    for (size_t i = 0; i < hosts->count; i++) {
        cJSON *host = cJSON_AddObjectToObject(result, hosts->item[i].hst_id);
        double at_s = (double)hosts->item[i].last_probe_us / 1000000;

        (void)cJSON_AddBoolToObject(host, "zombie", hosts->item[i].is_zombie);
        (void)cJSON_AddNumberToObject(host, "last_probe_time", at_s);
        (void)cJSON_AddNumberToObject(host, "last_probe_score", at_s);
    }
    (void)rql_host_info_list_free(hosts);
    return outcome;
}

static cJSON *done(const char *word)
{
    cJSON *outcome = cJSON_CreateObject();
    cJSON *result = cJSON_AddObjectToObject(outcome, "result");

    (void)cJSON_AddBoolToObject(result, "ok", true);
    (void)cJSON_AddStringToObject(result, "result", word);
    return outcome;
}

/* The gem's flusher ends the dead at first sight, so this waits until ours has seen them twice. */
static bool nobody_is_dead(void *data)
{
    const struct run *self = data;
    rql_text_list *hosts = NULL;
    bool is_clean =
        rql_zombie_hosts(self->client, ttl_of(self), &hosts, NULL) == RQL_OK && hosts->count == 0;

    (void)rql_text_list_free(hosts);
    return is_clean;
}

static cJSON *swarmize(struct run *self)
{
    rql_swarm_options options;
    rql_error error = {0};
    rql_status status;

    rql_swarm_options_init(self->client, &options);
    options.zombie_ttl_ms = 500;
    options.probe_period_ms = 100;
    options.zombie_flush_period_ms = 100;
    status =
        rql_swarm_start(self->client, &options, world_swarm(self->world, self->client), &error);
    if (status) {
        return calls_fault(status, &error);
    }
    if (!wait_until(nobody_is_dead, self, 10000)) {
        return calls_error("nothing was flushed", "");
    }
    return done("swarming");
}

static cJSON *deswarmize(struct run *self)
{
    rql_swarm_stop(*world_swarm(self->world, self->client));
    return done("terminating");
}

static void add_element(cJSON *result, const char *name, const rql_element_status *element)
{
    cJSON *object = cJSON_AddObjectToObject(result, name);

    (void)cJSON_AddBoolToObject(object, "enabled", element->enabled);
    (void)cJSON_AddBoolToObject(object, "running", element->state == RQL_ELEMENT_RUNNING);
}

static cJSON *swarm_status(struct run *self)
{
    rql_swarm_status status;
    rql_error error = {0};
    rql_status failed = rql_get_swarm_status(self->client, &status, &error);
    cJSON *outcome;
    cJSON *result;

    if (failed) {
        return calls_fault(failed, &error);
    }
    outcome = cJSON_CreateObject();
    result = cJSON_AddObjectToObject(outcome, "result");
    (void)cJSON_AddBoolToObject(result, "auto_swarm", status.auto_swarm);
    add_element(result, "supervisor", &status.supervisor);
    add_element(result, "probe_hosts", &status.probe_hosts);
    add_element(result, "flush_zombies", &status.flush_zombies);
    return outcome;
}

cJSON *swarms_run(struct run *self, const char *op)
{
    static const struct {
        const char *op;
        cJSON *(*run)(struct run *self);
    } calls[] = {
        {"probe_hosts", probe_hosts},     {"swarm_info", swarm_info},
        {"zombies_info", zombies_info},   {"zombie_locks", zombie_locks},
        {"zombie_hosts", zombie_hosts},   {"zombie_acquirers", zombie_acquirers},
        {"flush_zombies", flush_zombies}, {"swarmize!", swarmize},
        {"deswarmize!", deswarmize},      {"swarm_status", swarm_status},
    };

    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (strcmp(calls[i].op, op) == 0) {
            return calls[i].run(self);
        }
    }
    return NULL;
}
