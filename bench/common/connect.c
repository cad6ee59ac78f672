#include "common/connect.h"

rql_client *connect_client(const rql_options *options, struct fault *fault)
{
    rql_client *client = NULL;
    rql_error error = {0};
    rql_status status;

    status = rql_client_new(options, &client, &error);
    if (!status) {
        status = rql_client_connect(client, &error);
    }
    if (status) {
        fault_raise(fault, "connect: %s %s", rql_status_text(status), error.message);
        return rql_client_free(client);
    }
    return client;
}
