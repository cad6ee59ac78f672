#ifndef CLI_CMD_H
#define CLI_CMD_H

/* What a command of the program is: an entry in a table. The files cmd_*.c have those of one kind
 * each, main.c lists them, args.c parses for them, help.c describes them. */

#include "exit.h"
#include "out.h"

#include <rql/rql.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A number or duration that was not given. */
#define CLI_UNSET INT64_MIN

/* Everything that the command line can say, for all commands. */
struct cli_args {
    char **next;      /* first argument not parsed yet, behind another; the array ends in NULL */
    const char *name; /* of the lock, or NULL; of a series: the first of them, for messages */
    size_t n_names;   /* of a series */
    const char *names[RQL_SERIES_MAX];
    char **command; /* arguments after "--", or NULL */

    rql_options options;   /* defaults, then environment, then flags */
    rql_status env_status; /* what the environment was like; said when a client is made */
    rql_error env_error;

    bool help, version, json;
    bool only_names; /* no flags up to the next "--" */
    bool fail_fast, auto_extend;
    bool gem;
    bool sorted;
    bool force, dry_run;
    bool openmetrics;
    bool queues, keys, details, node;
    bool quick, strict, all;
    bool ids, verbose;
    int64_t ttl_ms, wait_ms, max_hold_ms, kill_after_ms, add_ms, older_than_ms;
    int64_t conflict_exit_code, max_keys, every_ms, for_ms;
    const char *secret, *host, *acquirer, *out_file, *classes_file, *threads;

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
    CLI_META,     /* NAME=VALUE, may be repeated */
    CLI_LOG,      /* "text" or "json": the log lines of the library go to stderr */
    CLI_OPTION,   /* of the library; `offset` is its row there */
};

struct cli_flag {
    const char *name;  /* without "--" */
    const char *value; /* what the help calls its value, FILE, or words with '|' between them;
                        * NULL for switches */
    const char *help;  /* NULL: not in the help */
    enum cli_flag_kind kind;
    char letter;          /* its short form, or 0 */
    size_t offset;        /* of its field in struct cli_args */
    const char *commands; /* that take it: names, a space between two; NULL: all */
};

#define CLI_FIELD(field) offsetof(struct cli_args, field)

/* The one table of flags, for the command line, its completion, help and manual pages. Its end has
 * no name. */
extern const struct cli_flag cli_flags[];

/* An option of the library as a flag: with '-' for '_', without "--". */
enum { CLI_FLAG_SIZE = 64 };

void cli_option_flag(char out[CLI_FLAG_SIZE], const rql_option_row *row);

/* Its range and its default in this program, of `row`. */
enum { CLI_RANGE_SIZE = 256 };

void cli_option_range(char out[CLI_RANGE_SIZE], const rql_option_row *row);

/* A run of a command: what was asked for, and what becomes of it. */
struct cli_session {
    const struct cli_args *args;
    rql_client *client;
    struct out out; /* printed by main.c after CLI_DONE; else by the command, if at all */
    rql_error error;
};

struct cli_command {
    const char *name;
    const char *usage;          /* what follows the name */
    const char *summary;        /* one line */
    const char *examples;       /* lines for its --help, or NULL */
    const char *notes;          /* more lines for its --help, or NULL */
    const char *const *details; /* paragraphs for its manual page alone, NULL at the end; or NULL */
    const char *name_is;        /* what its name is, if not a lock's: a word of `usage`; or NULL */
    bool needs_name;
    bool takes_names;     /* a series of them */
    bool takes_glob;      /* `name` may be one, or NULL */
    bool takes_url;       /* `name` may be one, or NULL */
    bool takes_command;   /* arguments after "--" */
    bool finds_rights;    /* also those without which no client can log in */
    bool is_worth_naming; /* others see who it is: it holds locks, or waits */
    /* Before there is a client. CLI_DONE, or the exit code after a line on stderr. Or NULL. */
    int (*prepare)(struct cli_args *args);
    /* The exit code; or minus a signal that is to end the program. */
    int (*run)(struct cli_session *self);
};

extern const struct cli_command cli_run;
extern const struct cli_command cli_series;
extern const struct cli_command cli_lock;
extern const struct cli_command cli_unlock;
extern const struct cli_command cli_extend;
extern const struct cli_command cli_info;
extern const struct cli_command cli_queue;
extern const struct cli_command cli_ls;
extern const struct cli_command cli_who;
extern const struct cli_command cli_clear;
extern const struct cli_command cli_clear_of;
extern const struct cli_command cli_dead;
extern const struct cli_command cli_stats;
extern const struct cli_command cli_ping;
extern const struct cli_command cli_doctor;
extern const struct cli_command cli_bench;
extern const struct cli_command cli_swarm;

/* What stands before the command's name; its own is empty. */
extern const struct cli_command cli_top;

/* All commands, NULL at the end. */
extern const struct cli_command *const cli_commands[];

/* NULL: there is none of that name. */
const struct cli_command *cli_find_command(const char *name);

/* Defaults and environment. An argument stands before `arguments`, which end in NULL and outlive
 * `args`. */
void cli_args_init(struct cli_args *args, char **arguments);

/* Takes the flags before the command's name (command NULL), or everything behind it. Returns
 * CLI_DONE, or CLI_USAGE after having said what is wrong. */
int cli_args_parse(struct cli_args *args, const struct cli_command *command);

/* The answer is no: prints what there is, says why, and returns CLI_REFUSED. */
int cli_refuse(struct cli_session *self, const char *why);

/* `prepare` of commands whose name is a URL, which then is that of the client. */
int cli_take_url(struct cli_args *args);

/* What a server says of itself, as an object under this key, or as the whole. Its labels are shown
 * in a table if there is no key. */
void cli_print_server(struct out *out, const char *key, const rql_server_info *info);

/* Can a name, pattern or URL follow? */
static inline bool cli_takes_name(const struct cli_command *self)
{
    return self->needs_name || self->takes_glob || self->takes_url;
}

/* Is the command's name in the list? As a whole word: "clear" is not in "clear-of". NULL is all. */
bool cli_is_listed(const struct cli_command *command, const char *commands);

/* Says what is wrong with an argument; returns CLI_USAGE. */
int cli_misused(const struct cli_command *command, const char *what, const char *argument);

#define CLI_GLOB_NOTE "GLOB is matched with the names of the locks: * ? [a-z] [!a] \\*.\n"

/* Options whose default in this program is "forever" (the library's suits a worker's loop, not a
 * command that was started to wait). NULL at the end. */
extern const char *const cli_forever_options[];

/* "did you mean ...?": the known word that is nearest to one that was mistyped. */
enum { CLI_GUESS_SIZE = 96 };

struct cli_guess {
    const char *word; /* as typed; borrowed */
    size_t length;
    const char *best; /* borrowed from who proposed it, or NULL */
    size_t distance;
    char text[CLI_GUESS_SIZE];
};

void cli_guess_init(struct cli_guess *self, const char *word, size_t length);

/* A word that would have been right. '-' and '_' are the same. */
void cli_guess_propose(struct cli_guess *self, const char *word);

/* " (did you mean <prefix><word>?)"; empty if nothing is near. */
const char *cli_guess_text(struct cli_guess *self, const char *prefix);

/* Says of each variable RQL_... of the environment that nothing reads it: one that is mistyped is a
 * setting that is not in force, and nobody would know. */
void cli_say_unknown_variables(void);

/* Texts of help and manual pages. */
struct cli_exit_code {
    int code;             /* CLI_SIGNALLED: plus a signal */
    const char *commands; /* that end so, as of a flag */
    const char *text;
};

/* Its end has no text. */
extern const struct cli_exit_code cli_exit_codes[];

/* The text as a whole, with the commands in front. */
enum { CLI_EXIT_SIZE = 256 };

void cli_exit_text(char out[CLI_EXIT_SIZE], const struct cli_exit_code *row);

struct cli_word {
    const char *name; /* NULL at the end of a table */
    const char *text;
};

extern const struct cli_word cli_help_words[];
extern const struct cli_word cli_variables[]; /* of the environment, beside those of the options */

extern const char cli_purpose[];
extern const char cli_option_rules[];
extern const char cli_server_rules[];
extern const char cli_duration_rule[]; /* of a command for which this says so: */
bool cli_takes_durations(const struct cli_command *command);

int cli_help(void);
int cli_help_options(void);
int cli_help_command(const struct cli_command *command);

/* The manual page of a command, or of the program (NULL), for man(1). */
int cli_page(const struct cli_command *command);

/* The script that completes command lines in this shell; or, after a line on stderr, CLI_USAGE. */
int cli_completion(const char *shell);

/* What that script asks for: what can stand in place of the last word, each on a line of its own
 * with its meaning behind a tab. CLI_REFUSED: a file can, or a command and its arguments. */
int cli_complete(struct cli_args *args, char **words);

#endif
