/* okv_get() over a transport whose READs can end at once, a stub: how much of an image such a READ
 * brings, and that what it refuses is posted. */
#include "tests/support/test.h"

#include "tests/support/stub_gets.h"

#define LINE OKV_READ_BEGINNING
#define ITEMS 9 /* more than a line of them, and less than a bucket */

/* ---- what the transport leaves out ---- */

/* The latest READ brought so many bytes, and nobody wrote the image's others. */
static void assert_brought(uint32_t bytes)
{
    const uint8_t *image = stub.last_destination;

    assert_int_equal(stub.now_bytes, bytes);
    for (uint32_t i = bytes; i < STUB_BUCKET_SIZE; i++)
        assert_int_equal(image[i], STUB_LEFT_OUT);
}

static void get_odd(const char *key, int status)
{
    memset(gets_buffers[GETS_ODD], '#', sizeof gets_buffers[GETS_ODD]);
    assert_int_equal(okv_get(handle, key, strlen(key), gets_buffers[GETS_ODD],
                             sizeof gets_buffers[GETS_ODD], &length, NULL),
                     status);
    assert_int_equal(handle->operations_begun, 0);
    assert_int_equal(stub.posts, 0);
    assert_int_equal(gets_counters().torn_buckets, 0);
}

ON_GET_AT_ONCE(lines_behind_the_entries_do_not_matter)
{
    const char *key = gets_keys[GETS_ODD];

    gets_open(GETS);
    gets_write_odd(NULL);
    get_odd(key, OKV_ENOTFOUND);
    assert_brought(LINE);
    struct okv_entry entry = gets_item(GETS_ODD);
    gets_write_odd(&entry);
    memset(stub.region + stub_place(GETS_BUCKET) + LINE, 0x5a, STUB_BUCKET_SIZE - LINE);
    get_odd(key, OKV_OK);
    assert_memory_equal(gets_buffers[GETS_ODD], key, length);
    assert_brought(LINE);
}

/* The key is the last of so many, as far behind as they reach. */
ON_GET_AT_ONCE(lines_with_entries_are_asked_for)
{
    static char keys[ITEMS][16];
    struct okv_entry entries[ITEMS];
    uint32_t lines = 0;

    gets_open(GETS);
    for (unsigned i = 0; i < ITEMS; i++) {
        stub_key(keys[i], GETS_BUCKET, STUB_DEPTH, ITEMS - 1 - i);
        entries[i] = stub_inline(keys[i], "value");
    }
    for (unsigned count = 1; count <= ITEMS; count++) {
        stub_bucket(GETS_BUCKET, STUB_DEPTH, entries, count);
        lines = (okv_bucket_used_bytes(stub.region + stub_place(GETS_BUCKET)) + LINE - 1) / LINE;
        get_odd(keys[count - 1], OKV_OK);
        assert_int_equal(length, 5);
        assert_memory_equal(gets_buffers[GETS_ODD], "value", 5);
        assert_brought(lines * LINE);
    }
    assert_in_range(lines, 3, STUB_BUCKET_SIZE / LINE - 1);
}

/* A header that says more than there can be. */
ON_GET_AT_ONCE(lines_behind_the_bucket_are_not_asked_for)
{
    uint8_t *image = stub.region + stub_place(GETS_BUCKET);

    gets_open(GETS);
    ((struct okv_wire_bucket *)image)->used = okv_le16_of(UINT16_MAX);
    assert_int_equal(okv_get(handle, gets_keys[GETS_ODD], strlen(gets_keys[GETS_ODD]), buffer[0],
                             sizeof buffer[0], &length, NULL),
                     OKV_OK);
    assert_int_equal(length, 6); /* the server's answer */
    assert_int_equal(stub.sent, 1);
    assert_int_equal(stub.now_asked, 1);
    assert_int_equal(stub.now_bytes, STUB_BUCKET_SIZE);
    assert_int_equal(gets_counters().fallbacks, 1);
    assert_in_range(gets_counters().torn_buckets, 1, UINT32_MAX);
}

/* ---- what the transport refuses ---- */

ON_GET_AT_ONCE(refused_read_is_posted)
{
    gets_open(GETS);
    stub.now_declined = true;
    unsigned polls = stub.polls;
    gets_assert_all(GETS, GETS);
    assert_int_equal(stub.now_asked, GETS);
    assert_int_equal(stub.posts, GETS);
    assert_int_equal(stub.polls - polls, GETS);
    stub.now_declined = false;
    gets_assert_all(GETS, GETS);
    assert_int_equal(stub.posts, GETS);
    assert_int_equal(handle->operations_begun, 0);
}

/* It is for the poll, so the first READ is posted. */
ON_GET_AT_ONCE(waiting_message_is_handled)
{
    gets_open(GETS);
    stub_goodbye();
    assert_int_equal(gets_call_one(), OKV_OK);
    gets_assert_value(0, gets_keys[0]);
    assert_int_equal(stub.posts, 1);
    assert_int_equal(stub.messages_held, 0);
    assert_int_equal(gets_call_one(), OKV_ESHUTDOWN);
}
