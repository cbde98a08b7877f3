/* Records of heat: cells, their counters, and ghosts. */
#include "server/store/heat.h"

#include "tests/support/test.h"

#define BUCKETS 8
#define BUCKET 5

/* The low byte is the print of a ghost. */
static uint16_t tag_of(unsigned high, unsigned print)
{
    return (uint16_t)(high << 8 | print);
}

/* Two of them have a byte in common. */
static uint16_t nth_tag(unsigned i)
{
    return tag_of(i / 2 + 1, i % 2);
}

static void store_items(const struct okv_heat *heat, unsigned count, uint8_t item)
{
    uint8_t record[OKV_HEAT_RECORD_MAX];

    okv_heat_begin(heat, record, BUCKET);
    okv_heat_clear(heat, record);
    for (unsigned i = 0; i < count; i++)
        okv_heat_add(heat, record, nth_tag(i), item);
    okv_heat_store(heat, record, BUCKET);
}

TEST(items_have_cells_of_their_own)
{
    static const uint32_t sizes[] = {256, 512, 1024, 2048, 4096};

    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct okv_heat *heat;
        heat = okv_heat_create(BUCKETS, sizes[s]);
        assert_non_null(heat);
        assert_true(heat->stride <= OKV_HEAT_RECORD_MAX);
        store_items(heat, heat->cells, okv_heat_make(OKV_HEAT_NEW, 0));
        okv_heat_mark(heat, BUCKET, nth_tag(2));
        for (unsigned i = 0; i < heat->cells; i++)
            assert_int_equal(okv_heat_of(heat, BUCKET, nth_tag(i)), i == 2);
        assert_int_equal(okv_heat_of(heat, BUCKET - 1, nth_tag(2)), 0);
        assert_int_equal(okv_heat_of(heat, BUCKET + 1, nth_tag(2)), 0);
        okv_heat_destroy(heat);
    }
}

TEST(a_counter_has_an_end)
{
    struct okv_heat *heat;

    heat = okv_heat_create(BUCKETS, 512);
    assert_non_null(heat);
    store_items(heat, 2, okv_heat_make(OKV_HEAT_MAIN, 1));
    for (unsigned i = 1; i < 10; i++) {
        uint8_t item = okv_heat_of(heat, BUCKET, nth_tag(1));
        assert_int_equal(okv_heat_kind_of(item), OKV_HEAT_MAIN);
        assert_int_equal(okv_heat_counter_of(item), i < 3 ? i : 3);
        assert_int_equal(okv_heat_is_quiet(item), i >= 2);
        okv_heat_mark(heat, BUCKET, nth_tag(1));
    }
    assert_int_equal(okv_heat_of(heat, BUCKET, nth_tag(0)), okv_heat_make(OKV_HEAT_MAIN, 1));
    okv_heat_destroy(heat);
}

/* More items than cells share some: the hottest counts, and what is read is what was added. */
TEST(items_without_a_cell_share_one)
{
    struct okv_heat *heat;
    uint8_t record[OKV_HEAT_RECORD_MAX];

    heat = okv_heat_create(BUCKETS, 512);
    assert_non_null(heat);
    okv_heat_begin(heat, record, BUCKET);
    okv_heat_clear(heat, record);
    for (unsigned i = 0; i < heat->cells; i++)
        okv_heat_add(heat, record, tag_of(i + 1, 0), okv_heat_make(OKV_HEAT_NEW, 0));
    okv_heat_add(heat, record, tag_of(200, 7), okv_heat_make(OKV_HEAT_MAIN, 2));
    assert_int_equal(okv_heat_added(heat, record, tag_of(200, 7)), okv_heat_make(OKV_HEAT_MAIN, 2));
    okv_heat_store(heat, record, BUCKET);
    unsigned shared = 0;
    for (unsigned i = 0; i < heat->cells; i++)
        shared += okv_heat_of(heat, BUCKET, tag_of(i + 1, 0)) != 0;
    assert_int_equal(shared, 1);
    okv_heat_destroy(heat);
}

/* Clients report hits of items that have gone, or never were. */
TEST(a_mark_of_what_is_not_there_heats_no_other)
{
    struct okv_heat *heat;

    heat = okv_heat_create(BUCKETS, 512);
    assert_non_null(heat);
    store_items(heat, heat->cells - 1, okv_heat_make(OKV_HEAT_NEW, 0));
    for (unsigned print = 0; print < 256; print++)
        okv_heat_mark(heat, BUCKET, tag_of(200, print));
    for (unsigned i = 0; i < heat->cells; i++)
        assert_int_equal(okv_heat_of(heat, BUCKET, tag_of(i + 1, 0)), 0);
    okv_heat_destroy(heat);
}

TEST(ghosts_stay_until_others_take_their_place)
{
    struct okv_heat *heat;
    uint8_t record[OKV_HEAT_RECORD_MAX];

    heat = okv_heat_create(BUCKETS, 512);
    assert_non_null(heat);
    const unsigned ghosts = heat->cells / 2 - 2;
    for (unsigned i = 0; i < 3 * ghosts; i++) {
        okv_heat_begin(heat, record, BUCKET);
        okv_heat_clear(heat, record);
        okv_heat_add_ghost(heat, record, tag_of(0, i + 1));
        okv_heat_store(heat, record, BUCKET);
        for (unsigned k = 0; k < 3 * ghosts; k++)
            assert_int_equal(okv_heat_kind_of(okv_heat_of_new(heat, BUCKET, tag_of(9, k + 1))),
                             k <= i && k + ghosts > i ? OKV_HEAT_MAIN : OKV_HEAT_NEW);
    }
    assert_int_equal(okv_heat_of_new(heat, BUCKET + 1, tag_of(9, 1)), 0);
    okv_heat_destroy(heat);
}
