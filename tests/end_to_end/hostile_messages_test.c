/*
 * Clients that say what no client should. Each is refused, answered or
 * disconnected as docs/format.md says, the server counts why, and a bystander
 * notices nothing.
 */
#include <signal.h>

#include "tests/support/test.h"

#include "tests/support/hostile_client.h"

/* The server's figures that say why a client was turned away. */
#define REFUSED_HELLO "rejected_malformed"
#define REFUSED_VERSION "rejected_version"
#define CLOSED_MALFORMED "closed_malformed"
#define CLOSED_CREDIT "closed_credit"

static struct bystander *bystander_of(void **state)
{
    return *state;
}

/* ---- hellos ---- */

/* The server refuses `hello` for `reason` and counts it as `counter`. */
static void expect_refusal(struct bystander *bystander, const char *what, const void *hello,
                           size_t length, uint32_t reason, const char *counter)
{
    struct hostile hostile;
    struct okv_reject reject;
    uint64_t before = bystander_stat(bystander, counter);
    int rc = hostile_connect(&hostile, &bystander->server, hello, length);

    if (rc != OKV_EREFUSED || !hostile.answer.rejected)
        fail_msg("%s: %s instead of a rejection", what, okv_errname(rc));
    assert_int_equal(okv_reject_decode(hostile.answer.bytes, hostile.answer.length, &reject), 0);
    if (reject.reason != reason)
        fail_msg("%s: refused for reason %u, not %u", what, reject.reason, reason);
    assert_int_equal(reject.version, OKV_WIRE_VERSION);
    assert_int_equal(reject.detail, 0);
    bystander_expect_stat(bystander, counter, before + 1);
    bystander_check(bystander);
}

TEST(hello_of_another_version)
{
    static const uint16_t versions[] = {0, OKV_WIRE_VERSION + 1, UINT16_MAX};

    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        struct okv_wire_hello hello;
        hostile_hello(&hello);
        hello.version = okv_le16_of(versions[i]);
        expect_refusal(bystander_of(state), "another version", &hello, sizeof hello,
                       OKV_REJECT_VERSION, REFUSED_VERSION);
    }
    /* What a user of the other version is told. */
    assert_int_equal(okv_reject_code(OKV_REJECT_VERSION), OKV_EVERSION);
    assert_non_null(strstr(okv_reject_text(OKV_REJECT_VERSION), "another protocol version"));
}

TEST(hello_that_is_none)
{
    uint8_t garbage[OKV_HELLO_MAX];

    for (size_t i = 0; i < sizeof garbage; i++)
        garbage[i] = (uint8_t)(i * 131 + 77);
    expect_refusal(bystander_of(state), "garbage", garbage, sizeof garbage, OKV_REJECT_MALFORMED,
                   REFUSED_HELLO);
    expect_refusal(bystander_of(state), "nothing", garbage, 0, OKV_REJECT_MALFORMED, REFUSED_HELLO);
    memset(garbage, 0, sizeof garbage);
    expect_refusal(bystander_of(state), "zeros", garbage, sizeof garbage, OKV_REJECT_MALFORMED,
                   REFUSED_HELLO);
}

static void expect_malformed(void **state, const char *what, const struct okv_wire_hello *hello)
{
    expect_refusal(bystander_of(state), what, hello, sizeof *hello, OKV_REJECT_MALFORMED,
                   REFUSED_HELLO);
}

TEST(hello_with_a_wrong_field)
{
    static const uint16_t slot_units[] = {0, OKV_SLOT_SIZE_MIN / OKV_SLOT_UNIT - 2,
                                          OKV_SLOT_SIZE_MAX / OKV_SLOT_UNIT, UINT16_MAX};
    struct okv_wire_hello good, hello;

    hostile_hello(&good);
    for (size_t i = 0; i < sizeof slot_units / sizeof *slot_units; i++) {
        hello = good;
        hello.slot_units = okv_le16_of(slot_units[i]);
        expect_malformed(state, "a slot size out of range", &hello);
    }
    hello = good;
    hello.proof[sizeof hello.proof - 1] = 1;
    expect_malformed(state, "a proof of no key", &hello);
    hello = good;
    hello.length = okv_le16_of(sizeof hello - 1);
    expect_malformed(state, "a length that is too small", &hello);
    hello = good;
    hello.length = okv_le16_of(UINT16_MAX);
    expect_malformed(state, "a length that is too large", &hello);
}

/* What a client offers binds nobody. */
TEST(features_that_do_not_exist)
{
    struct okv_wire_hello hello;
    struct hostile hostile;

    hostile_hello(&hello);
    hello.credits = okv_le16_of(UINT16_MAX);
    assert_int_equal(hostile_connect(&hostile, &bystander_of(state)->server, &hello, sizeof hello),
                     0);
    assert_int_equal(
        okv_welcome_decode(hostile.answer.bytes, hostile.answer.length, &hostile.table), 0);
    assert_int_equal(hostile.table.features, OKV_FEATURE_REPORTS); /* this one evicts nothing */
    hostile_leave(&hostile);
    bystander_check(bystander_of(state));
}

/* ---- messages ---- */

struct bad_message {
    const char *what;
    uint32_t immediate;
    uint32_t length; /* of the message; the rest is what its header says */
    uint32_t key_length, value_length, flags;
    uint64_t argument;
    uint64_t ttl_ms;
    uint32_t reserved;
};

#define OPERATION(name) ((uint32_t)OKV_OP_##name << 24)
#define HEADER ((uint32_t)OKV_REQUEST_HEADER)
#define PLACE ((uint32_t)sizeof(struct okv_wire_rendezvous))
#define ABSENT OKV_REQUEST_IF_ABSENT
#define VERSION OKV_REQUEST_IF_VERSION
#define RENDEZVOUS OKV_REQUEST_RENDEZVOUS
#define TTL_MOST ((UINT64_C(1) << 48) - 1)

/* Lengths that do not add up, and what no operation may have. */
static const struct bad_message bad_frames[] = {
    {"an empty message", OPERATION(PING), 0, 0, 0, 0, 0, 0, 0},
    {"one byte", OPERATION(PING), 1, 0, 0, 0, 0, 0, 0},
    {"a header that lacks a byte", OPERATION(PING), HEADER - 1, 0, 0, 0, 0, 0, 0},
    {"a byte too many", OPERATION(PING), HEADER + 1, 0, 0, 0, 0, 0, 0},
    {"a value that is not there", OPERATION(PUT), HEADER + 1, 1, 100, 0, 0, 0, 0},
    {"a key that is not there", OPERATION(GET), HEADER, 1024, 0, 0, 0, 0, 0},
    {"more than was announced", OPERATION(PUT), HEADER + 50, 1, 0, 0, 0, 0, 0},
    {"lengths whose sum wraps", OPERATION(PUT), HEADER, 1, UINT32_MAX, 0, 0, 0, 0},
    {"a reserved bit of the immediate", OPERATION(PING) | 1u << 16, HEADER, 0, 0, 0, 0, 0, 0},
    {"the last reserved bit", OPERATION(PING) | 1u << 23, HEADER, 0, 0, 0, 0, 0, 0},
    {"a reserved bit of the header", OPERATION(PING), HEADER, 0, 0, 0, 0, 0, 1},
    {"all reserved bits of the header", OPERATION(PUT), HEADER + 1, 1, 0, 0, 0, 0, 0xffff},
    {"a reply", OPERATION(PING) | OKV_IMMEDIATE_REPLY, HEADER, 0, 0, 0, 0, 0, 0},
    {"a goodbye", OPERATION(GOODBYE) | OKV_IMMEDIATE_REPLY, HEADER, 0, 0, 0, 0, 0, 0},
    {"a PUT with an unknown flag", OPERATION(PUT), HEADER + 1, 1, 0, 16, 0, 0, 0},
    {"a PUT with the last flag", OPERATION(PUT), HEADER + 1, 1, 0, 0x8000, 0, 0, 0},
    {"a PUT of 1025 bytes of key", OPERATION(PUT), HEADER + 1026, 1025, 1, 0, 0, 0, 0},
    {"a GET of 1025 bytes of key", OPERATION(GET), HEADER + 1025, 1025, 0, 0, 0, 0, 0},
    {"a DELETE of 65535 bytes of key", OPERATION(DELETE), HEADER + 8000, 65535, 0, 0, 0, 0, 0},
};

/* A time to live and an advertised buffer, where they may be. */
static const struct bad_message bad_fields[] = {
    {"a PUT for 2^47 ms", OPERATION(PUT), HEADER + 1, 1, 0, 0, 0, OKV_TTL_MAX + 1, 0},
    {"a PUT that keeps and sets a time to live", OPERATION(PUT), HEADER + 1, 1, 0,
     OKV_REQUEST_KEEP_TTL, 0, 1, 0},
    {"a PUT for 2^48 ms", OPERATION(PUT), HEADER + 1, 1, 0, 0, 0, TTL_MOST, 0},
    {"a TOUCH for 2^47 ms", OPERATION(TOUCH), HEADER + 1, 1, 0, 0, 0, OKV_TTL_MAX + 1, 0},
    {"both conditions", OPERATION(PUT), HEADER + 1, 1, 0, ABSENT | VERSION, 7, 0, 0},
    {"a version without condition", OPERATION(PUT), HEADER + 1, 1, 0, 0, 1, 0, 0},
    {"the last bit of a version", OPERATION(PUT), HEADER + 1, 1, 0, ABSENT, UINT64_C(1) << 63, 0,
     0},
    {"a DELETE's without condition", OPERATION(DELETE), HEADER + 1, 1, 0, 0, 1, 0, 0},
    {"a rendezvous read of nothing", OPERATION(PUT), HEADER + 1 + PLACE, 1, 0, RENDEZVOUS, 0, 0, 0},
    {"a rendezvous read without place", OPERATION(PUT), HEADER + 1, 1, 100, RENDEZVOUS, 0, 0, 0},
    {"a rendezvous read whose place lacks a byte", OPERATION(PUT), HEADER + PLACE, 1, 100,
     RENDEZVOUS, 0, 0, 0},
    {"a rendezvous read and a byte", OPERATION(PUT), HEADER + 2 + PLACE, 1, 100, RENDEZVOUS, 0, 0,
     0},
    {"a rendezvous read with the value", OPERATION(PUT), HEADER + 101, 1, 100, RENDEZVOUS, 0, 0, 0},
    {"a rendezvous read and both conditions", OPERATION(PUT), HEADER + 1 + PLACE, 1, 100,
     RENDEZVOUS | ABSENT | VERSION, 0, 0, 0},
    {"a rendezvous read without key", OPERATION(PUT), HEADER + PLACE, 0, 100, RENDEZVOUS, 0, 0, 0},
    {"HITS that were not agreed upon", OPERATION(HITS), HEADER + 8, 0, 8, 0, 0, 0, 0},
    {"a FLUSH with 1 byte", OPERATION(FLUSH), HEADER + 1, 0, 1, 0, 0, 0, 0},
    {"a FLUSH with 7 bytes", OPERATION(FLUSH), HEADER + 7, 0, 7, 0, 9, 0, 0},
    {"a FLUSH with 9 bytes", OPERATION(FLUSH), HEADER + 9, 0, 9, 0, 9, 0, 0},
    {"a FLUSH with 16 bytes", OPERATION(FLUSH), HEADER + 16, 0, 16, 0, 9, 0, 0},
    {"a FLUSH with 9000 bytes", OPERATION(FLUSH), HEADER + 9000, 0, 9000, 0, 0, 0, 0},
};

static void send_bad(struct hostile *hostile, const struct bad_message *bad)
{
    static uint8_t bytes[65536];
    struct okv_wire_request header = {
        .sequence = okv_le64_of(1),
        .argument = okv_le64_of(bad->argument),
        .ttl_ms = okv_le48_of(bad->ttl_ms),
        .value_length = okv_le32_of(bad->value_length),
        .key_length = okv_le16_of((uint16_t)bad->key_length),
        .flags = okv_le16_of((uint16_t)bad->flags),
        .reserved = okv_le16_of((uint16_t)bad->reserved),
    };

    memset(bytes, 'x', sizeof bytes);
    memcpy(bytes, &header, sizeof header);
    hostile_send(hostile, bytes, bad->length, bad->immediate);
}

/* The server ends the connection over the message and counts it as `counter`. */
static void expect_end(struct bystander *bystander, const struct bad_message *bad,
                       const char *counter)
{
    struct hostile hostile;
    uint64_t before = bystander_stat(bystander, counter);

    hostile_join(&hostile, &bystander->server);
    send_bad(&hostile, bad);
    hostile_expect_closed(&hostile, bad->what);
    hostile_leave(&hostile);
    bystander_expect_stat(bystander, counter, before + 1);
    bystander_expect_stat(bystander, "sessions", 1);
    bystander_check(bystander);
}

TEST(messages_that_make_no_sense)
{
    for (size_t i = 0; i < sizeof bad_frames / sizeof *bad_frames; i++)
        expect_end(bystander_of(state), &bad_frames[i], CLOSED_MALFORMED);
    for (size_t i = 0; i < sizeof bad_fields / sizeof *bad_fields; i++)
        expect_end(bystander_of(state), &bad_fields[i], CLOSED_MALFORMED);
}

/* What each operation may have; what else there is, it may not. */
struct operation {
    const char *name;
    uint32_t immediate;
    bool key, value, argument, ttl;
    uint32_t flags;
};

static const struct operation operations[] = {
    {"PING", OPERATION(PING), false, true, false, false, 0},
    {"STAT", OPERATION(STAT), false, false, false, false, 0},
    {"GET", OPERATION(GET), true, false, false, false, 0},
    {"PUT", OPERATION(PUT), true, true, false, true,
     ABSENT | VERSION | RENDEZVOUS | OKV_REQUEST_KEEP_TTL},
    {"DELETE", OPERATION(DELETE), true, false, false, false, VERSION},
    {"APPEND", OPERATION(APPEND), true, true, false, false, 0},
    {"TOUCH", OPERATION(TOUCH), true, false, false, true, 0},
    {"INCR", OPERATION(INCR), true, false, true, false, 0},
    {"INCR_TTL", OPERATION(INCR_TTL), true, false, true, true, 0},
    {"GET_TOUCH", OPERATION(GET_TOUCH), true, false, false, true, 0},
    {"FLUSH", OPERATION(FLUSH), false, true, true, false, 0},
    {"ADMIN", OPERATION(ADMIN), false, true, false, false, 0},
};

/* The operation with nothing but the key that it needs, and then one thing too many or too few. */
static void expect_end_of(struct bystander *bystander, const struct operation *operation,
                          const char *thing, uint32_t key, uint32_t value, uint32_t flags,
                          uint64_t argument, uint64_t ttl_ms)
{
    char what[64];
    uint32_t rest = flags & RENDEZVOUS ? PLACE : value;
    struct bad_message bad = {
        what, operation->immediate, HEADER + key + rest, key, value, flags, argument, ttl_ms, 0};

    snprintf(what, sizeof what, "%s %s", operation->name, thing);
    expect_end(bystander, &bad, CLOSED_MALFORMED);
}

TEST(operations_with_what_they_may_not_have)
{
    struct bystander *bystander = bystander_of(state);

    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        const struct operation *operation = &operations[i];
        uint32_t key = operation->key;
        expect_end_of(bystander, operation, operation->key ? "without key" : "with a key", !key, 0,
                      0, 0, 0);
        if (!operation->value)
            expect_end_of(bystander, operation, "with a value", key, 8, 0, 0, 0);
        if (!operation->argument)
            expect_end_of(bystander, operation, "with an argument", key, 0, 0, 1, 0);
        if (!operation->ttl)
            expect_end_of(bystander, operation, "with a time to live", key, 0, 0, 0, 1);
        for (uint32_t flag = 1; flag <= 16; flag <<= 1) /* 16: no flag at all */
            if (!(operation->flags & flag))
                expect_end_of(bystander, operation, "with a flag", key, flag == RENDEZVOUS ? 8 : 0,
                              flag, 0, 0);
    }
}

/* The same after a good request: what went well before earns no trust. */
TEST(message_that_makes_no_sense_later)
{
    static const struct okv_request_message ping = {.opcode = OKV_OP_PING, .slot = 3};
    struct bystander *bystander = bystander_of(state);
    struct hostile hostile;
    uint64_t before = bystander_stat(bystander, CLOSED_MALFORMED);

    hostile_join(&hostile, &bystander->server);
    hostile_request(&hostile, &ping);
    hostile_expect_reply(&hostile, 3, OKV_OK);
    send_bad(&hostile, &bad_frames[2]);
    hostile_expect_closed(&hostile, bad_frames[2].what);
    hostile_leave(&hostile);
    bystander_expect_stat(bystander, CLOSED_MALFORMED, before + 1);
    bystander_check(bystander);
}

/* Larger than any receive buffer of the server: over RDMA the device refuses it. */
TEST(message_larger_than_a_slot)
{
    struct bystander *bystander = bystander_of(state);
    struct hostile hostile;
    uint64_t before = bystander_stat(bystander, CLOSED_MALFORMED);

    hostile_join(&hostile, &bystander->server);
    uint32_t length = hostile.table.slot_size + 1;
    struct bad_message bad = {
        "a message larger than a slot", OPERATION(PUT), length, 1, length - HEADER - 1, 0, 0, 0, 0};
    send_bad(&hostile, &bad);
    hostile_expect_closed(&hostile, bad.what);
    hostile_leave(&hostile);
    bystander_expect_stat(bystander, CLOSED_MALFORMED, before + 1);
    bystander_expect_stat(bystander, "sessions", 1);
    bystander_check(bystander);
}

/* A later version may know more operations: they are answered, not punished. */
TEST(operations_that_do_not_exist)
{
    static const unsigned opcodes[] = {0, OKV_OP_HITS + 1, 64, 126};
    static const struct okv_request_message ping = {.opcode = OKV_OP_PING, .slot = 3};
    struct bystander *bystander = bystander_of(state);
    struct hostile hostile;

    hostile_join(&hostile, &bystander->server);
    for (size_t i = 0; i < sizeof opcodes / sizeof *opcodes; i++) {
        struct okv_request_message request = {.opcode = opcodes[i],
                                              .slot = (uint16_t)(i % HOSTILE_CREDITS),
                                              .key = (const uint8_t *)"k"};
        request.key_length = i % 2;
        hostile_request(&hostile, &request);
        hostile_expect_reply(&hostile, (uint16_t)(i % HOSTILE_CREDITS), OKV_EUNSUPPORTED);
    }
    hostile_request(&hostile, &ping);
    hostile_expect_reply(&hostile, 3, OKV_OK);
    hostile_leave(&hostile);
    bystander_check(bystander);
}

/* The longest that a message can carry is stored; what the server would never store is not
 * even asked for, whatever it says of where it is. */
TEST(value_over_the_limit)
{
    struct bystander *bystander = bystander_of(state);
    struct hostile hostile;
    static uint8_t value[65536];
    uint64_t failed = bystander_stat(bystander, "rendezvous_failed");

    hostile_join(&hostile, &bystander->server);
    struct okv_request_message put = {.opcode = OKV_OP_PUT,
                                      .slot = 2,
                                      .flags = OKV_REQUEST_RENDEZVOUS,
                                      .key = (const uint8_t *)"k",
                                      .key_length = 1,
                                      .rendezvous_address = 12345,
                                      .rendezvous_key = 67890};
    const uint32_t lengths[] = {hostile.table.max_value + 1, OKV_VALUE_MAX + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        put.value_length = lengths[i];
        hostile_request(&hostile, &put);
        hostile_expect_reply(&hostile, 2, OKV_EVALUESIZE);
    }
    put.flags = 0;
    put.value = value;
    put.value_length = hostile.table.slot_size - HEADER - 1;
    hostile_request(&hostile, &put);
    hostile_expect_reply(&hostile, 2, OKV_OK);
    hostile_leave(&hostile);
    assert_int_equal(bystander_stat(bystander, "rendezvous_failed"), failed);
    bystander_check(bystander);
}

/* The reply to a FLUSH: where to go on, and what to send along. */
static struct okv_wire_flush flush_step(struct hostile *hostile, uint64_t argument,
                                        const void *value, uint32_t value_length)
{
    struct okv_request_message flush = {.opcode = OKV_OP_FLUSH,
                                        .slot = 3,
                                        .argument = argument,
                                        .value = value,
                                        .value_length = value_length};
    struct okv_wire_flush answer;

    hostile_request(hostile, &flush);
    struct okv_event event = hostile_event(hostile);
    struct okv_reply_message reply;
    assert_int_equal(event.type, OKV_EVENT_RECV);
    assert_int_equal(okv_reply_decode(event.immediate, event.data, event.length, &reply), 0);
    assert_int_equal(reply.status, OKV_OK);
    assert_int_equal(reply.value_length, sizeof answer);
    memcpy(&answer, reply.value, sizeof answer);
    hostile->ops->recv_release(hostile->conn->endpoint, &event);
    return answer;
}

/* Any numbers do: the server says where to go on, and who follows has emptied the table. */
TEST(flush_with_junk)
{
    enum { STEPS_MAX = 10000 };
    static const uint64_t junk[][2] = {
        {0, 0},
        {0, 99},
        {1, 0},
        {1, UINT64_MAX},
        {UINT64_MAX, 0},
        {UINT64_MAX, UINT64_MAX},
        {UINT64_C(1) << 63, 1},
        {64, 12345678},
        {INT64_MAX, INT64_MAX},
    };
    struct bystander *bystander = bystander_of(state);
    struct okv_wire_flush answer = {.next = okv_le64_of(0)};
    struct hostile hostile;
    unsigned steps = 0;

    hostile_join(&hostile, &bystander->server);
    for (size_t i = 0; i < sizeof junk / sizeof *junk; i++) {
        okv_le64 splits = okv_le64_of(junk[i][1]);
        flush_step(&hostile, junk[i][0], &splits, sizeof splits);
        flush_step(&hostile, junk[i][0], NULL, 0);
        bystander_check(bystander);
    }
    answer = flush_step(&hostile, UINT64_MAX, "8 bytes!", 8);
    while (okv_le64_get(answer.next) && ++steps < STEPS_MAX)
        answer = flush_step(&hostile, okv_le64_get(answer.next), &answer.splits, 8);
    assert_in_range(steps, 0, STEPS_MAX - 1);
    assert_int_equal(bystander_stat(bystander, "items"), 0);
    hostile_leave(&hostile);
    bystander_check(bystander);
}

/* ---- credits ---- */

static void expect_credit_end(struct bystander *bystander, struct hostile *hostile, uint64_t before)
{
    struct okv_event event;

    while (event = hostile_event(hostile), event.type == OKV_EVENT_RECV)
        hostile->ops->recv_release(hostile->conn->endpoint, &event);
    assert_int_equal(event.type, OKV_EVENT_CLOSED);
    hostile_leave(hostile);
    bystander_expect_stat(bystander, CLOSED_CREDIT, before + 1);
    bystander_expect_stat(bystander, "sessions", 1);
    bystander_check(bystander);
}

TEST(request_slot_that_was_not_granted)
{
    static const uint16_t request_slots[] = {HOSTILE_CREDITS, 15,        16, 63, 64,
                                             OKV_CREDITS_MAX, UINT16_MAX};
    struct bystander *bystander = bystander_of(state);
    struct hostile hostile;

    for (size_t i = 0; i < sizeof request_slots / sizeof *request_slots; i++) {
        const struct okv_request_message ping = {.opcode = OKV_OP_PING, .slot = request_slots[i]};
        uint64_t before = bystander_stat(bystander, CLOSED_CREDIT);
        hostile_join(&hostile, &bystander->server);
        hostile_request(&hostile, &ping);
        expect_credit_end(bystander, &hostile, before);
    }
}

/* The value of the first is still being fetched when the second comes. */
TEST(request_slot_that_is_taken)
{
    static uint8_t value[100000];
    const struct okv_request_message ping = {.opcode = OKV_OP_PING, .slot = 2};
    struct bystander *bystander = bystander_of(state);
    struct okv_advert *advert;
    struct hostile hostile;
    uint64_t before = bystander_stat(bystander, CLOSED_CREDIT);

    hostile_join(&hostile, &bystander->server);
    assert_int_equal(hostile.ops->advertise(hostile.conn, value, sizeof value, &advert), 0);
    const struct okv_request_message put = {.opcode = OKV_OP_PUT,
                                            .slot = 2,
                                            .flags = OKV_REQUEST_RENDEZVOUS,
                                            .key = (const uint8_t *)"k",
                                            .key_length = 1,
                                            .value_length = sizeof value,
                                            .rendezvous_address = advert->address,
                                            .rendezvous_key = advert->key};
    server_signal(&bystander->server, SIGSTOP);
    hostile_request(&hostile, &put);
    hostile_request(&hostile, &ping);
    server_signal(&bystander->server, SIGCONT);
    hostile.ops->withdraw(advert, false);
    expect_credit_end(bystander, &hostile, before);
}

/* Sends more PINGs than there are credits to a server that stands still meanwhile. */
static unsigned exceed_credits(struct bystander *bystander, struct hostile *hostile, bool at_once)
{
    const struct okv_request_message ping = {.opcode = OKV_OP_PING};

    hostile_join(hostile, &bystander->server);
    server_signal(&bystander->server, SIGSTOP);
    unsigned count = hostile_burst(hostile, &ping, at_once);
    server_signal(&bystander->server, SIGCONT);
    assert_true(count > hostile->table.credits);
    return count;
}

/* The server meets all at once: it serves some, and finds the others on a request slot that waits.
 */
TEST(more_requests_than_credits)
{
    struct bystander *bystander = bystander_of(state);
    struct hostile hostile;
    uint64_t before = bystander_stat(bystander, CLOSED_CREDIT);

    exceed_credits(bystander, &hostile, true);
    expect_credit_end(bystander, &hostile, before);
}

/* Of TLS the server takes one record at a time: it answers what that has before it meets the next,
 * and no request comes to a slot that waits. Whichever way, the client is not left in silence. */
TEST(more_requests_than_credits_one_by_one)
{
    struct bystander *bystander = bystander_of(state);
    struct hostile hostile;
    struct okv_event event;
    unsigned replies = 0;
    uint64_t before = bystander_stat(bystander, CLOSED_CREDIT);

    unsigned count = exceed_credits(bystander, &hostile, false);
    while (replies < count && (event = hostile_event(&hostile), event.type == OKV_EVENT_RECV)) {
        hostile.ops->recv_release(hostile.conn->endpoint, &event);
        replies++;
    }
    if (server_has_tls())
        assert_int_equal(replies, count);
    hostile_leave(&hostile);
    bystander_expect_stat(bystander, CLOSED_CREDIT, before + (replies < count));
    bystander_expect_stat(bystander, "sessions", 1);
    bystander_check(bystander);
}

TEST_PROGRAM(bystander_setup, bystander_teardown)
