/*
 * Long values. Their bytes are written and their checksum computed in slices, without a lock, so
 * that other requests are served between two slices.
 *
 *   reserve   allocates the extent, which nothing refers to
 *   begin     writes the key
 *   compose   a value that is not in the extent yet: it is made of a source and a patch
 *   step      copies source and patch, and adds to the checksum
 *   put, append or modify of commands.h
 *   release   in any case
 *
 * okv_store_append() and okv_store_touch() pin the extent of the current value, which becomes the
 * source. As extents never change, an item that still refers to it when the change takes effect
 * still has that value.
 */
#ifndef OKV_SERVER_STORE_LONG_VALUE_H
#define OKV_SERVER_STORE_LONG_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/store/heap.h"
#include "shared/format/hash.h"

struct okv_store;
struct okv_store_work;
struct okv_store_write;

/* An append to a value of this length or more is long. */
#define OKV_STORE_LONG_MIN OKV_HEAP_PINNED_MIN

/* Likewise a touch, in a durable store: its log takes the value. */
#define OKV_STORE_LONG_LOGGED (256u << 10)

/* A copy of a value that the log wrote before the record of the change. */
struct okv_store_copy {
    uint64_t number;   /* of its file; 0: none */
    uint64_t checksum; /* of the value, seed 0 */
};

/* Starts as zeros. */
struct okv_store_long_value {
    struct okv_heap_pin source; /* of the extent of `before` */
    const uint8_t *before;      /* bytes that the value begins with; or NULL */
    uint32_t before_length;
    const uint8_t *patch; /* bytes at patch_offset, also of `before`; zeros fill a gap */
    uint32_t patch_length, patch_offset;
    uint64_t extent; /* 0: none, or it belongs to the store */
    uint64_t length; /* bytes of it */
    uint64_t done;   /* of these, bytes that are written and in the checksum */
    uint32_t value_length;
    uint32_t key_length; /* of the key in the extent; 0: the entry has it */
    struct okv_hash_stream checksum;
    struct okv_store_copy copy;
};

/* Allocates an extent for a value. Makes room if there is none. `has_no_batch`: the store is
 * durable, and the caller in no change. OKV_EFULL; OKV_EAGAIN: room is coming. */
int okv_store_long_reserve(struct okv_store *store, struct okv_store_work *work,
                           struct okv_store_long_value *value, uint32_t key_length,
                           uint32_t value_length, bool has_no_batch);
/* Offset of the value in the region. */
uint64_t okv_store_long_offset(const struct okv_store_long_value *value);
/* The value itself. NULL: there is no extent, or it belongs to the store. */
uint8_t *okv_store_long_bytes(const struct okv_store *store,
                              const struct okv_store_long_value *value);
/* `write` is the put, whose value is in the extent, or the append that was found to be long, whose
 * bytes stay the caller's and do not change until the value is complete. */
void okv_store_long_begin(const struct okv_store *store, struct okv_store_long_value *value,
                          const struct okv_store_write *write);
/* After begin: the value is `before`, which the caller has set, with the patch in it. The caller's
 * patch and source stay as they are until the value is complete. */
void okv_store_long_compose(struct okv_store_long_value *value, const uint8_t *patch,
                            uint32_t patch_length, uint32_t patch_offset);
/* Processes up to `most` bytes. Returns how many, fewer only at the end. */
uint64_t okv_store_long_step(const struct okv_store *store, struct okv_store_long_value *value,
                             uint64_t most);
static inline bool okv_store_long_is_complete(const struct okv_store_long_value *value)
{
    return value->extent != 0 && value->done == value->length;
}
/* Frees the extent unless it belongs to the store, and unpins the source. */
void okv_store_long_release(struct okv_store *store, struct okv_store_long_value *value);

#endif
