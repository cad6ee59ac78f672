#ifndef RQLI_SCRIPT_CACHE_H
#define RQLI_SCRIPT_CACHE_H

/* Which scripts a server has, as it says when it is asked: a bit for each. */

#include "wire/command.h"
#include "wire/reply.h"

/* In several questions: Redis ends the connection of a client that has not logged in yet, and whose
 * command has more than ten words, before that can read why its login has failed. */
enum {
    RQLI_SCRIPT_CACHE_EACH = 8,
    RQLI_SCRIPT_CACHE_QUESTIONS =
        (RQLI_SCRIPT_COUNT + RQLI_SCRIPT_CACHE_EACH - 1) / RQLI_SCRIPT_CACHE_EACH
};

/* number: of the question, from 0. */
void rqli_script_cache_ask(struct rqli_command *command, int number);

/* Those that are there, by the answer to that question; none, where it does not say. */
uint64_t rqli_script_cache_read(const struct rqli_reply *reply, int number);

#endif
