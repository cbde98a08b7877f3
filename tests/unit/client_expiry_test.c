/* Items that expire, over a stub transport: what the server's clock is taken to be. */
#include "tests/support/test.h"

#include "client/connection/clock_sync.h"
#include "client/engine/progress.h"
#include "tests/support/stub_client.h"

#define EXTENT (STUB_HEAP + 8192)
#define SECOND 1000
#define HOUR (3600 * SECOND)
/* Tests take less: what is to come in an hour is still to come, an hour ago is over. */
#define SLACK (600 * SECOND)
/* What is lost for certain, as clocks are read in whole milliseconds: client_clock_test. */
#define ROUNDING 2

static char key[16];

static int setup(void **state)
{
    client_setup(state);
    stub_key(key, 3, STUB_DEPTH, 0);
    return 0;
}

static void open_handle(void)
{
    handle = stub_open(4, 4, 60000);
}

static void write_item(uint64_t expiry_ms, bool in_extent)
{
    struct okv_entry entry =
        in_extent ? stub_reference(key, "value", EXTENT) : stub_inline(key, "value");

    entry.expiry_ms = expiry_ms;
    stub_bucket(3, STUB_DEPTH, &entry, 1);
}

static int get_key(int64_t *ttl_ms)
{
    struct okv_command command = {
        .kind = OKV_GET,
        .key = key,
        .key_length = strlen(key),
        .buffer = buffer[0],
        .buffer_size = sizeof buffer[0],
    };
    struct okv_result result;
    int rc = okv_call(handle, &command, &result);

    *ttl_ms = result.ttl_ms;
    return rc;
}

static int head_key(int64_t *ttl_ms)
{
    struct okv_item_info info = {.ttl_ms = 0};
    int rc = okv_head(handle, key, strlen(key), &info);

    *ttl_ms = info.ttl_ms;
    return rc;
}

static void assert_about(int64_t found, int64_t expected)
{
    if (found > expected + ROUNDING || found < expected - SLACK)
        fail_msg("%lld is not about %lld", (long long)found, (long long)expected);
}

#define EXPIRY_TEST(name) TEST_WITH(name, setup, client_teardown)

EXPIRY_TEST(expired_items_are_misses)
{
    int64_t ttl;

    open_handle();
    for (unsigned i = 0; i < 2; i++) {
        write_item(STUB_CLOCK + HOUR, i);
        assert_int_equal(get_key(&ttl), OKV_OK);
        assert_about(ttl, HOUR);
        assert_int_equal(head_key(&ttl), OKV_OK);
        assert_about(ttl, HOUR);
        write_item(0, i);
        assert_int_equal(get_key(&ttl), OKV_OK);
        assert_true(ttl == OKV_TTL_NONE);
        assert_int_equal(head_key(&ttl), OKV_OK);
        assert_true(ttl == OKV_TTL_NONE);
        write_item(STUB_CLOCK - ROUNDING, i);
        uint64_t reads = stub.reads;
        assert_int_equal(get_key(&ttl), OKV_ENOTFOUND);
        assert_int_equal(head_key(&ttl), OKV_ENOTFOUND);
        assert_int_equal(stub.reads, reads + 2); /* an extent that is of no use is not READ */
    }
    struct okv_counters counted;
    okv_counters(handle, &counted);
    assert_int_equal(counted.misses, 4);
    assert_int_equal(counted.status_reads, 0); /* the welcome is recent enough */
}

/* What an item has left is never more than a put accepts, though it seems to have more. */
EXPIRY_TEST(the_time_that_is_left_can_be_put_again)
{
    int64_t ttl;

    open_handle();
    write_item(STUB_CLOCK + OKV_TTL_MAX_MS + HOUR, false);
    assert_int_equal(get_key(&ttl), OKV_OK);
    assert_true(ttl == OKV_TTL_MAX_MS);
    assert_int_equal(head_key(&ttl), OKV_OK);
    assert_true(ttl == OKV_TTL_MAX_MS);
    write_item(STUB_CLOCK + OKV_TTL_MAX_MS - HOUR, false);
    assert_int_equal(get_key(&ttl), OKV_OK);
    assert_about(ttl, OKV_TTL_MAX_MS - HOUR);
}

/* An expired item with the same tag does not hide the key behind it. */
EXPIRY_TEST(search_goes_on_behind_an_expired_item)
{
    char other[16];
    int64_t ttl;

    open_handle();
    stub_key(other, 3, STUB_DEPTH, 1);
    struct okv_entry entries[] = {stub_reference(other, "other", EXTENT),
                                  stub_reference(key, "value", EXTENT + 64)};
    entries[0].tag = entries[1].tag;
    entries[0].expiry_ms = 1;
    stub_bucket(3, STUB_DEPTH, entries, 2);
    assert_int_equal(get_key(&ttl), OKV_OK);
    assert_memory_equal(buffer[0], "value", 5);
    assert_int_equal(stub.reads, 2);
}

static unsigned status_reads(void)
{
    struct okv_counters counted;

    okv_counters(handle, &counted);
    return (unsigned)counted.status_reads;
}

static void age_sample(uint64_t by_ms)
{
    handle->clock.sampled_at_ms -= by_ms;
}

/* Only an item that expires makes the clock matter, and then at most one READ is under way. */
EXPIRY_TEST(old_sample_is_renewed_beside_the_get)
{
    int64_t ttl;

    open_handle();
    write_item(0, false);
    age_sample(6 * SECOND);
    assert_int_equal(get_key(&ttl), OKV_OK);
    assert_int_equal(status_reads(), 0);
    write_item(STUB_CLOCK + HOUR, false);
    stub_status(STUB_CLOCK + 2 * HOUR, 3); /* the server's clock says that it is over */
    assert_int_equal(get_key(&ttl), OKV_OK);
    assert_int_equal(status_reads(), 1);
    while (okv_poll(handle, results, 1) == 0 && handle->clock.reading)
        ;
    assert_int_equal(get_key(&ttl), OKV_ENOTFOUND);
    assert_int_equal(status_reads(), 1);
    struct okv_info info;
    okv_info(handle, &info);
    assert_int_equal(info.buckets, 4); /* 3, then what the images proved */
    age_sample(6 * SECOND);
    for (unsigned i = 0; i < 5; i++)
        status_refresh_if_old(handle);
    engine_flush(handle);
    assert_int_equal(status_reads(), 2);
    assert_int_equal(stub.reads_under_way, 1);
}

static void let_status_arrive(void)
{
    age_sample(6 * SECOND);
    status_refresh_if_old(handle);
    engine_flush(handle);
    assert_true(handle->clock.reading);
    while (handle->clock.reading)
        okv_poll(handle, results, 1);
}

/* A sample that is behind the one before it tells of a server that was stopped. */
EXPIRY_TEST(old_news_do_not_set_the_clock_back)
{
    open_handle();
    uint64_t before = clock_now_ms(handle);
    assert_in_range(before, STUB_CLOCK - ROUNDING, STUB_CLOCK + SLACK);
    stub_status(STUB_CLOCK - HOUR, 4);
    let_status_arrive();
    assert_in_range(clock_now_ms(handle), before, STUB_CLOCK + SLACK);
    stub_status(STUB_CLOCK + HOUR, 4);
    let_status_arrive();
    assert_in_range(clock_now_ms(handle), STUB_CLOCK + HOUR - ROUNDING, STUB_CLOCK + HOUR + SLACK);
    uint64_t after = clock_now_ms(handle);
    stub_status(STUB_CLOCK + 10 * HOUR, 4); /* damaged: none at all */
    stub.region[OKV_STATUS_OFFSET + 2] ^= 1;
    let_status_arrive();
    assert_in_range(clock_now_ms(handle), after, STUB_CLOCK + HOUR + SLACK);
}

/* As if all that is known had been found so much earlier, on both clocks. */
static void age_bounds(uint64_t by_ms)
{
    for (unsigned i = 0; i < CLOCK_BOUNDS; i++)
        handle->clock.bounds[i].at_ms -= by_ms;
}

/* A bound loses 200 ppm, so that a server's clock that is slower than ours is followed. */
EXPIRY_TEST(drift_is_allowed_for)
{
    open_handle();
    age_bounds(10 * HOUR);
    int64_t lost = 10 * HOUR / 5000 + ROUNDING;
    assert_in_range(clock_now_ms(handle), STUB_CLOCK - lost, STUB_CLOCK - lost + SLACK);
    handle->clock.latest_ms = 0;
    clock_sample(handle, STUB_CLOCK - lost - SLACK); /* it was long on its way */
    assert_true(clock_now_ms(handle) >= (uint64_t)(STUB_CLOCK - lost));
    clock_sample(handle, STUB_CLOCK - lost / 2);
    assert_in_range(clock_now_ms(handle), STUB_CLOCK - lost / 2 - ROUNDING,
                    STUB_CLOCK - lost / 2 + SLACK);
}

/* The server's host was paused for two hours, and its clock with it: what was a bound before
 * is none, and is forgotten once some more samples came. */
EXPIRY_TEST(stopped_clock_is_followed)
{
    int64_t ttl;

    open_handle();
    for (unsigned i = 0; i < CLOCK_BOUNDS; i++)
        clock_sample(handle, STUB_CLOCK + 1 + i);
    for (unsigned i = 0; i < CLOCK_BOUNDS; i++)
        handle->clock.bounds[i].offset_ms += 2 * HOUR; /* ours went on */
    write_item(STUB_CLOCK + HOUR, false);
    for (unsigned i = 0; i < CLOCK_BOUNDS; i++) {
        assert_int_equal(get_key(&ttl), OKV_ENOTFOUND);
        stub_status(STUB_CLOCK + 10 + i, 4);
        let_status_arrive();
    }
    assert_int_equal(get_key(&ttl), OKV_OK);
    assert_about(ttl, HOUR);
}

/* A worse bound replaces the best, from a status that waited for its READ: what was gone
 * stays gone. */
EXPIRY_TEST(expired_item_does_not_come_back)
{
    int64_t ttl;

    open_handle();
    for (unsigned i = 0; i < CLOCK_BOUNDS; i++)
        clock_sample(handle, STUB_CLOCK + 1 + i);
    handle->clock.bounds[handle->clock.taken % CLOCK_BOUNDS].offset_ms += HOUR;
    write_item(clock_now_ms(handle) - 1, false);
    assert_int_equal(get_key(&ttl), OKV_ENOTFOUND);
    uint64_t before = clock_now_ms(handle);
    for (unsigned i = 0; i < CLOCK_BOUNDS; i++) {
        stub_status(before - 500 + i, 4);
        let_status_arrive();
        assert_true(clock_now_ms(handle) >= before);
        assert_int_equal(get_key(&ttl), OKV_ENOTFOUND);
    }
}

/* The status of a stopped server is no sample, however often it is READ. */
EXPIRY_TEST(stopped_server_does_not_stop_the_clock)
{
    int64_t ttl;

    open_handle();
    stub_status(STUB_CLOCK + 1, 4);
    let_status_arrive();
    for (unsigned i = 0; i < 2; i++)
        handle->clock.bounds[i].offset_ms += 2 * HOUR; /* the time that has passed since */
    write_item(STUB_CLOCK + HOUR, false);
    for (unsigned i = 0; i < 3 * CLOCK_BOUNDS; i++) {
        let_status_arrive();
        assert_int_equal(get_key(&ttl), OKV_ENOTFOUND);
    }
    assert_int_equal(status_reads(), 1 + 3 * CLOCK_BOUNDS); /* none was due to the gets */
}

EXPIRY_TEST(absurd_clocks_do_no_harm)
{
    static const uint64_t clocks[] = {1, (uint64_t)INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX};
    int64_t ttl;

    for (unsigned i = 0; i < 4; i++) {
        setup(state);
        stub.welcome.clock_ms = clocks[i];
        open_handle();
        write_item((UINT64_C(1) << 48) - ROUNDING, false);
        assert_int_equal(get_key(&ttl), i ? OKV_ENOTFOUND : OKV_OK);
        clock_sample(handle, clocks[3 - i]);
        clock_sample(handle, clocks[i]);
        get_key(&ttl);
        stub_close(&handle);
    }
}

/* Blocking, for scans; a status that is never whole is told. */
EXPIRY_TEST(refresh_waits_for_a_whole_status)
{
    open_handle();
    stub_status(STUB_CLOCK + HOUR, 7);
    assert_int_equal(status_read_blocking(handle), OKV_OK);
    assert_true(clock_now_ms(handle) >= STUB_CLOCK + HOUR - ROUNDING);
    assert_int_equal(handle->bucket_count, 7);
    stub.region[OKV_STATUS_OFFSET] ^= 1;
    assert_int_equal(status_read_blocking(handle), OKV_ECORRUPT);
    assert_string_equal(okv_why(handle), "");
    stub_hang_up();
    assert_int_equal(status_read_blocking(handle), OKV_EDISCONNECTED);
}

/* The one READ that the device has room for belongs to a get that timed out. */
EXPIRY_TEST(refresh_waits_for_room)
{
    struct okv_command command = {
        .kind = OKV_HEAD, .key = key, .key_length = strlen(key), .timeout_ms = 1};
    struct okv_result result;

    stub.max_reads = 1;
    open_handle();
    stub.delay = HELD;
    unsigned before = stub.polls;
    assert_int_equal(okv_call(handle, &command, &result), OKV_ETIMEDOUT);
    stub.polls = before + HELD - 1000; /* it ends so many polls from now */
    stub.delay = 0;
    assert_int_equal(status_read_blocking(handle), OKV_OK);
    assert_string_equal(okv_why(handle), "");
}
