/* okv_store_iterate(): every item that stays is met once, though buckets split and merge between
 * steps, and a step takes no more work than its limit. */
#include "tests/support/test.h"

#include "server/core/turn.h"
#include "server/store/iterate.h"
#include "shared/base/error.h"
#include "tests/support/store_region.h"

#define STAYING 600u /* items that are there from beginning to end */
#define COMING_MAX 6000u

static const struct okv_store_params params = {.length = 16u << 20, .bucket_size = 256};
/* Its index cannot grow, so that buckets have overflow pages. */
static const struct okv_store_params crowded = {
    .length = 2u << 20, .bucket_size = 256, .index_percent = 1};
static uint8_t bytes[4000];

struct walk {
    struct store_region region;
    struct okv_store_walk at;
    uint64_t limit; /* of a step; 0: none */
    unsigned met[STAYING], all, others;
    unsigned coming; /* items that were added */
};

/* All keys that begin so have the same hash. */
#define TWIN "twin"
#define TWINS 20u

uint64_t __real_okv_hash_key(const void *key, size_t length, uint64_t seed);
uint64_t __wrap_okv_hash_key(const void *key, size_t length, uint64_t seed);

uint64_t __wrap_okv_hash_key(const void *key, size_t length, uint64_t seed)
{
    size_t twin = strlen(TWIN);

    return __real_okv_hash_key(key, length > twin && memcmp(key, TWIN, twin) == 0 ? twin : length,
                               seed);
}

/* Some are inline, some in extents, some with their keys there, some empty. */
static uint32_t length_of(unsigned i)
{
    static const uint32_t lengths[] = {20, 0, 1000, 5, 3000};

    return lengths[i % 5];
}

/* Keys of a quarter are so long that they are in the extent, too. */
static uint32_t key_of(unsigned i, char key[OKV_KEY_MAX])
{
    int length = snprintf(key, OKV_KEY_MAX, "stay%u", i);

    if (i % 4)
        return (uint32_t)length;
    memset(key + length, 'k', 300);
    return (uint32_t)length + 300;
}

static void meet(void *user, const void *key, uint32_t key_length)
{
    struct walk *walk = user;
    walk->at.spent += key_length * walk->at.price;
    char text[OKV_KEY_MAX + 1], wanted[OKV_KEY_MAX];
    unsigned i;

    walk->all++;
    assert_in_range(key_length, 1, OKV_KEY_MAX);
    memcpy(text, key, key_length);
    text[key_length] = '\0';
    if (sscanf(text, "stay%u", &i) != 1) {
        walk->others++;
        return;
    }
    assert_true(i < STAYING);
    assert_int_equal(key_of(i, wanted), key_length);
    assert_memory_equal(key, wanted, key_length);
    walk->met[i]++;
}

static void begin(struct walk *walk, const struct okv_store_params *with)
{
    char key[OKV_KEY_MAX];

    memset(walk, 0, sizeof *walk);
    store_region_open(&walk->region, with);
    for (unsigned i = 0; i < STAYING; i++)
        assert_int_equal(
            store_region_put(&walk->region, key, key_of(i, key), bytes, length_of(i), NULL), 0);
}

static void end(struct walk *walk, unsigned least, unsigned most)
{
    struct store_audit audit;

    for (unsigned i = 0; i < STAYING; i++)
        assert_in_range(walk->met[i], least, most);
    store_region_audit(&walk->region, NULL, NULL, &audit);
    store_region_close(&walk->region);
}

/* Returns whether there is more. */
static bool step(struct walk *walk)
{
    struct okv_store_walk *at = &walk->at;
    uint64_t before = at->position;

    at->limit = walk->limit ? walk->limit : UINT64_MAX;
    at->spent = 0;
    at->is_first = true;
    assert_int_equal(okv_store_iterate(&walk->region.store, at, meet, walk), 0);
    assert_true(at->position == 0 || at->position > before);
    assert_true(at->position >> OKV_STORE_POSITION_BITS == 0);
    return at->position != 0;
}

static void add(struct walk *walk)
{
    char key[24];
    int length = snprintf(key, sizeof key, "come%u", walk->coming++);

    assert_int_equal(store_region_put(&walk->region, key, (uint32_t)length, bytes, 40, NULL), 0);
}

static void take(struct walk *walk)
{
    char key[24];
    int length = snprintf(key, sizeof key, "come%u", --walk->coming);

    assert_int_equal(store_region_delete(&walk->region, key, (uint32_t)length), 0);
}

static uint64_t splits(struct walk *walk)
{
    return atomic_load(&walk->region.store.totals.splits);
}

static uint64_t merges(struct walk *walk)
{
    return atomic_load(&walk->region.store.totals.merges);
}

/* ---- a quiet table ---- */

TEST(an_empty_table_has_nothing_and_an_end)
{
    static struct walk walk;
    unsigned steps = 1;

    memset(&walk, 0, sizeof walk);
    store_region_open(&walk.region, &params);
    while (step(&walk))
        steps++;
    assert_int_equal(walk.all, 0);
    assert_int_equal(steps, OKV_STORE_BUCKETS_MIN);
    store_region_close(&walk.region);
}

TEST(each_item_is_met_once)
{
    static struct walk walk;
    struct store_audit audit;
    unsigned steps = 1;

    begin(&walk, &crowded);
    store_region_audit(&walk.region, NULL, NULL, &audit);
    assert_true(audit.overflow_pages > 0 && audit.references > 0); /* of all kinds */
    while (step(&walk))
        steps++;
    assert_int_equal(steps, atomic_load(&walk.region.store.bucket_count));
    assert_int_equal(walk.all, STAYING);
    end(&walk, 1, 1);
}

TEST(any_position_goes_on_to_the_end)
{
    static struct walk walk;
    struct store_random random;

    begin(&walk, &crowded);
    store_random_init(&random);
    for (unsigned i = 0; i < 50; i++) {
        walk.at.position = (i ? store_random_next(&random) : UINT64_MAX) >> 16;
        unsigned steps = 1;
        while (step(&walk))
            steps++;
        assert_true(steps <= atomic_load(&walk.region.store.bucket_count));
    }
    walk.at.position = 0;
    while (step(&walk))
        ;
    end(&walk, 1, 51);
}

TEST(expired_items_are_not_met)
{
    static struct walk walk;
    struct okv_store_outcome outcome;
    const struct okv_store_write write = {
        .key = "come", .key_length = 4, .value = bytes, .value_length = 9, .ttl_ms = 5};

    begin(&walk, &params);
    assert_int_equal(okv_store_put(&walk.region.store, &walk.region.work, &write, &outcome), 0);
    while (step(&walk))
        ;
    assert_int_equal(walk.others, 1);
    okv_store_set_clock(&walk.region.store, 100, true);
    while (step(&walk))
        ;
    assert_int_equal(walk.others, 1);
    end(&walk, 2, 2);
}

/* ---- work ---- */

/* Each step visits one key, with the limit of what it takes to look at the bucket. */
TEST(a_step_may_end_at_any_key)
{
    static struct walk walk;
    unsigned steps = 1;

    begin(&walk, &crowded);
    walk.limit = 1;
    while (step(&walk))
        steps++;
    assert_in_range(steps, STAYING, STAYING + atomic_load(&walk.region.store.bucket_count));
    end(&walk, 1, 1);
}

/* Beside the first bucket, which has no limit. */
TEST(no_step_takes_more_than_its_limit)
{
    static struct walk walk;
    struct okv_store_walk *at = &walk.at;
    uint64_t longest = 0;
    unsigned refused = 0;

    begin(&walk, &crowded);
    at->price = 20;
    at->limit = 40000;
    do {
        int rc = okv_store_iterate(&walk.region.store, at, meet, &walk);
        assert_true(at->spent <= at->limit);
        longest = at->spent > longest ? at->spent : longest;
        refused += rc == OKV_EAGAIN;
        assert_true(rc == 0 || (rc == OKV_EAGAIN && at->spent > 0));
        if (rc)
            at->spent = 0; /* another step */
    } while (at->position);
    assert_true(refused > 0 && longest > at->limit / 2);
    end(&walk, 1, 1);
}

/* Keys of the same hash, of which none can be passed by. */
TEST(keys_of_one_position_are_met_together)
{
    static struct walk walk;
    char key[24];

    begin(&walk, &params);
    for (unsigned i = 0; i < TWINS; i++) {
        int length = snprintf(key, sizeof key, TWIN "%u", i);
        assert_int_equal(store_region_put(&walk.region, key, (uint32_t)length, bytes, 40, NULL), 0);
    }
    walk.limit = 1;
    bool has_more = true;
    while (has_more) {
        unsigned before = walk.others;
        has_more = step(&walk);
        assert_true(walk.others == before || walk.others == before + TWINS);
    }
    assert_int_equal(walk.others, TWINS);
    end(&walk, 1, 1);
}

/* ---- while it changes ---- */

TEST(nothing_is_missed_while_buckets_split)
{
    static struct walk walk;

    begin(&walk, &params);
    uint64_t before = splits(&walk);
    while (step(&walk))
        for (unsigned i = 0; i < 10 && walk.coming < COMING_MAX; i++)
            add(&walk);
    print_message("%u splits\n", (unsigned)(splits(&walk) - before));
    assert_true(splits(&walk) - before > 500);
    end(&walk, 1, 1);
}

TEST(nothing_is_missed_while_buckets_merge)
{
    static struct walk walk;

    begin(&walk, &params);
    while (walk.coming < COMING_MAX)
        add(&walk);
    uint64_t before = merges(&walk);
    while (step(&walk))
        for (unsigned i = 0; i < 10 && walk.coming > 0; i++)
            take(&walk);
    print_message("%u merges\n", (unsigned)(merges(&walk) - before));
    assert_true(merges(&walk) - before > 500);
    end(&walk, 1, 1);
}

/* Now this, now that, at random, and from walk to walk at other places. */
TEST(nothing_is_missed_while_both_happen)
{
    static struct walk walk;
    struct store_random random;

    begin(&walk, &params);
    store_random_init(&random);
    for (unsigned round = 0; round < 20 / STORE_TEST_SLOWNESS + 1; round++) {
        bool grows = true;
        memset(walk.met, 0, sizeof walk.met);
        while (step(&walk)) {
            if (store_random_below(&random, 40) == 0)
                grows = !grows;
            for (unsigned i = store_random_below(&random, 200); i > 0; i--) {
                if (grows && walk.coming < COMING_MAX)
                    add(&walk);
                else if (!grows && walk.coming > 0)
                    take(&walk);
            }
        }
        for (unsigned i = 0; i < STAYING; i++)
            assert_int_equal(walk.met[i], 1);
        walk.limit = round % 2 ? 0 : 3000; /* a bucket, or a part of one */
    }
    print_message("%u splits, %u merges\n", (unsigned)splits(&walk), (unsigned)merges(&walk));
    assert_true(splits(&walk) > 1000 && merges(&walk) > 1000);
    end(&walk, 1, 1);
}

int main(void)
{
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 11 + 5);
    return test_run();
}
