/* Linear hashing: against a model that splits one bucket at a time, and a reader who learns. */
#include "tests/support/test.h"

#include "shared/format/linear.h"
#include "tests/support/random.h"

/* ---- the model: hashes lie in buckets, and a split moves those that have the next bit ---- */

#define MODEL_BUCKETS 5000
#define MODEL_HASHES 20000

struct model {
    unsigned count, next; /* buckets; the next to split */
    unsigned level;       /* depth of those not yet split in this round */
    unsigned depth[MODEL_BUCKETS];
    uint64_t hash[MODEL_HASHES];
    unsigned bucket[MODEL_HASHES]; /* of each hash */
};

static void model_split(struct model *model)
{
    unsigned from = model->next, to = model->count;

    model->depth[to] = ++model->depth[from];
    for (unsigned i = 0; i < MODEL_HASHES; i++)
        if (model->bucket[i] == from && model->hash[i] >> (model->depth[from] - 1) & 1)
            model->bucket[i] = to;
    model->count++;
    if (++model->next == 1u << model->level) {
        model->next = 0;
        model->level++;
    }
}

TEST(buckets_and_depths_are_the_models)
{
    static struct model model = {.count = 1};
    uint64_t random = random_seed();

    for (unsigned i = 0; i < MODEL_HASHES; i++)
        model.hash[i] = random_next(&random);
    for (;;) {
        for (unsigned i = model.count % 16; i < MODEL_HASHES; i += 16)
            assert_int_equal(okv_linear_bucket(model.hash[i], model.count), model.bucket[i]);
        for (unsigned b = 0; b < model.count; b++)
            if (okv_linear_depth(b, model.count) != model.depth[b])
                fail_msg("bucket %u of %u", b, model.count);
        if (model.count == MODEL_BUCKETS)
            break;
        model_split(&model);
    }
}

/* What holds for any count: the bucket exists, and is the hash's at the depth it has. */
static void assert_bucket_holds(uint64_t hash, uint64_t count)
{
    uint64_t bucket = okv_linear_bucket(hash, count);
    unsigned depth = okv_linear_depth(bucket, count);

    assert_true(bucket < count);
    assert_true(depth <= OKV_DEPTH_MAX);
    assert_int_equal(okv_hash_bucket(hash, depth), bucket);
}

static uint64_t random_count(uint64_t *random)
{
    uint64_t count = random_next(random) % OKV_BUCKETS_MAX >> random_next(random) % OKV_DEPTH_MAX;

    return count + 1;
}

TEST(big_counts)
{
    uint64_t random = random_seed();

    for (unsigned bit = 0; bit <= OKV_DEPTH_MAX; bit++) {
        uint64_t power = UINT64_C(1) << bit;
        for (int i = 0; i < 1000; i++) {
            uint64_t hash = random_next(&random);
            assert_bucket_holds(hash, power);
            if (power > 1)
                assert_bucket_holds(hash, power - 1);
            if (power < OKV_BUCKETS_MAX)
                assert_bucket_holds(hash, power + 1);
        }
    }
    for (int i = 0; i < 1000000; i++)
        assert_bucket_holds(random_next(&random), random_count(&random));
    assert_int_equal(okv_linear_depth(OKV_BUCKETS_MAX - 1, OKV_BUCKETS_MAX), OKV_DEPTH_MAX);
    assert_int_equal(okv_linear_depth(0, 1), 0);
}

/* ---- a reader whose count is wrong ---- */

/* The depth in a bucket's image, in a table that has `count` buckets and had more: merged buckets
 * state the depth of the bucket that has their items. */
static unsigned stated_depth(uint64_t bucket, uint64_t count)
{
    return bucket < count ? okv_linear_depth(bucket, count) : okv_linear_level(bucket);
}

/* Looks a hash up as a client does, learning from each image; returns how many it took. */
static unsigned lookup(uint64_t hash, uint64_t count, uint64_t *thought)
{
    for (unsigned reads = 1;; reads++) {
        uint64_t bucket = okv_linear_bucket(hash, *thought);
        unsigned depth = stated_depth(bucket, count);
        uint64_t learned = okv_linear_learn(*thought, bucket, depth);

        assert_in_range(learned, 1, OKV_BUCKETS_MAX);
        /* nearer to the truth or as near, and on the same side of it */
        if (*thought <= count)
            assert_true(*thought <= learned && learned <= count);
        else
            assert_true(count <= learned && learned <= *thought);
        if (okv_hash_bucket(hash, depth) == bucket) {
            assert_int_equal(bucket, okv_linear_bucket(hash, count));
            assert_int_equal(learned, okv_linear_learn(learned, bucket, depth));
            *thought = learned;
            return reads;
        }
        assert_true(learned != *thought);
        *thought = learned;
    }
}

/*
 * A count that is too low is corrected in steps: to the level of the table, to the bucket at one
 * depth less than it has, to the bucket. A count that is too high leads to merged buckets, each of
 * which removes a bit of the bucket's number.
 */
static unsigned reads_allowed(uint64_t thought, uint64_t count)
{
    return thought <= count ? 4 : 2 + okv_linear_level(thought) - okv_linear_level(count);
}

TEST(a_reader_learns_the_count)
{
    uint64_t random = random_seed();

    for (uint64_t count = 1; count <= 200; count++) {
        for (uint64_t begin = 1; begin <= 300; begin++) {
            uint64_t thought = begin;
            for (int i = 0; i < 40; i++) {
                unsigned allowed = reads_allowed(thought, count);
                assert_true(lookup(random_next(&random), count, &thought) <= allowed);
            }
            /* By every hash: it leads all of them right, which only the count itself does. */
            for (uint64_t hash = 0; hash < 512; hash++)
                lookup(hash, count, &thought);
            assert_int_equal(thought, count);
        }
    }
}

TEST(a_reader_of_a_big_table_learns)
{
    uint64_t random = random_seed();

    for (int i = 0; i < 200000; i++) {
        uint64_t count = random_count(&random), thought = random_count(&random);
        for (int j = 0; j < 4; j++) {
            unsigned allowed = reads_allowed(thought, count);
            assert_true(lookup(random_next(&random), count, &thought) <= allowed);
        }
        /* the first and the last bucket of the round say it exactly */
        lookup(count - 1, count, &thought);
        lookup(count, count, &thought);
        assert_int_equal(thought, count);
    }
}

/* A count that grows and shrinks under the reader: it always finds the way again. */
TEST(a_reader_follows_growth_and_shrinking)
{
    uint64_t random = random_seed(), count = 64, thought = 64;

    for (int i = 0; i < 1000000; i++) {
        uint64_t step = random_next(&random) % 8;
        if (i / 5000 % 2)
            count = count > 64 + step ? count - step : 64;
        else
            count += step;
        lookup(random_next(&random), count, &thought);
    }
}

TEST(an_image_that_agrees_does_not_change_the_count)
{
    for (uint64_t count = 1; count <= 70; count++)
        for (uint64_t bucket = 0; bucket <= 140; bucket++)
            for (unsigned depth = 0; depth <= 9; depth++) {
                bool agrees = okv_linear_agrees(count, bucket, depth);
                assert_int_equal(agrees,
                                 bucket < count && depth == okv_linear_depth(bucket, count));
                if (agrees)
                    assert_int_equal(okv_linear_learn(count, bucket, depth), count);
            }
}

/* Contradicting images: the count stays a possible one. */
TEST(hostile_images_teach_no_nonsense)
{
    uint64_t random = random_seed(), thought = 1;
    const uint64_t counts[] = {0, 1, 2, 63, OKV_BUCKETS_MAX, OKV_BUCKETS_MAX + 1, UINT64_MAX};
    const uint64_t buckets[] = {0, 1, 2, 63, 64, OKV_BUCKETS_MAX - 1, OKV_BUCKETS_MAX, UINT64_MAX};

    for (unsigned depth = 0; depth <= OKV_DEPTH_MAX; depth++) {
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (size_t b = 0; b < sizeof buckets / sizeof *buckets; b++)
                assert_in_range(okv_linear_learn(counts[c], buckets[b], depth), 1, OKV_BUCKETS_MAX);
        for (int i = 0; i < 10000; i++) {
            uint64_t count = random_next(&random) >> random_next(&random) % 64;
            uint64_t bucket = random_next(&random) >> random_next(&random) % 64;
            assert_in_range(okv_linear_learn(count, bucket, depth), 1, OKV_BUCKETS_MAX);
        }
    }
    for (int i = 0; i < 1000000; i++) {
        uint64_t bucket = okv_linear_bucket(random_next(&random), thought);
        assert_true(bucket < thought);
        thought = okv_linear_learn(thought, bucket,
                                   (unsigned)(random_next(&random) % (OKV_DEPTH_MAX + 1)));
        assert_in_range(thought, 1, OKV_BUCKETS_MAX);
    }
}

TEST(segments)
{
    assert_true(okv_segment_buckets_valid(OKV_SEGMENT_BUCKETS_MIN));
    assert_true(okv_segment_buckets_valid(OKV_SEGMENT_BUCKETS_MAX));
    assert_false(okv_segment_buckets_valid(0));
    assert_false(okv_segment_buckets_valid(OKV_SEGMENT_BUCKETS_MIN / 2));
    assert_false(okv_segment_buckets_valid(OKV_SEGMENT_BUCKETS_MIN + 1));
    assert_false(okv_segment_buckets_valid(UINT64_C(2) * OKV_SEGMENT_BUCKETS_MAX));
    assert_false(okv_segment_buckets_valid((UINT64_C(1) << 32) + 64));
}
