#ifndef RQLB_SCALE_H
#define RQLB_SCALE_H

#include "common/fault.h"

/* Both obey orders until stdin ends or the fault is raised. */

/* Fills the server with locks and queues first. */
void scale_locks(const char *socket_path, struct fault *fault);

/* Memory of this side. */
void scale_clients(const char *socket_path, struct fault *fault);

/* Processor time of this side. */
void scale_logins(const char *url, struct fault *fault);

#endif
