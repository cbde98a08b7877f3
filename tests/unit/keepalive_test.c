/* Keepalive: when a client gets a heartbeat, and when it counts as dead. */
#include "tests/support/test.h"

#include "server/session/keepalive.h"

/* Ticks without acknowledgements until the client counts as dead. A heartbeat stays unacknowledged.
 * Returns the number of the last tick. */
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

TEST(a_silent_client_is_sent_a_heartbeat)
{
    struct okv_keepalive keepalive = {.is_up = true};
    struct okv_conn conn = {.acknowledged = 0};

    for (int i = 0; i < 100; i++) {
        assert_int_equal(okv_keepalive_tick(&keepalive, &conn), OKV_KEEPALIVE_HEARTBEAT);
        conn.acknowledged++; /* at once */
        assert_int_equal(okv_keepalive_tick(&keepalive, &conn), OKV_KEEPALIVE_FINE);
    }
}

/* Traffic is a sign of life. */
TEST(a_client_with_traffic_gets_no_heartbeat)
{
    struct okv_keepalive keepalive = {.is_up = true};
    struct okv_conn conn = {.acknowledged = 0};

    for (uint64_t i = 1; i < 100; i++) {
        conn.acknowledged += i;
        conn.unacknowledged = i % 7;
        assert_int_equal(okv_keepalive_tick(&keepalive, &conn), OKV_KEEPALIVE_FINE);
    }
}

/* A client is dead at most six ticks after its last sign of life, and not before three ticks after
 * something became outstanding. */
TEST(a_dead_client_is_found_in_time)
{
    struct okv_keepalive keepalive = {.is_up = true};
    struct okv_conn conn = {.acknowledged = 5};

    assert_int_equal(okv_keepalive_tick(&keepalive, &conn), OKV_KEEPALIVE_FINE);
    assert_int_equal(ticks_until_dead(&keepalive, &conn), 1 + OKV_KEEPALIVE_TICKS / 2);
    keepalive = (struct okv_keepalive){.is_up = true};
    assert_in_range(ticks_until_dead(&keepalive, &conn), 1 + OKV_KEEPALIVE_TICKS / 2,
                    OKV_KEEPALIVE_TICKS - 1);
}

/* The client reads no replies, so something is unacknowledged at every tick. */
TEST(a_client_that_acknowledges_nothing_is_dead)
{
    struct okv_keepalive keepalive = {.is_up = true};
    struct okv_conn conn = {.unacknowledged = 3};

    for (unsigned tick = 0; tick < OKV_KEEPALIVE_TICKS / 2; tick++)
        assert_int_equal(okv_keepalive_tick(&keepalive, &conn), OKV_KEEPALIVE_FINE);
    assert_int_equal(okv_keepalive_tick(&keepalive, &conn), OKV_KEEPALIVE_DEAD);
}

TEST(a_late_acknowledgement_restarts_the_count)
{
    struct okv_keepalive keepalive = {.is_up = true};
    struct okv_conn conn = {.unacknowledged = 3};

    for (int round = 0; round < 10; round++) {
        for (unsigned tick = 0; tick < OKV_KEEPALIVE_TICKS / 2; tick++)
            assert_int_equal(okv_keepalive_tick(&keepalive, &conn), OKV_KEEPALIVE_FINE);
        conn.acknowledged++;
        assert_int_equal(okv_keepalive_tick(&keepalive, &conn), OKV_KEEPALIVE_FINE);
    }
}

/* A new client may not be ready to answer. One that never is gets no more time than others. */
TEST(a_new_client_is_not_sent_a_heartbeat_at_once)
{
    struct okv_keepalive keepalive = {.waits = 0};
    struct okv_conn conn = {.acknowledged = 0};

    for (unsigned tick = 0; tick < OKV_KEEPALIVE_GRACE; tick++)
        assert_int_equal(okv_keepalive_tick(&keepalive, &conn), OKV_KEEPALIVE_FINE);
    assert_int_equal(okv_keepalive_tick(&keepalive, &conn), OKV_KEEPALIVE_HEARTBEAT);
    assert_in_range(OKV_KEEPALIVE_GRACE, OKV_KEEPALIVE_TICKS / 3, OKV_KEEPALIVE_TICKS / 2);
    /* The first tick may come at once; the last one then comes at five sixths of the time. */
    keepalive = (struct okv_keepalive){.waits = 0};
    assert_in_range(ticks_until_dead(&keepalive, &conn), 1, OKV_KEEPALIVE_TICKS);
    /* A message or an acknowledgement shows that it is ready. */
    keepalive = (struct okv_keepalive){.is_up = true};
    conn.unacknowledged = 0;
    assert_int_equal(okv_keepalive_tick(&keepalive, &conn), OKV_KEEPALIVE_HEARTBEAT);
    keepalive = (struct okv_keepalive){.waits = 0};
    conn.acknowledged = 1;
    assert_int_equal(okv_keepalive_tick(&keepalive, &conn), OKV_KEEPALIVE_FINE);
    assert_int_equal(okv_keepalive_tick(&keepalive, &conn), OKV_KEEPALIVE_HEARTBEAT);
}
