/* The pages of a region, as far as kernels differ in them. */
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
