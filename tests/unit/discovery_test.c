/* The datagrams of discovery: what the decoders refuse, and what they hand on. */
#include "tests/support/test.h"

#include "shared/base/error.h"
#include "shared/format/discovery.h"

#define LENGTH sizeof(struct okv_wire_discovery)

static const struct okv_discovery_query QUERY = {.nonce = 7, .name = "cache"};
static const struct okv_discovery_answer ANSWER = {
    .nonce = 7,
    .boot_id = 9,
    .items = 10,
    .memory_used = 11,
    .name = "cache",
    .release = "0.2.0",
    .uri_count = 2,
    .uris = {"rdma://10.0.0.1:7471", "local:///run/okv.sock"},
};

/* Decodes a copy of exactly that length, so that AddressSanitizer sees what reaches past it. */
static int decode(const uint8_t *bytes, size_t length, enum okv_discovery_kind kind)
{
    struct okv_discovery_query query;
    struct okv_discovery_answer answer;
    uint8_t *copy = malloc(length ? length : 1);

    assert_non_null(copy);
    memcpy(copy, bytes, length);
    int rc = kind == OKV_DISCOVERY_QUERY ? okv_discovery_query_decode(copy, length, &query)
                                         : okv_discovery_answer_decode(copy, length, &answer);
    free(copy);
    return rc;
}

static void encode(enum okv_discovery_kind kind, uint8_t bytes[LENGTH])
{
    struct okv_wire_discovery wire;

    if (kind == OKV_DISCOVERY_QUERY)
        okv_discovery_query_encode(&QUERY, &wire);
    else
        okv_discovery_answer_encode(&ANSWER, &wire);
    memcpy(bytes, &wire, sizeof wire);
}

/* A datagram with one byte changed. */
struct spoiled {
    enum okv_discovery_kind kind;
    size_t offset;
    uint8_t byte;
    int code;
};

static const struct spoiled SPOILED[] = {
    {OKV_DISCOVERY_QUERY, 0, 'O', OKV_EPROTO},     /* magic */
    {OKV_DISCOVERY_QUERY, 4, 2, OKV_EVERSION},     /* version */
    {OKV_DISCOVERY_QUERY, 6, 0x7f, OKV_EPROTO},    /* length */
    {OKV_DISCOVERY_QUERY, 8, 2, OKV_EPROTO},       /* kind: an answer */
    {OKV_DISCOVERY_QUERY, 8, 0, OKV_EPROTO},       /* kind: none */
    {OKV_DISCOVERY_QUERY, 11, 1, OKV_EPROTO},      /* kind: its last byte */
    {OKV_DISCOVERY_QUERY, 12, 1, OKV_EPROTO},      /* reserved */
    {OKV_DISCOVERY_QUERY, 24, ' ', OKV_EPROTO},    /* name: not of its letters */
    {OKV_DISCOVERY_QUERY, 24, 0, OKV_EPROTO},      /* name: "" with a rest */
    {OKV_DISCOVERY_QUERY, 40, 'x', OKV_EPROTO},    /* name: something behind its end */
    {OKV_DISCOVERY_QUERY, 55, 'x', OKV_EPROTO},    /* name: without an end */
    {OKV_DISCOVERY_QUERY, 56, 1, OKV_EPROTO},      /* padding: its first byte */
    {OKV_DISCOVERY_QUERY, 895, 1, OKV_EPROTO},     /* padding: its last byte */
    {OKV_DISCOVERY_ANSWER, 4, 0, OKV_EVERSION},    /* version */
    {OKV_DISCOVERY_ANSWER, 8, 1, OKV_EPROTO},      /* kind: a query */
    {OKV_DISCOVERY_ANSWER, 15, 1, OKV_EPROTO},     /* reserved */
    {OKV_DISCOVERY_ANSWER, 24, 0x1b, OKV_EPROTO},  /* name: an escape sequence */
    {OKV_DISCOVERY_ANSWER, 56, 0, OKV_EPROTO},     /* boot id 0 */
    {OKV_DISCOVERY_ANSWER, 80, 0x1b, OKV_EPROTO},  /* release: an escape sequence */
    {OKV_DISCOVERY_ANSWER, 95, '1', OKV_EPROTO},   /* release: without an end */
    {OKV_DISCOVERY_ANSWER, 96, 1, OKV_EPROTO},     /* reserved_answer */
    {OKV_DISCOVERY_ANSWER, 127, 1, OKV_EPROTO},    /* reserved_answer */
    {OKV_DISCOVERY_ANSWER, 128, 0, OKV_EPROTO},    /* first URI: "" with a rest */
    {OKV_DISCOVERY_ANSWER, 130, '\n', OKV_EPROTO}, /* first URI: a control character */
    {OKV_DISCOVERY_ANSWER, 130, 0x7f, OKV_EPROTO}, /* first URI: a control character */
    {OKV_DISCOVERY_ANSWER, 130, 0x9b, OKV_EPROTO}, /* first URI: not ASCII */
    {OKV_DISCOVERY_ANSWER, 319, 'x', OKV_EPROTO},  /* first URI: without an end */
    {OKV_DISCOVERY_ANSWER, 704, 'x', OKV_EPROTO},  /* a fourth URI without a third */
    {OKV_DISCOVERY_ANSWER, 895, 'x', OKV_EPROTO},  /* last byte */
};

TEST(spoiled_datagrams_are_refused)
{
    uint8_t bytes[LENGTH];

    for (size_t i = 0; i < sizeof SPOILED / sizeof *SPOILED; i++) {
        const struct spoiled *spoiled = &SPOILED[i];
        encode(spoiled->kind, bytes);
        assert_int_equal(decode(bytes, LENGTH, spoiled->kind), 0);
        bytes[spoiled->offset] = spoiled->byte;
        int rc = decode(bytes, LENGTH, spoiled->kind);
        if (rc != spoiled->code)
            fail_msg("kind %d, byte %zu: %d and not %d", spoiled->kind, spoiled->offset, rc,
                     spoiled->code);
    }
}

TEST(an_answer_without_name_or_uri_is_refused)
{
    struct okv_wire_discovery wire;

    okv_discovery_answer_encode(&ANSWER, &wire);
    memset(wire.name, 0, sizeof wire.name);
    assert_int_equal(decode((uint8_t *)&wire, LENGTH, OKV_DISCOVERY_ANSWER), OKV_EPROTO);
    okv_discovery_answer_encode(&ANSWER, &wire);
    memset(wire.uris, 0, sizeof wire.uris);
    assert_int_equal(decode((uint8_t *)&wire, LENGTH, OKV_DISCOVERY_ANSWER), OKV_EPROTO);
    okv_discovery_answer_encode(&ANSWER, &wire);
    memset(wire.uris[0], 0, sizeof wire.uris[0]);
    assert_int_equal(decode((uint8_t *)&wire, LENGTH, OKV_DISCOVERY_ANSWER), OKV_EPROTO);
}

TEST(only_one_length_is_right)
{
    uint8_t bytes[LENGTH + 64] = {0};

    for (enum okv_discovery_kind kind = OKV_DISCOVERY_QUERY; kind <= OKV_DISCOVERY_ANSWER; kind++) {
        encode(kind, bytes);
        for (size_t length = 0; length <= sizeof bytes; length++)
            assert_int_equal(decode(bytes, length, kind), length == LENGTH ? 0 : OKV_EPROTO);
    }
}

TEST(a_query_may_name_no_server)
{
    const struct okv_discovery_query any = {.nonce = UINT64_MAX};
    struct okv_discovery_query back;
    struct okv_wire_discovery wire;

    okv_discovery_query_encode(&any, &wire);
    assert_int_equal(okv_discovery_query_decode((uint8_t *)&wire, sizeof wire, &back), 0);
    assert_string_equal(back.name, "");
    assert_true(back.nonce == UINT64_MAX);
}

TEST(longest_texts_fit)
{
    struct okv_discovery_answer answer = ANSWER, back;
    struct okv_wire_discovery wire;

    memset(answer.name, 'n', sizeof answer.name - 1);
    memset(answer.release, '9', sizeof answer.release - 1);
    answer.uri_count = OKV_DISCOVERY_URIS;
    for (unsigned i = 0; i < OKV_DISCOVERY_URIS; i++)
        memset(answer.uris[i], '~', OKV_DISCOVERY_URI_SIZE - 1);
    okv_discovery_answer_encode(&answer, &wire);
    memset(&back, 0, sizeof back); /* with the bytes behind its fields */
    assert_int_equal(okv_discovery_answer_decode((uint8_t *)&wire, sizeof wire, &back), 0);
    assert_memory_equal(&back, &answer, sizeof back);
    assert_true(okv_discovery_uri_fits(answer.uris[0]));
    assert_false(okv_discovery_uri_fits(""));
    assert_false(okv_discovery_uri_fits("local:///\xc3\xa4"));
    assert_false(okv_discovery_uri_fits("local:///\x1b"));
}

TEST(numbers_are_coarse)
{
    static const uint64_t cases[][2] = {
        {0, 0},     {1, 1},     {99, 99},           {100, 100},
        {109, 100}, {110, 110}, {1234567, 1200000}, {UINT64_MAX, UINT64_C(18000000000000000000)},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(okv_discovery_coarse(cases[i][0]) == cases[i][1]);
}
