#include "golden.h"

#include <math.h>
#include <stdlib.h>

/* A reader as strict as Ruby's Float() and Integer(), and stricter where the gem writes one form.
 */

static const char *const floats[] = {"ts", "l_spc_ts", "l_spc_ext_ts"};
static const char *const integers[] = {"ini_ttl", "spc_cnt", "spc_ext_ttl", "l_spc_ext_ini_ttl"};
static const char *const needed[] = {"acq_id", "hst_id", "ts", "ini_ttl"};

static bool is_among(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

#define IS_AMONG(name, names) is_among((name), (names), sizeof(names) / sizeof(names)[0])

/* As Float#to_s writes it: digits, a point, digits; the shortest that reads back the same. */
static bool is_float(const char *text)
{
    char shortest[32];
    size_t whole = strspn(text, "0123456789");
    size_t part;

    if (whole == 0 || text[whole] != '.') {
        return false;
    }
    part = strspn(text + whole + 1, "0123456789");
    if (part == 0 || part > 7 || text[whole + 1 + part] != '\0') {
        return false;
    }
    names_float(strtod(text, NULL), shortest);
    return strcmp(shortest, text) == 0;
}

/* Integer() reads "010" as octal and refuses "08", decimals and exponents. */
static bool is_integer(const char *text)
{
    size_t digits = strspn(text, "0123456789");

    return digits > 0 && digits < 19 && text[digits] == '\0' && (text[0] != '0' || digits == 1);
}

/* `rql:acq:1/2/3/4/identity`: `numbers` of them, then the identity. */
static bool is_id(const char *text, const char *prefix, int numbers)
{
    const char *at = text + strlen(prefix);

    if (strncmp(text, prefix, strlen(prefix)) != 0) {
        return false;
    }
    for (int i = 0; i < numbers; i++) {
        size_t digits = strspn(at, "0123456789");

        if (digits == 0 || at[digits] != '/') {
            return false;
        }
        at += digits + 1;
    }
    return at[0] != '\0' && strspn(at, "0123456789abcdef") == strlen(at);
}

static bool is_good_field(const char *name, const char *value)
{
    if (strcmp(name, "acq_id") == 0) {
        return is_id(value, "rql:acq:", 4);
    }
    if (strcmp(name, "hst_id") == 0) {
        return is_id(value, "rql:hst:", 3);
    }
    if (IS_AMONG(name, floats)) {
        return is_float(value);
    }
    if (IS_AMONG(name, integers)) {
        return is_integer(value);
    }
    return !own_is_field(name) || !own_field_fault(name, value);
}

static const char *lock_fault(const cJSON *fields)
{
    static char fault[GOLDEN_TEXT_SIZE];
    const cJSON *field;
    size_t found = 0;

    cJSON_ArrayForEach(field, fields)
    {
        const char *name = cJSON_GetArrayItem(field, 0)->valuestring;
        const char *value = cJSON_GetArrayItem(field, 1)->valuestring;

        if (!is_good_field(name, value)) {
            (void)snprintf(fault, sizeof fault, "field %s is \"%s\"", name, value);
            return fault;
        }
        found += IS_AMONG(name, needed) ? 1 : 0;
    }
    return found == sizeof needed / sizeof needed[0] ? NULL : "a field is missing";
}

/* Scores are epoch seconds; a double has no more than 7 decimals of them. */
static const char *queue_fault(const cJSON *requests)
{
    const cJSON *request;
    double before = 0;

    cJSON_ArrayForEach(request, requests)
    {
        double score = strtod(cJSON_GetArrayItem(request, 1)->valuestring, NULL);

        if (!is_id(cJSON_GetArrayItem(request, 0)->valuestring, "rql:acq:", 4)) {
            return "a member is no acquirer id";
        }
        if (!isfinite(score) || score < 1e9 || score > 1e10 || score < before) {
            return "a score is no instant";
        }
        before = score;
    }
    return NULL;
}

/* Hosts of the swarm and their last heartbeats. */
static const char *hosts_fault(const cJSON *hosts)
{
    const cJSON *host;

    cJSON_ArrayForEach(host, hosts)
    {
        if (!is_id(cJSON_GetArrayItem(host, 0)->valuestring, "rql:hst:", 3) ||
            !is_float(cJSON_GetArrayItem(host, 1)->valuestring)) {
            return "no host id or no instant";
        }
    }
    return NULL;
}

const char *strict_fault(const cJSON *key)
{
    const char *name = cJSON_GetObjectItem(key, "key")->valuestring;
    const char *type = cJSON_GetObjectItem(key, "type")->valuestring;
    const cJSON *value = cJSON_GetObjectItem(key, "value");

    if (own_is_key(name)) {
        return own_key_fault(key);
    }
    if (strncmp(name, "rql:lock:", 9) == 0) {
        return strcmp(type, "hash") == 0 ? lock_fault(value) : "a lock that is no hash";
    }
    if (strncmp(name, "rql:lock_queue:", 15) == 0) {
        return strcmp(type, "zset") == 0 ? queue_fault(value) : "a queue that is no zset";
    }
    if (strcmp(name, "rql:swarm:hsts") == 0) {
        return strcmp(type, "hash") == 0 ? hosts_fault(value) : "no hash";
    }
    return "a key that the gem does not know";
}
