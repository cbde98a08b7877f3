/* READs without okv's gets around them, and by them where an item is: for the floors under gets. */
#ifndef OKV_TESTS_ITEM_PLACE_H
#define OKV_TESTS_ITEM_PLACE_H

#include "client/handle.h"

struct item_place {
    uint64_t item; /* whose key is bulk_key()'s */
    uint64_t hash;
    uint64_t number; /* of its bucket */
    uint64_t offset; /* of that in the region */
    struct okv_entry entry;
};

/* Posts at most 8 READs at once and waits for all of them, with nothing else under way. 0, or an
 * OKV_E code. */
int item_place_read(const okv *handle, const struct okv_read *reads, unsigned count);
/* Finds an item by a READ of its bucket to `image`, in registered `memory`; out->entry refers to
 * it. The handle knows the index. Returns 1, 0 for an item that is not in the first part of its
 * bucket, or an OKV_E code. */
int item_place_find(const okv *handle, uint64_t item, uint8_t *image, struct okv_memory *memory,
                    struct item_place *out);

#endif
