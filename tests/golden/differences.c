#include "golden.h"

/* differences.json: {differences: [{scenario, step | from | steps, ruby, skip, options, result,
 * error, nested, state, why}]}. README.md explains it. */

cJSON *golden_differences;

static bool is_for_step(const cJSON *difference, int step)
{
    const cJSON *from = cJSON_GetObjectItem(difference, "from");
    const cJSON *steps = cJSON_GetObjectItem(difference, "steps");
    const cJSON *one;

    if (from) {
        return step >= from->valueint;
    }
    cJSON_ArrayForEach(one, steps)
    {
        if (one->valueint == step) {
            return true;
        }
    }
    return false;
}

/* "ruby" names the cast it is for; without it, it is for all. */
static bool is_for(const cJSON *difference, const char *scenario, int step, const char *ruby)
{
    const cJSON *cast = cJSON_GetObjectItem(difference, "ruby");

    return strcmp(cJSON_GetObjectItem(difference, "scenario")->valuestring, scenario) == 0 &&
           (!cast || strcmp(cast->valuestring, ruby) == 0) && is_for_step(difference, step);
}

/* Members of `changes` replace or join those of `target`; null takes one away. */
static void change_members(cJSON *target, const cJSON *changes)
{
    const cJSON *change;

    cJSON_ArrayForEach(change, changes)
    {
        cJSON_DeleteItemFromObjectCaseSensitive(target, change->string);
        if (!cJSON_IsNull(change)) {
            (void)cJSON_AddItemToObject(target, change->string, cJSON_Duplicate(change, true));
        }
    }
}

static void change_outcome(cJSON *step, const cJSON *difference)
{
    static const char *const parts[] = {"result", "error", "nested"};

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const cJSON *part = cJSON_GetObjectItem(difference, parts[i]);

        if (part) {
            if (i < 2) {
                cJSON_DeleteItemFromObject(step, "result");
                cJSON_DeleteItemFromObject(step, "error");
            }
            cJSON_DeleteItemFromObject(step, parts[i]);
            (void)cJSON_AddItemToObject(step, parts[i], cJSON_Duplicate(part, true));
        }
    }
}

static void change_part(cJSON *step, const cJSON *difference, const char *part)
{
    const cJSON *changes = cJSON_GetObjectItem(difference, part);

    if (!changes) {
        return;
    }
    if (!cJSON_HasObjectItem(step, part)) {
        (void)cJSON_AddObjectToObject(step, part);
    }
    change_members(cJSON_GetObjectItem(step, part), changes);
}

cJSON *differences_apply(const cJSON *recording, int step, const char *ruby)
{
    const char *scenario = cJSON_GetObjectItem(recording, "scenario")->valuestring;
    const cJSON *steps = cJSON_GetObjectItem(recording, "steps");
    cJSON *changed = cJSON_Duplicate(cJSON_GetArrayItem(steps, step), true);
    const cJSON *difference;

    cJSON_ArrayForEach(difference, cJSON_GetObjectItem(golden_differences, "differences"))
    {
        if (!is_for(difference, scenario, step, ruby)) {
            continue;
        }
        if (cJSON_HasObjectItem(difference, "skip")) {
            cJSON_Delete(changed);
            return NULL;
        }
        change_part(changed, difference, "options");
        change_part(changed, difference, "state");
        change_outcome(changed, difference);
    }
    return changed;
}
