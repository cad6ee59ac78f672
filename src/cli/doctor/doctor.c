#include "doctor.h"

#include "format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The order of the checks, the time that they have, and their results. */

enum { US_PER_MS = 1000, US_PER_S = 1000000 };

/* The rights come first, because they decide which checks can run. Checks that need to know whether
 * Ruby is used come after those that find that out. */
static const struct doctor_group *const groups[] = {
    &doctor_rights, &doctor_server, &doctor_trips,  &doctor_swarm,
    &doctor_keys,   &doctor_use,    &doctor_clocks,
};

enum { N_GROUPS = sizeof groups / sizeof groups[0] };

/* ---- facts ---- */

static struct doctor_fact *add_fact(struct doctor *self, const char *id, const char *name)
{
    struct doctor_fact *fact = &self->facts[self->n_facts];

    if (self->n_facts == DOCTOR_FACTS) {
        abort(); /* a group has at most this many */
    }
    self->n_facts++;
    *fact = (struct doctor_fact){.id = id, .name = name};
    return fact;
}

void doctor_number(struct doctor *self, const char *id, const char *name, int64_t value)
{
    add_fact(self, id, name)->number = value;
}

void doctor_text(struct doctor *self, const char *id, const char *name, const char *text)
{
    add_fact(self, id, name)->text = cli_must(strdup(text));
}

void doctor_flag(struct doctor *self, const char *name, bool value)
{
    doctor_number(self, "", name, value);
}

static const struct doctor_fact *find_fact(const struct doctor *self, const char *name,
                                           size_t length)
{
    for (size_t i = 0; i < self->n_facts; i++) {
        if (strlen(self->facts[i].name) == length &&
            strncmp(self->facts[i].name, name, length) == 0) {
            return &self->facts[i];
        }
    }
    return NULL;
}

static void clear_facts(struct doctor *self)
{
    for (size_t i = 0; i < self->n_facts; i++) {
        free(self->facts[i].text);
    }
    self->n_facts = 0;
}

/* ---- texts ---- */

/* Prints a fact, in the form that the text asks for. */
static void print_fact(FILE *to, const struct doctor_fact *fact, const char *form)
{
    if (fact->text) {
        (void)fputs(fact->text, to);
    } else if (strncmp(form, ":ms", 3) == 0) {
        (void)fprintf(to, "%.2f ms", (double)fact->number / US_PER_MS);
    } else if (strncmp(form, ":size", 5) == 0) {
        (void)fprintf(to, "%.1f MB", (double)fact->number / (1 << 20));
    } else if (strncmp(form, ":s", 2) == 0) {
        (void)fprintf(to, "%.1f s", (double)llabs(fact->number) / US_PER_S);
    } else if (strncmp(form, ":plural", 7) == 0) {
        (void)fputs(fact->number == 1 ? "" : "s", to);
    } else {
        (void)fprintf(to, "%lld", (long long)fact->number);
    }
}

const char *doctor_where(const struct doctor *self)
{
    return self->is_partitioned && *self->server.master ? self->server.master : self->server.node;
}

/* Returns the text with its facts, in memory of its own; NULL for NULL. From the second server on a
 * title names its server. */
static char *fill_in(const struct doctor *self, const char *text, bool is_title)
{
    char *out = NULL;
    size_t size;
    FILE *to;

    if (!text) {
        return NULL;
    }
    to = cli_must(open_memstream(&out, &size));
    if (is_title && self->node > 0) {
        (void)fprintf(to, "%s: ", doctor_where(self));
    }
    while (*text) {
        const size_t plain = strcspn(text, "{");
        const char *name = text + plain + 1;
        const struct doctor_fact *fact = NULL;

        (void)fwrite(text, 1, plain, to);
        text += plain;
        if (*text == '{') {
            fact = find_fact(self, name, strcspn(name, ":}"));
            text += strcspn(text, "}") + 1;
        }
        if (fact) {
            print_fact(to, fact, name + strcspn(name, ":}"));
        }
    }
    cli_must(fclose(to) == 0 ? out : NULL);
    return out;
}

/* ---- results ---- */

/* Adds a result, which takes the facts of its check. */
static void add_check(struct doctor *self, const struct doctor_row *row)
{
    struct doctor_check *check;

    self->checks = cli_must(reallocarray(self->checks, self->n_checks + 1, sizeof *self->checks));
    check = &self->checks[self->n_checks++];
    *check = (struct doctor_check){
        .id = row->id,
        .level = row->level,
        .title = fill_in(self, row->title, true),
        .why = fill_in(self, row->why, false),
        .fix = fill_in(self, row->fix, false),
    };
    self->n_of[row->level]++;
    if (self->node > 0) {
        doctor_text(self, row->id, "node", doctor_where(self));
    }
    for (size_t i = 0; i < self->n_facts && check->n_found < DOCTOR_FINDINGS; i++) {
        struct doctor_fact *fact = &self->facts[i];

        if (strcmp(fact->id, row->id) == 0) {
            check->found[check->n_found++] = *fact;
            *fact = (struct doctor_fact){.id = "", .name = ""};
        }
    }
}

static bool holds(const struct doctor *self, const struct doctor_row *row)
{
    const struct doctor_fact *fact =
        row->flag ? find_fact(self, row->flag, strlen(row->flag)) : NULL;

    return !row->flag || (fact && fact->number != 0);
}

/* Adds the result of each check of a group: the first row that holds. */
static void judge(struct doctor *self, const struct doctor_group *group)
{
    const char *last = "";

    for (size_t i = 0; i < group->n_rows; i++) {
        const struct doctor_row *row = &group->rows[i];

        if (strcmp(row->id, last) == 0 || !holds(self, row)) {
            continue;
        }
        add_check(self, row);
        last = row->id;
    }
}

/* Reports that the checks of a group could not run. */
static void skip(struct doctor *self, const struct doctor_group *group, const char *reason)
{
    const char *last = "";
    struct doctor_row row = {.level = DOCTOR_SKIP, .title = "{id}: {reason}"};

    for (size_t i = 0; i < group->n_rows; i++) {
        row.id = group->rows[i].id;
        if (strcmp(row.id, last) != 0) {
            clear_facts(self);
            doctor_text(self, "", "id", row.id);
            doctor_text(self, "", "reason", reason);
            add_check(self, &row);
        }
        last = row.id;
    }
}

static void run_group(struct doctor *self, const struct doctor_group *group)
{
    if (self->wish.is_brief && !(group->kind & DOCTOR_BRIEF)) {
        return;
    }
    if (cli_now_us() >= self->end_us) {
        self->n_late++;
        skip(self, group, "no time left");
    } else if ((group->kind & DOCTOR_LOCKS) && !self->client) {
        skip(self, group,
             self->why.status == RQL_E_AUTH ? "this user may not take locks" : self->why.message);
    } else if (group->read(self)) {
        judge(self, group);
    } else {
        skip(self, group, self->error.message);
    }
    clear_facts(self);
}

/* ---- questions ---- */

rql_client *doctor_bare_client(const rql_options *options, const char *url, rql_error *error)
{
    rql_options bare = *options;
    rql_client *client = NULL;

    bare.url = url ? url : bare.url;
    bare.bare_login = true;
    bare.connections = 1; /* the server may have few left */
    bare.auto_swarm = false;
    bare.client_names = false;
    return rql_client_new(&bare, &client, error) == RQL_OK ? client : NULL;
}

rql_status doctor_send(rql_client *client, size_t node, const char *const *words, rql_reply **out,
                       rql_error *error)
{
    rql_command command = {.argv = words};

    while (words[command.argc]) {
        command.argc++;
    }
    return rql_client_command(client, node, &command, out, error);
}

static rql_reply *ask(rql_client *client, size_t node, const char *const *words, rql_error *error)
{
    rql_reply *reply = NULL;

    return doctor_send(client, node, words, &reply, error) == RQL_OK ? reply : NULL;
}

rql_reply *doctor_ask(struct doctor *self, const char *const *words)
{
    return ask(self->bare, self->node, words, &self->error);
}

void doctor_info_text(const rql_reply *info, const char *mark, char *out, size_t size)
{
    const char *at = strstr(rql_reply_text(info, NULL), mark);

    *out = '\0';
    if (at) {
        at += strlen(mark);
        (void)snprintf(out, size, "%.*s", (int)strcspn(at, "\r\n"), at);
    }
}

int64_t doctor_info_number(const rql_reply *info, const char *mark)
{
    char text[CLI_DURATION_SIZE];
    char *end = text;
    long long number;

    doctor_info_text(info, mark, text, sizeof text);
    number = strtoll(text, &end, 10);
    return end != text && *end == '\0' ? number : -1;
}

/* ---- all ---- */

/* Reads what two connections say of the server that they lead to. No other connection is made
 * between the two, so that a proxy that distributes connections is found. */
static void read_run_ids(struct doctor *self)
{
    static const char *const words[] = {"INFO", "server", NULL};
    CLI_AUTO(rql_client_free)
    rql_client *other = doctor_bare_client(self->wish.options, NULL, NULL);
    CLI_AUTO(rql_free) rql_reply *first = ask(self->bare, 0, words, NULL);
    CLI_AUTO(rql_free) rql_reply *second = other ? ask(other, 0, words, NULL) : NULL;

    doctor_info_text(first, "\nrun_id:", self->run_id[0], sizeof self->run_id[0]);
    doctor_info_text(second, "\nrun_id:", self->run_id[1], sizeof self->run_id[1]);
    self->uptime_s = doctor_info_number(first, "\nuptime_in_seconds:");
}

/* Makes the client that takes locks. A replica is no fault: its locks can be read. */
static void make_client(struct doctor *self)
{
    rql_options options = *self->wish.options;
    rql_status status;

    options.auto_swarm = false;
    options.bare_login = false;
    options.connections = 1;
    status = rql_client_new(&options, &self->client, &self->why);
    status = status ? status : rql_client_connect(self->client, &self->why);
    if (status != RQL_OK && status != RQL_E_READ_ONLY) {
        self->client = rql_client_free(self->client);
    }
}

/* Reaches the server. A server that wants a password refuses even PING. */
static bool begin(struct doctor *self)
{
    static const char *const words[] = {"PING", NULL};
    CLI_AUTO(rql_free) rql_reply *pong = NULL;

    self->bare = doctor_bare_client(self->wish.options, NULL, &self->error);
    pong = self->bare ? ask(self->bare, 0, words, &self->error) : NULL;
    if (!pong) {
        return false;
    }
    if (strncmp(rql_reply_text(pong, NULL), "NOAUTH", 6) == 0) {
        self->error.status = RQL_E_AUTH;
        (void)snprintf(self->error.message, sizeof self->error.message, "PING: %.120s",
                       rql_reply_text(pong, NULL));
        return false;
    }
    if (!self->wish.is_brief) { /* metrics have no use for them */
        read_run_ids(self);
    }
    return rql_client_ping(self->bare, &self->server, &self->error) == RQL_OK;
}

/* Examines one of the other servers. One that does not answer is a problem, too. */
static void examine(struct doctor *self, rql_status status)
{
    static const struct doctor_row lost = {
        .id = "srv.role",
        .level = DOCTOR_FAIL,
        .title = "{fault}",
        .why = "the locks of this server cannot be taken",
        .fix = "start the server again, or let a replica take over",
    };

    for (size_t i = 0; status == RQL_OK && i < N_GROUPS; i++) {
        if (groups[i]->kind & DOCTOR_EACH) {
            run_group(self, groups[i]);
        }
    }
    if (status != RQL_OK) {
        doctor_text(self, "", "fault", self->error.message);
        add_check(self, &lost);
        clear_facts(self);
    }
}

static void examine_others(struct doctor *self)
{
    rql_status status = RQL_OK;

    while (status != RQL_NOT_FOUND) {
        self->node++;
        status = rql_client_ping_node(self->bare, self->node, &self->server, &self->error);
        if (status != RQL_NOT_FOUND) {
            examine(self, status);
        }
    }
    self->node = 0;
    self->server = self->first;
}

bool doctor_run(struct doctor *self, const struct doctor_wish *wish)
{
    *self = (struct doctor){
        .wish = *wish,
        .end_us = cli_now_us() + wish->time_limit_ms * US_PER_MS,
        .uptime_s = -1,
    };
    if (!begin(self)) {
        return false;
    }
    self->first = self->server;
    self->is_partitioned = self->first.partitions >= 0;
    self->clocks = doctor_read_clocks(self->bare);
    if (!wish->is_brief) {
        make_client(self);
    }
    for (size_t i = 0; i < N_GROUPS; i++) {
        run_group(self, groups[i]);
    }
    examine_others(self);
    return true;
}

void doctor_free_p(struct doctor *self)
{
    (void)rql_client_free(self->client);
    (void)rql_client_free(self->bare);
    for (size_t i = 0; i < self->n_checks; i++) {
        struct doctor_check *check = &self->checks[i];

        free(check->title);
        free(check->why);
        free(check->fix);
        for (size_t j = 0; j < check->n_found; j++) {
            free(check->found[j].text);
        }
    }
    free(self->checks);
}
