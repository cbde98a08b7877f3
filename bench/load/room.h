/* Whether a server has room for the records, as far as that is known before they are stored. */
#ifndef OKV_BENCH_LOAD_ROOM_H
#define OKV_BENCH_LOAD_ROOM_H

#include <stddef.h>
#include <stdint.h>

#include "bench/load/workload.h"

/* What is to be stored. */
struct room_wanted {
    const struct workload_values *values;
    uint32_t key_size; /* bytes */
    uint64_t records;
};

/* Bytes of all keys and values. Of many records whose sizes differ it measures some. */
double room_bytes(const struct room_wanted *wanted);

/*
 * Returns 0 if `table_bytes` are at least the keys and values, which proves nothing: items need
 * more than those. Else OKV_EFULL, with a sentence in `why` that says what to change; its
 * --memory and its --records leave gets quick.
 */
int room_check(const struct room_wanted *wanted, uint64_t table_bytes, char *why, size_t why_size);

#endif
