#ifndef RQL_RQL_H
#define RQL_RQL_H

/**
 * @file rql.h
 * @brief All of librql.
 */

#include <rql/async.h>
#include <rql/client.h>
#include <rql/diagnose.h>
#include <rql/inspect.h>
#include <rql/lock.h>
#include <rql/observe.h>
#include <rql/options.h>
#include <rql/series.h>
#include <rql/stats.h>
#include <rql/status.h>
#include <rql/swarm.h>
#include <rql/sweep.h>
#include <rql/version.h>

#endif
