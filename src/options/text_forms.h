#ifndef RQLI_TEXT_FORMS_H
#define RQLI_TEXT_FORMS_H

/* Forms that the texts of some options have to have. */

#include <stdbool.h>

/* Returns whether the text is a traceparent of W3C Trace Context, version 00. */
bool rqli_is_traceparent(const char *text);

/* Returns whether the text is short enough for the name of a server in TLS. */
bool rqli_is_server_name(const char *text);

#endif
