/*
 * Clients that name memory to the server which it cannot or may not read. Nothing of
 * such a value is ever seen, what was reserved for it is free again, and a bystander
 * notices nothing.
 */
#include <signal.h>

#include "tests/support/test.h"

#include "tests/support/hostile_client.h"

#define CLOSED_CREDIT "closed_credit"
#define RENDEZVOUS_FAILED "rendezvous_failed"
#define KEY "victim"
#define KEY_LENGTH 6u
#define VALUE_LENGTH 200000u /* too long to be copied: what is registered ends with it */

static struct bystander *bystander_of(void **state)
{
    return *state;
}

/* ---- a value of the bystander, which attacks are to replace ---- */

static void victim_put(struct bystander *bystander)
{
    static uint8_t value[VALUE_LENGTH];

    memset(value, 'v', sizeof value);
    assert_int_equal(okv_put(bystander->handle, KEY, KEY_LENGTH, value, sizeof value, NULL),
                     OKV_OK);
}

static void expect_value_of(struct bystander *bystander, const char *key, int fill, size_t length)
{
    static uint8_t value[1 << 20];
    size_t got = 0;

    assert_int_equal(okv_get(bystander->handle, key, strlen(key), value, sizeof value, &got, NULL),
                     OKV_OK);
    assert_int_equal(got, length);
    for (size_t i = 0; i < length; i++)
        assert_int_equal(value[i], fill);
}

static void victim_expect(struct bystander *bystander, int fill, size_t length)
{
    expect_value_of(bystander, KEY, fill, length);
}

/* ---- what the attacker advertises ---- */

struct advertised {
    uint8_t *bytes;
    struct okv_advert *advert;
};

static void advertise(struct hostile *hostile, struct advertised *advertised, size_t length,
                      int fill)
{
    advertised->bytes = malloc(length);
    assert_non_null(advertised->bytes);
    memset(advertised->bytes, fill, length);
    assert_int_equal(
        hostile->ops->advertise(hostile->conn, advertised->bytes, length, &advertised->advert), 0);
}

static void withdraw(struct hostile *hostile, struct advertised *advertised)
{
    hostile->ops->withdraw(advertised->advert, false);
    free(advertised->bytes);
}

static void put_by_rendezvous_as(struct hostile *hostile, const char *key, uint64_t address,
                                 uint32_t rkey, uint32_t length)
{
    const struct okv_request_message put = {
        .opcode = OKV_OP_PUT,
        .slot = hostile_request_slot(hostile),
        .flags = OKV_REQUEST_RENDEZVOUS,
        .key = (const uint8_t *)key,
        .key_length = (uint32_t)strlen(key),
        .value_length = length,
        .rendezvous_address = address,
        .rendezvous_key = rkey,
    };

    hostile_request(hostile, &put);
}

/* The reply to the last request. */
static void expect_reply(struct hostile *hostile, int status)
{
    uint16_t request_slot = (uint16_t)((hostile->next_sequence - 2) % hostile->table.credits);

    hostile_expect_reply(hostile, request_slot, status);
}

static void put_by_rendezvous(struct hostile *hostile, uint64_t address, uint32_t rkey,
                              uint32_t length)
{
    put_by_rendezvous_as(hostile, KEY, address, rkey, length);
}

/* ---- the tests ---- */

/* The counterpart: the same code, kept to the rules, is served. */
TEST(rendezvous_of_what_was_advertised)
{
    static const uint32_t lengths[] = {1, 20000, VALUE_LENGTH, 1 << 20};
    struct bystander *bystander = bystander_of(state);
    struct hostile hostile;

    hostile_join(&hostile, &bystander->server);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct advertised advertised;
        advertise(&hostile, &advertised, lengths[i], 'x');
        put_by_rendezvous(&hostile, advertised.advert->address, advertised.advert->key, lengths[i]);
        expect_reply(&hostile, OKV_OK);
        withdraw(&hostile, &advertised);
        victim_expect(bystander, 'x', lengths[i]);
        bystander_expect_accounts(bystander);
    }
    hostile_leave(&hostile);
    bystander_check(bystander);
}

struct plan {
    const char *what;
    uint32_t key_flip;     /* XORed into the right key */
    uint64_t address_from; /* from the right address */
    uint32_t length;       /* VALUE_LENGTH bytes are advertised */
};

static const struct plan forbidden[] = {
    {"a byte behind the end", 0, 0, VALUE_LENGTH + 1},
    {"much more than there is", 0, 0, 4000000},
    {"beginning behind the end", 0, UINT64_C(1) << 30, 100},
    {"the last byte and one more", 0, VALUE_LENGTH - 1, 2},
    {"in front of the beginning", 0, UINT64_MAX, 2},
    {"around address 0", 0, UINT64_C(1) << 63, 4000},
    {"a bit of the key", 1, 0, VALUE_LENGTH},
    {"another key", 0x100, 0, VALUE_LENGTH},
    {"a key far off", 0x80000000, 0, 1},
};

/* A failed READ of a fabric ends the connection; elsewhere the client is told. */
static void expect_failure(struct hostile *hostile, const char *what)
{
    const struct okv_request_message ping = {.opcode = OKV_OP_PING,
                                             .slot = hostile_request_slot(hostile)};

    if (server_is_fabric()) {
        hostile_expect_closed(hostile, what);
        return;
    }
    expect_reply(hostile, OKV_ERENDEZVOUS);
    hostile_request(hostile, &ping);
    expect_reply(hostile, OKV_OK);
}

static void attack(struct bystander *bystander, const struct plan *plan)
{
    struct bystander_holdings before;
    struct hostile hostile;
    struct advertised advertised;
    uint64_t failed = bystander_stat(bystander, RENDEZVOUS_FAILED);

    victim_put(bystander);
    before = bystander_holdings(bystander);
    hostile_join(&hostile, &bystander->server);
    advertise(&hostile, &advertised, VALUE_LENGTH, 'x');
    put_by_rendezvous(&hostile, advertised.advert->address + plan->address_from,
                      advertised.advert->key ^ plan->key_flip, plan->length);
    expect_failure(&hostile, plan->what);
    withdraw(&hostile, &advertised);
    hostile_leave(&hostile);
    bystander_expect_stat(bystander, "sessions", 1);
    bystander_expect_holdings(bystander, plan->what, &before);
    bystander_expect_accounts(bystander);
    bystander_expect_stat(bystander, RENDEZVOUS_FAILED, failed + 1);
    victim_expect(bystander, 'v', VALUE_LENGTH);
    bystander_check(bystander);
}

TEST(rendezvous_reads_of_what_was_not_advertised)
{
    for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++)
        attack(bystander_of(state), &forbidden[i]);
}

TEST(rendezvous_without_any_advert)
{
    static const uint32_t keys[] = {0, 1, 0x10000, UINT32_MAX};
    struct bystander *bystander = bystander_of(state);

    victim_put(bystander);
    struct bystander_holdings before = bystander_holdings(bystander);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct hostile hostile;
        hostile_join(&hostile, &bystander->server);
        put_by_rendezvous(&hostile, 0, keys[i], 1000);
        expect_failure(&hostile, "no advertised buffer");
        hostile_leave(&hostile);
    }
    bystander_expect_stat(bystander, "sessions", 1);
    bystander_expect_holdings(bystander, "no advertised buffer", &before);
    victim_expect(bystander, 'v', VALUE_LENGTH);
    bystander_check(bystander);
}

/* The memory is gone when the server comes to it. */
TEST(rendezvous_of_what_is_advertised_no_more)
{
    struct bystander *bystander = bystander_of(state);
    struct hostile hostile;
    struct advertised advertised;

    victim_put(bystander);
    hostile_join(&hostile, &bystander->server);
    advertise(&hostile, &advertised, VALUE_LENGTH, 'x');
    uint64_t address = advertised.advert->address;
    uint32_t key = advertised.advert->key;
    server_signal(&bystander->server, SIGSTOP);
    put_by_rendezvous(&hostile, address, key, VALUE_LENGTH);
    withdraw(&hostile, &advertised);
    server_signal(&bystander->server, SIGCONT);
    if (server_is_fabric()) {
        hostile_expect_closed(&hostile, "advertised no more");
    } else {
        expect_reply(&hostile, OKV_ERENDEZVOUS);
    }
    victim_expect(bystander, 'v', VALUE_LENGTH);
    hostile_leave(&hostile);
    bystander_expect_accounts(bystander);
    bystander_check(bystander);
}

/* Begins `count` rendezvous reads, which the server meets all at once. */
static void burst(struct bystander *bystander, struct hostile *hostile,
                  struct advertised *advertised, unsigned count, uint32_t length)
{
    for (unsigned i = 0; i < count; i++)
        advertise(hostile, &advertised[i], length, 'x');
    server_signal(&bystander->server, SIGSTOP);
    for (unsigned i = 0; i < count; i++)
        put_by_rendezvous(hostile, advertised[i].advert->address, advertised[i].advert->key,
                          length);
}

/* A client that goes away leaves no reservation behind. */
TEST(client_that_leaves_with_rendezvous_reads_under_way)
{
    enum { ROUNDS = 20 };
    struct bystander *bystander = bystander_of(state);
    struct advertised advertised[HOSTILE_CREDITS];

    for (unsigned round = 0; round < ROUNDS; round++) {
        struct hostile hostile;
        victim_put(bystander);
        struct bystander_holdings before = bystander_holdings(bystander);
        /* Not VALUE_LENGTH: the holdings would not tell a value that was put from one that was not.
         */
        hostile_join(&hostile, &bystander->server);
        bystander_expect_stat(bystander, "sessions", 2); /* its worker has met it */
        burst(bystander, &hostile, advertised, HOSTILE_CREDITS, 700000);
        for (unsigned i = 0; i < HOSTILE_CREDITS; i++)
            withdraw(&hostile, &advertised[i]);
        hostile_leave(&hostile);
        server_signal(&bystander->server, SIGCONT);
        bystander_expect_stat(bystander, "sessions", 1);
        /* Some may have been stored before the server knew that the client had gone. */
        victim_put(bystander);
        bystander_expect_holdings(bystander, "a client that left", &before);
        bystander_expect_accounts(bystander);
    }
    bystander_check(bystander);
}

TEST(more_rendezvous_reads_than_credits)
{
    struct bystander *bystander = bystander_of(state);
    struct advertised advertised[HOSTILE_CREDITS + 1];
    struct hostile hostile;
    uint64_t closed = bystander_stat(bystander, CLOSED_CREDIT);

    victim_put(bystander);
    struct bystander_holdings before = bystander_holdings(bystander);
    hostile_join(&hostile, &bystander->server);
    burst(bystander, &hostile, advertised, HOSTILE_CREDITS + 1, 500000);
    server_signal(&bystander->server, SIGCONT);
    bystander_expect_stat(bystander, CLOSED_CREDIT, closed + 1);
    bystander_expect_stat(bystander, "sessions", 1);
    for (unsigned i = 0; i < HOSTILE_CREDITS + 1; i++)
        withdraw(&hostile, &advertised[i]);
    hostile_leave(&hostile);
    victim_put(bystander);
    bystander_expect_holdings(bystander, "more rendezvous reads than credits", &before);
    bystander_expect_accounts(bystander);
    bystander_check(bystander);
}

/* Takes the replies to `rendezvous reads` rendezvous reads and one PING, in any order; all went
 * well. */
static void take_replies(struct hostile *hostile, unsigned rendezvous_reads)
{
    unsigned answered = 0, pinged = 0;

    while (answered + pinged < rendezvous_reads + 1) {
        struct okv_event event = hostile_event(hostile);
        struct okv_reply_message reply;
        assert_int_equal(event.type, OKV_EVENT_RECV);
        assert_int_equal(okv_reply_decode(event.immediate, event.data, event.length, &reply), 0);
        assert_int_equal(reply.status, OKV_OK);
        answered += reply.opcode == OKV_OP_PUT && reply.slot < rendezvous_reads;
        pinged += reply.opcode == OKV_OP_PING && reply.slot == rendezvous_reads;
        hostile->ops->recv_release(hostile->conn->endpoint, &event);
    }
    assert_int_equal(answered, rendezvous_reads);
    assert_int_equal(pinged, 1);
}

/* A client may use all its credits for rendezvous reads. Some wait for others, and all are done. */
TEST(more_rendezvous_reads_than_places)
{
    enum { COUNT = 15, LENGTH = 300000 };
    static const struct okv_request_message ping = {.opcode = OKV_OP_PING, .slot = COUNT};
    struct bystander *bystander = bystander_of(state);
    struct bystander_holdings before = bystander_holdings(bystander);
    uint64_t deferred = bystander_stat(bystander, "deferred");
    struct advertised advertised[COUNT];
    struct okv_wire_hello hello;
    struct hostile hostile;
    char key[COUNT][16];

    hostile_hello(&hello);
    hello.credits = okv_le16_of(COUNT + 1 - 1);
    hostile_join_as(&hostile, &bystander->server, &hello);
    server_signal(&bystander->server, SIGSTOP);
    for (unsigned i = 0; i < COUNT; i++) {
        snprintf(key[i], sizeof key[i], "many-%u", i);
        advertise(&hostile, &advertised[i], LENGTH, 'a' + (int)i);
        put_by_rendezvous_as(&hostile, key[i], advertised[i].advert->address,
                             advertised[i].advert->key, LENGTH);
    }
    hostile_request(&hostile, &ping);
    server_signal(&bystander->server, SIGCONT);
    take_replies(&hostile, COUNT);
    for (unsigned i = 0; i < COUNT; i++) {
        withdraw(&hostile, &advertised[i]);
        expect_value_of(bystander, key[i], 'a' + (int)i, LENGTH);
        assert_int_equal(okv_delete(bystander->handle, key[i], strlen(key[i])), OKV_OK);
    }
    hostile_leave(&hostile);
    assert_true(bystander_stat(bystander, "deferred") > deferred);
    bystander_expect_holdings(bystander, "many rendezvous reads", &before);
    bystander_expect_accounts(bystander);
    bystander_check(bystander);
}

/* Largest values until there is no room: refused, and what the others took can be had again. */
TEST(rendezvous_reads_beyond_the_region)
{
    static const char *const keys[HOSTILE_CREDITS] = {"large-1", "large-2", "large-3", "large-4"};
    struct bystander *bystander = bystander_of(state);
    struct bystander_holdings before = bystander_holdings(bystander);
    struct hostile hostile;
    unsigned full = 0;

    hostile_join(&hostile, &bystander->server);
    for (unsigned i = 0; i < HOSTILE_CREDITS; i++) {
        struct advertised advertised;
        advertise(&hostile, &advertised, hostile.table.max_value, 'x');
        put_by_rendezvous_as(&hostile, keys[i], advertised.advert->address, advertised.advert->key,
                             hostile.table.max_value);
        struct okv_event event = hostile_event(&hostile);
        struct okv_reply_message reply;
        assert_int_equal(event.type, OKV_EVENT_RECV);
        assert_int_equal(okv_reply_decode(event.immediate, event.data, event.length, &reply), 0);
        assert_true(reply.status == OKV_OK || reply.status == OKV_EFULL);
        full += reply.status == OKV_EFULL;
        hostile.ops->recv_release(hostile.conn->endpoint, &event);
        withdraw(&hostile, &advertised);
    }
    assert_in_range(full, 1, HOSTILE_CREDITS - 1); /* the region is four times such a value */
    hostile_leave(&hostile);
    for (unsigned i = 0; i < HOSTILE_CREDITS; i++) {
        int rc = okv_delete(bystander->handle, keys[i], strlen(keys[i]));
        assert_true(rc == OKV_OK || rc == OKV_ENOTFOUND);
    }
    bystander_expect_holdings(bystander, "no room", &before);
    bystander_expect_accounts(bystander);
    bystander_check(bystander);
}

TEST_PROGRAM(bystander_setup, bystander_teardown)
