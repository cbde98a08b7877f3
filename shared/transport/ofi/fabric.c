/* Which provider, opened on a local address, and memory for it. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "shared/base/error.h"
#include "shared/transport/ofi/ofi.h"

#define KEY_ATTEMPTS 16

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
    /* Where that layer has receives for each peer, a peer that goes while a message of its own
     * waits makes libfabric 1.17 post a receive to memory that it has freed. */
    setenv("FI_OFI_RXM_USE_SRX", "1", 0);
    /* An endpoint would pin 4096 receives. */
    setenv("FI_OFI_RXM_MSG_RX_SIZE", "1024", 0);
    /* A message that is longer than a buffer goes in pieces, which later ones may overtake. This is
     * more than the longest of okv; both sides need the same size. */
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

static int open_domain(struct ofi_fabric *fabric, struct okv_diag *diag)
{
    int rc = fi_fabric(fabric->info->fabric_attr, &fabric->fabric, NULL);
    if (rc == 0) {
        rc = fi_domain(fabric->fabric, fabric->info, &fabric->domain, NULL);
        if (rc)
            fi_close(&fabric->fabric->fid);
    }
    if (rc == 0)
        return 0;
    return okv_diag_set(diag, okv_ofi_error(rc), "the libfabric provider %s cannot be opened: %s",
                        okv_ofi_fabric_name(fabric), fi_strerror(-rc));
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

static int diagnose_absence(const char *name, const char *host, bool is_known,
                            struct okv_diag *diag)
{
    if (strcmp(name, "shm") == 0)
        return okv_diag_set(diag, OKV_EUNSUPPORTED,
                            "the libfabric provider shm protects no memory and cannot be waited "
                            "for: use local:// between processes of one host");
    if (!is_known)
        return okv_diag_set(diag, OKV_EUNSUPPORTED,
                            "okv knows no libfabric provider %s: it has efa, cxi, verbs, net and "
                            "tcp; without ?provider= it takes the first that the host has",
                            name);
    return okv_diag_set(diag, OKV_ENODEVICE,
                        "libfabric has no provider%s%s with remote reads at %s: 'fi_info -t "
                        "FI_EP_RDM -c FI_RMA' lists what it has",
                        name[0] ? " " : "", name, host);
}

/* Opens out->info, which it frees on failure. */
static int open_found(struct ofi_fabric *out, bool is_server, struct okv_diag *diag)
{
    int rc = open_domain(out, diag);

    if (rc) {
        fi_freeinfo(out->info);
        out->info = NULL;
        return rc;
    }
    rc = is_server ? okv_ofi_protection_check(out, diag) : 0;
    if (rc)
        okv_ofi_fabric_close(out);
    return rc;
}

int okv_ofi_fabric_open(const char *provider, const char *host, bool is_server,
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

void okv_ofi_fabric_close(struct ofi_fabric *fabric)
{
    if (!fabric->info)
        return;
    fi_close(&fabric->domain->fid);
    fi_close(&fabric->fabric->fid);
    fi_freeinfo(fabric->info);
    fabric->info = NULL;
}

const char *okv_ofi_fabric_name(const struct ofi_fabric *fabric)
{
    return fabric->info->fabric_attr->prov_name;
}

int okv_ofi_error(ssize_t rc)
{
    switch (-rc) {
    case FI_ECANCELED:
    case FI_EHOSTUNREACH:
    case FI_ESHUTDOWN:
        return OKV_EDISCONNECTED;
    case FI_EAGAIN: /* of a call that opens something; elsewhere it is asked for before */
        return OKV_EIO;
    default: /* the other codes are those of the system (man fi_errno) */
        return okv_error_from_errno((int)-rc);
    }
}

/* ---- memory ---- */

static int diagnose_registration(const struct ofi_fabric *fabric, int rc, size_t length,
                                 struct okv_diag *diag)
{
    int code = okv_ofi_error(rc);

    return okv_diag_set(diag, code == OKV_EINVAL ? OKV_EIO : code,
                        "the libfabric provider %s cannot register %zu KiB: %s%s",
                        okv_ofi_fabric_name(fabric), length >> 10, fi_strerror(-rc),
                        rc == -FI_ENOMEM ? "; raise 'ulimit -l'" : "");
}

int okv_ofi_region_open(const struct ofi_fabric *fabric, const void *base, size_t length,
                        uint64_t access, struct ofi_region *out, struct okv_diag *diag)
{
    uint64_t mode = (uint64_t)fabric->info->domain_attr->mr_mode;
    bool is_remote = access & FI_REMOTE_READ;
    int rc = -FI_ENOKEY;

    *out = (struct ofi_region){.mr = NULL};
    if (!is_remote && !(mode & FI_MR_LOCAL))
        return 0;
    /* A key of our own choice is a random one: who was not told it cannot guess it. 32 bits fit
     * every message. */
    for (unsigned i = 0; rc == -FI_ENOKEY && i < KEY_ATTEMPTS; i++) {
        uint32_t key = 0;
        if (!(mode & FI_MR_PROV_KEY) && getrandom(&key, sizeof key, 0) != sizeof key)
            return okv_diag_set(diag, OKV_EIO, "no random bytes: %s", strerror(errno));
        rc = fi_mr_reg(fabric->domain, base, length, access, 0, key, 0, &out->mr, NULL);
    }
    if (rc)
        return diagnose_registration(fabric, rc, length, diag);
    out->desc = fi_mr_desc(out->mr);
    out->key = fi_mr_key(out->mr);
    out->address = mode & FI_MR_VIRT_ADDR ? (uintptr_t)base : 0;
    return 0;
}

bool okv_ofi_region_close(struct ofi_region *region)
{
    bool is_closed = !region->mr || fi_close(&region->mr->fid) == 0;

    region->mr = NULL;
    return is_closed;
}

int okv_ofi_slab_create(const struct ofi_fabric *fabric, unsigned count, size_t slot_size,
                        uint64_t access, struct ofi_slab *out, struct okv_diag *diag)
{
    struct ofi_slab slab;
    int rc = okv_slab_map(&slab.memory, count, slot_size, 0, diag);

    if (rc)
        return rc;
    rc = okv_ofi_region_open(fabric, slab.memory.base, slab.memory.bytes, access, &slab.region,
                             diag);
    if (rc) {
        okv_slab_unmap(&slab.memory);
        return rc;
    }
    *out = slab;
    return 0;
}

void okv_ofi_slab_destroy(struct ofi_slab *slab)
{
    if (!slab->memory.base)
        return;
    if (okv_ofi_region_close(&slab->region))
        okv_slab_unmap(&slab->memory);
    slab->memory.base = NULL;
}

int okv_ofi_memory_register(struct okv_endpoint *endpoint, void *base, size_t length,
                            struct okv_memory **out)
{
    struct ofi_endpoint *ep = (struct ofi_endpoint *)endpoint;
    struct okv_memory *memory = malloc(sizeof *memory);

    if (!memory)
        return OKV_ENOMEM;
    int rc = okv_ofi_region_open(ep->fabric, base, length, FI_READ, &memory->region, NULL);
    if (rc) {
        free(memory);
        return rc;
    }
    memory->base = base;
    memory->length = length;
    *out = memory;
    return 0;
}

void okv_ofi_memory_unregister(struct okv_memory *memory)
{
    if (!memory)
        return;
    okv_ofi_region_close(&memory->region);
    free(memory);
}
