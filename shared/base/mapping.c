#include "shared/base/mapping.h"

#include <stdint.h>
#include <sys/mman.h>

/* A multiple of a huge page that is followed by `length` free bytes, or NULL. Another thread may
 * map them meanwhile; it is only a hint for mmap(2). */
static void *find_aligned(size_t length)
{
    size_t room;

    if (__builtin_add_overflow(length, OKV_HUGE_PAGE, &room))
        return NULL;
    uint8_t *found =
        mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (found == MAP_FAILED)
        return NULL;
    munmap(found, room);
    return found + -(uintptr_t)found % OKV_HUGE_PAGE;
}

void *okv_map_shared(int fd, size_t length, int protection)
{
    void *hint = length >= OKV_HUGE_PAGE ? find_aligned(length) : NULL;

    return mmap(hint, length, protection, MAP_SHARED, fd, 0);
}
