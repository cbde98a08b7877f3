/* okv_get() over a transport whose READs end at once: what the image says is the result, with no
 * post and no poll; and where the image says something else, the general path goes on with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/stub_one.h"

#define LINE OKV_READ_BEGINNING
#define ITEMS 9 /* more than a line of them, and less than a bucket */

static int setup(void **state)
{
    one_setup(state);
    stub.has_now = true;
    handle = stub_open(4, 4, TIMEOUT_MS);
    return 0;
}

/* What a get costs. */
struct cost {
    unsigned now; /* READs that were to end at once */
    unsigned posts;
    unsigned operations;
};

static const struct cost at_once = {.now = 1};
static const struct cost posted = {.now = 1, .posts = 1};              /* was refused, and posted */
static const struct cost continued = {1, .posts = 1, .operations = 1}; /* with another READ */

/* A get ends so, and with such a cost; its hit or miss and its READs are counted once. */
static void assert_ends(const char *of, int status, struct cost cost)
{
    struct okv_counters before = counters();
    uint64_t taken = handle->taken;
    unsigned now = stub.now_asked, posts = stub.posts, polls = stub.polls, reads = stub.reads;

    memset(buffer[0], '#', sizeof buffer[0]);
    assert_int_equal(get_key(of), status);
    assert_int_equal(stub.now_asked - now, cost.now);
    assert_int_equal(stub.posts - posts, cost.posts);
    assert_int_equal(handle->taken - taken, cost.operations);
    if (cost.posts == 0 && cost.operations == 0)
        assert_int_equal(stub.polls, polls);
    assert_int_equal(counters().gets - before.gets, 1);
    assert_int_equal(counters().hits - before.hits, status == OKV_OK);
    assert_int_equal(counters().misses - before.misses, status == OKV_ENOTFOUND);
    assert_int_equal(counters().reads - before.reads, stub.reads - reads);
    assert_int_equal(handle->active, 0);
    assert_int_equal(handle->free.count, handle->slot_count);
    assert_int_equal(handle->reads, 0);
}

static void assert_got(const char *of, const char *value, struct cost cost)
{
    assert_ends(of, OKV_OK, cost);
    assert_int_equal(length, strlen(value));
    assert_memory_equal(buffer[0], value, length);
    assert_int_equal(version, 5);
}

/* ---- without a post ---- */

static void image_that_is_there_needs_no_post(void **state)
{
    (void)state;
    write_inline("value");
    assert_got(key, "value", at_once);
    write_inline("");
    assert_got(key, "", at_once);
    assert_int_equal(stub.reads, 2);
    assert_int_equal(counters().reads, 2);
    assert_int_equal(counters().bucket_reads, 2);
    assert_int_equal(counters().read_bytes, 2 * STUB_BUCKET_SIZE);
}

static void image_without_the_key_needs_no_post(void **state)
{
    (void)state;
    assert_ends(key, OKV_ENOTFOUND, at_once);
    write_inline("value");
    assert_ends(moved, OKV_ENOTFOUND, at_once);
    assert_int_equal(counters().bucket_reads, 2);
}

static void value_for_a_larger_buffer_needs_no_post(void **state)
{
    (void)state;
    write_inline("longer than its buffer");
    memset(buffer[0], '#', sizeof buffer[0]);
    assert_int_equal(get_key(key), OKV_ETOOSMALL);
    assert_int_equal(length, 22);
    assert_int_equal(buffer[0][0], '#');
    assert_int_equal(stub.posts, 0);
    assert_int_equal(handle->taken, 0);
}

/* ---- what the transport leaves out ---- */

/* Lines of the image are what the READ before it, or nobody, left there. */
static void assert_brought(uint32_t bytes)
{
    const uint8_t *image = stub.last_destination;

    assert_int_equal(stub.now_bytes, bytes);
    for (uint32_t i = bytes; i < STUB_BUCKET_SIZE; i++)
        assert_int_equal(image[i], STUB_LEFT_OUT);
}

static void lines_behind_the_entries_do_not_matter(void **state)
{
    (void)state;
    assert_ends(key, OKV_ENOTFOUND, at_once);
    assert_brought(LINE);
    write_inline("value");
    memset(stub.region + stub_place(BUCKET) + LINE, 0x5a, STUB_BUCKET_SIZE - LINE);
    assert_got(key, "value", at_once);
    assert_brought(LINE);
}

/* The key is the last of so many, as far behind as they reach. */
static void lines_with_entries_are_asked_for(void **state)
{
    static char keys[ITEMS][16];
    struct okv_entry entries[ITEMS];
    uint32_t last = 0;

    (void)state;
    for (unsigned i = 0; i < ITEMS; i++) {
        stub_key(keys[i], BUCKET, STUB_DEPTH + 1, ITEMS - 1 - i);
        entries[i] = stub_inline(keys[i], "value");
    }
    for (unsigned count = 1; count <= ITEMS; count++) {
        stub_bucket(BUCKET, STUB_DEPTH, entries, count);
        const uint8_t *image = stub.region + stub_place(BUCKET);
        uint32_t lines = (okv_bucket_used_bytes(image) + LINE - 1) / LINE;
        assert_got(keys[count - 1], "value", at_once);
        assert_brought(lines * LINE);
        last = lines;
    }
    assert_in_range(last, 3, STUB_BUCKET_SIZE / LINE - 1);
    assert_int_equal(counters().torn_buckets, 0);
}

/* A header that says more than there can be. */
static void lines_behind_the_bucket_are_not_asked_for(void **state)
{
    struct okv_wire_bucket *wire = (struct okv_wire_bucket *)(stub.region + stub_place(BUCKET));

    (void)state;
    write_inline("value");
    wire->used = okv_le16_of(UINT16_MAX);
    stub.answer = no_answer;
    handle->timeout_ns = UINT64_C(50000000);
    assert_int_equal(get_key(key), OKV_ETIMEDOUT);
    assert_int_equal(stub.now_asked, 1);
    assert_int_equal(stub.now_bytes, STUB_BUCKET_SIZE);
    assert_in_range(counters().torn_buckets, 1, UINT32_MAX);
}

/* ---- what goes on as another get does ---- */

static void read_that_cannot_end_now_is_posted(void **state)
{
    (void)state;
    write_inline("value");
    stub.now_result = OKV_EAGAIN;
    unsigned polls = stub.polls;
    assert_got(key, "value", posted);
    assert_int_equal(stub.polls - polls, 1);
    assert_ends(moved, OKV_ENOTFOUND, posted);
    assert_int_equal(counters().bucket_reads, 2);
    stub.delay = 100; /* nobody looks so often before it is an operation's */
    assert_got(key, "value", (struct cost){.now = 1, .posts = 1, .operations = 1});
    stub.delay = 0;
    stub.now_result = OKV_OK;
    assert_got(key, "value", at_once);
}

/* What came with the refusal is for the poll: it is heard, and the get ends. */
static void message_that_waits_is_heard(void **state)
{
    (void)state;
    write_inline("value");
    stub_goodbye();
    assert_int_equal(get_key(key), OKV_OK);
    assert_memory_equal(buffer[0], "value", 5);
    assert_int_equal(stub.posts, 1);
    assert_int_equal(stub.messages_held, 0);
    assert_int_equal(get_key(key), OKV_ESHUTDOWN);
}

static void connection_that_has_ended_ends_the_get(void **state)
{
    (void)state;
    write_inline("value");
    assert_got(key, "value", at_once); /* whose image stays where the next one is READ to */
    stub_hang_up();
    assert_int_equal(get_key(key), OKV_EDISCONNECTED);
    assert_int_equal(counters().hits, 1);
}

static void fix(unsigned n)
{
    (void)n;
    if (stub.reads == 2)
        write_inline("value");
}

static void torn_image_is_read_again(void **state)
{
    (void)state;
    write_inline("value");
    stub.region[stub_place(BUCKET) + 40] ^= 0xff;
    stub.before_read = fix;
    assert_got(key, "value", continued);
    assert_int_equal(stub.reads, 2);
    assert_int_equal(counters().torn_buckets, 1);
    assert_int_equal(counters().bucket_reads, 2);
    assert_got(key, "value", at_once);
}

static void item_of_a_bucket_that_was_split_is_in_the_other(void **state)
{
    struct okv_entry entry = stub_inline(moved, "moved");

    (void)state;
    stub_bucket(BUCKET, STUB_DEPTH + 1, NULL, 0);
    stub_bucket(BUCKET + STUB_BUCKETS, STUB_DEPTH + 1, &entry, 1);
    assert_got(moved, "moved", continued);
    assert_int_equal(counters().wrong_depths, 1);
    assert_got(moved, "moved", at_once); /* it was learnt */
}

static void further_page_of_the_bucket_is_read(void **state)
{
    struct okv_entry entry = stub_inline(key, "value");
    struct stub_image image = {
        .offset = stub_place(BUCKET),
        .bucket = BUCKET,
        .version = STUB_VERSION,
        .chain = PART,
        .depth = STUB_DEPTH,
    };

    (void)state;
    stub_write(&image, NULL, 0);
    image.offset = PART;
    image.chain = 0;
    image.page = 1;
    stub_write(&image, &entry, 1);
    assert_got(key, "value", continued);
    stub_write(&image, NULL, 0);
    assert_ends(key, OKV_ENOTFOUND, continued);
    assert_int_equal(counters().torn_buckets, 0);
}

static void extent_is_read_after_the_image(void **state)
{
    struct okv_entry entry = stub_reference(key, "in an extent", EXTENT);

    (void)state;
    write_item(&entry);
    assert_got(key, "in an extent", continued);
    assert_int_equal(counters().extent_reads, 1);
    assert_int_equal(stub.last_read, EXTENT);
}

/* The operation has all that it needs by the time that it is one. */
static void item_that_expires_takes_no_post(void **state)
{
    static const struct cost looked_again = {.now = 1, .operations = 1};
    struct okv_entry entry = stub_inline(key, "value");

    (void)state;
    assert_ends(key, OKV_ENOTFOUND, at_once);
    entry.expiry_ms = STUB_CLOCK - HOUR_MS;
    write_item(&entry);
    assert_ends(key, OKV_ENOTFOUND, looked_again);
    entry.expiry_ms = STUB_CLOCK + HOUR_MS;
    write_item(&entry);
    assert_got(key, "value", looked_again);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, client_teardown)
    const struct CMUnitTest tests[] = {
        TEST(image_that_is_there_needs_no_post),
        TEST(image_without_the_key_needs_no_post),
        TEST(value_for_a_larger_buffer_needs_no_post),
        TEST(lines_behind_the_entries_do_not_matter),
        TEST(lines_with_entries_are_asked_for),
        TEST(lines_behind_the_bucket_are_not_asked_for),
        TEST(read_that_cannot_end_now_is_posted),
        TEST(message_that_waits_is_heard),
        TEST(connection_that_has_ended_ends_the_get),
        TEST(torn_image_is_read_again),
        TEST(item_of_a_bucket_that_was_split_is_in_the_other),
        TEST(further_page_of_the_bucket_is_read),
        TEST(extent_is_read_after_the_image),
        TEST(item_that_expires_takes_no_post),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
