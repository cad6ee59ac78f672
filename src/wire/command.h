#ifndef RQLI_COMMAND_H
#define RQLI_COMMAND_H

/*
 * What is sent: the bytes of commands, and calls of scripts. Pure: writes into memory only.
 */

#include "base/text.h"
#include "script_ids.h"
#include "wire/keys.h"

#include <rql/base.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* ---- commands ---- */

/* Writes Redis commands into one buffer. Appending never fails half-way: when memory runs out the
 * buffer says so once, at the end. Our own formatter, because hiredis' allocates for each call. */

struct rqli_command {
    char *data;
    size_t length;
    size_t capacity;
    int n_commands; /* replies to expect; of the commands begun here */
    bool failed;    /* out of memory; length is meaningless */
    uint64_t texts; /* rqli_script_bit() of each script whose text is in it */
};

void rqli_command_reset(struct rqli_command *self); /* keeps the memory */

/* Room for so many bytes in all. False: no memory. */
bool rqli_command_reserve(struct rqli_command *self, size_t bytes);
void rqli_command_fini(struct rqli_command *self);

/* Opens a command of argc words; then exactly argc of the three below. */
void rqli_command_begin(struct rqli_command *self, size_t argc);
void rqli_command_slice(struct rqli_command *self, struct rqli_slice word);
void rqli_command_text(struct rqli_command *self, const char *word);
void rqli_command_int(struct rqli_command *self, int64_t word);

/* A whole command of texts, NULL behind the last one. */
__attribute__((sentinel)) void rqli_command_words(struct rqli_command *self, ...);
void rqli_command_list(struct rqli_command *self, va_list words);

/* Copies the bytes of another buffer behind the own, and nothing but the bytes: n_commands stays.
 * False: out of memory, nothing was copied. */
bool rqli_command_append(struct rqli_command *self, const struct rqli_command *other);

/* ---- calls ---- */

/* The embedded Lua scripts, made from lua/ by lua/embed.py. */

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

/* Sets of scripts have a bit for each. */
static inline uint64_t rqli_script_bit(enum rqli_script_id script)
{
    return UINT64_C(1) << script;
}

/* One call of a script: which one, for which lock or locks, with which words. Or a plain command,
 * which an operation has written, or whose words are the args. */

/* A call that may become part of one before it, which is not sent yet: of two that are joined the
 * words of the first one alone are at the begin, those of the last one alone at the end, and those
 * between them are of each. */
struct rqli_joint {
    const void *tells;  /* only compared; NULL: the call cannot be joined */
    const void *behind; /* what is told by the call that this has to stand behind; or NULL */
    size_t tail_bytes;  /* all but what is of the first one alone, and how many words */
    size_t n_tail;
    size_t last_bytes; /* what is of the last one alone */
    size_t n_last;
};

enum { RQLI_CALL_ARGS_MAX = 6 + 2 * RQL_META_MAX_PAIRS, RQLI_CALL_NUMBERS_SIZE = 192 };

struct rqli_call {
    struct rqli_command *out; /* what it will be written to */
    bool is_plain;            /* a command that is written already */
    bool is_draft;            /* only what it is about is asked: nothing is sent */
    bool brings_text;         /* the server shall know the script in any case */
    enum rqli_script_id script;
    const struct rqli_key_set *set;        /* the keys beside those of locks */
    const struct rqli_keys *keys;          /* of the lock, or of the first of a series; or NULL */
    const struct rqli_keys *const *series; /* of all, or NULL */
    size_t n_series;
    const void *tells; /* as in the joint */
    const void *behind;
    size_t n_args;
    size_t n_head; /* args of the first of several that are joined */
    size_t n_kept; /* with those of each; behind them are those of the last */
    size_t used;   /* of numbers */
    struct rqli_slice args[RQLI_CALL_ARGS_MAX];
    char numbers[RQLI_CALL_NUMBERS_SIZE];
};

/* What messages say it is, and is about: a script without a lock works on the hosts of the swarm.
 */
const char *rqli_call_name(const struct rqli_call *self);
const char *rqli_call_subject(const struct rqli_call *self);

/* keys and all texts are borrowed until the call is written. */
void rqli_call_init(struct rqli_call *self, enum rqli_script_id script,
                    const struct rqli_keys *keys);
/* For a script without a lock. */
void rqli_call_init_of_set(struct rqli_call *self, enum rqli_script_id script,
                           const struct rqli_key_set *set);
/* No script: one command of texts, NULL behind the last, about a key of this set. */
void rqli_call_init_words(struct rqli_call *self, const struct rqli_key_set *set, va_list words);
/* For a script that takes several locks of one set. The array is borrowed as well. */
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
/* Where a script wants a random number, to choose among waiters: 0 to 65535. */
void rqli_call_random(struct rqli_call *self);

/* What acquire.lua reads only when the lock is not simply free. */
struct rqli_acquire_args {
    char access;   /* q, r; Q, R: of one who holds other locks */
    char conflict; /* w, t, e, d */
    bool fail_fast;
    int64_t wait_ms;      /* -1: for ever */
    int64_t queue_ttl_ms; /* -1: for ever */
    int64_t score_us;     /* of the place in the queue that we had; 0: none */
    uint32_t random;      /* 0 to 65535 */
};

void rqli_call_acquire_args(struct rqli_call *self, const struct rqli_acquire_args *args);

/* No call takes the server longer than about a millisecond, so a queue with many dead waiters at
 * its head is served in several: this call serves a part of it, if the lock is free. */
void rqli_serve_write(const struct rqli_keys *keys, struct rqli_call *call);

/* As EVALSHA if the script is one of those that the server knows, or is in the command already;
 * else as EVAL, from which the server has it. */
void rqli_call_write(const struct rqli_call *self, struct rqli_command *command, uint64_t known);

/* Of one that tells something. */
struct rqli_joint rqli_call_joint(const struct rqli_call *self);

/* Where a call is in a buffer that others may be joined to. */
struct rqli_call_span {
    size_t at;
    size_t length;
    size_t last_bytes; /* at its end, that give way to what is joined next */
    size_t n_last;
};

/* Joins another to it, which is all there is in `other`. *more: how much longer it has become, or
 * shorter, and by how much all behind it has moved. False: no memory, nothing has changed. */
bool rqli_call_join(struct rqli_command *command, struct rqli_call_span *self,
                    const struct rqli_command *other, const struct rqli_joint *joint,
                    ptrdiff_t *more);

/* A call is written in two steps: here it begins, for an operation to fill it in; then
 * rqli_call_write(), unless it has become a plain command. */
static inline void rqli_call_begin(struct rqli_call *self, struct rqli_command *out)
{
    self->out = out;
    self->is_plain = false;
    self->is_draft = false;
}

#endif
