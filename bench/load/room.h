/* Whether a server has room for the records, as far as that is known before they are stored. */
#ifndef OKV_BENCH_LOAD_ROOM_H
#define OKV_BENCH_LOAD_ROOM_H

#include <stddef.h>
#include <stdint.h>

#include "bench/load/workload.h"

/* What is to be stored. */
struct room_wanted {
    const struct workload_values *values;
    uint32_t key_size;     /* bytes */
    uint32_t bucket_bytes; /* of the server */
    uint64_t records;
};

/* Bytes of all keys and values. Of many records whose sizes differ it measures some. */
double room_bytes(const struct room_wanted *wanted);

/*
 * Returns 0 unless the records need more than `table_bytes` for sure; that they fit is not proven.
 * Else OKV_EFULL, with a sentence in `why` that says what to change. Its sizes are those of the
 * formula in docs/capacity.md; its last --memory and its --records leave gets quick, and the
 * records fit a server with --data, too.
 */
int room_check(const struct room_wanted *wanted, uint64_t table_bytes, char *why, size_t why_size);

#endif
