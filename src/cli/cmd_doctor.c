#include "cmd.h"
#include "doctor/doctor.h"
#include "format.h"
#include "url.h"

#include <stdio.h>
#include <string.h>

/* doctor: prints the checks of the server and the locks on it. The worst problems come first. */

enum { LINE_SIZE = 1400, LIMIT_MS = 5000, QUICK_MS = 1000, MAX_KEYS = 100000 };

static void print_why(struct out *out, const char *word, const char *text)
{
    char line[LINE_SIZE];

    if (text) {
        (void)snprintf(line, sizeof line, "%s: %s", word, text);
        out_pair(out, "", line);
    }
}

/* Prints the checks of one level. The labels that ask for action are in capitals, so that they
 * stand out. */
static void print_checks(struct out *out, const struct doctor *doctor, enum doctor_level level)
{
    static const char *const labels[DOCTOR_LEVELS] = {
        [DOCTOR_OK] = "ok",     [DOCTOR_NOTE] = "note", [DOCTOR_WARN] = "WARN",
        [DOCTOR_FAIL] = "FAIL", [DOCTOR_SKIP] = "skip",
    };

    for (size_t i = 0; i < doctor->n_checks; i++) {
        const struct doctor_check *check = &doctor->checks[i];

        if (check->level == level) {
            out_pair(out, labels[level], check->title);
            print_why(out, "why", check->why);
            print_why(out, "fix", check->fix);
        }
    }
}

static const char *plural(size_t count)
{
    return count == 1 ? "" : "s";
}

static void print_table(struct out *out, const struct doctor *doctor, bool shows_all)
{
    const rql_server_info *server = &doctor->first;
    const int64_t uptime_ms = doctor->uptime_s < 0 ? -1 : doctor->uptime_s * 1000;
    const size_t *n_of = doctor->n_of;
    char up[CLI_DURATION_SIZE];
    char line[LINE_SIZE];

    out->wraps = true;
    (void)snprintf(line, sizeof line, "%s %s, %s, up %s, %.2f ms away", server->product,
                   server->version, server->node, cli_format_duration(uptime_ms, up),
                   (double)server->round_trip_us / 1000);
    out_pair(out, "server", line);
    print_checks(out, doctor, DOCTOR_FAIL);
    print_checks(out, doctor, DOCTOR_WARN);
    print_checks(out, doctor, DOCTOR_NOTE);
    print_checks(out, doctor, DOCTOR_SKIP);
    if (shows_all) {
        print_checks(out, doctor, DOCTOR_OK);
    } else {
        (void)snprintf(line, sizeof line, "%zu check%s (rql doctor --all)", n_of[DOCTOR_OK],
                       plural(n_of[DOCTOR_OK]));
        out_pair(out, "ok", line);
    }
    out_line(out, "%zu failure%s, %zu warning%s, %zu note%s", n_of[DOCTOR_FAIL],
             plural(n_of[DOCTOR_FAIL]), n_of[DOCTOR_WARN], plural(n_of[DOCTOR_WARN]),
             n_of[DOCTOR_NOTE], plural(n_of[DOCTOR_NOTE]));
}

static void print_check(struct out *out, const struct doctor_check *check)
{
    static const char *const names[DOCTOR_LEVELS] = {
        [DOCTOR_OK] = "ok",     [DOCTOR_NOTE] = "note", [DOCTOR_WARN] = "warn",
        [DOCTOR_FAIL] = "fail", [DOCTOR_SKIP] = "skip",
    };
    char group[LINE_SIZE];

    (void)snprintf(group, sizeof group, "%.*s", (int)strcspn(check->id, "."), check->id);
    out_begin(out, NULL);
    out_text(out, NULL, "id", check->id);
    out_text(out, NULL, "group", group);
    out_text(out, NULL, "level", names[check->level]);
    out_text(out, NULL, "title", check->title);
    out_begin(out, "found");
    for (size_t i = 0; i < check->n_found; i++) {
        const struct doctor_fact *found = &check->found[i];

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

static void print_json(struct out *out, const struct doctor *doctor)
{
    out_begin(out, NULL);
    cli_print_server(out, "server", &doctor->first);
    out_number(out, NULL, "uptime_s", OUT_COUNT, doctor->uptime_s);
    out_begin_list(out, "checks");
    for (size_t i = 0; i < doctor->n_checks; i++) {
        print_check(out, &doctor->checks[i]);
    }
    out_end(out);
    out_number(out, NULL, "fail", OUT_INT, (int64_t)doctor->n_of[DOCTOR_FAIL]);
    out_number(out, NULL, "warn", OUT_INT, (int64_t)doctor->n_of[DOCTOR_WARN]);
    out_number(out, NULL, "note", OUT_INT, (int64_t)doctor->n_of[DOCTOR_NOTE]);
    out_number(out, NULL, "skip", OUT_INT, (int64_t)doctor->n_of[DOCTOR_SKIP]);
    out_end(out);
}

static int examine(struct cli_session *self)
{
    CLI_AUTO(doctor_free) struct doctor doctor = {.n_checks = 0};
    const struct cli_args *args = self->args;
    const struct doctor_wish wish = {
        .options = &args->options,
        .time_limit_ms = args->quick ? QUICK_MS : LIMIT_MS,
        .max_keys = args->max_keys != CLI_UNSET ? args->max_keys : MAX_KEYS,
    };
    bool is_well;

    if (!doctor_run(&doctor, &wish)) {
        self->error = doctor.error;
        return cli_url_fault(args, &self->error);
    }
    if (args->json) {
        print_json(&self->out, &doctor);
    } else {
        print_table(&self->out, &doctor, args->all);
    }
    is_well = doctor.n_of[DOCTOR_FAIL] + doctor.n_of[DOCTOR_WARN] + doctor.n_late == 0 &&
              (!args->strict || doctor.n_of[DOCTOR_NOTE] == 0);
    if (!is_well) {
        out_print(&self->out);
    }
    return is_well ? CLI_DONE : CLI_REFUSED;
}

const struct cli_command cli_doctor = {
    .name = "doctor",
    .usage = "[URL] [--quick] [--strict] [--all] [--json]",
    .summary = "Check the server and its locks; explain each problem",
    .examples = "  RQL_URL=redis://locks.example.com rql doctor\n",
    .notes = "Takes locks of its own, rql-doctor-..., and changes nothing else. Exits with 1 if "
             "there is a failure or a warning, or if the server is so slow that checks are left "
             "out. Works for a user with hardly any rights: it names "
             "the missing ones, and skips the checks that need them. A URL with a password belongs "
             "in RQL_URL.\n",
    .takes_url = true,
    .makes_clients = true,
    .prepare = cli_take_url,
    .run = examine,
};
