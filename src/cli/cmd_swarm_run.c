#include "notify.h"
#include "output.h"
#include "scope.h"
#include "swarm.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

/* Looks at the swarm this often when systemd does not want to know more often. */
enum { LOOK_MS = 60000 };

static sigset_t ending_signals(void)
{
    sigset_t ending;

    (void)sigemptyset(&ending);
    (void)sigaddset(&ending, SIGTERM);
    (void)sigaddset(&ending, SIGINT);
    return ending;
}

static const char *state_text(rql_element_state state)
{
    static const char *const texts[] = {"off", "running", "hung", "dead"};

    return texts[state];
}

static const char *breaker_text(rql_breaker_state state)
{
    static const char *const texts[] = {"closed", "open", "half_open"};

    return texts[state];
}

static void add_element(cJSON *root, const char *name, const rql_element_status *element)
{
    cJSON *object = cli_json_object();

    cli_json_add_bool(object, "enabled", element->enabled);
    cli_json_add_text(object, "state", state_text(element->state));
    cli_json_add_text(object, "breaker", breaker_text(element->breaker));
    cli_json_add_int(object, "steps", element->steps);
    cli_json_add_int(object, "failures", element->failures);
    cli_json_add_int(object, "restarts", element->restarts);
    cli_json_add(root, name, object);
}

static void print_end(rql_client *client)
{
    rql_swarm_status status;
    cJSON *root;

    if (rql_get_swarm_status(client, &status, NULL) != RQL_OK) {
        return;
    }
    root = cli_json_object();
    add_element(root, "supervisor", &status.supervisor);
    add_element(root, "probe_hosts", &status.probe_hosts);
    add_element(root, "flush_zombies", &status.flush_zombies);
    cli_json_print(root);
}

/* Nothing hangs or is dead. */
static bool is_well(rql_client *client)
{
    rql_swarm_status status;

    return rql_get_swarm_status(client, &status, NULL) == RQL_OK &&
           status.supervisor.state == RQL_ELEMENT_RUNNING &&
           status.probe_hosts.state <= RQL_ELEMENT_RUNNING &&
           status.flush_zombies.state <= RQL_ELEMENT_RUNNING;
}

static void wait_for_end(rql_client *client)
{
    const sigset_t ending = ending_signals();
    const int64_t watchdog_ms = cli_notify_watchdog_ms();
    const int64_t look_ms = watchdog_ms > 0 ? watchdog_ms : LOOK_MS;
    const struct timespec pause = {.tv_sec = look_ms / 1000, .tv_nsec = look_ms % 1000 * 1000000};
    int signal = -1;

    while (signal < 0) {
        signal = sigtimedwait(&ending, NULL, &pause);
        if (signal < 0 && errno == EAGAIN && watchdog_ms > 0 && is_well(client)) {
            cli_notify("WATCHDOG=1");
        }
    }
}

int cli_swarm_run(const struct cli_args *args, rql_client *client)
{
    CLI_AUTO(rql_swarm_free) rql_swarm *swarm = NULL;
    rql_error error = {.status = RQL_OK};

    if (rql_swarm_start(client, NULL, &swarm, &error) != RQL_OK) {
        return cli_fault(&error);
    }
    cli_notify("READY=1\nSTATUS=Looking for dead hosts");
    wait_for_end(client);
    cli_notify("STOPPING=1");
    if (args->json) {
        print_end(client);
    }
    rql_swarm_stop(swarm);
    return CLI_DONE;
}

int cli_swarm_prepare(struct cli_args *args)
{
    const sigset_t ending = ending_signals();

    (void)pthread_sigmask(SIG_BLOCK, &ending, NULL);
    args->options.auto_swarm = false;
    return CLI_DONE;
}
