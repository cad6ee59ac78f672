#ifndef RQLI_OPTIONS_H
#define RQLI_OPTIONS_H

/* One table of all options: the one place that knows names, defaults and ranges. It fills and
 * checks every struct of options. Structs are of the size that the caller was compiled with. */

#include <rql/options.h>

/* The structs that have options. */
enum rqli_option_struct {
    RQLI_OF_CLIENT,   /* rql_options */
    RQLI_OF_LOCK,     /* rql_lock_options */
    RQLI_OF_SERIES,   /* rql_series_options */
    RQLI_OF_SWEEP,    /* rql_sweep_options */
    RQLI_OF_SWARM,    /* rql_swarm_options */
    RQLI_OF_DIAGNOSE, /* rql_diagnose_options */
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
    bool may_be_empty; /* a text */
    int64_t min;
    int64_t max;
    int64_t fallback;         /* the default, as a number */
    const char *const *words; /* of switches and strategies, by value; NULL-terminated */

    struct {
        const char *name; /* NULL: this struct does not have it */
        size_t offset;
    } in[RQLI_N_OPTION_STRUCTS];
};

/* The index-th row, of whichever struct, or NULL past the last one. */
const struct rqli_option *rqli_option_row(size_t index);

/* The index-th option of the client, or NULL past the last one. */
const struct rqli_option *rqli_option_at(size_t index);

/* Bytes of its field. */
size_t rqli_option_width(const struct rqli_option *self);

/* The value of a number, switch or strategy, whatever bytes the field has. */
int64_t rqli_option_load(const struct rqli_option *self, const void *field);
void rqli_option_store(const struct rqli_option *self, void *field, int64_t value);

bool rqli_option_accepts(const struct rqli_option *self, int64_t value);

/* name: what the user knows the field by. */
rql_status rqli_option_check(const struct rqli_option *self, const void *field, const char *name,
                             rql_error *error);

/* What a URL says of options: keys and values in turn, each terminated, "" behind them; NULL:
 * nothing. Their texts are borrowed. RQL_E_INVALID repeats no byte of it. */
rql_status rqli_options_set_of_url(rql_options *options, const char *query, rql_error *error);

/* Puts copies in place of its texts, which are one secret, the caller's; the URL may have a
 * password. NULL: no memory. */
char *rqli_options_keep_texts(rql_options *options);

/* Has an init call written the size of this struct? Not of NULL. */
rql_status rqli_options_check_set_up(enum rqli_option_struct which, const void *options,
                                     rql_error *error);

/* A whole struct with what the client's options say, or, where they say nothing, the defaults.
 * NULL: all defaults. */
void rqli_options_fill(enum rqli_option_struct which, void *out, const rql_options *client);

/* The same for a struct of a caller that has `size` bytes. */
void rqli_options_init(enum rqli_option_struct which, void *out, size_t size,
                       const rql_options *client);

/* The caller's struct over what rqli_options_fill() says, checked; NULL: just that. *out changes
 * only on RQL_OK. */
rql_status rqli_options_read(enum rqli_option_struct which, void *out, const rql_options *client,
                             const void *given, rql_error *error);
/* The same over a struct that was filled before. */
rql_status rqli_options_read_over(enum rqli_option_struct which, void *out, const void *defaults,
                                  const void *given, rql_error *error);

static inline rql_status rqli_lock_options_read(rql_lock_options *out,
                                                const rql_lock_options *defaults,
                                                const rql_lock_options *given, rql_error *error)
{
    return rqli_options_read_over(RQLI_OF_LOCK, out, defaults, given, error);
}

/* Metadata: few and small pairs that cannot pass for fields of the lock. RQL_E_INVALID names the
 * first pair that is wrong, by its index. */
rql_status rqli_meta_check(const rql_meta *meta, size_t n_meta, rql_error *error);

#endif
