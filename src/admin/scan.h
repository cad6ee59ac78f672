#ifndef RQLI_SCAN_H
#define RQLI_SCAN_H

/* One walk over all keys with a prefix by SCAN, and the keys it found: each once, sorted. SCAN may
 * name a key several times while the server resizes its table. No I/O here. */

#include "wire/command.h"
#include "wire/reply.h"

#include <rql/client.h>

enum { RQLI_CURSOR_SIZE = 24 };

struct rqli_scan {
    struct rqli_slice prefix;
    char cursor[RQLI_CURSOR_SIZE];
    bool is_done;
    size_t count;
    size_t capacity;
    struct rqli_slice *keys; /* terminated */
    struct rqli_scan_page *pages;
};

/* prefix: static text without glob characters; nothing a user gave may become part of a pattern. */
void rqli_scan_init(struct rqli_scan *self, const char *prefix);
void rqli_scan_fini(struct rqli_scan *self);

static inline void rqli_scan_fini_p(struct rqli_scan *self)
{
    rqli_scan_fini(self);
}

/* Until is_done: ask, take the reply. Then the keys are in order. */
void rqli_scan_ask(const struct rqli_scan *self, struct rqli_command *command, int64_t count);
rql_status rqli_scan_take(struct rqli_scan *self, const struct rqli_reply *reply, rql_error *error);

/* The keys in one allocation. Keys with a NUL are left out: cut, they would be other keys. */
rql_status rqli_scan_texts(const struct rqli_scan *self, rql_text_list **out, rql_error *error);

#endif
