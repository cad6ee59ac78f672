#ifndef RQLI_SCRIPT_H
#define RQLI_SCRIPT_H

/* The embedded Lua scripts, made from lua/ by lua/embed.py. */

#include "script_ids.h"

#include <stdbool.h>
#include <stddef.h>

struct rqli_script {
    const char *name;
    const char *text;
    const char *sha1; /* lower-case hex, as EVALSHA wants it */
    size_t length;
    size_t n_keys;     /* for one lock */
    size_t n_repeated; /* the first of them, once for each lock of a series; 0: no series */
    size_t n_args;
    bool takes_more; /* n_args is the least */
};

extern const struct rqli_script rqli_scripts[RQLI_SCRIPT_COUNT];

#endif
