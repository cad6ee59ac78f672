#include "common/connect.h"

rql_client *connect_client(const char *url, struct fault *fault)
{
    rql_client *client = NULL;
    rql_options options;
    rql_error error = {0};
    rql_status status;

    rql_options_init(&options);
    options.url = url;
    status = rql_client_new(&client, &options, &error);
    if (!status) {
        status = rql_client_connect(client, &error);
    }
    if (status) {
        fault_raise(fault, "connect: %s %s", rql_status_text(status), error.message);
        return rql_client_free(client);
    }
    return client;
}
