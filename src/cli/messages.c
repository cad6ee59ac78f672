#include "messages.h"

#include "exit.h"
#include "format.h"

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

/* As this program was started with it; the command gets it back. */
static struct sigaction before = {.sa_handler = SIG_DFL};

/* A line on the terminal that may be rewritten. Any thread may write. */
static atomic_bool has_line;

static void erase_line(void)
{
    static const char erase[] = "\r\033[K";

    if (atomic_exchange(&has_line, false)) {
        (void)!write(STDERR_FILENO, erase, sizeof erase - 1);
    }
}

/* Names of locks and texts of servers are in the lines: nothing of them reaches the terminal raw.
 */
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

/* A line on stderr does not block. True as well when its reader has gone: to write fails at once.
 */
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

/* A terminal cuts off what does not fit while it does not wrap. It begins at the first column, also
 * where something was typed. */
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

    cli_say("%s: %s", what, strerror_r(number, text, sizeof text));
}

/* What the library calls invalid came from the command line or the environment. */
int cli_fault(const rql_error *error)
{
    cli_say("%s", error->message[0] != '\0' ? error->message : rql_status_text(error->status));
    return error->status == RQL_E_INVALID ? CLI_USAGE : CLI_FAULT;
}

/* Renewals and signals wait for the thread that logs: what nobody reads is left out. */
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
        cli_say_nowait("log: nobody read for a while; %u lines are left out", left_out);
    }
    return true;
}

/* "2026-11-22T10:42:35.123Z" in the head: UTC, by which all machines of a fleet can be compared. */
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

/* Head, line and line feed in one write, so that lines do not mix. A reader that is gone is no
 * reason to end, and a line that there is no memory for is left out. */
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
    /* Over the "{" of the line, if that is JSON: the head ends in a comma. */
    (void)memcpy(text, head, length);
    erase_line();
    /* In the place of the terminator. */
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

/* Only if SIGPIPE had its default action at the start: who had it ignored wants an exit code. */
bool cli_broken_pipe_is_deadly(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};

    return before.sa_handler == SIG_DFL && poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}
