#include "cmd.h"
#include "output.h"
#include "scope.h"
#include "text.h"

#include <time.h>

enum { PAUSE_NS = 100000000 };

static rql_status connect(const struct cli_args *args, rql_client **out, rql_error *error)
{
    CLI_AUTO(rql_client_free) rql_client *client = NULL;
    rql_status status = rql_client_new(&client, &args->options, error);

    if (status == RQL_OK) {
        status = rql_client_connect(client, error);
    }
    if (status == RQL_E_READ_ONLY) {
        status = RQL_OK; /* to look at locks is possible, and it may become a master */
    }
    if (status == RQL_OK) {
        *out = client;
        client = NULL;
    }
    return status;
}

/* Nobody was there, or the server is not ready yet. */
static bool may_pass(rql_status status)
{
    return status == RQL_E_IO || status == RQL_E_UNKNOWN || status == RQL_E_UNAVAILABLE;
}

/* With --wait a server that is not up yet is waited for, and what is left of that time goes to the
 * wait for the lock. */
static rql_status connect_in_time(struct cli_args *args, rql_client **out, rql_error *error)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    const bool is_limited = args->wait_ms != RQL_FOREVER;
    const int64_t end_ms = is_limited ? cli_after_ms(args->wait_ms) : INT64_MAX;
    rql_status status = connect(args, out, error);

    if (may_pass(status) && cli_now_ms() < end_ms) {
        cli_say("%s: waiting for the server: %s", args->name, error->message);
    }
    while (may_pass(status) && cli_now_ms() < end_ms) {
        (void)nanosleep(&pause, NULL);
        status = connect(args, out, error);
    }
    if (is_limited) {
        args->wait_ms = end_ms > cli_now_ms() ? end_ms - cli_now_ms() : 0;
    }
    return status;
}

rql_client *cli_open(struct cli_args *args, int *code_out)
{
    rql_client *client = NULL;
    rql_error error = {.status = RQL_OK};
    rql_status status;

    cli_say_unknown_variables();
    if (args->env_status != RQL_OK) {
        *code_out = cli_fault(&args->env_error);
        return NULL;
    }
    status = args->wait_ms == CLI_UNSET ? connect(args, &client, &error)
                                        : connect_in_time(args, &client, &error);
    if (status != RQL_OK) {
        *code_out = cli_fault(&error);
    }
    return client;
}
