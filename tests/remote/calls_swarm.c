#include "remote.h"

#include "proxy.h"

#include <string.h>

/* The swarm of a client, and its steps by hand. */

static const struct {
    const char *name;
    size_t offset;
} numbers[] = {
    {"liveness_probing_period_ms", offsetof(rql_swarm_options, liveness_probing_period_ms)},
    {"probe_period_ms", offsetof(rql_swarm_options, probe_period_ms)},
    {"zombie_ttl_ms", offsetof(rql_swarm_options, zombie_ttl_ms)},
    {"zombie_flush_period_ms", offsetof(rql_swarm_options, zombie_flush_period_ms)},
    {"zombie_lock_scan_size", offsetof(rql_swarm_options, zombie_lock_scan_size)},
    {"zombie_queue_scan_size", offsetof(rql_swarm_options, zombie_queue_scan_size)},
};

static bool set_number(rql_swarm_options *out, const cJSON *item)
{
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (strcmp(item->string, numbers[i].name) == 0) {
            *(int64_t *)(void *)((char *)out + numbers[i].offset) = (int64_t)item->valuedouble;
            return true;
        }
    }
    return false;
}

/* By the names of the fields; "probe_proxy" and "flush_proxy" name a proxy in front of the server.
 */
static rql_swarm_options options_in(const rql_client *client, const cJSON *words)
{
    const cJSON *options = cJSON_GetObjectItem(words, "options");
    rql_swarm_options out;
    const cJSON *item;

    rql_swarm_options_init(client, &out);
    cJSON_ArrayForEach(item, options)
    {
        if (set_number(&out, item)) {
            continue;
        }
        if (strcmp(item->string, "probe_hosts") == 0) {
            out.probe_hosts = cJSON_IsTrue(item);
        } else if (strcmp(item->string, "flush_zombies") == 0) {
            out.flush_zombies = cJSON_IsTrue(item);
        } else if (strcmp(item->string, "probe_proxy") == 0) {
            out.probe_url = proxy_url(find_object(A_PROXY, options, "probe_proxy"));
        } else if (strcmp(item->string, "flush_proxy") == 0) {
            out.flush_url = proxy_url(find_object(A_PROXY, options, "flush_proxy"));
        } else if (strcmp(item->string, "flush_url") == 0) {
            out.flush_url = item->valuestring;
        } else {
            wrong(item, "no such option");
        }
    }
    return out;
}

void start_swarm(rql_client *client, cJSON *words)
{
    const rql_swarm_options options = options_in(client, words);
    rql_error error = {0};
    rql_swarm *swarm = NULL;
    rql_status status = rql_swarm_start(client, &options, &swarm, &error);

    if (status == RQL_OK) {
        add_object(A_SWARM, words, "name", swarm);
    }
    answer(words, status, &error);
}

void stop_swarm(cJSON *words)
{
    rql_swarm_stop(find_object(A_SWARM, words, "name"));
    answer(words, RQL_OK, NULL);
}

void end_swarm(cJSON *words)
{
    (void)rql_swarm_free(take_object(A_SWARM, words, "name"));
    answer(words, RQL_OK, NULL);
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

void tell_swarm(rql_client *client, cJSON *words)
{
    rql_swarm_status swarm = {0};
    rql_error error = {0};
    rql_status status = rql_get_swarm_status(client, &swarm, &error);
    cJSON *reply = answer_to(words, status, &error);

    (void)cJSON_AddBoolToObject(reply, "auto_swarm", swarm.auto_swarm);
    (void)cJSON_AddBoolToObject(reply, "is_running", swarm.is_running);
    (void)cJSON_AddBoolToObject(reply, "is_flusher", swarm.is_flusher);
    (void)cJSON_AddNumberToObject(reply, "hosts", (double)swarm.hosts);
    (void)cJSON_AddItemToObject(reply, "supervisor", element_of(&swarm.supervisor));
    (void)cJSON_AddItemToObject(reply, "probe_hosts", element_of(&swarm.probe_hosts));
    (void)cJSON_AddItemToObject(reply, "flush_zombies", element_of(&swarm.flush_zombies));
    say(reply);
    cJSON_Delete(words);
}

/* ---- by hand, on an actor's thread ---- */

void probe_hosts(rql_client *client, cJSON *words)
{
    rql_text_list *hosts = NULL;
    int64_t at_us = 0;
    rql_error error = {0};
    rql_status status = rql_probe_hosts(client, &hosts, &at_us, &error);
    cJSON *reply = answer_to(words, status, &error);

    (void)cJSON_AddItemToObject(reply, "hosts", texts_of(hosts));
    (void)rql_text_list_free(hosts);
    (void)cJSON_AddNumberToObject(reply, "at_us", (double)at_us);
    say(reply);
    cJSON_Delete(words);
}

void tell_hosts(rql_client *client, cJSON *words)
{
    rql_host_info_list *list = NULL;
    rql_error error = {0};
    rql_status status =
        rql_swarm_info(client, number_or(words, "zombie_ttl_ms", 15000), &list, &error);
    cJSON *reply = answer_to(words, status, &error);
    cJSON *hosts = cJSON_AddArrayToObject(reply, "hosts");

    for (size_t i = 0; list && i < list->count; i++) {
        cJSON *host = cJSON_CreateObject();

        (void)cJSON_AddStringToObject(host, "hst_id", list->item[i].hst_id);
        (void)cJSON_AddBoolToObject(host, "is_zombie", list->item[i].is_zombie);
        (void)cJSON_AddNumberToObject(host, "last_probe_us", (double)list->item[i].last_probe_us);
        (void)cJSON_AddItemToArray(hosts, host);
    }
    (void)rql_host_info_list_free(list);
    say(reply);
    cJSON_Delete(words);
}

static void answer_with_zombies(cJSON *words, rql_status status, const rql_error *error,
                                rql_zombies *zombies)
{
    cJSON *reply = answer_to(words, status, error);

    if (zombies) {
        (void)cJSON_AddItemToObject(reply, "hosts", texts_of(zombies->hosts));
        (void)cJSON_AddItemToObject(reply, "acquirers", texts_of(zombies->acquirers));
        (void)cJSON_AddItemToObject(reply, "locks", texts_of(zombies->locks));
        (void)cJSON_AddNumberToObject(reply, "rem_request_cnt", (double)zombies->rem_request_cnt);
        (void)cJSON_AddNumberToObject(reply, "handed_over_cnt", (double)zombies->handed_over_cnt);
    }
    (void)rql_zombies_free(zombies);
    say(reply);
    cJSON_Delete(words);
}

void flush_zombies(rql_client *client, cJSON *words)
{
    const rql_swarm_options options = options_in(client, words);
    rql_zombies *zombies = NULL;
    rql_error error = {0};
    rql_status status = rql_flush_zombies(client, &options, &zombies, &error);

    answer_with_zombies(words, status, &error, zombies);
}

/* All of them, or with "of" only hosts, locks or acquirers. */
void tell_zombies(rql_client *client, cJSON *words)
{
    const char *of = text_or(words, "of", "all");
    int64_t ttl_ms = number_or(words, "zombie_ttl_ms", 15000);
    rql_zombies *zombies = NULL;
    rql_text_list *list = NULL;
    rql_error error = {0};
    rql_status status;
    cJSON *reply;

    if (strcmp(of, "all") == 0) {
        status = rql_zombies_info(client, ttl_ms, &zombies, &error);
        answer_with_zombies(words, status, &error, zombies);
        return;
    }
    if (strcmp(of, "hosts") == 0) {
        status = rql_zombie_hosts(client, ttl_ms, &list, &error);
    } else if (strcmp(of, "locks") == 0) {
        status = rql_zombie_locks(client, ttl_ms, &list, &error);
    } else {
        status = rql_zombie_acquirers(client, ttl_ms, &list, &error);
    }
    reply = answer_to(words, status, &error);
    (void)cJSON_AddItemToObject(reply, "found", texts_of(list));
    (void)rql_text_list_free(list);
    say(reply);
    cJSON_Delete(words);
}
