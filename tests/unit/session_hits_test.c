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
