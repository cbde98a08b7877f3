#include "shared/transport/verbs/mr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "shared/base/error.h"

/* The kernel answers ENOMEM both when memory is short and when RLIMIT_MEMLOCK is too low. The
 * sentence names the limit if there is one, since a user can raise it. */
static int diagnose_failure(int errnum, size_t length, struct okv_diag *diag)
{
    struct rlimit limit;
    if (errnum == ENOMEM && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
        limit.rlim_cur != RLIM_INFINITY)
        return okv_diag_set(diag, OKV_EPERM,
                            "%zu KiB cannot be pinned for RDMA: 'ulimit -l' is %llu KiB for all "
                            "pinned memory, and a database counts once for each listener; raise it "
                            "(LimitMEMLOCK=infinity in systemd, memlock "
                            "in /etc/security/limits.conf)",
                            length >> 10, (unsigned long long)limit.rlim_cur >> 10);
    if (errnum == ENOMEM)
        return okv_diag_set(diag, OKV_ENOMEM,
                            "%zu KiB cannot be pinned for RDMA: out of memory, or of the device's "
                            "table of pages, of which --huge needs far fewer",
                            length >> 10);
    return okv_diag_set(diag, errnum == EPERM ? OKV_EPERM : OKV_EIO,
                        "%zu KiB cannot be registered with the RDMA device: %s", length >> 10,
                        strerror(errnum));
}

int okv_verbs_register(struct ibv_pd *pd, void *base, size_t length, unsigned access,
                       uint64_t address, struct ibv_mr **out, struct okv_diag *diag)
{
    errno = 0;
    struct ibv_mr *mr = ibv_reg_mr_iova(pd, base, length, address, access);
    if (!mr)
        return diagnose_failure(errno, length, diag);
    *out = mr;
    return 0;
}

int okv_verbs_slab_create(struct ibv_pd *pd, unsigned count, uint32_t slot_size,
                          struct verbs_slab *out, struct okv_diag *diag)
{
    struct verbs_slab slab;
    int rc = okv_slab_map(&slab.memory, count, slot_size, VERBS_SLAB_SPARE, diag);

    if (rc)
        return rc;
    slab.spare = okv_slab_slot(&slab.memory, count);
    rc = okv_verbs_register(pd, slab.memory.base, slab.memory.bytes, VERBS_WRITTEN_HERE,
                            (uintptr_t)slab.memory.base, &slab.mr, diag);
    if (rc) {
        okv_slab_unmap(&slab.memory);
        return rc;
    }
    *out = slab;
    return 0;
}

void okv_verbs_slab_destroy(struct verbs_slab *slab)
{
    if (!slab->memory.base)
        return;
    ibv_dereg_mr(slab->mr);
    okv_slab_unmap(&slab->memory);
}

int okv_verbs_memory_register(struct okv_endpoint *endpoint, void *base, size_t length,
                              struct okv_memory **out)
{
    struct verbs_endpoint *ep = (struct verbs_endpoint *)endpoint;
    struct okv_memory *memory = malloc(sizeof *memory);
    if (!memory)
        return OKV_ENOMEM;
    int rc = okv_verbs_register(ep->domain.pd, base, length, VERBS_WRITTEN_HERE, (uintptr_t)base,
                                &memory->mr, NULL);
    if (rc) {
        free(memory);
        return rc;
    }
    memory->endpoint = ep;
    memory->base = base;
    memory->length = length;
    *out = memory;
    return 0;
}

void okv_verbs_memory_unregister(struct okv_memory *memory)
{
    if (!memory)
        return;
    ibv_dereg_mr(memory->mr);
    free(memory);
}
