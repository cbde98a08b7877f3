#include "tests/support/etcd_client.h"

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/pace.h"

void etcd_take(void *context, const struct okv_etcd_answer *answer)
{
    struct etcd_result *result = context;

    result->times++;
    result->status = answer->status;
    snprintf(result->why, sizeof result->why, "%s", answer->why);
    result->cluster_id = answer->cluster_id;
    result->revision = answer->revision;
    result->lease = answer->lease;
    result->ttl_s = answer->ttl_s;
    result->count = answer->count;
    for (size_t i = 0; i < answer->count && i < ETCD_ITEMS; i++) {
        snprintf(result->items[i].key, ETCD_TEXT, "%s", answer->items[i].key);
        snprintf(result->items[i].value, ETCD_TEXT, "%s", (const char *)answer->items[i].value);
        result->items[i].mod_revision = answer->items[i].mod_revision;
    }
}

struct okv_etcd *etcd_client(const struct okv_etcd_options *options)
{
    struct okv_diag diag = {""};
    struct okv_etcd *etcd;

    if (okv_etcd_create(options, &etcd, &diag))
        fail_msg("%s", diag.text);
    return etcd;
}

void etcd_await(struct okv_etcd *etcd, const struct etcd_result *result, unsigned times)
{
    for (uint64_t end = pace_guard_end(); result->times <= times;) {
        if (okv_clock_ns() > end)
            fail_msg("no result; the one before: %d %s", result->status, result->why);
        assert_int_equal(okv_etcd_wait(etcd, NULL, 0, 1000), OKV_OK);
    }
}

int etcd_get(struct okv_etcd *etcd, const char *prefix, struct etcd_result *result)
{
    *result = (struct etcd_result){0};
    assert_int_equal(okv_etcd_get(etcd, prefix, PACE_GUARD_MS, etcd_take, result), OKV_OK);
    etcd_await(etcd, result, 0);
    return result->status;
}

int etcd_swap(struct okv_etcd *etcd, const char *key, uint64_t mod_revision, const char *value,
              uint64_t lease, struct etcd_result *result)
{
    const struct okv_etcd_change change = {key, mod_revision, value, value ? strlen(value) : 0,
                                           lease};

    *result = (struct etcd_result){0};
    assert_int_equal(okv_etcd_swap(etcd, &change, 1, PACE_GUARD_MS, etcd_take, result), OKV_OK);
    etcd_await(etcd, result, 0);
    return result->status;
}
