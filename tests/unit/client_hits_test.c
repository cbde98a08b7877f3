/* Hits that a server which evicts is told of: which, when, and what its answer changes. */
#include "tests/support/test.h"

#include "client/connection/hits.h"
#include "client/connection/report.h"
#include "shared/base/clock.h"
#include "shared/format/hits.h"
#include "tests/support/stub_client.h"

#define FEATURES (OKV_FEATURE_REPORTS | OKV_FEATURE_HEAT)

static struct okv_hits terms = {.interval_ms = 60000, .batch = 20};

static bool answer_terms(const struct stub_request *request, struct stub_reply *reply)
{
    static struct okv_wire_hits wire;

    if (request->message.opcode != OKV_OP_HITS)
        return true;
    wire = okv_hits_encode(&terms);
    reply->message.value = (const uint8_t *)&wire;
    reply->message.value_length = sizeof wire;
    return true;
}

static void open_with(uint32_t features, uint32_t credits)
{
    const struct okv_options options = {.depth = 4, .credits = credits, .hints = OKV_HINTS_NONE};

    terms = (struct okv_hits){.interval_ms = 60000, .batch = 20};
    stub.welcome.features = features;
    stub.answer = answer_terms;
    handle = stub_open_with(&options);
}

static void note(uint64_t from, uint64_t to)
{
    for (uint64_t hash = from; hash < to; hash++)
        hits_note_found(handle, hash << 32, false);
}

/* Whether a batch waits for the next call that reads the clock, which is made. */
static bool is_due(void)
{
    bool due = handle->reporting.due_ns == 0;

    report_send(handle, okv_clock_ns());
    return due;
}

static void expect_hits(unsigned n, uint64_t first, unsigned count)
{
    const struct okv_request_message *message = &stub.requests[n].message;

    assert_int_equal(stub.sent, n + 1);
    assert_int_equal(message->opcode, OKV_OP_HITS);
    assert_int_equal(message->value_length, count * OKV_HIT_SIZE);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(okv_get_u64(message->value + i * OKV_HIT_SIZE), (first + i) << 32);
}

#define FIXTURE_TEST(name) TEST_WITH(name, client_setup, client_teardown)

FIXTURE_TEST(hits_are_told_in_batches)
{
    open_with(FEATURES, 4);
    note(1, 16);
    assert_int_not_equal(handle->reporting.due_ns, 0);
    note(1, 16); /* the same */
    assert_int_not_equal(handle->reporting.due_ns, 0);
    note(16, 17);
    assert_true(is_due());
    expect_hits(0, 1, 16);
    report_send(handle, okv_clock_ns()); /* takes the answer */
    note(101, 120);
    assert_int_not_equal(handle->reporting.due_ns, 0);
    note(120, 121);
    assert_true(is_due());
    expect_hits(1, 101, 20);
    assert_int_equal(okv_ping(handle), OKV_OK);
    assert_int_equal(handle->request_slots.count, 4);
}

FIXTURE_TEST(quiet_items_are_left_out)
{
    open_with(FEATURES, 4);
    for (uint64_t hash = 1; hash < 100; hash++)
        hits_note_found(handle, hash << 32, true);
    report_send(handle, okv_clock_ns());
    assert_int_equal(stub.sent, 0);
}

FIXTURE_TEST(an_interval_ends)
{
    open_with(FEATURES, 4);
    terms.interval_ms = 0;
    note(1, 17);
    assert_true(is_due());
    report_send(handle, okv_clock_ns());
    note(1001, 1021); /* when this is sent, what was told is forgotten */
    assert_true(is_due());
    report_send(handle, okv_clock_ns());
    note(1001, 1021);
    assert_true(is_due());
    expect_hits(2, 1001, 20);
}

/* Also when it has nothing else to report. */
FIXTURE_TEST(what_is_used_on_is_told_again)
{
    uint64_t now = okv_clock_ns(), minute = UINT64_C(60000000000);

    open_with(FEATURES, 4);
    note(1, 17);
    report_send(handle, now); /* an interval begins with it */
    note(1, 17);
    report_send(handle, now);
    expect_hits(1, 1, 16);
    report_send(handle, now);
    note(1, 17);
    report_send(handle, now);
    assert_int_equal(stub.sent, 2);
    report_send(handle, now + minute);
    note(1, 17);
    report_send(handle, now + minute);
    expect_hits(2, 1, 16);
}

/* Of items that differ in the bits above those that choose a place, one of 2^thinning is told, and
 * each in some interval. */
FIXTURE_TEST(hits_are_thinned_out)
{
    enum { THINNING = 3, ITEMS = 1 << THINNING };
    unsigned told[ITEMS] = {0};

    open_with(FEATURES, 4);
    terms = (struct okv_hits){.interval_ms = 0, .batch = 1, .thinning = THINNING};
    note(1, 17);
    assert_true(is_due());
    report_send(handle, okv_clock_ns());
    for (unsigned interval = 0; interval < ITEMS; interval++) {
        unsigned sent = stub.sent;
        for (uint64_t item = 0; item < ITEMS; item++)
            hits_note_found(handle, item << 41 | 1, false);
        assert_true(is_due());
        assert_int_equal(stub.sent, sent + 1);
        const struct okv_request_message *message = &stub.requests[sent].message;
        assert_int_equal(message->value_length, OKV_HIT_SIZE);
        told[okv_get_u64(message->value) >> 41]++;
    }
    for (unsigned item = 0; item < ITEMS; item++)
        assert_int_equal(told[item], 1);
}

FIXTURE_TEST(one_message_is_under_way)
{
    open_with(FEATURES, 4);
    stub.answer = no_answer;
    note(1, 17);
    assert_true(is_due());
    note(17, 100); /* more than a batch is dropped */
    assert_true(is_due());
    assert_int_equal(stub.sent, 1);
}

FIXTURE_TEST(a_credit_is_left_to_others)
{
    open_with(FEATURES, 1);
    note(1, 17);
    assert_true(is_due());
    assert_int_equal(stub.sent, 0);
}

FIXTURE_TEST(nothing_is_told_without_the_feature)
{
    open_with(OKV_FEATURE_REPORTS, 4);
    assert_null(handle->hits);
    note(1, 100);
    report_send(handle, okv_clock_ns());
    assert_int_equal(stub.sent, 0);
}

FIXTURE_TEST(a_wrong_answer_ends_the_connection)
{
    open_with(FEATURES, 4);
    terms.batch = 0;
    note(1, 17);
    assert_true(is_due());
    assert_int_equal(okv_ping(handle), OKV_EPROTO);
}
