#include "wire/keys.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define TEXT(text)                                                                                 \
    {                                                                                              \
        (text), sizeof(text) - 1                                                                   \
    }

#define KEY_SET(prefix_text, none_text)                                                            \
    {                                                                                              \
        .prefix = TEXT(prefix_text), .live = TEXT(prefix_text "live"),                             \
        .fence = TEXT(prefix_text "fence"), .era = TEXT(prefix_text "era"),                        \
        .hosts = TEXT(prefix_text "swarm:hsts"), .suspects = TEXT(prefix_text "swarm:suspects"),   \
        .flusher = TEXT(prefix_text "swarm:flusher"), .clients = TEXT(prefix_text "clients"),      \
        .none = TEXT(none_text),                                                                   \
    }

#define PARTITION(tag) KEY_SET(RQLI_PREFIX "{" tag "}:", RQLI_PREFIX "{" tag "}:none"),

/* A tag in braces puts all keys of a partition in one slot, even if the name has braces. */
const struct rqli_key_set rqli_key_sets[RQLI_KEY_SETS] = {
#include "wire/partitions.def"
    [RQLI_WHOLE] = KEY_SET(RQLI_PREFIX, ""),
};

struct rqli_slice rqli_usage_key(const struct rqli_key_set *set, int64_t day,
                                 char out[RQLI_HISTORY_KEY_SIZE])
{
    const time_t begin = (time_t)(day * 86400);
    char date[sizeof "2026-11-29"];
    struct tm utc;

    (void)strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&begin, &utc));
    (void)snprintf(out, RQLI_HISTORY_KEY_SIZE, "%susage:%s", set->prefix.data, date);
    return rqli_slice_of(out);
}

struct rqli_slice rqli_history_key(const struct rqli_key_set *set, char out[RQLI_HISTORY_KEY_SIZE])
{
    (void)snprintf(out, RQLI_HISTORY_KEY_SIZE, "%shistory", set->prefix.data);
    return rqli_slice_of(out);
}

void rqli_usage_field(struct rqli_slice user, struct rqli_slice host, struct rqli_slice name,
                      char out[RQLI_USAGE_FIELD_SIZE])
{
    (void)snprintf(out, RQLI_USAGE_FIELD_SIZE, "%.*s\t%.*s\t%.*s", (int)user.length, user.data,
                   (int)host.length, host.data, (int)name.length, name.data);
}

/* CRC-16/XMODEM, computed by half bytes. */
static unsigned crc16(struct rqli_slice text)
{
    static const uint16_t of_half[] = {
        0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
        0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef,
    };
    uint16_t crc = 0;

    for (size_t i = 0; i < text.length; i++) {
        unsigned byte = (unsigned char)text.data[i];

        crc = (uint16_t)(crc << 4) ^ of_half[(crc >> 12 ^ byte >> 4) & 0xf];
        crc = (uint16_t)(crc << 4) ^ of_half[(crc >> 12 ^ byte) & 0xf];
    }
    return crc;
}

/* Hashes the text between the first brace and the first closing one after it, or all. */
unsigned rqli_keyslot(struct rqli_slice name)
{
    const char *end = name.data + name.length;
    const char *open = memchr(name.data, '{', name.length);
    const char *tag = open ? open + 1 : end;
    const char *close = memchr(tag, '}', (size_t)(end - tag));
    bool has_tag = close && close > tag;

    return crc16(has_tag ? (struct rqli_slice){tag, (size_t)(close - tag)} : name) % RQLI_KEYSLOTS;
}

unsigned rqli_partition_of(struct rqli_slice name)
{
    return rqli_keyslot(name) / (RQLI_KEYSLOTS / RQLI_PARTITIONS);
}

/* "{00axj}:" */
enum { TAG_LENGTH = 8 };

/* The part between the prefix and the name. */
static const struct rqli_slice of_lock = TEXT("lock:");
static const struct rqli_slice of_queue = TEXT("lock_queue:");
static const struct rqli_slice of_requests = TEXT("req:");

/* Joins the parts of a key, terminates it and moves the cursor past it. */
static inline struct rqli_slice join(char **cursor, struct rqli_slice prefix,
                                     struct rqli_slice kind, struct rqli_slice name)
{
    char *key = *cursor;
    char *end = key + prefix.length + kind.length + name.length;

    memcpy(key, prefix.data, prefix.length);
    memcpy(key + prefix.length, kind.data, kind.length);
    memcpy(end - name.length, name.data, name.length);
    *end = '\0';
    *cursor = end + 1;
    return (struct rqli_slice){key, (size_t)(end - key)};
}

/* Returns the value of a hexadecimal digit; 16: it is not one. */
static unsigned digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *found = memchr(digits, c, sizeof digits - 1);

    return found ? (unsigned)(found - digits) : 16;
}

/* The number of the partition is at the start of the tag. */
const struct rqli_key_set *rqli_key_set_in(struct rqli_slice key)
{
    enum { TAG_AT = sizeof RQLI_PREFIX }; /* after the brace */

    const struct rqli_key_set *set = &rqli_key_sets[RQLI_WHOLE];

    if (!rqli_has_prefix(key, set->prefix)) {
        return NULL;
    }
    if (key.length >= TAG_AT && key.data[TAG_AT - 1] == '{') {
        bool has_number = key.length > TAG_AT + 1;
        unsigned partition =
            has_number ? 16 * digit(key.data[TAG_AT]) + digit(key.data[TAG_AT + 1]) : RQLI_WHOLE;

        set = partition < RQLI_PARTITIONS ? &rqli_key_sets[partition] : NULL;
    }
    return set && rqli_has_prefix(key, set->prefix) ? set : NULL;
}

struct rqli_slice rqli_name_in(struct rqli_slice key, const char *prefix)
{
    const struct rqli_key_set *set = rqli_key_set_in(key);
    const struct rqli_slice kind = rqli_slice_of(prefix + sizeof RQLI_PREFIX - 1);
    size_t length = set ? set->prefix.length : key.length;
    struct rqli_slice rest = {key.data + length, key.length - length};

    length = rqli_has_prefix(rest, kind) ? kind.length : rest.length;
    return (struct rqli_slice){rest.data + length, rest.length - length};
}

/* Returns the room for three keys with their terminators. */
size_t rqli_keys_room(struct rqli_slice name)
{
    return 3 * (sizeof RQLI_PREFIX - 1 + TAG_LENGTH + name.length + 1) + of_lock.length +
           of_queue.length + of_requests.length;
}

void rqli_keys_init(struct rqli_keys *self, char *memory, const struct rqli_key_set *set,
                    struct rqli_slice name)
{
    self->set = set;
    self->lock = join(&memory, set->prefix, of_lock, name);
    self->queue = join(&memory, set->prefix, of_queue, name);
    self->requests = join(&memory, set->prefix, of_requests, name);
}
