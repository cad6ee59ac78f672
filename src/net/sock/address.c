#include "net/sock/address.h"

#include "base/error.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define NAME_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._"

bool rqli_address_is(const struct rqli_address *self, const struct rqli_address *other)
{
    return self->port == other->port && strcmp(self->host, other->host) == 0;
}

const char *rqli_address_print(const struct rqli_address *self, char out[RQLI_ADDRESS_TEXT_SIZE])
{
    bool is_v6 = strchr(self->host, ':') != NULL;

    (void)snprintf(out, RQLI_ADDRESS_TEXT_SIZE, "%s%s%s:%d", is_v6 ? "[" : "", self->host,
                   is_v6 ? "]" : "", self->port);
    return out;
}

const char *rqli_peer_print(const struct rqli_peer *self, char out[RQLI_PEER_TEXT_SIZE])
{
    struct in6_addr at;
    bool is_v4;

    memcpy(&at, self->at, sizeof at);
    is_v4 = IN6_IS_ADDR_V4MAPPED(&at);
    return inet_ntop(is_v4 ? AF_INET : AF_INET6, is_v4 ? (const void *)&at.s6_addr[12] : &at, out,
                     RQLI_PEER_TEXT_SIZE);
}

static bool is_name(const char *host)
{
    return strspn(host, NAME_BYTES) == strlen(host);
}

bool rqli_address_set(struct rqli_address *out, struct rqli_slice host, int64_t port)
{
    struct rqli_address read = {.port = (int)port};

    if (host.length == 0 || host.length >= sizeof read.host || port < 1 || port > RQLI_PORT_MAX) {
        return false;
    }
    memcpy(read.host, host.data, host.length);
    if (strspn(read.host, NAME_BYTES ":%") != host.length) {
        return false;
    }
    *out = read;
    return true;
}

rql_status rqli_address_take(struct rqli_address *out, struct rqli_slice *rest, int default_port,
                             rql_error *error)
{
    bool has_brackets = rqli_slice_skip(rest, "[");
    struct rqli_slice host =
        rqli_slice_take(rest, rqli_slice_before(*rest, has_brackets ? "]" : ":,"));
    struct in6_addr address;
    bool is_fine = host.length < sizeof out->host;

    *out = (struct rqli_address){.port = default_port};
    if (is_fine) {
        (void)snprintf(out->host, sizeof out->host, "%.*s", (int)host.length, host.data);
        is_fine = has_brackets
                      ? rqli_slice_skip(rest, "]") && inet_pton(AF_INET6, out->host, &address) == 1
                      : is_name(out->host);
    }
    if (!is_fine) {
        return rqli_fail(error, RQL_E_INVALID,
                         "url: the host must be a name, an IPv4 address or an [IPv6 address]");
    }
    if (host.length == 0) {
        (void)snprintf(out->host, sizeof out->host, "127.0.0.1");
    }
    if (rqli_slice_skip(rest, ":")) {
        struct rqli_slice port = rqli_slice_take(rest, rqli_slice_before(*rest, ","));

        is_fine = rqli_parse_within(port, 1, RQLI_PORT_MAX, &out->port);
    }
    if (!is_fine || (rest->length > 0 && rest->data[0] != ',')) {
        return rqli_fail(error, RQL_E_INVALID, "url: the port must be a number from 1 to %d",
                         RQLI_PORT_MAX);
    }
    return RQL_OK;
}
