#include "shared/transport/ofi/provider.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "shared/base/error.h"
#include "shared/transport/ofi/fabric.h"
#include "shared/transport/ofi/protection.h"

/* Providers with all that okv needs, best first. `name` is what people write, `full` is libfabric's
 * name of the provider or of the layers that make it one. Whether efa's device serves READs is a
 * setting of it (FI_EFA_USE_DEVICE_RDMA), so nothing relies on that. */
static const struct provider {
    const char *name, *full;
    bool is_one_sided;
} ranking[] = {
    {"efa", "efa", false}, {"cxi", "cxi", true},  {"verbs", "verbs;ofi_rxm", true},
    {"net", "net", false}, {"tcp", "tcp", false}, {"tcp", "tcp;ofi_rxm", false},
};
#define RANKS (sizeof ranking / sizeof *ranking)

/* libfabric reads its environment once, at the first call of the process. */
static void prepare_environment(void)
{
    /* The cache of the verbs provider registers everything for remote writing. */
    setenv("FI_MR_CACHE_MONITOR", "disabled", 0);
    /* The layer over verbs sizes its completion queue by this number of peers; with the default of
     * 256 it exceeds what soft-RoCE has. */
    setenv("FI_UNIVERSE_SIZE", "64", 0);
    /* Where that layer has receives for each peer, a peer that disconnects while a message of its
     * own waits makes libfabric 1.17 post a receive to memory that it has freed. */
    setenv("FI_OFI_RXM_USE_SRX", "1", 0);
    /* An endpoint would pin 4096 receives. */
    setenv("FI_OFI_RXM_MSG_RX_SIZE", "1024", 0);
    /* A message that is longer than a buffer is sent in pieces, which later messages may overtake.
     * This is more than the longest of okv; both sides need the same size. */
    setenv("FI_OFI_RXM_BUFFER_SIZE", "20480", 0);
}

__attribute__((visibility("default"))) void okv_ofi_prepare(void)
{
    struct fi_info *all;

    prepare_environment();
    if (fi_getinfo(OFI_API, NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &all) == 0)
        fi_freeinfo(all);
}

static struct fi_info *make_hints(const char *full, bool is_server)
{
    struct fi_info *hints = fi_allocinfo();

    if (!hints)
        return NULL;
    hints->fabric_attr->prov_name = strdup(full); /* fi_freeinfo() frees it */
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG | FI_SEND | FI_RECV | FI_RMA | FI_READ | FI_REMOTE_READ;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = is_server ? FI_THREAD_SAFE : FI_THREAD_DOMAIN;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->tx_attr->msg_order = FI_ORDER_SAS;
    hints->rx_attr->msg_order = FI_ORDER_SAS;
    return hints;
}

/* Whether the provider's address is the one that was asked for: fi_getinfo() does not refuse one
 * that it cannot use. */
static bool is_at(const struct fi_info *info, const char *host)
{
    uint8_t wanted[sizeof(struct in6_addr)];
    const void *address;
    int family;

    if (!info->src_addr)
        return false;
    if (info->addr_format == FI_SOCKADDR_IN) {
        family = AF_INET;
        address = &((const struct sockaddr_in *)info->src_addr)->sin_addr;
    } else if (info->addr_format == FI_SOCKADDR_IN6) {
        family = AF_INET6;
        address = &((const struct sockaddr_in6 *)info->src_addr)->sin6_addr;
    } else {
        return true; /* an address of the provider's own kind */
    }
    return inet_pton(family, host, wanted) == 1 &&
           memcmp(wanted, address, family == AF_INET ? 4 : 16) == 0;
}

/* The provider's description of itself at `host`, or NULL. */
static struct fi_info *find(const char *full, const char *host, bool is_server)
{
    struct fi_info *hints = make_hints(full, is_server);
    struct fi_info *all = NULL, *found = NULL;

    if (!hints)
        return NULL;
    if (fi_getinfo(OFI_API, host, NULL, FI_SOURCE, hints, &all) == 0) {
        for (struct fi_info *info = all; info && !found; info = info->next) {
            if (strcmp(info->fabric_attr->prov_name, full) == 0 && is_at(info, host))
                found = fi_dupinfo(info);
        }
        fi_freeinfo(all);
    }
    fi_freeinfo(hints);
    return found;
}

__attribute__((visibility("default"))) void okv_ofi_providers(char *out, size_t size)
{
    const char *last = "";
    size_t used = 0;

    snprintf(out, size, "none");
    for (size_t i = 0; i < RANKS && used < size; i++) {
        struct fi_info *info = NULL, *hints = make_hints(ranking[i].full, true);
        bool is_here = hints && fi_getinfo(OFI_API, NULL, NULL, 0, hints, &info) == 0;
        if (info)
            fi_freeinfo(info);
        if (hints)
            fi_freeinfo(hints);
        if (!is_here || strcmp(last, ranking[i].name) == 0)
            continue;
        last = ranking[i].name;
        int length = snprintf(out + used, size - used, "%s%s", used ? ", " : "", last);
        used += length > 0 ? (size_t)length : 0;
    }
}

/* True for the provider that the name means, or with "" for any. */
static bool is_named(const struct provider *provider, const char *name)
{
    return name[0] == '\0' || strcmp(name, provider->name) == 0 ||
           strcmp(name, provider->full) == 0;
}

void okv_ofi_provider_filter(struct okv_diag *out)
{
    const char *filter = getenv("FI_PROVIDER");

    out->text[0] = '\0';
    if (filter) /* an empty one hides all */
        okv_diag_set(out, 0, "FI_PROVIDER=%.60s is set, and hides others: unset it; ", filter);
}

static int diagnose_absence(const char *name, const char *host, bool is_known,
                            struct okv_diag *diag)
{
    struct okv_diag filter;

    if (strcmp(name, "shm") == 0)
        return okv_diag_set(diag, OKV_EUNSUPPORTED,
                            "the libfabric provider shm protects no memory and cannot be waited "
                            "for: use local:// between processes of one host");
    if (!is_known)
        return okv_diag_set(diag, OKV_EUNSUPPORTED,
                            "okv knows no libfabric provider %s: it has efa, cxi, verbs, net and "
                            "tcp; without ?provider= it takes the first that the host has",
                            name);
    okv_ofi_provider_filter(&filter);
    return okv_diag_set(diag, OKV_ENODEVICE,
                        "libfabric has no provider%s%s with remote reads at %s: %s'fi_info -t "
                        "FI_EP_RDM -c FI_RMA' lists what it has; over TCP use tcp://",
                        name[0] ? " " : "", name, host, filter.text);
}

/* Opens out->info, which is freed on failure. */
static int open_found(struct ofi_fabric *out, bool is_server, struct okv_diag *diag)
{
    int rc = okv_ofi_fabric_open(out, diag);

    if (rc)
        return rc;
    rc = is_server ? okv_ofi_protection_check(out, diag) : 0;
    if (rc)
        okv_ofi_fabric_close(out);
    return rc;
}

int okv_ofi_provider_open(const char *provider, const char *host, bool is_server,
                          struct ofi_fabric *out, struct okv_diag *diag)
{
    const char *refused = NULL; /* the best one that is there */
    bool is_known = false;
    int first = 0; /* why */

    for (unsigned i = 0; i < RANKS; i++) {
        if (!is_named(&ranking[i], provider))
            continue;
        is_known = true;
        *out = (struct ofi_fabric){
            .is_one_sided = ranking[i].is_one_sided,
            .refused = refused,
        };
        out->info = find(ranking[i].full, host, is_server);
        if (!out->info)
            continue;
        int rc = open_found(out, is_server, refused ? NULL : diag);
        if (rc == 0)
            return 0;
        if (!refused) {
            refused = ranking[i].full;
            first = rc;
        }
    }
    return refused ? first : diagnose_absence(provider, host, is_known, diag);
}
