#include "common/fault.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void fault_raise(struct fault *self, const char *format, ...)
{
    va_list arguments;

    if (atomic_exchange(&self->raised, true)) {
        return;
    }
    va_start(arguments, format);
    (void)vsnprintf(self->text, sizeof self->text, format, arguments);
    va_end(arguments);
    atomic_store(&self->told, true);
}

void fault_raise_errno(struct fault *self, const char *what)
{
    char reason[FAULT_TEXT_SIZE / 2];

    fault_raise(self, "%s: %s", what, strerror_r(errno, reason, sizeof reason));
}

const char *fault_text(const struct fault *self)
{
    return atomic_load(&self->told) ? self->text : NULL;
}
