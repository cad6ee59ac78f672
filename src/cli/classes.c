#include "classes.h"

#include "exit.h"
#include "format.h"
#include "messages.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CLASS_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/"

static const char blanks[] = " \t\r\n";

static void close_file_p(FILE **file)
{
    if (*file) {
        (void)fclose(*file);
    }
}

/* Returns the index of the class of this name, and adds the class if it is new. There are never
 * more classes than lines, plus "other". */
static size_t class_named(struct cli_classes *self, const char *name)
{
    size_t i = 0;

    while (i < self->count && strcmp(self->class[i].name, name) != 0) {
        i++;
    }
    if (i == self->count) {
        self->class[self->count++].name = name;
    }
    return i;
}

/* Parses one line. Returns NULL, or an error text. Takes ownership of the text, unless the line is
 * empty or a comment. */
static const char *take_line(struct cli_classes *self, char **text)
{
    char *glob = *text + strspn(*text, blanks);
    char *end = glob + strlen(glob);
    char *class;

    while (end > glob && strchr(blanks, end[-1])) {
        *--end = '\0';
    }
    if (*glob == '\0' || *glob == '#') {
        return NULL;
    }
    for (class = end; class > glob && !strchr(blanks, class[-1]); class --) {
    }
    if (class == glob || class[strspn(class, CLASS_LETTERS)] != '\0') {
        return "a line is a glob, a blank, and a class of letters, digits and any of _-.:/";
    }
    if (self->n_lines == CLI_CLASSES_MAX) {
        return "more than 50 lines";
    }
    for (end = class; strchr(blanks, end[-1]); end--) {
        end[-1] = '\0';
    }
    if (!cli_glob_is_valid(glob)) {
        return "the glob is a bad pattern";
    }
    self->line[self->n_lines++] = (struct cli_class_line){*text, glob, class_named(self, class)};
    *text = NULL;
    return NULL;
}

bool cli_classes_read(struct cli_classes *self, const char *path)
{
    __attribute__((cleanup(close_file_p))) FILE *file = path ? fopen(path, "re") : NULL;
    CLI_AUTO(cli_free) char *text = NULL;
    const char *wrong = NULL;
    size_t size = 0;
    size_t number = 0;

    (void)class_named(self, "other");
    while (file && !wrong && getline(&text, &size, file) >= 0) {
        number++;
        wrong = take_line(self, &text);
    }
    if (wrong) {
        cli_say("%s: line %zu: %s", path, number, wrong);
    } else if (path && (!file || ferror(file))) {
        cli_say_errno(path, errno);
        return false;
    }
    return !wrong;
}

void cli_classes_free_p(struct cli_classes *self)
{
    for (size_t i = 0; i < self->n_lines; i++) {
        free(self->line[i].text);
    }
}

static struct cli_class *class_of(struct cli_classes *self, const char *name)
{
    for (size_t i = 0; i < self->n_lines; i++) {
        if (cli_glob_matches(self->line[i].glob, name)) {
            return &self->class[self->line[i].class];
        }
    }
    return &self->class[0];
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void cli_classes_count(struct cli_classes *self, const rql_lock_info_list *locks,
                       const rql_queue_info_list *queues, int64_t dead_ms)
{
    for (size_t i = 0; i < self->count; i++) {
        self->class[i] = (struct cli_class){.name = self->class[i].name};
    }
    for (size_t i = 0; i < locks->count; i++) {
        const rql_lock_info *info = locks->item[i];
        struct cli_class *class = class_of(self, info->name);

        if (info->status == RQL_KEY_ALIVE) {
            class->locks++;
            class->holders += info->n_holders;
            class->units_used += info->used_units;
            class->oldest_hold_ms =
                later(class->oldest_hold_ms, cli_age_ms(info->acquired_at_us, info->server_us));
        }
    }
    for (size_t i = 0; i < queues->count; i++) {
        const rql_queue_info *info = queues->item[i];
        struct cli_class *class = class_of(self, info->name);

        for (size_t j = 0; j < info->n_requests; j++) {
            const int64_t age_ms = cli_age_ms(info->requests[j]->score_us, info->server_us);

            class->waiting++;
            class->dead += age_ms >= dead_ms;
            class->oldest_wait_ms = later(class->oldest_wait_ms, age_ms);
        }
    }
}
