#include "cmd.h"
#include "doctor/doctor.h"
#include "format.h"
#include "guard.h"
#include "init.h"
#include "messages.h"
#include "outer.h"
#include "signals.h"
#include "url.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { PAUSE_MS = 100 }; /* between two tries to connect */

/* The commands, in the order in which the help shows them. */
const struct cli_command *const cli_commands[] = {
    &cli_run,   &cli_once,  &cli_elect,    &cli_series, &cli_lock,        &cli_unlock, &cli_extend,
    &cli_info,  &cli_queue, &cli_ls,       &cli_who,    &cli_top_command, &cli_watch,  &cli_history,
    &cli_wait,  &cli_clear, &cli_clear_of, &cli_drain,  &cli_dead,        &cli_stats,  &cli_hosts,
    &cli_swarm, &cli_serve, &cli_agent,    &cli_ping,   &cli_doctor,      &cli_bench,  NULL,
};

const struct cli_command *cli_find_command(const char *name)
{
    size_t i = 0;

    while (cli_commands[i] && strcmp(cli_commands[i]->name, name) != 0) {
        i++;
    }
    return cli_commands[i];
}

/* Returns the command for a word that other programs use, or NULL. */
static const char *other_word(const char *name)
{
    static const struct cli_word words[] = {
        {"acquire", "lock"},      {"release", "unlock"}, {"locks", "ls"},
        {"version", "--version"}, {.name = NULL},
    };
    size_t i = 0;

    while (words[i].name && strcmp(words[i].name, name) != 0) {
        i++;
    }
    return words[i].text;
}

/* Returns the command of this name, or NULL after reporting that there is none. */
static const struct cli_command *find_command(const char *name)
{
    const struct cli_command *command = cli_find_command(name);
    struct cli_guess guess;

    if (command) {
        return command;
    }
    if (other_word(name)) {
        cli_say("unknown command %s (did you mean %s?); see rql --help", name, other_word(name));
        return NULL;
    }
    cli_guess_init(&guess, name, strlen(name));
    for (size_t i = 0; cli_commands[i]; i++) {
        cli_guess_propose(&guess, cli_commands[i]->name);
    }
    /* These words are no commands of the table, but stand in the same place. */
    cli_guess_propose(&guess, "help");
    cli_guess_propose(&guess, "options");
    cli_say("unknown command %s%s; see rql --help", name, cli_guess_text(&guess, ""));
    return NULL;
}

/* Runs `rql help --roff`, with or without a command. */
static int page_on(const char *name)
{
    const struct cli_command *command = name ? find_command(name) : NULL;

    return name && !command ? CLI_USAGE : cli_page(command);
}

static int help_on_command(const char *name)
{
    const struct cli_command *command = find_command(name);

    return command ? cli_help_command(command) : CLI_USAGE;
}

/* Runs `rql help`, with or without words after it, which end in NULL. */
static int help_on(struct cli_args *args, char **words)
{
    const bool has_value = words[0] && words[1] && strncmp(words[0], "--", 2) == 0;

    if (!words[0]) {
        return cli_help();
    }
    if (strcmp(words[0], "--complete") == 0) {
        return cli_complete(args, words + 1);
    }
    if (words[1] && (!has_value || words[2])) {
        return cli_misused(&cli_top, "help: one too many: ", words[1 + has_value]);
    }
    if (strcmp(words[0], "options") == 0) {
        return cli_help_options();
    }
    if (strcmp(words[0], "--completion") == 0) {
        return cli_completion(words[1]);
    }
    return strcmp(words[0], "--roff") == 0 ? page_on(words[1]) : help_on_command(words[0]);
}

/* Connects. A replica is accepted, because it can be read and may become a master. *out is NULL
 * before, and after an error. */
static rql_status connect(const rql_options *options, rql_client **out, rql_error *error)
{
    rql_status status = rql_client_new(options, out, error);

    if (status == RQL_OK) {
        status = rql_client_connect(*out, error);
    }
    if (status == RQL_E_READ_ONLY) {
        return RQL_OK;
    }
    if (status != RQL_OK) {
        *out = rql_client_free(*out);
    }
    return status;
}

/* Asks the servers of these locks, of which some may be up and others not. Faults that do not pass
 * are left to the command. */
static rql_status ask_about_names(rql_client *client, const struct cli_args *args, rql_error *error)
{
    rql_status status = RQL_OK;
    bool exists;

    for (size_t i = 0; i < cli_args_count(args) && !cli_may_pass(status); i++) {
        status = rql_lock_exists(client, cli_args_name(args, i), &exists, error);
    }
    return cli_may_pass(status) ? status : RQL_OK;
}

/* Tries to reach the servers once, but no longer than until end_ms. */
static rql_status probe(const struct cli_args *args, int64_t end_ms, rql_error *error)
{
    const int64_t left_ms = end_ms - cli_now_ms();
    rql_client *client = NULL;
    rql_options limited = args->options;
    rql_status status;

    limited.connect_timeout_ms =
        left_ms < limited.connect_timeout_ms ? left_ms : limited.connect_timeout_ms;
    limited.connect_timeout_ms = limited.connect_timeout_ms > 0 ? limited.connect_timeout_ms : 1;
    status = connect(&limited, &client, error);
    status = status == RQL_OK ? ask_about_names(client, args, error) : status;
    (void)rql_client_free(client);
    return status;
}

/* Says once that a private server is about to be started, if the user has named no server: locks on
 * it are seen by this user on this machine only. */
static void announce_start(const rql_options *options)
{
    CLI_AUTO(rql_client_free) rql_client *client = NULL;
    rql_options running = *options;
    rql_error error;

    running.local_start = false;
    if (options->url == cli_default_url && options->local_start &&
        connect(&running, &client, &error) == RQL_E_IO) {
        cli_say("RQL_URL is not set: starting a private server for this user and machine");
    }
}

/* Waits for the server. With --wait a server may come up late, and the rest of that time goes to
 * the wait for the lock. The connect timeout of a client is constant, so clients that probe for the
 * server are not the client that takes the lock: that one connects when it asks for the lock,
 * within its deadline. Signals are not blocked yet: a signal ends the program, which has nothing to
 * undo. */
static rql_status connect_in_time(struct cli_args *args, rql_client **out, rql_error *error)
{
    const bool is_limited = args->wait_ms != RQL_FOREVER;
    const int64_t end_ms = is_limited ? cli_after_ms(args->wait_ms) : INT64_MAX;
    rql_status status = probe(args, end_ms, error);
    bool is_said = false;

    while (cli_may_pass(status) && cli_now_ms() < end_ms) {
        const int64_t left_ms = end_ms - cli_now_ms();
        const struct timespec pause = cli_timespec(left_ms < PAUSE_MS ? left_ms : PAUSE_MS);

        if (!is_said) {
            cli_say("%s: waiting for the server: %s", args->name, error->message);
        }
        is_said = true;
        (void)nanosleep(&pause, NULL);
        status = probe(args, end_ms, error);
    }
    if (is_limited) {
        args->wait_ms = end_ms > cli_now_ms() ? end_ms - cli_now_ms() : 0;
    }
    return status == RQL_OK ? rql_client_new(&args->options, out, error) : status;
}

int cli_refuse(struct cli_session *self, const char *why)
{
    out_print(&self->out);
    cli_say("%s: %s", self->args->name, why);
    return CLI_REFUSED;
}

/* Says how to get the rights, or the login, that the command lacked. */
static void say_remedy(const rql_options *options, const rql_error *error)
{
    char fix[DOCTOR_LINE];

    if (strstr(error->message, "NOAUTH") && strstr(error->message, "cannot find the master")) {
        cli_say_sentinel_login(options->url);
    } else if (strstr(error->message, "NOAUTH")) {
        cli_say_login(options->url);
    } else if (error->status == RQL_E_AUTH && doctor_write_rights(options, fix)) {
        cli_say("fix: %s", fix);
    }
}

/* Runs the command. Mistyped variables are reported before an error of the environment or the
 * connection, because a mistyped one may be its cause. */
static int run_with_client(const struct cli_command *command, struct cli_args *args)
{
    CLI_AUTO(rql_client_free) rql_client *client = NULL;
    struct cli_session session = {.args = args};
    int code = cli_url_check(args, command);
    rql_status status = RQL_OK;

    if (code == CLI_DONE && command->prepare) {
        code = command->prepare(args);
    }
    if (code != CLI_DONE) {
        return code;
    }
    cli_say_unknown_variables();
    if (args->env_status != RQL_OK) {
        return cli_fault(&args->env_error);
    }
    args->options.client_names = args->options.client_names && command->is_worth_naming;
    if (args->no_color) {
        (void)setenv("NO_COLOR", "1", 1); /* NOLINT(concurrency-mt-unsafe) */
    }
    if (command->is_worth_naming) {
        cli_add_outer_tokens(args);
    }
    args->options.local_start = args->options.local_start && command->takes_locks;
    if (!args->agent) {
        announce_start(&args->options);
    }
    if (!command->makes_clients && !args->agent) {
        status = args->wait_ms == CLI_UNSET ? connect(&args->options, &client, &session.error)
                                            : connect_in_time(args, &client, &session.error);
    }
    if (status != RQL_OK) {
        code = cli_url_fault(args, &session.error);
        say_remedy(&args->options, &session.error);
        return code;
    }
    session.client = client;
    /* A command that has neither flag prints a table. */
    session.out = out_fields(args->openmetrics ? OUT_OPENMETRICS
                             : args->json      ? OUT_JSON
                                               : OUT_TABLE);
    /* After a refusal, whose exit code can be 0, the command has printed its output itself. */
    code = command->run(&session);
    if (code == CLI_DONE && !session.out.is_printed) {
        out_print(&session.out);
    } else if (code == CLI_FAULT) {
        say_remedy(&args->options, &session.error);
    }
    return code;
}

/* Runs the whole command line. `help` is not in the table of commands, because it needs neither a
 * client nor a valid environment. */
static int run_all(struct cli_args *args)
{
    const struct cli_command *command;
    int code = cli_args_parse(args, NULL);

    if (code != CLI_DONE) {
        return code;
    }
    if (args->version) {
        (void)printf("rql %s\n", rql_version());
        return CLI_DONE;
    }
    if (args->help) {
        return help_on(args, args->next);
    }
    if (!*args->next) {
        return cli_help();
    }
    if (strcmp(*args->next, "help") == 0) {
        return help_on(args, args->next + 1);
    }
    command = find_command(*args->next);
    if (!command) {
        return CLI_USAGE;
    }
    args->next += 1;
    code = cli_args_parse(args, command);
    if (code != CLI_DONE) {
        return code;
    }
    return args->help ? cli_help_command(command) : run_with_client(command, args);
}

/* Checks the output. A result that did not reach its reader is a failure, even if the lock was
 * taken. */
static int check_output(int code)
{
    /* stdout is buffered, so a write error may appear only here. */
    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return code;
    }
    if (code == CLI_DONE && cli_broken_pipe_is_deadly()) {
        return -SIGPIPE;
    }
    cli_say_errno("cannot write the output", errno);
    return code == CLI_DONE ? CLI_CANNOT_WRITE : code;
}

int main(int argc, char **argv)
{
    static char name[] = "rql";
    /* For a program that was started without a name, as execve() allows. */
    static char *nothing[] = {name, NULL};
    struct cli_args args;
    int code;

    cli_open_standard_descriptors(); /* before anything else is opened */
    if (argc == 2 && strcmp(argv[0], CLI_GUARD_NAME) == 0) {
        cli_guard_run((pid_t)strtol(argv[1], NULL, 10), true);
    }
    cli_leave_first_process();
    cli_broken_pipe_init(); /* before anything is written */
    cli_args_init(&args, argc > 0 ? argv + 1 : nothing + 1);
    code = check_output(run_all(&args));
    if (code < 0) {
        cli_die_by(-code); /* unlike an exit code, a signal stops a shell's loop */
    }
    return code;
}
