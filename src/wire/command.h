#ifndef RQLI_COMMAND_H
#define RQLI_COMMAND_H

/*
 * The bytes that are sent: commands, and calls of scripts. Pure: writes into memory only.
 */

#include "base/text.h"
#include "script_ids.h"
#include "wire/keys.h"

#include <rql/base.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* ---- commands ---- */

/* Writes Redis commands into one buffer. Appending never fails half-way: if memory runs out, the
 * buffer reports it once, at the end. This is our own formatter, because hiredis' allocates for
 * each call. */

struct rqli_command {
    char *data;
    size_t length;
    size_t capacity;
    int n_commands; /* number of replies to expect, for the commands begun here */
    bool failed;    /* out of memory; length is meaningless */
    uint64_t texts; /* rqli_script_bit() of each script whose text is in it */
};

void rqli_command_reset(struct rqli_command *self); /* keeps the memory */

/* Reserves room for this many bytes in all. False: no memory. */
bool rqli_command_reserve(struct rqli_command *self, size_t bytes);
void rqli_command_fini(struct rqli_command *self);

/* Begins a command of argc words; then exactly argc calls of the three functions below must
 * follow. */
void rqli_command_begin(struct rqli_command *self, size_t argc);
void rqli_command_slice(struct rqli_command *self, struct rqli_slice word);
void rqli_command_text(struct rqli_command *self, const char *word);
void rqli_command_int(struct rqli_command *self, int64_t word);

/* Writes a whole command of texts; NULL follows the last one. */
__attribute__((sentinel)) void rqli_command_words(struct rqli_command *self, ...);

/* Appends the bytes of another buffer, and nothing but the bytes: n_commands stays. False: out of
 * memory, nothing was copied. */
bool rqli_command_append(struct rqli_command *self, const struct rqli_command *other);

/* ---- calls ---- */

/* The embedded Lua scripts, made from lua/ by lua/embed.py. */

struct rqli_script {
    const char *name;
    const char *sha1;      /* lower-case hex, as EVALSHA wants it */
    const uint8_t *pieces; /* of its text, as indices of rqli_script_pieces */
    size_t n_pieces;
    size_t length;     /* of all of its text */
    size_t n_keys;     /* number for one lock */
    size_t n_repeated; /* the first of them, once for each lock of a series; 0: no series */
    size_t n_args;
    bool takes_more; /* n_args is the least */
};

extern const struct rqli_script rqli_scripts[RQLI_SCRIPT_COUNT];

/* Each text that scripts consist of, once. */
extern const struct rqli_slice rqli_script_pieces[];

/* Writes the text of a script; out has room for its length. */
void rqli_script_text(const struct rqli_script *self, char *out);

/* Returns the bit of a script in a set of scripts. */
static inline uint64_t rqli_script_bit(enum rqli_script_id script)
{
    return UINT64_C(1) << script;
}

/* The share of a lock that a request asks for (lua/optional.md 56). */
struct rqli_share {
    int units; /* 0: none, it wants the lock alone */
    int limit;
    bool has_slots;
};

/* One call of a script: which script, for which lock or locks, with which words. Or a plain
 * command, which an operation has written, or whose words are the args. */

/* The most that a request has: its words, the share or the limits, its metadata, traceparent,
 * rql_tell. */
enum { RQLI_CALL_ARGS_MAX = 8 + 2 * (RQL_META_MAX_PAIRS + 2), RQLI_CALL_NUMBERS_SIZE = 256 };

struct rqli_call {
    struct rqli_command *out; /* the command that it will be written to */
    bool is_plain;            /* a command that is already written */
    bool is_draft;            /* only its subject is wanted: nothing is sent */
    bool brings_text;         /* sends the text, so that the server surely has the script */
    enum rqli_script_id script;
    const struct rqli_key_set *set; /* the keys other than those of locks */
    const struct rqli_keys *keys;   /* keys of the lock, or of the first of a series; or NULL */
    const struct rqli_keys *const *series; /* keys of all locks, or NULL */
    size_t n_series;
    size_t n_args;
    size_t used; /* bytes used of `numbers` */
    struct rqli_slice args[RQLI_CALL_ARGS_MAX];
    char numbers[RQLI_CALL_NUMBERS_SIZE];
};

/* Return the name and the subject of a call for messages. A script without a lock works on the
 * hosts of the swarm. */
const char *rqli_call_name(const struct rqli_call *self);
const char *rqli_call_subject(const struct rqli_call *self);

/* Begins a call about one lock. keys and all texts are borrowed until the call is written. */
void rqli_call_init(struct rqli_call *self, enum rqli_script_id script,
                    const struct rqli_keys *keys);
/* Begins a call of a script without a lock. */
void rqli_call_init_of_set(struct rqli_call *self, enum rqli_script_id script,
                           const struct rqli_key_set *set);
/* Begins a call without a script: one command of texts, NULL after the last, about a key of this
 * set. */
void rqli_call_init_words(struct rqli_call *self, const struct rqli_key_set *set, va_list words);
/* Begins a call of a script that takes several locks of one set. The array is borrowed as well. */
void rqli_call_init_series(struct rqli_call *self, enum rqli_script_id script,
                           const struct rqli_keys *const *keys, size_t count);

/* Makes the call a plain command: the caller writes one command to the result. Its reply may be an
 * error reply. */
static inline struct rqli_command *rqli_call_plain(struct rqli_call *self)
{
    self->is_plain = true;
    return self->out;
}

void rqli_call_text(struct rqli_call *self, const char *text);
void rqli_call_slice(struct rqli_call *self, struct rqli_slice bytes);
void rqli_call_int(struct rqli_call *self, int64_t number);
/* Adds the words of a share, such as "1 8s". */
void rqli_call_share(struct rqli_call *self, const struct rqli_share *share);
/* Adds a random number, 0 to 65535, with which a script chooses among waiters. */
void rqli_call_random(struct rqli_call *self);

/* Arguments that acquire.lua reads only when the lock is not simply free. */
struct rqli_acquire_args {
    char access;   /* q, r; Q, R: the acquirer holds other locks */
    char conflict; /* w, t, e, d */
    bool fail_fast;
    int64_t wait_ms;      /* -1: for ever */
    int64_t queue_ttl_ms; /* -1: for ever */
    int64_t score_us;     /* score of the place that we had in the queue; 0: none */
    uint32_t random;      /* 0 to 65535 */
    int64_t max_waiters;  /* -1: any number */
    int64_t head_start_ms;
};

void rqli_call_acquire_args(struct rqli_call *self, const struct rqli_acquire_args *args);

/* Writes a call that serves a part of the queue, if the lock is free. No call takes the server
 * longer than about a millisecond, so a queue with many dead waiters at its head is served by
 * several calls. */
void rqli_serve_write(const struct rqli_keys *keys, struct rqli_call *call);

/* Writes the call: as EVALSHA if the script is one of those that the server knows, or is already in
 * the command; otherwise as EVAL, from which the server learns it. */
void rqli_call_write(const struct rqli_call *self, struct rqli_command *command, uint64_t known);

/* A call is written in two steps: it begins here, for an operation to fill it in; then comes
 * rqli_call_write(), unless it has become a plain command. */
static inline void rqli_call_begin(struct rqli_call *self, struct rqli_command *out)
{
    self->out = out;
    self->is_plain = false;
    self->is_draft = false;
}

#endif
