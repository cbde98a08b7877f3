/* The fast path of okv_get(), over a stub transport: when it is taken, and that the general path
 * takes over wherever it ends. A get that went the fast path has taken no operation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/pace.h"
#include "tests/support/stub_one.h"

/* Passes while a test waits; what has to be done meanwhile is done in a fraction of it. */
#define SHORT_MS pace_ms(50)

/* The key has this value, which took so many operations and READs, and is counted once. */
static void assert_got(const char *of, const char *value, unsigned operations, unsigned reads)
{
    uint64_t taken = handle->taken;
    uint64_t hits = counters().hits;
    unsigned before = stub.reads;

    memset(buffer[0], '#', sizeof buffer[0]);
    assert_int_equal(get_key(of), OKV_OK);
    assert_int_equal(length, strlen(value));
    assert_memory_equal(buffer[0], value, length);
    assert_int_equal(version, 5);
    assert_int_equal(handle->taken - taken, operations);
    assert_int_equal(stub.reads - before, reads);
    assert_int_equal(counters().hits - hits, 1);
    assert_int_equal(handle->active, 0);
    assert_int_equal(handle->free.count, handle->slot_count);
    assert_int_equal(handle->reads, 0);
}

/* ---- the whole of the fast path ---- */

static void what_the_image_says_takes_no_operation(void **state)
{
    (void)state;
    handle = stub_open(4, 4, TIMEOUT_MS);
    assert_int_equal(get_key(key), OKV_ENOTFOUND);
    write_inline("value");
    assert_got(key, "value", 0, 1);
    write_inline("");
    assert_got(key, "", 0, 1);
    write_inline("longer than its buffer");
    assert_int_equal(get_key(key), OKV_ETOOSMALL);
    assert_int_equal(length, 22);
    assert_int_equal(handle->taken, 0);
    assert_int_equal(stub.reads, 4);
    assert_int_equal(counters().gets, 4);
    assert_int_equal(counters().hits, 3);
    assert_int_equal(counters().misses, 1);
    assert_int_equal(counters().bucket_reads, 4);
    assert_int_equal(counters().read_bytes, 4 * STUB_BUCKET_SIZE);
}

/* ---- what the image does not say ---- */

static uint64_t tear_at;
static unsigned tears;

/* One byte is wrong in the first READs of its image. */
static void tear(unsigned n)
{
    (void)n;
    if (tears > 0 && --tears == 0)
        stub.region[tear_at] ^= 0xff;
}

static void torn_image_is_read_again(void **state)
{
    (void)state;
    handle = stub_open(4, 4, TIMEOUT_MS);
    write_inline("value");
    tear_at = stub_place(BUCKET) + 40;
    stub.region[tear_at] ^= 0xff;
    tears = 2; /* at the second READ it is whole again */
    stub.before_read = tear;
    assert_got(key, "value", 1, 2);
    assert_int_equal(counters().torn_buckets, 1);
    assert_got(key, "value", 0, 1);
}

static void image_that_stays_torn_is_asked_for(void **state)
{
    (void)state;
    handle = stub_open(4, 4, TIMEOUT_MS);
    write_inline("value");
    stub.region[stub_place(BUCKET) + 40] ^= 0xff;
    stub.answer = no_answer;
    handle->timeout_ns = SHORT_MS * UINT64_C(1000000);
    assert_int_equal(get_key(key), OKV_ETIMEDOUT);
    assert_int_equal(stub.sent, 1);
    assert_int_equal(counters().fallbacks, 1);
    assert_int_equal(counters().timeouts, 1);
}

static void item_of_a_bucket_that_was_split_is_in_the_other(void **state)
{
    struct okv_entry entry = stub_inline(moved, "moved");

    (void)state;
    handle = stub_open(4, 4, TIMEOUT_MS);
    stub_bucket(BUCKET, STUB_DEPTH + 1, NULL, 0);
    stub_bucket(BUCKET + STUB_BUCKETS, STUB_DEPTH + 1, &entry, 1);
    assert_got(moved, "moved", 1, 2);
    assert_int_equal(counters().wrong_depths, 1);
    assert_got(moved, "moved", 0, 1); /* it was learnt */
}

static void segment_that_was_moved_is_looked_up(void **state)
{
    struct okv_entry entry = stub_inline(key, "value");
    struct stub_image image = {
        .offset = STUB_SEGMENT_1 + BUCKET * STUB_BUCKET_SIZE,
        .bucket = BUCKET,
        .version = STUB_VERSION,
        .depth = STUB_DEPTH,
    };

    (void)state;
    handle = stub_open(4, 4, TIMEOUT_MS);
    stub_segment(0, STUB_SEGMENT_1);
    stub_write(&image, &entry, 1);
    memset(stub.region + STUB_INDEX, 0xa5, STUB_BUCKETS * STUB_BUCKET_SIZE);
    uint64_t taken = handle->taken;
    assert_int_equal(get_key(key), OKV_OK);
    assert_memory_equal(buffer[0], "value", 5);
    assert_int_equal(handle->taken - taken, 1);
    assert_int_equal(counters().torn_buckets, 2);
    assert_got(key, "value", 0, 1);
}

static void bucket_without_a_known_segment_goes_the_long_way(void **state)
{
    (void)state;
    handle = stub_open(4, 4, TIMEOUT_MS);
    write_inline("value");
    handle->directory[0] = 0;
    assert_got(key, "value", 1, 2);
    assert_got(key, "value", 0, 1);
}

static void extent_is_read_after_the_image(void **state)
{
    struct okv_entry entry = stub_reference(key, "in an extent", EXTENT);

    (void)state;
    handle = stub_open(4, 4, TIMEOUT_MS);
    write_item(&entry);
    assert_got(key, "in an extent", 1, 2);
    assert_int_equal(counters().extent_reads, 1);
}

static void hinted_extent_is_read_with_the_image(void **state)
{
    struct okv_options options = {
        .timeout_ms = TIMEOUT_MS, .depth = 4, .credits = 4, .reconnect = OKV_RECONNECT_NEVER};
    struct okv_entry entry = stub_reference(key, "in an extent", EXTENT);

    (void)state;
    handle = stub_open_with(&options);
    write_item(&entry);
    assert_got(key, "in an extent", 1, 2);
    unsigned posts = stub.posts;
    assert_got(key, "in an extent", 1, 2);
    assert_int_equal(stub.posts - posts, 1);
    assert_int_equal(counters().hints_right, 1);
}

static void item_that_expires_takes_a_look_at_the_clock(void **state)
{
    struct okv_entry entry = stub_inline(key, "value");

    (void)state;
    handle = stub_open(4, 4, TIMEOUT_MS);
    entry.expiry_ms = STUB_CLOCK + HOUR_MS;
    write_item(&entry);
    uint64_t taken = handle->taken;
    assert_int_equal(get_key(key), OKV_OK);
    assert_memory_equal(buffer[0], "value", 5);
    entry.expiry_ms = STUB_CLOCK - HOUR_MS;
    write_item(&entry);
    assert_int_equal(get_key(key), OKV_ENOTFOUND);
    assert_int_equal(handle->taken - taken, 2);
    assert_int_equal(counters().hits, 1);
    assert_int_equal(counters().misses, 1);
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
    handle = stub_open(4, 4, TIMEOUT_MS);
    stub_write(&image, NULL, 0);
    image.offset = PART;
    image.chain = 0;
    image.page = 1;
    stub_write(&image, &entry, 1);
    assert_got(key, "value", 1, 2);
    stub_write(&image, NULL, 0); /* in none of them */
    assert_int_equal(get_key(key), OKV_ENOTFOUND);
    assert_int_equal(counters().misses, 1);
}

static void image_that_cannot_be_is_the_long_ways_to_refuse(void **state)
{
    struct okv_entry entry = stub_reference(key, "value", EXTENT);

    (void)state;
    handle = stub_open(4, 4, TIMEOUT_MS);
    entry.extent = STUB_REGION - 1;
    write_item(&entry);
    assert_int_equal(get_key(key), OKV_EPROTO);
    assert_int_equal(handle->taken, 1);
    assert_int_equal(stub.reads_outside, 0);
}

/* ---- what comes in between ---- */

static void hang_up(unsigned n)
{
    (void)n;
    stub_hang_up();
}

static void connection_that_is_lost_ends_the_get(void **state)
{
    (void)state;
    handle = stub_open(4, 4, TIMEOUT_MS);
    write_inline("value");
    stub.read_status = OKV_EDISCONNECTED;
    stub.before_read = hang_up;
    assert_int_equal(get_key(key), OKV_EDISCONNECTED);
    assert_int_equal(handle->active, 0);
    assert_int_equal(get_key(key), OKV_EDISCONNECTED);
}

static void read_that_fails_ends_the_get(void **state)
{
    (void)state;
    handle = stub_open(4, 4, TIMEOUT_MS);
    write_inline("value");
    assert_got(key, "value", 0, 1); /* whose image stays where the next one is READ to */
    stub.read_status = OKV_EDISCONNECTED;
    memset(buffer[0], '#', sizeof buffer[0]);
    assert_int_equal(get_key(key), OKV_EDISCONNECTED);
    assert_int_equal(buffer[0][0], '#');
    assert_int_equal(counters().hits, 1);
}

static void fail_no_more(unsigned n)
{
    (void)n;
    stub.before_read = NULL;
    stub.read_status = 0;
}

static void hang_up_once(unsigned n)
{
    (void)n;
    stub.before_read = fail_no_more;
    stub.read_status = OKV_EDISCONNECTED;
    stub_hang_up();
}

static void get_begins_again_on_the_next_connection(void **state)
{
    (void)state;
    handle = stub_open_lasting(4, 4, TIMEOUT_MS);
    write_inline("value");
    stub.before_read = hang_up_once;
    assert_int_equal(get_key(key), OKV_OK);
    assert_memory_equal(buffer[0], "value", 5);
    assert_int_equal(counters().reconnects, 1);
    assert_int_equal(handle->taken, 1);
    assert_got(key, "value", 0, 1);
}

static void read_that_cannot_be_posted_is_the_long_ways_to_tell(void **state)
{
    (void)state;
    handle = stub_open(4, 4, TIMEOUT_MS);
    stub.read_result = OKV_EDISCONNECTED;
    assert_int_equal(get_key(key), OKV_EDISCONNECTED);
    assert_int_equal(counters().hits + counters().misses, 0);
}

/* The slot is the READ's until that ends: so long the fast path is closed. */
static void read_that_takes_too_long_keeps_its_slot(void **state)
{
    (void)state;
    handle = stub_open(4, 4, TIMEOUT_MS);
    write_inline("value");
    handle->timeout_ns = SHORT_MS * UINT64_C(1000000);
    stub.delay = HELD;
    assert_int_equal(get_key(key), OKV_ETIMEDOUT);
    assert_int_equal(counters().timeouts, 1);
    assert_int_equal(handle->free.count, handle->slot_count - 1);
    stub.delay = 0;
    handle->timeout_ns = TIMEOUT_MS * UINT64_C(1000000);
    assert_int_equal(get_key(key), OKV_OK);
    assert_int_equal(handle->taken, 2);
    stub_release_events(0);
    assert_int_equal(collect_once(), 0);
    assert_got(key, "value", 0, 1);
}

static void read_that_takes_a_while_goes_on_as_an_operation(void **state)
{
    (void)state;
    handle = stub_open(4, 4, TIMEOUT_MS);
    write_inline("value");
    stub.delay = 100;
    assert_got(key, "value", 1, 1);
    stub.delay = 10;
    assert_got(key, "value", 0, 1);
}

static void operations_under_way_close_the_short_way(void **state)
{
    (void)state;
    handle = stub_open(4, 4, TIMEOUT_MS);
    write_inline("value");
    stub.delay = HELD;
    assert_int_equal(okv_submit_get(handle, key, strlen(key), buffer[1], sizeof buffer[1], 1),
                     OKV_OK);
    stub.delay = 0;
    assert_int_equal(get_key(key), OKV_OK);
    assert_memory_equal(buffer[0], "value", 5);
    assert_int_equal(handle->taken, 2);
    stub_release_events(0);
    collect();
    assert_int_equal(results[1].status, OKV_OK);
    assert_memory_equal(buffer[1], "value", 5);
    assert_got(key, "value", 0, 1);
}

static void request_under_way_closes_the_short_way(void **state)
{
    (void)state;
    handle = stub_open(4, 4, TIMEOUT_MS);
    write_inline("value");
    stub.delay = HELD;
    put_submit(1);
    stub.delay = 0;
    assert_int_equal(get_key(key), OKV_OK);
    assert_int_equal(handle->taken, 2);
    stub_release_events(0);
    collect();
    assert_int_equal(results[1].status, OKV_OK);
    assert_got(key, "value", 0, 1);
}

static void say_goodbye(unsigned n)
{
    (void)n;
    stub.before_read = NULL;
    stub_goodbye();
}

/* What comes with the READ's end is not lost, nor is the READ. */
static void message_beside_the_read_is_heard(void **state)
{
    (void)state;
    handle = stub_open(4, 4, TIMEOUT_MS);
    write_inline("value");
    stub.before_read = say_goodbye;
    assert_int_equal(get_key(key), OKV_OK);
    assert_int_equal(stub.messages_held, 0);
    assert_int_equal(get_key(key), OKV_ESHUTDOWN);
}

static void event_of_nothing_beside_the_read_is_no_harm(void **state)
{
    (void)state;
    handle = stub_open(4, 4, TIMEOUT_MS);
    write_inline("value");
    stub.stream = 1;
    assert_got(key, "value", 1, 1);
    assert_got(key, "value", 0, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, one_setup, client_teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_the_image_says_takes_no_operation),
        TEST(torn_image_is_read_again),
        TEST(image_that_stays_torn_is_asked_for),
        TEST(item_of_a_bucket_that_was_split_is_in_the_other),
        TEST(segment_that_was_moved_is_looked_up),
        TEST(bucket_without_a_known_segment_goes_the_long_way),
        TEST(extent_is_read_after_the_image),
        TEST(hinted_extent_is_read_with_the_image),
        TEST(item_that_expires_takes_a_look_at_the_clock),
        TEST(further_page_of_the_bucket_is_read),
        TEST(image_that_cannot_be_is_the_long_ways_to_refuse),
        TEST(connection_that_is_lost_ends_the_get),
        TEST(read_that_fails_ends_the_get),
        TEST(get_begins_again_on_the_next_connection),
        TEST(read_that_cannot_be_posted_is_the_long_ways_to_tell),
        TEST(read_that_takes_too_long_keeps_its_slot),
        TEST(read_that_takes_a_while_goes_on_as_an_operation),
        TEST(operations_under_way_close_the_short_way),
        TEST(request_under_way_closes_the_short_way),
        TEST(message_beside_the_read_is_heard),
        TEST(event_of_nothing_beside_the_read_is_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
