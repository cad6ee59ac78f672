#include "cmd.h"
#include "format.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

/* Completes command lines. The scripts of the shells ask the program for the words, so that all
 * knowledge about them stays in its tables. */

enum { NAMES_MAX = 200, NAMES_MS = 300 };

extern const char cli_completion_bash[];
extern const char cli_completion_zsh[];
extern const char cli_completion_fish[];

int cli_completion(const char *shell)
{
    static const struct {
        const char *shell;
        const char *script;
    } scripts[] = {
        {"bash", cli_completion_bash},
        {"zsh", cli_completion_zsh},
        {"fish", cli_completion_fish},
    };

    for (size_t i = 0; shell && i < sizeof scripts / sizeof scripts[0]; i++) {
        if (strcmp(shell, scripts[i].shell) == 0) {
            (void)fputs(scripts[i].script, stdout);
            return CLI_DONE;
        }
    }
    return cli_misused(&cli_top, "completion is for bash, zsh or fish", "");
}

/* The word to complete: of "--log=te" its value "te". */
struct beginning {
    const char *word;
    size_t taken; /* number of letters before the value */
};

/* Prints a candidate if it begins like the word. */
/* Returns whether the candidate was printed. */
static bool offer(const struct beginning *self, const char *candidate, size_t length,
                  const char *meaning)
{
    const char *begin = self->word + self->taken;
    const size_t begun = strlen(begin);
    const bool fits = length >= begun && strncmp(candidate, begin, begun) == 0;

    if (fits) {
        (void)printf("%.*s%.*s%s%s\n", (int)self->taken, self->word, (int)length, candidate,
                     meaning ? "\t" : "", meaning ? meaning : "");
    }
    return fits;
}

static void offer_commands(const struct beginning *self)
{
    for (size_t i = 0; cli_commands[i]; i++) {
        offer(self, cli_commands[i]->name, strlen(cli_commands[i]->name), cli_commands[i]->summary);
    }
}

static void offer_flag(const struct beginning *self, const char *name, const char *meaning)
{
    char flag[2 + CLI_FLAG_SIZE];

    (void)snprintf(flag, sizeof flag, "--%s", name);
    offer(self, flag, strlen(flag), meaning);
}

static void offer_flags(const struct beginning *self, const struct cli_command *command)
{
    const rql_option_row *row;
    char name[CLI_FLAG_SIZE];

    for (const struct cli_flag *flag = cli_flags; flag->name; flag++) {
        if (flag->help && cli_is_listed(command, flag->commands)) {
            offer_flag(self, flag->name, flag->help);
        }
    }
    for (size_t i = 0; (row = rql_option_row_at(i)) != NULL; i++) {
        cli_option_flag(name, row);
        offer_flag(self, name, row->help);
    }
}

/* Offers the values of a flag: "full | ca | none" are words, "1 to 1000" is not. Returns
 * CLI_REFUSED for a file. */
static int offer_value(const struct beginning *self, const char *range)
{
    if (strcmp(range, "FILE") == 0 || strncmp(range, "a file", 6) == 0) {
        return CLI_REFUSED;
    }
    if (strchr(range, '|')) {
        for (const char *at = range; *at; at += strspn(at, " |")) {
            const size_t length = strcspn(at, " |");

            offer(self, at, length, NULL);
            at += length;
        }
    }
    return CLI_DONE;
}

static bool is_flag(const char *word, size_t length, const char *name)
{
    return length == 2 + strlen(name) && strncmp(word, "--", 2) == 0 &&
           strncmp(word + 2, name, length - 2) == 0;
}

/* Returns the range of this flag's value, or NULL if it is no flag or has no value. */
static const char *range_of(const struct cli_command *command, const char *word, size_t length)
{
    const rql_option_row *row;
    char name[CLI_FLAG_SIZE];

    for (const struct cli_flag *flag = cli_flags; flag->name; flag++) {
        const char letter[] = {'-', flag->letter, '\0'};

        if (cli_is_listed(command, flag->commands) &&
            (is_flag(word, length, flag->name) ||
             (flag->letter != 0 && strcmp(word, letter) == 0))) {
            return flag->value;
        }
    }
    for (size_t i = 0; (row = rql_option_row_at(i)) != NULL; i++) {
        cli_option_flag(name, row);
        if (is_flag(word, length, name)) {
            return row->range;
        }
    }
    return NULL;
}

/* Offers the name of a lock. Any user can choose names, so a name that has more than one line or
 * that would act upon a terminal is no candidate. */
static bool offer_name(const struct beginning *self, const char *name)
{
    CLI_AUTO(cli_free) char *safe = cli_text_for_terminal(name);

    return strcmp(safe, name) == 0 && offer(self, name, strlen(name), NULL);
}

/* Ends the program by _exit(), because the interrupted code may hold any mutex. */
static void give_up(int signal)
{
    (void)signal;
    _exit(CLI_DONE);
}

/* The alarm is ignored from the first name on, so that no half of a line is written. */
static void offer_locks(const struct beginning *self, rql_client *client)
{
    CLI_AUTO(rql_free) rql_text_list *list = NULL;
    int n_offered = 0;

    if (rql_locks_list(client, &list, NULL) != RQL_OK) {
        return;
    }
    (void)signal(SIGALRM, SIG_IGN);
    for (size_t i = 0; i < list->count && n_offered < NAMES_MAX; i++) {
        n_offered += offer_name(self, list->item[i]);
    }
}

/* Offers the machines on which clients run, each once. */
static void offer_hosts(const struct beginning *self, rql_client *client)
{
    CLI_AUTO(rql_free) rql_client_info_list *list = NULL;
    int n_offered = 0;

    if (rql_clients_list(client, &list, NULL) != RQL_OK) {
        return;
    }
    (void)signal(SIGALRM, SIG_IGN);
    for (size_t i = 0; i < list->count && n_offered < NAMES_MAX; i++) {
        size_t first = 0;

        while (strcmp(list->item[first]->host, list->item[i]->host) != 0) {
            first++;
        }
        n_offered += first == i && offer_name(self, list->item[i]->host);
    }
}

/* Offers names of locks or hosts. The user has pressed a key and waits, so a server that is down,
 * or has a million keys, offers none. */
static void offer_names(const struct beginning *self, const struct cli_command *command,
                        struct cli_args *args)
{
    const struct itimerval limit = {.it_value.tv_usec = NAMES_MS * 1000L};
    CLI_AUTO(rql_client_free) rql_client *client = NULL;

    if (args->env_status != RQL_OK) {
        return;
    }
    args->options.local_start = false;
    args->options.client_names = false;
    args->options.auto_swarm = false;
    (void)signal(SIGALRM, give_up);
    (void)setitimer(ITIMER_REAL, &limit, NULL);
    if (rql_client_new(&args->options, &client, NULL) == RQL_OK) {
        (command == &cli_drain ? offer_hosts : offer_locks)(self, client);
    }
}

/* Offers the words after `rql help`. */
static void offer_help(const struct beginning *self, char *const *words)
{
    if (!words[0] || (strcmp(words[0], "--roff") == 0 && !words[1])) {
        offer_commands(self);
    }
    if (!words[0]) {
        offer(self, "options", strlen("options"), NULL);
    } else if (strcmp(words[0], "--completion") == 0 && !words[1]) {
        (void)offer_value(self, "bash|zsh|fish");
    }
}

/* Offers words that are neither flags nor values: the command, and the names after it. */
static void offer_names_of(const struct beginning *self, const struct cli_command *command,
                           struct cli_args *args)
{
    if (command == &cli_top) {
        offer_commands(self);
        offer(self, "help", strlen("help"), NULL);
    } else if (args->name ? !command->takes_names : !cli_takes_name(command)) {
        return;
    } else if (command == &cli_swarm) {
        (void)offer_value(self, command->usage);
    } else if (!command->takes_url) {
        offer_names(self, command, args);
    }
}

/* Completes the last word. The words before it are parsed as usual, as far as possible: they show
 * the position, and the server that they name. */
int cli_complete(struct cli_args *args, char **words)
{
    const struct cli_command *command = &cli_top;
    struct beginning last = {.word = NULL};
    const char *previous = NULL;
    const char *range = NULL;
    const char *equals;
    size_t count = 0;

    while (words[count]) {
        previous = last.word;
        last.word = words[count++];
    }
    if (count == 0) {
        return cli_misused(&cli_top, "which word is to be completed?", "");
    }
    words[count - 1] = NULL;
    args->next = words;
    if (cli_args_parse(args, NULL) == CLI_DONE && *args->next) {
        if (strcmp(*args->next, "help") == 0) {
            offer_help(&last, args->next + 1);
            return CLI_DONE;
        }
        command = cli_find_command(*args->next);
        if (!command) {
            return CLI_DONE;
        }
        args->next += 1;
        (void)cli_args_parse(args, command);
    }
    if (args->command) {
        return CLI_REFUSED;
    }
    equals = strchr(last.word, '=');
    if (equals) {
        last.taken = (size_t)(equals + 1 - last.word);
        range = range_of(command, last.word, last.taken - 1);
    } else if (previous) {
        range = range_of(command, previous, strlen(previous));
    }
    if (range && !args->only_names) {
        return offer_value(&last, range);
    }
    last.taken = 0;
    if (*last.word == '-' && !args->only_names) {
        offer_flags(&last, command);
    } else {
        offer_names_of(&last, command, args);
    }
    return CLI_DONE;
}
