#include "logger.h"

#include "output.h"

#include <rql/rql.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { LINE_SIZE = 1024, TIME_SIZE = 64, NS_PER_MS = 1000000 };

typedef size_t format_fn(const rql_log_record *record, char *buffer, size_t size);

/* "2026-11-22T10:42:35.123Z": UTC, as all of a fleet's machines can be compared by. */
static void format_time(char out[TIME_SIZE])
{
    struct timespec now = {0};
    struct tm utc = {0};
    size_t length;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &utc);
    length = strftime(out, TIME_SIZE, "%Y-%m-%dT%H:%M:%S", &utc);
    (void)snprintf(out + length, TIME_SIZE - length, ".%03ldZ", now.tv_nsec / NS_PER_MS);
}

/* Renewals and signals wait for the thread that logs: what nobody reads is left out. */
static bool may_write(void)
{
    static atomic_uint n_unread;
    unsigned left_out;

    if (!cli_is_heard()) {
        (void)atomic_fetch_add(&n_unread, 1);
        return false;
    }
    left_out = atomic_exchange(&n_unread, 0);
    if (left_out > 0) {
        cli_tell("log: nobody read for a while; %u lines are left out", left_out);
    }
    return true;
}

/* Head, line and line feed in one write, so that lines do not mix. `skip` bytes of the line stand
 * in the head already. A reader that is gone is no reason to end. */
static void write_line(const char *head, size_t head_length, size_t skip, format_fn *format,
                       const rql_log_record *record)
{
    const size_t size = head_length + format(record, NULL, 0) + 2;
    char small[LINE_SIZE];
    char *text = small;
    size_t length;

    if (!may_write()) {
        return;
    }
    if (size > sizeof small) {
        text = malloc(size);
    }
    if (!text) {
        return;
    }
    /* The line first, so that its skipped bytes lie under the head. */
    length =
        head_length - skip + format(record, text + head_length - skip, size - head_length + skip);
    for (size_t i = 0; i < head_length; i++) {
        text[i] = head[i];
    }
    text[length] = '\n';
    (void)!write(STDERR_FILENO, text, length + 1);
    if (text != small) {
        free(text);
    }
}

void cli_log_text(const rql_log_record *record, void *user_data)
{
    char time[TIME_SIZE];
    char head[TIME_SIZE + 1];

    (void)user_data;
    format_time(time);
    write_line(head, (size_t)snprintf(head, sizeof head, "%s ", time), 0, rql_log_text, record);
}

void cli_log_json(const rql_log_record *record, void *user_data)
{
    char time[TIME_SIZE];
    char head[TIME_SIZE + sizeof "{\"time\":\"\","];

    (void)user_data;
    format_time(time);
    write_line(head, (size_t)snprintf(head, sizeof head, "{\"time\":\"%s\",", time), 1,
               rql_log_json, record);
}
