/* Parts of values over a stub transport: inline, in short extents, and in long ones, of which only
 * the part is READ. */
#include "tests/support/test.h"

#include "client/handle.h"
#include "tests/support/stub_values.h"

static uint64_t version;

static int get_part(uint64_t offset, size_t size)
{
    memset(got, '#', sizeof got);
    int rc = okv_get_range(handle, keys[0], strlen(keys[0]), offset, got, size, &length, &version);

    okv_counters(handle, &counted);
    assert_int_equal(stub.reads_outside, 0);
    return rc;
}

/* `got` is this part of the value of `whole` bytes, and nothing behind it was written. */
static void assert_part(uint32_t whole, uint64_t offset, size_t size)
{
    size_t there = offset < whole ? whole - offset : 0, taken = size < there ? size : there;

    assert_int_equal(length, whole);
    if (taken > 0)
        assert_memory_equal(got, value + offset, taken);
    for (size_t i = taken; i < taken + 100 && i < LONG; i++)
        assert_int_equal(got[i], '#');
}

static void write_inline(const char *text)
{
    struct okv_entry entry = stub_inline(keys[0], text);

    stub_bucket(BUCKET, STUB_DEPTH, &entry, 1);
}

#define RANGE_TEST(name) TEST_WITH(name, values_setup, client_teardown)

RANGE_TEST(parts_of_all_places)
{
    static const uint32_t wholes[] = {1, SHORT, EXTENT_BUFFER_SIZE + 1, LONG};
    static const uint64_t offsets[] = {
        0, 1, 299, 16000, EXTENT_PIECE_SIZE, LONG - 1, UINT64_C(1) << 32};
    static const size_t sizes[] = {0, 1, 500, EXTENT_PIECE_SIZE + 1, LONG};

    for (unsigned n = 0; n < 4 * 7 * 5 * 8; n++) {
        uint32_t whole = wholes[n % 4];
        uint64_t offset = offsets[n / 4 % 7];
        size_t size = sizes[n / 28 % 5];
        bool key_in_extent = n / 140 % 2, registered = n / 280 % 2, tight = n / 560;
        values_setup(state);
        stub.max_reads = tight ? 1 : 64;
        values_open(0, registered); /* hints, which a part has no use for */
        write_value(whole, key_in_extent, EXTENT);
        for (unsigned i = 0; i < 2; i++) {
            assert_int_equal(get_part(offset, size), OKV_OK);
            assert_part(whole, offset, size);
            assert_int_equal(version, 5);
        }
        assert_int_equal(counted.hits, 2);
        assert_int_equal(counted.fallbacks, 0);
        if (whole > EXTENT_BUFFER_SIZE) /* no more than the part, the key and the bucket twice */
            assert_true(counted.read_bytes / 2 <= 2 * STUB_BUCKET_SIZE + 16 + size);
        values_close();
    }
}

RANGE_TEST(part_of_an_inline_value)
{
    values_open(OKV_HINTS_NONE, false);
    write_inline("abcdef");
    assert_int_equal(get_part(2, 3), OKV_OK);
    assert_memory_equal(got, "cde#", 4);
    assert_int_equal(length, 6);
    assert_int_equal(get_part(4, 100), OKV_OK);
    assert_memory_equal(got, "ef#", 3);
    assert_int_equal(get_part(6, 100), OKV_OK);
    assert_int_equal(got[0], '#');
    assert_int_equal(counted.reads, 3);
    assert_int_equal(okv_get_range(handle, keys[0], strlen(keys[0]), 0, NULL, 0, NULL, NULL),
                     OKV_OK);
    assert_int_equal(okv_get_range(handle, keys[1], strlen(keys[1]), 0, got, 1, NULL, NULL),
                     OKV_ENOTFOUND);
    values_close();
}

/* ---- beside a writer ---- */

static unsigned change_at;
static unsigned change_to;

/* The bucket as it is after `changes`. */
static void publish(struct okv_entry entry, unsigned changes)
{
    struct okv_entry entries[] = {entry, stub_inline(keys[1], "new")};
    struct stub_image image = {.offset = stub_place(BUCKET),
                               .bucket = BUCKET,
                               .version = STUB_VERSION + changes,
                               .depth = STUB_DEPTH};

    stub_write(&image, entries, 2);
}

static void change(unsigned n)
{
    bool is_time = n == change_at;

    if (change_to == 0 && is_time) { /* another item of the bucket was written */
        publish(write_value(LONG, true, EXTENT), 1);
    } else if (change_to == 1 && is_time) { /* the item was */
        publish(write_value(SHORT, true, STUB_HEAP), 1);
        memset(stub.region + EXTENT, 'x', LONG);
    } else if (change_to == 2 && is_time) { /* it was removed, and its place used again */
        publish(stub_inline(keys[2], "new"), 1);
        memset(stub.region + EXTENT, 'x', LONG);
    } else if (change_to == 3 && is_time) { /* it was moved away, */
        memset(stub.region + EXTENT + 10, 'x', LONG);
    } else if (change_to == 3 && n == change_at + 1) { /* and came back */
        publish(write_value(LONG, true, EXTENT), 2);
    }
}

RANGE_TEST(part_beside_a_writer)
{
    for (unsigned n = 0; n < 4 * 5 * 2; n++) {
        change_to = n % 4;
        change_at = 1 + n / 4 % 5;
        values_setup(state);
        values_open(OKV_HINTS_NONE, n / 20);
        write_value(LONG, true, EXTENT);
        stub.before_read = change;
        /* Bucket, key, part, bucket. */
        int rc = get_part(100000, 5000);
        bool is_seen = change_at <= 4;
        assert_int_equal(rc, is_seen && change_to == 2 ? OKV_ENOTFOUND : OKV_OK);
        if (rc == OKV_OK && is_seen && change_to == 1)
            assert_int_equal(length, SHORT); /* and no part */
        else if (rc == OKV_OK)
            assert_part(LONG, 100000, 5000);
        stub.before_read = NULL;
        values_close();
    }
}

static void write_each_time(unsigned n)
{
    publish(write_value(LONG, true, EXTENT), n);
}

/* A bucket that always changes confirms nothing: the whole value has a checksum. */
RANGE_TEST(part_of_a_busy_bucket)
{
    values_open(OKV_HINTS_NONE, false);
    write_value(LONG, true, EXTENT);
    stub.before_read = write_each_time;
    assert_int_equal(get_part(300000, 50), OKV_OK);
    assert_part(LONG, 300000, 50);
    assert_int_equal(counted.fallbacks, 0);
    assert_true(counted.read_bytes > LONG);
    /* Not straight to a buffer that would take all of it. */
    assert_int_equal(okv_register(handle, got, sizeof got, &registration), OKV_OK);
    assert_int_equal(get_part(300000, LONG), OKV_OK);
    assert_part(LONG, 300000, LONG);
    stub.before_read = NULL;
    values_close();
}

/* The tag and the lengths are the key's, the long extent is another one's. */
RANGE_TEST(part_of_another_key)
{
    values_open(OKV_HINTS_NONE, false);
    write_value(LONG, true, EXTENT);
    memcpy(stub.region + EXTENT, keys[1], strlen(keys[1]));
    assert_int_equal(get_part(300000, 50), OKV_ENOTFOUND);
    values_close();
}

static bool answer_with_the_value(const struct stub_request *request, struct stub_reply *reply)
{
    assert_int_equal(request->message.opcode, OKV_OP_GET);
    assert_int_equal(request->message.argument, 0);
    reply->message.value = (const uint8_t *)value;
    reply->message.value_length = SHORT;
    reply->message.version = 9;
    return true;
}

RANGE_TEST(part_of_an_answer)
{
    static const uint64_t offsets[] = {0, 200, SHORT, UINT64_MAX};

    values_open(OKV_HINTS_NONE, false);
    stub.answer = answer_with_the_value;
    for (unsigned n = 0; n < 4; n++) {
        write_value(SHORT, true, EXTENT);
        stub.region[EXTENT + 100] ^= 1;
        assert_int_equal(get_part(offsets[n], 150), OKV_OK);
        assert_part(SHORT, offsets[n], 150);
        assert_int_equal(version, 9);
        assert_int_equal(counted.fallbacks, n + 1);
    }
    values_close();
}

RANGE_TEST(no_memory_for_a_part)
{
    values_open(OKV_HINTS_NONE, false);
    write_value(LONG, true, EXTENT);
    stub.register_result = OKV_EPERM;
    assert_int_equal(get_part(1, 20000), OKV_EPERM);
    stub.register_result = 0;
    assert_int_equal(get_part(1, 20000), OKV_OK);
    assert_part(LONG, 1, 20000);
    values_close();
}

RANGE_TEST(many_parts_at_once)
{
    enum { PARTS = 10, PART = LONG / PARTS };
    struct okv_command commands[PARTS];
    struct okv_result parts[PARTS];

    values_open(OKV_HINTS_NONE, true);
    write_value(LONG, false, EXTENT);
    for (unsigned i = 0; i < PARTS; i++)
        commands[i] = (struct okv_command){.kind = OKV_GET_RANGE,
                                           .key = keys[0],
                                           .key_length = strlen(keys[0]),
                                           .buffer = got + (size_t)i * PART,
                                           .buffer_size = PART,
                                           .offset = (uint64_t)i * PART};
    assert_int_equal(okv_call_many(handle, commands, parts, PARTS), OKV_OK);
    for (unsigned i = 0; i < PARTS; i++) {
        assert_int_equal(parts[i].status, OKV_OK);
        assert_int_equal(parts[i].length, LONG);
        assert_int_equal(parts[i].version, 5);
    }
    assert_memory_equal(got, value, LONG);
    values_close();
}
