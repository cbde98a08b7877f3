/* Changes of one item: put, append, incr, touch, delete. */
#ifndef OKV_SERVER_STORE_COMMANDS_H
#define OKV_SERVER_STORE_COMMANDS_H

#include <stdbool.h>
#include <stdint.h>

#include "server/store/state.h"

struct okv_store_long_value;

/* The current item, valid while its bucket is locked. */
struct okv_store_now {
    const uint8_t *value;
    uint32_t value_length;
    uint64_t version;
    uint64_t expiry_ms; /* 0: never */
    uint64_t extent;    /* offset of the allocation that has the value; 0: its bucket has it */
    uint8_t uses;       /* its counter (heat.h), of a look that is no use; else 0 */
};

/* The item after the change. A value that points to okv_store_now.value, or into the long value of
 * the change, is not copied. */
struct okv_store_next {
    const void *value;
    uint32_t value_length;
    uint64_t expiry_ms;
};

/* Decides about a change while the bucket is locked. `now` is NULL without an item. Sets *next and
 * returns 0, or returns OKV_STORE_REMOVE, OKV_STORE_KEEP or a negative code. May be called again
 * for the same change, with another item. */
typedef int okv_store_decide(void *user, const struct okv_store_now *now,
                             struct okv_store_next *next);
#define OKV_STORE_KEEP 3
#define OKV_STORE_REMOVE 4

/* What to write, and under which condition. */
struct okv_store_write {
    const void *key;
    uint32_t key_length;
    const void *value; /* put: not with `long_value` */
    uint32_t value_length;
    struct okv_store_long_value *long_value; /* not incr and delete: NULL, or see there */
    uint64_t ttl_ms; /* put, touch, and incr of a missing key: the item lives at least this long
                        from the begin of the call; 0: it never expires */
    bool keep_ttl;   /* put: an item that is there keeps its expiry; with `ttl_ms` 0 */
    bool if_absent;
    bool if_version;
    uint64_t version; /* what if_version requires */
    int64_t delta;    /* incr */
    void *room;       /* touch: also receives a copy of the value; or NULL */
    uint32_t room_size;
    bool is_part;     /* of a command of several changes, which must not stop in the middle: the log
                         accepts it although its batch is full */
    unsigned *steps;  /* that it may take to make room before it returns (room.h), which it counts
                         down; NULL: one */
    bool cannot_wait; /* when these are used up it is refused; else it returns OKV_EAGAIN */
    okv_store_decide *decide; /* modify */
    void *user;               /* of decide */
};

struct okv_store_outcome {
    uint64_t version; /* the new one; with OKV_ECONFLICT and OKV_EEXISTS the current one; else 0 */
    int64_t number;   /* incr: the sum */
    uint64_t length;  /* append, modify: of the whole value; touch with `room`: of the value */
    bool is_removed;  /* modify: the item is gone */
};

/* Not an error: the change is long (long_value.h). */
#define OKV_STORE_LONG 2

/* Makes one change. OKV_EAGAIN: room is coming, as freed memory is still to be wiped or is pinned;
 * nothing was changed. */
typedef int okv_store_change(struct okv_store *store, struct okv_store_work *work,
                             const struct okv_store_write *write,
                             struct okv_store_outcome *outcome);

/*
 * Sets the value of a key. Key and value are copied. With `long_value`, which is complete, the
 * value is in its extent, which belongs to the store on success. OKV_EKEYSIZE, OKV_EVALUESIZE;
 * OKV_EEXISTS, OKV_ECONFLICT, OKV_ENOTFOUND (if_version and no such key); OKV_EFULL: the heap has
 * no room, OKV_EBUCKETFULL: the bucket has none, the key keeps its value; OKV_ECORRUPT: the
 * bucket's images make no sense.
 */
int okv_store_put(struct okv_store *store, struct okv_store_work *work,
                  const struct okv_store_write *write, struct okv_store_outcome *outcome);
/*
 * Adds `value` to the end of the current value, or puts it. Errors as okv_store_put(). Nothing is
 * changed with OKV_STORE_LONG, which means, by the state of `long_value`:
 *   NULL      the current value is long
 *   zeros     the current value is long, and is the source of `long_value` now; OKV_EAGAIN instead
 *             if another append has it as its source
 *   complete  the item no longer has the source as its value. Otherwise the extent of `long_value`
 *             becomes its value
 */
int okv_store_append(struct okv_store *store, struct okv_store_work *work,
                     const struct okv_store_write *write, struct okv_store_outcome *outcome);
/* Adds `delta` to the value, a decimal integer, or to 0. Also OKV_ENUMBER, OKV_EOVERFLOW;
 * OKV_EVALUESIZE is about the sum. */
int okv_store_incr(struct okv_store *store, struct okv_store_work *work,
                   const struct okv_store_write *write, struct okv_store_outcome *outcome);
/* Sets when the item expires. In a durable store a value of OKV_STORE_LONG_LOGGED and more is a
 * long one, as of okv_store_append(). OKV_ENOTFOUND; OKV_EVALUESIZE: `room` is too small;
 * OKV_EFULL, OKV_EBUCKETFULL: its entry grew and there is no room. */
int okv_store_touch(struct okv_store *store, struct okv_store_work *work,
                    const struct okv_store_write *write, struct okv_store_outcome *outcome);
/* Changes an item as write->decide() says, atomically for all readers and writers. decide() sees
 * the newest item, which in a durable store may not be published yet. Returns 0 after
 * OKV_STORE_KEEP (`outcome` is zeros), OKV_ENOTFOUND after OKV_STORE_REMOVE without an item, and
 * the code of a decide() that failed. Other errors as okv_store_put(). */
int okv_store_modify(struct okv_store *store, struct okv_store_work *work,
                     const struct okv_store_write *write, struct okv_store_outcome *outcome);
/* Removes a key; needs no room. OKV_EKEYSIZE, OKV_ENOTFOUND, OKV_ECONFLICT, OKV_ECORRUPT; errors
 * of the log (pending.h). */
int okv_store_delete(struct okv_store *store, struct okv_store_work *work,
                     const struct okv_store_write *write, struct okv_store_outcome *outcome);

#endif
