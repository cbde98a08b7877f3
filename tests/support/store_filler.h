/* Fills a table with items of a kind until it is full, and empties it again. */
#ifndef OKV_TESTS_STORE_FILLER_H
#define OKV_TESTS_STORE_FILLER_H

#include <stdint.h>

#include "tests/support/store_region.h"

struct store_mix {
    const char *name;
    uint32_t key_length;   /* at least 8 */
    uint32_t value_length; /* 0: a random one of the other kinds' */
};
#define STORE_MIXES 7u
extern const struct store_mix store_mixes[STORE_MIXES];

struct store_filled {
    uint64_t number;
    uint32_t key_length, value_length;
    uint32_t writes; /* successful writes; the value is made from this */
    uint64_t version;
};

struct store_filler {
    struct store_region *region;
    struct store_random random;
    struct store_filled *items; /* that exist */
    unsigned count, capacity;
    uint64_t next_number;
    uint64_t user_bytes; /* of the items that exist */
    uint64_t operations;
    uint8_t *value;
};

void store_filler_open(struct store_filler *filler, struct store_region *region, uint64_t seed);
void store_filler_close(struct store_filler *filler);

/* Puts items until several in a row find no room; returns the bytes of keys and values. */
uint64_t store_filler_fill(struct store_filler *filler, const struct store_mix *mix);
/* Deletes each item with a chance of `percent`; returns the bytes. */
uint64_t store_filler_delete(struct store_filler *filler, unsigned percent);
/* Overwrites a random item by a value of the same size. If that fails, the item must keep its old
 * value. Returns whether it succeeded. */
bool store_filler_overwrite(struct store_filler *filler);
/* Fails unless a random item can be read. */
void store_filler_read(struct store_filler *filler);

#endif
