/* Hits of clients: what they raise, and what is refused. */
#include "tests/support/test.h"

#include "server/store/heat.h"
#include "shared/format/hash.h"
#include "shared/format/hits.h"
#include "tests/support/session_fixture.h"

static int setup(void **state)
{
    const struct okv_store_params params = {
        .length = UINT64_C(1) << 20, .max_value = 1000, .full = OKV_STORE_EVICT};
    int rc = fixture_setup_with(state, &params);
    struct fixture *fixture = *state;

    fixture->clients[0].session->common.reports_hits = true;
    fixture->worker.sessions->now_ns = UINT64_C(1000000000);
    return rc;
}

static void arrive(struct fixture *fixture, unsigned number, uint64_t sequence, const void *value,
                   size_t length)
{
    const struct okv_request_message request = {.opcode = OKV_OP_HITS,
                                                .slot = 1,
                                                .sequence = sequence,
                                                .value = value,
                                                .value_length = (uint32_t)length};
    fixture_arrive_as(fixture, &fixture->clients[number], &request);
    fixture_next_pass(fixture); /* a pass serves few such messages */
}

#define FIXTURE_TEST(name) TEST_WITH(name, setup, fixture_teardown)

FIXTURE_TEST(hits_raise_counters)
{
    struct fixture *fixture = *state;
    struct okv_store *store = &fixture->core.database->store;
    okv_le64 hashes[OKV_HITS_MAX] = {{{0}}};

    server_core_put(&fixture->core, "key", 'v', 10, 0);
    uint64_t hash = okv_hash_key("key", 3, store->table.hash_seed);
    uint64_t bucket = okv_linear_bucket(hash, store->bucket_count);
    for (unsigned i = 0; i < OKV_HITS_MAX; i++)
        hashes[i] = okv_le64_of(i % 100 == 1 ? hash : i); /* others are not there */
    uint8_t before = okv_heat_of(store->table.heat, bucket, okv_hash_tag(hash));
    arrive(fixture, 0, 1, hashes, sizeof hashes[0]);
    assert_int_equal(okv_heat_of(store->table.heat, bucket, okv_hash_tag(hash)), before);
    arrive(fixture, 0, 2, hashes, sizeof hashes);
    uint8_t after = okv_heat_of(store->table.heat, bucket, okv_hash_tag(hash));
    assert_int_equal(okv_heat_counter_of(after), 3);
    assert_int_equal(okv_heat_kind_of(after), okv_heat_kind_of(before));
    assert_int_equal(fixture->clients[0].posted, 2);
    assert_int_equal(fixture->clients[0].replies[1].status, OKV_OK);
    assert_int_equal(fixture->clients[0].replies[1].value_length, sizeof(struct okv_wire_hits));
    assert_int_equal(stat_of(&fixture->core.database->counts.client_marks), 1 + OKV_HITS_MAX);
    assert_int_equal(store->totals.items, 1);
    /* They make nobody busy. */
    assert_int_equal(stat_of(&fixture->clients[0].session->common.requests), 0);
}

static unsigned thinning_told(const struct fixture *fixture, unsigned number)
{
    const struct client *client = &fixture->clients[number];
    struct okv_hits terms;

    assert_int_equal(
        okv_hits_decode(client->values[client->posted - 1], sizeof(struct okv_wire_hits), &terms),
        0);
    return terms.thinning;
}

/* A server of few items keeps the hits of 256 evictions for later. */
FIXTURE_TEST(hits_beyond_the_allowance_are_ignored)
{
    struct fixture *fixture = *state;
    struct okv_store *store = &fixture->core.database->store;
    struct okv_counts *counts = &fixture->core.database->counts;
    okv_le64 hashes[OKV_HITS_MAX] = {{{0}}};

    fixture->clients[1].session->common.reports_hits = true;
    atomic_store(&store->eviction.evicted_new, 100);
    atomic_store(&store->eviction.evicted_main, 156);
    server_core_put(&fixture->core, "key", 'v', 10, 0);
    uint64_t hash = okv_hash_key("key", 3, store->table.hash_seed);
    uint64_t bucket = okv_linear_bucket(hash, store->bucket_count);
    for (uint64_t sequence = 1; sequence <= 2; sequence++)
        arrive(fixture, 0, sequence, hashes, sizeof hashes);
    uint8_t before = okv_heat_of(store->table.heat, bucket, okv_hash_tag(hash));
    for (unsigned i = 0; i < OKV_HITS_MAX; i++)
        hashes[i] = okv_le64_of(hash);
    for (uint64_t sequence = 3; sequence <= 5; sequence++)
        arrive(fixture, 0, sequence, hashes, sizeof hashes);
    assert_int_equal(okv_heat_of(store->table.heat, bucket, okv_hash_tag(hash)), before);
    assert_int_equal(stat_of(&counts->reports_over), 3 * OKV_HITS_MAX);
    assert_int_equal(stat_of(&counts->client_marks), 5 * OKV_HITS_MAX);
    assert_int_equal(stat_of(&fixture->clients[0].session->common.hits_over), 3 * OKV_HITS_MAX);
    assert_int_equal(thinning_told(fixture, 0), 0);
    arrive(fixture, 1, 1, hashes, 10 * sizeof hashes[0]);
    assert_int_not_equal(okv_heat_of(store->table.heat, bucket, okv_hash_tag(hash)), before);
    assert_int_equal(stat_of(&fixture->clients[1].session->common.hits_over), 0);
    fixture->worker.sessions->now_ns += UINT64_C(100000000);
    arrive(fixture, 0, 6, hashes, sizeof hashes[0]);
    arrive(fixture, 1, 2, hashes, sizeof hashes[0]);
    assert_int_equal(thinning_told(fixture, 0), 1);
    assert_int_equal(thinning_told(fixture, 1), 0);
}

/* One percent of a core makes 400 marks in a millisecond. */
FIXTURE_TEST(marks_have_a_share_of_a_core)
{
    struct fixture *fixture = *state;
    const struct okv_counts *counts = &fixture->core.database->counts;
    static const okv_le64 hashes[OKV_HITS_MAX];

    fixture->core.server->config.report_percent = 1;
    for (uint64_t sequence = 1; sequence <= 3; sequence++)
        arrive(fixture, 0, sequence, hashes, sizeof hashes);
    assert_int_equal(stat_of(&counts->reports_over), OKV_HITS_MAX);
    fixture->worker.sessions->now_ns += UINT64_C(1000000);
    for (uint64_t sequence = 4; sequence <= 5; sequence++)
        arrive(fixture, 0, sequence, hashes, sizeof hashes);
    assert_int_equal(stat_of(&counts->reports_over), OKV_HITS_MAX + 2 * OKV_HITS_MAX - 400);
}

FIXTURE_TEST(what_are_no_hits_ends_the_connection)
{
    static const uint8_t zeros[(OKV_HITS_MAX + 1) * OKV_HIT_SIZE];
    static const size_t lengths[] = {0, 1, 7, 9, 8 * OKV_HITS_MAX - 1, 8 * OKV_HITS_MAX + 8};

    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct fixture *fixture;
        void *own = NULL;
        assert_int_equal(setup(&own), 0);
        fixture = own;
        arrive(fixture, 0, 1, zeros, lengths[i]);
        assert_true(fixture->clients[0].closed);
        assert_int_equal(fixture->clients[0].posted, 0);
        fixture_teardown(&own);
    }
}

FIXTURE_TEST(hits_are_agreed_upon)
{
    struct fixture *fixture = *state;
    okv_le64 hash = okv_le64_of(1);

    arrive(fixture, 1, 1, &hash, sizeof hash);
    assert_true(fixture->clients[1].closed);
    assert_false(fixture->clients[0].closed);
}

TEST(hits_bytes)
{
    const struct okv_hits hits = {.interval_ms = 0x01020304, .batch = 0x100, .thinning = 5};
    const struct okv_wire_hits wire = okv_hits_encode(&hits);
    static const uint8_t expected[16] = {4, 3, 2, 1, 0, 1, 5};
    struct okv_hits back;

    assert_memory_equal(&wire, expected, sizeof expected);
    assert_int_equal(okv_hits_decode((const uint8_t *)&wire, sizeof wire, &back), 0);
    assert_int_equal(back.interval_ms, hits.interval_ms);
    assert_int_equal(back.batch, hits.batch);
    assert_int_equal(back.thinning, hits.thinning);
    for (size_t length = 0; length < 20; length++)
        assert_int_equal(okv_hits_decode((const uint8_t *)&wire, length, &back),
                         length == 16 ? 0 : OKV_EPROTO);
    for (unsigned batch = 0; batch <= UINT16_MAX; batch++) {
        const struct okv_wire_hits other = okv_hits_encode(&(struct okv_hits){.batch = batch});
        assert_int_equal(okv_hits_decode((const uint8_t *)&other, sizeof other, &back),
                         batch >= 1 && batch <= OKV_HITS_MAX ? 0 : OKV_EPROTO);
    }
    for (unsigned thinning = 0; thinning <= UINT16_MAX; thinning++) {
        const struct okv_wire_hits other =
            okv_hits_encode(&(struct okv_hits){.batch = 1, .thinning = thinning});
        assert_int_equal(okv_hits_decode((const uint8_t *)&other, sizeof other, &back),
                         thinning <= OKV_HITS_THINNING_MAX ? 0 : OKV_EPROTO);
    }
}
