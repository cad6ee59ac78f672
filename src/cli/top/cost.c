#include "cost.h"

#include "format.h"

#include <stdlib.h>
#include <string.h>

/* Returns the value of a line of INFO in milliseconds; -1: there is none. */
static int64_t seconds_in(const char *info, const char *mark)
{
    const char *found = strstr(info, mark);

    return found ? (int64_t)(strtod(found + strlen(mark), NULL) * 1000) : -1;
}

/* Without the right to INFO it is not known. */
static int64_t read_cpu_ms(rql_client *client)
{
    static const char *const words[] = {"INFO", "cpu"};
    const rql_command command = {.argc = 2, .argv = words};
    int64_t sum = 0;

    for (size_t node = 0;; node++) {
        CLI_AUTO(rql_free) rql_reply *reply = NULL;
        const rql_status status = rql_client_command(client, node, &command, &reply, NULL);
        const char *info = rql_reply_text(reply, NULL);
        const int64_t user_ms = seconds_in(info, "used_cpu_user:");
        const int64_t system_ms = seconds_in(info, "used_cpu_sys:");

        if (status == RQL_NOT_FOUND) {
            return sum;
        }
        if (status != RQL_OK || user_ms < 0 || system_ms < 0) {
            return -1;
        }
        sum += user_ms + system_ms;
    }
}

struct top_cost top_cost_begin(rql_client *client)
{
    const int64_t cpu_ms = read_cpu_ms(client);

    return (struct top_cost){.begun_ms = cli_now_ms(), .begun_cpu_ms = cpu_ms};
}

int64_t top_cost_end(const struct top_cost *self, rql_client *client)
{
    const int64_t passed_ms = cli_now_ms() - self->begun_ms;
    const int64_t cpu_ms = self->begun_cpu_ms >= 0 ? read_cpu_ms(client) : -1;
    const int64_t used_ms = cpu_ms >= 0 ? cpu_ms - self->begun_cpu_ms : passed_ms;

    return used_ms >= 0 && used_ms < passed_ms ? used_ms : passed_ms;
}
