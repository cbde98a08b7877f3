/* Items of all kinds in a cluster, and whether two walks over them, one at each copy, saw the
 * same. */
#ifndef OKV_TESTS_CLUSTER_ITEMS_H
#define OKV_TESTS_CLUSTER_ITEMS_H

#include <okv.h>
#include <stddef.h>
#include <stdint.h>

struct cluster_item {
    char key[32];
    size_t length;
    uint64_t checksum; /* of the value */
    uint64_t version;
    int64_t ttl_ms; /* as in struct okv_item */
};

struct cluster_items {
    const char *prefix; /* of the keys of all */
    size_t count, room;
    struct cluster_item *of;     /* by key */
    uint64_t begun_ns, ended_ns; /* of the walk */
};

/* Puts `count` items with values of a few bytes to `longest`, some with times to live; updates,
 * appends to, touches and deletes some of them. */
void cluster_items_put(okv *handle, unsigned count, size_t longest);
/* One change of one of those items, which one and how follows from `number`. */
void cluster_items_change(okv *handle, unsigned count, size_t longest, uint64_t number);
/* Those whose keys begin so. To be freed. */
struct cluster_items cluster_items_walk(okv *handle, const char *prefix);
void cluster_items_free(struct cluster_items *items);
/* Same keys, values, versions and expiries. Fails the test otherwise. */
void cluster_items_compare(const struct cluster_items *before, const struct cluster_items *after);

/* 60 MiB that nobody changes later. What a primary keeps of its log in memory, 32 MiB, then does
 * not reach back to the beginning. */
void cluster_items_put_large(okv *handle);

#endif
