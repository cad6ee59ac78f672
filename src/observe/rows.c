#include "observe/rows.h"

#include <string.h>

#define PLAIN(name, text)                                                                          \
    {                                                                                              \
        .family = #name, .help = (text), .offset = offsetof(rql_stats, name)                       \
    }
#define PART(group, text, tag, word, member)                                                       \
    {                                                                                              \
        .family = (group), .help = (text), .label = (tag), .value = (word),                        \
        .offset = offsetof(rql_stats, member)                                                      \
    }
#define REFUSED(text, member) PART("refusals", text, "reason", #member, member)
#define FAULT(text, word, status) PART("faults", text, "status", word, faults[-(status)])
#define RELEASED(text, word, member) PART("releases", text, "result", word, member)

static const struct rqli_stats_row counters[] = {
    PLAIN(acquisitions, "Locks obtained."),
    PLAIN(hand_overs, "Locks granted by the release of another."),
    PLAIN(reentries, "Locks re-entered."),
    PLAIN(tries, "Tries of all acquisitions."),
    PLAIN(polls, "Questions of requests that waited."),
    PLAIN(requeued, "Requests moved to the tail of their queue."),
    PLAIN(restored, "Requests that put themselves back into their queue."),
    REFUSED("Acquisitions that were refused.", timed_out),
    REFUSED(NULL, retry_limit),
    REFUSED(NULL, fail_fast_no_try),
    REFUSED(NULL, fail_fast_after_try),
    PART("refusals", NULL, "reason", "conflict", conflicts),
    REFUSED(NULL, cancelled),
    FAULT("Acquisitions that failed.", "invalid", RQL_E_INVALID),
    FAULT(NULL, "nomem", RQL_E_NOMEM),
    FAULT(NULL, "io", RQL_E_IO),
    FAULT(NULL, "unknown", RQL_E_UNKNOWN),
    FAULT(NULL, "protocol", RQL_E_PROTOCOL),
    FAULT(NULL, "server", RQL_E_SERVER),
    FAULT(NULL, "auth", RQL_E_AUTH),
    FAULT(NULL, "wrong_type", RQL_E_WRONG_TYPE),
    FAULT(NULL, "read_only", RQL_E_READ_ONLY),
    FAULT(NULL, "unavailable", RQL_E_UNAVAILABLE),
    FAULT(NULL, "busy", RQL_E_BUSY),
    RELEASED("Holds and re-entries that ended.", "released", releases),
    RELEASED(NULL, "not_held", releases_not_held),
    RELEASED(NULL, "fault", releases_failed),
    PLAIN(extensions, "Extensions by the holder."),
    PLAIN(renewals, "Renewals and claims by the background thread."),
    PLAIN(lost, "Locks that were lost while held."),
    PLAIN(swept_keys, "Locks and queues that were cleared."),
    PLAIN(commands, "Commands sent."),
    PLAIN(connections, "Connections made."),
    PLAIN(pushes, "Grants and nudges that were pushed."),
    PLAIN(probes, "Signs of life."),
    PLAIN(hosts_declared_dead, "Hosts of this client that were declared dead."),
    PLAIN(swarm_failures, "Steps of the swarm that failed."),
    PLAIN(swarm_restarts, "Elements of the swarm that were restarted."),
    PLAIN(zombie_hosts, "Dead hosts that were removed."),
    PLAIN(zombie_locks, "Locks of dead hosts that were ended."),
    PLAIN(zombie_requests, "Requests of dead hosts that were removed."),
    PLAIN(zombie_hand_overs,
          "Locks of dead hosts, or before their requests, that were handed over."),
};

static const struct rqli_stats_row times[] = {
    PLAIN(wait, "Time from the call to the grant."),
    PLAIN(hold, "Time from the grant to the end of the release."),
    PLAIN(hand_off, "Time from a grant on the server to its arrival, at most."),
};

const struct rqli_stats_row *rqli_stats_counter_at(size_t index)
{
    return index < sizeof counters / sizeof counters[0] ? &counters[index] : NULL;
}

const struct rqli_stats_row *rqli_stats_times_at(size_t index)
{
    return index < sizeof times / sizeof times[0] ? &times[index] : NULL;
}

int64_t rqli_stats_counter_of(const rql_stats *stats, const struct rqli_stats_row *row)
{
    int64_t value;

    memcpy(&value, (const char *)stats + row->offset, sizeof value);
    return value;
}

const rql_histogram *rqli_stats_times_of(const rql_stats *stats, const struct rqli_stats_row *row)
{
    const void *field = (const char *)stats + row->offset;

    return field;
}
