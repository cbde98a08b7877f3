#include "server/resp/script/cache.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"

struct okv_resp_script_cache *okv_resp_script_cache_create(void)
{
    struct okv_resp_script_cache *cache = calloc(1, sizeof *cache);

    if (cache)
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
    cache->count--;
    cache->bytes -= script->length;
    atomic_store(&script->is_removed, true);
    okv_resp_script_drop(script);
}

static void remove_oldest(struct okv_resp_script_cache *cache)
{
    struct okv_resp_script *script, *oldest = NULL;

    for (unsigned i = 0; i < OKV_RESP_SCRIPT_SLOTS; i++)
        LIST_FOREACH(script, &cache->slots[i], in_slot)
    if (!oldest || atomic_load(&script->used_ns) < atomic_load(&oldest->used_ns))
        oldest = script;
    remove_one(cache, oldest);
}

static void insert(struct okv_resp_script_cache *cache, struct okv_resp_script *script)
{
    while (cache->count >= OKV_RESP_SCRIPTS_MAX ||
           cache->bytes + script->length > OKV_RESP_SCRIPTS_BYTES)
        remove_oldest(cache);
    LIST_INSERT_HEAD(slot_of(cache, script->sha1), script, in_slot);
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

static struct okv_resp_script *create(const uint8_t sha1[OKV_SHA1_SIZE], const char *text,
                                      size_t length)
{
    struct okv_resp_script *script =
        length <= OKV_RESP_SCRIPTS_BYTES ? calloc(1, sizeof *script + length) : NULL;

    if (!script)
        return NULL;
    memcpy(script->sha1, sha1, OKV_SHA1_SIZE);
    okv_sha1_text(sha1, script->name);
    atomic_init(&script->references, 1);
    atomic_init(&script->used_ns, okv_clock_coarse_ns());
    script->length = length;
    memcpy(script->text, text, length);
    return script;
}

struct okv_resp_script *okv_resp_script_add(struct okv_resp_script_cache *cache, const char *text,
                                            size_t length)
{
    uint8_t sha1[OKV_SHA1_SIZE];
    struct okv_resp_script *script;

    okv_sha1(text, length, sha1);
    pthread_mutex_lock(&cache->lock);
    script = find(cache, sha1);
    if (!script && (script = create(sha1, text, length)))
        insert(cache, script);
    if (script)
        atomic_fetch_add(&script->references, 1);
    pthread_mutex_unlock(&cache->lock);
    return script;
}

void okv_resp_script_count(struct okv_resp_script_cache *cache, unsigned *count, size_t *bytes)
{
    pthread_mutex_lock(&cache->lock);
    *count = cache->count;
    *bytes = cache->bytes;
    pthread_mutex_unlock(&cache->lock);
}

void okv_resp_script_remove(struct okv_resp_script_cache *cache, struct okv_resp_script *script)
{
    pthread_mutex_lock(&cache->lock);
    if (!atomic_load(&script->is_removed))
        remove_one(cache, script);
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
