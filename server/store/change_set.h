/*
 * Several changes of one store, made as one: all of them, or none.
 *
 * The caller decided on each by an item that it had looked at before. All locks of their buckets
 * are held while the set compares those items, prepares the new images of all buckets, adds all
 * records to the log at once, and publishes. Whatever fails does so before the records.
 *
 * Readers without locks see each bucket change by itself.
 */
#ifndef OKV_SERVER_STORE_CHANGE_SET_H
#define OKV_SERVER_STORE_CHANGE_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "server/store/state.h"

enum okv_store_set_kind {
    OKV_STORE_SET_READ, /* nothing changes; the item is compared only */
    OKV_STORE_SET_REMOVE,
    OKV_STORE_SET_PUT,
};

/* Of one key, which is in a set once. Keys and values stay the caller's. */
struct okv_store_set_change {
    enum okv_store_set_kind kind;
    const void *key;
    uint32_t key_length;   /* 1 to OKV_KEY_MAX */
    uint32_t value_length; /* at most max_value of the store */
    const void *value;
    uint64_t expiry_ms;
    uint64_t version;                    /* of the item that was looked at; 0: there was none */
    uint64_t next_version, hash, bucket; /* the set's own */
};

struct okv_store_set {
    struct okv_store_set_change *changes; /* [count]; the call sorts them */
    uint32_t count;
    bool compares;   /* else the caller knows that nobody changed the items meanwhile */
    unsigned *steps; /* as in okv_store_write */
};

/*
 * Makes the changes. OKV_ECONFLICT: an item is not the one that was looked at; OKV_EFULL,
 * OKV_EBUCKETFULL, OKV_ENOMEM, OKV_ECORRUPT; OKV_EAGAIN: room is coming, in the heap or in the
 * log's next batch; OKV_EVALUESIZE: no batch of the log has room for them; errors of the log
 * (pending.h).
 */
int okv_store_change_set(struct okv_store *store, struct okv_store_work *work,
                         const struct okv_store_set *set);

#endif
