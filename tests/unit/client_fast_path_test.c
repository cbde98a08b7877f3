/* The fast path of gets, over a stub transport: every call that gets have, with every kind of image
 * that a READ can bring. How the get ends, what it costs, and that nothing is left of it. */
#include "tests/support/test.h"

#include "tests/support/stub_gets.h"

#define LENGTH_OF(array) (sizeof(array) / sizeof *(array))
/* A ttl may be told this much too long: client/connection/clock_sync.c. */
#define CLOCK_ERROR_MS 2

static const char in_extent[] = "in an extent";

/* ---- images ---- */

/* What one get costs besides the READ of its bucket on the fast path. */
struct cost {
    unsigned general;    /* the first READ is posted on the general path */
    unsigned operations; /* okv_get() takes one */
    unsigned posts;
    unsigned buckets, directories, extents; /* READs */
    unsigned torn_buckets, wrong_depths, hints_right;
};

struct image {
    const char *name;
    void (*write)(void);
    const char *value; /* NULL: the odd one's key */
    int status;
    bool everywhere; /* all buckets are like the odd one's */
    bool hints;
    bool expires;
    bool asked; /* the server is, after any number of READs */
    struct cost first, again;
};

static void write_empty(void)
{
    struct okv_entry entry = stub_inline(gets_keys[GETS_ODD], "");

    gets_write_odd(&entry);
}

static void write_nothing(void)
{
    gets_write_odd(NULL);
}

static void write_another_key(void)
{
    char key[16];
    stub_key(key, GETS_BUCKET, STUB_DEPTH + 1, 100);
    struct okv_entry entry = stub_inline(key, "another");

    gets_write_odd(&entry);
}

static void make_buffer_small(void)
{
    gets_commands[GETS_ODD].buffer_size = 3;
}

static void take_buffer_away(void)
{
    gets_commands[GETS_ODD].buffer = NULL;
    gets_commands[GETS_ODD].buffer_size = 0;
}

static void flip_byte(void)
{
    stub.region[stub_place(GETS_BUCKET) + 40] ^= 0xff;
}

/* A byte is wrong in the odd one's first READ alone. */
static void flip_byte_for_one(unsigned n)
{
    if (n == GETS_ODD + 1 || n == GETS_ODD + 2)
        flip_byte();
}

static void flip_byte_once(void)
{
    gets_before_read = flip_byte_for_one;
}

/* Nothing of an earlier operation may be in the request. */
static void flip_byte_for_ever(void)
{
    gets_put_in_all_slots();
    gets_write_commands();
    flip_byte();
}

/* A whole image of a bucket by another number. */
static void write_another_bucket(void)
{
    gets_put_in_all_slots();
    gets_write_commands();
    okv_bucket_seal(stub.region + stub_place(GETS_BUCKET), STUB_BUCKET_SIZE, STUB_BOOT,
                    GETS_BUCKET + STUB_BUCKETS);
}

static void move_segment(void)
{
    uint32_t size = STUB_BUCKETS * STUB_BUCKET_SIZE;

    stub_segment(0, STUB_SEGMENT_1);
    memcpy(stub.region + STUB_SEGMENT_1, stub.region + STUB_INDEX, size);
    memset(stub.region + STUB_INDEX, 0xa5, size);
}

static void forget_segment(void)
{
    handle->directory[0] = 0;
}

static void write_reference(void)
{
    struct okv_entry entry = stub_reference(gets_keys[GETS_ODD], in_extent, GETS_EXTENT);

    gets_write_odd(&entry);
}

static void write_expiring(int64_t in_ms)
{
    struct okv_entry entry = gets_item(GETS_ODD);

    entry.expiry_ms = (uint64_t)(STUB_CLOCK + in_ms);
    gets_write_odd(&entry);
}

static void write_item_that_expires(void)
{
    write_expiring(HOUR_MS);
}

static void write_item_that_has_expired(void)
{
    write_expiring(-(int64_t)HOUR_MS);
}

/* The item is in this page of two, or in none of them. */
static void write_chain(unsigned page, uint64_t chain)
{
    struct okv_entry entry = gets_item(GETS_ODD);
    struct stub_image image = {
        .offset = stub_place(GETS_BUCKET),
        .bucket = GETS_BUCKET,
        .version = STUB_VERSION,
        .chain = chain,
        .depth = STUB_DEPTH,
    };

    stub_write(&image, &entry, page == 0);
    image.offset = GETS_PAGE;
    image.chain = 0;
    image.page = 1;
    stub_write(&image, &entry, page == 1);
}

static void write_item_in_primary_page(void)
{
    write_chain(0, GETS_PAGE);
}

static void write_item_in_overflow_page(void)
{
    write_chain(1, GETS_PAGE);
}

static void write_item_in_no_page(void)
{
    write_chain(2, GETS_PAGE);
}

static void write_impossible_chain(void)
{
    write_chain(1, STUB_REGION - STUB_BUCKET_SIZE / 2);
}

static void write_impossible_extent(void)
{
    struct okv_entry entry = stub_reference(gets_keys[GETS_ODD], "value", GETS_EXTENT);

    entry.extent = STUB_REGION - 1;
    gets_write_odd(&entry);
}

/* It is whole, so a server that makes no sense made it. */
static void write_senseless_entry(void)
{
    uint8_t *image = stub.region + stub_place(GETS_BUCKET);

    memset(image + sizeof(struct okv_wire_bucket), 0xff, 2);
    okv_bucket_seal(image, STUB_BUCKET_SIZE, STUB_BOOT, GETS_BUCKET);
}

#define BESIDES(...) .first = {__VA_ARGS__}, .again = {__VA_ARGS__}

static const struct image images[] = {
    {.name = "inline item"},
    {.name = "empty value", .write = write_empty, .value = ""},
    {.name = "empty bucket", .write = write_nothing, .status = OKV_ENOTFOUND},
    {.name = "another key", .write = write_another_key, .status = OKV_ENOTFOUND},
    {.name = "too small buffer", .write = make_buffer_small, .status = OKV_ETOOSMALL},
    {.name = "no buffer", .write = take_buffer_away, .status = OKV_ETOOSMALL},
    {.name = "torn once",
     .write = flip_byte_once,
     BESIDES(.operations = 1, .posts = 1, .buckets = 1, .torn_buckets = 1)},
    {.name = "torn for ever",
     .write = flip_byte_for_ever,
     .value = "answer",
     .asked = true,
     BESIDES(.operations = 1)},
    {.name = "image of another bucket",
     .write = write_another_bucket,
     .value = "answer",
     .asked = true,
     BESIDES(.operations = 1)},
    {.name = "split bucket",
     .write = gets_split_odd,
     .first = {.operations = 1, .posts = 1, .buckets = 1, .wrong_depths = 1}},
    {.name = "moved segment",
     .write = move_segment,
     .everywhere = true,
     .first = {.operations = 1, .posts = 3, .buckets = 2, .directories = 1, .torn_buckets = 2}},
    {.name = "unknown segment",
     .write = forget_segment,
     .everywhere = true,
     .first = {.general = 1, .operations = 1, .posts = 1, .directories = 1}},
    {.name = "extent",
     .write = write_reference,
     .value = in_extent,
     BESIDES(.operations = 1, .posts = 1, .extents = 1)},
    {.name = "hinted extent",
     .write = write_reference,
     .value = in_extent,
     .hints = true,
     .first = {.operations = 1, .posts = 1, .extents = 1},
     .again = {.general = 1, .operations = 1, .extents = 1, .hints_right = 1}},
    {.name = "item that expires",
     .write = write_item_that_expires,
     .expires = true,
     BESIDES(.operations = 1)},
    {.name = "item that has expired",
     .write = write_item_that_has_expired,
     .status = OKV_ENOTFOUND,
     BESIDES(.operations = 1)},
    {.name = "item in the primary page of a chain", .write = write_item_in_primary_page},
    {.name = "item in an overflow page",
     .write = write_item_in_overflow_page,
     BESIDES(.operations = 1, .posts = 1, .buckets = 1)},
    {.name = "item in no page of a chain",
     .write = write_item_in_no_page,
     .status = OKV_ENOTFOUND,
     BESIDES(.operations = 1, .posts = 1, .buckets = 1)},
    {.name = "chain beyond the region",
     .write = write_impossible_chain,
     .status = OKV_EPROTO,
     BESIDES(.operations = 1)},
    {.name = "extent beyond the region",
     .write = write_impossible_extent,
     .status = OKV_EPROTO,
     BESIDES(.operations = 1)},
    {.name = "senseless entry",
     .write = write_senseless_entry,
     .status = OKV_ECORRUPT,
     BESIDES(.operations = 1)},
};

/* ---- the table: entry point by image ---- */

struct table_case {
    enum gets_entry entry; /* first, for gets_setup() */
    const struct image *image;
};

static void assert_odd(const struct image *image)
{
    const char *value = image->value ? image->value : gets_keys[GETS_ODD];
    const struct okv_result *result = &gets_results[GETS_ODD];

    if (image->expires && gets_are_concurrent())
        assert_in_range(result->ttl_ms, 1, HOUR_MS + CLOCK_ERROR_MS);
    if (image->asked) {
        assert_int_equal(result->version, 77);
        assert_int_equal(result->ttl_ms, gets_are_concurrent() ? 0 : OKV_TTL_NONE);
    }
    if (image->status == OKV_ETOOSMALL) {
        assert_int_equal(result->length, strlen(value));
        gets_results[GETS_ODD].length = 0;
    }
    if (image->status) {
        gets_assert_status(GETS_ODD, image->status);
        return;
    }
    gets_results[GETS_ODD].ttl_ms = OKV_TTL_NONE;
    gets_results[GETS_ODD].version = 5;
    gets_assert_value(GETS_ODD, value);
}

/* Gets that are under way at the same time find it so before any of them can have learnt. */
static unsigned affected_gets(const struct image *image)
{
    return image->everywhere && gets_are_concurrent() ? GETS : 1;
}

static struct okv_counters counters_since(const struct okv_counters *before)
{
    struct okv_counters now = gets_counters();
    struct okv_counters since;

#define SUBTRACT(name, text) since.name = now.name - before->name;
    OKV_COUNTER_LIST(SUBTRACT)
#undef SUBTRACT
    return since;
}

/* All of them; but READs of the status are counted when they come, and what it takes until the
 * server is asked is another test's. */
static void assert_counters(const struct image *image, const struct cost *cost,
                            const struct okv_counters *counted)
{
    unsigned affected = affected_gets(image);
    struct okv_counters expected = *counted;

    expected.gets = GETS;
    expected.hits = GETS - (image->status != 0 && image->status != OKV_ETOOSMALL);
    expected.misses = image->status == OKV_ENOTFOUND;
    expected.puts = expected.deletes = expected.updates = expected.timeouts = 0;
    expected.fallbacks = expected.requests = expected.replies = image->asked;
    expected.torn_extents = expected.hints_wrong = 0;
    expected.hints_right = affected * cost->hints_right;
    if (!image->asked) {
        expected.bucket_reads = GETS + affected * cost->buckets;
        expected.directory_reads = affected * cost->directories;
        expected.extent_reads = affected * cost->extents;
        expected.torn_buckets = affected * cost->torn_buckets;
        expected.wrong_depths = affected * cost->wrong_depths;
    }
    expected.reads = expected.bucket_reads + expected.directory_reads + expected.extent_reads +
                     expected.status_reads;
    expected.read_bytes =
        expected.bucket_reads * STUB_BUCKET_SIZE + expected.directory_reads * sizeof(okv_le64) +
        expected.extent_reads * (strlen(gets_keys[GETS_ODD]) + strlen(in_extent)) +
        expected.status_reads * sizeof(struct okv_wire_status);
    assert_memory_equal(counted, &expected, sizeof expected);
    assert_int_equal(counted->reads, stub.reads);
    assert_in_range(counted->torn_buckets, image->asked, UINT32_MAX);
}

/* READs that are decided on together go out with one post. */
static unsigned expected_posts(const struct cost *cost, unsigned affected)
{
    if (gets_are_concurrent())
        return 1 + cost->posts;
    unsigned at_once = gets_entry == GETS_AT_ONCE ? GETS - affected * cost->general : 0;
    return GETS - at_once + cost->posts;
}

/* What earlier gets left in slots that are free concerns no later one. */
static void write_over_lookups(void)
{
    for (uint32_t i = 0; i < handle->slot_count; i++)
        memset(&handle->operations[i].lookup, 1, sizeof handle->operations[i].lookup);
}

static void assert_run(const struct image *image, const struct cost *cost)
{
    struct okv_counters before = gets_counters();
    uint64_t taken = handle->operations_begun;
    unsigned posts = stub.posts, polls = stub.polls, now = stub.now_asked;
    unsigned affected = affected_gets(image);
    unsigned fast = GETS - affected * cost->general;

    write_over_lookups();
    gets_fast = stub.reads = 0;
    assert_int_equal(gets_run(), OKV_OK);
    gets_assert_others();
    assert_odd(image);
    struct okv_counters counted = counters_since(&before);
    assert_counters(image, cost, &counted);
    assert_int_equal(gets_fast, fast);
    assert_int_equal(handle->operations_begun - taken,
                     gets_are_concurrent() ? GETS : cost->operations);
    if (gets_entry == GETS_SUBMIT)
        assert_int_equal(gets_fast_submitted, fast);
    if (gets_entry == GETS_AT_ONCE)
        assert_int_equal(stub.now_asked - now, fast);
    if (gets_entry == GETS_AT_ONCE && cost->operations == 0)
        assert_int_equal(stub.polls, polls);
    if (!image->asked && counted.status_reads == 0)
        assert_int_equal(stub.posts - posts, expected_posts(cost, affected));
    assert_int_equal(stub.reads_outside, 0);
    gets_assert_idle();
}

/* The requests to the server are gets, with nothing of what was put before. */
static void assert_requests(unsigned from)
{
    for (unsigned n = from; n < stub.sent; n++) {
        const struct okv_request_message *request = &stub.requests[n].message;
        assert_int_equal(request->opcode, OKV_OP_GET);
        assert_int_equal(request->value_length, 0);
        assert_int_equal(request->flags, 0);
        assert_int_equal(request->argument, 0);
        assert_int_equal(request->ttl_ms, 0);
    }
}

static void get_ends_as_the_image_says(void **state)
{
    const struct image *image = ((const struct table_case *)*state)->image;
    struct okv_options options = {.timeout_ms = TIMEOUT_MS,
                                  .depth = GETS,
                                  .credits = 4,
                                  .hints = image->hints ? 0 : OKV_HINTS_NONE,
                                  .reconnect = OKV_RECONNECT_NEVER};

    handle = stub_open_with(&options);
    if (image->write)
        image->write();
    unsigned sent = stub.sent;
    assert_run(image, &image->first);
    assert_requests(sent);
    struct okv_command odd = gets_commands[GETS_ODD];
    gets_write_commands();
    gets_commands[GETS_ODD] = odd;
    assert_run(image, &image->again);
}

/* ---- what is learnt and left behind ---- */

ON_ALL(results_come_round_after_round)
{
    gets_open(GETS + 1); /* their places in the ring of results differ each time */
    for (int round = 0; round < 20; round++)
        gets_assert_all(GETS, GETS);
}

ON_ALL(one_key_may_repeat)
{
    gets_open(GETS);
    for (unsigned n = 0; n < GETS; n++)
        gets_commands[n].key = gets_keys[0];
    assert_int_equal(gets_run(), OKV_OK);
    for (unsigned n = 0; n < GETS; n++)
        gets_assert_value(n, gets_keys[0]);
    assert_int_equal(gets_fast, GETS);
    gets_assert_idle();
}

/* Each image of a bucket that was split says so, although all keys are where they were. */
ON_ALL(depths_of_images_are_learnt)
{
    struct okv_entry odd = gets_item(GETS_ODD);

    gets_open(GETS);
    stub_bucket(GETS_BUCKET, STUB_DEPTH + 1, &odd, 1);
    gets_write_others(STUB_BUCKETS);
    gets_assert_all(GETS, GETS);
    assert_int_equal(handle->bucket_count, 2 * STUB_BUCKETS);
    gets_split_odd();
    gets_assert_all(GETS, GETS);
    assert_int_equal(gets_counters().wrong_depths, 0);
}

/* A get that finds an item that expires decides on a READ of the server's clock, which goes out
 * with the next READ at the latest. */
ON_ALL(old_clock_sample_is_refreshed)
{
    gets_open(GETS);
    write_item_that_expires();
    handle->clock.sampled_at_ms -= HOUR_MS;
    assert_int_equal(gets_run(), OKV_OK);
    assert_int_equal(stub.reads, GETS + 1);
    assert_int_equal(gets_fast, gets_are_concurrent() ? GETS : GETS - 1);
    assert_int_equal(gets_run(), OKV_OK);
    assert_int_equal(stub.reads, 2 * GETS + 1);
    assert_int_equal(gets_counters().reads, stub.reads);
    assert_int_equal(gets_counters().status_reads, 1);
    gets_assert_others();
    gets_assert_idle();
}

ON_ALL(other_operations_use_the_same_slots)
{
    char text[64];

    gets_open(GETS);
    gets_assert_all(GETS, GETS);
    okv_stat(handle, text, sizeof text, &length);
    assert_int_equal(stub.requests[stub.sent - 1].message.opcode, OKV_OP_STAT);
    assert_int_equal(stub.requests[stub.sent - 1].message.key_length, 0);
    gets_assert_all(GETS, GETS);
    assert_int_equal(okv_ping(handle), OKV_OK);
    assert_int_equal(stub.requests[stub.sent - 1].message.key_length, 0);
    struct okv_command head = {
        .kind = OKV_HEAD, .tag = 77, .key = gets_keys[1], .key_length = strlen(gets_keys[1])};
    struct okv_result result;
    assert_int_equal(okv_call(handle, &head, &result), OKV_OK);
    assert_int_equal(result.tag, 77);
    assert_int_equal(result.length, strlen(gets_keys[1]));
    assert_int_equal(okv_put(handle, "key", 3, "value", 5, NULL), OKV_OK);
    assert_int_equal(stub.requests[stub.sent - 1].message.value_length, 5);
    gets_assert_all(GETS, GETS);
}

/* ---- the tests ---- */

#define CASES (GETS_ENTRIES * LENGTH_OF(images))

static int run_table(void)
{
    static const char *const calls[GETS_ENTRIES] = {"okv_get", "okv_get, read_now", "okv_call_many",
                                                    "okv_submit"};
    static char names[CASES][64];
    static struct table_case cases[CASES];
    struct CMUnitTest table[CASES];

    for (unsigned i = 0; i < CASES; i++) {
        cases[i].entry = gets_entries[i / LENGTH_OF(images)];
        cases[i].image = &images[i % LENGTH_OF(images)];
        snprintf(names[i], sizeof names[i], "%s: %s", calls[cases[i].entry], cases[i].image->name);
        table[i] = (struct CMUnitTest){names[i], get_ends_as_the_image_says, gets_setup,
                                       client_teardown, &cases[i]};
    }
    return test_run_group("images", table, NULL, NULL);
}

int main(void)
{
    int failed = run_table();

    return failed + test_run();
}
