#ifndef RQLI_CLIENT_NAME_H
#define RQLI_CLIENT_NAME_H

/*
 * The names of a client, for people who look: the names of its connections (CLIENT LIST), and its
 * entry in the list of clients (lua/README.md 51). Nothing depends on either: if the server refuses
 * the entry, the client only stops writing it, or writes it later.
 */

#include "wire/command.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    RQLI_CLIENT_NAME_SIZE = 96,
    RQLI_CLIENT_ENTRY_SIZE = 512,
    RQLI_CLIENT_NAME_MS = 1200000, /* after which the entry is written again */
};

/* Constant except for due_us, once the client is set up. Any thread. */
struct rqli_client_name {
    char of_commands;                  /* the last letter of a command connection's name */
    char place[RQLI_CLIENT_NAME_SIZE]; /* "web-3:14534" */
    char entry[RQLI_CLIENT_ENTRY_SIZE];
    struct rqli_keys keys;  /* of the call that writes the entry */
    const char *identity;   /* borrowed */
    _Atomic int64_t due_us; /* when the entry is to be written again */
};

/* Makes the names. set: the set of keys that has the hash of all clients. label: from the options;
 * each byte that JSON would escape becomes '_'. */
void rqli_client_name_init(struct rqli_client_name *self, const struct rqli_key_set *set,
                           const char *identity, const char *label);

/* Adds fields to the entry, before the first login: ",\"name\":1", one or more of them. */
void rqli_client_name_add(struct rqli_client_name *self, const char *fields);

/* Prints a connection's name: "rql:web-3:14534:c" for commands, ":b" for commands of a swarm, ":s"
 * for a subscriber. */
void rqli_client_name_of_connection(const struct rqli_client_name *self, bool is_for_commands,
                                    char out[RQLI_CLIENT_NAME_SIZE]);

/* Returns true once in twenty minutes: the entry is to be written. A login writes it in any
 * case. */
bool rqli_client_name_is_due(struct rqli_client_name *self, int64_t now_us);
void rqli_client_name_on_login(struct rqli_client_name *self, int64_t now_us);

/* Notes that the server does not let this user write the entry: it is not due again. */
void rqli_client_name_on_refused(struct rqli_client_name *self);

/* Notes that the entry was lost on a connection other than its own, whose next login would write
 * it: it is due at once. */
void rqli_client_name_on_lost(struct rqli_client_name *self);

/* Reads a field of an entry by the mark in front of it, for example "\"host\":". Entries are JSON
 * for other programs; ours contain no escapes, so a text ends at the next quote. If the entry lacks
 * the field, its text is empty and its number is -1. */
struct rqli_slice rqli_client_entry_text(struct rqli_slice entry, const char *mark);
int64_t rqli_client_entry_number(struct rqli_slice entry, const char *mark);

/* Writes who an entry describes, as in "web-3 worker[814]". Returns false, and writes nothing, if
 * the entry is empty, or another program has written it. */
bool rqli_client_entry_write(struct rqli_writer *out, struct rqli_slice entry);

/* Returns true if the entry was written, as far as is known. With partitions it always is. */
bool rqli_client_name_is_said(struct rqli_client_name *self);

/* Writes the command that removes the entry. */
void rqli_client_name_write_end(const struct rqli_client_name *self, struct rqli_command *command);

/* Makes, or makes and writes, the call that writes the entry. The text of its script is sent along,
 * because NOSCRIPT would cost one more round trip. */
void rqli_client_name_call(const struct rqli_client_name *self, struct rqli_call *call);
void rqli_client_name_write(const struct rqli_client_name *self, struct rqli_command *command);

#endif
