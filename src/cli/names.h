#ifndef CLI_NAMES_H
#define CLI_NAMES_H

/* The client behind an id, in a readable form: "web-3 worker[14534]". */

#include "cmd.h"

enum { CLI_NAME_SIZE = 288 };

/* A zeroed struct knows no client. */
struct cli_names {
    rql_client_info_list *clients; /* NULL if they may not be read */
    bool shows_ids;
};

/* Returns whether several acquirers share the lock: then its ids are those of no client. */
bool cli_is_of_several(const rql_lock_info *info);

/* Reads the names of all clients. If they cannot be read, ids are shown instead. */
void cli_names_read(struct cli_names *self, struct cli_session *session);
void cli_names_free_p(struct cli_names *self);

/* Returns the value of a pair of metadata, or NULL. */
const char *cli_meta_value(const rql_meta *meta, size_t count, const char *name);

/* The pair that names who holds a lock, or waits for it, in place of the program of its client. */
#define CLI_HOLDER_NAME "holder"

static inline const char *cli_holder_in(const rql_meta *meta, size_t count)
{
    return cli_meta_value(meta, count, CLI_HOLDER_NAME);
}

/* Returns the name of an acquirer, in `out`; or its id, if the name is not known. holder: the pair
 * of its metadata, or NULL. */
const char *cli_acquirer_name(const struct cli_names *names, const char *id, const char *holder,
                              char out[CLI_NAME_SIZE]);

/* The same for a request, and for one of the holders. */
const char *cli_request_name(const struct cli_names *names, const rql_request_info *request,
                             char out[CLI_NAME_SIZE]);
const char *cli_holder_name(const struct cli_names *names, const rql_holder_info *holder,
                            char out[CLI_NAME_SIZE]);

/* Returns the name of who holds the lock, which may be NULL: or "8 holders", "kept", "-". */
const char *cli_lock_holder(const struct cli_names *names, const rql_lock_info *lock,
                            char out[CLI_NAME_SIZE]);

/* Returns the name of a host, in `out`; or its id, if the name is not known. */
const char *cli_host_name(const struct cli_names *names, const char *id, char out[CLI_NAME_SIZE]);

/* Prints an acquirer in a column or line, and in JSON its id and "client". The id may be NULL. */
void cli_print_acquirer(struct out *out, const struct cli_names *names, const char *heading,
                        const char *id, const char *holder);

/* Prints a host in the same way, with its thread. In JSON its client is that of the acquirer next
 * to it. */
void cli_print_host(struct out *out, const struct cli_names *names, const char *heading,
                    const char *id);

/* Prints "client" in JSON: null if it is not known. */
void cli_print_client(struct out *out, const struct cli_names *names, const char *id);

/* Prints a host of the swarm with its client, and whether it is dead. */
void cli_print_swarm_host(struct out *out, const struct cli_names *names, const rql_host_info *host,
                          int64_t server_us);

#endif
