#include "server/resp/script/cache.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"

struct okv_resp_script_cache *okv_resp_script_cache_create(void)
{
    struct okv_resp_script_cache *cache = calloc(1, sizeof *cache);

    if (!cache)
        return NULL;
    TAILQ_INIT(&cache->by_use);
    pthread_mutex_init(&cache->lock, NULL);
    return cache;
}

void okv_resp_script_cache_destroy(struct okv_resp_script_cache *cache)
{
    if (!cache)
        return;
    okv_resp_script_flush(cache);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

void okv_resp_script_drop(struct okv_resp_script *script)
{
    if (atomic_fetch_sub(&script->references, 1) == 1)
        free(script);
}

struct okv_resp_script *okv_resp_script_create(const uint8_t sha1[OKV_SHA1_SIZE], const char *text,
                                               size_t length)
{
    struct okv_resp_script *script =
        length <= OKV_RESP_SCRIPTS_BYTES ? malloc(sizeof *script + length) : NULL;

    if (!script)
        return NULL;
    *script = (struct okv_resp_script){.length = length};
    memcpy(script->sha1, sha1, OKV_SHA1_SIZE);
    okv_sha1_text(sha1, script->name);
    atomic_init(&script->references, 1);
    memcpy(script->text, text, length);
    return script;
}

/* ---- with the lock ---- */

static struct okv_resp_script_list *slot_of(struct okv_resp_script_cache *cache,
                                            const uint8_t sha1[OKV_SHA1_SIZE])
{
    return &cache->slots[(sha1[0] | sha1[1] << 8) % OKV_RESP_SCRIPT_SLOTS];
}

static struct okv_resp_script *find(struct okv_resp_script_cache *cache,
                                    const uint8_t sha1[OKV_SHA1_SIZE])
{
    struct okv_resp_script *script;

    LIST_FOREACH(script, slot_of(cache, sha1), in_slot)
    if (memcmp(script->sha1, sha1, OKV_SHA1_SIZE) == 0)
        break;
    return script;
}

static void remove_one(struct okv_resp_script_cache *cache, struct okv_resp_script *script)
{
    LIST_REMOVE(script, in_slot);
    TAILQ_REMOVE(&cache->by_use, script, by_use);
    cache->count--;
    cache->bytes -= script->length;
    atomic_store(&script->is_removed, true);
    okv_resp_script_drop(script);
}

static void insert(struct okv_resp_script_cache *cache, struct okv_resp_script *script)
{
    while (cache->count >= OKV_RESP_SCRIPTS_MAX ||
           cache->bytes + script->length > OKV_RESP_SCRIPTS_BYTES)
        remove_one(cache, TAILQ_LAST(&cache->by_use, okv_resp_script_queue));
    LIST_INSERT_HEAD(slot_of(cache, script->sha1), script, in_slot);
    TAILQ_INSERT_HEAD(&cache->by_use, script, by_use);
    atomic_fetch_add(&script->references, 1); /* of the cache */
    cache->count++;
    cache->bytes += script->length;
}

/* ---- the calls ---- */

struct okv_resp_script *okv_resp_script_find(struct okv_resp_script_cache *cache,
                                             const uint8_t sha1[OKV_SHA1_SIZE])
{
    pthread_mutex_lock(&cache->lock);
    struct okv_resp_script *script = find(cache, sha1);
    if (script)
        atomic_fetch_add(&script->references, 1);
    pthread_mutex_unlock(&cache->lock);
    return script;
}

struct okv_resp_script *okv_resp_script_insert(struct okv_resp_script_cache *cache,
                                               struct okv_resp_script *script)
{
    pthread_mutex_lock(&cache->lock);
    struct okv_resp_script *there = find(cache, script->sha1);
    if (there)
        atomic_fetch_add(&there->references, 1);
    else
        insert(cache, script);
    pthread_mutex_unlock(&cache->lock);
    if (there)
        okv_resp_script_drop(script);
    return there ? there : script;
}

/* Once for each tick of the clock. */
void okv_resp_script_use(struct okv_resp_script_cache *cache, struct okv_resp_script *script)
{
    uint64_t now = okv_clock_coarse_ns();

    if (atomic_load_explicit(&script->used_ns, memory_order_relaxed) == now)
        return;
    atomic_store_explicit(&script->used_ns, now, memory_order_relaxed);
    pthread_mutex_lock(&cache->lock);
    if (!atomic_load(&script->is_removed)) {
        TAILQ_REMOVE(&cache->by_use, script, by_use);
        TAILQ_INSERT_HEAD(&cache->by_use, script, by_use);
    }
    pthread_mutex_unlock(&cache->lock);
}

void okv_resp_script_count(struct okv_resp_script_cache *cache, unsigned *count, size_t *bytes)
{
    pthread_mutex_lock(&cache->lock);
    *count = cache->count;
    *bytes = cache->bytes;
    pthread_mutex_unlock(&cache->lock);
}

void okv_resp_script_flush(struct okv_resp_script_cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    for (unsigned i = 0; i < OKV_RESP_SCRIPT_SLOTS; i++)
        while (!LIST_EMPTY(&cache->slots[i]))
            remove_one(cache, LIST_FIRST(&cache->slots[i]));
    atomic_fetch_add(&cache->flushes, 1);
    pthread_mutex_unlock(&cache->lock);
}
