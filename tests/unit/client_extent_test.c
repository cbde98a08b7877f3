/* Values in extents over a stub transport: long ones in pieces, straight into registered
 * memory, and heads. */
#include "tests/support/test.h"

#include "client/handle.h"
#include "tests/support/pace.h"
#include "tests/support/stub_values.h"

#define OTHER (STUB_HEAP + 32768)

/* ---- destinations of values ---- */

#define EXTENT_TEST(name) TEST_WITH(name, values_setup, client_teardown)

EXTENT_TEST(values_of_all_lengths)
{
    static const uint32_t sizes[] = {1,
                                     SHORT,
                                     EXTENT_BUFFER_SIZE - 10,
                                     EXTENT_BUFFER_SIZE - 9,
                                     EXTENT_BUFFER_SIZE,
                                     EXTENT_BUFFER_SIZE + 1,
                                     EXTENT_PIECE_SIZE - 10,
                                     EXTENT_PIECE_SIZE,
                                     EXTENT_PIECE_SIZE + 1,
                                     LONG};

    for (unsigned n = 0; n < 80; n++) {
        uint32_t size = sizes[n % 10];
        bool key_in_extent = n / 10 % 2, registered = n / 20 % 2, tight = n / 40;
        values_setup(state);
        stub.max_reads = tight ? 1 : 64; /* pieces wait for each other, or not */
        values_open(OKV_HINTS_NONE, registered);
        write_value(size, key_in_extent, EXTENT);
        assert_int_equal(get_into(size), OKV_OK);
        assert_int_equal(length, size);
        assert_memory_equal(got, value, size);
        assert_true(size == LONG || got[size] == '#');
        uint64_t extent = size + (key_in_extent ? strlen(keys[0]) : 0);
        assert_int_equal(counted.read_bytes, STUB_BUCKET_SIZE + extent);
        assert_int_equal(counted.torn_extents, 0);
        values_close();
    }
}

EXTENT_TEST(pieces_go_out_together)
{
    values_open(OKV_HINTS_NONE, false);
    write_value(LONG, true, EXTENT);
    assert_got(LONG);
    assert_int_equal(counted.extent_reads, 3);
    assert_int_equal(stub.posts, 2);
    assert_got(LONG); /* the bounce buffer is used again */
    assert_int_equal(stub.registrations, 2);
}

/* ---- torn and reused ---- */

/* Any piece, and the key that is READ on its own, with and without registered memory. */
EXTENT_TEST(torn_piece_is_read_again)
{
    static const uint64_t offsets[] = {EXTENT + 2, EXTENT + 200000, EXTENT + 300000,
                                       EXTENT + LONG + 9};

    for (unsigned n = 0; n < 16; n++) {
        bool registered = n / 4 % 2, key_in_extent = n / 8;
        values_setup(state);
        values_open(OKV_HINTS_NONE, registered);
        write_value(LONG, key_in_extent, EXTENT);
        damage_begin(offsets[n % 4] - (key_in_extent || n % 4 < 3 ? 0 : 10));
        /* The bucket is the first READ; each later one may be the one that finds it wrong. */
        for (damaged_read = 2; damaged_read < 6; damaged_read++) {
            stub.reads = 0;
            assert_got(LONG);
        }
        damage_end();
        assert_int_equal(counted.torn_extents, 1);
        assert_int_equal(counted.fallbacks, 0);
        values_close();
    }
}

/* The extent is freed and used again after its bucket was READ. */
static void reuse(unsigned n)
{
    if (n != 2)
        return;
    memset(stub.region + EXTENT, 'x', LONG + 10);
    write_value(SHORT, true, STUB_HEAP);
}

EXTENT_TEST(reused_extent_is_never_returned)
{
    for (unsigned n = 0; n < 4; n++) {
        values_setup(state);
        values_open(OKV_HINTS_NONE, n % 2);
        write_value(LONG, n / 2, EXTENT);
        stub.before_read = reuse;
        assert_got(SHORT);
        assert_int_equal(counted.torn_extents, 1);
        values_close();
    }
}

/* The operation needs a larger buffer than the one that it has by then. */
static void grow(unsigned n)
{
    if (n != 2)
        return;
    stub.region[STUB_HEAP + 20] ^= 1;
    write_value(LONG, true, EXTENT);
}

EXTENT_TEST(value_grows_while_it_is_read)
{
    values_open(OKV_HINTS_NONE, false);
    for (unsigned i = 0; i < 3; i++) {
        stub.reads = 0;
        write_value(20000, true, STUB_HEAP);
        stub.before_read = grow;
        assert_got(LONG);
        assert_int_equal(counted.torn_extents, i + 1);
    }
}

EXTENT_TEST(value_longer_than_the_server_takes)
{
    stub.welcome.max_value = SHORT;
    values_open(OKV_HINTS_NONE, false);
    write_value(SHORT, false, EXTENT);
    assert_got(SHORT);
    write_value(SHORT + 1, false, EXTENT);
    assert_int_equal(get_into(LONG), OKV_EPROTO);
    assert_int_equal(okv_head(handle, keys[0], strlen(keys[0]), NULL), OKV_EPROTO);
    assert_int_equal(counted.extent_reads, 1);
}

/* Tag and lengths are the key's, the long extent is another one's. */
EXTENT_TEST(long_extent_of_another_key)
{
    for (unsigned n = 0; n < 4; n++) {
        values_setup(state);
        values_open(OKV_HINTS_NONE, n % 2);
        struct okv_entry entries[2] = {write_value(LONG, true, EXTENT), stub_inline("", "")};
        memcpy(stub.region + EXTENT, keys[1], strlen(keys[1]));
        entries[0].checksum =
            okv_extent_checksum(stub.region + EXTENT, LONG + strlen(keys[1]), STUB_BOOT);
        entries[1] = stub_inline(keys[0], "mine");
        stub_bucket(BUCKET, STUB_DEPTH, entries, 1 + n / 2);
        assert_int_equal(get_into(LONG), n / 2 ? OKV_OK : OKV_ENOTFOUND);
        assert_true(n / 2 == 0 || memcmp(got, "mine", 4) == 0);
        struct okv_item_info info;
        assert_int_equal(okv_head(handle, keys[0], strlen(keys[0]), &info),
                         n / 2 ? OKV_OK : OKV_ENOTFOUND);
        assert_true(n / 2 == 0 || info.length == 4);
        values_close();
    }
}

static bool answer_too_long(const struct stub_request *request, struct stub_reply *reply)
{
    (void)request;
    reply->message.status = OKV_ETOOSMALL;
    reply->message.value_length = 0;
    return true;
}

static unsigned bad_reads;

static void spoil_extents(unsigned n)
{
    (void)n;
    stub.region[EXTENT + 100] = (uint8_t)(value[90] ^ (bad_reads > 0));
    bad_reads -= bad_reads > 0 && stub.last_read == EXTENT;
}

/* The server has no room for the value in its answer: the client goes on by itself. */
EXTENT_TEST(value_too_long_for_an_answer)
{
    values_open(OKV_HINTS_NONE, false);
    write_value(20000, true, EXTENT);
    stub.answer = answer_too_long;
    stub.before_read = spoil_extents;
    bad_reads = 30;
    assert_got(20000);
    assert_int_equal(counted.fallbacks, 1);
    assert_int_equal(counted.torn_extents, 30);
    bad_reads = UINT32_MAX;
    assert_int_equal(get_into(LONG), OKV_ECORRUPT);
    assert_int_equal(counted.torn_extents, 30 + 63); /* and the answer counts, too */
    assert_int_equal(counted.fallbacks, 2);
    assert_string_equal(okv_why(handle), "");
}

/* ---- buffers that are too small ---- */

EXTENT_TEST(buffer_that_is_too_small)
{
    static const uint32_t sizes[] = {1, SHORT, EXTENT_BUFFER_SIZE + 1, LONG};

    for (unsigned n = 0; n < 16; n++) {
        uint32_t size = sizes[n % 4];
        bool key_in_extent = n / 4 % 2, registered = n / 8;
        values_setup(state);
        values_open(OKV_HINTS_NONE, registered);
        write_value(size, key_in_extent, EXTENT);
        assert_int_equal(get_into(size - 1), OKV_ETOOSMALL);
        assert_int_equal(length, size);
        assert_int_equal(got[0], '#');
        assert_int_equal(got[size - 1], '#');
        if (!key_in_extent)
            assert_int_equal(counted.extent_reads, 0);
        assert_true(counted.read_bytes < 3 * EXTENT_BUFFER_SIZE);
        values_close();
    }
}

/* A value goes straight to the caller only where the whole buffer is registered. */
EXTENT_TEST(buffer_half_registered)
{
    uint8_t *buffers[] = {got + 1, got, got + LONG - 20000};

    values_open(OKV_HINTS_NONE, false);
    write_value(20000, true, EXTENT);
    assert_int_equal(okv_register(handle, got + 1, LONG - 1, &registration), OKV_OK);
    for (unsigned i = 0; i < 3; i++) {
        uint64_t before = counted.extent_reads;
        assert_int_equal(
            okv_get(handle, keys[0], strlen(keys[0]), buffers[i], 20000, &length, NULL), OKV_OK);
        assert_memory_equal(buffers[i], value, 20000);
        okv_counters(handle, &counted);
        assert_int_equal(counted.extent_reads - before, i == 1 ? 1 : 2);
    }
    okv_unregister(handle, &registration);
    assert_int_equal(okv_get(handle, keys[0], strlen(keys[0]), got, 20000, &length, NULL), OKV_OK);
}

/* One that stays is found whatever went before and behind it. */
EXTENT_TEST(registrations_that_stay_are_found)
{
    okv_registration *all[3];

    values_open(OKV_HINTS_NONE, false);
    write_value(20000, true, EXTENT);
    assert_int_equal(okv_register(handle, keys, 1, &all[0]), OKV_OK);
    assert_int_equal(okv_register(handle, got, LONG, &all[1]), OKV_OK);
    assert_int_equal(okv_register(handle, keys, 1, &all[2]), OKV_OK);
    for (unsigned i = 0; i < 3; i++) {
        uint64_t before = counted.extent_reads;
        assert_int_equal(okv_get(handle, keys[0], strlen(keys[0]), got, 20000, &length, NULL),
                         OKV_OK);
        okv_counters(handle, &counted);
        assert_int_equal(counted.extent_reads - before, 2); /* key and value apart */
        if (i < 2)
            okv_unregister(handle, &all[2 - 2 * i]);
    }
    assert_int_equal(okv_register(handle, keys, 1, &all[0]), OKV_OK);
    okv_unregister(handle, &all[0]);
    okv_unregister(handle, &all[1]);
}

EXTENT_TEST(registrations_are_limited)
{
    okv_registration *all[REGISTRATIONS_MAX], *one;

    values_open(OKV_HINTS_NONE, false);
    assert_int_equal(okv_register(NULL, got, 1, &one), OKV_EINVAL);
    assert_int_equal(okv_register(handle, NULL, 1, &one), OKV_EINVAL);
    assert_int_equal(okv_register(handle, got, 0, &one), OKV_EINVAL);
    assert_int_equal(okv_register(handle, got, SIZE_MAX, &one), OKV_EINVAL);
    assert_int_equal(okv_register(handle, got, 1, NULL), OKV_EINVAL);
    for (unsigned i = 0; i < REGISTRATIONS_MAX; i++)
        assert_int_equal(okv_register(handle, got + i, 1, &all[i]), OKV_OK);
    assert_int_equal(okv_register(handle, got, 1, &one), OKV_EAGAIN);
    assert_null(one);
    okv_unregister(handle, &all[7]);
    okv_unregister(handle, &all[7]);
    okv_unregister(handle, NULL);
    stub.register_result = OKV_EPERM;
    assert_int_equal(okv_register(handle, got, 1, &one), OKV_EPERM);
    stub.register_result = 0;
    assert_int_equal(okv_register(handle, got, 1, &one), OKV_OK);
    stub_hang_up();
    assert_int_equal(okv_poll(handle, results, 1), OKV_EDISCONNECTED);
    okv_unregister(handle, &one);
    assert_int_equal(okv_register(handle, got, 1, &one), OKV_EDISCONNECTED);
    stub_close(&handle); /* takes the others with it */
}

EXTENT_TEST(no_memory_for_a_long_value)
{
    values_open(OKV_HINTS_NONE, false);
    write_value(LONG, true, EXTENT);
    stub.register_result = OKV_EPERM;
    assert_int_equal(get_into(LONG), OKV_EPERM);
    stub.register_result = 0;
    assert_got(LONG);
}

/* ---- heads ---- */

EXTENT_TEST(head_reads_no_value)
{
    static const uint32_t sizes[] = {SHORT, LONG};
    struct okv_item_info info;

    for (unsigned n = 0; n < 4; n++) {
        values_setup(state);
        values_open(OKV_HINTS_NONE, false);
        write_value(sizes[n % 2], n / 2, EXTENT);
        assert_int_equal(okv_head(handle, keys[0], strlen(keys[0]), &info), OKV_OK);
        assert_int_equal(info.length, sizes[n % 2]);
        assert_int_equal(info.version, 5);
        okv_counters(handle, &counted);
        assert_int_equal(counted.hits, 1);
        static const unsigned reads[] = {1, 1, 2, 3};
        assert_int_equal(counted.reads, reads[n]);
        assert_true(counted.read_bytes < 2 * STUB_BUCKET_SIZE + SHORT + 20);
        stub_close(&handle);
    }
}

static unsigned change_at;
static unsigned change_to;

/* What may have happened when the bucket is READ for the second time. */
static void change(unsigned n)
{
    struct okv_entry entries[2];

    if (n != change_at)
        return;
    switch (change_to) {
    case 0: /* another item of the bucket was written: this one is as it was */
        entries[0] = write_value(LONG, true, EXTENT);
        entries[1] = stub_inline(keys[1], "new");
        break;
    case 1: /* the item was */
        entries[0] = write_value(SHORT, true, OTHER);
        entries[1] = stub_inline(keys[1], "new");
        break;
    case 2: /* the item was, with the same bytes at the same offset */
        entries[0] = write_value(LONG, true, EXTENT);
        entries[0].version++;
        entries[1] = stub_inline(keys[1], "new");
        break;
    default: /* it was removed */
        entries[0] = stub_inline(keys[1], "new");
        entries[1] = stub_inline(keys[2], "new");
    }
    struct stub_image image = {.offset = stub_place(BUCKET),
                               .bucket = BUCKET,
                               .version = STUB_VERSION + 1,
                               .depth = STUB_DEPTH};
    stub_write(&image, entries, 2);
}

EXTENT_TEST(head_beside_a_writer)
{
    struct okv_item_info info;

    for (change_to = 0; change_to < 4; change_to++) {
        for (change_at = 1; change_at < 5; change_at++) {
            values_setup(state);
            values_open(OKV_HINTS_NONE, false);
            write_value(LONG, true, EXTENT);
            stub.before_read = change;
            int rc = okv_head(handle, keys[0], strlen(keys[0]), &info);
            /* Until its third READ it can't know; later it need not. */
            bool seen_change = change_at <= 3;
            assert_int_equal(rc, seen_change && change_to == 3 ? OKV_ENOTFOUND : OKV_OK);
            if (rc == OKV_OK)
                assert_int_equal(info.length, seen_change && change_to == 1 ? SHORT : LONG);
            if (change_at == 2 || change_at == 3) /* all over again, or not */
                assert_int_equal(stub.reads, change_to == 0   ? 3
                                             : change_to == 1 ? 5
                                             : change_to == 2 ? 6
                                                              : 4);
            stub_close(&handle);
        }
    }
}

/* Each waits for room once, however many of its pieces come meanwhile. */
EXTENT_TEST(pieces_of_several_values_share_the_room)
{
    static uint8_t all[4][LONG];
    struct okv_result polled[4];

    stub.max_reads = 3;
    values_open(OKV_HINTS_NONE, false);
    write_value(LONG, true, EXTENT);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(okv_submit_get(handle, keys[0], strlen(keys[0]), all[i], LONG, i), OKV_OK);
    for (unsigned ended = 0; ended < 4;) {
        stub.delay = stub.polls % 3;
        int n = okv_poll(handle, polled, 4);
        assert_in_range(n, 0, 4);
        assert_true(handle->blocked_reads.count <= handle->active);
        for (int i = 0; i < n; i++) {
            assert_int_equal(polled[i].status, OKV_OK);
            assert_memory_equal(all[polled[i].tag], value, LONG);
        }
        ended += (unsigned)n;
    }
}

/* Deadlines in the middle of pieces and of READs that a hint led to. */
EXTENT_TEST(late_pieces_keep_the_slot)
{
    for (unsigned n = 0; n < 4; n++) {
        values_setup(state);
        stub.max_reads = n % 2 ? 2 : 64;
        values_open(0, false);
        write_value(LONG, true, EXTENT);
        if (n / 2)
            assert_got(LONG); /* the hint */
        struct okv_command command = {.kind = OKV_GET,
                                      .key = keys[0],
                                      .key_length = strlen(keys[0]),
                                      .buffer = got,
                                      .buffer_size = sizeof got,
                                      .timeout_ms = pace_ms(20)};
        struct okv_result result;
        stub.delay = HELD;
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(okv_call(handle, &command, &result), OKV_ETIMEDOUT);
        assert_true(stub.reads_under_way > 0);
        while (stub.reads_under_way > 0) { /* one after the other */
            stub_release_first();
            assert_int_equal(okv_poll(handle, &result, 1), 0);
            if (stub.max_reads > 2)
                assert_got(LONG); /* elsewhere than those that are still to come */
        }
        memset(got, '#', sizeof got);
        for (unsigned i = 0; i < 9; i++) /* no slot was lost */
            assert_got(LONG);
        stub_close(&handle);
    }
}

EXTENT_TEST(connection_ends_among_pieces)
{
    for (unsigned n = 0; n < 8; n++) {
        values_setup(state);
        values_open(0, n % 2);
        write_value(LONG, true, EXTENT);
        if (n / 2 % 2)
            assert_got(LONG);
        stub.delay = HELD;
        assert_int_equal(okv_submit_get(handle, keys[0], strlen(keys[0]), got, sizeof got, 1), 0);
        if (n / 4) {
            stub_hang_up();
            collect();
            assert_int_equal(results[1].status, OKV_EDISCONNECTED);
        }
        stub_close(&handle);
    }
}
