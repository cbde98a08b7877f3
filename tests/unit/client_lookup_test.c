/* A get over a stub transport: how many READs it takes, what it believes, and where it ends. */
#include "tests/support/test.h"

#include "tests/support/stub_transport.h"

#define BUCKET 3
#define ATTEMPTS 16 /* images that may be rejected before the server is asked */
#define EXTENT (STUB_HEAP + 8192)

static okv *handle;
static char keys[6][16]; /* of BUCKET */
static char buffer[64];
static size_t length;
static uint64_t version;
static struct okv_counters counted;

static int setup(void **state)
{
    (void)state;
    stub_reset();
    for (unsigned i = 0; i < 6; i++)
        stub_key(keys[i], BUCKET, STUB_DEPTH, i);
    memset(buffer, '#', sizeof buffer);
    length = SIZE_MAX;
    version = 0;
    handle = stub_open(4, 4, 2000);
    okv_counters(handle, &counted);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stub_close(&handle);
    return 0;
}

static int get(const char *key)
{
    int rc = okv_get(handle, key, strlen(key), buffer, sizeof buffer, &length, &version);

    okv_counters(handle, &counted);
    assert_int_equal(counted.reads, stub.reads);
    assert_int_equal(counted.reads, counted.bucket_reads + counted.extent_reads +
                                        counted.directory_reads + counted.status_reads);
    assert_int_equal(stub.reads_outside, 0);
    return rc;
}

static void assert_hit(const char *key, const char *value)
{
    assert_int_equal(get(key), OKV_OK);
    assert_int_equal(length, strlen(value));
    assert_memory_equal(buffer, value, length);
}

#define LOOKUP_TEST(name) TEST_WITH(name, setup, teardown)

LOOKUP_TEST(inline_hit_and_miss_are_one_read)
{
    struct okv_entry entries[] = {stub_inline(keys[0], "zero"), stub_inline(keys[1], "one")};

    stub_bucket(BUCKET, STUB_DEPTH, entries, 2);
    assert_int_equal(get(keys[2]), OKV_ENOTFOUND);
    assert_int_equal(stub.reads, 1);
    assert_int_equal(counted.misses, 1);
    assert_int_equal(length, SIZE_MAX);
    assert_hit(keys[1], "one");
    assert_int_equal(version, 5);
    assert_int_equal(counted.hits, 1);
    assert_int_equal(counted.read_bytes, 2 * STUB_BUCKET_SIZE);
}

LOOKUP_TEST(reference_is_two_reads)
{
    struct okv_entry entry = stub_reference(keys[0], "in an extent", EXTENT);

    stub_bucket(BUCKET, STUB_DEPTH, &entry, 1);
    assert_hit(keys[0], "in an extent");
    assert_int_equal(version, 5);
    assert_int_equal(stub.reads, 2);
    assert_int_equal(counted.extent_reads, 1);
    assert_int_equal(counted.read_bytes, STUB_BUCKET_SIZE + strlen(keys[0]) + 12);
}

/* Tag and length of an entry are the key's, its extent is another one's. */
LOOKUP_TEST(tag_collision_continues_the_search)
{
    struct okv_entry entries[3] = {
        stub_reference(keys[1], "of key 1", EXTENT),
        stub_reference(keys[2], "of key 2", EXTENT + 64),
        stub_reference(keys[0], "of key 0", EXTENT + 128),
    };

    entries[0].tag = entries[1].tag = entries[2].tag;
    stub_bucket(BUCKET, STUB_DEPTH, entries, 3);
    assert_hit(keys[0], "of key 0");
    assert_int_equal(stub.reads, 4);
    assert_int_equal(counted.torn_extents, 0);

    stub_bucket(BUCKET, STUB_DEPTH, entries, 2); /* collisions only: a miss */
    assert_int_equal(get(keys[0]), OKV_ENOTFOUND);
    assert_int_equal(stub.reads, 7);
}

/* ---- torn images and extents ---- */

static unsigned tears_left; /* READs that will find the byte wrong */
static uint64_t tear_at;
static uint8_t tear_good;

static void tear(unsigned n)
{
    bool is_there = stub.last_read <= tear_at && tear_at - stub.last_read < STUB_BUCKET_SIZE;

    (void)n;
    stub.region[tear_at] = (uint8_t)(is_there && tears_left > 0 ? ~tear_good : tear_good);
    tears_left -= is_there && tears_left > 0;
}

static void tear_reads(uint64_t offset, unsigned count)
{
    tear_at = offset;
    tear_good = stub.region[offset];
    tears_left = count;
    stub.before_read = tear;
}

LOOKUP_TEST(torn_bucket_is_read_again)
{
    struct okv_entry entry = stub_inline(keys[0], "whole");

    stub_bucket(BUCKET, STUB_DEPTH, &entry, 1);
    /* Of sixteen images in vain some are of the bucket that this one was split from, which
     * is asked whether this one is there, and some times the directory is. */
    static const struct {
        unsigned torn, parents, entries;
    } rounds[] = {{1, 0, 0}, {2, 0, 1}, {3, 1, 1}, {ATTEMPTS - 4, 3, 4}};

    for (unsigned i = 0; i < 4; i++) {
        struct okv_counters before = counted;
        tear_reads(stub_place(BUCKET) + 40, rounds[i].torn);
        assert_hit(keys[0], "whole");
        assert_int_equal(counted.torn_buckets - before.torn_buckets, rounds[i].torn);
        assert_int_equal(counted.wrong_depths - before.wrong_depths, rounds[i].parents);
        assert_int_equal(counted.bucket_reads - before.bucket_reads,
                         rounds[i].torn + rounds[i].parents + 1);
        assert_int_equal(counted.directory_reads - before.directory_reads, rounds[i].entries);
    }
    assert_int_equal(stub.sent, 0);
    assert_int_equal(counted.fallbacks, 0);
}

static bool answer_miss(const struct stub_request *request, struct stub_reply *reply)
{
    (void)request;
    reply->message.status = OKV_ENOTFOUND;
    reply->message.value_length = 0;
    return true;
}

LOOKUP_TEST(bucket_that_stays_torn_asks_the_server)
{
    struct okv_entry entry = stub_inline(keys[0], "torn");

    stub_bucket(BUCKET, STUB_DEPTH, &entry, 1);
    tear_reads(stub_place(BUCKET) + 40, UINT32_MAX);
    assert_hit(keys[0], "answer");
    assert_int_equal(version, 77);
    assert_int_equal(counted.bucket_reads, ATTEMPTS);
    assert_int_equal(counted.torn_buckets, ATTEMPTS - counted.wrong_depths);
    assert_int_equal(counted.fallbacks, 1);
    assert_int_equal(counted.requests, 1);
    assert_int_equal(counted.replies, 1);
    assert_int_equal(stub.requests[0].message.opcode, OKV_OP_GET);
    assert_memory_equal(stub.requests[0].message.key, keys[0], strlen(keys[0]));

    stub.answer = answer_miss;
    assert_int_equal(get(keys[0]), OKV_ENOTFOUND);
    assert_int_equal(counted.bucket_reads, 2 * ATTEMPTS);
    stub.answer = NULL;
    assert_int_equal(okv_get(handle, keys[0], strlen(keys[0]), NULL, 0, &length, NULL),
                     OKV_ETOOSMALL);
    assert_int_equal(length, 6);
}

/* A head as a get does, with the version that the server says. */
LOOKUP_TEST(torn_head_asks_the_server)
{
    struct okv_entry entry = stub_inline(keys[0], "torn");
    struct okv_item_info info;

    stub_bucket(BUCKET, STUB_DEPTH, &entry, 1);
    tear_reads(stub_place(BUCKET) + 40, UINT32_MAX);
    assert_int_equal(okv_head(handle, keys[0], strlen(keys[0]), &info), OKV_OK);
    okv_counters(handle, &counted);
    assert_int_equal(counted.bucket_reads, ATTEMPTS);
    assert_int_equal(counted.fallbacks, 1);
    assert_int_equal(info.version, 77);
    assert_int_equal(info.length, 6);
    assert_int_equal(info.ttl_ms, 0);
}

LOOKUP_TEST(torn_extent_reads_the_bucket_again)
{
    struct okv_entry entry = stub_reference(keys[0], "in an extent", EXTENT);

    stub_bucket(BUCKET, STUB_DEPTH, &entry, 1);
    tear_reads(EXTENT + 15, 2);
    assert_hit(keys[0], "in an extent");
    assert_int_equal(counted.torn_extents, 2);
    assert_int_equal(counted.bucket_reads, 3);
    assert_int_equal(counted.extent_reads, 3);

    tear_reads(EXTENT + 15, UINT32_MAX); /* the last attempt is its bucket's 16th */
    assert_hit(keys[0], "answer");
    assert_int_equal(counted.torn_extents, 2 + ATTEMPTS);
    assert_int_equal(counted.fallbacks, 1);
}

/* The bucket was READ before its extent was freed; the extent's READ finds another item. */
static void reuse_extent(unsigned n)
{
    if (n != 2)
        return;
    stub_reference(keys[0], "another one!", EXTENT); /* the same key at its old offset */
    struct okv_entry entry = stub_reference(keys[0], "moved", EXTENT + 256);
    stub_bucket(BUCKET, STUB_DEPTH, &entry, 1);
}

LOOKUP_TEST(reused_extent_reads_the_bucket_again)
{
    struct okv_entry entry = stub_reference(keys[0], "in an extent", EXTENT);

    stub_bucket(BUCKET, STUB_DEPTH, &entry, 1);
    stub.before_read = reuse_extent;
    assert_hit(keys[0], "moved");
    assert_int_equal(counted.torn_extents, 1);
    assert_int_equal(stub.reads, 4);
}

/* ---- chains ---- */

static uint64_t page_offset(unsigned page)
{
    return page ? STUB_HEAP + page * STUB_BUCKET_SIZE : stub_place(BUCKET);
}

/* Key n is in page n. */
static void write_chain(unsigned pages, uint64_t with_version, const char *value)
{
    for (unsigned page = pages; page-- > 0;) {
        struct okv_entry entry = stub_inline(keys[page], value);
        struct stub_image image = {
            .offset = page_offset(page),
            .bucket = BUCKET,
            .version = with_version,
            .chain = page + 1 < pages ? page_offset(page + 1) : 0,
            .depth = STUB_DEPTH,
            .page = page,
        };
        stub_write(&image, &entry, 1);
    }
}

LOOKUP_TEST(chain_is_searched_page_by_page)
{
    write_chain(3, 9, "chained");
    for (unsigned page = 0; page < 3; page++) {
        stub.reads = 0;
        assert_int_equal(
            okv_get(handle, keys[page], strlen(keys[page]), buffer, sizeof buffer, &length, NULL),
            OKV_OK);
        assert_memory_equal(buffer, "chained", 7);
        assert_int_equal(stub.reads, page + 1);
    }
    stub.reads = 6;
    assert_int_equal(get(keys[3]), OKV_ENOTFOUND);
    assert_int_equal(stub.reads, 9);
    assert_int_equal(counted.torn_buckets, 0);
}

/* Page 0 of the chain was READ, then the writer began to publish version 10. */
static void publish_page(unsigned n)
{
    if (n == 2)
        write_chain(3, 10, "newer");
}

LOOKUP_TEST(pages_of_two_versions_restart_the_lookup)
{
    write_chain(3, 9, "older");
    stub.before_read = publish_page;
    assert_hit(keys[2], "newer");
    assert_int_equal(counted.torn_buckets, 1);
    assert_int_equal(stub.reads, 5); /* page 0, page 1 of version 10, all three */
}

static void assert_eproto_after(unsigned reads)
{
    unsigned before = stub.reads;

    assert_int_equal(get(keys[0]), OKV_EPROTO);
    assert_int_equal(stub.reads, before + reads);
}

LOOKUP_TEST(offsets_outside_the_region_are_never_read)
{
    static const uint64_t offsets[] = {STUB_REGION - STUB_BUCKET_SIZE + 1, STUB_REGION,
                                       STUB_REGION + 1, (UINT64_C(1) << 48) - 1};
    struct stub_image image = {
        .offset = stub_place(BUCKET), .bucket = BUCKET, .version = 9, .depth = STUB_DEPTH};
    struct okv_entry good = stub_reference(keys[0], "in an extent", EXTENT);
    uint32_t size = good.key_length + good.value_length;

    for (unsigned i = 0; i < 4; i++) {
        image.chain = offsets[i];
        stub_write(&image, NULL, 0);
        assert_eproto_after(1);
    }
    image.chain = 0;
    for (unsigned i = 0; i < 4; i++) {
        struct okv_entry bad = good;
        bad.extent = i ? offsets[i] : STUB_REGION - size + 1;
        stub_write(&image, &bad, 1);
        assert_eproto_after(1);
    }
    static const struct {
        uint32_t value_length;
        bool key_in_extent;
    } lengths[] = {/* longer than the region or than what this server stores */
                   {STUB_REGION + 1, false},
                   {STUB_REGION + 1, true},
                   {STUB_REGION - 9, true},
                   {UINT32_MAX, false},
                   {UINT32_MAX, true}};
    for (unsigned i = 0; i < 5; i++) {
        struct okv_entry bad = good;
        bad.extent = 0;
        bad.key_in_extent = lengths[i].key_in_extent;
        bad.value_length = lengths[i].value_length;
        stub_write(&image, &bad, 1);
        assert_eproto_after(1);
    }
    assert_string_equal(okv_why(handle), "");
}

/* Each READ finds the expected page, which chains to its own offset. */
static void write_cycle(unsigned n)
{
    struct stub_image image = {
        .offset = n == 1 ? stub_place(BUCKET) : STUB_HEAP,
        .bucket = BUCKET,
        .version = 1,
        .chain = STUB_HEAP,
        .depth = STUB_DEPTH,
        .page = n - 1,
    };

    stub_write(&image, NULL, 0);
}

LOOKUP_TEST(endless_chain_ends)
{
    stub.before_read = write_cycle;
    assert_eproto_after(OKV_BUCKET_PAGES_MAX);
}

/* An extent without bytes is none. */
LOOKUP_TEST(empty_extent_is_refused)
{
    struct okv_entry entry = stub_reference_here(keys[0], "", EXTENT);

    stub_bucket(BUCKET, STUB_DEPTH, &entry, 1);
    assert_int_equal(get(keys[0]), OKV_ECORRUPT);
    assert_int_equal(stub.reads, 1);
}

/* ---- what the caller gets ---- */

LOOKUP_TEST(value_larger_than_the_buffer)
{
    struct okv_entry entries[] = {stub_inline(keys[0], "0123456789"),
                                  stub_reference(keys[1], "0123456789", EXTENT)};

    stub_bucket(BUCKET, STUB_DEPTH, entries, 2);
    for (unsigned i = 0; i < 2; i++) {
        version = length = 0;
        assert_int_equal(okv_get(handle, keys[i], strlen(keys[i]), buffer, 9, &length, &version),
                         OKV_ETOOSMALL);
        assert_int_equal(length, 10);
        assert_int_equal(version, 0);
        assert_int_equal(buffer[0], '#');
        assert_int_equal(okv_get(handle, keys[i], strlen(keys[i]), buffer, 10, &length, NULL), 0);
        assert_memory_equal(buffer, "0123456789#", 11);
        memset(buffer, '#', sizeof buffer);
    }
}
