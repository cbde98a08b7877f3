/*
 * The scripts that clients gave and that compile, by SHA-1: all workers share them. There are at
 * most OKV_RESP_SCRIPTS_MAX with OKV_RESP_SCRIPTS_BYTES: a new one removes those that were not used
 * for longest. Any thread.
 */
#ifndef OKV_SERVER_RESP_SCRIPT_CACHE_H
#define OKV_SERVER_RESP_SCRIPT_CACHE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "shared/base/sha1.h"

#define OKV_RESP_SCRIPTS_MAX 1000u
#define OKV_RESP_SCRIPTS_BYTES (16u << 20)
/* Work of a byte of which SHA-1 is computed. */
#define OKV_RESP_SHA1_BYTE 3u

/* Lives until the last reference is dropped. */
struct okv_resp_script {
    uint8_t sha1[OKV_SHA1_SIZE];
    char name[OKV_SHA1_TEXT];
    atomic_uint references;       /* of the cache and of workers */
    atomic_bool is_removed;       /* from the cache */
    atomic_uint_fast64_t used_ns; /* okv_clock_coarse_ns() of its last use */
    atomic_bool runs_alone;       /* it had to the last time, so it begins so */
    LIST_ENTRY(okv_resp_script) in_slot;
    TAILQ_ENTRY(okv_resp_script) by_use;
    size_t length;
    char text[];
};

#define OKV_RESP_SCRIPT_SLOTS 1024u

struct okv_resp_script_cache {
    pthread_mutex_t lock;
    LIST_HEAD(okv_resp_script_list, okv_resp_script) slots[OKV_RESP_SCRIPT_SLOTS];
    TAILQ_HEAD(okv_resp_script_queue, okv_resp_script) by_use; /* the last one is the oldest */
    unsigned count;
    size_t bytes;
    atomic_uint flushes;
};

/* NULL: there is no memory. */
struct okv_resp_script_cache *okv_resp_script_cache_create(void);
/* Accepts NULL. */
void okv_resp_script_cache_destroy(struct okv_resp_script_cache *cache);

/* A reference to the script of this name; NULL: there is none. */
struct okv_resp_script *okv_resp_script_find(struct okv_resp_script_cache *cache,
                                             const uint8_t sha1[OKV_SHA1_SIZE]);
/* A script that is not in the cache, with a reference. NULL: there is no memory, or it is longer
 * than the cache. */
struct okv_resp_script *okv_resp_script_create(const uint8_t sha1[OKV_SHA1_SIZE], const char *text,
                                               size_t length);
/* Adds it, and returns a reference in place of that to it: another worker may have added the same
 * text. */
struct okv_resp_script *okv_resp_script_insert(struct okv_resp_script_cache *cache,
                                               struct okv_resp_script *script);
/* It is used now. */
void okv_resp_script_use(struct okv_resp_script_cache *cache, struct okv_resp_script *script);
void okv_resp_script_drop(struct okv_resp_script *script);
/* How many there are, with how many bytes. */
void okv_resp_script_count(struct okv_resp_script_cache *cache, unsigned *count, size_t *bytes);
/* Removes all. */
void okv_resp_script_flush(struct okv_resp_script_cache *cache);

#endif
