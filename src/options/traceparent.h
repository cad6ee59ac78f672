#ifndef RQLI_TRACEPARENT_H
#define RQLI_TRACEPARENT_H

#include <stdbool.h>

/* Returns whether the text is a traceparent of W3C Trace Context, version 00. */
bool rqli_is_traceparent(const char *text);

#endif
