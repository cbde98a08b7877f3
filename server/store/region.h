/*
 * The memory that clients READ: a memfd, mapped once. It is never unmapped, remapped or purged
 * while it is registered.
 */
#ifndef OKV_SERVER_STORE_REGION_H
#define OKV_SERVER_STORE_REGION_H

#include <stdbool.h>

#include "shared/transport/transport.h"

/* The pages of the region, and when the kernel provides them. */
enum okv_region_pages {
    OKV_REGION_SMALL,       /* small pages, on first use */
    OKV_REGION_RESERVED,    /* huge pages reserved by vm.nr_hugepages */
    OKV_REGION_TRANSPARENT, /* huge pages that the kernel makes of small ones, all at once */
    OKV_REGION_AUTO, /* reserved huge pages, all at once; if they do not suffice, small ones */
    OKV_REGION_OFF,  /* of the option alone: small ones */
};

/* From here on a NIC is slow on small pages: its cache of translations is too small. */
#define OKV_REGION_LARGE (UINT64_C(1) << 30)

/* Whether regions of `length` bytes in total fit the memory of this machine, and `limit`, that of
 * its control group. OKV_ENOMEM. */
int okv_region_check(uint64_t length, uint64_t limit, struct okv_diag *diag);

/*
 * Maps `length` bytes of zeros, a multiple of a page (of OKV_HUGE_PAGE if reserved or transparent).
 * With `prefault` the kernel provides all pages now. Forked children do not inherit the mapping.
 *
 * Blocks: prefault takes a second or two per GiB and processor, transparent huge pages
 * (MADV_COLLAPSE, Linux 6.1) 0.3 to 4 s per GiB. OKV_EPERM: no huge pages; OKV_ENOMEM, OKV_EIO.
 * Only AUTO falls back to small pages. When memory is short, the kernel may split transparent huge
 * pages later.
 */
int okv_region_create(uint64_t length, enum okv_region_pages pages, bool prefault,
                      struct okv_region *out, struct okv_diag *diag);
/* Whether --huge=transparent can work here: the kernel makes pages of another size when its small
 * ones are larger than 4 KiB (512 MiB of 64 KiB ones, on Arm). OKV_EUNSUPPORTED. `root` precedes
 * /sys; it is "" except in tests. */
int okv_region_check_transparent(const char *root, struct okv_diag *diag);
/* Whether it lies on reserved huge pages. */
bool okv_region_is_huge(const struct okv_region *region);
void okv_region_destroy(struct okv_region *region);

#endif
