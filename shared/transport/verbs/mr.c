/* Memory that the device may access: the region, message slots, the caller's buffers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "shared/base/error.h"
#include "shared/transport/verbs/verbs.h"

#define SLOT_ALIGNMENT 64u

/* The kernel answers ENOMEM both when memory is short and when RLIMIT_MEMLOCK is too low. The
 * sentence names the limit if there is one, since a user can raise it. */
static int diagnose_failure(int errnum, size_t length, struct okv_diag *diag)
{
    struct rlimit limit;
    if (errnum == ENOMEM && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
        limit.rlim_cur != RLIM_INFINITY)
        return okv_diag_set(diag, OKV_EPERM,
                            "%zu KiB cannot be pinned for RDMA: 'ulimit -l' is %llu KiB for all "
                            "pinned memory; raise it (LimitMEMLOCK=infinity in systemd, memlock "
                            "in /etc/security/limits.conf)",
                            length >> 10, (unsigned long long)limit.rlim_cur >> 10);
    if (errnum == ENOMEM)
        return okv_diag_set(diag, OKV_ENOMEM, "%zu KiB cannot be pinned for RDMA: out of memory",
                            length >> 10);
    return okv_diag_set(diag, errnum == EPERM ? OKV_EPERM : OKV_EIO,
                        "%zu KiB cannot be registered with the RDMA device: %s", length >> 10,
                        strerror(errnum));
}

int okv_verbs_register(struct ibv_pd *pd, void *base, size_t length, int access, uint64_t address,
                       struct ibv_mr **out, struct okv_diag *diag)
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
    slab.stride = ((size_t)slot_size + SLOT_ALIGNMENT - 1) & ~(size_t)(SLOT_ALIGNMENT - 1);
    slab.bytes = slab.stride * count + VERBS_SLAB_SPARE;
    /* Pages of its own: the pinned pages hold nothing else, and a fork cannot split them between
     * parent and device (man ibv_fork_init). */
    slab.base = mmap(NULL, slab.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (slab.base == MAP_FAILED)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory for %zu KiB of message buffers",
                            slab.bytes >> 10);
    madvise(slab.base, slab.bytes, MADV_DONTFORK);
    slab.spare = slab.base + slab.stride * count;

    int rc = okv_verbs_register(pd, slab.base, slab.bytes, IBV_ACCESS_LOCAL_WRITE,
                                (uintptr_t)slab.base, &slab.mr, diag);
    if (rc) {
        munmap(slab.base, slab.bytes);
        return rc;
    }
    *out = slab;
    return 0;
}

void okv_verbs_slab_destroy(struct verbs_slab *slab)
{
    if (!slab->base)
        return;
    ibv_dereg_mr(slab->mr);
    munmap(slab->base, slab->bytes);
    slab->base = NULL;
}

int okv_verbs_memory_register(struct okv_endpoint *endpoint, void *base, size_t length,
                              struct okv_memory **out)
{
    struct verbs_endpoint *ep = (struct verbs_endpoint *)endpoint;
    struct okv_memory *memory = malloc(sizeof *memory);
    if (!memory)
        return OKV_ENOMEM;
    int rc = okv_verbs_register(ep->pd, base, length, IBV_ACCESS_LOCAL_WRITE, (uintptr_t)base,
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
