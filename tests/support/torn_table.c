#include "tests/support/torn_table.h"

#include <sys/mman.h>

#include "tests/support/test.h"

#include "shared/base/error.h"

#define REGION_LENGTH (UINT64_C(16) << 20)
/* Bits that the hashes of a group share; no index of the region has a deeper bucket. */
#define COMMON_BITS 12
#define INDEX_PERCENT 5

/* A number, and another one that is chosen so that the hash ends in the bits of `like`. */
static uint64_t key_make(struct torn_table *table, unsigned id, unsigned bits, uint64_t like)
{
    uint8_t *key = table->keys[id];

    okv_put_u32(key, id);
    for (uint32_t choice = 0;; choice++) {
        okv_put_u32(key + 4, choice);
        uint64_t hash = okv_hash_key(key, TORN_KEY_SIZE, table->store.table.hash_seed);
        if (okv_hash_bucket(hash ^ like, bits) == 0)
            return hash;
    }
}

static void keys_make(struct torn_table *table)
{
    for (unsigned g = 0; g < TORN_GROUPS; g++) {
        unsigned id = g * TORN_KEYS_MAX;
        struct torn_group *group = &table->groups[g];
        /* a lock and a bucket for each; the first two splits of the bucket move them */
        group->hash = key_make(table, id, 8, 0xc0 | g * 17);
        for (unsigned key = 1; key < table->shape->keys; key++)
            key_make(table, id + key, COMMON_BITS, group->hash);
    }
    for (unsigned filler = 0; filler < table->shape->fillers; filler++)
        key_make(table, TORN_FIRST_FILLER + filler, 0, 0);
}

void torn_table_open(struct torn_table *table, const struct torn_shape *shape, uint64_t seed)
{
    *table = (struct torn_table){.shape = shape, .length = REGION_LENGTH};
    table->base =
        mmap(NULL, table->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(table->base, MAP_FAILED);
    const struct okv_store_params params = {
        .base = table->base,
        .length = table->length,
        .bucket_size = shape->bucket_size,
        .index_percent = INDEX_PERCENT,
        .max_value = TORN_VALUE_MAX,
        .boot_id = torn_mix(seed) | 1,
        .hash_seed = torn_mix(seed + 1),
    };
    assert_int_equal(okv_store_init(&table->store, &params), 0);
    assert_true(table->store.buckets_max < UINT64_C(1) << COMMON_BITS);
    keys_make(table);
}

void torn_table_close(struct torn_table *table)
{
    okv_store_fini(&table->store);
    munmap(table->base, table->length);
}

static uint64_t draw(unsigned id, uint64_t counter)
{
    return torn_mix((uint64_t)id << 48 ^ (counter + 1) * 0x9e3779b97f4a7c15);
}

static uint32_t value_length(const struct torn_shape *shape, unsigned id, uint64_t counter)
{
    uint64_t random = draw(id, counter);

    if (shape->large && random % shape->large == 0)
        return shape->bucket_size +
               (uint32_t)(random >> 32) % (TORN_VALUE_MAX - shape->bucket_size);
    return TORN_VALUE_MIN + (uint32_t)(random >> 32) % (shape->small_max - TORN_VALUE_MIN + 1);
}

uint32_t torn_value(const struct torn_shape *shape, unsigned id, uint64_t counter,
                    uint8_t value[TORN_VALUE_MAX])
{
    uint32_t length = value_length(shape, id, counter);
    uint64_t word = counter;

    for (uint32_t at = 0; at < length; at += 8) {
        uint8_t bytes[8];
        okv_put_u64(bytes, word);
        memcpy(value + at, bytes, length - at < 8 ? length - at : 8);
        word = draw(id, counter) * (at / 8 + 3);
    }
    return length;
}

bool torn_step_deletes(const struct torn_shape *shape, unsigned group, uint64_t step)
{
    return step % shape->keys != 0 && draw(TORN_IDS + group, step) % 8 == 0;
}

uint64_t torn_counter_after(const struct torn_shape *shape, unsigned group, uint64_t steps,
                            unsigned key)
{
    uint64_t back = (steps + shape->keys - key) % shape->keys;

    if (back >= steps) /* its first step is yet to come */
        return 0;
    return torn_step_deletes(shape, group, steps - back) ? 0 : steps - back;
}

bool torn_version_may_be(struct torn_table *table, unsigned group, uint64_t step, uint64_t version)
{
    struct torn_group *at = &table->groups[group];

    if (step > atomic_load(&at->done))
        return step <= atomic_load(&at->begun);
    uint64_t answered = atomic_load(&at->versions[step % TORN_VERSIONS]);
    bool forgotten = step + TORN_VERSIONS <= atomic_load(&at->begun);
    return forgotten || answered == version;
}

/* Puts or deletes a key; a key that is not there is deleted as well. */
static int change(struct torn_table *table, struct okv_store_work *work, unsigned id,
                  uint64_t counter, bool deletes, uint64_t *version)
{
    uint8_t value[TORN_VALUE_MAX];
    struct okv_store_write write = {.key = table->keys[id], .key_length = TORN_KEY_SIZE};
    struct okv_store_outcome outcome;
    int rc;

    if (deletes) {
        rc = okv_store_delete(&table->store, work, &write, &outcome);
    } else {
        write.value = value;
        write.value_length = torn_value(table->shape, id, counter, value);
        rc = okv_store_put(&table->store, work, &write, &outcome);
    }
    *version = outcome.version;
    return deletes && rc == OKV_ENOTFOUND ? 0 : rc;
}

int torn_step(struct torn_table *table, struct okv_store_work *work, unsigned group)
{
    struct torn_group *at = &table->groups[group];
    uint64_t step = atomic_load_explicit(&at->begun, memory_order_relaxed) + 1, version;
    unsigned id = group * TORN_KEYS_MAX + (unsigned)(step % table->shape->keys);

    atomic_store(&at->begun, step);
    int rc = change(table, work, id, step, torn_step_deletes(table->shape, group, step), &version);
    atomic_store(&at->versions[step % TORN_VERSIONS], version);
    if (!rc)
        atomic_store(&at->done, step);
    return rc;
}

int torn_fill(struct torn_table *table, struct okv_store_work *work, uint64_t *next)
{
    unsigned fillers = table->shape->fillers;
    uint64_t round = *next / fillers, version;
    unsigned id = TORN_FIRST_FILLER + (unsigned)(*next % fillers);

    ++*next;
    return change(table, work, id, round, round % 2, &version);
}
