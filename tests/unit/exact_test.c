/* Exact policies make the hits that their definitions say: of traces worked by hand, and as many as
 * references that do not care how long they take. */
#include "tests/support/test.h"
#include <okv.h>

#include "bench/load/workload.h"
#include "bench/replay/exact.h"

#define REQUESTS_MAX 400
#define KEYS_MAX 40

/* A trace of ids alone: no policy looks at keys and sizes. */
struct ids {
    struct trace trace;
    uint32_t requests[REQUESTS_MAX];
};

static void ids_init(struct ids *ids)
{
    ids->trace = (struct trace){.requests = ids->requests};
}

/* Ids are in the order in which they appear. */
static void ids_add(struct ids *ids, uint32_t id)
{
    ids->requests[ids->trace.count++] = id;
    if (id >= ids->trace.keys)
        ids->trace.keys = id + 1;
}

static struct exact_hits hits_of_trace(const struct ids *ids, uint32_t items)
{
    struct exact_hits hits;

    assert_int_equal(exact_count(&ids->trace, items, &hits), OKV_OK);
    return hits;
}

/* Of keys "a" to "z". */
static struct exact_hits hits_of(const char *text, uint32_t items)
{
    struct ids ids;

    ids_init(&ids);
    for (; *text; text++)
        ids_add(&ids, (uint32_t)(*text - 'a'));
    return hits_of_trace(&ids, items);
}

/* ---- by hand --------------------------------------------------------------- */

TEST(lru_evicts_what_was_asked_for_longest_ago)
{
    assert_int_equal(hits_of("a", 1).lru, 0);
    assert_int_equal(hits_of("aaaa", 1).lru, 3);
    assert_int_equal(hits_of("abcabc", 2).lru, 0);
    assert_int_equal(hits_of("abcabc", 3).lru, 3);
    assert_int_equal(hits_of("abaca", 2).lru, 2); /* c evicts b */
    assert_int_equal(hits_of("abacab", 2).lru, 2);
}

TEST(belady_keeps_what_is_asked_for_soonest)
{
    assert_int_equal(hits_of("aaaa", 1).belady, 3);
    assert_int_equal(hits_of("abcabc", 2).belady, 2); /* c is not stored */
    assert_int_equal(hits_of("abcabc", 1).belady, 1);
    assert_int_equal(hits_of("abbcba", 1).belady, 2);
    assert_int_equal(hits_of("abcdabcd", 3).belady, 3);
}

/* With room for 10 one item is new at a time; a, hit while new, outlives the others. */
TEST(s3_fifo_keeps_what_was_hit_while_new)
{
    assert_int_equal(hits_of("aabcdefghijklmnopqrsa", 10).s3_fifo, 2);
    assert_int_equal(hits_of("aabcdefghijklmnopqrsa", 10).lru, 1);
    /* b is evicted while new, remembered, and then outlives what came with it. */
    assert_int_equal(hits_of("abcdefghijklbmnopqrstuvwb", 10).s3_fifo, 1);
    assert_int_equal(hits_of("abcdefghijklbmnopqrstuvwb", 10).lru, 0);
}

TEST(what_fits_misses_once)
{
    struct exact_hits hits = hits_of("abcabcabcddd", 4);

    assert_int_equal(hits.lru, 8);
    assert_int_equal(hits.s3_fifo, 8);
    assert_int_equal(hits.belady, 8);
}

/* ---- beside references ------------------------------------------------------- */

static void ids_random(struct ids *ids, struct workload_random *random, size_t count, uint32_t keys)
{
    uint32_t seen = 0;

    ids_init(ids);
    for (size_t i = 0; i < count; i++) {
        /* Half of them among the first few, so that some are popular. */
        uint32_t among = workload_random_below(random, 2) ? keys : (keys + 3) / 4;
        uint32_t id = (uint32_t)workload_random_below(random, among);
        if (id >= seen)
            id = seen++;
        ids_add(ids, id);
    }
}

/* A hit: fewer than `items` other keys since the key was asked for. */
static uint64_t reference_lru(const struct ids *ids, uint32_t items)
{
    uint64_t hits = 0;

    for (size_t i = 0; i < ids->trace.count; i++) {
        bool between[KEYS_MAX] = {false};
        uint32_t others = 0;
        for (size_t j = i; j-- > 0;) {
            uint32_t id = ids->requests[j];
            if (id == ids->requests[i]) {
                hits += others < items;
                break;
            }
            others += !between[id];
            between[id] = true;
        }
    }
    return hits;
}

/* A queue; the oldest is the first. */
struct queue {
    uint32_t ids[REQUESTS_MAX];
    uint32_t count;
};

static void queue_push(struct queue *queue, uint32_t id)
{
    queue->ids[queue->count++] = id;
}

static uint32_t queue_pop(struct queue *queue)
{
    uint32_t id = queue->ids[0];

    memmove(queue->ids, queue->ids + 1, --queue->count * sizeof *queue->ids);
    return id;
}

/* Whether the id is among the last `last` of the queue. */
static bool queue_has(const struct queue *queue, uint32_t id, uint32_t last)
{
    for (uint32_t i = queue->count; i > 0 && i + last > queue->count; i--)
        if (queue->ids[i - 1] == id)
            return true;
    return false;
}

/* The ghosts are all evictions from the new ones, the latest of a key counts. */
struct reference {
    struct queue small, large, ghosts;
    uint32_t hits[KEYS_MAX];
};

static void reference_evict(struct reference *cache, uint32_t small_most)
{
    while (cache->small.count >= small_most || cache->large.count == 0) {
        uint32_t id = queue_pop(&cache->small);
        if (cache->hits[id] == 0) {
            queue_push(&cache->ghosts, id);
            return;
        }
        cache->hits[id] = 0;
        queue_push(&cache->large, id);
    }
    for (;;) {
        uint32_t id = queue_pop(&cache->large);
        if (cache->hits[id] == 0)
            return;
        cache->hits[id]--;
        queue_push(&cache->large, id);
    }
}

static uint64_t reference_s3_fifo(const struct ids *ids, uint32_t items)
{
    uint32_t small_most = items >= 10 ? items / 10 : 1;
    struct reference cache = {.hits = {0}};
    uint64_t hits = 0;

    for (size_t i = 0; i < ids->trace.count; i++) {
        uint32_t id = ids->requests[i];
        if (queue_has(&cache.small, id, UINT32_MAX / 2) ||
            queue_has(&cache.large, id, UINT32_MAX / 2)) {
            hits++;
            cache.hits[id] = cache.hits[id] < 3 ? cache.hits[id] + 1 : 3;
            continue;
        }
        bool remembered = queue_has(&cache.ghosts, id, items - small_most);
        if (cache.small.count + cache.large.count == items)
            reference_evict(&cache, small_most);
        cache.hits[id] = 0;
        if (remembered)
            for (uint32_t k = 0; k < cache.ghosts.count; k++)
                if (cache.ghosts.ids[k] == id)
                    cache.ghosts.ids[k] = UINT32_MAX; /* no ghost any more */
        queue_push(remembered ? &cache.large : &cache.small, id);
    }
    return hits;
}

/* The most hits from request `at` on, of all that a cache with the items of `held` can do. */
static uint64_t most_hits(const struct ids *ids, size_t at, uint64_t held, uint32_t items)
{
    if (at == ids->trace.count)
        return 0;
    uint64_t key = UINT64_C(1) << ids->requests[at];
    if (held & key)
        return 1 + most_hits(ids, at + 1, held, items);
    if ((uint32_t)__builtin_popcountll(held) < items)
        return most_hits(ids, at + 1, held | key, items);
    uint64_t most = most_hits(ids, at + 1, held, items);
    for (uint32_t id = 0; id < ids->trace.keys; id++) {
        uint64_t victim = UINT64_C(1) << id;
        uint64_t hits = held & victim ? most_hits(ids, at + 1, (held & ~victim) | key, items) : 0;
        most = hits > most ? hits : most;
    }
    return most;
}

static void assert_hits(const char *name, uint64_t hits, uint64_t wanted, uint32_t items)
{
    if (hits != wanted)
        fail_msg("%s with %u items: %llu hits and not %llu", name, items, (unsigned long long)hits,
                 (unsigned long long)wanted);
}

TEST(lru_and_s3_fifo_are_those_of_the_references)
{
    struct workload_random random = {.state = 1};
    struct ids ids;

    for (int i = 0; i < 200; i++) {
        ids_random(&ids, &random, REQUESTS_MAX, KEYS_MAX);
        uint32_t items = 1 + (uint32_t)workload_random_below(&random, KEYS_MAX + 2);
        struct exact_hits hits = hits_of_trace(&ids, items);
        assert_hits("LRU", hits.lru, reference_lru(&ids, items), items);
        assert_hits("S3-FIFO", hits.s3_fifo, reference_s3_fifo(&ids, items), items);
        assert_true(hits.belady >= hits.lru && hits.belady >= hits.s3_fifo);
        assert_true(hits.belady <= ids.trace.count - ids.trace.keys);
    }
}

TEST(belady_makes_as_many_hits_as_any_choice_can)
{
    struct workload_random random = {.state = 2};
    struct ids ids;

    for (int i = 0; i < 200; i++) {
        ids_random(&ids, &random, 12, 6);
        for (uint32_t items = 1; items <= 3; items++)
            assert_hits("Belady", hits_of_trace(&ids, items).belady, most_hits(&ids, 0, 0, items),
                        items);
    }
}
