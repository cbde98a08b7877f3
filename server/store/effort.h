/* What one change may spend on making room in a full heap. */
#ifndef OKV_SERVER_STORE_EFFORT_H
#define OKV_SERVER_STORE_EFFORT_H

#include <stdbool.h>

/* Steps of making room that are left. What takes steps next continues where these ended. */
struct okv_store_effort {
    unsigned merges; /* each of one bucket */
    unsigned sweeps, compactions;
    bool has_begun; /* room.h */
};
#define OKV_STORE_EFFORT                              \
    {                                                 \
        .merges = 1024, .sweeps = 4, .compactions = 4 \
    }
#endif
