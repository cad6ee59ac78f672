#include "held.h"

#include "output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_SIZE = RQL_NAME_MAX + 2 };

static size_t count_of(const struct cli_held *self)
{
    return self->series ? rql_series_count(self->series) : 1;
}

static const rql_lock *lock_at(const struct cli_held *self, size_t index)
{
    return self->series ? rql_series_lock(self->series, index) : self->lock;
}

rql_lock_state cli_held_state(const struct cli_held *self)
{
    return self->series ? rql_series_get_state(self->series) : rql_lock_get_state(self->lock);
}

int64_t cli_held_remaining_ms(const struct cli_held *self)
{
    return self->series ? rql_series_remaining_ms(self->series) : rql_lock_remaining_ms(self->lock);
}

int64_t cli_held_ttl_ms(const struct cli_held *self)
{
    int64_t least_ms = rql_lock_describe(lock_at(self, 0)).ttl_ms;
    size_t i;

    for (i = 1; i < count_of(self); i++) {
        const int64_t ttl_ms = rql_lock_describe(lock_at(self, i)).ttl_ms;

        least_ms = ttl_ms < least_ms ? ttl_ms : least_ms;
    }
    return least_ms;
}

rql_status cli_held_lost_fd(const struct cli_held *self, int *out, rql_error *error)
{
    return self->series ? rql_series_lost_fd(self->series, out, error)
                        : rql_lock_lost_fd(self->lock, out, error);
}

rql_status cli_held_release(struct cli_held *self, rql_error *error)
{
    const rql_status status = self->series ? rql_series_release(self->series, NULL, error)
                                           : rql_lock_release(self->lock, error);

    self->series = NULL;
    self->lock = NULL;
    return status;
}

static char *join(const struct cli_held *self, bool tokens)
{
    const size_t size = count_of(self) * LINE_SIZE;
    char *text = cli_must(malloc(size));
    size_t length = 0;
    size_t i;

    for (i = 0; i < count_of(self); i++) {
        const rql_lock *lock = lock_at(self, i);
        const char *end = i + 1 < count_of(self) ? "\n" : "";
        int written;

        if (tokens) {
            written = snprintf(text + length, size - length, "%lld%s",
                               (long long)rql_lock_token(lock), end);
        } else {
            written =
                snprintf(text + length, size - length, "%s%s", rql_lock_describe(lock).name, end);
        }
        length += written > 0 ? (size_t)written : 0;
    }
    return text;
}

char *cli_held_names(const struct cli_held *self)
{
    return join(self, false);
}

char *cli_held_tokens(const struct cli_held *self)
{
    return join(self, true);
}
