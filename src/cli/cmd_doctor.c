#include "cmd.h"
#include "format.h"
#include "messages.h"

#include <stdio.h>
#include <string.h>

/* doctor: checks the server and the locks on it. The worst problems come first. */

enum { LINE_SIZE = 1400, QUICK_MS = 1000, LEVELS = 5 };

static const char *const level_names[LEVELS] = {
    [RQL_CHECK_OK] = "ok",     [RQL_CHECK_NOTE] = "note", [RQL_CHECK_WARN] = "warn",
    [RQL_CHECK_FAIL] = "fail", [RQL_CHECK_SKIP] = "skip",
};

static void print_why(struct out *out, const char *word, const char *text)
{
    char line[LINE_SIZE];

    if (text) {
        (void)snprintf(line, sizeof line, "%s: %s", word, text);
        out_pair(out, "", line);
    }
}

/* Labels in the table. The ones that need action are in capitals, so that they stand out. */
static const char *const labels[LEVELS] = {
    [RQL_CHECK_OK] = "ok",     [RQL_CHECK_NOTE] = "note", [RQL_CHECK_WARN] = "WARN",
    [RQL_CHECK_FAIL] = "FAIL", [RQL_CHECK_SKIP] = "skip",
};

static void print_checks(struct out *out, const rql_report *report, rql_check_level level)
{
    for (size_t i = 0; i < report->count; i++) {
        const rql_check *check = report->check[i];

        if (check->level == level) {
            out_pair(out, labels[level], check->title);
            print_why(out, "why", check->why);
            print_why(out, "fix", check->fix);
        }
    }
}

static void print_table(struct out *out, const rql_report *report, bool shows_all)
{
    static const rql_check_level levels[] = {RQL_CHECK_FAIL, RQL_CHECK_WARN, RQL_CHECK_NOTE,
                                             RQL_CHECK_SKIP};
    const rql_server_info *server = report->server;
    const int64_t n_ok = (int64_t)report->count - report->n_notes - report->n_warnings -
                         report->n_failures - report->n_skipped;
    char up[CLI_DURATION_SIZE];
    char line[LINE_SIZE];

    out->wraps = true;
    (void)snprintf(line, sizeof line, "%s %s, %s, up %s, %.2f ms away", server->product,
                   server->version, server->node,
                   cli_format_duration(report->uptime_s < 0 ? -1 : report->uptime_s * 1000, up),
                   (double)server->round_trip_us / 1000);
    out_pair(out, "server", line);
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        print_checks(out, report, levels[i]);
    }
    if (shows_all) {
        print_checks(out, report, RQL_CHECK_OK);
    } else {
        (void)snprintf(line, sizeof line, "%lld checks (rql doctor --all)", (long long)n_ok);
        out_pair(out, "ok", line);
    }
    out_line(out, "%lld failure%s, %lld warning%s, %lld note%s", (long long)report->n_failures,
             report->n_failures == 1 ? "" : "s", (long long)report->n_warnings,
             report->n_warnings == 1 ? "" : "s", (long long)report->n_notes,
             report->n_notes == 1 ? "" : "s");
}

static void print_check(struct out *out, const rql_check *check)
{
    out_begin(out, NULL);
    out_text(out, NULL, "id", check->id);
    out_text(out, NULL, "group", check->group);
    out_text(out, NULL, "level", level_names[check->level]);
    out_text(out, NULL, "title", check->title);
    out_begin(out, "found");
    for (size_t i = 0; i < check->n_found; i++) {
        const rql_finding *found = &check->found[i];

        if (found->text) {
            out_text(out, NULL, found->name, found->text);
        } else {
            out_number(out, NULL, found->name, OUT_INT, found->number);
        }
    }
    out_end(out);
    out_text(out, NULL, "why", check->why);
    out_text(out, NULL, "fix", check->fix);
    out_end(out);
}

static void print_json(struct out *out, const rql_report *report)
{
    out_begin(out, NULL);
    cli_print_server(out, "server", report->server);
    out_number(out, NULL, "uptime_s", OUT_COUNT, report->uptime_s);
    out_begin_list(out, "checks");
    for (size_t i = 0; i < report->count; i++) {
        print_check(out, report->check[i]);
    }
    out_end(out);
    out_number(out, NULL, "fail", OUT_INT, report->n_failures);
    out_number(out, NULL, "warn", OUT_INT, report->n_warnings);
    out_number(out, NULL, "note", OUT_INT, report->n_notes);
    out_number(out, NULL, "skip", OUT_INT, report->n_skipped);
    out_end(out);
}

static int examine(struct cli_session *self)
{
    CLI_AUTO(rql_report_free) rql_report *report = NULL;
    const struct cli_args *args = self->args;
    rql_diagnose_options options;

    rql_diagnose_options_init(&options);
    options.time_limit_ms = args->quick ? QUICK_MS : options.time_limit_ms;
    options.max_keys = args->max_keys != CLI_UNSET ? args->max_keys : options.max_keys;
    if (rql_diagnose(self->client, &options, &report, &self->error) != RQL_OK) {
        return cli_fault(&self->error);
    }
    if (args->json) {
        print_json(&self->out, report);
    } else {
        print_table(&self->out, report, args->all);
    }
    if (report->n_failures + report->n_warnings + (args->strict ? report->n_notes : 0) == 0) {
        return CLI_DONE;
    }
    out_print(&self->out);
    return CLI_REFUSED;
}

const struct cli_command cli_doctor = {
    .name = "doctor",
    .usage = "[URL] [--quick] [--strict] [--json]",
    .summary = "Check the server and its locks; explain each problem",
    .examples = "  RQL_URL=redis://locks.example.com rql doctor\n",
    .notes = "Takes a lock of its own, rql-doctor-..., and changes nothing else. Exits with 1 if "
             "there is a failure or a warning. A URL with a password belongs in RQL_URL.\n",
    .takes_url = true,
    .finds_rights = true,
    .prepare = cli_take_url,
    .run = examine,
};
