#include "format.h"
#include "page.h"

#include <stdio.h>
#include <string.h>

/* The page of the swarm's hosts, the dead ones first. */

static void add_host(struct top_sheet *sheet, const struct top_look *look,
                     const rql_host_info *host)
{
    char name[CLI_NAME_SIZE];
    char line[TOP_LINE_SIZE] = "";

    top_put(line, host->is_zombie ? "dead" : "alive", 6);
    top_put_duration(line, cli_age_ms(host->last_probe_us, look->hosts->server_us), TOP_NUMBER);
    top_put(line, "  ", 2);
    top_put_whole(line, cli_host_name(&look->names, host->host_id, name));
    top_add(sheet, TOP_PLAIN, line);
}

static void add_hosts(struct top_sheet *sheet, const struct top_look *look, bool are_dead)
{
    for (size_t i = 0; i < look->hosts->count; i++) {
        if (look->hosts->item[i]->is_zombie == are_dead) {
            add_host(sheet, look, look->hosts->item[i]);
        }
    }
}

void top_draw_hosts(struct top_look *look, struct top_sheet *sheet)
{
    char name[CLI_NAME_SIZE];

    if (!look->hosts || look->hosts->count == 0) {
        top_add(sheet, TOP_PLAIN,
                look->hosts ? "no host sends heartbeats: no swarm runs" : "hosts may not be read");
        return;
    }
    top_add_text(sheet, TOP_PLAIN, "flusher: %s",
                 look->flusher[0] != '\0' ? cli_host_name(&look->names, look->flusher, name)
                                          : "none");
    top_add(sheet, TOP_BOLD, "STATE    SILENT  HOST");
    add_hosts(sheet, look, true);
    add_hosts(sheet, look, false);
}
