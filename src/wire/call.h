#ifndef RQLI_CALL_H
#define RQLI_CALL_H

/* One call of a script: which one, for which lock or locks, with which words. Or a plain command.
 */

#include "base/text.h"
#include "wire/command.h"
#include "wire/keys.h"
#include "wire/script.h"

#include <rql/base.h>

enum { RQLI_CALL_ARGS_MAX = 6 + 2 * RQL_META_MAX_PAIRS, RQLI_CALL_NUMBERS_SIZE = 192 };

struct rqli_call {
    struct rqli_command *out; /* what it will be written to */
    bool is_plain;            /* a command that is written already */
    enum rqli_script_id script;
    const struct rqli_keys *keys;          /* of the lock, or of the first of a series */
    const struct rqli_keys *const *series; /* of all, or NULL */
    size_t n_series;
    size_t n_args;
    size_t used;       /* of numbers */
    bool pushes_first; /* see rqli_perform() */
    struct rqli_slice args[RQLI_CALL_ARGS_MAX];
    char numbers[RQLI_CALL_NUMBERS_SIZE];
};

/* What messages say it is about: a script without a lock works on the hosts of the swarm. */
static inline const char *rqli_call_subject(const struct rqli_call *self)
{
    return self->keys ? self->keys->lock.data : RQLI_KEY_HOSTS;
}

/* keys and all texts are borrowed until the call is written. */
void rqli_call_init(struct rqli_call *self, enum rqli_script_id script,
                    const struct rqli_keys *keys);
/* For a script that takes several locks. The array is borrowed as well. */
void rqli_call_init_series(struct rqli_call *self, enum rqli_script_id script,
                           const struct rqli_keys *const *keys, size_t count);

/* No script: write one command to the result. Its reply may be an error reply. */
static inline struct rqli_command *rqli_call_plain(struct rqli_call *self)
{
    self->is_plain = true;
    return self->out;
}

void rqli_call_text(struct rqli_call *self, const char *text);
void rqli_call_slice(struct rqli_call *self, struct rqli_slice bytes);
void rqli_call_int(struct rqli_call *self, int64_t number);
void rqli_call_chance(struct rqli_call *self); /* where a script wants one: 0 to 65535 */

/* What acquire.lua reads only when the lock is not simply free. */
struct rqli_ask {
    char access;   /* q, r; Q, R: of one who holds other locks */
    char conflict; /* w, t, e, d */
    bool fail_fast;
    int64_t wait_ms;      /* -1: for ever */
    int64_t queue_ttl_ms; /* -1: for ever */
    int64_t score_us;     /* the place we had; 0: none */
    uint32_t chance;      /* 0 to 65535 */
};

void rqli_call_ask(struct rqli_call *self, const struct rqli_ask *ask);

/* As EVALSHA, or with the text as EVAL, which also teaches it to the server. */
void rqli_call_write(const struct rqli_call *self, struct rqli_command *command, bool with_text);

/* A call is written in two steps: here it begins, for an operation to fill it in; then
 * rqli_call_write(), unless it has become a plain command. */
static inline void rqli_call_begin(struct rqli_call *self, struct rqli_command *out)
{
    self->out = out;
    self->is_plain = false;
}

#endif
