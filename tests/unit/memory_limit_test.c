/* The limit on memory of a control group, and what a start makes of it. */
#include "tests/support/test.h"

#include "server/store/region.h"
#include "shared/base/error.h"
#include "shared/base/memory_limit.h"
#include "tests/support/sysfs_tree.h"

#define MIB (UINT64_C(1) << 20)

static int tree_create(void **state)
{
    struct sysfs_tree *tree = calloc(1, sizeof *tree);

    assert_non_null(tree);
    sysfs_tree_create(tree);
    *state = tree;
    return 0;
}

static int tree_remove(void **state)
{
    sysfs_tree_remove(*state);
    free(*state);
    return 0;
}

#define TREE_TEST(name) TEST_WITH(name, tree_create, tree_remove)

static void expect_limit(const struct sysfs_tree *tree, uint64_t expected)
{
    uint64_t bytes;

    assert_true(okv_memory_limit(tree->root, &bytes));
    assert_int_equal(bytes, expected);
}

TREE_TEST(no_group_and_no_limit)
{
    const struct sysfs_tree *tree = *state;
    uint64_t bytes;

    assert_false(okv_memory_limit(tree->root, &bytes));
    sysfs_tree_put(tree, "/proc/self/cgroup", "0::/user.slice/okv.service");
    assert_false(okv_memory_limit(tree->root, &bytes));
    sysfs_tree_put(tree, "/sys/fs/cgroup/user.slice/okv.service/memory.max", "max");
    assert_false(okv_memory_limit(tree->root, &bytes));
    sysfs_tree_put(tree, "/proc/self/cgroup", "4:memory:/okv");
    sysfs_tree_put(tree, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
    assert_false(okv_memory_limit(tree->root, &bytes));
}

TREE_TEST(the_lowest_limit_from_the_own_group_upwards)
{
    const struct sysfs_tree *tree = *state;

    sysfs_tree_put(tree, "/proc/self/cgroup", "0::/user.slice/okv.service");
    sysfs_tree_put(tree, "/sys/fs/cgroup/user.slice/okv.service/memory.max", "67108864");
    expect_limit(tree, 64 * MIB);
    sysfs_tree_put(tree, "/sys/fs/cgroup/user.slice/memory.max", "33554432");
    expect_limit(tree, 32 * MIB);
    sysfs_tree_put(tree, "/sys/fs/cgroup/memory.max", "1073741824");
    expect_limit(tree, 32 * MIB);
}

/* The path is that of the host there. */
TREE_TEST(in_a_container_the_group_is_at_the_top)
{
    const struct sysfs_tree *tree = *state;

    sysfs_tree_put(tree, "/proc/self/cgroup", "4:memory:/docker/0123");
    sysfs_tree_put(tree, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "16777216");
    expect_limit(tree, 16 * MIB);
}

TEST(a_start_beyond_the_limit_is_refused)
{
    struct okv_diag diag = {.text = ""};

    assert_int_equal(okv_region_check(16 * MIB, 16 * MIB, &diag), 0);
    assert_int_equal(okv_region_check(16 * MIB, UINT64_MAX, &diag), 0);
    assert_int_equal(okv_region_check(17 * MIB, 16 * MIB, &diag), OKV_ENOMEM);
    assert_non_null(
        strstr(diag.text, "17 MiB in all do not fit the 16 MiB that the control group"));
    assert_int_equal(okv_region_check(UINT64_MAX, UINT64_MAX, &diag), OKV_ENOMEM);
    assert_non_null(strstr(diag.text, "of this machine"));
}
