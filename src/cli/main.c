#include "broken_pipe.h"
#include "cmd.h"
#include "guess.h"
#include "output.h"
#include "scope.h"
#include "waiting.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { ERROR_TEXT_SIZE = 128 };

const struct cli_command *const cli_commands[] = {
    &cli_run, &cli_series, &cli_lock,     &cli_unlock, &cli_extend, &cli_info,  &cli_queue, &cli_ls,
    &cli_who, &cli_clear,  &cli_clear_of, &cli_dead,   &cli_stats,  &cli_swarm, NULL,
};

static const struct cli_command *find_command(const char *name)
{
    struct cli_guess guess;
    char meant[CLI_GUESS_SIZE];
    size_t i;

    cli_guess_init(&guess, name, strlen(name));
    for (i = 0; cli_commands[i]; i++) {
        if (strcmp(cli_commands[i]->name, name) == 0) {
            return cli_commands[i];
        }
        cli_guess_propose(&guess, cli_commands[i]->name);
    }
    cli_guess_propose(&guess, "help");
    cli_guess_propose(&guess, "options");
    cli_say("unknown command %s%s; see rql --help", name, cli_guess_text(&guess, "", false, meant));
    return NULL;
}

static int help_on(const char *name)
{
    const struct cli_command *command;

    if (!name) {
        return cli_help();
    }
    if (strcmp(name, "options") == 0) {
        return cli_help_options();
    }
    command = find_command(name);
    return command ? cli_help_command(command) : CLI_USAGE;
}

static int run_with_client(const struct cli_command *command, struct cli_args *args)
{
    CLI_AUTO(rql_client_free) rql_client *client = NULL;
    int code = command->prepare ? command->prepare(args) : CLI_DONE;

    if (code == CLI_DONE) {
        client = cli_open(args, &code);
    }
    return client ? command->run(args, client) : code;
}

static int run_command(struct cli_args *args)
{
    const struct cli_command *command = find_command(*args->next);
    int code;

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

static int run_all(struct cli_args *args)
{
    const int code = cli_args_parse(args, NULL);

    if (code != CLI_DONE) {
        return code;
    }
    if (args->version) {
        (void)printf("rql %s\n", rql_version());
        return CLI_DONE;
    }
    if (args->help) {
        return cli_help();
    }
    if (!*args->next) {
        cli_say("which command? see rql --help");
        return CLI_USAGE;
    }
    return strcmp(*args->next, "help") == 0 ? help_on(args->next[1]) : run_command(args);
}

/* A result that did not reach its reader is a failure, even when the lock was taken. */
static int check_output(int code)
{
    char text[ERROR_TEXT_SIZE];

    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return code;
    }
    if (code == CLI_DONE && cli_broken_pipe_is_deadly()) {
        return -SIGPIPE;
    }
    cli_say("cannot write the output: %s", cli_errno_text(errno, text, sizeof text));
    return code == CLI_DONE ? CLI_CANNOT_WRITE : code;
}

int main(int argc, char **argv)
{
    static char *no_words[] = {NULL};
    struct cli_args args;
    int code;

    cli_broken_pipe_init();
    cli_args_init(&args, argc > 0 ? argv + 1 : no_words);
    code = check_output(run_all(&args));
    if (code < 0) {
        cli_die_by(-code);
    }
    return code;
}
