/* Memory that the device may access: regions, message slots, the caller's memory. */
#ifndef OKV_SHARED_TRANSPORT_VERBS_MR_H
#define OKV_SHARED_TRANSPORT_VERBS_MR_H

#include "shared/transport/verbs/verbs.h"

/* What the device writes here may become visible in any order: it is read after its completion
 * alone. Worth bandwidth on hosts where ordered writes wait for each other; devices and kernels
 * without it ignore it (ibv_reg_mr(3)). */
#define VERBS_WRITTEN_HERE ((unsigned)IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING)

/* Registers memory; OKV_EPERM with a sentence when the memlock limit is too low. Work requests and
 * peers name its first byte by `address`, which must have the same offset in its page as `base`. */
int okv_verbs_register(struct ibv_pd *pd, void *base, size_t length, unsigned access,
                       uint64_t address, struct ibv_mr **out, struct okv_diag *diag);
int okv_verbs_slab_create(struct ibv_pd *pd, unsigned count, uint32_t slot_size,
                          struct verbs_slab *out, struct okv_diag *diag);
/* Accepts a zeroed slab. */
void okv_verbs_slab_destroy(struct verbs_slab *slab);
int okv_verbs_memory_register(struct okv_endpoint *endpoint, void *base, size_t length,
                              struct okv_memory **out);
void okv_verbs_memory_unregister(struct okv_memory *memory);

#endif
