#include "golden.h"

/* A recorded value in the form of a dump. */
static cJSON *as_dumped(const cJSON *recorded)
{
    const cJSON *value = cJSON_GetObjectItem(recorded, "value");
    cJSON *key = cJSON_Duplicate(recorded, false);
    cJSON *pairs = cJSON_CreateArray();
    const cJSON *field;

    (void)cJSON_AddStringToObject(key, "key", recorded->string);
    (void)cJSON_AddStringToObject(key, "type", cJSON_GetObjectItem(recorded, "type")->valuestring);
    if (!cJSON_IsObject(value)) {
        (void)cJSON_AddItemToObject(key, "value", cJSON_Duplicate(value, true));
        cJSON_Delete(pairs);
        return key;
    }
    cJSON_ArrayForEach(field, value)
    {
        const char *const pair[] = {field->string, field->valuestring};

        (void)cJSON_AddItemToArray(pairs, cJSON_CreateStringArray(pair, 2));
    }
    (void)cJSON_AddItemToObject(key, "value", pairs);
    return key;
}

/* What the gem itself left broken need not be in order. */
static bool was_broken(const cJSON *recorded)
{
    cJSON *key;
    bool is_broken;

    if (!recorded || cJSON_IsString(recorded)) {
        return recorded != NULL;
    }
    key = as_dumped(recorded);
    is_broken = strict_fault(key) != NULL;
    cJSON_Delete(key);
    return is_broken;
}

static bool check_strictly(struct comparison *self, const cJSON *state, const cJSON *dump)
{
    const cJSON *key;

    cJSON_ArrayForEach(key, cJSON_GetObjectItem(dump, "keys"))
    {
        const char *name = cJSON_GetObjectItem(key, "key")->valuestring;
        const char *fault = strict_fault(key);

        if (fault && !was_broken(cJSON_GetObjectItemCaseSensitive(state, name))) {
            return compare_fail(self, name, "Ruby would refuse it: %s", fault);
        }
    }
    return true;
}

bool state_check(struct comparison *self, const cJSON *step)
{
    const cJSON *state = cJSON_GetObjectItem(step, "state");
    struct names before = self->world->names;
    cJSON *dump = world_dump(self->world);
    bool fits = compare_keys(self, state, dump) && check_strictly(self, state, dump);

    if (!fits) {
        self->world->names = before;
    }
    cJSON_Delete(dump);
    return fits;
}
