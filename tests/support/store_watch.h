/*
 * Keys that are changed by some threads while others read them from the raw bytes
 * of the region and know what they may find.
 *
 * Each key belongs to one changing thread. A change has a number, which its value
 * carries. Before and after each change its number is made known; a reader that looks
 * before and after its get so knows which changes the value may be of, and whether the key
 * may have been away meanwhile.
 */
#ifndef OKV_TESTS_STORE_WATCH_H
#define OKV_TESTS_STORE_WATCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/support/store_region.h"

#define WATCH_VALUE_MIN 8u /* bytes: the numbers of key and change */

struct store_watched {
    /* Twice the change's number; plus 1 when the key is there after it. */
    _Atomic uint32_t begun, done;
    _Atomic uint32_t away; /* number of the last removal that has begun */
};

struct store_watch {
    struct store_region *region;
    unsigned count;
    uint32_t key_length; /* from 8 */
    uint32_t value_max;
    struct store_watched *keys;
    _Atomic unsigned known; /* the readers take keys below this */
    atomic_bool stop;
    atomic_uint_fast64_t gets;
    atomic_bool failed; /* `failure` says how */
    pthread_mutex_t lock;
    char failure[256];
};

void store_watch_open(struct store_watch *watch, struct store_region *region, unsigned count,
                      uint32_t key_length, uint32_t value_max);
void store_watch_close(struct store_watch *watch);

/* Changes one key: by the thread that it belongs to. `work` is that thread's; `value` has room
 * for value_max. Return what the store does; OKV_EFULL leaves the key as it was, and whatever else
 * the state of the key does not explain is a failure. */
int store_watch_put(struct store_watch *watch, struct okv_store_work *work, uint8_t *value,
                    unsigned index, uint32_t length);
int store_watch_delete(struct store_watch *watch, struct okv_store_work *work, unsigned index);

/* Looks a key up and checks what is found. False: watch->failure says what is wrong. */
bool store_watch_check(struct store_watch *watch, struct store_reader *reader, unsigned index);

/* Threads that check keys at random until store_watch_join(), which fails the test when one
 * found anything wrong. */
struct store_watcher {
    pthread_t thread;
    struct store_watch *watch;
    uint64_t seed;
};
void store_watch_start(struct store_watch *watch, struct store_watcher *watchers, unsigned count);
void store_watch_join(struct store_watch *watch, struct store_watcher *watchers, unsigned count);

#endif
