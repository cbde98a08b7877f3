/* Runs of pages are found where a search of all pages finds them. */
#include "server/store/pages.h"

#include <string.h>

#include "shared/base/random.h"
#include "tests/support/test.h"

#define FIRST 17u
#define END 700u /* no multiple of a word */
#define STEPS 20000u
#define LENGTH_MAX 150u

/* What each page is for. */
struct model {
    bool taken[END], closed[END];
};

static bool is_run(const struct model *model, uint64_t page, uint64_t count)
{
    for (uint64_t i = page; i < page + count; i++)
        if (model->taken[i] || model->closed[i])
            return false;
    return true;
}

/* 0: there is none. */
static uint64_t search(const struct model *model, uint64_t count, bool is_low)
{
    uint64_t found = 0;

    for (uint64_t page = FIRST; page + count <= END && !(is_low && found); page++)
        if (is_run(model, page, count))
            found = page;
    return found;
}

static void mark(bool *pages, uint64_t page, uint64_t count, bool is_so)
{
    memset(pages + page, is_so, count);
}

static void expect_available(const struct okv_pages *pages, const struct model *model)
{
    uint64_t available = 0;

    for (uint64_t page = FIRST; page < END; page++)
        available += is_run(model, page, 1);
    assert_int_equal(okv_pages_available(pages), available);
}

/* Gives a part of the run that begins at `page`, or all of it. */
static void give(struct okv_pages *pages, struct model *model, uint64_t page, uint64_t *random)
{
    uint64_t count = okv_pages_count(pages, page);
    uint64_t keep = okv_random_next(random) % 2 ? 0 : okv_random_next(random) % count;

    okv_pages_give(pages, page + keep, count - keep);
    mark(model->taken, page + keep, count - keep, false);
}

static void close_or_open(struct okv_pages *pages, struct model *model, uint64_t *random)
{
    uint64_t page = FIRST + okv_random_next(random) % (END - FIRST);

    if (pages->closed_end) {
        okv_pages_open(pages);
        mark(model->closed, 0, END, false);
    } else {
        uint64_t count = 1 + okv_random_next(random) % (END - page);
        okv_pages_close(pages, page, count);
        mark(model->closed, page, count, true);
    }
}

TEST(runs_are_those_that_a_search_finds)
{
    static struct model model;
    struct okv_pages *pages = okv_pages_create(FIRST, END);
    uint64_t random = 1, found = 0;

    assert_non_null(pages);
    expect_available(pages, &model);
    for (unsigned step = 0; step < STEPS; step++) {
        uint64_t page = FIRST + okv_random_next(&random) % (END - FIRST);
        uint64_t count = 1 + okv_random_next(&random) % (step % 2 ? 8 : LENGTH_MAX);
        bool is_fixed = okv_random_next(&random) % 2;
        if (okv_random_next(&random) % 16 == 0) {
            close_or_open(pages, &model, &random);
        } else if (okv_random_next(&random) % 2) {
            enum okv_page_kind kind = okv_pages_kind(pages, page);
            if (kind != OKV_PAGE_FREE && !okv_pages_is_rest(kind))
                give(pages, &model, page, &random);
        } else {
            uint64_t taken = okv_pages_take(pages, count, is_fixed ? OKV_PAGE_FIXED : OKV_PAGE_RUN);
            assert_int_equal(taken, search(&model, count, is_fixed));
            if (taken)
                mark(model.taken, taken, count, true);
            found += taken != 0;
        }
        expect_available(pages, &model);
    }
    assert_in_range(found, STEPS / 16, STEPS);
    okv_pages_destroy(pages);
}

TEST(a_region_of_one_page_has_one)
{
    struct okv_pages *pages = okv_pages_create(1, 2);

    assert_non_null(pages);
    assert_int_equal(okv_pages_take(pages, 2, OKV_PAGE_RUN), 0);
    assert_int_equal(okv_pages_take(pages, 1, OKV_PAGE_RUN), 1);
    assert_int_equal(okv_pages_take(pages, 1, OKV_PAGE_RUN), 0);
    okv_pages_give(pages, 1, 1);
    assert_int_equal(okv_pages_take(pages, 1, OKV_PAGE_FIXED), 1);
    okv_pages_destroy(pages);
}
