#include "lock/client.h"
#include "observe/observe.h"
#include "observe/observe_inside.h"
#include "observe/stats.h"

#include <string.h>

/* News of a swarm are rare and matter: they are never sampled. */

enum { OF_ELEMENT = 1, OF_STATUS = 2, OF_HOSTS = 4, OF_FLUSH = 8 };

static const struct {
    rql_event_kind kind;
    unsigned has;
} shapes[] = {
    {RQL_EVENT_SWARM_ELEMENT_HUNG, OF_ELEMENT},
    {RQL_EVENT_SWARM_ELEMENT_RESTARTED, OF_ELEMENT},
    {RQL_EVENT_SWARM_BREAKER_OPENED, OF_ELEMENT | OF_STATUS},
    {RQL_EVENT_SWARM_BREAKER_CLOSED, OF_ELEMENT},
    {RQL_EVENT_SWARM_FLUSHER_ELECTED, 0},
    {RQL_EVENT_SWARM_FLUSHER_RETIRED, 0},
    {RQL_EVENT_SWARM_HOSTS_DECLARED_DEAD, OF_HOSTS},
    {RQL_EVENT_SWARM_ZOMBIES_FLUSHED, OF_STATUS | OF_HOSTS | OF_FLUSH},
};

static unsigned shape_of(rql_event_kind kind)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        if (shapes[i].kind == kind) {
            return shapes[i].has;
        }
    }
    return 0;
}

static void count(rql_client *client, enum rqli_stat what, int64_t n)
{
    rqli_stats_count(client->stats, 0, what, n);
}

static void count_all(rql_client *client, const struct rqli_swarm_news *news)
{
    if (news->kind == RQL_EVENT_SWARM_ELEMENT_RESTARTED) {
        count(client, RQLI_STAT_SWARM_RESTARTS, 1);
    } else if (news->kind == RQL_EVENT_SWARM_HOSTS_DECLARED_DEAD) {
        count(client, RQLI_STAT_HOSTS_DECLARED_DEAD, news->hosts);
    } else if (news->kind == RQL_EVENT_SWARM_ZOMBIES_FLUSHED) {
        count(client, RQLI_STAT_ZOMBIE_HOSTS, news->hosts);
        count(client, RQLI_STAT_ZOMBIE_LOCKS, news->locks);
        count(client, RQLI_STAT_ZOMBIE_REQUESTS, news->requests);
        count(client, RQLI_STAT_ZOMBIE_HAND_OVERS, news->handed_over);
    }
}

static struct rql_event event_of(rql_client *client, const struct rqli_swarm_news *news)
{
    struct rql_event event = rqli_event(news->kind);
    unsigned has = shape_of(news->kind);

    event.at_us = rqli_event_time_us(client);
    event.status = news->status;
    event.element = news->element;
    event.host_cnt = has & OF_HOSTS ? news->hosts : -1;
    if (has & OF_FLUSH) {
        event.rel_key_cnt = news->locks;
        event.rem_request_cnt = news->requests;
        event.handed_over_cnt = news->handed_over;
        event.rel_time_us = news->took_us;
    }
    return event;
}

/* The line is called as the event, without "rql.". */
static void log_event(const rql_client *client, const struct rql_event *event)
{
    unsigned has = shape_of(event->kind);
    struct rqli_log_line line;

    rqli_log_begin(&line, strchr(event->name, '.') + 1);
    if (has & OF_ELEMENT) {
        rqli_log_quoted(&line, "element", event->element);
    }
    if (has & OF_STATUS) {
        rqli_log_quoted(&line, "status", rql_status_text(event->status));
    }
    if (has & OF_HOSTS) {
        rqli_log_number(&line, "hosts", RQL_LOG_INTEGER, event->host_cnt);
    }
    if (has & OF_FLUSH) {
        rqli_log_number(&line, "locks", RQL_LOG_INTEGER, event->rel_key_cnt);
        rqli_log_number(&line, "requests", RQL_LOG_INTEGER, event->rem_request_cnt);
        rqli_log_number(&line, "handed_over", RQL_LOG_INTEGER, event->handed_over_cnt);
        rqli_log_number(&line, "rel_time", RQL_LOG_MS, event->rel_time_us);
    }
    client->options.logger(&line.record, client->options.logger_data);
}

void rqli_observe_swarm(rql_client *client, const struct rqli_swarm_news *news)
{
    const rql_options *options = &client->options;
    struct rql_event event;

    count_all(client, news);
    if (!options->logger && !options->instrumenter) {
        return;
    }
    event = event_of(client, news);
    if (options->logger) {
        log_event(client, &event);
    }
    if (options->instrumenter) {
        options->instrumenter(&event, options->instrumenter_data);
    }
}

void rqli_observe_probed(rql_client *client)
{
    count(client, RQLI_STAT_PROBES, 1);
}

void rqli_observe_step_failed(rql_client *client)
{
    count(client, RQLI_STAT_SWARM_FAILURES, 1);
}
