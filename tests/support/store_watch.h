/*
 * Some threads change keys while others read them from the raw bytes of the region and check what
 * they find.
 *
 * Each key belongs to one changing thread. The value carries the number of its change. The thread
 * publishes the number before and after each change. A reader reads these numbers before and after
 * its get. So it knows which values it may find, and whether the key may have been missing.
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
    /* Twice the change's number, plus 1 if the key exists after it. */
    _Atomic uint32_t begun, done;
    _Atomic uint32_t away; /* number of the last removal that began */
};

struct store_watch {
    struct store_region *region;
    unsigned count;
    uint32_t key_length; /* at least 8 */
    uint32_t value_max;
    struct store_watched *keys;
    _Atomic unsigned known; /* readers choose keys below this */
    atomic_bool stop;
    atomic_uint_fast64_t gets;
    atomic_bool failed; /* `failure` says why */
    pthread_mutex_t lock;
    char failure[256];
};

void store_watch_open(struct store_watch *watch, struct store_region *region, unsigned count,
                      uint32_t key_length, uint32_t value_max);
void store_watch_close(struct store_watch *watch);

/* Changes one key, by its own thread. `work` is that thread's; `value` has room for value_max.
 * Returns the store's result. OKV_EFULL must leave the key unchanged. Any other result must match
 * the key's state. */
int store_watch_put(struct store_watch *watch, struct okv_store_work *work, uint8_t *value,
                    unsigned index, uint32_t length);
int store_watch_delete(struct store_watch *watch, struct okv_store_work *work, unsigned index);

/* Looks a key up and checks the result. False: watch->failure says what is wrong. */
bool store_watch_check(struct store_watch *watch, struct store_reader *reader, unsigned index);

/* Starts threads that check random keys until store_watch_join(), which fails the test if one found
 * an error. */
struct store_watcher {
    pthread_t thread;
    struct store_watch *watch;
    uint64_t seed;
};
void store_watch_start(struct store_watch *watch, struct store_watcher *watchers, unsigned count);
void store_watch_join(struct store_watch *watch, struct store_watcher *watchers, unsigned count);

#endif
