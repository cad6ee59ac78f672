#ifndef RQLI_ACQUISITION_INSIDE_H
#define RQLI_ACQUISITION_INSIDE_H

/* What acquisition.c (from step to step) and acquisition_wait.c (what comes in while it waits)
 * share. */

#include "lock/acquisition.h"

/* What the machine sees; and as much of a world as rqli_drive_on_try() and its kin need. */
struct rqli_request_view rqli_acquisition_view(const rql_request *self);
struct rqli_world rqli_acquisition_world(rql_request *self);

/* Does what the machine wants, until that takes time. May be its end. */
void rqli_acquisition_drive(rql_request *self);

/* A push or a nudge, as the result of a wait. False: nothing has come. */
bool rqli_acquisition_take_what_came(rql_request *self);

/* Of a refusal: what those who wait have to look after. */
void rqli_acquisition_attend(rql_request *self);

/* It has what it waited for, or gives up: the next one may lead. */
void rqli_acquisition_stop_waiting(rql_request *self);

#endif
