/* The pages of a region, as far as kernels differ in them. */
#include <sys/mman.h>
#include <unistd.h>

#include "server/store/region.h"
#include "shared/base/error.h"
#include "tests/support/sysfs_tree.h"
#include "tests/support/test.h"

#define SIZE "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size"

TEST(transparent_pages_of_another_size_are_refused)
{
    struct okv_diag diag = {""};
    struct sysfs_tree tree;

    sysfs_tree_create(&tree);
    assert_int_equal(okv_region_check_transparent(tree.root, &diag), 0);
    sysfs_tree_put(&tree, SIZE, "2097152");
    assert_int_equal(okv_region_check_transparent(tree.root, &diag), 0);
    sysfs_tree_put(&tree, SIZE, "536870912");
    assert_int_equal(okv_region_check_transparent(tree.root, &diag), OKV_EUNSUPPORTED);
    assert_non_null(strstr(diag.text, "those of this kernel have 512 MiB"));
    sysfs_tree_remove(&tree);
}

/* With reserved pages or without: the region is there, and says on which. */
TEST(auto_takes_what_there_is)
{
    struct okv_region region;

    assert_int_equal(okv_region_create(4u << 20, OKV_REGION_AUTO, false, &region, NULL), 0);
    print_message("%s pages\n", okv_region_is_huge(&region) ? "huge" : "small");
    memset(region.base, 1, region.length);
    okv_region_destroy(&region);
    assert_int_equal(okv_region_create(1u << 20, OKV_REGION_AUTO, false, &region, NULL), 0);
    assert_false(okv_region_is_huge(&region));
    okv_region_destroy(&region);
}

/* Several threads have the kernel provide it. */
TEST(a_large_region_is_prefaulted)
{
    const uint64_t length = (UINT64_C(192) << 20) + (6u << 20);
    struct okv_region region;

    if ((uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) < 2 * length) {
        print_message("skipped: there are no 400 MiB of free memory\n");
        skip();
    }
    assert_int_equal(okv_region_create(length, OKV_REGION_SMALL, true, &region, NULL), 0);
    unsigned char *resident = malloc(length / 4096);
    assert_non_null(resident);
    assert_int_equal(mincore(region.base, length, resident), 0);
    for (uint64_t i = 0; i < length / 4096; i++)
        assert_int_equal(resident[i] & 1, 1);
    free(resident);
    okv_region_destroy(&region);
}
