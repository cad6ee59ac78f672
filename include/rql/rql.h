#ifndef RQL_RQL_H
#define RQL_RQL_H

/**
 * @file rql.h
 * @brief Everything that a worker needs: clients, locks, series, event loops, logs and events, and
 * the start of a swarm. Operators' tools include <rql/admin.h>, too.
 *
 * The pages rql-guarantees(7), rql-deployments(7), rql-event-loop(7), rql-options(7) and rql-gem(7)
 * belong to this manual.
 */

#include <rql/async.h>
#include <rql/client.h>
#include <rql/lock.h>
#include <rql/observe.h>
#include <rql/options.h>
#include <rql/series.h>
#include <rql/status.h>
#include <rql/swarm.h>
#include <rql/version.h>

#endif
