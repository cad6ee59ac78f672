#include "base/must.h"
#include "net/url.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_address(const struct rqli_address *address)
{
    RQLI_MUST(address->host[0] && address->port >= 1 && address->port <= 65535);
}

static void check_parsed(const struct rqli_endpoint *endpoint)
{
    const bool is_single = endpoint->arrangement == RQLI_SINGLE;
    const bool has_master = endpoint->arrangement == RQLI_SENTINEL;

    RQLI_MUST(endpoint->where != NULL);
    RQLI_MUST(is_single == (endpoint->n_hosts == 0) && is_single == !endpoint->hosts);
    RQLI_MUST(endpoint->n_hosts <= (has_master ? RQLI_SENTINELS_MAX : RQLI_HOSTS_MAX));
    RQLI_MUST(has_master == (endpoint->by_sentinels.n_masters > 0));
    RQLI_MUST(endpoint->by_sentinels.n_masters <= RQLI_HOSTS_MAX);
    for (size_t i = 0; i < endpoint->by_sentinels.n_masters; i++) {
        RQLI_MUST(endpoint->by_sentinels.masters[i][0]);
    }
    for (size_t i = 0; i < endpoint->n_hosts; i++) {
        check_address(&endpoint->hosts[i]);
    }
    if (endpoint->kind != RQLI_ENDPOINT_TCP) {
        RQLI_MUST(endpoint->path && endpoint->path[0] == '/' && is_single);
    } else if (is_single) {
        check_address(&endpoint->address);
    }
    RQLI_MUST(endpoint->database >= 0 && endpoint->database <= 65535);
    RQLI_MUST(!endpoint->user || endpoint->password);
}

/* What a message names is a URL of the same place, without a login. */
static void check_where(const struct rqli_endpoint *endpoint)
{
    struct rqli_endpoint again = {0};

    RQLI_MUST(rqli_url_parse(&again, endpoint->where, NULL) == RQL_OK);
    RQLI_MUST(again.kind == endpoint->kind && again.arrangement == endpoint->arrangement);
    RQLI_MUST(again.n_hosts == endpoint->n_hosts);
    RQLI_MUST(again.by_sentinels.n_masters == endpoint->by_sentinels.n_masters);
    for (size_t i = 0; i < again.n_hosts; i++) {
        RQLI_MUST(rqli_address_is(&again.hosts[i], &endpoint->hosts[i]));
    }
    RQLI_MUST(again.database == endpoint->database && !again.user && !again.password);
    RQLI_MUST(rqli_address_is(&again.address, &endpoint->address) &&
              !again.path == !endpoint->path);
    RQLI_MUST(!again.path || strcmp(again.path, endpoint->path) == 0);
    RQLI_MUST(strcmp(again.where, endpoint->where) == 0);
    rqli_endpoint_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *url = malloc(size + 1);
    struct rqli_endpoint endpoint = {0};
    rql_error error = {0};

    RQLI_MUST(url != NULL);
    if (size > 0) {
        memcpy(url, data, size);
    }
    url[size] = '\0';
    if (rqli_url_parse(&endpoint, url, &error) == RQL_OK) {
        check_parsed(&endpoint);
        check_where(&endpoint);
        rqli_endpoint_fini(&endpoint);
    } else {
        RQLI_MUST(error.status < 0 && error.message[0] != '\0' && !endpoint.where);
    }
    free(url);
    return 0;
}
