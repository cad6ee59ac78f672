#include "wire/reply.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>

/* Parts of a message are cut so that all of them fit into rql_error::message. ESCAPE_SIZE is that
 * of "\x1b"; CUT_SIZE that of "..." and a terminator. */
enum {
    WHERE_SIZE = 88,
    TEXT_SIZE = 112,
    ESCAPE_SIZE = 4,
    CUT_SIZE = 4,
    SHA_SIZE = 40,
    NUMBER_SIZE = 24
};

struct error_class {
    const char *code;
    rql_status status;
    /* The command was refused before the first write, in scripts too, because Redis raises these
     * errors only until a script has written. NOPERM and WRONGTYPE may come later. */
    bool nothing_done;
};

static const struct error_class classes[] = {
    {"NOAUTH", RQL_E_AUTH, true},           {"WRONGPASS", RQL_E_AUTH, true},
    {"NOPERM", RQL_E_AUTH, false},          {"DENIED", RQL_E_AUTH, true},
    {"WRONGTYPE", RQL_E_WRONG_TYPE, false}, {"READONLY", RQL_E_READ_ONLY, true},
    {"MASTERDOWN", RQL_E_READ_ONLY, true},  {"MOVED", RQL_E_UNAVAILABLE, true},
    {"ASK", RQL_E_UNAVAILABLE, true},       {"LOADING", RQL_E_UNAVAILABLE, true},
    {"BUSY", RQL_E_UNAVAILABLE, true},      {"OOM", RQL_E_UNAVAILABLE, true},
    {"MISCONF", RQL_E_UNAVAILABLE, true},   {"NOREPLICAS", RQL_E_UNAVAILABLE, true},
    {"TRYAGAIN", RQL_E_UNAVAILABLE, true},  {"CLUSTERDOWN", RQL_E_UNAVAILABLE, true},
};

/* Faults without a code of their own, or inside a script, which some servers report in this way. */
static const struct error_class phrases[] = {
    {"WRONGTYPE", RQL_E_WRONG_TYPE, false},
    {"The user executing the script can't", RQL_E_AUTH, false},
    {"ACL failure in script", RQL_E_AUTH, false},
    {"EXECABORT Transaction discarded because of: NOPERM", RQL_E_AUTH, true},
    {"ERR max number of clients reached", RQL_E_UNAVAILABLE, true},
};

/* Any other error: something may have been done. */
static const struct error_class other = {"", RQL_E_SERVER, false};

static bool begins_with(struct rqli_slice text, const char *word)
{
    return rqli_has_prefix(text, rqli_slice_of(word));
}

/* Compares the whole word, because BUSY is another code than BUSYKEY. */
static bool first_word_is(struct rqli_slice text, const char *word)
{
    size_t length = strlen(word);

    return begins_with(text, word) && (text.length == length || text.data[length] == ' ');
}

/* Returns the first place of the part; NULL: it is not there. */
static const char *find(struct rqli_slice text, const char *part)
{
    return text.length > 0 ? memmem(text.data, text.length, part, strlen(part)) : NULL;
}

static struct rqli_slice from(struct rqli_slice text, const char *start)
{
    return (struct rqli_slice){start, text.length - (size_t)(start - text.data)};
}

/* Redis 7 appends " script: <sha>, on @user_script:12.", which is of no use to the caller. The
 * words of the error may have " script: " in them, too, but without a sha and ", on @" after it. */
static struct rqli_slice without_tail(struct rqli_slice text)
{
    static const char word[] = " script: ";
    struct rqli_slice rest = text;
    const char *tail;

    while ((tail = find(rest, word))) {
        rest = from(rest, tail + strlen(word));
        if (rest.length > SHA_SIZE && begins_with(from(rest, rest.data + SHA_SIZE), ", on @")) {
            return (struct rqli_slice){text.data, (size_t)(tail - text.data)};
        }
    }
    return text;
}

/* Redis 6 puts "ERR Error running script (call to f_<sha>): @user_script:1: " in front, perhaps
 * with the end of it twice, and perhaps a '-' before the code. */
static struct rqli_slice without_front(struct rqli_slice text)
{
    const char *mark;

    if (!begins_with(text, "ERR Error running script")) {
        return text;
    }
    while ((mark = find(text, "@user_script:"))) {
        struct rqli_slice rest = from(text, mark + strlen("@user_script:"));
        const char *end = find(rest, ": ");

        if (!end) {
            break;
        }
        text = from(rest, end + 2);
    }
    return text.length > 0 && text.data[0] == '-' ? from(text, text.data + 1) : text;
}

/* Texts that Redis 7.2 and later and Valkey put in front of "User w has no permissions to run the
 * 'publish' command". A message has room for the long name of a user, or for these. */
static const char *const acl_fronts[] = {
    "ERR ACL failure in script: ",
    "EXECABORT Transaction discarded because of: ",
};

static struct rqli_slice without_acl_front(struct rqli_slice text)
{
    for (size_t i = 0; i < sizeof acl_fronts / sizeof acl_fronts[0]; i++) {
        if (begins_with(text, acl_fronts[i])) {
            return from(text, text.data + strlen(acl_fronts[i]));
        }
    }
    return text;
}

/* Returns the words that the command itself has raised. */
static struct rqli_slice useful_part(struct rqli_slice text)
{
    return without_front(without_tail(text));
}

/* Finds the class by the first word, which is the code; then by any part of the text. Never returns
 * NULL. */
static const struct error_class *classify(struct rqli_slice text)
{
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        if (first_word_is(text, classes[i].code)) {
            return &classes[i];
        }
    }
    for (size_t i = 0; i < sizeof phrases / sizeof phrases[0]; i++) {
        if (find(text, phrases[i].code)) {
            return &phrases[i];
        }
    }
    return &other;
}

rql_status rqli_reply_class(const struct rqli_reply *error_reply)
{
    return classify(useful_part(error_reply->text))->status;
}

bool rqli_reply_did_nothing(const struct rqli_reply *reply)
{
    return reply->type == RQLI_REPLY_ERROR && classify(useful_part(reply->text))->nothing_done;
}

/* Ends a text that was cut, but not within a character of UTF-8. */
static size_t put_cut(char *out, size_t length)
{
    while (length > 0 && rqli_continues_character(out[length - 1])) {
        length--;
    }
    if (length > 0 && ((unsigned char)out[length - 1] & 0x80)) {
        length--;
    }
    memcpy(out + length, "...", sizeof "...");
    return length + 3;
}

/* Writes one line for a terminal: control bytes escaped, cut to size. */
static void show(char *out, size_t size, struct rqli_slice text)
{
    size_t length = 0;

    for (size_t i = 0; i < text.length; i++) {
        unsigned char byte = (unsigned char)text.data[i];

        if (length + ESCAPE_SIZE + CUT_SIZE > size) {
            length = put_cut(out, length);
            break;
        }
        if (byte < 0x20 || byte == 0x7F) {
            length += (size_t)snprintf(out + length, size - length, "\\x%02x", byte);
        } else {
            out[length++] = (char)byte;
        }
    }
    out[length] = '\0';
}

/* The class is found before the words are cut; if the class says that nothing was done, so does the
 * message. */
rql_status rqli_reply_fault(const struct rqli_reply *reply, const char *what, const char *where,
                            rql_error *error)
{
    const struct error_class *class;
    struct rqli_slice useful;
    char place[WHERE_SIZE];
    char text[TEXT_SIZE];

    show(place, sizeof place, rqli_slice_of(where));
    if (reply->type != RQLI_REPLY_ERROR) {
        return rqli_fail(error, RQL_E_PROTOCOL, "%.24s on %s: unexpected reply", what, place);
    }
    useful = useful_part(reply->text);
    class = classify(useful);
    show(text, sizeof text, without_acl_front(useful));
    return rqli_fail(error, class->status, "%.24s on %s: %s%s", what, place, text,
                     class->nothing_done ? "; nothing was done" : "");
}

bool rqli_reply_says(const struct rqli_reply *reply, const char *word)
{
    return first_word_is(reply->text, word);
}

bool rqli_reply_wants_text(const struct rqli_reply *reply)
{
    return reply->type == RQLI_REPLY_ERROR && rqli_reply_says(reply, "NOSCRIPT");
}

bool rqli_reply_is(const struct rqli_reply *reply, const char *text)
{
    return reply->type == RQLI_REPLY_TEXT && rqli_slice_is(reply->text, text);
}

/* No key has more items or bytes. */
bool rqli_is_count(int64_t number)
{
    return number >= 0 && number <= INT64_C(1) << 40;
}

bool rqli_reply_is_count(const struct rqli_reply *reply)
{
    return reply->type == RQLI_REPLY_INTEGER && rqli_is_count(reply->integer);
}

bool rqli_reply_is_refused(const struct rqli_reply *reply)
{
    return reply->type == RQLI_REPLY_ERROR &&
           (rqli_reply_says(reply, "NOPERM") || strcasestr(reply->text.data, "unknown command") ||
            strcasestr(reply->text.data, "unknown subcommand"));
}

const struct rqli_reply *rqli_reply_field(const struct rqli_reply *reply, const char *name,
                                          enum rqli_reply_type type)
{
    for (size_t i = 0; i + 1 < reply->count; i += 2) {
        const struct rqli_reply *value = &reply->items[i + 1];

        if (rqli_reply_is(&reply->items[i], name) && value->type == type) {
            return value;
        }
    }
    return NULL;
}

void rqli_reply_copy_between(char *out, size_t size, const struct rqli_reply *reply,
                             const char *begin, const char *end)
{
    struct rqli_slice rest = reply->text;
    const char *start;
    const char *stop;

    if (reply->type != RQLI_REPLY_TEXT || !(start = find(rest, begin))) {
        return; /* the text of other types is NULL */
    }
    rest = from(rest, start + strlen(begin));
    stop = find(rest, end);
    if (stop && (size_t)(stop - rest.data) < size) {
        memcpy(out, rest.data, (size_t)(stop - rest.data));
    }
}

int64_t rqli_info_number(const struct rqli_reply *info, const char *mark)
{
    char text[NUMBER_SIZE] = "";
    int64_t value;

    rqli_reply_copy_between(text, sizeof text, info, mark, "\r");
    return rqli_parse_int(rqli_slice_of(text), &value) ? value : -1;
}
