/* When a client is sent a heartbeat, and when it is given up, by what its device acknowledges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/session/keepalive.h"

/* Ticks for as long as the client is taken for alive and nothing comes from it; what is sent a
 * heartbeat waits from then on. Returns the number of the tick that gave it up. */
static unsigned ticks_until_dead(struct okv_keepalive *keepalive, struct okv_conn *conn)
{
    for (unsigned tick = 1; tick < 100; tick++) {
        switch (okv_keepalive_tick(keepalive, conn)) {
        case OKV_KEEPALIVE_DEAD:
            return tick;
        case OKV_KEEPALIVE_HEARTBEAT:
            conn->unacknowledged++;
            break;
        case OKV_KEEPALIVE_FINE:
            break;
        }
    }
    return 0;
}

static void a_silent_client_is_sent_a_heartbeat(void **state)
{
    struct okv_keepalive keepalive = {.is_up = true};
    struct okv_conn conn = {.acknowledged = 0};

    (void)state;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(okv_keepalive_tick(&keepalive, &conn), OKV_KEEPALIVE_HEARTBEAT);
        conn.acknowledged++; /* at once */
        assert_int_equal(okv_keepalive_tick(&keepalive, &conn), OKV_KEEPALIVE_FINE);
    }
}

/* Traffic is a sign of life: nobody that has some is sent a heartbeat. */
static void a_client_with_traffic_is_left_alone(void **state)
{
    struct okv_keepalive keepalive = {.is_up = true};
    struct okv_conn conn = {.acknowledged = 0};

    (void)state;
    for (uint64_t i = 1; i < 100; i++) {
        conn.acknowledged += i;
        conn.unacknowledged = i % 7;
        assert_int_equal(okv_keepalive_tick(&keepalive, &conn), OKV_KEEPALIVE_FINE);
    }
}

/* Wherever its last sign of life was: within the six ticks, and not before three have passed
 * since something was asked of it. */
static void a_dead_client_is_found_in_time(void **state)
{
    struct okv_keepalive keepalive = {.is_up = true};
    struct okv_conn conn = {.acknowledged = 5};

    (void)state;
    assert_int_equal(okv_keepalive_tick(&keepalive, &conn), OKV_KEEPALIVE_FINE);
    assert_int_equal(ticks_until_dead(&keepalive, &conn), 1 + OKV_KEEPALIVE_TICKS / 2);
    keepalive = (struct okv_keepalive){.is_up = true};
    assert_in_range(ticks_until_dead(&keepalive, &conn), 1 + OKV_KEEPALIVE_TICKS / 2,
                    OKV_KEEPALIVE_TICKS - 1);
}

/* It takes no reply: something waits at every tick from the first. */
static void a_client_that_acknowledges_nothing_is_given_up(void **state)
{
    struct okv_keepalive keepalive = {.is_up = true};
    struct okv_conn conn = {.unacknowledged = 3};

    (void)state;
    for (unsigned tick = 0; tick < OKV_KEEPALIVE_TICKS / 2; tick++)
        assert_int_equal(okv_keepalive_tick(&keepalive, &conn), OKV_KEEPALIVE_FINE);
    assert_int_equal(okv_keepalive_tick(&keepalive, &conn), OKV_KEEPALIVE_DEAD);
}

static void a_late_acknowledgement_begins_anew(void **state)
{
    struct okv_keepalive keepalive = {.is_up = true};
    struct okv_conn conn = {.unacknowledged = 3};

    (void)state;
    for (int round = 0; round < 10; round++) {
        for (unsigned tick = 0; tick < OKV_KEEPALIVE_TICKS / 2; tick++)
            assert_int_equal(okv_keepalive_tick(&keepalive, &conn), OKV_KEEPALIVE_FINE);
        conn.acknowledged++;
        assert_int_equal(okv_keepalive_tick(&keepalive, &conn), OKV_KEEPALIVE_FINE);
    }
}

/* It may not be ready to answer a heartbeat; but one that never is has no more time than others. */
static void a_new_client_is_not_sent_a_heartbeat_at_once(void **state)
{
    struct okv_keepalive keepalive = {.waits = 0};
    struct okv_conn conn = {.acknowledged = 0};

    (void)state;
    for (unsigned tick = 0; tick < OKV_KEEPALIVE_GRACE; tick++)
        assert_int_equal(okv_keepalive_tick(&keepalive, &conn), OKV_KEEPALIVE_FINE);
    assert_int_equal(okv_keepalive_tick(&keepalive, &conn), OKV_KEEPALIVE_HEARTBEAT);
    assert_in_range(OKV_KEEPALIVE_GRACE, OKV_KEEPALIVE_TICKS / 3, OKV_KEEPALIVE_TICKS / 2);
    /* The first tick may come at once: the last one is then at five sixths of the time. */
    keepalive = (struct okv_keepalive){.waits = 0};
    assert_in_range(ticks_until_dead(&keepalive, &conn), 1, OKV_KEEPALIVE_TICKS);
    /* What came from it, or was acknowledged by it, shows that it is ready. */
    keepalive = (struct okv_keepalive){.is_up = true};
    conn.unacknowledged = 0;
    assert_int_equal(okv_keepalive_tick(&keepalive, &conn), OKV_KEEPALIVE_HEARTBEAT);
    keepalive = (struct okv_keepalive){.waits = 0};
    conn.acknowledged = 1;
    assert_int_equal(okv_keepalive_tick(&keepalive, &conn), OKV_KEEPALIVE_FINE);
    assert_int_equal(okv_keepalive_tick(&keepalive, &conn), OKV_KEEPALIVE_HEARTBEAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_client_is_sent_a_heartbeat),
        cmocka_unit_test(a_client_with_traffic_is_left_alone),
        cmocka_unit_test(a_dead_client_is_found_in_time),
        cmocka_unit_test(a_client_that_acknowledges_nothing_is_given_up),
        cmocka_unit_test(a_new_client_is_not_sent_a_heartbeat_at_once),
        cmocka_unit_test(a_late_acknowledgement_begins_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
