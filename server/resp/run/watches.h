/* Keys that WATCH watches, each once, in memory of one piece: its end costs the same however many
 * there are. Starts as zeros. */
#ifndef OKV_SERVER_RESP_RUN_WATCHES_H
#define OKV_SERVER_RESP_RUN_WATCHES_H

#include "server/resp/proto/args.h"
#include "server/resp/proto/buffer.h"

struct okv_resp_watched {
    uint64_t version; /* 0: there was no item */
    unsigned database;
    uint32_t key_length;
    uint8_t key[];
};

struct okv_resp_watches {
    struct okv_resp_buffer keys; /* of struct okv_resp_watched, each at a multiple of 8 */
    uint32_t count;
    /* By the hash of the key, with its high half, so that it grows without a look at the keys. At
     * least twice as many slots as keys; a power of two. */
    struct okv_resp_watch_slot {
        uint32_t hash, at; /* in `keys`, in units of 8, + 1; 0: the slot is free */
    } * slots;
    uint32_t slot_count;
};

bool okv_resp_watches_have(const struct okv_resp_watches *watches, uint64_t hash_seed,
                           unsigned database, const struct okv_resp_arg *key);
/* Adds a key that it does not have, while all together take at most `most` bytes. Returns the work,
 * in units of core/turn.h, or OKV_ENOMEM. */
int64_t okv_resp_watches_add(struct okv_resp_watches *watches, uint64_t hash_seed, size_t most,
                             unsigned database, const struct okv_resp_arg *key, uint64_t version);
/* The one after `watched`; the first for NULL; NULL at the end. */
const struct okv_resp_watched *okv_resp_watches_next(const struct okv_resp_watches *watches,
                                                     const struct okv_resp_watched *watched);
size_t okv_resp_watches_bytes(const struct okv_resp_watches *watches);
void okv_resp_watches_drop(struct okv_resp_watches *watches, struct okv_resp_trash *trash);

#endif
