#include "cmd.h"
#include "serve/serve.h"
#include "service.h"
#include "systemd.h"

#include <stdio.h>

/* serve: figures of the locks over HTTP, and a page that shows them. */

static bool is_well(void *data)
{
    (void)data; /* the threads only read; a server that does not answer is no reason to restart */
    return true;
}

static void describe(void *data, char *out, size_t size)
{
    const struct cli_args *args = data;

    (void)snprintf(out, size, "HTTP at %s", args->listen);
}

static int run(struct cli_session *self)
{
    struct cli_args args = *self->args;
    struct serve *serve = NULL;
    const int code =
        serve_start(&(struct serve_wish){.args = &args, .listen = args.listen}, &serve);

    self->out = out_fields(OUT_TABLE);
    if (code != CLI_DONE) {
        return code;
    }
    cli_systemd_notify("READY=1");
    cli_service_wait(
        &(struct cli_service){.data = &args, .is_well = is_well, .describe = describe});
    cli_systemd_notify("STOPPING=1");
    serve_stop(serve);
    return CLI_DONE;
}

static int prepare(struct cli_args *args)
{
    args->listen = args->listen ? args->listen : SERVE_DEFAULT_ADDRESS;
    cli_service_prepare();
    return serve_check(&cli_serve, args, args->listen);
}

const struct cli_command cli_serve = {
    .name = "serve",
    .usage = "[--listen ADDRESS|unix:PATH] [--page]",
    .summary = "Serve figures and a page of the locks over HTTP",
    .examples = "  rql serve --page          then open http://127.0.0.1:9775/\n"
                "  rql serve --listen unix:/run/rql.sock --classes /etc/rql-classes\n",
    .notes =
        "  /metrics       what rql stats --openmetrics prints, for Prometheus\n"
        "  /healthz       200 if the server has answered in the last 10 s, else 503\n"
        "  /              with --page: the locks, their queues, and the hosts, live\n"
        "  /locks.json    with --page: what rql top --json prints\n"
        "  /history.json  with --page: who used locks in the last 7 days\n"
        "Nothing can be changed. Answers are those of the last reading, so no client waits for the "
        "lock server: after a pause the first one is old, as its header Age says. At most 16 "
        "clients are served at once, and each has 5 s for its request.\n"
        "Without --listen only this machine is served. There is no login and no TLS: for other "
        "machines put a proxy in front that has both, or give an address that only they reach.\n",
    .makes_clients = true,
    .prepare = prepare,
    .run = run,
};
