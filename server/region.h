/*
 * The one block of memory that clients read: a memfd, mapped once and never
 * unmapped, remapped or purged while it is registered.
 */
#ifndef OKV_SERVER_REGION_H
#define OKV_SERVER_REGION_H

#include <stdbool.h>

#include "shared/transport.h"

/* Sizes are rounded up to this, the size of a huge page. */
#define OKV_REGION_UNIT (UINT64_C(2) << 20)

/*
 * Maps `length` bytes of zeros, a multiple of a page, on 2 MiB pages if `huge`.
 * The mapping is kept out of forked children. OKV_EPERM: no huge pages;
 * OKV_ENOMEM, OKV_EIO. Huge pages are never replaced by small ones silently.
 */
int okv_region_create(uint64_t length, bool huge, struct okv_exposed_region *out,
                      struct okv_diag *diag);
void okv_region_destroy(struct okv_exposed_region *region);

#endif
