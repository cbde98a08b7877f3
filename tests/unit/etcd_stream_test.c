/* Watches of the client of etcd, at a member that does as it is told: every fault of a stream leads
 * to another one, from the revision of a check on. */
#include "tests/support/test.h"

#include "tests/support/etcd_actor.h"
#include "tests/support/etcd_client.h"
#include "tests/support/pace.h"

#define NEVER_MS 3600000
#define HEADER "\"header\":{\"cluster_id\":\"5\",\"revision\":\"9\"}"
#define KEY(revision) "{" HEADER ",\"kvs\":[{\"key\":\"L2I=\",\"mod_revision\":\"" revision "\"}]}"
#define CREATED "{\"result\":{" HEADER ",\"created\":true}}\n"
#define EVENT(revision)                                                                          \
    "{\"result\":{" HEADER ",\"events\":[{\"kv\":{\"key\":\"L2I=\",\"mod_revision\":\"" revision \
    "\"}}]}}\n"

/* More than `times` reports, the last one of a check that was in time. */
static void await_report(struct okv_etcd *etcd, struct etcd_result *watched, unsigned times)
{
    etcd_await(etcd, watched, times);
    while (watched->status == OKV_ETIMEDOUT)
        etcd_await(etcd, watched, watched->times);
}

/* Waits until the watch reports revision 99, an event of the second stream. */
static void watch(const char *first, const struct etcd_act *checks, size_t count, uint32_t check_ms)
{
    const char *const streams[] = {first, CREATED EVENT("99"), NULL};
    struct etcd_actor actor;
    struct etcd_result watched = {0};

    etcd_actor_start(&actor, checks, count, streams);
    struct okv_etcd *etcd = etcd_client(&(struct okv_etcd_options){
        .urls = actor.url, .member_ms = PACE_GUARD_MS, .check_ms = check_ms});
    assert_int_equal(okv_etcd_watch(etcd, "/", etcd_take, &watched), OKV_OK);
    await_report(etcd, &watched, 0);
    assert_int_equal(watched.revision, 9);
    assert_int_equal(watched.count, 0);
    while (watched.revision != 99)
        await_report(etcd, &watched, watched.times);
    assert_int_equal(watched.status, OKV_OK);
    okv_etcd_destroy(&etcd);
    etcd_actor_stop(&actor);
    assert_non_null(strstr(actor.requests[0], "\"keys_only\":true"));
    assert_non_null(strstr(actor.requests[1], "POST /v3/watch"));
    assert_non_null(strstr(actor.requests[1], "\"start_revision\":\"10\""));
    assert_non_null(strstr(actor.requests[1], "hasleader: true"));
}

TEST(a_stream_that_ends_or_makes_no_sense_is_replaced)
{
    static const char *const ends[] = {
        CREATED "{\"result\":{" HEADER ",\"canceled\":true,\"compact_revision\":\"12\"}}\n",
        CREATED "{\"error\":{\"grpc_code\":14,\"message\":\"etcdserver: no leader\"}}\n",
        CREATED "garbage\n",
        CREATED "\n",
        CREATED "{\"result\":{\"header\":{\"cluster_id\":\"6\"}}}\n",
        CREATED EVENT("x"),
    };
    const struct etcd_act check = {200, KEY("4")};

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        watch(ends[i], &check, 1, NEVER_MS);
}

TEST(a_stream_that_misses_a_change_is_replaced)
{
    const struct etcd_act checks[] = {
        {200, KEY("4")}, {200, "{}"}, {200, KEY("7")}, {200, KEY("12")}};

    watch(CREATED EVENT("11"), checks, 4, pace_ms(20));
}

TEST(a_stream_that_never_begins_is_replaced)
{
    const struct etcd_act check = {200, KEY("4")};

    watch("{\"result\":", &check, 1, pace_ms(20));
}

/* The check reports what the stream does not: here a key is gone. */
TEST(a_check_sees_keys_that_go)
{
    static const struct etcd_act checks[] = {
        {200, "{" HEADER ",\"kvs\":[{\"key\":\"L2I=\",\"mod_revision\":\"4\"},"
              "{\"key\":\"L2M=\",\"mod_revision\":\"3\"}]}"},
        {200, KEY("4")},
    };
    static const char *const streams[] = {CREATED, NULL};
    struct etcd_actor actor;
    struct etcd_result watched = {0};

    etcd_actor_start(&actor, checks, 2, streams);
    struct okv_etcd *etcd = etcd_client(&(struct okv_etcd_options){
        .urls = actor.url, .member_ms = PACE_GUARD_MS, .check_ms = pace_ms(20)});
    assert_int_equal(okv_etcd_watch(etcd, "/", etcd_take, &watched), OKV_OK);
    await_report(etcd, &watched, 1);
    assert_int_equal(watched.status, OKV_OK);
    okv_etcd_destroy(&etcd);
    etcd_actor_stop(&actor);
}
