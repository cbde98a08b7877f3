#include "shared/transport/ofi/fabric.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "shared/base/error.h"

#define KEY_ATTEMPTS 16

int okv_ofi_fabric_open(struct ofi_fabric *fabric, struct okv_diag *diag)
{
    int rc = fi_fabric(fabric->info->fabric_attr, &fabric->fabric, NULL);

    if (rc == 0) {
        rc = fi_domain(fabric->fabric, fabric->info, &fabric->domain, NULL);
        if (rc)
            fi_close(&fabric->fabric->fid);
    }
    if (rc == 0)
        return 0;
    okv_diag_set(diag, okv_ofi_error(rc), "the libfabric provider %s cannot be opened: %s",
                 okv_ofi_fabric_name(fabric), fi_strerror(-rc));
    fi_freeinfo(fabric->info);
    fabric->info = NULL;
    return okv_ofi_error(rc);
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

/* ---- ends ---- */

int okv_ofi_end_open(const struct ofi_fabric *fabric, size_t peers, struct fi_cq_attr *queue,
                     struct ofi_end *end)
{
    struct fi_av_attr av = {.type = fabric->info->domain_attr->av_type, .count = peers};
    int rc = fi_av_open(fabric->domain, &av, &end->av, NULL);

    if (rc == 0)
        rc = fi_cq_open(fabric->domain, queue, &end->cq, NULL);
    if (rc == 0)
        rc = fi_endpoint(fabric->domain, fabric->info, &end->ep, NULL);
    if (rc == 0)
        rc = fi_ep_bind(end->ep, &end->av->fid, 0);
    if (rc == 0)
        rc = fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV);
    return rc ? rc : fi_enable(end->ep);
}

bool okv_ofi_end_close(struct ofi_end *end)
{
    if (end->ep && fi_close(&end->ep->fid)) /* ends every operation */
        return false;
    if (end->cq)
        fi_close(&end->cq->fid);
    if (end->av)
        fi_close(&end->av->fid);
    return true;
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
