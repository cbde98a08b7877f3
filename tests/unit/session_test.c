/* Sessions: slots and deferred requests; and the handshake's decisions. */
#include "tests/support/test.h"

#include "server/database/database.h"
#include "server/net/handshake.h"
#include "server/session/session.h"
#include "shared/base/error.h"
#include "shared/format/wire.h"

#define CREDITS 5u

static struct okv_event request(uint32_t number)
{
    return (struct okv_event){.type = OKV_EVENT_RECV, .immediate = number, .slot = number};
}

TEST(a_session_starts_with_nothing_waiting)
{
    struct okv_session *session = okv_session_create(7, 2, CREDITS);

    assert_non_null(session);
    assert_int_equal(session->common.id, 7);
    assert_int_equal(session->listener, 2);
    assert_int_equal(session->common.request_slots, CREDITS);
    assert_false(session->closing);
    assert_null(okv_session_oldest(session));
    okv_session_destroy(session);
    okv_session_destroy(NULL);
}

TEST(a_slot_is_in_use_until_it_is_released)
{
    static const uint32_t counts[] = {1, CREDITS, 64, 65, OKV_CREDITS_MAX};

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct okv_session *session = okv_session_create(1, 0, counts[i]);
        for (uint16_t request_slot = 0; request_slot < counts[i]; request_slot++)
            assert_int_equal(okv_session_slot_acquire(session, request_slot), 0);
        for (uint16_t request_slot = 0; request_slot < counts[i]; request_slot++) {
            assert_int_equal(okv_session_slot_acquire(session, request_slot), OKV_ECREDIT);
            okv_session_slot_release(session, request_slot);
            assert_int_equal(okv_session_slot_acquire(session, request_slot), 0);
        }
        okv_session_destroy(session);
    }
}

TEST(a_slot_beyond_the_last_is_refused)
{
    struct okv_session *session = okv_session_create(1, 0, CREDITS);

    assert_int_equal(okv_session_slot_acquire(session, CREDITS), OKV_ECREDIT);
    assert_int_equal(okv_session_slot_acquire(session, 64), OKV_ECREDIT);
    assert_int_equal(okv_session_slot_acquire(session, UINT16_MAX), OKV_ECREDIT);
    assert_int_equal(okv_session_slot_acquire(session, CREDITS - 1), 0);
    okv_session_destroy(session);
}

/* Several times around the ring, at every number of deferred requests. */
TEST(deferred_requests_keep_their_order)
{
    struct okv_session *session = okv_session_create(1, 0, CREDITS);
    uint32_t in = 0, out = 0;

    for (uint32_t fill = 1; fill <= CREDITS; fill++) {
        for (uint32_t round = 0; round < 2 * CREDITS; round++) {
            while (in - out < fill) {
                struct okv_event event = request(in++);
                okv_session_defer(session, &event);
            }
            const struct okv_event *oldest = okv_session_oldest(session);
            assert_non_null(oldest);
            assert_int_equal(oldest->immediate, out);
            assert_int_equal(oldest->slot, out);
            okv_session_drop_oldest(session);
            out++;
        }
    }
    for (; out < in; out++)
        okv_session_drop_oldest(session);
    assert_null(okv_session_oldest(session));
    okv_session_destroy(session);
}

TEST(a_single_credit_is_enough)
{
    struct okv_session *session = okv_session_create(1, 0, 1);

    for (uint32_t i = 0; i < 3; i++) {
        struct okv_event event = request(i);
        okv_session_defer(session, &event);
        assert_int_equal(okv_session_oldest(session)->immediate, i);
        okv_session_drop_oldest(session);
    }
    okv_session_destroy(session);
}

/* ---- handshake ---- */

static const struct okv_database DATABASES[] = {{.id = 11}, {.id = 12}};

static const struct okv_handshake_terms TERMS = {
    .slot_size = OKV_SLOT_SIZE_DEFAULT,
    .credits = 16,
    .databases = DATABASES,
    .database_count = 2,
};

static const struct okv_hello HELLO = {
    .slot_size = OKV_SLOT_SIZE_DEFAULT,
    .credits = 8,
    .client_id = {1, 2, 3},
    .database = 12,
};

/* The decision about a hello. A refusal must leave `credits` at 77. */
static int decide(const struct okv_hello *hello, const struct okv_handshake_terms *terms,
                  uint32_t *credits)
{
    struct okv_handshake_client client = {.credits = 77};
    struct okv_wire_hello wire;

    okv_hello_encode(hello, &wire);
    int reason = okv_handshake_decide((const uint8_t *)&wire, sizeof wire, terms, &client);
    *credits = client.credits;
    return reason;
}

TEST(a_hello_names_client_and_session)
{
    struct okv_hello hello = HELLO;
    struct okv_handshake_client client;
    struct okv_wire_hello wire;

    hello.resume = UINT32_C(0x55667788);
    okv_hello_encode(&hello, &wire);
    assert_int_equal(okv_handshake_decide((const uint8_t *)&wire, sizeof wire, &TERMS, &client), 0);
    assert_memory_equal(client.client_id, hello.client_id, sizeof hello.client_id);
    assert_int_equal(client.resume, hello.resume);
    assert_int_equal(client.database, 1);
}

/* Who asks is told so when it is known who that is. */
TEST(a_database_that_is_not_there_is_marked)
{
    struct okv_hello hello = HELLO;
    struct okv_handshake_client client;
    struct okv_wire_hello wire;

    hello.database = 13;
    okv_hello_encode(&hello, &wire);
    assert_int_equal(okv_handshake_decide((const uint8_t *)&wire, sizeof wire, &TERMS, &client), 0);
    assert_int_equal(client.database, OKV_HANDSHAKE_NO_DATABASE);
}

TEST(a_client_gets_what_it_asks_up_to_the_limit)
{
    struct okv_hello hello = HELLO;
    uint32_t credits;

    assert_int_equal(decide(&hello, &TERMS, &credits), 0);
    assert_int_equal(credits, 8);
    hello.credits = 16;
    assert_int_equal(decide(&hello, &TERMS, &credits), 0);
    assert_int_equal(credits, 16);
    hello.credits = OKV_CREDITS_MAX;
    assert_int_equal(decide(&hello, &TERMS, &credits), 0);
    assert_int_equal(credits, 16);
    hello.credits = 1;
    assert_int_equal(decide(&hello, &TERMS, &credits), 0);
    assert_int_equal(credits, 1);
}

TEST(a_hello_that_makes_no_sense_is_malformed)
{
    struct okv_wire_hello wire;
    const uint8_t *bytes = (const uint8_t *)&wire;
    struct okv_hello hello = HELLO;
    struct okv_handshake_client client;
    uint32_t credits;

    okv_hello_encode(&hello, &wire);
    for (size_t length = 0; length < sizeof wire; length++)
        assert_int_equal(okv_handshake_decide(bytes, length, &TERMS, &client),
                         OKV_REJECT_MALFORMED);
    wire.magic.bytes[0] ^= 1;
    assert_int_equal(okv_handshake_decide(bytes, sizeof wire, &TERMS, &client),
                     OKV_REJECT_MALFORMED);
    hello.proof[3] = 1; /* of no key */
    assert_int_equal(decide(&hello, &TERMS, &credits), OKV_REJECT_MALFORMED);
    assert_int_equal(credits, 77);
}

/* A transport may pad the hello with zeros. */
TEST(padding_is_ignored)
{
    struct {
        struct okv_wire_hello wire;
        uint8_t padding[40];
    } padded = {.padding = {0}};
    struct okv_handshake_client client;

    okv_hello_encode(&HELLO, &padded.wire);
    assert_int_equal(okv_handshake_decide((const uint8_t *)&padded, sizeof padded, &TERMS, &client),
                     0);
    assert_int_equal(client.credits, 8);
}

/* Also when there are other reasons to refuse. */
TEST(another_version_is_refused_first)
{
    struct okv_handshake_terms terms = TERMS;
    struct okv_handshake_client client = {.credits = 77};
    struct okv_wire_hello wire;

    terms.stopping = true;
    okv_hello_encode(&HELLO, &wire);
    wire.version.bytes[0] = OKV_WIRE_VERSION + 1;
    assert_int_equal(okv_handshake_decide((const uint8_t *)&wire, sizeof wire, &terms, &client),
                     OKV_REJECT_VERSION);
    assert_int_equal(client.credits, 77);
}

TEST(unknown_features_are_ignored)
{
    struct okv_hello hello = HELLO;
    struct okv_handshake_client client;
    struct okv_wire_hello wire;
    uint32_t credits;

    hello.features = 63;
    assert_int_equal(decide(&hello, &TERMS, &credits), 0);
    assert_int_equal(credits, 8);
    okv_hello_encode(&hello, &wire);
    okv_handshake_decide((const uint8_t *)&wire, sizeof wire, &TERMS, &client);
    assert_int_equal(client.features, OKV_FEATURES_ALL);
}

TEST(a_client_must_accept_the_largest_message)
{
    struct okv_hello hello = HELLO;
    uint32_t credits;

    hello.slot_size = OKV_SLOT_SIZE_DEFAULT - OKV_SLOT_UNIT;
    assert_int_equal(decide(&hello, &TERMS, &credits), OKV_REJECT_SLOT_SIZE);
    assert_int_equal(credits, 77);
    hello.slot_size = OKV_SLOT_SIZE_MAX;
    assert_int_equal(decide(&hello, &TERMS, &credits), 0);
}

TEST(a_stopping_server_refuses_clients)
{
    struct okv_handshake_terms terms = TERMS;
    uint32_t credits;

    terms.stopping = true;
    assert_int_equal(decide(&HELLO, &terms, &credits), OKV_REJECT_STOPPING);
    assert_int_equal(credits, 77);
}
