/* Mapping the memory of a table, on both sides of the local transport. */
#ifndef OKV_SHARED_BASE_MAPPING_H
#define OKV_SHARED_BASE_MAPPING_H

#include <stddef.h>

/* Bytes of a huge page. */
#define OKV_HUGE_PAGE ((size_t)2 << 20)

/* Maps the first `length` bytes (at least 1) of a file as MAP_SHARED, with `protection` as in
 * mmap(2). The address is aligned to a huge page if the address space allows it, because the kernel
 * maps huge pages of the file only there. MAP_FAILED with errno, as mmap(2). */
void *okv_map_shared(int fd, size_t length, int protection);

#endif
