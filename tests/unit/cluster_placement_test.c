/* Which servers are to have a copy: servers 1 to 5, on hosts that the test names, of which server 1
 * leads. */
#include "server/copies/placement.h"

#include "tests/support/test.h"

#define LEADER 1
#define WAIT_MS 60000
#define WAIT_US (WAIT_MS * UINT64_C(1000))

static struct okv_copies copies;
static struct okv_copy *const copy = &copies.of[0];
static uint64_t now;

static void run(uint64_t id, const char *host)
{
    struct okv_server_document *server = &copies.servers[copies.server_count++].of;

    *server = (struct okv_server_document){.id = id};
    snprintf(server->host, sizeof server->host, "%s", host);
}

static void stop(uint64_t id)
{
    unsigned count = 0;

    for (unsigned i = 0; i < copies.server_count; i++)
        if (copies.servers[i].of.id != id)
            copies.servers[count++] = copies.servers[i];
    copies.server_count = count;
}

static int begin(void **state)
{
    (void)state;
    memset(&copies, 0, sizeof copies);
    now = 1000000000;
    copies.id = LEADER;
    copies.cluster.copies = 2;
    copies.cluster.replace_ms = WAIT_MS;
    copy->copies = &copies;
    return 0;
}

#define PLACEMENT_TEST(name) TEST_WITH(name, begin, NULL)

/* `servers`, of which the first `in_sync` are in the set. */
static void want(unsigned in_sync, const uint64_t *servers, unsigned count)
{
    struct okv_shard_key *key = &copy->protocol.key;

    memset(key, 0, sizeof *key);
    for (unsigned i = 0; i < count; i++) {
        key->wanted[key->wanted_count++] = servers[i];
        if (i < in_sync)
            okv_key_add(key, (struct okv_member){servers[i], 1});
    }
}
#define WANT(in_sync, ...)                         \
    want(in_sync, (const uint64_t[]){__VA_ARGS__}, \
         sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

/* What becomes of the key: `servers`, or nothing is changed. */
static void expect(const uint64_t *servers, unsigned count)
{
    struct okv_shard_key key = copy->protocol.key;

    if (count == 0) {
        assert_false(okv_placement_change(copy, &key, now));
        return;
    }
    assert_true(okv_placement_change(copy, &key, now));
    assert_int_equal(key.wanted_count, count);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(key.wanted[i], servers[i]);
    copy->protocol.key = key;
}
#define EXPECT(...)                         \
    expect((const uint64_t[]){__VA_ARGS__}, \
           sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))
#define EXPECT_NOTHING() expect(NULL, 0)

PLACEMENT_TEST(a_cluster_begins_on_hosts_of_their_own)
{
    struct okv_shard_key key = {.wanted_count = 0};

    run(2, "a");
    run(3, "a");
    run(LEADER, "a");
    assert_int_equal(okv_placement_choose(&copies, &copies.cluster, &key), 2);
    assert_int_equal(key.wanted_count, 1);
    run(4, "b");
    memset(&key, 0, sizeof key);
    assert_int_equal(okv_placement_choose(&copies, &copies.cluster, &key), 0);
    assert_int_equal(key.wanted[0], LEADER);
    assert_int_equal(key.wanted[1], 4);
}

PLACEMENT_TEST(hosts_are_shared_where_there_are_too_few)
{
    struct okv_shard_key key = {.wanted_count = 0};

    copies.cluster.shares_hosts = true;
    copies.cluster.copies = 3;
    run(2, "a");
    run(LEADER, "a");
    run(4, "b");
    okv_placement_choose(&copies, &copies.cluster, &key);
    assert_int_equal(key.wanted_count, 3);
    assert_int_equal(key.wanted[1], 4);
    assert_int_equal(key.wanted[2], 2);
}

PLACEMENT_TEST(a_server_on_another_host_is_added)
{
    run(LEADER, "a");
    run(2, "a");
    WANT(1, LEADER);
    EXPECT_NOTHING();
    assert_true(okv_placement_is_settled(copy));
    run(3, "b");
    assert_false(okv_placement_is_settled(copy));
    EXPECT(LEADER, 3);
    EXPECT_NOTHING();
    assert_true(okv_placement_is_settled(copy));
}

PLACEMENT_TEST(a_server_that_is_missing_is_replaced_when_time_is_over)
{
    run(LEADER, "a");
    run(2, "b");
    run(3, "c");
    WANT(2, LEADER, 2);
    EXPECT_NOTHING();
    stop(2);
    now += 5 * WAIT_US; /* it was there until a moment ago */
    copy->absent[1].since_us = now;
    EXPECT_NOTHING();
    now += WAIT_US - 1;
    EXPECT_NOTHING();
    now++;
    EXPECT(LEADER, 3);
}

PLACEMENT_TEST(nobody_replaces_it_where_that_is_not_wanted)
{
    run(LEADER, "a");
    run(3, "c");
    WANT(1, LEADER, 2);
    copies.cluster.replace_ms = 0;
    EXPECT_NOTHING();
    now += 100 * WAIT_US;
    EXPECT_NOTHING();
}

/* It may come back to the host of the one that would take its place. */
PLACEMENT_TEST(no_server_is_added_beside_one_whose_host_is_not_known)
{
    copies.cluster.copies = 3;
    run(LEADER, "a");
    run(3, "b");
    WANT(1, LEADER, 2);
    EXPECT_NOTHING();
    run(2, "b");
    run(4, "d");
    EXPECT(LEADER, 2, 4);
}

PLACEMENT_TEST(copies_beyond_the_number_go_those_that_lag_first)
{
    run(LEADER, "a");
    run(2, "b");
    run(3, "c");
    run(4, "d");
    WANT(2, LEADER, 2, 3, 4);
    EXPECT(LEADER, 2, 3);
    EXPECT(LEADER, 2);
    EXPECT_NOTHING();
    copies.cluster.copies = 1;
    EXPECT(LEADER);
}

/* It took over before it had left the set. */
PLACEMENT_TEST(a_primary_is_wanted)
{
    run(LEADER, "a");
    run(2, "b");
    run(3, "c");
    WANT(2, 2, 3);
    EXPECT(2, LEADER);
    WANT(1, 2);
    EXPECT(2, LEADER);
}
