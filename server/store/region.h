/*
 * The one block of memory that clients read: a memfd, mapped once and never
 * unmapped, remapped or purged while it is registered.
 */
#ifndef OKV_SERVER_STORE_REGION_H
#define OKV_SERVER_STORE_REGION_H

#include <stdbool.h>

#include "shared/transport/transport.h"

/* Which pages the region lies on, and when it gets them. */
enum okv_region_pages {
    OKV_REGION_SMALL,       /* with use */
    OKV_REGION_RESERVED,    /* huge ones that vm.nr_hugepages reserved for such as this */
    OKV_REGION_TRANSPARENT, /* huge ones that the kernel makes of small ones, all at once */
};

/*
 * Maps `length` bytes of zeros, a multiple of a page (of OKV_HUGE_PAGE unless small); with
 * `prefault` the kernel gives all of them now. The mapping is kept out of forked children.
 * Blocks: prefault for a second or two per GiB, and the making of huge pages (MADV_COLLAPSE of
 * madvise(2), Linux 6.1) for 0.3 to 4. OKV_EPERM: no huge pages; OKV_ENOMEM, OKV_EIO. Huge
 * pages are never replaced by small ones silently, though under want of memory the kernel may split
 * transparent ones later.
 */
int okv_region_create(uint64_t length, enum okv_region_pages pages, bool prefault,
                      struct okv_region *out, struct okv_diag *diag);
void okv_region_destroy(struct okv_region *region);

#endif
