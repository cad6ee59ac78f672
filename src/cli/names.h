#ifndef CLI_NAMES_H
#define CLI_NAMES_H

/* Who is behind an id, as people know it: "web-3 worker[14534]". */

#include "cmd.h"

enum { CLI_NAME_SIZE = 256 };

/* Zero knows nobody. */
struct cli_names {
    rql_client_info_list *clients; /* or NULL: they may not be read */
    bool shows_ids;
};

/* What the command asks for. Clients that cannot be read are not known: their ids are shown. */
void cli_names_read(struct cli_names *self, struct cli_session *session);
void cli_names_free_p(struct cli_names *self);

/* The name of an acquirer, in `out`; or its id, if nobody knows. */
const char *cli_acquirer_name(const struct cli_names *names, const char *id,
                              char out[CLI_NAME_SIZE]);

/* An acquirer in a column or line, and in JSON by its id under this key, with "client" behind it;
 * or not there without a key. NULL is fine. */
void cli_print_acquirer(struct out *out, const struct cli_names *names, const char *heading,
                        const char *key, const char *id);

/* The same of a host, with its thread. In JSON its client is that of the acquirer beside it. */
void cli_print_host(struct out *out, const struct cli_names *names, const char *heading,
                    const char *id);

/* "client" in JSON: null if nobody knows. */
void cli_print_client(struct out *out, const struct cli_names *names, const char *id);

#endif
