/* Part of the list in transport_list.c: advertised buffers and rendezvous reads. */
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/error.h"
#include "tests/support/transport_client.h"
#include "tests/unit/transport_list.h"

#define MIB (1u << 20)

/* Memory of the client, advertised. */
struct value {
    uint8_t *bytes;
    uint32_t length;
    struct okv_advert *advert;
};

static void value_advertise(struct client *client, struct value *value, uint32_t length,
                            unsigned seed)
{
    value->bytes = test_malloc(length);
    value->length = length;
    for (uint32_t i = 0; i < length; i++)
        value->bytes[i] = (uint8_t)(i * 7 + (i >> 9) * 3 + (i >> 17) * 5 + seed);
    assert_int_equal(client->ops->advertise(client->conn, value->bytes, length, &value->advert), 0);
}

static void value_withdraw(struct client *client, struct value *value, bool is_read)
{
    client->ops->withdraw(value->advert, is_read);
    test_free(value->bytes);
}

static void value_free(struct client *client, struct value *value)
{
    value_withdraw(client, value, false);
}

/* Rendezvous read number `i`: all of the value, to `offset`. */
static struct okv_rendezvous *want(struct client *client, unsigned i, const struct value *value,
                                   uint64_t offset)
{
    struct okv_rendezvous *rendezvous = &client->fixture->rendezvous_reads[i].rendezvous;

    *rendezvous = (struct okv_rendezvous){.address = value->advert->address,
                                          .key = value->advert->key,
                                          .length = value->length,
                                          .offset = offset};
    return rendezvous;
}

/* Makes the server start rendezvous reads 0 to `count` - 1; returns when it has. */
static void order_rendezvous_reads(struct client *client, unsigned count)
{
    struct fixture *fixture = client->fixture;
    unsigned before = atomic_load(&fixture->rendezvous_started);

    client_expect_nothing(client); /* the poll frees send buffers */
    atomic_store(&fixture->rendezvous_wanted, count);
    assert_int_equal(client_send(client, 0, 1, FIXTURE_RENDEZVOUS), 0);
    if (!client_reaches(client, &fixture->rendezvous_started, before + count))
        fail_msg("the server did not start them: %u of %u connections closed, the last with %d",
                 atomic_load(&fixture->closed), atomic_load(&fixture->opened),
                 atomic_load(&fixture->last_close));
}

/* The same, and waits for the events of the first `accepted`. */
static void rendezvous_and_wait(struct client *client, unsigned count, unsigned accepted)
{
    unsigned before = atomic_load(&client->fixture->rendezvous_ended);

    order_rendezvous_reads(client, count);
    assert_true(client_reaches(client, &client->fixture->rendezvous_ended, before + accepted));
}

/* Echoes a message, too: it follows the READs on the connection. The fixture's memory tells of
 * their end sooner, when a repeated READ may still be under way to the client, which a withdrawn
 * buffer would turn into the end of the connection. */
static void assert_rendezvous_succeeded(struct client *client, unsigned i)
{
    const struct fixture_rendezvous *rendezvous = &client->fixture->rendezvous_reads[i];

    assert_int_equal(rendezvous->result, 0);
    assert_int_equal(rendezvous->events, 1);
    if (rendezvous->status)
        fail_msg("the rendezvous read ended with %d: '%s'", rendezvous->status,
                 rendezvous->failure);
    client_echo(client, i, 10, 1);
}

/* The region has these bytes at `offset` and its pattern beside them. Restores the pattern. */
static void assert_arrived(struct client *client, const uint8_t *bytes, uint32_t length,
                           uint64_t offset)
{
    const uint8_t *region = client->fixture->region;

    if (memcmp(region + offset, bytes, length) != 0)
        fail_msg("a rendezvous read of %u bytes brought others", length);
    if (offset > 0)
        assert_int_equal(region[offset - 1], fixture_region_byte(offset - 1));
    if (offset + length < FIXTURE_REGION)
        assert_int_equal(region[offset + length], fixture_region_byte(offset + length));
    fixture_restore(client->fixture, offset, length);
}

static void assert_untouched(struct client *client, uint64_t offset, uint32_t length)
{
    assert_region_bytes(client->fixture->region + offset, offset, length);
}

TEST(a_rendezvous_brings_the_right_bytes)
{
    static const struct {
        uint32_t length;
        uint64_t offset;
    } cases[] = {
        {1, 77},           {1, FIXTURE_REGION - 1},
        {5000, 0},         {MIB, MIB},
        {MIB + 1, 12345},  {9 * MIB + 4097, 54321},
        {3 * MIB - 1, 11}, {8 * MIB, FIXTURE_REGION - 8 * MIB},
    };
    struct client *client = client_create(state);
    struct value value;

    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        value_advertise(client, &value, cases[i].length, i);
        want(client, 0, &value, cases[i].offset);
        rendezvous_and_wait(client, 1, 1);
        assert_rendezvous_succeeded(client, 0);
        assert_arrived(client, value.bytes, value.length, cases[i].offset);
        value_free(client, &value);
    }
    client_echo(client, 1, 10, 1);
    client_destroy(client);
}

TEST(a_rendezvous_arrives_in_the_region_of_its_connection)
{
    struct fixture *fixture = *state;
    uint8_t *other = fixture->other;
    const uint64_t offset = 4097;
    struct value value;

    if (!fixture->has_other)
        skip();
    struct client *client = client_create_other(state);

    value_advertise(client, &value, 100000, 1);
    want(client, 0, &value, offset);
    rendezvous_and_wait(client, 1, 1);
    assert_rendezvous_succeeded(client, 0);
    assert_memory_equal(other + offset, value.bytes, value.length);
    assert_untouched(client, offset, value.length);
    memset(other + offset, FIXTURE_OTHER_BYTE, value.length);
    /* inside of the first region, and not of this one */
    want(client, 0, &value, FIXTURE_OTHER_REGION - 1);
    order_rendezvous_reads(client, 1);
    assert_int_equal(client->fixture->rendezvous_reads[0].result, OKV_EINVAL);
    value_free(client, &value);
    client_destroy(client);
}

/* Values for the region follow on the same connection. */
TEST(a_rendezvous_may_bring_bytes_to_memory_beside_the_region)
{
    static const uint32_t lengths[] = {1, MIB + 1, 9 * MIB + 4097};
    struct client *client = client_create(state);
    struct value value;

    for (unsigned i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        uint8_t *memory = test_calloc(1, lengths[i] + 1);
        value_advertise(client, &value, lengths[i], i);
        want(client, 0, &value, FIXTURE_REGION)->destination = memory;
        rendezvous_and_wait(client, 1, 1);
        assert_rendezvous_succeeded(client, 0);
        assert_memory_equal(memory, value.bytes, value.length);
        assert_int_equal(memory[value.length], 0);
        assert_untouched(client, 0, FIXTURE_REGION);
        test_free(memory);
        want(client, 0, &value, 54321);
        rendezvous_and_wait(client, 1, 1);
        assert_rendezvous_succeeded(client, 0);
        assert_arrived(client, value.bytes, value.length, 54321);
        value_free(client, &value);
    }
    client_destroy(client);
}

TEST(a_rendezvous_may_begin_inside_the_buffer)
{
    struct client *client = client_create(state);
    struct value value;

    value_advertise(client, &value, MIB + 100, 1);
    struct okv_rendezvous *rendezvous = want(client, 0, &value, 4000);
    rendezvous->address += MIB - 1000;
    rendezvous->length = 1100;
    rendezvous_and_wait(client, 1, 1);
    assert_rendezvous_succeeded(client, 0);
    assert_arrived(client, value.bytes + MIB - 1000, 1100, 4000);
    value_free(client, &value);
    client_destroy(client);
}

TEST(several_rendezvous_reads_at_once)
{
    enum { COUNT = OKV_RENDEZVOUS_MAX + 2, STRIDE = 5 * MIB / 4 };
    struct client *client = client_create(state);
    const struct fixture_rendezvous *rendezvous_reads = client->fixture->rendezvous_reads;
    struct value values[COUNT];

    for (unsigned i = 0; i < COUNT; i++) {
        value_advertise(client, &values[i], i & 1 ? 1000 + i : STRIDE - 1 - i, i);
        want(client, i, &values[i], i * STRIDE);
    }
    rendezvous_and_wait(client, COUNT, OKV_RENDEZVOUS_MAX);
    for (unsigned i = 0; i < OKV_RENDEZVOUS_MAX; i++) {
        assert_rendezvous_succeeded(client, i);
        assert_arrived(client, values[i].bytes, values[i].length, i * STRIDE);
    }
    for (unsigned i = OKV_RENDEZVOUS_MAX; i < COUNT; i++) {
        assert_int_equal(rendezvous_reads[i].result, OKV_EAGAIN);
        assert_untouched(client, i * STRIDE, values[i].length);
    }
    /* the refused ones still work */
    for (unsigned i = OKV_RENDEZVOUS_MAX; i < COUNT; i++)
        want(client, i - OKV_RENDEZVOUS_MAX, &values[i], i * STRIDE);
    rendezvous_and_wait(client, COUNT - OKV_RENDEZVOUS_MAX, COUNT - OKV_RENDEZVOUS_MAX);
    for (unsigned i = OKV_RENDEZVOUS_MAX; i < COUNT; i++) {
        assert_rendezvous_succeeded(client, i - OKV_RENDEZVOUS_MAX);
        assert_arrived(client, values[i].bytes, values[i].length, i * STRIDE);
    }
    for (unsigned i = 0; i < COUNT; i++)
        value_free(client, &values[i]);
    client_echo(client, 1, 10, 1);
    client_destroy(client);
}

TEST(rendezvous_reads_outside_the_region_are_refused)
{
    static const struct {
        uint64_t offset;
        uint32_t length;
    } cases[] = {
        {FIXTURE_REGION, 1},     {FIXTURE_REGION - 99, 100},
        {UINT64_MAX, 1},         {UINT64_MAX - 99, 100},
        {(uint64_t)1 << 63, 1},  {0, 0},
        {0, FIXTURE_REGION + 1}, {0, UINT32_MAX},
    };
    enum { COUNT = sizeof cases / sizeof cases[0] };
    struct client *client = client_create(state);
    struct value value;

    _Static_assert(COUNT <= FIXTURE_RENDEZVOUS, "one order is enough");
    value_advertise(client, &value, 100, 1);
    for (unsigned i = 0; i < COUNT; i++)
        want(client, i, &value, cases[i].offset)->length = cases[i].length;
    order_rendezvous_reads(client, COUNT);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(client->fixture->rendezvous_reads[i].result, OKV_EINVAL);
    want(client, 0, &value, FIXTURE_REGION - 100);
    rendezvous_and_wait(client, 1, 1);
    assert_rendezvous_succeeded(client, 0);
    assert_arrived(client, value.bytes, 100, FIXTURE_REGION - 100);
    value_free(client, &value);
    client_destroy(client);
}

TEST(only_a_server_may_start_a_rendezvous)
{
    struct client *client = client_create(state);
    struct okv_advert *advert = NULL;
    struct value value;

    value_advertise(client, &value, 100, 1);
    assert_int_equal(client->ops->rendezvous(client->conn, want(client, 0, &value, 0)), OKV_EINVAL);
    assert_int_equal(client->ops->advertise(client->conn, value.bytes, 0, &advert), OKV_EINVAL);
    assert_null(advert);
    client->ops->withdraw(NULL, false);
    value_free(client, &value);
    client->ops->close(client->conn);
    assert_int_equal(client->ops->advertise(client->conn, client->bytes, 1, &advert),
                     OKV_EDISCONNECTED);
    client_expect_closed(client);
    client_destroy(client);
}

/* Rendezvous read number 0 has failed. Checks that the client then works or has an end. */
static void assert_rendezvous_failed(struct client *client)
{
    assert_int_equal(client->fixture->rendezvous_reads[0].result, 0);
    assert_int_equal(client->fixture->rendezvous_reads[0].events, 1);
    assert_int_equal(client->fixture->rendezvous_reads[0].status, OKV_ERENDEZVOUS);
    if (client->fixture->ops != &okv_transport_local && client->fixture->ops != &okv_transport_tcp)
        client_expect_closed(client);
    else
        client_echo(client, 1, 10, 1);
}

TEST(memory_that_is_not_advertised_cannot_be_read)
{
    enum { LENGTH = 10000, OFFSET = 3000 };
    static const struct {
        uint64_t address; /* added to the advertised ones */
        uint32_t key, length;
    } cases[] = {
        {0, 0x101, 0},
        {0, 1, 0},
        {0, 0x80000000u, 0},
        {0, 0, 1},
        {0, 0, 2 * MIB},
        {1, 0, 0},
        {LENGTH, 0, 1u - LENGTH},
        {UINT64_MAX, 0, 0},
        {(uint64_t)1 << 63, 0, 0},
    };

    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct client *client = client_create(state);
        struct value value;
        value_advertise(client, &value, LENGTH, i);
        struct okv_rendezvous *rendezvous = want(client, 0, &value, OFFSET);
        rendezvous->address += cases[i].address;
        rendezvous->key += cases[i].key;
        rendezvous->length += cases[i].length;
        rendezvous_and_wait(client, 1, 1);
        assert_rendezvous_failed(client);
        assert_untouched(client, OFFSET, LENGTH + 1);
        value_free(client, &value);
        client_destroy(client);
    }
}

TEST(a_rendezvous_after_withdraw_brings_no_other_bytes)
{
    enum { LENGTH = 100000 };
    struct client *client = client_create(state);
    struct value value, next = {0};

    value_advertise(client, &value, LENGTH, 1);
    want(client, 0, &value, 0);
    client->ops->withdraw(value.advert, false);
    /* In the place of the first, and in its room. */
    if (client->fixture->connect_uri.scheme == OKV_SCHEME_LOCAL ||
        client->fixture->connect_uri.scheme == OKV_SCHEME_RDMA)
        value_advertise(client, &next, LENGTH, 2);
    rendezvous_and_wait(client, 1, 1);
    assert_rendezvous_failed(client);
    assert_untouched(client, 0, LENGTH);
    if (next.bytes)
        value_free(client, &next);
    test_free(value.bytes);
    client_destroy(client);
}

/* A transport may keep the memory of a value that was read for the next. */
TEST(values_that_were_read_make_room)
{
    static const uint32_t lengths[] = {20000, 131072, 16384, 16383, 131073, 100000};
    enum { ROUNDS = 3 * sizeof lengths / sizeof lengths[0] };
    struct client *client = client_create(state);

    for (unsigned round = 0; round < ROUNDS; round++) {
        struct value values[FIXTURE_CREDITS];
        for (unsigned i = 0; i < FIXTURE_CREDITS; i++)
            value_advertise(client, &values[i],
                            lengths[(round + i) % (sizeof lengths / sizeof lengths[0])],
                            round * FIXTURE_CREDITS + i);
        for (unsigned i = 0; i < FIXTURE_CREDITS; i++) {
            want(client, 0, &values[i], 0);
            rendezvous_and_wait(client, 1, 1);
            assert_rendezvous_succeeded(client, 0);
            assert_arrived(client, values[i].bytes, values[i].length, 0);
            value_withdraw(client, &values[i], true);
        }
    }
    client_destroy(client);
}

TEST(adverts_come_and_go)
{
    struct client *client = client_create(state);
    struct value values[FIXTURE_CREDITS];

    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < FIXTURE_CREDITS; i++)
            value_advertise(client, &values[i], 200 + i, round + i);
        /* the server reads one of them, a different one each time */
        unsigned chosen = round % FIXTURE_CREDITS;
        want(client, 0, &values[chosen], 0);
        rendezvous_and_wait(client, 1, 1);
        assert_rendezvous_succeeded(client, 0);
        assert_arrived(client, values[chosen].bytes, values[chosen].length, 0);
        for (unsigned i = 0; i < FIXTURE_CREDITS; i++)
            value_free(client, &values[(i + round) % FIXTURE_CREDITS]);
    }
    client_echo(client, 1, 10, 1);
    client_destroy(client);
}

/* Ends a connection with rendezvous reads under way: by `end`, or by destroying the client's
 * connection when `end` is NULL. */
static void end_amid_rendezvous_reads(void **state, void (*end)(struct client *))
{
    enum { STRIDE = 5 * MIB / 2 };
    struct client *client = client_create(state);
    struct fixture *fixture = client->fixture;
    unsigned before = atomic_load(&fixture->rendezvous_ended);
    struct value values[OKV_RENDEZVOUS_MAX];

    for (unsigned i = 0; i < OKV_RENDEZVOUS_MAX; i++) {
        value_advertise(client, &values[i], STRIDE, i);
        want(client, i, &values[i], i * STRIDE);
    }
    order_rendezvous_reads(client, OKV_RENDEZVOUS_MAX);
    if (end)
        end(client);
    for (unsigned i = 0; i < OKV_RENDEZVOUS_MAX; i++)
        value_free(client, &values[i]);
    /* the fixture sees that each rendezvous read ended before its connection did */
    client_destroy(client);
    assert_int_equal(atomic_load(&fixture->rendezvous_ended), before + OKV_RENDEZVOUS_MAX);
    for (unsigned i = 0; i < OKV_RENDEZVOUS_MAX; i++) {
        int status = fixture->rendezvous_reads[i].status;
        assert_int_equal(fixture->rendezvous_reads[i].result, 0);
        assert_true(status == 0 || status == OKV_ERENDEZVOUS || status == OKV_EDISCONNECTED);
    }
    /* nothing comes late */
    fixture_restore(fixture, 0, FIXTURE_REGION);
    usleep(20000);
    assert_region_bytes(fixture->region, 0, FIXTURE_REGION);
}

static void close_client(struct client *client)
{
    client->ops->close(client->conn);
}

static void close_server(struct client *client)
{
    fixture_order(client->fixture, &client->fixture->close_all);
    client_expect_closed(client);
}

TEST(a_client_that_closes_ends_its_rendezvous_reads)
{
    for (unsigned round = 0; round < 5; round++) {
        end_amid_rendezvous_reads(state, close_client);
        end_amid_rendezvous_reads(state, NULL);
    }
}

TEST(a_server_that_closes_ends_its_rendezvous_reads)
{
    for (unsigned round = 0; round < 5; round++)
        end_amid_rendezvous_reads(state, close_server);
}
