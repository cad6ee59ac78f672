#include "base/must.h"
#include "net/sock/url.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_address(const struct rqli_address *address)
{
    RQLI_MUST(address->host[0] && address->port >= 1 && address->port <= 65535);
}

static void check_parsed(const struct rqli_url *parsed)
{
    const bool has_master = parsed->arrangement == RQLI_SENTINEL;
    const size_t most = has_master ? RQLI_SENTINELS_MAX : RQLI_HOSTS_MAX;

    RQLI_MUST(parsed->where != NULL);
    RQLI_MUST((parsed->n_hosts == 0) == !parsed->hosts && !parsed->hosts == !!parsed->path);
    RQLI_MUST(parsed->n_hosts <= (parsed->arrangement == RQLI_SINGLE ? 1 : most));
    RQLI_MUST(!parsed->path || parsed->path[0] == '/');
    RQLI_MUST(!parsed->path || parsed->arrangement <= RQLI_LOCAL);
    RQLI_MUST(!parsed->ring ==
              (!rqli_url_is_partitioned(parsed) || parsed->arrangement == RQLI_CLUSTER));
    RQLI_MUST(has_master == (parsed->n_masters > 0));
    RQLI_MUST(parsed->n_masters <= RQLI_HOSTS_MAX);
    for (size_t i = 0; i < parsed->n_masters; i++) {
        RQLI_MUST(parsed->masters[i][0]);
    }
    for (size_t i = 0; i < parsed->n_hosts; i++) {
        check_address(&parsed->hosts[i]);
    }
    RQLI_MUST(parsed->database >= 0 && parsed->database <= 65535);
    RQLI_MUST(!parsed->user || parsed->password);
}

/* What a message names is a URL of the same place, without a login. */
static void check_where(const struct rqli_url *parsed)
{
    struct rqli_url again = {0};

    RQLI_MUST(rqli_url_parse(&again, parsed->where, NULL) == RQL_OK);
    RQLI_MUST(again.arrangement == parsed->arrangement);
    RQLI_MUST(again.n_hosts == parsed->n_hosts);
    RQLI_MUST(again.n_masters == parsed->n_masters);
    for (size_t i = 0; i < again.n_hosts; i++) {
        RQLI_MUST(rqli_address_is(&again.hosts[i], &parsed->hosts[i]));
    }
    RQLI_MUST(again.database == parsed->database && !again.user && !again.password);
    RQLI_MUST(!again.path == !parsed->path);
    RQLI_MUST(!again.path || strcmp(again.path, parsed->path) == 0);
    RQLI_MUST(strcmp(again.where, parsed->where) == 0);
    rqli_url_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *url = malloc(size + 1);
    struct rqli_url parsed = {0};
    rql_error error = {0};

    RQLI_MUST(url != NULL);
    if (size > 0) {
        memcpy(url, data, size);
    }
    url[size] = '\0';
    if (rqli_url_parse(&parsed, url, &error) == RQL_OK) {
        check_parsed(&parsed);
        check_where(&parsed);
        rqli_url_fini(&parsed);
    } else {
        RQLI_MUST(error.status < 0 && error.message[0] != '\0' && !parsed.where);
    }
    free(url);
    return 0;
}
