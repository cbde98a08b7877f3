/*
 * Many small items, put, read or deleted with several operations under way: what makes a table
 * grow and shrink. Item n has a key of 16 bytes and a value of 32 that follow from n, so
 * whoever knows n knows what must be there.
 */
#ifndef OKV_TESTS_BULK_H
#define OKV_TESTS_BULK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <okv.h>

#define BULK_KEY_BYTES 16
#define BULK_VALUE_BYTES 32
#define BULK_UNDER_WAY 16

void bulk_key(char key[BULK_KEY_BYTES], uint64_t n);
void bulk_value(uint8_t value[BULK_VALUE_BYTES], uint64_t n);
bool bulk_value_is(const uint8_t *value, size_t length, uint64_t n);

struct bulk {
    int kind;            /* OKV_PUT and OKV_GET: upwards from the first; OKV_DELETE: downwards */
    uint64_t begin, end; /* items n with begin <= n < end ... */
    uint64_t step;       /* ... and n a multiple of this above `begin`; 0: 1 */
    const atomic_bool *stop;         /* ends it early; NULL: nothing does */
    atomic_uint_fast64_t *there_end; /* may be NULL: every item of these below it is there: rises
                                        after puts have ended, sinks before deletes begin */
};

/*
 * Runs it on a handle on which nothing is under way, and whose depth is at least
 * BULK_UNDER_WAY. OKV_OK when each operation that was begun succeeded, and reads found what
 * belongs there; OKV_ECORRUPT: they found something else; else the first other status, with
 * the item's number in *culprit (may be NULL).
 */
int bulk_run(okv *handle, const struct bulk *bulk, uint64_t *culprit);

#endif
