/* The fast path of gets of okv_submit(), over a stub transport: which gets go it, that all others
 * go on as operations of the usual kind, and that a slot is afterwards as any operation needs it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/handle.h"
#include "shared/base/clock.h"
#include "tests/support/pace.h"
#include "tests/support/stub_many.h"

#define EXTENT (STUB_HEAP + 8192)
#define HOUR_MS 3600000u
#define TIMEOUT_MS PACE_GUARD_MS
/* Passes while a test waits; what has to be done meanwhile is done in a fraction of it. */
#define SHORT_MS pace_ms(50)

static unsigned short_ones(void)
{
    unsigned count = 0;

    for (uint32_t i = 0; i < handle->slot_count; i++)
        count += handle->operations[i].is_fast;
    return count;
}

/* Submits all; how many are on the fast path then. */
static unsigned submit(void)
{
    size_t accepted = 0;

    assert_int_equal(okv_submit(handle, many_commands, MANY, &accepted), OKV_OK);
    assert_int_equal(accepted, MANY);
    return short_ones();
}

/* Polls until so many results came, each once, and puts them in their places. */
static void collect_so_many(unsigned count)
{
    uint64_t until = pace_guard_end();
    struct okv_result polled[5];
    bool came[MANY] = {false};

    while (count > 0 && okv_clock_ns() < until) {
        int n = okv_poll(handle, polled, 5);
        for (int i = 0; i < n; i++) {
            uint64_t place = polled[i].tag - 1000;
            assert_true(place < MANY && !came[place]);
            came[place] = true;
            many_answers[place] = polled[i];
            count--;
        }
        if (n < 0)
            break;
    }
    assert_int_equal(count, 0);
}

static void assert_values(void)
{
    for (unsigned n = 0; n < MANY; n++)
        many_assert_answer(n, many_keys[n]);
}

static void assert_idle(void)
{
    assert_int_equal(okv_pending(handle), 0);
    assert_int_equal(short_ones(), 0);
    many_assert_idle();
}

/* Runs all gets anew: all have their values, and so many began on the fast path. */
static void assert_all(unsigned short_count, unsigned reads)
{
    struct okv_counters before = many_counters();

    many_write_commands();
    stub.reads = 0;
    assert_int_equal(submit(), short_count);
    collect_so_many(MANY);
    assert_values();
    assert_int_equal(stub.reads, reads);
    assert_int_equal(many_counters().reads - before.reads, reads);
    assert_int_equal(many_counters().gets - before.gets, MANY);
    assert_int_equal(many_counters().hits - before.hits, MANY);
    assert_idle();
}

/* ---- the whole of the fast path ---- */

static void images_say_how_they_end(void **state)
{
    struct okv_entry empty = stub_inline(many_keys[MANY_ODD], "");

    (void)state;
    many_write_items(&empty);
    many_commands[2].buffer_size = 3;
    stub_key(many_keys[7], many_bucket(7), STUB_DEPTH + 1, 100); /* one that is not there */
    many_commands[7].key_length = strlen(many_keys[7]);
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    assert_int_equal(submit(), MANY);
    assert_int_equal(okv_pending(handle), MANY);
    collect_so_many(MANY);
    for (unsigned n = 0; n < MANY; n++)
        if (n != 2 && n != 7)
            many_assert_answer(n, n == MANY_ODD ? "" : many_keys[n]);
    many_assert_status(7, OKV_ENOTFOUND);
    assert_int_equal(many_answers[2].length, strlen(many_keys[2]));
    many_answers[2].length = 0;
    many_assert_status(2, OKV_ETOOSMALL);
    assert_int_equal(stub.posts, 1);
    assert_idle();
    struct okv_counters counted = {.gets = MANY,
                                   .hits = MANY - 1,
                                   .misses = 1,
                                   .reads = MANY,
                                   .bucket_reads = MANY,
                                   .read_bytes = MANY * STUB_BUCKET_SIZE};
    struct okv_counters counts = many_counters();
    assert_memory_equal(&counts, &counted, sizeof counted);
}

/* The ring of results goes round, at different places of it. */
static void results_come_however_often(void **state)
{
    (void)state;
    handle = stub_open(MANY + 1, 4, TIMEOUT_MS);
    for (int round = 0; round < 20; round++)
        assert_all(MANY, MANY);
}

static void no_more_than_the_depth_are_taken(void **state)
{
    size_t accepted = 0;

    (void)state;
    handle = stub_open(5, 4, TIMEOUT_MS);
    assert_int_equal(okv_submit(handle, many_commands, MANY, &accepted), OKV_EAGAIN);
    assert_int_equal(accepted, 5);
    assert_int_equal(short_ones(), 5);
    collect_so_many(5);
    for (unsigned n = 0; n < 5; n++)
        many_assert_answer(n, many_keys[n]);
    assert_idle();
}

static void those_without_room_wait_as_others_do(void **state)
{
    (void)state;
    stub.max_reads = 3;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    assert_all(3, MANY);
}

/* What is left in a slot by a get is not in what comes after it. */
static void other_operations_take_the_same_slots(void **state)
{
    char text[64];

    (void)state;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    assert_all(MANY, MANY);
    okv_stat(handle, text, sizeof text, &length);
    assert_int_equal(stub.requests[stub.sent - 1].message.opcode, OKV_OP_STAT);
    assert_int_equal(stub.requests[stub.sent - 1].message.key_length, 0);
    assert_all(MANY, MANY);
    assert_int_equal(okv_ping(handle), OKV_OK);
    assert_int_equal(stub.requests[stub.sent - 1].message.key_length, 0);
    struct okv_command head = {
        .kind = OKV_HEAD, .tag = 77, .key = many_keys[1], .key_length = strlen(many_keys[1])};
    struct okv_result result;
    assert_int_equal(okv_call(handle, &head, &result), OKV_OK);
    assert_int_equal(result.tag, 77);
    assert_int_equal(result.length, strlen(many_keys[1]));
    assert_int_equal(okv_put(handle, "key", 3, "value", 5, NULL), OKV_OK);
    assert_int_equal(stub.requests[stub.sent - 1].message.value_length, 5);
    assert_all(MANY, MANY);
}

/* ---- one that is unlike the others ---- */

static void others_than_plain_gets_go_the_usual_way(void **state)
{
    (void)state;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    many_commands[MANY_ODD].kind = OKV_HEAD;
    many_commands[MANY_ODD].buffer = NULL;
    many_commands[MANY_ODD].buffer_size = 0;
    assert_int_equal(submit(), MANY - 1);
    collect_so_many(MANY);
    many_assert_others();
    assert_int_equal(many_answers[MANY_ODD].length, strlen(many_keys[MANY_ODD]));
    assert_idle();
}

static void wrong_ones_are_refused(void **state)
{
    size_t accepted = 0;

    (void)state;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    many_commands[2].reserved[2] = 1;
    many_commands[4].key_length = 0;
    assert_int_equal(okv_submit(handle, many_commands, MANY, &accepted), OKV_EINVAL);
    assert_int_equal(accepted, 2);
    assert_int_equal(okv_submit(handle, many_commands + 3, 2, &accepted), OKV_EKEYSIZE);
    assert_int_equal(accepted, 1);
    collect_so_many(3);
    assert_idle();
}

static void torn_image_is_read_again(void **state)
{
    (void)state;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    stub.before_read = many_tear_odd;
    assert_all(MANY, MANY + 1);
    assert_int_equal(many_counters().torn_buckets, 1);
    stub.before_read = NULL;
    assert_all(MANY, MANY);
}

/* A put of which much is to be said, in the slot that the next operation takes. */
static void put_with_all(void)
{
    const struct okv_put_options options = {
        .flags = OKV_IF_VERSION | OKV_WITH_TTL, .version = 5, .ttl_ms = HOUR_MS};

    assert_int_equal(okv_put_with(handle, "key", 3, "value", 5, &options, NULL), OKV_OK);
}

/* With a request of which nothing is left from an earlier one. */
static void image_that_stays_torn_is_asked_for(void **state)
{
    (void)state;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    put_with_all();
    unsigned puts = stub.sent;
    stub.region[stub_place(many_bucket(MANY_ODD)) + 40] ^= 0xff;
    struct okv_command first = many_commands[0];
    many_commands[0] = many_commands[MANY_ODD];
    many_commands[MANY_ODD] = first;
    submit();
    collect_so_many(MANY);
    for (unsigned n = puts; n < stub.sent; n++) {
        const struct okv_request_message *request = &stub.requests[n].message;
        assert_int_equal(request->opcode, OKV_OP_GET);
        assert_int_equal(request->value_length, 0);
        assert_int_equal(request->flags, 0);
        assert_int_equal(request->argument, 0);
        assert_int_equal(request->ttl_ms, 0);
    }
    assert_int_equal(stub.sent - puts, 3);
    for (unsigned n = 0; n < MANY; n++)
        if (many_bucket(n) != many_bucket(MANY_ODD))
            many_assert_answer(n, many_keys[n]);
        else
            assert_memory_equal(many_got[n], "answer", 6);
    assert_int_equal(many_counters().fallbacks, 3);
    assert_idle();
}

static void item_of_a_bucket_that_was_split_is_in_the_other(void **state)
{
    (void)state;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    many_split_odd();
    assert_all(MANY, MANY + 1);
    assert_int_equal(many_counters().wrong_depths, 1);
    assert_all(MANY, MANY); /* it was learnt */
}

static void bucket_without_a_known_segment_is_looked_up(void **state)
{
    (void)state;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    handle->directory[0] = 0;
    assert_all(0, 2 * MANY);
    assert_all(MANY, MANY);
}

static void extent_is_read_after_the_image_or_with_it(void **state)
{
    struct okv_options options = {
        .timeout_ms = TIMEOUT_MS, .depth = MANY, .credits = 4, .reconnect = OKV_RECONNECT_NEVER};
    struct okv_entry entry = stub_reference(many_keys[MANY_ODD], many_keys[MANY_ODD], EXTENT);

    (void)state;
    handle = stub_open_with(&options);
    many_write_items(&entry);
    assert_all(MANY, MANY + 1);
    assert_int_equal(many_counters().hints_right, 0);
    assert_all(MANY - 1, MANY + 1); /* the hint is for the usual way */
    assert_int_equal(many_counters().hints_right, 1);
}

static void item_that_expires_takes_a_look_at_the_clock(void **state)
{
    struct okv_entry entry = many_item(MANY_ODD);

    (void)state;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    entry.expiry_ms = STUB_CLOCK + HOUR_MS;
    many_write_items(&entry);
    submit();
    collect_so_many(MANY);
    many_assert_others();
    assert_in_range(many_answers[MANY_ODD].ttl_ms, 1, HOUR_MS + 2); /* rounded up */
    entry.expiry_ms = STUB_CLOCK - HOUR_MS;
    many_write_items(&entry);
    many_write_commands();
    submit();
    collect_so_many(MANY);
    many_assert_others();
    many_assert_status(MANY_ODD, OKV_ENOTFOUND);
}

static void further_page_of_the_bucket_is_read(void **state)
{
    (void)state;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    many_chain_odd();
    assert_all(MANY, MANY + 1);
}

/* ---- what comes in between ---- */

static void connection_that_is_lost_ends_them(void **state)
{
    (void)state;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    stub.delay = HELD;
    assert_int_equal(submit(), MANY);
    stub_hang_up();
    stub_release_events(OKV_EDISCONNECTED);
    collect_so_many(MANY);
    for (unsigned n = 0; n < MANY; n++)
        many_assert_status(n, OKV_EDISCONNECTED);
    assert_int_equal(short_ones(), 0);
    assert_int_equal(handle->active, 0);
}

/* On the next connection they go the usual way. */
static void they_begin_again_on_the_next_connection(void **state)
{
    for (many_hang_up_at = 1; many_hang_up_at <= MANY; many_hang_up_at += 3) {
        many_setup(state);
        handle = stub_open_lasting(MANY, 4, TIMEOUT_MS);
        stub.before_read = many_hang_up_once;
        submit();
        collect_so_many(MANY);
        assert_values();
        assert_int_equal(many_counters().reconnects, 1);
        assert_int_equal(many_counters().gets, MANY);
        assert_idle();
        assert_all(MANY, MANY);
        stub_close(&handle);
    }
}

/* Those that a lost connection found under way, and those that are begun while there is none. */
static void without_a_connection_none_is_on_the_short_way(void **state)
{
    size_t accepted = 0;

    (void)state;
    handle = stub_open_lasting(MANY, 4, TIMEOUT_MS);
    stub.delay = HELD;
    assert_int_equal(okv_submit(handle, many_commands, 4, &accepted), OKV_OK);
    assert_int_equal(short_ones(), 4);
    stub.steps = 3;
    stub_hang_up();
    stub_release_events(OKV_EDISCONNECTED);
    stub.delay = 0;
    while (link_is_up(handle))
        assert_int_equal(okv_poll(handle, many_answers, 1), 0);
    assert_int_equal(short_ones(), 0);
    assert_int_equal(okv_submit(handle, many_commands + 4, MANY - 4, &accepted), OKV_OK);
    assert_int_equal(short_ones(), 0);
    collect_so_many(MANY);
    assert_values();
    assert_idle();
}

static void synchronous_gets_go_beside_them(void **state)
{
    char value[32];

    (void)state;
    handle = stub_open(MANY + 1, 4, TIMEOUT_MS);
    stub.delay = 10;
    assert_int_equal(submit(), MANY);
    assert_int_equal(okv_get_many(handle, many_commands, many_answers, 1), OKV_EAGAIN);
    assert_int_equal(
        okv_get(handle, many_keys[1], strlen(many_keys[1]), value, sizeof value, &length, NULL),
        OKV_OK);
    assert_memory_equal(value, many_keys[1], length);
    collect_so_many(MANY);
    assert_values();
    assert_idle();
    many_assert_all(0, MANY); /* of okv_get_many(), in the same slots */
}

/* READs that are under way when the server says goodbye end; the one whose image does not answer
 * begins again on the next connection. */
static void goodbye_lets_them_end(void **state)
{
    (void)state;
    handle = stub_open_lasting(MANY, 4, TIMEOUT_MS);
    stub.before_read = many_tear_odd;
    stub.delay = HELD;
    stub.reads = 0;
    assert_int_equal(submit(), MANY);
    stub.delay = 0;
    stub_goodbye();
    assert_int_equal(okv_poll(handle, many_answers, 1), 0);
    assert_false(link_is_up(handle));
    stub_release_events(0);
    collect_so_many(MANY);
    assert_values();
    assert_int_equal(many_counters().gets, MANY);
    assert_idle();
}

/* Slots that were kept for READs of a connection are free with its end. */
static void connection_ends_after_their_time(void **state)
{
    (void)state;
    handle = stub_open_lasting(MANY, 4, SHORT_MS);
    stub.delay = HELD;
    assert_int_equal(submit(), MANY);
    collect_so_many(MANY);
    stub_hang_up();
    stub_release_events(OKV_EDISCONNECTED);
    stub.delay = 0;
    handle->timeout_ns = TIMEOUT_MS * UINT64_C(1000000);
    many_write_commands();
    assert_int_equal(okv_ping(handle), OKV_OK);
    assert_all(MANY, MANY);
}

/* The slot is its READ's until that ends, whose result nobody gets. */
static void time_ends_them(void **state)
{
    (void)state;
    handle = stub_open(MANY, 4, SHORT_MS);
    stub.delay = HELD;
    assert_int_equal(submit(), MANY);
    collect_so_many(MANY);
    for (unsigned n = 0; n < MANY; n++)
        many_assert_status(n, OKV_ETIMEDOUT);
    assert_int_equal(many_counters().timeouts, MANY);
    assert_int_equal(many_counters().hits, 0);
    assert_int_equal(handle->free.count, handle->slot_count - MANY);
    stub.delay = 0;
    stub_release_events(0);
    assert_int_equal(collect_once(), 0);
    for (unsigned n = 0; n < MANY; n++)
        many_assert_status(n, OKV_ETIMEDOUT);
    handle->timeout_ns = TIMEOUT_MS * UINT64_C(1000000);
    assert_all(MANY, MANY);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, many_setup, client_teardown)
    const struct CMUnitTest tests[] = {
        TEST(images_say_how_they_end),
        TEST(results_come_however_often),
        TEST(no_more_than_the_depth_are_taken),
        TEST(those_without_room_wait_as_others_do),
        TEST(other_operations_take_the_same_slots),
        TEST(others_than_plain_gets_go_the_usual_way),
        TEST(wrong_ones_are_refused),
        TEST(torn_image_is_read_again),
        TEST(image_that_stays_torn_is_asked_for),
        TEST(item_of_a_bucket_that_was_split_is_in_the_other),
        TEST(bucket_without_a_known_segment_is_looked_up),
        TEST(extent_is_read_after_the_image_or_with_it),
        TEST(item_that_expires_takes_a_look_at_the_clock),
        TEST(further_page_of_the_bucket_is_read),
        TEST(connection_that_is_lost_ends_them),
        TEST(they_begin_again_on_the_next_connection),
        TEST(without_a_connection_none_is_on_the_short_way),
        TEST(synchronous_gets_go_beside_them),
        TEST(goodbye_lets_them_end),
        TEST(connection_ends_after_their_time),
        TEST(time_ends_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
