/*
 * All items of a store on their way to a copy that has none, while they change.
 *
 * A walk by positions (iterate.h) visits each item as it is published at that moment, and reports
 * for each interval of positions the highest version there. Together with all changes that are
 * published from before the walk until after it, in any order that keeps those of an item, this
 * makes an equal store: of two versions of an item the higher one counts.
 */
#ifndef OKV_SERVER_STORE_EXPORT_H
#define OKV_SERVER_STORE_EXPORT_H

#include "server/store/state.h"
#include "shared/format/entry.h"

struct okv_store_export_visitor {
    /* Positions from `position` on, to where the next call says: no version there is higher. */
    void (*interval)(void *user, uint64_t position, uint64_t version);
    /* The bytes of key and value are lent until it returns; the bucket is locked. */
    void (*item)(void *user, const struct okv_entry *entry);
    void *user;
};

/* Visits the items of one bucket from *position on: at least those of one position, and no more
 * once `limit` bytes of keys and values were visited. Moves *position; 0: all were visited.
 * OKV_ENOMEM; OKV_ECORRUPT. */
int okv_store_export(struct okv_store *store, struct okv_store_work *work, uint64_t *position,
                     uint64_t limit, const struct okv_store_export_visitor *visitor);

/* Into the other store: no later change between these positions gets a version up to this one.
 * `end` 0: up to the last position. OKV_EFULL, OKV_ECORRUPT. */
int okv_store_import_version(struct okv_store *store, struct okv_store_work *work, uint64_t begin,
                             uint64_t end, uint64_t version);
/* Removes all items, whatever they have. OKV_ECORRUPT. */
int okv_store_import_begin(struct okv_store *store, struct okv_store_work *work);

#endif
