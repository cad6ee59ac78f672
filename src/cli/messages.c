#include "messages.h"

#include "exit.h"
#include "format.h"
#include "os.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_SIZE = 2048, HEAD_SIZE = 128, ERROR_TEXT_SIZE = 128, NS_PER_MS = 1000000 };

/* The action of SIGPIPE when this program was started; the command gets it back. */
static struct sigaction before = {.sa_handler = SIG_DFL};

/* Whether there is a line on the terminal that may be rewritten. Any thread may write it. */
static atomic_bool has_line;

static void erase_line(void)
{
    static const char erase[] = "\r\033[K";

    if (atomic_exchange(&has_line, false)) {
        (void)!write(STDERR_FILENO, erase, sizeof erase - 1);
    }
}

/* Writes a line. It may contain names of locks and texts of servers, so it is escaped for the
 * terminal. */
static void __attribute__((format(printf, 1, 0))) say(const char *format, va_list list)
{
    CLI_AUTO(cli_free) char *safe = NULL;
    char line[LINE_SIZE];

    (void)vsnprintf(line, sizeof line, format, list);
    safe = cli_text_for_terminal(line);
    (void)fflush(stdout); /* so that the two appear in order */
    erase_line();
    (void)fprintf(stderr, "rql: %s\n", safe);
}

void cli_say(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    say(format, list);
    va_end(list);
}

/* Returns whether a line on stderr would not block. This is also true if its reader has gone,
 * because a write then fails at once. */
static bool is_read(void)
{
    struct pollfd reader = {.fd = STDERR_FILENO, .events = POLLOUT};

    return poll(&reader, 1, 0) == 1;
}

void cli_say_nowait(const char *format, ...)
{
    va_list list;

    if (!is_read()) {
        return;
    }
    va_start(list, format);
    say(format, list);
    va_end(list);
}

/* Rewrites the line. The terminal cuts off a long line while wrapping is off. The line begins at
 * the first column, even if the user has typed something. */
void cli_rewrite_line(const char *text)
{
    CLI_AUTO(cli_free) char *safe = text ? cli_text_for_terminal(text) : NULL;
    char line[LINE_SIZE];
    int length;

    if (!is_read()) {
        return;
    }
    erase_line();
    if (safe) {
        length = snprintf(line, sizeof line, "\033[?7l\rrql: %.*s\033[?7h", LINE_SIZE / 2, safe);
        atomic_store(&has_line, true);
        (void)!write(STDERR_FILENO, line, (size_t)length);
    }
}

void cli_say_errno(const char *what, int number)
{
    char text[ERROR_TEXT_SIZE];

    cli_say("%s: %s", what, cli_os_strerror(number, text, sizeof text));
}

bool cli_may_pass(rql_status status)
{
    return status == RQL_E_IO || status == RQL_E_UNKNOWN || status == RQL_E_UNAVAILABLE;
}

/* An error that the library calls invalid came from the command line or the environment. */
int cli_fault(const rql_error *error)
{
    cli_say("%s", error->message[0] != '\0' ? error->message : rql_status_text(error->status));
    return error->status == RQL_E_INVALID ? CLI_USAGE : CLI_FAULT;
}

/* Returns whether the reader takes log lines. Renewals and signals wait for the thread that logs,
 * so lines that would block are left out. */
static bool may_log(void)
{
    /* Any thread of the library may log. */
    static atomic_uint n_unread;
    unsigned left_out;

    if (!is_read()) {
        (void)atomic_fetch_add(&n_unread, 1);
        return false;
    }
    left_out = atomic_exchange(&n_unread, 0);
    if (left_out > 0) {
        cli_say_nowait("log: nothing was read for a while; %u lines are left out", left_out);
    }
    return true;
}

/* Writes the head with a time such as "2026-11-22T10:42:35.123Z". It is UTC, so that the lines of
 * all machines of a fleet can be compared. */
static size_t format_head(char out[HEAD_SIZE], bool as_json)
{
    char time[HEAD_SIZE / 2];
    struct timespec now = {0};
    struct tm utc = {0};

    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &utc);
    (void)strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%S", &utc);
    return (size_t)snprintf(out, HEAD_SIZE, as_json ? "{\"time\":\"%s.%03ldZ\"," : "%s.%03ldZ ",
                            time, now.tv_nsec / NS_PER_MS);
}

/* Writes head, line and line feed in one write, so that lines do not mix. A reader that is gone is
 * no reason to end, and a line for which there is no memory is left out. */
static void write_log(const rql_log_record *record, bool as_json)
{
    size_t (*const format)(const rql_log_record *, char *, size_t) =
        as_json ? rql_log_json : rql_log_text;
    CLI_AUTO(cli_free) char *text = NULL;
    char head[HEAD_SIZE];
    size_t length = format_head(head, as_json);
    const size_t begin = as_json ? length - 1 : length; /* the head has the "{" of the line */
    const size_t size = begin + format(record, NULL, 0) + 2;

    text = may_log() ? malloc(size) : NULL;
    if (!text) {
        return;
    }
    (void)format(record, text + begin, size - begin);
    /* In JSON this overwrites the "{" of the line: the head ends in a comma. */
    (void)memcpy(text, head, length);
    erase_line();
    /* This replaces the terminator. */
    text[size - 2] = '\n';
    (void)!write(STDERR_FILENO, text, size - 1);
}

void cli_log_text(const rql_log_record *record, void *user_data)
{
    (void)user_data;
    write_log(record, false);
}

void cli_log_json(const rql_log_record *record, void *user_data)
{
    (void)user_data;
    write_log(record, true);
}

void cli_broken_pipe_init(void)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};

    (void)sigaction(SIGPIPE, &ignore, &before);
}

void cli_broken_pipe_restore(void)
{
    (void)sigaction(SIGPIPE, &before, NULL);
}

/* True only if SIGPIPE had its default action at the start: a parent that ignored it wants an exit
 * code. */
bool cli_broken_pipe_is_deadly(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};

    return before.sa_handler == SIG_DFL && poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}
