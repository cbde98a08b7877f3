/* What a handle knows of the server's table, and the memory that it READs it to. */
#ifndef OKV_CLIENT_STATE_TABLE_H
#define OKV_CLIENT_STATE_TABLE_H

#include <okv.h>
#include <stdbool.h>

#include "shared/transport/transport.h"

#define REGISTRATIONS_MAX 64
/* Bounce buffers that are kept for the next long extent. */
#define BOUNCES_KEPT 4

/* See clock_sync.c. */
#define CLOCK_BOUNDS 4
struct clock_bound {
    int64_t offset_ms; /* the server's clock was this far ahead of ours, or farther */
    uint64_t at_ms;    /* on our clock: when that was found */
};

struct clock_sync {
    struct clock_bound bounds[CLOCK_BOUNDS]; /* the last ones; bound n is in n % CLOCK_BOUNDS */
    uint64_t taken;                          /* bounds ever */
    uint64_t latest_ms;                      /* on the server's clock: the last one's sample */
    uint64_t sampled_at_ms; /* on our clock: when a sample came last, good or not */
    uint64_t told_ms;       /* on the server's clock: the last answer */
    bool reading;           /* the READ of a sample is under way */
};

/* See hints.c. */
struct hint {
    uint64_t extent : 48;
    uint64_t key_length : 15; /* 0: no hint here */
    uint64_t key_in_extent : 1;
    uint32_t hash; /* of the key: half of it */
    uint32_t value_length;
};

struct okv_registration {
    uint8_t *base;
    size_t length;
    struct okv_memory *memory; /* NULL while there is no connection */
};

#endif
