#include "shared/transport/common/slab.h"

#include <sys/mman.h>

#include "shared/base/error.h"

#define SLOT_ALIGNMENT 64u

int okv_slab_map(struct okv_slab *slab, unsigned count, size_t slot_size, size_t spare,
                 struct okv_diag *diag)
{
    size_t stride = (slot_size + SLOT_ALIGNMENT - 1) & ~(size_t)(SLOT_ALIGNMENT - 1);
    size_t bytes = stride * count + spare;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (base == MAP_FAILED)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory for %zu KiB of message buffers",
                            bytes >> 10);
    madvise(base, bytes, MADV_DONTFORK);
    *slab = (struct okv_slab){base, stride, bytes};
    return 0;
}

void okv_slab_unmap(struct okv_slab *slab)
{
    munmap(slab->base, slab->bytes);
    slab->base = NULL;
}
