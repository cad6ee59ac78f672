#include "golden.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

enum { TWO_DAYS_S = 172800 };

/* The server prints scores with 17 digits, one or two more than the shortest form. */
static const double same_s = 0.0000005;

void names_float(double value, char out[32])
{
    int digits = 1;

    do {
        (void)snprintf(out, 32, "%.*f", digits, value);
        digits++;
    } while (strtod(out, NULL) != value && digits <= 9);
}

bool names_is_id(const char *text)
{
    return strncmp(text, "rql:acq:", 8) == 0 || strncmp(text, "rql:hst:", 8) == 0;
}

bool names_is_time(double value, double at_s)
{
    return fabs(value - at_s) < TWO_DAYS_S;
}

bool names_time_of(const char *text, double at_s, double *out)
{
    size_t digits = strspn(text, "0123456789");
    char *end = NULL;

    if (digits != 10) {
        return false;
    }
    *out = strtod(text, &end);
    return *end == '\0' && names_is_time(*out, at_s);
}

static void add_id(struct names *self, const char *recorded, const char *replayed)
{
    assert_true(self->n_ids < sizeof self->ids / sizeof self->ids[0]);
    (void)snprintf(self->ids[self->n_ids].recorded, RQL_ID_SIZE, "%s", recorded);
    (void)snprintf(self->ids[self->n_ids].replayed, RQL_ID_SIZE, "%s", replayed);
    self->n_ids++;
}

/* One name here is one name there. */
bool names_match_id(struct names *self, const char *recorded, const char *replayed)
{
    for (size_t i = 0; i < self->n_ids; i++) {
        bool is_here = strcmp(self->ids[i].recorded, recorded) == 0;
        bool is_there = strcmp(self->ids[i].replayed, replayed) == 0;

        if (is_here || is_there) {
            return is_here && is_there;
        }
    }
    if (strncmp(recorded, replayed, 8) != 0 || !own_is_acquirer(replayed)) {
        return false;
    }
    add_id(self, recorded, replayed);
    return true;
}

bool names_recorded_time(const struct names *self, double replayed, double *out)
{
    for (size_t i = 0; i < self->n_times; i++) {
        if (fabs(self->times[i].replayed - replayed) < same_s) {
            *out = self->times[i].recorded;
            return true;
        }
    }
    return false;
}

bool names_replayed_time(const struct names *self, double recorded, double *out)
{
    for (size_t i = 0; i < self->n_times; i++) {
        if (fabs(self->times[i].recorded - recorded) < same_s) {
            *out = self->times[i].replayed;
            return true;
        }
    }
    return false;
}

static void keep_id(struct names *self, const char *recorded)
{
    for (size_t i = 0; i < self->n_ids; i++) {
        if (strcmp(self->ids[i].recorded, recorded) == 0) {
            return;
        }
    }
    add_id(self, recorded, recorded);
}

const char *names_replayed_id(const struct names *self, const char *recorded)
{
    for (size_t i = 0; i < self->n_ids; i++) {
        if (strcmp(self->ids[i].recorded, recorded) == 0) {
            return self->ids[i].replayed;
        }
    }
    return recorded;
}

static void add_time(struct names *self, double recorded, double replayed)
{
    assert_true(self->n_times < sizeof self->times / sizeof self->times[0]);
    self->times[self->n_times].recorded = recorded;
    self->times[self->n_times].replayed = replayed;
    self->n_times++;
}

/* Seen for the first time it must be an instant of this replay, then it must stay the same. */
bool names_match_time(struct names *self, double recorded, double replayed, double now_s)
{
    double known;

    if (names_replayed_time(self, recorded, &known)) {
        return fabs(known - replayed) < same_s;
    }
    if (replayed > now_s + 0.001 || replayed < now_s - (double)(120 * wait_slowness())) {
        return false;
    }
    add_time(self, recorded, replayed);
    return true;
}

/* What came later in the recording comes later now, however fast its steps are replayed. */
static double in_order(const struct names *self, double recorded, double replayed)
{
    for (size_t i = 0; i < self->n_times; i++) {
        if (self->times[i].recorded < recorded && self->times[i].replayed > replayed) {
            replayed = self->times[i].replayed + 2 * same_s;
        }
    }
    return replayed;
}

void names_move(struct names *self, const char *recorded, const double at_and_now_s[2],
                char out[GOLDEN_TEXT_SIZE])
{
    double value;
    double moved;

    (void)snprintf(out, GOLDEN_TEXT_SIZE, "%s", recorded);
    if (names_is_id(recorded)) {
        keep_id(self, recorded);
        (void)snprintf(out, GOLDEN_TEXT_SIZE, "%s", names_replayed_id(self, recorded));
    } else if (names_time_of(recorded, at_and_now_s[0], &value)) {
        if (!names_replayed_time(self, value, &moved)) {
            moved = in_order(self, value, value - at_and_now_s[0] + at_and_now_s[1]);
            add_time(self, value, moved);
        }
        names_float(moved, out);
    }
}

/* Replaces every `from` in `text`. */
static void replace(char text[GOLDEN_TEXT_SIZE], const char *from, const char *to)
{
    char copy[GOLDEN_TEXT_SIZE];
    const char *rest = copy;
    const char *at;
    size_t used = 0;

    (void)snprintf(copy, sizeof copy, "%s", text);
    while ((at = strstr(rest, from)) != NULL) {
        used += (size_t)snprintf(text + used, GOLDEN_TEXT_SIZE - used, "%.*s%s", (int)(at - rest),
                                 rest, to);
        assert_true(used < GOLDEN_TEXT_SIZE);
        rest = at + strlen(from);
    }
    (void)snprintf(text + used, GOLDEN_TEXT_SIZE - used, "%s", rest);
}

void names_translate(const struct names *self, const char *recorded, char out[GOLDEN_TEXT_SIZE])
{
    char from[32];
    char to[32];

    (void)snprintf(out, GOLDEN_TEXT_SIZE, "%s", recorded);
    for (size_t i = 0; i < self->n_ids; i++) {
        replace(out, self->ids[i].recorded, self->ids[i].replayed);
    }
    for (size_t i = 0; i < self->n_times; i++) {
        names_float(self->times[i].recorded, from);
        (void)snprintf(to, sizeof to, "%.6f", self->times[i].replayed); /* to the microsecond */
        names_float(strtod(to, NULL), to);
        replace(out, from, to);
    }
}
