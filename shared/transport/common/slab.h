/* Anonymous memory cut into equal slots, each at the beginning of a cache line. */
#ifndef OKV_SHARED_TRANSPORT_COMMON_SLAB_H
#define OKV_SHARED_TRANSPORT_COMMON_SLAB_H

#include <stddef.h>
#include <stdint.h>

#include "shared/base/diag.h"

struct okv_slab {
    uint8_t *base; /* NULL: none */
    size_t stride; /* from one slot to the next */
    size_t bytes;
};

/* Maps `count` slots for a device, and `spare` bytes after them. The pages hold nothing else, and
 * a forked child does not get them: a fork cannot split them between parent and device (man
 * ibv_fork_init). OKV_ENOMEM with a sentence. */
int okv_slab_map(struct okv_slab *slab, unsigned count, size_t slot_size, size_t spare,
                 struct okv_diag *diag);
void okv_slab_unmap(struct okv_slab *slab);

static inline uint8_t *okv_slab_slot(const struct okv_slab *slab, unsigned index)
{
    return slab->base + index * slab->stride;
}

#endif
