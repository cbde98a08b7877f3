/* The fast path of okv_get_many(), over a stub transport: which gets go it, and that all others go
 * on beside them as operations. A get that went the fast path has taken no operation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "client/handle.h"
#include "tests/support/pace.h"
#include "tests/support/stub_many.h"

#define EXTENT (STUB_HEAP + 8192)
#define HOUR_MS 3600000u
#define TIMEOUT_MS PACE_GUARD_MS
/* Passes while a test waits; what has to be done meanwhile is done in a fraction of it. */
#define SHORT_MS pace_ms(50)

/* ---- the whole of the fast path ---- */

static void what_the_images_say_takes_no_operation(void **state)
{
    struct okv_entry empty = stub_inline(many_keys[MANY_ODD], "");

    (void)state;
    many_write_items(&empty);
    many_commands[2].buffer_size = 3;
    stub_key(many_keys[7], many_bucket(7), STUB_DEPTH + 1, 100); /* one that is not there */
    many_commands[7].key_length = strlen(many_keys[7]);
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    assert_int_equal(many_get(), OKV_OK);
    for (unsigned n = 0; n < MANY; n++)
        if (n != 2 && n != 7)
            many_assert_answer(n, n == MANY_ODD ? "" : many_keys[n]);
    many_assert_status(7, OKV_ENOTFOUND);
    assert_int_equal(many_answers[2].length, strlen(many_keys[2]));
    many_answers[2].length = 0;
    many_assert_status(2, OKV_ETOOSMALL);
    assert_int_equal(handle->taken, 0);
    assert_int_equal(stub.reads, MANY);
    assert_int_equal(stub.posts, 1);
    many_assert_idle();
    struct okv_counters counted = {.gets = MANY,
                                   .hits = MANY - 1,
                                   .misses = 1,
                                   .reads = MANY,
                                   .bucket_reads = MANY,
                                   .read_bytes = MANY * STUB_BUCKET_SIZE};
    struct okv_counters counts = many_counters();
    assert_memory_equal(&counts, &counted, sizeof counted);
}

static unsigned most_reads;

static void note_reads(unsigned n)
{
    (void)n;
    if (stub.reads_under_way > most_reads)
        most_reads = stub.reads_under_way;
}

static void no_more_than_the_depth_are_under_way(void **state)
{
    (void)state;
    handle = stub_open(5, 4, TIMEOUT_MS);
    most_reads = 0;
    stub.before_read = note_reads;
    many_assert_all(0, MANY);
    assert_int_equal(most_reads, 5);
    assert_int_equal(stub.posts, 3); /* of 5, 5 and 2 */
}

static void no_more_than_there_is_room_for_are_under_way(void **state)
{
    (void)state;
    stub.max_reads = 3;
    handle = stub_open(8, 4, TIMEOUT_MS);
    most_reads = 0;
    stub.before_read = note_reads;
    many_assert_all(0, MANY);
    assert_int_equal(most_reads, 3);
}

static void one_key_many_times(void **state)
{
    (void)state;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    for (unsigned n = 0; n < MANY; n++)
        many_commands[n].key = many_keys[0];
    assert_int_equal(many_get(), OKV_OK);
    for (unsigned n = 0; n < MANY; n++)
        many_assert_answer(n, many_keys[0]);
    assert_int_equal(handle->taken, 0);
}

static void pass_time(unsigned n)
{
    (void)n;
    pace_sleep_ms(SHORT_MS);
}

/* Those whose READ came have their values, however late. */
static void time_that_is_over_before_a_turn_ends_it(void **state)
{
    (void)state;
    handle = stub_open(4, 4, TIMEOUT_MS);
    for (unsigned n = 0; n < MANY; n++)
        many_commands[n].timeout_ms = n == MANY_ODD ? 0 : SHORT_MS;
    stub.before_read = pass_time;
    assert_int_equal(many_get(), OKV_OK);
    for (unsigned n = 0; n < MANY; n++)
        if (n < 4 || n == MANY_ODD)
            many_assert_answer(n, many_keys[n]);
        else
            many_assert_status(n, OKV_ETIMEDOUT);
    assert_int_equal(stub.reads, 5);
    assert_int_equal(many_counters().timeouts, 7);
    assert_int_equal(handle->taken, 0);
    many_assert_idle();
}

/* ---- one that is unlike the others ---- */

static void others_than_plain_gets_are_operations(void **state)
{
    (void)state;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    many_commands[MANY_ODD].kind = OKV_HEAD;
    many_commands[MANY_ODD].buffer = NULL;
    many_commands[MANY_ODD].buffer_size = 0;
    many_commands[1].key_length = 0;
    many_commands[2].key = NULL;
    many_commands[3].reserved[2] = 1;
    many_commands[4].buffer = NULL;
    assert_int_equal(many_get(), OKV_OK);
    many_assert_status(1, OKV_EKEYSIZE);
    many_assert_status(2, OKV_EINVAL);
    many_assert_status(3, OKV_EINVAL);
    many_assert_status(4, OKV_EINVAL);
    assert_int_equal(many_answers[MANY_ODD].status, OKV_OK);
    assert_int_equal(many_answers[MANY_ODD].length, strlen(many_keys[MANY_ODD]));
    many_assert_answer(0, many_keys[0]);
    many_assert_answer(MANY - 1, many_keys[MANY - 1]);
    assert_int_equal(handle->taken, 1);
    assert_int_equal(stub.reads, MANY - 4);
    assert_int_equal(stub.posts, 1);
    many_assert_idle();
}

static void torn_image_is_read_again(void **state)
{
    (void)state;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    stub.before_read = many_tear_odd;
    many_assert_all(1, MANY + 1);
    assert_int_equal(stub.posts, 2);
    assert_int_equal(many_counters().torn_buckets, 1);
    stub.before_read = NULL;
    many_assert_all(0, MANY);
}

static void image_that_stays_torn_is_asked_for(void **state)
{
    (void)state;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    stub.region[stub_place(many_bucket(MANY_ODD)) + 40] ^= 0xff;
    assert_int_equal(many_get(), OKV_OK);
    for (unsigned n = 0; n < MANY; n++)
        if (many_bucket(n) != many_bucket(MANY_ODD))
            many_assert_answer(n, many_keys[n]);
        else
            assert_memory_equal(many_got[n], "answer", 6);
    assert_int_equal(stub.sent, 3);
    assert_int_equal(stub.unflushed, 0);
    assert_int_equal(handle->taken, 3);
    assert_int_equal(many_counters().fallbacks, 3);
    many_assert_idle();
}

static void item_of_a_bucket_that_was_split_is_in_the_other(void **state)
{
    (void)state;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    many_split_odd();
    many_assert_all(1, MANY + 1);
    assert_int_equal(many_counters().wrong_depths, 1);
    many_assert_all(0, MANY); /* it was learnt */
}

/* The images of keys that are where they were thought to be. */
static void images_tell_of_other_buckets(void **state)
{
    struct okv_entry entries[MANY];
    uint64_t other = many_bucket(MANY_ODD) + STUB_BUCKETS;

    (void)state;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    for (uint64_t bucket = 0; bucket < STUB_BUCKETS; bucket++)
        stub_bucket(bucket, STUB_DEPTH + 1, entries, many_items(bucket, NULL, entries));
    assert_int_equal(okv_get_many(handle, many_commands, many_answers, MANY_ODD), OKV_OK);
    stub_key(many_keys[MANY_ODD], other, STUB_DEPTH + 1, 0);
    entries[0] = many_item(MANY_ODD);
    stub_bucket(other, STUB_DEPTH + 1, entries, 1);
    many_assert_all(0, MANY);
}

static void bucket_without_a_known_segment_is_looked_up(void **state)
{
    (void)state;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    handle->directory[0] = 0;
    many_assert_all(MANY, 2 * MANY);
    many_assert_all(0, MANY);
}

static void extent_is_read_after_the_image(void **state)
{
    struct okv_entry entry = stub_reference(many_keys[MANY_ODD], many_keys[MANY_ODD], EXTENT);

    (void)state;
    handle = stub_open(4, 4, TIMEOUT_MS);
    many_write_items(&entry);
    many_assert_all(1, MANY + 1);
    assert_int_equal(stub.posts, 4); /* 4, 3 and the extent beside 3, 3 and 2: none alone */
    assert_int_equal(many_counters().extent_reads, 1);
}

static void hinted_extent_is_read_with_the_images(void **state)
{
    struct okv_options options = {
        .timeout_ms = TIMEOUT_MS, .depth = MANY, .credits = 4, .reconnect = OKV_RECONNECT_NEVER};
    struct okv_entry entry = stub_reference(many_keys[MANY_ODD], many_keys[MANY_ODD], EXTENT);

    (void)state;
    handle = stub_open_with(&options);
    many_write_items(&entry);
    many_assert_all(1, MANY + 1);
    unsigned posts = stub.posts;
    many_assert_all(1, MANY + 1);
    assert_int_equal(stub.posts - posts, 1);
    assert_int_equal(many_counters().hints_right, 1);
}

static void item_that_expires_takes_a_look_at_the_clock(void **state)
{
    struct okv_entry entry = many_item(MANY_ODD);

    (void)state;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    entry.expiry_ms = STUB_CLOCK + HOUR_MS;
    many_write_items(&entry);
    assert_int_equal(many_get(), OKV_OK);
    many_assert_others();
    assert_memory_equal(many_got[MANY_ODD], many_keys[MANY_ODD], strlen(many_keys[MANY_ODD]));
    assert_in_range(many_answers[MANY_ODD].ttl_ms, 1, HOUR_MS + 2); /* rounded up */
    entry.expiry_ms = STUB_CLOCK - HOUR_MS;
    many_write_items(&entry);
    many_write_commands();
    assert_int_equal(many_get(), OKV_OK);
    many_assert_others();
    many_assert_status(MANY_ODD, OKV_ENOTFOUND);
    assert_int_equal(handle->taken, 2);
    assert_int_equal(many_counters().hits, 2 * MANY - 1);
    assert_int_equal(many_counters().misses, 1);
}

static void further_page_of_the_bucket_is_read(void **state)
{
    (void)state;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    struct stub_image further = many_chain_odd();
    many_assert_all(1, MANY + 1);
    stub_write(&further, NULL, 0); /* in none of them */
    many_write_commands();
    assert_int_equal(many_get(), OKV_OK);
    many_assert_others();
    many_assert_status(MANY_ODD, OKV_ENOTFOUND);
}

static void image_that_cannot_be_is_refused(void **state)
{
    struct okv_entry entry = stub_reference(many_keys[MANY_ODD], "value", EXTENT);

    (void)state;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    entry.extent = STUB_REGION - 1;
    many_write_items(&entry);
    assert_int_equal(many_get(), OKV_OK);
    many_assert_others();
    many_assert_status(MANY_ODD, OKV_EPROTO);
    assert_int_equal(handle->taken, 1);
    assert_int_equal(stub.reads_outside, 0);
    many_assert_idle();
}

/* It is whole, so made by a server that makes no sense. */
static void image_without_sense_is_refused(void **state)
{
    uint64_t bucket = many_bucket(MANY_ODD);
    uint8_t *image = stub.region + stub_place(bucket);

    (void)state;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    memset(image + sizeof(struct okv_wire_bucket), 0xff, 2);
    okv_bucket_seal(image, STUB_BUCKET_SIZE, STUB_BOOT, bucket);
    assert_int_equal(many_get(), OKV_OK);
    for (unsigned n = 0; n < MANY; n++)
        if (many_bucket(n) == bucket)
            many_assert_status(n, OKV_ECORRUPT);
        else
            many_assert_answer(n, many_keys[n]);
    assert_int_equal(handle->taken, 3);
    assert_int_equal(many_counters().misses, 0);
    many_assert_idle();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, many_setup, client_teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_the_images_say_takes_no_operation),
        TEST(no_more_than_the_depth_are_under_way),
        TEST(no_more_than_there_is_room_for_are_under_way),
        TEST(one_key_many_times),
        TEST(time_that_is_over_before_a_turn_ends_it),
        TEST(others_than_plain_gets_are_operations),
        TEST(torn_image_is_read_again),
        TEST(image_that_stays_torn_is_asked_for),
        TEST(item_of_a_bucket_that_was_split_is_in_the_other),
        TEST(images_tell_of_other_buckets),
        TEST(bucket_without_a_known_segment_is_looked_up),
        TEST(extent_is_read_after_the_image),
        TEST(hinted_extent_is_read_with_the_images),
        TEST(item_that_expires_takes_a_look_at_the_clock),
        TEST(further_page_of_the_bucket_is_read),
        TEST(image_that_cannot_be_is_refused),
        TEST(image_without_sense_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
