#include "shared/discovery/find.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/base/uri_part.h"
#include "shared/discovery/discovery.h"

#define TIMEOUT_MS 1000
/* Four queries: up to a third of them is lost, and a second server of the name must not be missed.
 */
#define SETTLE_MS 400

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Answers come from strangers: only a numeric address is used, which needs no name server. */
static bool is_usable(const char *text, const struct okv_uri *wanted, struct okv_uri *out)
{
    unsigned char bytes[16];

    return okv_uri_parse(text, out, NULL) == 0 && out->scheme == wanted->scheme &&
           out->tls == wanted->tls && !out->name[0] && !out->source[0] &&
           (inet_pton(AF_INET, out->host, bytes) == 1 ||
            inet_pton(AF_INET6, out->host, bytes) == 1);
}

/* The index of the first usable URI of a server, or that of none. */
static unsigned usable_uri(const struct okv_discovery_answer *server, const struct okv_uri *wanted,
                           struct okv_uri *out)
{
    unsigned i = 0;

    while (i < server->uri_count && !is_usable(server->uris[i], wanted, out))
        i++;
    return i;
}

static int say_none(const struct okv_discovery_found *found, const struct okv_uri *uri,
                    struct okv_diag *diag)
{
    const char *scheme = okv_uri_scheme_name(uri);

    if (found->count > 0)
        return okv_diag_set(diag, OKV_EADDRESS,
                            "the server called %s announces no %s address: %.96s", uri->name,
                            scheme, found->servers[0].uris[0]);
    return okv_diag_set(diag, OKV_EADDRESS,
                        "no server called %s answered in the group %s: start okv-server with "
                        "--announce --name %s, or write its address as in %s://10.0.0.1",
                        uri->name, uri->group[0] ? uri->group : OKV_DISCOVERY_GROUP, uri->name,
                        scheme);
}

/* Takes host and port of the only server of the scheme that was found. */
static int choose(const struct okv_discovery_found *found, struct okv_uri *uri,
                  struct okv_diag *diag)
{
    const struct okv_discovery_answer *first = NULL, *second = NULL;
    unsigned count = 0, first_uri = 0, second_uri = 0;
    struct okv_uri there, other;

    for (unsigned i = 0; i < found->count; i++) {
        const struct okv_discovery_answer *server = &found->servers[i];
        unsigned index = usable_uri(server, uri, first ? &other : &there);
        if (index == server->uri_count)
            continue;
        if (count++ == 0)
            first = server, first_uri = index;
        else if (count == 2)
            second = server, second_uri = index;
    }
    if (!first)
        return say_none(found, uri, diag);
    if (second)
        return okv_diag_set(diag, OKV_EADDRESS,
                            "%u servers are called %s: %.64s (boot id %016llx), %.64s (boot id "
                            "%016llx): give each a --name of its own, or write the address of one",
                            count, uri->name, first->uris[first_uri],
                            (unsigned long long)first->boot_id, second->uris[second_uri],
                            (unsigned long long)second->boot_id);
    memcpy(uri->host, there.host, sizeof uri->host);
    memcpy(uri->port, there.port, sizeof uri->port);
    return 0;
}

int okv_discovery_find(struct okv_uri *uri, uint64_t deadline_ns, struct okv_diag *diag)
{
    /* The connect takes the other half. */
    uint32_t half_ms = (uint32_t)okv_clock_ms_until(deadline_ns) / 2;
    const struct okv_discovery_search search = {
        .group = uri->group,
        .name = uri->name,
        .source = uri->source,
        .rdma = uri->scheme == OKV_SCHEME_RDMA,
        .udp = uri->scheme != OKV_SCHEME_RDMA,
        .timeout_ms = smaller(half_ms, TIMEOUT_MS),
        .settle_ms = smaller(half_ms, SETTLE_MS),
    };
    struct okv_discovery_found *found = malloc(sizeof *found);

    if (!found)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory for discovery");
    int rc = okv_discovery_search(&search, found, diag);
    if (rc == 0)
        rc = choose(found, uri, diag);
    free(found);
    return rc;
}
