#include "golden.h"

#include <dirent.h>
#include <stdlib.h>

/* Usage: replay RECORDINGS HEADERS PART PARTS. One test for each recording and each cast of it. */

enum { CASES_MAX = 256, PATH_SIZE = 512, FILE_MAX = 1 << 20 };

struct test_case {
    cJSON *recording;
    char ruby[4]; /* the process that is Ruby; "": none */
    char name[96];
};

static struct world world;
static struct test_case cases[CASES_MAX];
static size_t n_cases;
static const char *recordings;

static char *read_file(const char *folder, const char *name)
{
    char path[PATH_SIZE];
    char *text = malloc(FILE_MAX);
    FILE *file;
    size_t length;

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "r");
    if (!text || !file) {
        (void)fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    length = fread(text, 1, FILE_MAX - 1, file);
    (void)fclose(file);
    text[length] = '\0';
    return text;
}

static cJSON *read_json(const char *folder, const char *name)
{
    char *text = read_file(folder, name);
    cJSON *json = cJSON_Parse(text);

    if (!json) {
        (void)fprintf(stderr, "%s is no JSON, near: %.60s\n", name, cJSON_GetErrorPtr());
        exit(1);
    }
    free(text);
    return json;
}

/* ---- is the list right? ---- */

static bool has_recording(const char *scenario, int step)
{
    for (size_t i = 0; i < n_cases; i++) {
        if (strcmp(cJSON_GetObjectItem(cases[i].recording, "scenario")->valuestring, scenario) ==
            0) {
            return step < cJSON_GetArraySize(cJSON_GetObjectItem(cases[i].recording, "steps"));
        }
    }
    return false;
}

/* Every difference names a recording that is there, and says why, also in README.md. */
static void the_list_is_in_order(void **state)
{
    char *readme = read_file(recordings, "../README.md");
    const cJSON *item;

    (void)state;
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(golden_differences, "differences"))
    {
        const char *scenario = cJSON_GetObjectItem(item, "scenario")->valuestring;
        const cJSON *steps = cJSON_GetObjectItem(item, "steps");

        if (!has_recording(scenario, steps ? steps->child->valueint : 0)) {
            fail_msg("there is no recording %s, or not this step", scenario);
        }
        if (!strstr(readme, cJSON_GetObjectItem(item, "why")->valuestring)) {
            fail_msg("README.md does not say of %s: %s", scenario,
                     cJSON_GetObjectItem(item, "why")->valuestring);
        }
    }
    free(readme);
}

/* ---- what is replayed ---- */

static void replay(void **state)
{
    const struct test_case *self = *state;

    play(&world, self->recording, self->ruby);
}

static int end_replay(void **state)
{
    (void)state;
    world_end_replay(&world);
    return 0;
}

static int open_world(void **state)
{
    (void)state;
    world_open(&world);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    world_close(&world);
    return 0;
}

static struct test_case *add_case(cJSON *recording, const char *ruby)
{
    struct test_case *added = &cases[n_cases];

    if (n_cases == CASES_MAX) {
        (void)fprintf(stderr, "more than %d cases\n", CASES_MAX);
        exit(1);
    }
    n_cases++;
    added->recording = recording;
    (void)snprintf(added->ruby, sizeof added->ruby, "%s", ruby);
    (void)snprintf(added->name, sizeof added->name, "%s%s%s",
                   cJSON_GetObjectItem(recording, "scenario")->valuestring,
                   ruby[0] ? ", Ruby is " : "", ruby);
    return added;
}

static bool has_process(const cJSON *recording, const char *process)
{
    const cJSON *step;

    cJSON_ArrayForEach(step, cJSON_GetObjectItem(recording, "steps"))
    {
        const cJSON *by = cJSON_GetObjectItem(step, "by");

        if (by && cJSON_HasObjectItem(step, "op") && strcmp(by->valuestring, process) == 0) {
            return true;
        }
    }
    return false;
}

/* All processes are ours; then, if there are two, one of them is Ruby. */
static void add_casts(cJSON *recording)
{
    (void)add_case(recording, "");
    if (has_process(recording, "A") && has_process(recording, "B")) {
        (void)add_case(recording, "A");
        (void)add_case(recording, "B");
    }
}

static void read_recordings(void)
{
    struct dirent **entries = NULL;
    int count = scandir(recordings, &entries, NULL, alphasort);

    for (int i = 0; i < count; i++) {
        if (strstr(entries[i]->d_name, ".json")) {
            add_casts(read_json(recordings, entries[i]->d_name));
        }
        free(entries[i]);
    }
    free(entries);
}

static void free_recordings(void)
{
    for (size_t i = 0; i < n_cases; i++) {
        if (cases[i].ruby[0] == '\0') {
            cJSON_Delete(cases[i].recording);
        }
    }
    cJSON_Delete(golden_differences);
}

static struct CMUnitTest test_of(struct test_case *self)
{
    return (struct CMUnitTest){.name = self->name,
                               .test_func = replay,
                               .teardown_func = end_replay, /* after a jump */
                               .initial_state = self};
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[CASES_MAX + 1];
    size_t n_tests = 0;
    size_t part;
    int failed;

    if (argc != 4) {
        (void)fprintf(stderr, "usage: replay RECORDINGS PART PARTS\n");
        return 2;
    }
    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    recordings = argv[1];
    part = strtoul(argv[2], NULL, 10);
    golden_differences = read_json(recordings, "../differences.json");
    read_recordings();
    for (size_t i = part; i < n_cases; i += strtoul(argv[3], NULL, 10)) {
        tests[n_tests++] = test_of(&cases[i]);
    }
    tests[n_tests++] = (struct CMUnitTest)cmocka_unit_test(the_list_is_in_order);
    failed = _cmocka_run_group_tests("golden", tests, n_tests, open_world, close_world);
    free_recordings();
    return failed;
}
