/* Structures that grow, over a stub transport: programs that know less of them than the library,
 * and programs that know more. */
#include "tests/support/test.h"

#include "tests/support/stub_client.h"

#define LENGTH_OF(array) (sizeof(array) / sizeof *(array))
#define UNTOUCHED 0xa5

/* What a newer okv.h has behind what this one has. */
struct newer_info {
    struct okv_info known;
    uint64_t added[3];
};

struct newer_counters {
    struct okv_counters known;
    uint64_t added[3];
};

static int open_used(void **state)
{
    client_setup(state);
    handle = stub_open(8, 4, 60000);
    assert_int_equal(okv_ping(handle), OKV_OK);
    assert_int_equal(get(), OKV_ENOTFOUND);
    return 0;
}

#define GROWTH_TEST(name) TEST_WITH(name, open_used, client_teardown)

/* An older program has room for the fields in front of `size`, and for no more. */
GROWTH_TEST(older_info)
{
    const size_t size = offsetof(struct okv_info, max_message_value);
    struct okv_info all, older;

    okv_info(handle, &all);
    memset(&older, UNTOUCHED, sizeof older);
    okv_info_sized(handle, &older, size);
    assert_memory_equal(&older, &all, size);
    for (size_t i = size; i < sizeof older; i++)
        assert_int_equal(((uint8_t *)&older)[i], UNTOUCHED);
}

GROWTH_TEST(newer_info)
{
    struct okv_info all;
    struct newer_info newer;

    okv_info(handle, &all);
    memset(&newer, UNTOUCHED, sizeof newer);
    okv_info_sized(handle, &newer.known, sizeof newer);
    assert_memory_equal(&newer.known, &all, sizeof all);
    assert_int_equal(newer.known.depth, 8);
    for (unsigned i = 0; i < LENGTH_OF(newer.added); i++)
        assert_int_equal(newer.added[i], 0);
}

GROWTH_TEST(older_counters)
{
    const size_t size = offsetof(struct okv_counters, torn_buckets);
    struct okv_counters all, older;

    okv_counters(handle, &all);
    memset(&older, UNTOUCHED, sizeof older);
    okv_counters_sized(handle, &older, size);
    assert_memory_equal(&older, &all, size);
    for (size_t i = size; i < sizeof older; i++)
        assert_int_equal(((uint8_t *)&older)[i], UNTOUCHED);
}

GROWTH_TEST(newer_counters)
{
    struct okv_counters all;
    struct newer_counters newer;

    okv_counters(handle, &all);
    memset(&newer, UNTOUCHED, sizeof newer);
    okv_counters_sized(handle, &newer.known, sizeof newer);
    assert_memory_equal(&newer.known, &all, sizeof all);
    assert_int_equal(newer.known.gets, 1);
    assert_int_equal(newer.known.requests, 1);
    for (unsigned i = 0; i < LENGTH_OF(newer.added); i++)
        assert_int_equal(newer.added[i], 0);
}

static void assert_zero(const uint64_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(words[i], 0);
}

static int visit(void *user, const struct okv_item *item)
{
    unsigned *visited = user;

    assert_zero(item->reserved, LENGTH_OF(item->reserved));
    ++*visited;
    return 0;
}

/* What a newer program finds in fields that this library does not know. */
GROWTH_TEST(results_are_zero_where_reserved)
{
    static char key[16];
    struct okv_command commands[] = {{.kind = OKV_GET, .key = key, .key_length = 10},
                                     {.kind = OKV_HEAD, .key = key, .key_length = 10},
                                     {.kind = OKV_GET, .key = "key"}};
    struct okv_result many[LENGTH_OF(commands)];
    struct okv_item_info info;
    unsigned visited = 0;

    stub_key(key, 1, STUB_DEPTH, 0);
    struct okv_entry entry = stub_inline(key, "value");
    stub_bucket(1, STUB_DEPTH, &entry, 1);

    memset(many, UNTOUCHED, sizeof many);
    assert_int_equal(okv_call_many(handle, commands, many, LENGTH_OF(commands)), OKV_OK);
    assert_int_equal(many[1].status, OKV_OK);
    for (unsigned i = 0; i < LENGTH_OF(many); i++) {
        assert_int_equal(many[i].reserved, 0);
        assert_zero(many[i].reserved2, LENGTH_OF(many[i].reserved2));
    }
    memset(&info, UNTOUCHED, sizeof info);
    assert_int_equal(okv_head(handle, key, 10, &info), OKV_OK);
    assert_zero(info.reserved, LENGTH_OF(info.reserved));
    assert_int_equal(okv_scan(handle, visit, &visited), OKV_OK);
    assert_int_equal(visited, 1);

    memset(many, UNTOUCHED, sizeof many);
    assert_int_equal(okv_submit(handle, commands, 2, NULL), OKV_OK);
    for (unsigned ended = 0; ended < 2;)
        ended += (unsigned)okv_poll(handle, many + ended, 2);
    for (unsigned i = 0; i < 2; i++)
        assert_zero(many[i].reserved2, LENGTH_OF(many[i].reserved2));
}
