#ifndef RQLI_CLIENT_NAME_H
#define RQLI_CLIENT_NAME_H

/*
 * What a client is called, for those who look: the names of its connections (CLIENT LIST), and its
 * entry in the list of clients (lua/README.md 51). Nothing depends on either: what the server says
 * to an entry is not read.
 */

#include "wire/command.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    RQLI_CLIENT_NAME_SIZE = 96,
    RQLI_CLIENT_ENTRY_SIZE = 512,
    RQLI_CLIENT_NAME_MS = 1200000, /* after which it is said again */
};

/* Constant but for due_us, when the client is new. Any thread. */
struct rqli_client_name {
    char of_commands;                  /* what the name of a connection for commands ends with */
    char place[RQLI_CLIENT_NAME_SIZE]; /* "web-3:14534" */
    char entry[RQLI_CLIENT_ENTRY_SIZE];
    struct rqli_keys keys;  /* of the call */
    const char *identity;   /* borrowed */
    _Atomic int64_t due_us; /* when the entry is to be written again */
};

/* set: that which has the hash of all clients. label: of the options; what JSON would escape
 * becomes '_'. */
void rqli_client_name_init(struct rqli_client_name *self, const struct rqli_key_set *set,
                           const char *identity, const char *label);

/* More of its entry, before the first login: ",\"name\":1", again and again. */
void rqli_client_name_add(struct rqli_client_name *self, const char *fields);

/* "rql:web-3:14534:c" of one for commands, ":b" of a swarm's, ":s" of a subscriber. */
void rqli_client_name_of_connection(const struct rqli_client_name *self, bool is_for_commands,
                                    char out[RQLI_CLIENT_NAME_SIZE]);

/* True, once in twenty minutes: the entry is to be written. A login writes it in any case. */
bool rqli_client_name_is_due(struct rqli_client_name *self, int64_t now_us);
void rqli_client_name_on_login(struct rqli_client_name *self, int64_t now_us);

/* The server does not let this user write it: it is not said again. */
void rqli_client_name_on_refused(struct rqli_client_name *self);

/* It did not get there by another connection than its own, whose next login would say it. */
void rqli_client_name_on_lost(struct rqli_client_name *self);

/* Reads a field of an entry by the mark in front of it, "\"host\":" for one. Entries are JSON for
 * other programs; ours have no escapes, so that a text ends at the next quote. An entry without the
 * field has an empty text, and the number -1. */
struct rqli_slice rqli_client_entry_text(struct rqli_slice entry, const char *mark);
int64_t rqli_client_entry_number(struct rqli_slice entry, const char *mark);

/* True: the entry was written, as far as is known. Where there are partitions it always is. */
bool rqli_client_name_is_said(struct rqli_client_name *self);

/* The command that removes it. */
void rqli_client_name_write_end(const struct rqli_client_name *self, struct rqli_command *command);

/* The call that writes it. Its text goes along: NOSCRIPT would be one more round trip. */
void rqli_client_name_call(const struct rqli_client_name *self, struct rqli_call *call);
void rqli_client_name_write(const struct rqli_client_name *self, struct rqli_command *command);

#endif
