/* How a get locates its bucket, over a stub transport: in an index that has grown, shrunk or moved
 * since the last READ, and in a corrupt one. */
#include "tests/support/test.h"

#include "tests/support/stub_client.h"

#define ATTEMPTS 16 /* READs of buckets before the server is asked */
#define MOVED (STUB_HEAP + 65536)

static char key[16];
static struct okv_counters counted;

/* Opens a handle that believes in `buckets`; `key` is of `bucket` at `depth`. */
static void open_believing(uint64_t buckets, uint64_t bucket, unsigned depth)
{
    stub.welcome.bucket_count = buckets;
    handle = stub_open(4, 4, 5000);
    stub_key(key, bucket, depth, 0);
}

static int get_key(void)
{
    int rc = okv_get(handle, key, strlen(key), buffer[0], sizeof buffer[0], &length, NULL);

    okv_counters(handle, &counted);
    assert_int_equal(stub.reads_outside, 0);
    return rc;
}

static void assert_found(const char *value)
{
    assert_int_equal(get_key(), OKV_OK);
    assert_int_equal(length, strlen(value));
    assert_memory_equal(buffer[0], value, length);
}

static uint64_t buckets_known(void)
{
    struct okv_info info;

    okv_info(handle, &info);
    return info.buckets;
}

static void write_item(uint64_t bucket, unsigned depth, const char *value)
{
    struct okv_entry entry = stub_inline(key, value);

    stub_bucket(bucket, depth, &entry, 1);
}

/* Writes an image of a bucket at an unusual offset. */
static void write_at(uint64_t offset, uint64_t bucket, unsigned depth, const char *value)
{
    struct okv_entry entry = stub_inline(key, value);
    struct stub_image image = {
        .offset = offset, .bucket = bucket, .version = STUB_VERSION, .depth = depth};

    stub_write(&image, &entry, 1);
}

/* ---- grown and shrunk ---- */

#define PLACE_TEST(name) TEST_WITH(name, client_setup, client_teardown)

PLACE_TEST(grown_index_is_learnt)
{
    open_believing(STUB_BUCKETS, 5, 3); /* there are six: 0, 1, 4 and 5 have depth 3 */
    stub_bucket(1, 3, NULL, 0);
    write_item(5, 3, "grown");
    assert_found("grown");
    assert_int_equal(counted.bucket_reads, 2);
    assert_int_equal(counted.wrong_depths, 1);
    assert_int_equal(buckets_known(), 6);
    assert_found("grown");
    assert_int_equal(counted.bucket_reads, 3);
    assert_int_equal(counted.wrong_depths, 1);
}

/* From one bucket to 2^5: each image leads at least one level on. */
PLACE_TEST(much_grown_index_is_learnt)
{
    open_believing(1, 21, 5);
    for (uint64_t bucket = 0; bucket < 32; bucket++)
        stub_bucket(bucket, 5, NULL, 0);
    write_item(21, 5, "deep");
    assert_found("deep"); /* 0 proves that there are 17, 5 that there are 22 */
    assert_int_equal(counted.bucket_reads, 3);
    assert_int_equal(buckets_known(), 22);

    stub_bucket(0, 1, NULL, 0);
    stub_bucket(1, 3, NULL, 0);
    stub_bucket(5, 5, NULL, 0);
    stub_close(&handle);
    open_believing(1, 21, 5);
    stub_bucket(0, 1, NULL, 0);
    assert_found("deep"); /* 0, 1, 5, 21, as if it had grown between the READs */
    assert_int_equal(counted.bucket_reads, 4);
    assert_int_equal(counted.wrong_depths, 3);
    assert_int_equal(counted.fallbacks, 0);
}

/* The depth of bucket 0 alone would name bucket 5, which is not there. */
PLACE_TEST(depth_of_another_bucket_does_not_set_the_count)
{
    open_believing(1, 5, 3);
    stub_bucket(0, 3, NULL, 0);
    write_item(1, 2, "unsplit"); /* there are five: 4 was split from 0 */
    assert_found("unsplit");
    assert_int_equal(counted.bucket_reads, 2);
    assert_int_equal(counted.torn_buckets, 0);
    assert_int_equal(buckets_known(), 5);
}

PLACE_TEST(freed_bucket_leads_to_its_parent)
{
    open_believing(8, 6, 3); /* there are six: the last one that went is 6 */
    stub_bucket(6, 2, NULL, 0);
    write_item(2, 2, "merged");
    assert_found("merged");
    assert_int_equal(counted.bucket_reads, 2);
    assert_int_equal(counted.wrong_depths, 1);
    assert_int_equal(buckets_known(), 6);
    assert_found("merged");
    assert_int_equal(counted.bucket_reads, 3);
}

/* The key's bucket is freed, and its bytes are no image. */
PLACE_TEST(garbage_at_a_freed_bucket)
{
    stub_status(STUB_CLOCK + 1, 4);
    open_believing(8, 6, 3);
    write_item(2, 2, "merged");
    assert_found("merged"); /* twice, then with the directory's entry, then as the status says */
    assert_int_equal(counted.bucket_reads, 4);
    assert_int_equal(counted.torn_buckets, 3);
    assert_int_equal(counted.directory_reads, 1);
    assert_int_equal(counted.status_reads, 1);
    assert_int_equal(buckets_known(), 4);
    assert_found("merged");
    assert_int_equal(counted.bucket_reads, 5);
    assert_int_equal(counted.fallbacks, 0);
}

PLACE_TEST(status_gives_the_count_at_once)
{
    stub_status(STUB_CLOCK + 1, 4);
    open_believing(64, 45, 6);
    write_item(1, 2, "merged");
    assert_found("merged"); /* 45 three times, 1 */
    assert_int_equal(counted.bucket_reads, 4);
}

/* Neither does the status say how many there are: from parent to parent. */
PLACE_TEST(garbage_in_every_parent)
{
    stub.region[OKV_STATUS_OFFSET] ^= 1;
    open_believing(64, 45, 6);
    write_item(1, 2, "merged");
    assert_found("merged"); /* 45 three times, 13 and 5 twice each, 1 */
    assert_int_equal(counted.torn_buckets, 7);
    assert_int_equal(counted.bucket_reads, 8);
    assert_int_equal(counted.fallbacks, 0);
    assert_true(buckets_known() <= 5);
    assert_found("merged");
    assert_int_equal(counted.bucket_reads, 9);
}

/* ---- the directory ---- */

PLACE_TEST(unknown_segment_is_read_from_the_directory)
{
    open_believing(80, 70, 7);
    stub_segment(1, STUB_SEGMENT_1);
    write_item(70, 7, "far");
    assert_found("far");
    assert_int_equal(counted.bucket_reads, 1);
    assert_int_equal(counted.directory_reads, 1);
    assert_found("far");
    assert_int_equal(counted.directory_reads, 1);
}

PLACE_TEST(missing_segment_means_a_smaller_index)
{
    open_believing(80, 70, 7);
    write_item(6, 6, "near");
    assert_found("near");
    assert_int_equal(counted.bucket_reads, 1);
    assert_int_equal(counted.directory_reads, 1);
    assert_int_equal(buckets_known(), 70);
    assert_found("near");
    assert_int_equal(counted.directory_reads, 1);
}

PLACE_TEST(moved_segment_is_found_again)
{
    stub_segment(1, STUB_SEGMENT_1);
    open_believing(80, 70, 7);
    stub_segment(1, MOVED);
    write_at(MOVED + 6 * STUB_BUCKET_SIZE, 70, 7, "moved");
    assert_found("moved");
    assert_int_equal(counted.torn_buckets, 2);
    assert_int_equal(counted.bucket_reads, 3);
    assert_int_equal(counted.directory_reads, 1);
    assert_found("moved");
    assert_int_equal(counted.bucket_reads, 4);
}

/* The last image of a bucket that was given up is still at its old place, while the index
 * has grown again and the bucket is elsewhere. */
PLACE_TEST(stale_offset_of_a_bucket_that_came_back)
{
    stub_segment(1, STUB_SEGMENT_1);
    open_believing(80, 70, 7);
    stub_bucket(70, 6, NULL, 0);
    stub_segment(1, MOVED);
    stub_bucket(6, 7, NULL, 0);
    write_at(MOVED + 6 * STUB_BUCKET_SIZE, 70, 7, "back");
    assert_found("back");
    assert_int_equal(counted.fallbacks, 0);
    assert_int_equal(counted.torn_buckets, 0);
    uint64_t reads = counted.bucket_reads;
    assert_found("back");
    assert_int_equal(counted.bucket_reads, reads + 1);
}

/* ---- what makes no sense ---- */

static void expect_the_server_is_asked(void)
{
    uint64_t reads = stub.reads;

    assert_found("answer");
    assert_true(stub.reads - reads <= 3 * ATTEMPTS);
    assert_int_equal(counted.fallbacks, 1);
    assert_string_equal(okv_why(handle), "");
}

PLACE_TEST(depths_back_and_forth_are_bounded)
{
    open_believing(STUB_BUCKETS, 3, 2);
    stub_bucket(3, 1, NULL, 0);
    stub_bucket(1, 2, NULL, 0);
    expect_the_server_is_asked();
    assert_int_equal(counted.wrong_depths, ATTEMPTS);
}

PLACE_TEST(directory_that_leads_out_of_the_region)
{
    static const uint64_t offsets[] = {0, 1u << 30, STUB_REGION - STUB_SEGMENT_SIZE + 1,
                                       UINT64_MAX - STUB_SEGMENT_SIZE, UINT64_MAX};

    for (unsigned i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        client_setup(state);
        stub_segment(0, offsets[i]);
        open_believing(STUB_BUCKETS, 3, 2);
        expect_the_server_is_asked();
        assert_int_equal(counted.bucket_reads, 0);
        stub_close(&handle);
    }
}

/* Counts and depths beyond what the directory can hold. */
PLACE_TEST(bucket_that_no_segment_can_have)
{
    static const uint64_t counts[] = {OKV_BUCKETS_MAX, OKV_BUCKETS_MAX - 1,
                                      (uint64_t)OKV_DIRECTORY_ENTRIES * STUB_SEGMENT_BUCKETS + 1};

    for (unsigned i = 0; i < 3; i++) {
        client_setup(state);
        stub.region[OKV_STATUS_OFFSET] ^= 1;
        open_believing(counts[i], 3, 2);
        for (uint64_t bucket = 0; bucket < STUB_BUCKETS; bucket++)
            stub_bucket(bucket, OKV_DEPTH_MAX, NULL, 0);
        expect_the_server_is_asked();
        stub_close(&handle);
    }
}

/* Only the directory's own bytes are READ for an entry. */
PLACE_TEST(last_entry_of_the_directory)
{
    uint64_t last = (uint64_t)OKV_DIRECTORY_ENTRIES * STUB_SEGMENT_BUCKETS;

    open_believing(last, last - 1, 16);
    stub_segment(OKV_DIRECTORY_ENTRIES - 1, STUB_SEGMENT_1);
    write_at(STUB_SEGMENT_1 + (STUB_SEGMENT_BUCKETS - 1) * STUB_BUCKET_SIZE, last - 1, 16, "last");
    assert_found("last");
    assert_int_equal(counted.directory_reads, 1);
    assert_int_equal(counted.bucket_reads, 1);
}
