#include "base/error.h"

#include "base/must.h"
#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LINE_SIZE = 1024, HEAD_LENGTH = 100 };

/*
 * A fault or an outcome is a status and one line that says which action failed, on which server or
 * key, and what may be true on the server now. The function that finds the fault fills the line in;
 * its callers pass it on unchanged.
 */

/* There is no default, so the compiler names a status that has no text. The last line is reached
 * only with a number that no status has. */
const char *rql_status_text(rql_status status)
{
    switch (status) {
    case RQL_OK:
        return "ok";
    case RQL_TIMED_OUT:
        return "timed out";
    case RQL_RETRY_LIMIT:
        return "retry limit reached";
    case RQL_FAIL_FAST_NO_TRY:
        return "held by another";
    case RQL_FAIL_FAST_AFTER_TRY:
        return "others are in front";
    case RQL_CONFLICT:
        return "already held by this acquirer";
    case RQL_NOT_HELD:
        return "not held any more";
    case RQL_NOT_FOUND:
        return "not found";
    case RQL_BLOCK_OVERRAN:
        return "block ran longer than its ttl";
    case RQL_STOPPED:
        return "stopped by its caller";
    case RQL_CANCELLED:
        return "cancelled by its caller";
    case RQL_QUEUE_FULL:
        return "the queue is full";
    case RQL_E_INVALID:
        return "invalid argument";
    case RQL_E_NOMEM:
        return "out of memory";
    case RQL_E_IO:
        return "no connection";
    case RQL_E_UNKNOWN:
        return "outcome unknown";
    case RQL_E_PROTOCOL:
        return "unexpected reply";
    case RQL_E_SERVER:
        return "refused by the server";
    case RQL_E_AUTH:
        return "not permitted";
    case RQL_E_WRONG_TYPE:
        return "key of another type";
    case RQL_E_READ_ONLY:
        return "server is read only";
    case RQL_E_UNAVAILABLE:
        return "server is unavailable";
    case RQL_E_FORKED:
        return "handle of the parent process";
    case RQL_E_BUSY:
        return "already waiting";
    case RQL_E_UNSUPPORTED:
        return "not supported";
    case RQL_E_TLS:
        return "no TLS with the server";
    case RQL_E_NOT_DURABLE:
        return "not durable";
    }
    return "unknown status";
}

/* Takes the middle out of a line that is too long. It begins with the name of a lock or a server,
 * and ends with what has happened. */
static void copy_ends(char out[RQL_ERROR_MESSAGE_SIZE], const char *line, size_t length)
{
    static const char gap[] = "...";
    size_t head = HEAD_LENGTH;
    size_t tail = length - (RQL_ERROR_MESSAGE_SIZE - HEAD_LENGTH - sizeof gap);

    while (head > 0 && rqli_continues_character(line[head])) {
        head--;
    }
    while (rqli_continues_character(line[tail])) {
        tail++;
    }
    memcpy(out, line, head);
    memcpy(out + head, gap, sizeof gap - 1);
    memcpy(out + head + sizeof gap - 1, line + tail, length - tail + 1);
}

static void copy(char out[RQL_ERROR_MESSAGE_SIZE], const char *line)
{
    const size_t length = strlen(line);

    if (length < RQL_ERROR_MESSAGE_SIZE) {
        memcpy(out, line, length + 1);
    } else {
        copy_ends(out, line, length);
    }
}

/* Saves errno before anything else can change it, and reports it only where it is useful: for
 * faults of the connection. */
rql_status rqli_fail(rql_error *error, rql_status status, const char *format, ...)
{
    int sys_errno = errno;
    char line[LINE_SIZE];
    va_list args;

    RQLI_MUST(status != RQL_OK);
    if (error) {
        error->status = status;
        error->sys_errno = status == RQL_E_IO || status == RQL_E_UNKNOWN ? sys_errno : 0;
        va_start(args, format);
        (void)vsnprintf(line, sizeof line, format, args);
        va_end(args);
        copy(error->message, line);
    }
    return status;
}
