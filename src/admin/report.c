#include "admin/report.h"

#include "admin/pages.h"
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* GROUP_SIZE: room for the part of an id before the dot. */
enum { FIRST_CHECKS = 32, LINE_SIZE = 1024, GROUP_SIZE = 8 };

struct check {
    rql_check shown; /* first: so freeing the check that was given away frees this struct */
    char group[GROUP_SIZE];
    rql_finding found[RQLI_REPORT_FOUND];
};

struct rqli_report {
    rql_report shown; /* first, as above */
    rql_server_info server;
    const char *groups; /* the groups that are wanted, or NULL: all */
    const char *node;   /* the server that the checks are about, or NULL */
    bool is_left_out;   /* the last check is of a group that is not wanted */
    size_t capacity;
    struct rqli_list texts; /* the texts of all checks */
    bool failed;            /* out of memory */
};

struct rqli_report *rqli_report_new(const char *groups)
{
    struct rqli_report *self = calloc(1, sizeof *self);

    if (self) {
        self->groups = groups;
    }
    return self;
}

struct rqli_report *rqli_report_free(struct rqli_report *self)
{
    if (self) {
        for (size_t i = 0; i < self->shown.count; i++) {
            free(self->shown.check[i]);
        }
        free(self->shown.check);
        rqli_list_fini_p(&self->texts);
        free(self);
    }
    return NULL;
}

rql_report *rql_report_free(rql_report *report)
{
    (void)rqli_report_free((struct rqli_report *)report);
    return NULL;
}

bool rqli_report_wants(const struct rqli_report *self, const char *groups)
{
    struct rqli_slice rest = rqli_slice_of(groups);
    bool is_wanted = !self->groups;

    while (rest.length > 0 && !is_wanted) {
        is_wanted = rqli_has_word(self->groups, rqli_slice_word(&rest));
    }
    return is_wanted;
}

/* Texts never move, so checks may point to them. */
static const char *keep(struct rqli_report *self, const char *text)
{
    rqli_list_add(&self->texts, rqli_slice_of(text), 0);
    self->failed = self->failed || self->texts.failed;
    return self->failed ? "" : self->texts.item[self->texts.count - 1].text.data;
}

static struct check *last(const struct rqli_report *self)
{
    return self->failed || self->is_left_out || self->shown.count == 0
               ? NULL
               : (struct check *)self->shown.check[self->shown.count - 1];
}

static bool reserve(struct rqli_report *self)
{
    size_t capacity = self->capacity > 0 ? 2 * self->capacity : FIRST_CHECKS;
    rql_check **check;

    if (self->shown.count < self->capacity) {
        return true;
    }
    check = reallocarray(self->shown.check, capacity, sizeof(rql_check *));
    if (!check) {
        return false;
    }
    self->shown.check = check;
    self->capacity = capacity;
    return true;
}

static void count(rql_report *report, rql_check_level level)
{
    report->n_notes += level == RQL_CHECK_NOTE;
    report->n_warnings += level == RQL_CHECK_WARN;
    report->n_failures += level == RQL_CHECK_FAIL;
    report->n_skipped += level == RQL_CHECK_SKIP;
}

void rqli_report_of(struct rqli_report *self, const char *node)
{
    self->node = node;
}

void rqli_report_add(struct rqli_report *self, const char *id, rql_check_level level,
                     const char *title, ...)
{
    struct check *check;
    size_t length = 0;
    char group[GROUP_SIZE];
    char text[LINE_SIZE];
    va_list list;

    (void)snprintf(group, sizeof group, "%.*s", (int)strcspn(id, "."), id);
    self->is_left_out = !rqli_report_wants(self, group);
    if (self->is_left_out) {
        return;
    }
    check = reserve(self) ? calloc(1, sizeof *check) : NULL;
    if (!check) {
        self->failed = true;
        return;
    }
    if (self->node) {
        length = (size_t)snprintf(text, sizeof text, "%.256s: ", self->node);
    }
    va_start(list, title);
    (void)vsnprintf(text + length, sizeof text - length, title, list);
    va_end(list);
    memcpy(check->group, group, sizeof group);
    check->shown = (rql_check){
        .id = id,
        .group = check->group,
        .level = level,
        .title = keep(self, text),
        .found = check->found,
    };
    self->shown.check[self->shown.count++] = &check->shown;
    count(&self->shown, level);
    if (self->node) {
        rqli_report_text(self, "node", self->node);
    }
}

void rqli_report_say(struct rqli_report *self, const char *why, const char *fix, ...)
{
    struct check *check = last(self);
    char text[LINE_SIZE];
    va_list list;

    if (!check || check->shown.level == RQL_CHECK_OK || check->shown.level == RQL_CHECK_SKIP) {
        return;
    }
    va_start(list, fix);
    (void)vsnprintf(text, sizeof text, fix, list);
    va_end(list);
    check->shown.why = why;
    check->shown.fix = keep(self, text);
}

static void find(struct rqli_report *self, rql_finding finding)
{
    struct check *check = last(self);

    if (check && check->shown.n_found < RQLI_REPORT_FOUND) {
        check->found[check->shown.n_found++] = finding;
    }
}

void rqli_report_number(struct rqli_report *self, const char *name, int64_t value)
{
    find(self, (rql_finding){.name = name, .number = value});
}

void rqli_report_text(struct rqli_report *self, const char *name, const char *text)
{
    find(self, (rql_finding){.name = name, .text = keep(self, text)});
}

rql_status rqli_report_give(struct rqli_report **self, const rql_server_info *server,
                            int64_t uptime_s, rql_report **out, rql_error *error)
{
    struct rqli_report *report = *self;

    if (report->failed) {
        return rqli_fail_nomem(error);
    }
    report->server = *server;
    report->shown.server = &report->server;
    report->shown.uptime_s = uptime_s;
    *out = &report->shown;
    *self = NULL;
    return RQL_OK;
}
