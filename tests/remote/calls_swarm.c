#include "remote.h"

#include <string.h>

/* The swarm of a client, and its steps by hand. */

static const struct field numbers[] = {
    {"liveness_probing_period_ms", offsetof(rql_swarm_options, liveness_probing_period_ms)},
    {"probe_period_ms", offsetof(rql_swarm_options, probe_period_ms)},
    {"zombie_ttl_ms", offsetof(rql_swarm_options, zombie_ttl_ms)},
    {"zombie_flush_period_ms", offsetof(rql_swarm_options, zombie_flush_period_ms)},
    {"zombie_lock_scan_size", offsetof(rql_swarm_options, zombie_lock_scan_size)},
    {"zombie_queue_scan_size", offsetof(rql_swarm_options, zombie_queue_scan_size)},
};

/* By the names of the fields. */
static rql_swarm_options options_in(const rql_client *client, const cJSON *words)
{
    const cJSON *options = cJSON_GetObjectItem(words, "options");
    rql_swarm_options out;
    const cJSON *item;

    rql_swarm_options_init(client, &out);
    cJSON_ArrayForEach(item, options)
    {
        int64_t *number = field_in(&out, numbers, sizeof numbers / sizeof numbers[0], item);

        if (number) {
            *number = (int64_t)item->valuedouble;
        } else if (strcmp(item->string, "probe_hosts") == 0) {
            out.probe_hosts = cJSON_IsTrue(item);
        } else if (strcmp(item->string, "flush_zombies") == 0) {
            out.flush_zombies = cJSON_IsTrue(item);
        } else if (strcmp(item->string, "probe_url") == 0) {
            out.probe_url = item->valuestring;
        } else if (strcmp(item->string, "flush_url") == 0) {
            out.flush_url = item->valuestring;
        } else {
            wrong(item, "no such option");
        }
    }
    return out;
}

rql_status start_swarm(struct call *call)
{
    rql_client *client = client_in(call->words);
    const rql_swarm_options options = options_in(client, call->words);
    rql_swarm *swarm = NULL;
    rql_status status = rql_swarm_start(client, &options, &swarm, &call->error);

    if (status == RQL_OK) {
        add_object(A_SWARM, call->words, "name", swarm);
    }
    return status;
}

rql_status stop_swarm(struct call *call)
{
    rql_swarm_stop(find_object(A_SWARM, call->words, "name"));
    return RQL_OK;
}

rql_status end_swarm(struct call *call)
{
    (void)rql_swarm_free(take_object(A_SWARM, call->words, "name"));
    return RQL_OK;
}

static cJSON *element_of(const rql_element_status *status)
{
    cJSON *element = cJSON_CreateObject();

    (void)cJSON_AddBoolToObject(element, "enabled", status->enabled);
    (void)cJSON_AddNumberToObject(element, "state", status->state);
    (void)cJSON_AddNumberToObject(element, "breaker", status->breaker);
    (void)cJSON_AddNumberToObject(element, "steps", (double)status->steps);
    (void)cJSON_AddNumberToObject(element, "failures", (double)status->failures);
    (void)cJSON_AddNumberToObject(element, "restarts", (double)status->restarts);
    return element;
}

rql_status tell_swarm(struct call *call)
{
    rql_swarm_status swarm = {0};
    rql_status status = rql_swarm_get_status(client_in(call->words), &swarm, &call->error);

    (void)cJSON_AddBoolToObject(call->reply, "auto_swarm", swarm.auto_swarm);
    (void)cJSON_AddBoolToObject(call->reply, "is_running", swarm.is_running);
    (void)cJSON_AddBoolToObject(call->reply, "is_flusher", swarm.is_flusher);
    (void)cJSON_AddNumberToObject(call->reply, "hosts", (double)swarm.hosts);
    (void)cJSON_AddItemToObject(call->reply, "supervisor", element_of(&swarm.supervisor));
    (void)cJSON_AddItemToObject(call->reply, "probe_hosts", element_of(&swarm.probe_hosts));
    (void)cJSON_AddItemToObject(call->reply, "flush_zombies", element_of(&swarm.flush_zombies));
    return status;
}

/* ---- by hand, on an actor's thread ---- */

rql_status probe_hosts(struct call *call)
{
    rql_text_list *hosts = NULL;
    int64_t at_us = 0;
    rql_status status = rql_swarm_probe(call->client, &hosts, &at_us, &call->error);

    (void)cJSON_AddItemToObject(call->reply, "hosts", texts_of(hosts));
    (void)rql_free(hosts);
    (void)cJSON_AddNumberToObject(call->reply, "at_us", (double)at_us);
    return status;
}

rql_status tell_hosts(struct call *call)
{
    rql_host_info_list *list = NULL;
    int64_t ttl_ms = number_or(call->words, "zombie_ttl_ms", 15000);
    rql_status status = rql_swarm_hosts(call->client, ttl_ms, &list, &call->error);
    cJSON *hosts = cJSON_AddArrayToObject(call->reply, "hosts");

    for (size_t i = 0; list && i < list->count; i++) {
        cJSON *host = cJSON_CreateObject();

        (void)cJSON_AddStringToObject(host, "hst_id", list->item[i]->host_id);
        (void)cJSON_AddBoolToObject(host, "is_zombie", list->item[i]->is_zombie);
        (void)cJSON_AddNumberToObject(host, "last_probe_us", (double)list->item[i]->last_probe_us);
        (void)cJSON_AddItemToArray(hosts, host);
    }
    (void)rql_free(list);
    return status;
}

static void add_zombies(cJSON *reply, rql_zombies *zombies)
{
    if (zombies) {
        (void)cJSON_AddItemToObject(reply, "hosts", texts_of(zombies->hosts));
        (void)cJSON_AddItemToObject(reply, "acquirers", texts_of(zombies->acquirers));
        (void)cJSON_AddItemToObject(reply, "locks", texts_of(zombies->locks));
        (void)cJSON_AddNumberToObject(reply, "rem_request_cnt", (double)zombies->requests);
        (void)cJSON_AddNumberToObject(reply, "handed_over_cnt", (double)zombies->handed_over);
    }
    (void)rql_free(zombies);
}

rql_status flush_zombies(struct call *call)
{
    const rql_swarm_options options = options_in(call->client, call->words);
    rql_zombies *zombies = NULL;
    rql_status status = rql_swarm_flush(call->client, &options, &zombies, &call->error);

    add_zombies(call->reply, zombies);
    return status;
}

/* All of them, or with "of" only hosts, locks or acquirers. */
rql_status tell_zombies(struct call *call)
{
    const char *of = text_or(call->words, "of", "all");
    int64_t ttl_ms = number_or(call->words, "zombie_ttl_ms", 15000);
    rql_zombies *zombies = NULL;
    rql_status status = rql_swarm_zombies(call->client, ttl_ms, &zombies, &call->error);

    if (strcmp(of, "all") == 0 || !zombies) {
        add_zombies(call->reply, zombies);
        return status;
    }
    (void)cJSON_AddItemToObject(call->reply, "found",
                                texts_of(strcmp(of, "hosts") == 0   ? zombies->hosts
                                         : strcmp(of, "locks") == 0 ? zombies->locks
                                                                    : zombies->acquirers));
    (void)rql_free(zombies);
    return status;
}
