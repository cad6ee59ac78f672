#include "url.h"

#include "messages.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_SIZE = 1024 };

/* Returns whether the URL has "user:password@" before a host, or for sentinels a password in the
 * query. A '/' or '?' that should have been encoded does not hide a password: a false alarm does no
 * harm. */
static bool has_password(const char *url)
{
    const char *scheme_end = strstr(url, "://");
    const char *login = scheme_end ? scheme_end + strlen("://") : "/";
    const char *colon = strchr(login, ':');
    const char *at = strrchr(login, '@');

    /* A path has no login, and an empty password is no secret. */
    return (*login != '/' && colon && at && colon + 1 < at) || strstr(url, "sentinel_password=");
}

/* Returns where the URL comes from, or NULL if it is the default. The pointers are compared,
 * because the texts are borrowed. */
static const char *origin_of(const struct cli_args *args, const char *url)
{
    if (url == cli_default_url) {
        return NULL;
    }
    return url == args->name ? "URL" : url == secure_getenv("RQL_URL") ? "RQL_URL" : "--url";
}

int cli_url_check(const struct cli_args *args, const struct cli_command *command)
{
    const char *url = command->takes_url && args->name ? args->name : args->options.url;
    const char *origin = origin_of(args, url);

    if (!origin || strcmp(origin, "RQL_URL") == 0 || !has_password(url)) {
        return CLI_DONE;
    }
    cli_say("other users can read a password on a command line: put the URL into RQL_URL, as in "
            "RQL_URL=... rql %s",
            command->name);
    return CLI_USAGE;
}

int cli_take_url(struct cli_args *args)
{
    if (args->name && rql_options_set(&args->options, "url", args->name, &args->env_error)) {
        return cli_fault(&args->env_error);
    }
    return CLI_DONE;
}

/* Returns whether the text is "host", "host:port" or "host:port/db". Only such a wrong URL may be
 * shown, because any other one may contain a password. */
static bool is_host(const char *text)
{
    const size_t host =
        strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_");
    const char *at = text + host;

    if (*at == ':') {
        at++;
        at += strspn(at, "0123456789");
    }
    if (*at == '/') {
        at++;
        at += strspn(at, "0123456789");
    }
    return host > 0 && *at == '\0' && strlen(text) < LINE_SIZE / 4;
}

/* Returns the number of letters, digits and '+' before "://", or 0. */
static size_t scheme_length(const char *url)
{
    size_t length = 0;

    while (isalnum((unsigned char)url[length]) || url[length] == '+') {
        length++;
    }
    return strncmp(url + length, "://", 3) == 0 && length < LINE_SIZE / 4 ? length : 0;
}

/* Writes an explanation: the library's text, or a guess of the intended URL. */
static void explain(char out[LINE_SIZE], const char *url, const char *why)
{
    const bool is_unknown = strncmp(why, "unknown scheme", strlen("unknown scheme")) == 0;
    const char *rest = strchr(why, ';');

    if (is_unknown && is_host(url)) {
        (void)snprintf(out, LINE_SIZE, "%s has no scheme; did you mean redis://%s?", url, url);
    } else if (is_unknown && scheme_length(url) > 0 && rest) {
        (void)snprintf(out, LINE_SIZE, "unknown scheme %.*s://%s", (int)scheme_length(url), url,
                       rest);
    } else {
        (void)snprintf(out, LINE_SIZE, "%s", why);
    }
}

int cli_url_fault(const struct cli_args *args, const rql_error *error)
{
    static const char head[] = "url: ";
    const char *url = args->options.url;
    const char *origin = origin_of(args, url);
    char line[LINE_SIZE];

    if (error->status != RQL_E_INVALID || strncmp(error->message, head, sizeof head - 1) != 0) {
        return cli_fault(error);
    }
    explain(line, url, error->message + sizeof head - 1);
    cli_say("%s: %s", origin ? origin : url, line);
    return CLI_USAGE;
}

void cli_say_sentinel_login(const char *url)
{
    cli_say("fix: add %csentinel_password=PASSWORD to RQL_URL, with the password of the sentinels",
            strchr(url, '?') ? '&' : '?');
}

void cli_say_login(const char *url)
{
    const bool is_path = strncmp(url, "unix:", strlen("unix:")) == 0;
    const int length = (int)scheme_length(url);

    cli_say("fix: set RQL_URL=%.*s://USER:PASSWORD@%s, with the login of this server",
            length > 0 ? length : (int)strlen("redis"), length > 0 ? url : "redis",
            is_path ? "/PATH" : "HOST");
}
