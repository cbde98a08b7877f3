/* The heap: allocation, freeing, and reuse of a full region. */
#include <sys/mman.h>

#include "tests/support/test.h"

#include "server/store/heap_range.h"
#include "server/store/owners.h"
#include "server/store/pages.h"
#include "shared/base/error.h"

#define LENGTH (4u << 20)
#define FLOOR 70000u /* not page-aligned on purpose */

struct region {
    uint8_t *base;
    struct okv_heap heap;
};

static void region_open(struct region *region)
{
    region->base = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(region->base != MAP_FAILED);
    memset(region->base, 0xee, FLOOR);
    assert_int_equal(okv_heap_init(&region->heap, region->base, FLOOR, LENGTH), 0);
}

static void region_close(struct region *region)
{
    for (unsigned i = 0; i < FLOOR; i++)
        assert_int_equal(region->base[i], 0xee);
    okv_heap_fini(&region->heap);
    munmap(region->base, LENGTH);
}

/* Allocates until the heap is full and fills each allocation with its number. Returns how many. */
static unsigned fill(struct region *region, uint64_t size, uint64_t *offsets, unsigned max)
{
    unsigned n = 0;

    for (; n < max; n++) {
        offsets[n] = okv_heap_alloc(&region->heap, size);
        if (!offsets[n])
            break;
        assert_true(offsets[n] >= FLOOR && offsets[n] + size <= LENGTH);
        memset(region->base + offsets[n], (int)(n & 0xff), size);
    }
    return n;
}

static void free_all(struct region *region, uint64_t size, const uint64_t *offsets, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        for (uint64_t at = 0; at < size; at += 13)
            assert_int_equal(region->base[offsets[i] + at], i & 0xff);
        okv_heap_free(&region->heap, offsets[i]);
    }
    assert_int_equal(okv_heap_used(&region->heap), 0);
}

TEST(init_refuses_invalid_regions)
{
    struct okv_heap heap;
    static _Alignas(4096) uint8_t memory[8192];

    assert_int_equal(okv_heap_init(&heap, memory, 0, 8192), OKV_EINVAL);
    assert_int_equal(okv_heap_init(&heap, memory, 4097, 8192), OKV_EINVAL);
    assert_int_equal(okv_heap_init(&heap, memory, 8192, 4096), OKV_EINVAL);
    assert_int_equal(okv_heap_init(&heap, memory, 4096, 100), OKV_EINVAL);
    assert_int_equal(okv_heap_init(&heap, memory, 4096, 8000), OKV_EINVAL);
}

TEST(space_comes_from_the_end)
{
    struct region region;

    region_open(&region);
    assert_int_equal(okv_heap_used(&region.heap), 0);
    assert_int_equal(okv_heap_reached(&region.heap), 0);
    uint64_t offset = okv_heap_alloc(&region.heap, 1000);
    assert_true(offset > 0);
    uint64_t reached = okv_heap_reached(&region.heap);
    assert_true(reached > 0 && offset >= LENGTH - reached);
    assert_true(okv_heap_used(&region.heap) >= 1000);
    okv_heap_free(&region.heap, offset);
    assert_int_equal(okv_heap_used(&region.heap), 0);
    assert_true(okv_heap_reached(&region.heap) >= reached);
    region_close(&region);
}

TEST(absurd_sizes_are_refused)
{
    struct region region;

    region_open(&region);
    assert_int_equal(okv_heap_alloc(&region.heap, 0), 0);
    assert_int_equal(okv_heap_alloc(&region.heap, LENGTH), 0);
    assert_int_equal(okv_heap_alloc(&region.heap, UINT64_MAX), 0);
    assert_int_equal(okv_heap_alloc(&region.heap, (uint64_t)1 << 62), 0);
    assert_int_equal(okv_heap_used(&region.heap), 0);
    region_close(&region);
}

/* After everything of one size was freed, the region serves every other size. */
TEST(a_full_region_can_be_used_by_other_sizes)
{
    static const uint64_t sizes[] = {31, 64, 300, 512, 1000, 4096, 15000, 100000, 31};
    struct region region;
    uint64_t *offsets = calloc(LENGTH / 16, sizeof *offsets);

    assert_non_null(offsets);
    region_open(&region);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned n = fill(&region, sizes[i], offsets, LENGTH / 16);
        uint64_t used = okv_heap_used(&region.heap);
        assert_true(used >= n * sizes[i] && used <= LENGTH - FLOOR);
        if (n * sizes[i] < (LENGTH - FLOOR) / 100 * 70)
            fail_msg("only %u of %llu bytes fit", n, (unsigned long long)sizes[i]);
        free_all(&region, sizes[i], offsets, n);
    }
    region_close(&region);
    free(offsets);
}

/* Freeing one allocation makes room for one of its size. */
TEST(freed_memory_is_reused_in_a_full_region)
{
    struct region region;
    uint64_t *offsets = calloc(LENGTH / 16, sizeof *offsets);

    assert_non_null(offsets);
    region_open(&region);
    unsigned n = fill(&region, 900, offsets, LENGTH / 16);
    for (unsigned i = 0; i < n; i += 7) {
        okv_heap_free(&region.heap, offsets[i]);
        offsets[i] = okv_heap_alloc(&region.heap, 900);
        assert_true(offsets[i] > 0);
        memset(region.base + offsets[i], (int)(i & 0xff), 900);
    }
    free_all(&region, 900, offsets, n);
    region_close(&region);
    free(offsets);
}

TEST(heap_size_is_what_an_allocation_takes)
{
    struct region region;

    region_open(&region);
    for (uint64_t size = 1; size < 200000; size += 1 + size / 5) {
        uint64_t offset = okv_heap_alloc(&region.heap, size);
        assert_true(offset > 0);
        assert_int_equal(okv_heap_used(&region.heap), okv_heap_size(size));
        okv_heap_free(&region.heap, offset);
    }
    region_close(&region);
}

/* An eighth of the first half of the allocations is left, and all of the second half. Only the
 * former is worth moving. */
TEST(allocations_among_holes_are_sparse)
{
    enum { COUNT = 2048 };
    struct region region;
    uint64_t offsets[COUNT];
    unsigned sparse = 0;

    region_open(&region);
    assert_int_equal(fill(&region, 300, offsets, COUNT), COUNT);
    for (unsigned i = 0; i < COUNT; i++)
        assert_false(okv_heap_is_sparse(&region.heap, offsets[i]));
    for (unsigned i = 0; i < COUNT / 2; i++)
        if (i % 8)
            okv_heap_free(&region.heap, offsets[i]);
    for (unsigned i = 0; i < COUNT / 2; i += 8)
        sparse += okv_heap_is_sparse(&region.heap, offsets[i]);
    assert_true(sparse > COUNT / 2 / 8 / 2);
    /* One slab may hold the end of the first half and the begin of the second. */
    for (unsigned i = COUNT / 2 + 64; i < COUNT; i++)
        assert_false(okv_heap_is_sparse(&region.heap, offsets[i]));
    region_close(&region);
}

TEST(heaps_are_independent)
{
    struct region a, b;

    region_open(&a);
    region_open(&b);
    uint64_t in_a = okv_heap_alloc(&a.heap, 5000);
    assert_true(in_a > 0);
    assert_int_equal(okv_heap_used(&b.heap), 0);
    uint64_t in_b = okv_heap_alloc(&b.heap, 5000);
    assert_true(in_b > 0);
    region_close(&a); /* with an allocation in it */
    memset(b.base + in_b, 1, 5000);
    okv_heap_free(&b.heap, in_b);
    region_close(&b);
}

TEST(a_pinned_allocation_waits_to_be_freed)
{
    struct region region;
    struct okv_heap_pin pin, other;

    region_open(&region);
    region.heap.wipes = true;
    uint64_t offset = okv_heap_alloc(&region.heap, OKV_HEAP_PINNED_MIN);
    uint64_t beside = okv_heap_alloc(&region.heap, OKV_HEAP_PINNED_MIN);
    uint64_t used = okv_heap_used(&region.heap);
    memset(region.base + offset, 'v', OKV_HEAP_PINNED_MIN);
    assert_true(okv_heap_pin(&region.heap, offset, &pin));
    assert_false(okv_heap_pin(&region.heap, offset, &other));
    assert_true(okv_heap_is_pinned(&region.heap, offset));
    assert_false(okv_heap_is_pinned(&region.heap, beside));
    okv_heap_free(&region.heap, beside);
    assert_int_equal(okv_heap_used(&region.heap), used / 2);
    assert_false(okv_heap_frees_later(&region.heap, 1));
    okv_heap_free(&region.heap, offset);
    uint64_t all = region.heap.length - region.heap.floor;
    assert_true(okv_heap_frees_later(&region.heap, all)); /* all else is free */
    assert_false(okv_heap_frees_later(&region.heap, all + 1));
    assert_int_equal(okv_heap_used(&region.heap), used / 2);
    assert_int_equal(region.base[offset + OKV_HEAP_PINNED_MIN - 1], 'v');
    okv_heap_unpin(&region.heap, &pin);
    assert_false(okv_heap_frees_later(&region.heap, 1));
    assert_int_equal(okv_heap_used(&region.heap), 0);
    assert_int_equal(region.base[offset + OKV_HEAP_PINNED_MIN - 1], 0);
    okv_heap_unpin(&region.heap, &pin);
    assert_false(okv_heap_is_pinned(&region.heap, offset));
    region_close(&region);
}

TEST(a_pin_without_a_free_frees_nothing)
{
    struct region region;
    struct okv_heap_pin pins[3];
    uint64_t offsets[3];

    region_open(&region);
    for (unsigned i = 0; i < 3; i++) {
        offsets[i] = okv_heap_alloc(&region.heap, OKV_HEAP_PINNED_MIN);
        assert_true(okv_heap_pin(&region.heap, offsets[i], &pins[i]));
    }
    uint64_t used = okv_heap_used(&region.heap);
    okv_heap_unpin(&region.heap, &pins[1]);
    assert_int_equal(okv_heap_used(&region.heap), used);
    assert_true(okv_heap_is_pinned(&region.heap, offsets[0]));
    assert_true(okv_heap_is_pinned(&region.heap, offsets[2]));
    region_close(&region);
}

static void expect_zeros(const uint8_t *bytes, uint64_t length)
{
    for (uint64_t i = 0; i < length; i++)
        assert_int_equal(bytes[i], 0);
}

/* It is used until it is zero, from its end on. What was freed first comes first. */
TEST(long_memory_is_wiped_in_slices)
{
    const uint64_t length = OKV_HEAP_WIPED_LATER * 2;
    struct region region;
    uint64_t offsets[3];

    region_open(&region);
    region.heap.wipes = true;
    for (unsigned i = 0; i < 3; i++) {
        offsets[i] = okv_heap_alloc(&region.heap, length);
        memset(region.base + offsets[i], 'v', length);
    }
    uint64_t used = okv_heap_used(&region.heap);
    assert_int_equal(okv_heap_wipe(&region.heap, length), 0);
    okv_heap_free(&region.heap, offsets[1]);
    okv_heap_free(&region.heap, offsets[0]);
    assert_true(okv_heap_has_unwiped(&region.heap));
    assert_int_equal(okv_heap_used(&region.heap), used);
    assert_int_equal(okv_heap_wipe(&region.heap, 10000), 8192);
    expect_zeros(region.base + offsets[1] + length - 8192, 8192);
    assert_int_equal(region.base[offsets[1] + length - 8193], 'v');
    assert_int_equal(okv_heap_wipe(&region.heap, 1), 4096);
    assert_int_equal(okv_heap_used(&region.heap), used);
    assert_int_equal(okv_heap_wipe(&region.heap, UINT64_MAX), length - 8192 - 4096);
    expect_zeros(region.base + offsets[1], length);
    assert_int_equal(okv_heap_used(&region.heap), used / 3 * 2);
    assert_true(okv_heap_has_unwiped(&region.heap));
    assert_int_equal(okv_heap_wipe(&region.heap, length), length);
    expect_zeros(region.base + offsets[0], length);
    assert_int_equal(okv_heap_used(&region.heap), used / 3);
    assert_false(okv_heap_has_unwiped(&region.heap));
    assert_int_equal(okv_heap_wipe(&region.heap, length), 0);
    assert_int_equal(region.base[offsets[2]], 'v');
    region_close(&region);
}

/* It is there for others at once, also with --wipe. */
TEST(unwritten_memory_is_not_wiped)
{
    struct region region;

    region_open(&region);
    region.heap.wipes = true;
    okv_heap_free_unwritten(&region.heap, okv_heap_alloc(&region.heap, 2 * OKV_HEAP_WIPED_LATER));
    assert_false(okv_heap_has_unwiped(&region.heap));
    assert_int_equal(okv_heap_used(&region.heap), 0);
    region_close(&region);
}

/* jemalloc has 4094 arenas. */
TEST(arenas_are_destroyed_with_their_heap)
{
    for (int i = 0; i < 6000; i++) {
        static _Alignas(4096) uint8_t memory[1 << 16];
        struct okv_heap heap;
        assert_int_equal(okv_heap_init(&heap, memory, 4096, sizeof memory), 0);
        assert_true(okv_heap_alloc(&heap, 100) > 0);
        okv_heap_fini(&heap);
    }
}

/* The arena may use a slab for another size before it gives it back. */
TEST(a_slab_of_another_size_has_no_owners)
{
    struct okv_owners *owners = okv_owners_create(8);
    const struct okv_owners_slot slot = {.offset = 1024, .length = 1024, .slab_length = 4096};
    const struct okv_owners_slot other = {.offset = 1536, .length = 512, .slab_length = 4096};

    assert_non_null(owners);
    assert_int_equal(okv_owners_slot_length(owners, 3), 0);
    okv_owners_set_slot(owners, 3, &slot, 7);
    okv_owners_set_slot(owners, 3, &other, 9);
    assert_int_equal(okv_owners_slot_length(owners, 3), 1024);
    assert_int_equal(okv_owners_get_slot(owners, 3, 1024), 7);
    assert_int_equal(okv_owners_get_slot(owners, 3, 3072), 0);
    assert_int_equal(okv_owners_get_slot(owners, 3, 1 << 20), 0);
    okv_owners_drop_slab(owners, 3);
    okv_owners_set_slot(owners, 3, &other, 9);
    assert_int_equal(okv_owners_slot_length(owners, 3), 512);
    assert_int_equal(okv_owners_get_slot(owners, 3, 1536), 9);
    okv_owners_set_run(owners, 4, 5);
    assert_int_equal(okv_owners_slot_length(owners, 4), 0);
    okv_owners_drop_slab(owners, 3);
    okv_owners_destroy(owners);
}

/* jemalloc aligns slabs to its own pages, which may be longer than those of the heap, and splits
 * and merges what it keeps. The owners of a slab's slots are found wherever it begins. */
TEST(slabs_have_owners_wherever_they_begin)
{
    enum { SLAB = 1 << 16, PAGES = SLAB / OKV_PAGE };
    struct region region;
    extent_hooks_t *hooks = &region.heap.hooks;
    bool zero = false, commit = true;

    region_open(&region);
    struct okv_pages *pages = region.heap.pages;
    assert_int_equal(okv_heap_keep_owners(&region.heap), 0);
    uint64_t available = okv_pages_available(pages);
    okv_heap_alloc(&region.heap, OKV_HEAP_SLOT_MAX + 1); /* what is below is not aligned */
    uint64_t left = okv_pages_available(pages);
    uint8_t *slab = hooks->alloc(hooks, NULL, SLAB, SLAB, &zero, &commit, 0);
    assert_non_null(slab);
    assert_int_equal((uintptr_t)slab % SLAB, 0);
    assert_int_equal(okv_pages_available(pages), left - PAGES);
    uint64_t page = (uint64_t)(slab - region.base) / OKV_PAGE;
    assert_int_equal(okv_pages_kind(pages, page), OKV_PAGE_SLAB);
    assert_int_equal(okv_pages_count(pages, page), PAGES);
    okv_heap_set_owner(&region.heap, (page + 1) * OKV_PAGE, 1024, 7);
    assert_false(hooks->split(hooks, slab, SLAB, SLAB / 2, SLAB / 2, true, 0));
    assert_int_equal(okv_pages_count(pages, page), PAGES / 2);
    assert_int_equal(okv_pages_count(pages, page + PAGES / 2), PAGES / 2);
    okv_heap_set_owner(&region.heap, (page + PAGES / 2) * OKV_PAGE, 1024, 7);
    assert_false(hooks->merge(hooks, slab, SLAB / 2, slab + SLAB / 2, SLAB / 2, true, 0));
    assert_int_equal(okv_pages_count(pages, page), PAGES);
    assert_false(hooks->dalloc(hooks, slab, SLAB, true, 0));
    assert_int_equal(okv_pages_available(pages), left);
    assert_true(left < available);
    region_close(&region);
}
