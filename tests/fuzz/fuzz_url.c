#include "net/url.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition) {
        abort();
    }
}

static void check_parsed(const struct rqli_endpoint *endpoint)
{
    must(endpoint->where != NULL);
    must(endpoint->kind == RQLI_ENDPOINT_TCP ? endpoint->host && endpoint->host[0]
                                             : endpoint->path && endpoint->path[0] == '/');
    must(endpoint->kind != RQLI_ENDPOINT_TCP || (endpoint->port >= 1 && endpoint->port <= 65535));
    must(endpoint->database >= 0 && endpoint->database <= 65535);
    must(!endpoint->user || endpoint->password);
}

/* What a message names is a URL of the same place, without a login. */
static void check_where(const struct rqli_endpoint *endpoint)
{
    struct rqli_endpoint again = {0};

    must(rqli_url_parse(&again, endpoint->where, NULL) == RQL_OK);
    must(again.kind == endpoint->kind && again.port == endpoint->port);
    must(again.database == endpoint->database && !again.user && !again.password);
    must(!again.host == !endpoint->host && !again.path == !endpoint->path);
    must(!again.host || strcmp(again.host, endpoint->host) == 0);
    must(!again.path || strcmp(again.path, endpoint->path) == 0);
    must(strcmp(again.where, endpoint->where) == 0);
    rqli_endpoint_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *url = malloc(size + 1);
    struct rqli_endpoint endpoint = {0};
    rql_error error = {0};

    must(url != NULL);
    if (size > 0) {
        memcpy(url, data, size);
    }
    url[size] = '\0';
    if (rqli_url_parse(&endpoint, url, &error) == RQL_OK) {
        check_parsed(&endpoint);
        check_where(&endpoint);
        rqli_endpoint_fini(&endpoint);
    } else {
        must(error.status < 0 && error.message[0] != '\0' && !endpoint.where);
    }
    free(url);
    return 0;
}
