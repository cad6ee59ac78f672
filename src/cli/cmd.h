#ifndef CLI_CMD_H
#define CLI_CMD_H

/* The commands of the program, each an entry in a table. Each file cmd_*.c has the commands of one
 * kind; main.c lists them, args.c parses for them, help.c describes them. */

#include "exit.h"
#include "out.h"

#include <rql/admin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The value of a number or duration that was not given. */
#define CLI_UNSET INT64_MIN

/* Everything that a command line can set, for all commands. */
struct cli_args {
    char **next;      /* first argument not parsed yet, after another; the array ends in NULL */
    const char *name; /* of the lock, or NULL; for a series its first name, for messages */
    size_t n_names;   /* number of names of a series */
    const char *names[RQL_SERIES_MAX];
    char **command; /* arguments after "--", or NULL */
    char *shell[4]; /* the command that --command gives: sh -c STRING; or NULL */

    rql_options options;   /* defaults, then environment, then flags */
    rql_status env_status; /* status of the environment; reported when a client is made */
    rql_error env_error;

    bool help, version, json;
    bool only_names; /* no argument is a flag up to the next "--" */
    bool fail_fast;
    bool gem;
    bool sorted;
    bool force, dry_run;
    bool openmetrics;
    bool queues, keys, details, node;
    bool quick, strict, all;
    bool ids, verbose;
    bool unless_failed, at_most_once, again;
    bool shared, slots, batch, read_only, no_color, why, page;
    bool list, slowest, forget;
    int64_t wait_ms, max_hold_ms, hold_at_least_ms, kill_after_ms, add_ms, older_than_ms;
    int64_t conflict_exit_code, max_keys, every_ms, window_ms, for_ms, within_ms, drain_ms;
    int64_t permits, units, max_waiters, head_start_ms, count, days;
    const char *agent; /* the path of its socket, or "" for the usual one; NULL: no agent */
    const char *priority, *secret, *host, *acquirer, *out_file, *classes_file, *listen;
    const char *http, *password_file, *password, *sort, *by, *user, *token, *event;
    const char *traceparent; /* --traceparent, or TRACEPARENT; NULL: none */
    const char *trace_file;

    size_t n_meta;
    rql_meta meta[RQL_META_MAX_PAIRS];
};

enum cli_flag_kind {
    CLI_ON,       /* bool: true */
    CLI_OFF,      /* bool: false */
    CLI_DURATION, /* int64_t milliseconds, 0 or more */
    CLI_LIMIT,    /* the same, or "forever" */
    CLI_CHANGE,   /* int64_t milliseconds, may be negative */
    CLI_CODE,     /* int64_t, 0 to 255 */
    CLI_COUNT,    /* int64_t, 0 to 100000000 */
    CLI_TEXT,     /* const char * */
    CLI_MAYBE,    /* the same; without a value, which stands behind '=', it is "" */
    CLI_META,     /* NAME=VALUE, may be repeated */
    CLI_REASON,   /* metadata of this name */
    CLI_STRING,   /* the command of a shell */
    CLI_LOG,      /* "text" or "json": the log lines of the library go to stderr */
    CLI_OPTION,   /* an option of the library; `offset` is its row there */
};

struct cli_flag {
    const char *name;  /* without "--" */
    const char *value; /* name of its value in the help: FILE, or "a|b"; NULL for switches */
    const char *help;  /* NULL: not in the help */
    enum cli_flag_kind kind;
    char letter;          /* its short form, or 0 */
    size_t offset;        /* of its field in struct cli_args */
    const char *commands; /* the commands that take it, separated by a space; NULL: all */
    const char *option;   /* the option of the library that it sets for one call; or NULL */
    const char *preset;   /* the default of that option in this program; NULL: the library's */
};

#define CLI_FIELD(field) offsetof(struct cli_args, field)

/* The table of all flags, for the command line, its completion, help and manual pages. The last
 * entry has no name. */
extern const struct cli_flag cli_flags[];

/* Writes the name of a library option as a flag: with '-' instead of '_', without "--", and without
 * the unit of a duration. */
enum { CLI_FLAG_SIZE = 64 };

void cli_option_flag(char out[CLI_FLAG_SIZE], const rql_option_row *row);

/* Writes what follows the flag: " VALUE", "[=VALUE]" or "". */
void cli_flag_value(char out[CLI_FLAG_SIZE], const struct cli_flag *flag);

/* Writes the range of the option in `row`, and its default in this program. */
enum { CLI_RANGE_SIZE = 256 };

void cli_option_range(char out[CLI_RANGE_SIZE], const rql_option_row *row);

/* A run of a command: its arguments, and its result. */
struct cli_session {
    const struct cli_args *args;
    rql_client *client;
    struct out out; /* printed by main.c after CLI_DONE; otherwise by the command, if at all */
    rql_error error;
};

struct cli_command {
    const char *name;
    const char *usage;          /* what follows the name */
    const char *summary;        /* one line */
    const char *examples;       /* lines for its --help, or NULL */
    const char *notes;          /* more lines for its --help, or NULL */
    const char *const *details; /* paragraphs for its manual page alone, NULL at the end; or NULL */
    const char *name_is;        /* what `name` is if it is not a lock: a word of `usage`; or NULL */
    bool needs_name;
    bool takes_names;     /* it takes several names */
    bool takes_glob;      /* `name` may be one, or NULL */
    bool takes_url;       /* `name` may be one, or NULL */
    bool takes_command;   /* arguments after "--" */
    bool makes_clients;   /* it makes its clients itself, when it runs */
    bool is_worth_naming; /* its client has a name that others see: it holds locks, or waits */
    bool takes_locks;     /* it starts the private server of local: if none runs */
    /* Runs before there is a client. Returns CLI_DONE, or the exit code after printing a line on
     * stderr. May be NULL. */
    int (*prepare)(struct cli_args *args);
    /* Returns the exit code, or minus the signal that is to end the program. */
    int (*run)(struct cli_session *self);
};

extern const struct cli_command cli_run;
extern const struct cli_command cli_once;
extern const struct cli_command cli_elect;
extern const struct cli_command cli_series;
extern const struct cli_command cli_lock;
extern const struct cli_command cli_unlock;
extern const struct cli_command cli_extend;
extern const struct cli_command cli_info;
extern const struct cli_command cli_queue;
extern const struct cli_command cli_ls;
extern const struct cli_command cli_who;
extern const struct cli_command cli_wait;
extern const struct cli_command cli_clear;
extern const struct cli_command cli_clear_of;
extern const struct cli_command cli_drain;
extern const struct cli_command cli_dead;
extern const struct cli_command cli_stats;
extern const struct cli_command cli_history;
extern const struct cli_command cli_ping;
extern const struct cli_command cli_doctor;
extern const struct cli_command cli_bench;
extern const struct cli_command cli_hosts;
extern const struct cli_command cli_swarm;
extern const struct cli_command cli_serve;
extern const struct cli_command cli_agent;
extern const struct cli_command cli_top_command;
extern const struct cli_command cli_watch;

/* The flags before the command's name belong to this one. Its own name is empty. */
extern const struct cli_command cli_top;

/* All commands, followed by NULL. */
extern const struct cli_command *const cli_commands[];

/* Returns the command of this name, or NULL. */
const struct cli_command *cli_find_command(const char *name);

/* The server of a program that is given none. The options of a command have this very pointer. */
extern const char cli_default_url[];

/* Sets defaults and reads the environment. `arguments` must follow another argument, end in NULL
 * and outlive `args`. */
void cli_args_init(struct cli_args *args, char **arguments);

/* Parses the flags before the command's name (command NULL), or everything after it. Returns
 * CLI_DONE, or CLI_USAGE after reporting the error. */
int cli_args_parse(struct cli_args *args, const struct cli_command *command);

/* The names of a series, or the one of a single lock, which has it in `name` alone. */
static inline size_t cli_args_count(const struct cli_args *self)
{
    return self->n_names > 0 ? self->n_names : 1;
}

static inline const char *cli_args_name(const struct cli_args *self, size_t index)
{
    return self->n_names > 0 ? self->names[index] : self->name;
}

/* Returns the head start of --priority or --head-start; CLI_UNSET: neither is given. */
int64_t cli_head_start_ms(const struct cli_args *args);

/* Returns the exit code of a lock that was not acquired: that of the arguments, or else this one.
 */
int cli_code_of_refusal(const struct cli_args *args, int preset);

/* Reports a negative answer: prints the result, says why, and returns CLI_REFUSED. */
int cli_refuse(struct cli_session *self, const char *why);

/* `prepare` of commands whose name is a URL. Gives that URL to the client. */
int cli_take_url(struct cli_args *args);

/* Prints the properties of a server, as an object under this key, or as the whole. In a table the
 * labels are shown if there is no key. */
void cli_print_server(struct out *out, const char *key, const rql_server_info *info);

/* Returns whether a name, pattern or URL can follow. */
static inline bool cli_takes_name(const struct cli_command *self)
{
    return self->needs_name || self->takes_names || self->takes_glob || self->takes_url;
}

/* Returns whether the list has the command's name as a whole word: "clear" is not in "clear-of".
 * NULL stands for all commands. */
bool cli_is_listed(const struct cli_command *command, const char *commands);

/* Reports what is wrong with an argument; returns CLI_USAGE. */
int cli_misused(const struct cli_command *command, const char *what, const char *argument);

#define CLI_GLOB_NOTE "GLOB is a pattern for the names of locks: * ? [a-z] [!a] \\*.\n"

/* "did you mean ...?": the known word that is nearest to a mistyped one. */
enum { CLI_GUESS_SIZE = 96 };

struct cli_guess {
    const char *word; /* as typed; borrowed */
    size_t length;
    const char *best; /* borrowed from the caller that proposed it, or NULL */
    size_t distance;
    char text[CLI_GUESS_SIZE];
};

void cli_guess_init(struct cli_guess *self, const char *word, size_t length);

/* Proposes a word that would have been right. '-' and '_' count as the same. */
void cli_guess_propose(struct cli_guess *self, const char *word);

/* Returns " (did you mean <prefix><word>?)", or "" if no word is near. */
const char *cli_guess_text(struct cli_guess *self, const char *prefix);

/* Reports each variable RQL_... of the environment that is not read by the program. Without the
 * report a mistyped variable would silently have no effect. */
void cli_say_unknown_variables(void);

/* Texts of help and manual pages. */
struct cli_exit_code {
    int code;             /* CLI_SIGNALLED: plus a signal */
    const char *commands; /* the commands that end with it, in the form of a flag's `commands` */
    const char *text;
};

/* The last entry has no text. */
extern const struct cli_exit_code cli_exit_codes[];

/* Writes the whole text, with the commands in front. */
enum { CLI_EXIT_SIZE = 256 };

void cli_exit_text(char out[CLI_EXIT_SIZE], const struct cli_exit_code *row);

struct cli_word {
    const char *name; /* NULL at the end of a table */
    const char *text;
};

extern const struct cli_word cli_help_words[];
extern const struct cli_word cli_variables[]; /* environment variables that are no options */

extern const char cli_purpose[];
extern const char cli_option_rules[];
extern const char cli_server_rules[];
extern const char cli_duration_rule[]; /* for commands for which this returns true: */
bool cli_takes_durations(const struct cli_command *command);

int cli_help(void);
int cli_help_options(void);
int cli_help_command(const struct cli_command *command);

/* Prints the manual page of a command, or of the program (NULL), for man(1). */
int cli_page(const struct cli_command *command);

/* Prints the script that completes command lines in this shell. Returns CLI_USAGE after a line on
 * stderr if there is none. */
int cli_completion(const char *shell);

/* Prints the candidates that the script asks for: the words that can replace the last one, one per
 * line, each followed by a tab and its meaning. Returns CLI_REFUSED if a file can stand there, or a
 * command and its arguments. */
int cli_complete(struct cli_args *args, char **words);

#endif
