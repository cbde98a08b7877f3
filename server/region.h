/*
 * The one block of memory that clients read: a memfd, mapped once and never
 * unmapped, remapped or purged while it is registered.
 */
#ifndef OKV_SERVER_REGION_H
#define OKV_SERVER_REGION_H

#include <stdbool.h>

#include "shared/transport.h"

/* The size of a huge page: with them, a region is a multiple of it. */
#define OKV_REGION_UNIT (UINT64_C(2) << 20)

/*
 * Maps `length` bytes of zeros, a multiple of a page (of 2 MiB if `huge`).
 * The mapping is kept out of forked children. OKV_EPERM: no huge pages;
 * OKV_ENOMEM, OKV_EIO. Huge pages are never replaced by small ones silently.
 */
int okv_region_create(uint64_t length, bool huge, struct okv_exposed_region *out,
                      struct okv_diag *diag);
void okv_region_destroy(struct okv_exposed_region *region);

#endif
