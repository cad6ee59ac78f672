#include "reply.h"

#include "exit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_SIZE = 256, LINE_SIZE = 1024 };

void agent_reply_fini(struct agent_reply *self)
{
    free(self->data);
    *self = (struct agent_reply){.data = NULL};
}

void agent_reply_sent(struct agent_reply *self, size_t size)
{
    self->size -= size;
    if (self->size == 0) {
        agent_reply_fini(self);
    } else {
        memmove(self->data, self->data + size, self->size);
    }
}

static void append(struct agent_reply *self, const char *data, size_t size)
{
    while (self->capacity - self->size < size) {
        self->capacity = self->capacity > 0 ? 2 * self->capacity : FIRST_SIZE;
        self->data = cli_must(realloc(self->data, self->capacity));
    }
    memcpy(self->data + self->size, data, size);
    self->size += size;
}

/* A longer line is cut. */
__attribute__((format(printf, 2, 3))) static void append_line(struct agent_reply *self,
                                                              const char *format, ...)
{
    char line[LINE_SIZE];
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    append(self, line, length < LINE_SIZE ? (size_t)length : LINE_SIZE - 1);
    append(self, "\r\n", 2);
}

void agent_reply_status(struct agent_reply *self, const char *text)
{
    append_line(self, "+%s", text);
}

void agent_reply_number(struct agent_reply *self, int64_t number)
{
    append_line(self, ":%lld", (long long)number);
}

void agent_reply_text(struct agent_reply *self, const char *text)
{
    const size_t length = strlen(text);

    append_line(self, "$%zu", length);
    append(self, text, length);
    append(self, "\r\n", 2);
}

void agent_reply_begin(struct agent_reply *self, char type, size_t count)
{
    append_line(self, "%c%zu", type, count);
}

void agent_reply_null(struct agent_reply *self, bool is_resp3)
{
    append_line(self, "%s", is_resp3 ? "_" : "*-1");
}

void agent_reply_null_text(struct agent_reply *self, bool is_resp3)
{
    append_line(self, "%s", is_resp3 ? "_" : "$-1");
}

void agent_reply_error(struct agent_reply *self, const char *code, const char *format, ...)
{
    char text[LINE_SIZE];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (char *at = text; *at; at++) {
        if (*at == '\r' || *at == '\n') {
            *at = ' ';
        }
    }
    append_line(self, "-%s %.900s", code, text);
}

void agent_reply_fault(struct agent_reply *self, rql_status status, const char *message)
{
    static const struct {
        rql_status status;
        const char *code;
    } codes[] = {
        {RQL_CONFLICT, "HELD"},
        {RQL_NOT_HELD, "NOTHELD"},
        {RQL_QUEUE_FULL, "FULL"},
        {RQL_CANCELLED, "WITHDRAWN"},
        {RQL_E_INVALID, "INVALID"},
        {RQL_E_IO, "UNREACHABLE"},
        {RQL_E_UNKNOWN, "UNKNOWN"},
        {RQL_E_AUTH, "NORIGHTS"},
        {RQL_E_UNAVAILABLE, "UNAVAILABLE"},
        {RQL_E_READ_ONLY, "READONLY"},
        {RQL_E_WRONG_TYPE, "WRONGTYPE"},
        {RQL_E_NOT_DURABLE, "NOTDURABLE"},
        {RQL_E_UNSUPPORTED, "UNSUPPORTED"},
        {RQL_E_BUSY, "BUSY"},
    };

    const char *code = "ERR";

    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        code = codes[i].status == status ? codes[i].code : code;
    }
    agent_reply_error(self, code, "%s", message && *message ? message : rql_status_text(status));
}

void agent_reply_not_held(struct agent_reply *self, const char *why)
{
    agent_reply_error(self, "NOTHELD", "%s", why ? why : "this connection has lost it");
}

void agent_reply_ending(struct agent_reply *self)
{
    agent_reply_fault(self, RQL_E_UNAVAILABLE, "the agent is about to end");
}
