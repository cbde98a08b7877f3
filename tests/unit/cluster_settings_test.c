/* The words of `create` and `set` (docs/protocol-admin.md). */
#include "server/copies/settings.h"

#include "shared/base/error.h"
#include "tests/support/test.h"

static struct okv_cluster_document cluster;
static struct okv_diag why;

static int begin(void **state)
{
    (void)state;
    okv_settings_init(&cluster);
    return 0;
}

#define SETTINGS_TEST(name) TEST_WITH(name, begin, NULL)

SETTINGS_TEST(what_is_not_named_stays)
{
    assert_int_equal(okv_settings_read("", &cluster, &why), 0);
    assert_int_equal(cluster.copies, 2);
    assert_int_equal(cluster.copies_min, 1);
    assert_int_equal(cluster.lease_ms, 1000);
    assert_int_equal(cluster.replace_ms, 60000);
    assert_false(cluster.shares_hosts);
    assert_int_equal(okv_settings_read(" copies=3 min_copies=2", &cluster, &why), 0);
    assert_int_equal(okv_settings_read("replace_ms=0  shares_hosts=1", &cluster, &why), 0);
    assert_int_equal(okv_settings_read("lease_ms=500", &cluster, &why), 0);
    assert_int_equal(cluster.copies, 3);
    assert_int_equal(cluster.copies_min, 2);
    assert_int_equal(cluster.lease_ms, 500);
    assert_int_equal(cluster.replace_ms, 0);
    assert_true(cluster.shares_hosts);
    assert_int_equal(okv_settings_read("shares_hosts=0", &cluster, &why), 0);
    assert_false(cluster.shares_hosts);
}

SETTINGS_TEST(words_that_make_no_sense)
{
    static const char *const words[] = {
        "copies",
        "copies=",
        "copies=x",
        "copies=2x",
        "copies= 0x2",
        "copies=-1",
        "copies=9",
        "copies=0",
        "min_copies=0",
        "min_copies=3",
        "copies=1 min_copies=2",
        "lease_ms=199",
        "lease_ms=10001",
        "replace_ms=999",
        "replace_ms=604800001",
        "shares_hosts=2",
        "leases_ms=1000",
        "copies=2,min_copies=1",
        "copies=99999999999999999999",
        "=2",
        "Copies=2",
        "shares_hosts=1 abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz=1",
    };

    for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
        okv_settings_init(&cluster);
        why.text[0] = '\0';
        if (okv_settings_read(words[i], &cluster, &why) != OKV_EINVAL || !why.text[0])
            fail_msg("%s: is taken", words[i]);
    }
}
