#include "server/resp/script/engine.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "server/lua/sandbox.h"
#include "server/resp/script/api.h"
#include "shared/format/hash.h"

#define REPLY_KEPT (64u << 10) /* bytes of its buffer */
#define MUCH (UINT64_C(1) << 20)
/* Bytes of text. What is compiled takes some 15 times as much; beyond that it is compiled anew. */
#define COMPILED_BYTES (UINT64_C(1) << 20)
/* The one that is under way may have passed what has become garbage. */
#define CYCLES 2u
#define COLLECTED_KIB 64u /* at once */
/* Uncounted work, for which the collector works through all of the memory. */
#define ROUND_WORK UINT64_C(50000000)
/* Compiled scripts at which those that the cache has removed go, too. */
#define COMPILED_MAX (OKV_RESP_COMPILED_SLOTS / 2 + OKV_RESP_COMPILED_SLOTS / 4)

/* The list of free references exists from now on, so that luaL_unref() needs no memory: it is not
 * always called within a run. */
static void make_free_list(lua_State *L)
{
    lua_pushboolean(L, true);
    luaL_unref(L, LUA_REGISTRYINDEX, luaL_ref(L, LUA_REGISTRYINDEX));
}

static int add_api(lua_State *L)
{
    lua_newtable(L);
    okv_resp_script_add_api(L);
    okv_sandbox_add(L, "redis");
    make_free_list(L);
    return 0;
}

struct okv_resp_engine *okv_resp_engine_create(struct okv_resp_script_cache *cache)
{
    struct okv_resp_engine *engine = calloc(1, sizeof *engine);

    if (!engine)
        return NULL;
    engine->cache = cache;
    engine->lua = okv_lua_create(okv_sandbox_open);
    if (engine->lua && lua_cpcall(okv_lua_state(engine->lua), add_api, NULL) == 0)
        return engine;
    okv_resp_engine_destroy(engine);
    return NULL;
}

static void forget(struct okv_resp_engine *engine, struct okv_resp_compiled *compiled)
{
    luaL_unref(okv_lua_state(engine->lua), LUA_REGISTRYINDEX, compiled->function);
    engine->compiled_count--;
    engine->compiled_bytes -= compiled->script->length;
    okv_resp_script_drop(compiled->script);
    compiled->script = NULL;
}

void okv_resp_engine_destroy(struct okv_resp_engine *engine)
{
    if (!engine)
        return;
    for (unsigned i = 0; i < OKV_RESP_COMPILED_SLOTS; i++)
        if (engine->compiled[i].script)
            okv_resp_script_drop(engine->compiled[i].script);
    okv_lua_destroy(engine->lua);
    okv_resp_buffer_fini(&engine->reply);
    okv_resp_staging_fini(&engine->staging);
    free(engine);
}

void okv_resp_engine_shrink(struct okv_resp_engine *engine, uint64_t before)
{
    if (engine->reply.capacity > REPLY_KEPT)
        okv_resp_buffer_fini(&engine->reply);
    if (okv_lua_memory(engine->lua) > before + MUCH)
        engine->cycles = CYCLES;
}

void okv_resp_engine_note_cost(struct okv_resp_engine *engine, uint64_t counted, uint64_t cost)
{
    uint64_t work = cost > counted ? cost - counted : 0;

    if (work > ROUND_WORK)
        work = ROUND_WORK;
    engine->owed_bytes += okv_lua_memory(engine->lua) * work / ROUND_WORK;
}

void okv_resp_engine_collect(struct okv_resp_engine *engine)
{
    const unsigned owed = (unsigned)(engine->owed_bytes >> 10);

    engine->owed_bytes = 0;
    if (okv_lua_collect(engine->lua, owed > COLLECTED_KIB ? (int)owed : (int)COLLECTED_KIB) &&
        engine->cycles > 0)
        engine->cycles--;
}

bool okv_resp_engine_has_garbage(const struct okv_resp_engine *engine)
{
    return engine->cycles > 0 || engine->owed_bytes >= COLLECTED_KIB << 10;
}

/* Its slot, or the one that it gets. */
static struct okv_resp_compiled *slot_of(struct okv_resp_engine *engine,
                                         const uint8_t sha1[OKV_SHA1_SIZE])
{
    unsigned at = (sha1[0] | (unsigned)sha1[1] << 8) % OKV_RESP_COMPILED_SLOTS;

    while (engine->compiled[at].script &&
           memcmp(engine->compiled[at].script->sha1, sha1, OKV_SHA1_SIZE) != 0)
        at = (at + 1) % OKV_RESP_COMPILED_SLOTS;
    return &engine->compiled[at];
}

struct okv_resp_compiled *okv_resp_engine_find(struct okv_resp_engine *engine,
                                               const uint8_t sha1[OKV_SHA1_SIZE])
{
    struct okv_resp_compiled *compiled = slot_of(engine, sha1);

    return compiled->script &&
                   !atomic_load_explicit(&compiled->script->is_removed, memory_order_relaxed)
               ? compiled
               : NULL;
}

static uint16_t *recent_of(struct okv_resp_engine *engine, const void *text, size_t length)
{
    return &engine->recent[okv_hash_key(text, length, 0) % OKV_RESP_RECENT_SLOTS];
}

struct okv_resp_compiled *okv_resp_engine_find_text(struct okv_resp_engine *engine,
                                                    const void *text, size_t length)
{
    unsigned recent = *recent_of(engine, text, length);
    struct okv_resp_compiled *compiled = recent ? &engine->compiled[recent - 1] : NULL;

    return compiled && compiled->script && compiled->script->length == length &&
                   memcmp(compiled->script->text, text, length) == 0 &&
                   !atomic_load_explicit(&compiled->script->is_removed, memory_order_relaxed)
               ? compiled
               : NULL;
}

void okv_resp_engine_note_text(struct okv_resp_engine *engine,
                               const struct okv_resp_compiled *compiled)
{
    *recent_of(engine, compiled->script->text, compiled->script->length) =
        (uint16_t)(compiled - engine->compiled + 1);
}

/* The slots of those that stay change. */
static void drop_compiled(struct okv_resp_engine *engine, bool drops_all)
{
    struct okv_resp_compiled kept[OKV_RESP_COMPILED_SLOTS];
    unsigned count = 0;

    for (unsigned i = 0; i < OKV_RESP_COMPILED_SLOTS; i++) {
        struct okv_resp_compiled *compiled = &engine->compiled[i];
        if (!compiled->script)
            continue;
        if (drops_all || compiled->is_slow || atomic_load(&compiled->script->is_removed))
            forget(engine, compiled);
        else
            kept[count++] = *compiled;
    }
    memset(engine->compiled, 0, sizeof engine->compiled);
    for (unsigned i = 0; i < count; i++)
        *slot_of(engine, kept[i].script->sha1) = kept[i];
    engine->cycles = CYCLES;
    engine->has_slow = false;
}

void okv_resp_engine_follow(struct okv_resp_engine *engine)
{
    unsigned flushes = atomic_load_explicit(&engine->cache->flushes, memory_order_relaxed);

    if (engine->flushes == flushes && !engine->has_slow)
        return;
    engine->flushes = flushes;
    drop_compiled(engine, false);
}

struct okv_resp_compiled *okv_resp_engine_keep(struct okv_resp_engine *engine,
                                               struct okv_resp_script *script)
{
    int function = luaL_ref(okv_lua_state(engine->lua), LUA_REGISTRYINDEX);

    if (engine->compiled_count >= COMPILED_MAX)
        drop_compiled(engine, false);
    if (engine->compiled_bytes + script->length > COMPILED_BYTES)
        drop_compiled(engine, true);
    struct okv_resp_compiled *compiled = slot_of(engine, script->sha1);
    if (compiled->script)
        forget(engine, compiled); /* of the same text, which was removed and came again */
    *compiled = (struct okv_resp_compiled){
        .script = script, .function = function, .is_slow = okv_lua_compiled_slowly(engine->lua)};
    engine->has_slow = engine->has_slow || compiled->is_slow;
    engine->compiled_count++;
    engine->compiled_bytes += script->length;
    return compiled;
}
