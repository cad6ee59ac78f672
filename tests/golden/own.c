#include "golden.h"

#include <stdlib.h>

/* Everything that the library writes and the gem does not. The gem takes such fields for metadata
 * and does not see such keys. */

static const char *const keys[] = {"rql:live", "rql:fence", "rql:swarm:suspects",
                                   "rql:swarm:flusher"};
static const char *const key_prefix = "rql:req:";

static bool has_form(const char *text, const char *digits, size_t length)
{
    return strlen(text) == length && strspn(text, digits) == length;
}

static bool is_nonce(const char *text)
{
    return has_form(text, "0123456789abcdef", 32);
}

static bool is_whole(const char *text)
{
    return text[0] != '\0' && text[0] != '0' && has_form(text, "0123456789", strlen(text));
}

bool own_is_acquirer(const char *id)
{
    const char *identity = strrchr(id, '/');

    return identity && is_nonce(identity + 1);
}

bool own_is_key(const char *key)
{
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (strcmp(keys[i], key) == 0) {
            return true;
        }
    }
    return strncmp(key, key_prefix, strlen(key_prefix)) == 0;
}

bool own_is_field(const char *name)
{
    return strncmp(name, "rql_", 4) == 0;
}

const char *own_field_fault(const char *name, const char *value)
{
    if (strcmp(name, "rql_nonce") == 0 || strcmp(name, "rql_spc") == 0) {
        return is_nonce(value) ? NULL : "not 32 hexadecimal digits";
    }
    if (strcmp(name, "rql_token") == 0) {
        return is_whole(value) && strtod(value, NULL) < 9007199254740992.0 ? NULL : "no token";
    }
    if (strcmp(name, "rql_end") == 0) {
        return is_whole(value) ? NULL : "no instant";
    }
    if (strcmp(name, "rql_claim") == 0) {
        return strcmp(value, "1") == 0 ? NULL : "not 1";
    }
    if (strncmp(name, "rql_ext:", 8) == 0 && is_nonce(name + 8)) {
        return is_whole(value) ? NULL : "no ttl";
    }
    return "a field that nobody stated";
}

const char *own_key_fault(const cJSON *key)
{
    const char *name = cJSON_GetObjectItem(key, "key")->valuestring;
    const char *type = cJSON_GetObjectItem(key, "type")->valuestring;
    bool has_end = cJSON_GetObjectItem(key, "pttl")->valueint > 0;
    const cJSON *value = cJSON_GetObjectItem(key, "value");

    if (strcmp(name, "rql:fence") == 0) {
        return strcmp(type, "string") == 0 && is_whole(value->valuestring) ? NULL : "no token";
    }
    if (!has_end) {
        return "without a ttl";
    }
    if (strcmp(name, "rql:swarm:flusher") == 0) {
        return strcmp(type, "string") == 0 && is_nonce(value->valuestring) ? NULL : "no identity";
    }
    if (strcmp(name, "rql:live") == 0) {
        return strcmp(type, "zset") == 0 && is_nonce(value->child->child->valuestring)
                   ? NULL
                   : "no heartbeats";
    }
    return strcmp(type, "hash") == 0 ? NULL : "no hash";
}
