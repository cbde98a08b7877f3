/* Knowledge about the server's table, and registered memory. */
#ifndef OKV_CLIENT_STATE_TABLE_H
#define OKV_CLIENT_STATE_TABLE_H

#include <okv.h>
#include <stdbool.h>

#include "shared/transport/transport.h"

#define REGISTRATIONS_MAX 64
/* Free bounce buffers that are kept. */
#define BOUNCES_KEPT 4

/* connection/clock_sync.c estimates the server's clock. */
#define CLOCK_BOUNDS 4
struct clock_bound {
    int64_t offset_ms; /* the server's clock was at least this far ahead of ours */
    uint64_t at_ms;    /* on our clock: when the sample came */
};

struct clock_sync {
    struct clock_bound bounds[CLOCK_BOUNDS]; /* the latest; bound n is at n % CLOCK_BOUNDS */
    uint64_t taken;                          /* bounds so far */
    uint64_t latest_ms;                      /* on the server's clock: the latest accepted sample */
    uint64_t sampled_at_ms; /* on our clock: when the latest sample came, accepted or not */
    uint64_t told_ms;       /* on the server's clock: the latest result of clock_now_ms() */
    bool reading;           /* a READ of the status is under way */
};

/* get/hints.c keeps hints in sets. */
struct hint {
    uint64_t extent : 48;
    uint64_t key_length : 15; /* 0: free */
    uint64_t key_in_extent : 1;
    uint32_t hash; /* upper half of the key's hash */
    uint32_t value_length;
};

struct okv_registration {
    uint8_t *base;
    size_t length;
    struct okv_memory *memory; /* NULL while not connected */
};

#endif
