#ifndef SCRIPTS_FIXTURE_H
#define SCRIPTS_FIXTURE_H

/* What the tests of scripts without the library share: acquirers that are numbers. */

#include "fixture.h"

#include "wire/command.h"

#define ACQUIRER "rql:acq:1/2/0/0/0123456789abcdef0123456789abcdef"
#define HOST "rql:hst:1/2/0/0123456789abcdef0123456789abcdef"
#define NONCE "00112233445566778899aabbccddeeff"
#define NEVER "9007199254740992"

enum { LOCKS = 8, WORDS = 64, KEY_SIZE = 32, WORD_SIZE = 128 };

static inline int set_up(void **state)
{
    (void)state;
    ask("FLUSHALL");
    ask("CONFIG RESETSTAT");
    return 0;
}

/* EVAL of a script for one or more locks called a, b, ...; a flush knows of the dead as well. */
static inline redisReply *eval(enum rqli_script_id id, size_t n_locks, const char *const *args,
                               size_t n_args)
{
    static const char *const kinds[] = {"rql:lock:", "rql:lock_queue:", "rql:req:"};
    char keys[LOCKS * 3][KEY_SIZE];
    const char *words[WORDS] = {"EVAL", rqli_scripts[id].text};
    char count[KEY_SIZE];
    size_t n = 3;

    for (size_t i = 0; i < n_locks * 3; i++) {
        (void)snprintf(keys[i], KEY_SIZE, "%s%c", kinds[i % 3], (char)('a' + i / 3));
        words[n++] = keys[i];
    }
    words[n++] = "rql:live";
    words[n++] = "rql:fence";
    if (id == RQLI_SCRIPT_FLUSH_LOCK || id == RQLI_SCRIPT_FLUSH_QUEUE) {
        words[n++] = "rql:swarm:hsts";
        words[n++] = "rql:swarm:suspects";
    }
    (void)snprintf(count, sizeof count, "%zu", n - 3);
    words[2] = count;
    for (size_t i = 0; i < n_args; i++) {
        words[n++] = args[i];
    }
    return redisCommandArgv(raw, (int)n, words, NULL);
}

/* Acquirer i of client i asks: for a, or for the series of the first locks. */
static inline redisReply *ask_for(enum rqli_script_id id, size_t n_locks, int i, int nonce,
                                  const char *how)
{
    char acquirer[WORD_SIZE];
    char host[WORD_SIZE];
    char nonces[LOCKS * 32 + 1] = "";
    const char *const args[] = {acquirer, host, "30000", nonces, NEVER, how};

    (void)snprintf(acquirer, sizeof acquirer, "rql:acq:1/%d/0/0/%032d", i, i);
    (void)snprintf(host, sizeof host, "rql:hst:1/%d/0/%032d", i, i);
    for (size_t at = 0; at < n_locks; at++) {
        (void)snprintf(nonces + 32 * at, 33, "%032d", nonce + 100 * (int)at);
    }
    return eval(id, n_locks, args, sizeof args / sizeof args[0]);
}

/* For a, or for the series of a, b and c. */
static inline redisReply *ask_as(enum rqli_script_id id, int i, int nonce, const char *how)
{
    return ask_for(id, id == RQLI_SCRIPT_ACQUIRE_SERIES ? 3 : 1, i, nonce, how);
}

static inline void ask_for_a(enum rqli_script_id id, int i)
{
    freeReplyObject(ask_as(id, i, 100 + i, "qw- 1000 0 1000 40000"));
}

static inline void release_a_of(int i)
{
    char nonce[WORD_SIZE];
    const char *const args[] = {nonce, "40000"};

    (void)snprintf(nonce, sizeof nonce, "%032d", 100 + i);
    freeReplyObject(eval(RQLI_SCRIPT_RELEASE, 1, args, sizeof args / sizeof args[0]));
}

static inline void check_holder(const char *name, int nonce)
{
    char text[TEXT_SIZE];

    ask_text(text, "HGET rql:lock:%s rql_nonce", name);
    assert_int_equal(strtol(text, NULL, 10), nonce);
}

#endif
