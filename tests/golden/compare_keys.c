#include "golden.h"

#include <math.h>
#include <stdlib.h>

/* A ttl counts from the instant of its lock, so a slow machine does not change it; what is left is
 * that the gem's clients stamp a lock some time before the server has it. */
enum { LIFE_TOLERANCE_MS = 400, CLAIM_MS = 1000, OWN_QUEUE_MS = 60000 };

static const char *field_of(const cJSON *hash, const char *name)
{
    const cJSON *field;

    cJSON_ArrayForEach(field, hash)
    {
        if (strcmp(cJSON_GetArrayItem(field, 0)->valuestring, name) == 0) {
            return cJSON_GetArrayItem(field, 1)->valuestring;
        }
    }
    return NULL;
}

static bool compare_hash(struct comparison *self, const char *key, const cJSON *recorded,
                         const cJSON *replayed)
{
    const cJSON *field;
    int left = cJSON_GetArraySize(recorded);

    cJSON_ArrayForEach(field, replayed)
    {
        const char *name = cJSON_GetArrayItem(field, 0)->valuestring;
        const char *value = cJSON_GetArrayItem(field, 1)->valuestring;
        const cJSON *was = cJSON_GetObjectItemCaseSensitive(recorded, name);

        if (own_is_field(name)) {
            continue;
        }
        if (!was) {
            return compare_fail(self, key, "has a field %s: %s", name, value);
        }
        if (!compare_text(self, was->valuestring, value)) {
            return compare_fail(self, key, "field %s was %s, is %s", name, was->valuestring, value);
        }
        left--;
    }
    return left == 0 || compare_differs(self, key, recorded, replayed);
}

static bool compare_zset(struct comparison *self, const char *key, const cJSON *recorded,
                         const cJSON *replayed)
{
    const cJSON *was;
    const cJSON *is = replayed->child;

    if (cJSON_GetArraySize(recorded) != cJSON_GetArraySize(replayed)) {
        return compare_differs(self, key, recorded, replayed);
    }
    cJSON_ArrayForEach(was, recorded)
    {
        for (int i = 0; i < 2; i++) {
            if (!compare_text(self, cJSON_GetArrayItem(was, i)->valuestring,
                              cJSON_GetArrayItem(is, i)->valuestring)) {
                return compare_differs(self, key, recorded, replayed);
            }
        }
        is = is->next;
    }
    return true;
}

/* From the instant in a recorded lock to its end, in ms; false: there is no such instant. */
static bool recorded_life(const struct comparison *self, const cJSON *recorded, double *out)
{
    const cJSON *ts = cJSON_GetObjectItem(cJSON_GetObjectItem(recorded, "value"), "ts");
    double pttl_ms = cJSON_GetObjectItem(recorded, "pttl")->valuedouble;
    double taken_s;

    if (ts && strcmp(ts->valuestring, "*") == 0) {
        *out = pttl_ms;
        return true;
    }
    if (!ts || pttl_ms < 0 || !names_time_of(ts->valuestring, self->at_s, &taken_s)) {
        return false;
    }
    *out = pttl_ms + (self->at_s - taken_s) * 1000;
    return true;
}

static bool replayed_life(const struct comparison *self, const cJSON *replayed, double *out)
{
    const char *ts = field_of(cJSON_GetObjectItem(replayed, "value"), "ts");
    double pttl_ms = cJSON_GetObjectItem(replayed, "pttl")->valuedouble;

    *out = ts ? pttl_ms + (self->now_s - strtod(ts, NULL)) * 1000 : 0;
    return ts && pttl_ms >= 0;
}

static bool compare_lock_ttl(struct comparison *self, const char *key, const cJSON *recorded,
                             const cJSON *replayed)
{
    double was = cJSON_GetObjectItem(recorded, "pttl")->valuedouble;
    double is = cJSON_GetObjectItem(replayed, "pttl")->valuedouble;
    double was_life;
    double life;

    if (recorded_life(self, recorded, &was_life) && replayed_life(self, replayed, &life)) {
        if (field_of(cJSON_GetObjectItem(replayed, "value"), "rql_claim") && was_life > CLAIM_MS) {
            was_life = CLAIM_MS; /* handed over and not claimed yet */
        }
        return fabs(was_life - life) < LIFE_TOLERANCE_MS ||
               compare_fail(self, key, "lived for %.0f ms, lives for %.0f ms", was_life, life);
    }
    return fabs(was - is) < (double)(LIFE_TOLERANCE_MS * wait_slowness()) ||
           compare_fail(self, key, "had %.0f ms left, has %.0f ms", was, is);
}

/* A lock that is here yet had ended in the recording, which was slower. */
static bool had_ended(const struct comparison *self, const cJSON *replayed)
{
    const char *ts = field_of(cJSON_GetObjectItem(replayed, "value"), "ts");
    double life_ms;
    double taken_s;

    return ts && names_recorded_time(&self->world->names, strtod(ts, NULL), &taken_s) &&
           replayed_life(self, replayed, &life_ms) && taken_s + life_ms / 1000 < self->at_s;
}

/* The other way round: this machine is slower. */
static bool has_ended(const struct comparison *self, const cJSON *recorded)
{
    const cJSON *ts = cJSON_GetObjectItem(cJSON_GetObjectItem(recorded, "value"), "ts");
    double life_ms;
    double taken_s;

    return recorded_life(self, recorded, &life_ms) &&
           names_replayed_time(&self->world->names, strtod(ts->valuestring, NULL), &taken_s) &&
           taken_s + (life_ms - LIFE_TOLERANCE_MS) / 1000 < self->now_s;
}

/* The gem's queues have none; one that ours waited in ends a minute after they were heard of. */
static bool compare_ttl(struct comparison *self, const char *key, const cJSON *recorded,
                        const cJSON *replayed)
{
    double was = cJSON_GetObjectItem(recorded, "pttl")->valuedouble;
    double is = cJSON_GetObjectItem(replayed, "pttl")->valuedouble;
    bool is_queue = strcmp(cJSON_GetObjectItem(recorded, "type")->valuestring, "zset") == 0;

    if (was >= 0 && is >= 0) {
        return compare_lock_ttl(self, key, recorded, replayed);
    }
    if (is_queue && is >= 0) {
        return is <= OWN_QUEUE_MS || compare_fail(self, key, "ends in %.0f ms", is);
    }
    return was == is || compare_fail(self, key, "had a ttl of %.0f ms, has %.0f ms", was, is);
}

static bool compare_key(struct comparison *self, const cJSON *recorded, const cJSON *replayed)
{
    const char *key = recorded->string;
    const cJSON *was = cJSON_GetObjectItem(recorded, "value");
    const cJSON *is = cJSON_GetObjectItem(replayed, "value");
    const char *type = cJSON_GetObjectItem(recorded, "type")->valuestring;

    if (strcmp(type, cJSON_GetObjectItem(replayed, "type")->valuestring) != 0) {
        return compare_fail(self, key, "was a %s", type);
    }
    if (strcmp(type, "hash") == 0 && !compare_hash(self, key, was, is)) {
        return false;
    }
    if (strcmp(type, "zset") == 0 && !compare_zset(self, key, was, is)) {
        return false;
    }
    if (strcmp(type, "string") == 0 && strcmp(was->valuestring, is->valuestring) != 0) {
        return compare_fail(self, key, "was %s, is %s", was->valuestring, is->valuestring);
    }
    return compare_ttl(self, key, recorded, replayed);
}

static const cJSON *find_key(const cJSON *keys, const char *name)
{
    const cJSON *key;

    cJSON_ArrayForEach(key, keys)
    {
        if (strcmp(cJSON_GetObjectItem(key, "key")->valuestring, name) == 0) {
            return key;
        }
    }
    return NULL;
}

/* Everything that is there was there. "*" is by differences.json. */
static bool compare_present(struct comparison *self, const cJSON *recorded, const cJSON *keys)
{
    const cJSON *key;

    cJSON_ArrayForEach(key, keys)
    {
        const char *name = cJSON_GetObjectItem(key, "key")->valuestring;
        const char *type = cJSON_GetObjectItem(key, "type")->valuestring;
        const cJSON *was = cJSON_GetObjectItemCaseSensitive(recorded, name);

        if (own_is_key(name) || cJSON_IsString(was)) {
            continue;
        }
        if (!was && (strcmp(type, "hash") != 0 || !had_ended(self, key))) {
            return compare_differs(self, name, NULL, key);
        }
        if (was && !compare_key(self, was, key)) {
            return false;
        }
    }
    return true;
}

bool compare_keys(struct comparison *self, const cJSON *recorded, const cJSON *dump)
{
    const cJSON *keys = cJSON_GetObjectItem(dump, "keys");
    const cJSON *was;

    self->now_s = strtod(cJSON_GetObjectItem(dump, "now")->valuestring, NULL);
    if (!compare_present(self, recorded, keys)) {
        return false;
    }
    cJSON_ArrayForEach(was, recorded)
    {
        if (cJSON_IsObject(was) && !find_key(keys, was->string) && !has_ended(self, was)) {
            return compare_differs(self, was->string, was, NULL);
        }
    }
    return true;
}
