#include "shared/transport/verbs/discover.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/base/fork_guard.h"
#include "shared/discovery/discovery.h"
#include "shared/transport/verbs/device.h"

#define TIMEOUT_MS 1000
/* Four queries: up to a third of them is lost, and a second server of the name must not be missed.
 */
#define SETTLE_MS 400

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Answers come from strangers: only a numeric address is used, which needs no name server. */
static bool is_usable(const char *text, struct okv_uri *out)
{
    unsigned char bytes[16];

    return okv_uri_parse(text, out, NULL) == 0 && out->scheme == OKV_SCHEME_RDMA && !out->name[0] &&
           !out->source[0] &&
           (inet_pton(AF_INET, out->host, bytes) == 1 ||
            inet_pton(AF_INET6, out->host, bytes) == 1);
}

/* Takes host and port of the only server that was found. */
static int choose(const struct okv_discovery_found *found, struct okv_uri *uri,
                  struct okv_diag *diag)
{
    const struct okv_discovery_answer *first = &found->servers[0], *second = &found->servers[1];
    struct okv_uri there;

    if (found->count == 0)
        return okv_diag_set(diag, OKV_EADDRESS,
                            "no server called %s answered in the group %s: start okv-server with "
                            "--announce --name %s, or write its address as in rdma://10.0.0.1",
                            uri->name, uri->group[0] ? uri->group : OKV_DISCOVERY_GROUP, uri->name);
    if (found->count > 1)
        return okv_diag_set(diag, OKV_EADDRESS,
                            "%u servers are called %s: %.64s (boot id %016llx), %.64s (boot id "
                            "%016llx): give each a --name of its own, or write the address of one",
                            found->count, uri->name, first->uris[0],
                            (unsigned long long)first->boot_id, second->uris[0],
                            (unsigned long long)second->boot_id);
    for (unsigned i = 0; i < first->uri_count; i++) {
        if (is_usable(first->uris[i], &there)) {
            memcpy(uri->host, there.host, sizeof uri->host);
            memcpy(uri->port, there.port, sizeof uri->port);
            return 0;
        }
    }
    return okv_diag_set(diag, OKV_EADDRESS, "the server called %s announces no RDMA address: %.96s",
                        uri->name, first->uris[0]);
}

int okv_verbs_discover(struct okv_uri *uri, uint64_t deadline_ns, struct okv_diag *diag)
{
    /* The connect takes the other half. */
    uint32_t half_ms = (uint32_t)okv_clock_ms_until(deadline_ns) / 2;
    const struct okv_discovery_search search = {
        .group = uri->group,
        .name = uri->name,
        .source = uri->source,
        .timeout_ms = smaller(half_ms, TIMEOUT_MS),
        .settle_ms = smaller(half_ms, SETTLE_MS),
    };
    struct rdma_event_channel *channel;

    /* Where it fails it says why, and the search would say that there is no interface. */
    int rc = okv_verbs_channel(&channel, diag);
    if (rc)
        return rc;
    rdma_destroy_event_channel(channel);
    if (okv_fork_guard_is_child()) /* its queue pairs would use the parent's context */
        return okv_diag_set(diag, OKV_EUNSUPPORTED,
                            "a forked child cannot search over RDMA: name the server's address "
                            "instead of %s",
                            uri->name);
    struct okv_discovery_found *found = malloc(sizeof *found);
    if (!found)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory for discovery");
    rc = okv_discovery_search(&search, found, diag);
    if (rc == 0)
        rc = choose(found, uri, diag);
    free(found);
    return rc;
}
