#include "options/options.h"

#include "base/error.h"

#include <stdbool.h>
#include <string.h>

/*
 * Metadata is stored as further fields of the lock's hash, next to its own. So its names must
 * differ from those of fields that the gem or the scripts read.
 */

/* The lock's own fields, and names that a description of it has. The fields of librql all begin
 * with rql_, and some end in a nonce, so no list could have them. */
static bool is_reserved(const char *name)
{
    static const char *const fields[] = {"acq_id",       "hst_id",      "ts",
                                         "ini_ttl",      "lock_key",    "rem_ttl",
                                         "spc_cnt",      "spc_ext_ttl", "l_spc_ext_ini_ttl",
                                         "l_spc_ext_ts", "l_spc_ts"};

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (strcmp(fields[i], name) == 0) {
            return true;
        }
    }
    return strncmp(name, "rql_", 4) == 0;
}

/* Returns what is wrong with the last of n pairs, or NULL. Lengths are measured no further than the
 * limit, so that a value without a terminator is not read to its end. */
static const char *fault_of_last(const rql_meta *meta, size_t n, size_t *n_bytes)
{
    const rql_meta *pair = &meta[n - 1];

    if (!pair->name || !pair->value) {
        return "name or value is NULL";
    }
    *n_bytes += strnlen(pair->name, RQL_META_MAX_BYTES + 1);
    *n_bytes += strnlen(pair->value, RQL_META_MAX_BYTES + 1);
    if (*n_bytes > RQL_META_MAX_BYTES) {
        _Static_assert(RQL_META_MAX_BYTES == 16384, "the message says it in digits");
        return "the pairs have too many bytes; at most 16384 are allowed";
    }
    if (pair->name[0] == '\0') {
        return "name is empty";
    }
    if (is_reserved(pair->name)) {
        return "name is reserved: a field of the lock, or begins with rql_";
    }
    /* A field of a hash has one value: if two pairs had the same name, only the last would be
     * kept. */
    for (size_t i = 0; i + 1 < n; i++) {
        if (strcmp(meta[i].name, pair->name) == 0) {
            return "name is there twice";
        }
    }
    return NULL;
}

rql_status rqli_meta_check(const rql_meta *meta, size_t n_meta, rql_error *error)
{
    size_t n_bytes = 0;

    if (!meta && n_meta > 0) {
        return rqli_fail(error, RQL_E_INVALID, "meta is NULL while n_meta is %zu", n_meta);
    }
    if (n_meta > RQL_META_MAX_PAIRS) {
        return rqli_fail(error, RQL_E_INVALID, "n_meta is %zu; it must be 0 to %d", n_meta,
                         RQL_META_MAX_PAIRS);
    }
    /* Checks each pair against those before it. Their names are valid by then, and short enough to
     * compare. */
    for (size_t n = 1; n <= n_meta; n++) {
        const char *fault = fault_of_last(meta, n, &n_bytes);

        if (fault) {
            return rqli_fail(error, RQL_E_INVALID, "meta[%zu]: %s", n - 1, fault);
        }
    }
    return RQL_OK;
}
