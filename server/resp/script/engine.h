/*
 * The scripts of a worker: its machine, and what it has compiled of the cache. The worker's thread.
 */
#ifndef OKV_SERVER_RESP_SCRIPT_ENGINE_H
#define OKV_SERVER_RESP_SCRIPT_ENGINE_H

#include "server/lua/machine.h"
#include "server/resp/proto/buffer.h"
#include "server/resp/run/staging.h"
#include "server/resp/script/cache.h"
#include "server/resp/script/shebang.h"

struct okv_resp_compiled {
    struct okv_resp_script *script; /* with a reference; NULL: the slot is free */
    int function;                   /* in the registry of the machine */
    struct okv_resp_shebang shebang;
    bool is_slow; /* to compile: it goes before the next script */
};

#define OKV_RESP_COMPILED_SLOTS (2u * OKV_RESP_SCRIPT_SLOTS)
#define OKV_RESP_RECENT_SLOTS 256u

struct okv_resp_engine {
    struct okv_resp_script_cache *cache;
    struct okv_lua *lua;
    struct okv_resp_buffer reply; /* of the command that the script calls */
    struct okv_resp_staging staging;
    uint64_t log_next_ns;    /* redis.log() writes no line before */
    uint64_t lines_left_out; /* since its last one */
    unsigned cycles;         /* of the collector that are to run between scripts */
    uint64_t owed_bytes;     /* through which it is to work as well */
    unsigned flushes;        /* of the cache, that were followed */
    bool has_slow;           /* among those below */
    unsigned compiled_count;
    size_t compiled_bytes;                                      /* of their texts */
    struct okv_resp_compiled compiled[OKV_RESP_COMPILED_SLOTS]; /* by SHA-1, open addressing */
    /* Indexes of them + 1, by a hash of the text, which takes a fraction of SHA-1's time; 0: none.
     * What it leads to may be another script by now. */
    uint16_t recent[OKV_RESP_RECENT_SLOTS];
};

/* With a machine. NULL: there is no memory. */
struct okv_resp_engine *okv_resp_engine_create(struct okv_resp_script_cache *cache);
/* Accepts NULL. */
void okv_resp_engine_destroy(struct okv_resp_engine *engine);

/* After a run that began with `before` bytes of the machine in use: gives back memory that only a
 * long one needs, at once or by okv_resp_engine_collect(). */
void okv_resp_engine_shrink(struct okv_resp_engine *engine, uint64_t before);
/* After a run: what it cost beyond what it counted may be due to strings that were made to collide.
 * In proportion to that the collector is to work, or such strings of many runs would gather. */
void okv_resp_engine_note_cost(struct okv_resp_engine *engine, uint64_t counted, uint64_t cost);
/* Whether the collector is to work between scripts. */
bool okv_resp_engine_has_garbage(const struct okv_resp_engine *engine);
/* A step of it. */
void okv_resp_engine_collect(struct okv_resp_engine *engine);

/* Drops what a flush of the cache has removed; and what was slow to compile, as its strings may be
 * made to collide with those of other scripts, which look through all of them. Before the calls
 * below. */
void okv_resp_engine_follow(struct okv_resp_engine *engine);
/* What is compiled of this script; or NULL. */
struct okv_resp_compiled *okv_resp_engine_find(struct okv_resp_engine *engine,
                                               const uint8_t sha1[OKV_SHA1_SIZE]);
/* The same of a text, if it was noted. */
struct okv_resp_compiled *okv_resp_engine_find_text(struct okv_resp_engine *engine,
                                                    const void *text, size_t length);
void okv_resp_engine_note_text(struct okv_resp_engine *engine,
                               const struct okv_resp_compiled *compiled);
/* Keeps the function on the top of the machine's stack, which it removes, and the reference.
 * Within a run. */
struct okv_resp_compiled *okv_resp_engine_keep(struct okv_resp_engine *engine,
                                               struct okv_resp_script *script);

#endif
