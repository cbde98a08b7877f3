#include "bench/replay/exact.h"

#include <okv.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

/* ---- lists of ids -------------------------------------------------------- */

/* Two lists, an id in one of them or in none. The ends of list n are those of the element
 * `keys` + n. */
enum { LIST_MAIN, LIST_NEW, LISTS };

struct lists {
    uint32_t keys;
    uint32_t *next; /* NONE: in no list */
    uint32_t *before;
};

static int lists_init(struct lists *lists, uint32_t keys)
{
    size_t bytes = ((size_t)keys + LISTS) * sizeof *lists->next;

    lists->keys = keys;
    lists->next = malloc(bytes);
    lists->before = malloc(bytes);
    if (!lists->next || !lists->before)
        return OKV_ENOMEM;
    memset(lists->next, 0xff, bytes);
    for (uint32_t list = 0; list < LISTS; list++)
        lists->next[keys + list] = lists->before[keys + list] = keys + list;
    return OKV_OK;
}

static void lists_fini(struct lists *lists)
{
    free(lists->next);
    free(lists->before);
}

static bool lists_have(const struct lists *lists, uint32_t id)
{
    return lists->next[id] != NONE;
}

static bool lists_empty(const struct lists *lists, uint32_t list)
{
    return lists->next[lists->keys + list] == lists->keys + list;
}

static uint32_t lists_last(const struct lists *lists, uint32_t list)
{
    return lists->before[lists->keys + list];
}

static void lists_push(struct lists *lists, uint32_t list, uint32_t id)
{
    uint32_t end = lists->keys + list, first = lists->next[end];

    lists->next[id] = first;
    lists->before[id] = end;
    lists->before[first] = id;
    lists->next[end] = id;
}

static void lists_remove(struct lists *lists, uint32_t id)
{
    lists->next[lists->before[id]] = lists->next[id];
    lists->before[lists->next[id]] = lists->before[id];
    lists->next[id] = NONE;
}

/* ---- LRU ----------------------------------------------------------------- */

static int count_lru(const struct trace *trace, uint32_t items, uint64_t *hits)
{
    struct lists lists = {0};
    uint32_t held = 0;
    int rc = lists_init(&lists, trace->keys);

    *hits = 0;
    for (size_t i = 0; rc == OKV_OK && i < trace->count; i++) {
        uint32_t id = trace->requests[i];
        if (lists_have(&lists, id)) {
            ++*hits;
            lists_remove(&lists, id);
        } else if (held < items) {
            held++;
        } else {
            lists_remove(&lists, lists_last(&lists, LIST_MAIN));
        }
        lists_push(&lists, LIST_MAIN, id);
    }
    lists_fini(&lists);
    return rc;
}

/* ---- S3-FIFO ------------------------------------------------------------- */

#define HITS_MAX 3

struct s3_fifo {
    struct lists lists;
    uint8_t *hits;     /* of each id, up to HITS_MAX */
    uint32_t *evicted; /* of each id: the number of its eviction from the new ones, 0: none */
    uint32_t items, new_items, new_most, held;
    uint32_t evictions; /* from the new ones */
};

static int s3_fifo_init(struct s3_fifo *cache, uint32_t keys, uint32_t items)
{
    *cache = (struct s3_fifo){.items = items, .new_most = items >= 10 ? items / 10 : 1};
    cache->hits = calloc(keys, sizeof *cache->hits);
    cache->evicted = calloc(keys, sizeof *cache->evicted);
    int rc = lists_init(&cache->lists, keys);
    return cache->hits && cache->evicted ? rc : OKV_ENOMEM;
}

static void s3_fifo_fini(struct s3_fifo *cache)
{
    lists_fini(&cache->lists);
    free(cache->evicted);
    free(cache->hits);
}

/* The oldest new one goes, or to the others if it was hit. */
static void evict_new(struct s3_fifo *cache)
{
    uint32_t id = lists_last(&cache->lists, LIST_NEW);

    lists_remove(&cache->lists, id);
    cache->new_items--;
    if (cache->hits[id] > 0) {
        cache->hits[id] = 0;
        lists_push(&cache->lists, LIST_MAIN, id);
    } else {
        cache->held--;
        cache->evicted[id] = ++cache->evictions;
    }
}

/* The oldest of the others goes, or once more round for each of its hits. */
static void evict_main(struct s3_fifo *cache)
{
    uint32_t id = lists_last(&cache->lists, LIST_MAIN);

    lists_remove(&cache->lists, id);
    if (cache->hits[id] > 0) {
        cache->hits[id]--;
        lists_push(&cache->lists, LIST_MAIN, id);
    } else {
        cache->held--;
    }
}

/* Whether the id was evicted while new, and not long ago: as many as there are others are
 * remembered. */
static bool is_remembered(const struct s3_fifo *cache, uint32_t id)
{
    return cache->evicted[id] > 0 &&
           cache->evictions - cache->evicted[id] < cache->items - cache->new_most;
}

static void s3_fifo_store(struct s3_fifo *cache, uint32_t id)
{
    bool remembered = is_remembered(cache, id);

    while (cache->held == cache->items) {
        if (cache->new_items >= cache->new_most || lists_empty(&cache->lists, LIST_MAIN))
            evict_new(cache);
        else
            evict_main(cache);
    }
    cache->held++;
    cache->hits[id] = 0;
    cache->evicted[id] = 0;
    cache->new_items += !remembered;
    lists_push(&cache->lists, remembered ? LIST_MAIN : LIST_NEW, id);
}

static int count_s3_fifo(const struct trace *trace, uint32_t items, uint64_t *hits)
{
    struct s3_fifo cache;
    int rc = s3_fifo_init(&cache, trace->keys, items);

    *hits = 0;
    for (size_t i = 0; rc == OKV_OK && i < trace->count; i++) {
        uint32_t id = trace->requests[i];
        if (!lists_have(&cache.lists, id)) {
            s3_fifo_store(&cache, id);
            continue;
        }
        ++*hits;
        cache.hits[id] += cache.hits[id] < HITS_MAX;
    }
    s3_fifo_fini(&cache);
    return rc;
}

/* ---- Belady -------------------------------------------------------------- */

/*
 * A set of places in the trace, whose largest is found in a few steps: a bit for each, and above
 * each 64 bits of a level one bit that says whether any is set.
 */
#define LEVELS 6

struct places {
    uint64_t *words[LEVELS]; /* the last level has one word */
    unsigned levels;
};

static int places_init(struct places *places, size_t count)
{
    *places = (struct places){.levels = 0};
    do {
        count = (count + 63) / 64;
        uint64_t *words = calloc(count, sizeof *words);
        if (!words)
            return OKV_ENOMEM;
        places->words[places->levels++] = words;
    } while (count > 1);
    return OKV_OK;
}

static void places_fini(struct places *places)
{
    for (unsigned level = 0; level < places->levels; level++)
        free(places->words[level]);
}

static bool places_have(const struct places *places, uint32_t place)
{
    return places->words[0][place / 64] >> place % 64 & 1;
}

static void places_add(struct places *places, uint32_t place)
{
    for (unsigned level = 0; level < places->levels; level++, place /= 64)
        places->words[level][place / 64] |= UINT64_C(1) << place % 64;
}

static void places_remove(struct places *places, uint32_t place)
{
    for (unsigned level = 0; level < places->levels; level++, place /= 64) {
        places->words[level][place / 64] &= ~(UINT64_C(1) << place % 64);
        if (places->words[level][place / 64] != 0)
            return;
    }
}

/* Of a set that is not empty. */
static uint32_t places_last(const struct places *places)
{
    uint32_t place = 0;

    for (unsigned level = places->levels; level-- > 0;)
        place = place * 64 + 63 - (uint32_t)__builtin_clzll(places->words[level][place]);
    return place;
}

/* Where each request's key is asked for next; NONE: never. NULL: no memory. */
static uint32_t *find_next(const struct trace *trace)
{
    uint32_t *next = malloc(trace->count * sizeof *next);
    uint32_t *seen = malloc(trace->keys * sizeof *seen);

    if (next && seen) {
        memset(seen, 0xff, trace->keys * sizeof *seen);
        for (size_t i = trace->count; i-- > 0;) {
            next[i] = seen[trace->requests[i]];
            seen[trace->requests[i]] = (uint32_t)i;
        }
    } else {
        free(next);
        next = NULL;
    }
    free(seen);
    return next;
}

/* The cache is the set of the places where its items are asked for next: a request is a hit if its
 * own place is in it, and what is asked for last is evicted, or not stored at all. */
static void run_belady(const uint32_t *next, size_t count, uint32_t items, struct places *cache,
                       uint64_t *hits)
{
    uint32_t held = 0;

    for (size_t i = 0; i < count; i++) {
        if (places_have(cache, (uint32_t)i)) {
            ++*hits;
            held--;
            places_remove(cache, (uint32_t)i);
        }
        if (next[i] == NONE)
            continue;
        if (held < items) {
            held++;
        } else if (places_last(cache) > next[i]) {
            places_remove(cache, places_last(cache));
        } else {
            continue;
        }
        places_add(cache, next[i]);
    }
}

static int count_belady(const struct trace *trace, uint32_t items, uint64_t *hits)
{
    struct places cache;
    int rc = places_init(&cache, trace->count);
    uint32_t *next = rc == OKV_OK ? find_next(trace) : NULL;

    *hits = 0;
    if (next)
        run_belady(next, trace->count, items, &cache, hits);
    free(next);
    places_fini(&cache);
    return next ? OKV_OK : OKV_ENOMEM;
}

int exact_count(const struct trace *trace, uint32_t items, struct exact_hits *hits)
{
    int rc = count_lru(trace, items, &hits->lru);

    if (rc == OKV_OK)
        rc = count_s3_fifo(trace, items, &hits->s3_fifo);
    if (rc == OKV_OK)
        rc = count_belady(trace, items, &hits->belady);
    return rc;
}
