#ifndef RQLI_OPTIONS_H
#define RQLI_OPTIONS_H

/* One table of all options: the only place with names, defaults and ranges. It fills and checks
 * every struct of options. Structs have the size that the caller was compiled with. */

#include <rql/admin.h>
#include <rql/options.h>

/* Name of the metadata that rql_lock_options::traceparent is kept in. */
#define RQLI_TRACEPARENT "traceparent"

/* The word of each rql_history_mode; NULL-terminated. */
extern const char *const rqli_history_words[];

/* The structs with options. */
enum rqli_option_struct {
    RQLI_OF_CLIENT, /* rql_options */
    RQLI_OF_LOCK,   /* rql_lock_options */
    RQLI_OF_SERIES, /* rql_series_options */
    RQLI_OF_SWEEP,  /* rql_sweep_options */
    RQLI_OF_SWARM,  /* rql_swarm_options */
    RQLI_N_OPTION_STRUCTS
};

struct rqli_option {
    rql_option_row shown; /* without a name: not an option of the client */

    enum rqli_option_kind {
        RQLI_OPTION_INT,
        RQLI_OPTION_BOOL,
        RQLI_OPTION_ENUM,
        RQLI_OPTION_TEXT,
    } kind;

    bool forever;      /* RQL_FOREVER is a value too */
    bool may_be_empty; /* a text that an empty variable sets, too */
    int64_t min;
    int64_t max;
    int64_t fallback;                  /* the default, as a number */
    const char *const *words;          /* of switches and strategies, by value; NULL-terminated */
    bool (*accepts)(const char *text); /* of a text; NULL: its reader checks it */

    struct {
        const char *name; /* NULL: this struct does not have it */
        size_t offset;
    } in[RQLI_N_OPTION_STRUCTS];
};

/* Returns the index-th row, of any struct, or NULL past the last one. */
const struct rqli_option *rqli_option_row(size_t index);

/* Returns the number of bytes of its field. */
size_t rqli_option_width(const struct rqli_option *self);

/* Returns the value of a number, switch or strategy, whatever bytes the field has. */
int64_t rqli_option_load(const struct rqli_option *self, const void *field);

/* Sets the options that a URL has: keys and values in turn, each terminated, "" after the last;
 * NULL: none. Their texts are borrowed. A message of RQL_E_INVALID repeats no byte of the URL. */
rql_status rqli_options_set_of_url(rql_options *options, const char *query, rql_error *error);

/* Replaces the texts of the options by copies in one secret, which the caller owns, because the URL
 * may have a password. NULL: no memory. */
char *rqli_options_keep_texts(rql_options *options);

/* Checks that an init call has written the size of this struct. NULL was never set up. */
rql_status rqli_options_check_set_up(enum rqli_option_struct which, const void *options,
                                     rql_error *error);

/* Fills a whole struct with the values of the client's options, or with defaults where these have
 * none. NULL: all defaults. */
void rqli_options_fill(enum rqli_option_struct which, void *out, const rql_options *client);

/* Does the same for a struct of a caller that has `size` bytes. */
void rqli_options_init(enum rqli_option_struct which, void *out, size_t size,
                       const rql_options *client);

/* Lays the caller's struct over the values of rqli_options_fill(), and checks it; NULL: only those
 * values. *out changes only on RQL_OK. */
rql_status rqli_options_read(enum rqli_option_struct which, void *out, const rql_options *client,
                             const void *given, rql_error *error);
/* Does the same over a struct that was filled before. */
rql_status rqli_options_read_over(enum rqli_option_struct which, void *out, const void *defaults,
                                  const void *given, rql_error *error);

/* The pairs that a request writes into its lock: those of the caller, its traceparent, and one that
 * says that its holder has on_wanted (lua/optional.md 71). */
static inline size_t rqli_meta_count(const rql_lock_options *options)
{
    return options->n_meta + (options->traceparent ? 1 : 0) + (options->on_wanted ? 1 : 0);
}

static inline rql_meta rqli_meta_at(const rql_lock_options *options, size_t index)
{
    if (index < options->n_meta) {
        return options->meta[index];
    }
    return index == options->n_meta && options->traceparent
               ? (rql_meta){RQLI_TRACEPARENT, options->traceparent}
               : (rql_meta){"rql_tell", "1"};
}

static inline rql_status rqli_lock_options_read(rql_lock_options *out,
                                                const rql_lock_options *defaults,
                                                const rql_lock_options *given, rql_error *error)
{
    return rqli_options_read_over(RQLI_OF_LOCK, out, defaults, given, error);
}

#endif
