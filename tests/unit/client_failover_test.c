/* A primary among several servers that no longer serves: when the client goes on to another. */
#include "tests/support/test.h"

#include "client/handle.h"
#include "shared/base/clock.h"
#include "tests/support/pace.h"
#include "tests/support/stub_lease.h"

static unsigned moved_at; /* the connect that finds the next primary; earlier ones find a copy */

static void before_connect(const struct okv_uri *uri)
{
    (void)uri;
    stub.welcome.lease_clock_us = server_us();
    stub.welcome.valid_until_us = stub.connects < moved_at ? 0 : server_us() + LEASE_MS * 1000;
    if (stub.connects != moved_at || moved_at == 1)
        return;
    stub.welcome.epoch = EPOCH + 1;
    publish(stub.welcome.valid_until_us, EPOCH + 1);
}

/* The handle has two servers, and is connected to the only one that lets it in. */
static void open_two_with(uint32_t timeout_ms, uint32_t keepalive_ms)
{
    const struct okv_options options = {.depth = 4,
                                        .credits = 4,
                                        .timeout_ms = timeout_ms,
                                        .hints = OKV_HINTS_NONE,
                                        .keepalive_ms = keepalive_ms};

    stub.welcome.credits = 4;
    stub.before_connect = before_connect;
    moved_at = 1;
    assert_int_equal(okv_open("okv://a,b/n", &options, &handle, NULL, 0), OKV_OK);
    stub.reads = stub.connects = 0;
    moved_at = 2;
}

static void open_two(uint32_t timeout_ms)
{
    open_two_with(timeout_ms, 200);
}

static struct okv_info info_of(void)
{
    struct okv_info info;

    okv_info(handle, &info);
    return info;
}

LEASE_TEST(the_handle_tells_epoch_and_lease)
{
    open_two(PACE_GUARD_MS);
    assert_int_equal(info_of().epoch, EPOCH);
    assert_in_range(info_of().lease_ms, LEASE_MS / 2, LEASE_MS);
    pass_ms(LEASE_MS / 2);
    assert_in_range(info_of().lease_ms, 1, LEASE_MS / 2);
    pass_ms(LEASE_MS);
    assert_int_equal(info_of().lease_ms, 0);
}

/* A status takes a while. */
static void after_read(unsigned n)
{
    (void)n;
    pass_ms(LEASE_MS / 5);
}

/* It goes on serving READs. */
LEASE_TEST(a_server_that_stopped_is_left_after_a_lease_more)
{
    write_inline();
    open_two(PACE_GUARD_MS);
    assert_int_equal(call_get(), OKV_OK);
    pass_ms(LEASE_MS);
    stub.after_read = after_read;
    uint64_t begun_ns = lease_ns;
    assert_int_equal(call_get(), OKV_OK);
    assert_true(lease_ns - begun_ns >= LEASE_MS * 3 / 4 * UINT64_C(1000000));
    assert_int_equal(info_of().epoch, EPOCH + 1);
    assert_int_equal(stub.connects, moved_at);
}

LEASE_TEST(a_server_that_stopped_is_left_by_who_only_writes)
{
    open_two(PACE_GUARD_MS);
    stub.after_read = after_read;
    stub.answer = no_answer;
    put_submit(0);
    pass_ms(LEASE_MS);
    for (uint64_t until = pace_guard_end(); stub.connects == 0 && okv_clock_ns() < until;)
        collect_once();
    stub.answer = lease_answer;
    collect();
    assert_int_equal(results[0].status, OKV_EUNKNOWN); /* the stub's next server does not resume */
    assert_int_equal(info_of().epoch, EPOCH + 1);
}

/* As over TCP. */
LEASE_TEST(a_server_that_stopped_and_serves_no_reads_is_left)
{
    write_inline();
    open_two(PACE_GUARD_MS);
    stub.delay = HELD;
    get_submit(0);
    for (uint64_t until = pace_guard_end(); stub.connects == 0 && okv_clock_ns() < until;) {
        pass_ms(10);
        pace_sleep_ms(1);
        collect_once();
    }
    stub.delay = 0;
    collect();
    assert_int_equal(results[0].status, OKV_ENOTFOUND);
    assert_int_equal(info_of().epoch, EPOCH + 1);
}

LEASE_TEST(a_server_that_renews_late_is_kept)
{
    write_inline();
    open_two(PACE_GUARD_MS);
    for (unsigned i = 0; i < 5; i++) {
        pass_ms(5 * LEASE_MS); /* idle */
        renew();
        assert_int_equal(call_get(), OKV_OK);
        pass_ms(LEASE_MS + LEASE_MS / 2);
        ends_at = stub.reads + 1;
        renews = true;
        assert_int_equal(call_get(), OKV_OK);
        ends_at = 0;
    }
    assert_int_equal(stub.connects, 0);
}

/* Puts after as much time each, whose answers come when the status was READ. */
static void put_now_and_then(uint32_t idle_ms)
{
    stub.answer = no_answer;
    for (unsigned i = 0; i < 3; i++) {
        pass_ms(idle_ms);
        renew();
        put_submit(i);
        stub.reads = 0;
        for (uint64_t until = pace_guard_end(); stub.reads == 0 && okv_clock_ns() < until;)
            collect_once();
        struct stub_reply late = stub_reply_to(stub.sent - 1);
        stub_say(&late);
        collect();
        assert_int_equal(results[i].status, OKV_OK);
    }
    assert_int_equal(stub.connects, 0);
}

/* While the handle was idle, nothing looked after the lease. */
LEASE_TEST(a_server_is_asked_before_it_is_left)
{
    open_two(PACE_GUARD_MS);
    put_now_and_then(5 * LEASE_MS);
}

/* Each look at the lease finds that it has ended, and each status READ that it was renewed. */
LEASE_TEST(a_server_is_kept_by_who_writes_now_and_then)
{
    open_two_with(PACE_GUARD_MS, 2 * LEASE_MS);
    put_now_and_then(2 * LEASE_MS + LEASE_MS / 4);
}

LEASE_TEST(who_observes_a_copy_stays)
{
    const struct okv_options options = {
        .depth = 4, .credits = 4, .timeout_ms = PACE_GUARD_MS, .keepalive_ms = 200, .observe = 1};

    stub.welcome.credits = 4;
    stub.welcome.features |= OKV_FEATURE_OBSERVE;
    stub.welcome.valid_until_us = 0;
    publish(0, EPOCH);
    assert_int_equal(okv_open("okv://a,b/n", &options, &handle, NULL, 0), OKV_OK);
    stub.connects = 0;
    stub.answer = no_answer;
    assert_int_equal(okv_submit_ping(handle, 0), OKV_OK);
    for (uint64_t until = okv_clock_ns() + pace_ms(100) * UINT64_C(1000000);
         okv_clock_ns() < until;) {
        pass_ms(10);
        pace_sleep_ms(1);
        collect_once();
    }
    assert_int_equal(stub.connects, 0);
}

/* It has handed over. */
LEASE_TEST(a_server_that_is_no_primary_any_more_is_left_at_once)
{
    write_inline();
    open_two(PACE_GUARD_MS);
    pass_ms(LEASE_MS);
    publish(0, EPOCH);
    uint64_t begun_ns = lease_ns;
    assert_int_equal(call_get(), OKV_OK);
    assert_int_equal(info_of().epoch, EPOCH + 1);
    assert_int_equal(lease_ns, begun_ns);
}
