/* Requests of the client over a stub transport: their answers, and what ends them otherwise. */
#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/pace.h"
#include "tests/support/stub_client.h"

#define LONG_MS PACE_GUARD_MS
#define LENGTH_OF(array) (sizeof(array) / sizeof *(array))

/* ---- requests ---- */

#define CLIENT_TEST(name) TEST_WITH(name, client_setup, client_teardown)

CLIENT_TEST(blocked_request_needs_no_event)
{
    handle = stub_open(4, 4, LONG_MS);
    stub.answer = no_answer;
    stub.no_buffers = 100; /* more than polls before the put */
    put_submit(0);
    stub.no_buffers = 3;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(stub.sent, 0);
        assert_int_equal(collect_once(), 0);
    }
    assert_int_equal(stub.sent, 1);
    stub.answer = NULL;
    stub.no_buffers = 200;
    assert_int_equal(okv_put(handle, "key", 3, "value", 5, NULL), OKV_OK);
}

CLIENT_TEST(second_put_waits_for_the_credit)
{
    struct stub_reply reply;

    handle = stub_open(4, 1, LONG_MS);
    stub.answer = no_answer;
    put_submit(0);
    put_submit(1);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(collect_once(), 0);
    assert_int_equal(stub.sent, 1);
    reply = stub_reply_to(0);
    stub_say(&reply);
    assert_int_equal(collect_once(), 1);
    assert_int_equal(stub.sent, 2);
    assert_int_equal(stub.requests[1].message.value_length, 5);
    assert_memory_equal(stub.requests[1].message.value, "value", 5);
    reply = stub_reply_to(1);
    stub_say(&reply);
    collect();
    assert_int_equal(results[1].status, OKV_OK);
    assert_int_equal(results[1].version, 77);
}

/* Two puts and a ping that were sent, a get under way, a put without a credit. */
static void start_five(void)
{
    handle = stub_open(8, 3, LONG_MS);
    stub.answer = no_answer;
    put_submit(0);
    put_submit(1);
    assert_int_equal(okv_submit_ping(handle, 2), 0);
    stub.delay = HELD;
    get_submit(3);
    put_submit(4);
    stub.delay = 0;
    assert_int_equal(stub.sent, 3);
}

/* The handle failed: each of the five has its result, once, and every call says why. */
static void expect_failed(int failure)
{
    const int expected[] = {OKV_EUNKNOWN, OKV_EUNKNOWN, failure, failure, failure};
    struct okv_result result;

    collect();
    for (unsigned tag = 0; tag < 5; tag++) {
        assert_int_equal(seen[tag], 1);
        assert_int_equal(results[tag].status, expected[tag]);
    }
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(okv_poll(handle, &result, 1), failure);
    assert_int_equal(okv_submit_ping(handle, 9), failure);
    assert_int_equal(get(), failure);
    assert_int_equal(okv_arm(handle), failure);
    assert_int_equal(okv_wait(handle, LONG_MS), OKV_OK);
    assert_true(strlen(okv_why(handle)) > 0);
    assert_int_equal(stub.closes, 1);
}

CLIENT_TEST(replies_without_a_request)
{
    const struct {
        uint16_t slot;
        uint8_t opcode;
        int8_t status;
        uint64_t sequence;
        uint32_t value_length;
        uint32_t flip;
        uint32_t cut;
        bool no_immediate;
    } wrong[] = {
        {.slot = 1},
        {.slot = 7},
        {.slot = 5000},
        {.slot = UINT16_MAX},
        {.sequence = 1},
        {.sequence = 1u << 31},
        {.opcode = 1},
        {.opcode = 0x70},
        {.status = -1},
        {.status = -8},
        {.status = -6},
        {.status = -24},
        {.flip = 1u << 31},
        {.flip = 1u << 16},
        {.no_immediate = true},
        {.cut = 1},
        {.cut = OKV_REPLY_HEADER},
        {.value_length = 6},
        {.value_length = 6, .cut = 1},
        {.value_length = 6, .cut = 7},
    };

    for (unsigned i = 0; i < LENGTH_OF(wrong); i++) {
        client_setup(state);
        start_five();
        struct stub_reply reply = stub_reply_to(2);
        reply.message.slot = (uint16_t)(reply.message.slot + wrong[i].slot);
        reply.message.opcode ^= wrong[i].opcode;
        reply.message.status = wrong[i].status;
        reply.message.sequence ^= wrong[i].sequence;
        reply.message.value_length = wrong[i].value_length;
        reply.immediate_flip = wrong[i].flip;
        reply.cut = wrong[i].cut;
        reply.no_immediate = wrong[i].no_immediate;
        stub_say(&reply);
        expect_failed(OKV_EPROTO);
        stub_close(&handle);
    }
}

/* Another client can bring that about, while the slot is free or has a later request. */
CLIENT_TEST(second_replies_are_ignored)
{
    struct okv_counters counters;

    handle = stub_open(8, 3, LONG_MS);
    for (unsigned n = 0; n < 3; n++) {
        assert_int_equal(okv_ping(handle), OKV_OK);
        for (unsigned earlier = 0; earlier <= n; earlier++) {
            struct stub_reply again = stub_reply_to(earlier);
            stub_say(&again);
        }
    }
    stub.answer = no_answer;
    put_submit(0);
    struct stub_reply again = stub_reply_to(2), reply = stub_reply_to(3);
    assert_int_equal(again.message.slot, reply.message.slot);
    stub_say(&again);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(collect_once(), 0);
    stub_say(&reply);
    collect();
    assert_int_equal(results[0].status, OKV_OK);
    assert_string_equal(okv_why(handle), "");
    okv_counters(handle, &counters);
    assert_int_equal(counters.replies, 4);
}

static void fail_endpoint(void)
{
    stub.poll_result = OKV_EIO;
}

/* Of a log that takes no records. */
#define LOG_REFUSALS OKV_EREADONLY, OKV_EDISKFULL, OKV_EFEWCOPIES

static void fail_reads(void)
{
    stub_release_events(OKV_EIO);
}

CLIENT_TEST(connection_ends_in_the_middle)
{
    const struct {
        void (*end)(void);
        int failure;
    } ways[] = {{stub_goodbye, OKV_ESHUTDOWN},
                {stub_hang_up, OKV_EDISCONNECTED},
                {fail_reads, OKV_EDISCONNECTED},
                {fail_endpoint, OKV_EIO}};

    for (unsigned i = 0; i < LENGTH_OF(ways); i++) {
        client_setup(state);
        start_five();
        ways[i].end();
        expect_failed(ways[i].failure);
        stub_close(&handle);
    }
}

static int status_now;

static bool answer_status(const struct stub_request *request, struct stub_reply *reply)
{
    (void)request;
    reply->message.status = status_now;
    if (status_now)
        reply->message.value_length = 0;
    return true;
}

static int plain_put(void)
{
    return okv_put(handle, "key", 3, "value", 5, NULL);
}

static int put_if_absent(void)
{
    struct okv_put_options options = {.flags = OKV_IF_ABSENT};

    return okv_put_with(handle, "key", 3, "value", 5, &options, NULL);
}

static int put_if_version(void)
{
    struct okv_put_options options = {.flags = OKV_IF_VERSION, .version = 4};

    return okv_put_with(handle, "key", 3, "value", 5, &options, NULL);
}

static int put_by_rendezvous(void)
{
    static char value[OKV_SLOT_SIZE_DEFAULT];

    return okv_put(handle, "key", 3, value, sizeof value, NULL);
}

static int plain_delete(void)
{
    return okv_delete(handle, "key", 3);
}

static int delete_if_version(void)
{
    return okv_delete_if(handle, "key", 3, 4);
}

static int incr(void)
{
    return okv_incr(handle, "key", 3, 1, NULL, NULL);
}

static int append(void)
{
    return okv_append(handle, "key", 3, "value", 5, NULL, NULL);
}

static int touch(void)
{
    return okv_touch(handle, "key", 3, 1000, NULL);
}

static int stat(void)
{
    return okv_stat(handle, buffer[0], sizeof buffer[0], &length);
}

static int ping(void)
{
    return okv_ping(handle);
}

/* A status that its operation cannot have would pass for something that it is not. */
CLIENT_TEST(statuses_that_an_operation_may_have)
{
    static const struct {
        int (*call)(void);
        int wrong; /* what comes of a status that is not in the list */
        int allowed[10];
    } kinds[] = {
        {plain_put,
         OKV_EUNKNOWN,
         {OKV_EFULL, OKV_EBUCKETFULL, OKV_EVALUESIZE, OKV_ECORRUPT, LOG_REFUSALS}},
        {put_if_absent,
         OKV_EUNKNOWN,
         {OKV_EFULL, OKV_EBUCKETFULL, OKV_EVALUESIZE, OKV_ECORRUPT, OKV_EEXISTS, LOG_REFUSALS}},
        {put_if_version,
         OKV_EUNKNOWN,
         {OKV_EFULL, OKV_EBUCKETFULL, OKV_EVALUESIZE, OKV_ECORRUPT, OKV_ECONFLICT, OKV_ENOTFOUND,
          LOG_REFUSALS}},
        {put_by_rendezvous,
         OKV_EUNKNOWN,
         {OKV_EFULL, OKV_EBUCKETFULL, OKV_EVALUESIZE, OKV_ECORRUPT, OKV_ERENDEZVOUS, LOG_REFUSALS}},
        {plain_delete, OKV_EUNKNOWN, {OKV_ENOTFOUND, OKV_ECORRUPT, LOG_REFUSALS}},
        {delete_if_version,
         OKV_EUNKNOWN,
         {OKV_ENOTFOUND, OKV_ECORRUPT, OKV_ECONFLICT, LOG_REFUSALS}},
        {incr,
         OKV_EUNKNOWN,
         {OKV_EFULL, OKV_EBUCKETFULL, OKV_ECORRUPT, OKV_ENUMBER, OKV_EOVERFLOW, OKV_EVALUESIZE,
          LOG_REFUSALS}},
        {append,
         OKV_EUNKNOWN,
         {OKV_EFULL, OKV_EBUCKETFULL, OKV_ECORRUPT, OKV_EVALUESIZE, LOG_REFUSALS}},
        {touch,
         OKV_EUNKNOWN,
         {OKV_EFULL, OKV_EBUCKETFULL, OKV_ECORRUPT, OKV_ENOTFOUND, LOG_REFUSALS}},
        {stat, OKV_EPROTO, {OKV_ETOOSMALL}},
        {ping, OKV_EPROTO, {0}},
    };

    for (unsigned kind = 0; kind < LENGTH_OF(kinds); kind++) {
        for (int status = 0; status >= OKV_ERROR_LAST; status--) {
            client_setup(state);
            handle = stub_open(2, 2, LONG_MS);
            stub.answer = answer_status;
            status_now = status;
            bool allowed = status == OKV_OK || status == OKV_EUNSUPPORTED || status == OKV_EDENIED;
            for (unsigned i = 0; i < LENGTH_OF(kinds[kind].allowed); i++)
                allowed |= status == kinds[kind].allowed[i];
            int rc = kinds[kind].call();
            if (rc != (allowed ? status : kinds[kind].wrong))
                fail_msg("kind %u: %s for %s", kind, okv_errname(rc), okv_errname(status));
            assert_int_equal(stub.adverts, 0);
            stub_close(&handle);
        }
    }
}

static uint32_t length_now;

static bool answer_length(const struct stub_request *request, struct stub_reply *reply)
{
    static const uint8_t bytes[32] = {1};

    (void)request;
    reply->message.value = bytes;
    reply->message.value_length = length_now;
    return true;
}

CLIENT_TEST(values_that_a_reply_may_have)
{
    static const struct {
        int (*call)(void);
        uint32_t length;
    } kinds[] = {{plain_put, 0}, {plain_delete, 0}, {touch, 0}, {ping, 8}, {incr, 8}, {append, 8}};

    for (unsigned kind = 0; kind < LENGTH_OF(kinds); kind++) {
        for (length_now = 0; length_now < 20; length_now++) {
            client_setup(state);
            handle = stub_open(2, 2, LONG_MS);
            stub.answer = answer_length;
            assert_int_equal(kinds[kind].call() == OKV_OK, length_now == kinds[kind].length);
            stub_close(&handle);
        }
    }
}

CLIENT_TEST(posts_that_fail)
{
    handle = stub_open(4, 4, LONG_MS);
    stub.send_result = OKV_EIO; /* the message may have left, and the connection ends */
    assert_int_equal(okv_put(handle, "key", 3, "value", 5, NULL), OKV_EUNKNOWN);
    assert_int_equal(okv_ping(handle), OKV_EDISCONNECTED);
    stub_close(&handle);
    stub_reset();
    handle = stub_open(4, 4, LONG_MS);
    stub.read_result = OKV_EIO; /* which of the batch's READs are under way is unknown */
    get_submit(1);
    assert_int_equal(okv_submit_ping(handle, 2), OKV_EIO);
    collect();
    assert_int_equal(results[1].status, OKV_EIO);
    assert_int_equal(get(), OKV_EIO);
    assert_true(strlen(okv_why(handle)) > 0);
}

/* It did not leave, and what was waiting tells why; also for one that waited for room. */
CLIENT_TEST(posts_after_the_end)
{
    for (unsigned i = 0; i < 4; i++) {
        bool goodbye = i % 2;
        int failure = goodbye ? OKV_ESHUTDOWN : OKV_EDISCONNECTED;
        client_setup(state);
        handle = stub_open(4, 4, LONG_MS);
        stub.send_result = OKV_EDISCONNECTED;
        if (i >= 2) {
            stub.no_buffers = 3;
            put_submit(0);
            put_submit(1);
        }
        if (goodbye)
            stub_goodbye();
        if (i < 2)
            assert_int_equal(okv_put(handle, "key", 3, "value", 5, NULL), failure);
        collect();
        for (unsigned tag = 0; tag < 2 && i >= 2; tag++)
            assert_int_equal(results[tag].status, failure);
        assert_true(strlen(okv_why(handle)) > 0);
        assert_int_equal(okv_ping(handle), failure);
        assert_int_equal(stub.sent, 0);
        stub_close(&handle);
    }
}

/* With no room for one, the others are not tried; with room, they go in their order. */
CLIENT_TEST(blocked_requests_are_not_all_tried)
{
    handle = stub_open(TAGS, TAGS, LONG_MS);
    stub.no_buffers = 100; /* more than polls before the puts */
    for (uint64_t tag = 0; tag < TAGS; tag++)
        put_submit(tag);
    stub.no_buffers = 10;
    stub.buffers_asked = 0;
    for (unsigned i = 0; i < 9; i++)
        assert_int_equal(collect_once(), 0);
    assert_int_equal(stub.buffers_asked, 9);
    collect();
    assert_int_equal(stub.sent, TAGS);
    for (unsigned n = 1; n < TAGS; n++)
        assert_true(stub.requests[n].message.slot != stub.requests[n - 1].message.slot);
}

static bool say_nothing_of_itself(const struct stub_request *request, struct stub_reply *reply)
{
    (void)request;
    reply->message.value_length = 0;
    return true;
}

/* Also those of a server that has none to tell. */
CLIENT_TEST(figures_need_room_for_the_nul)
{
    size_t needed = 9;
    char text[1] = "x";

    handle = stub_open(4, 4, LONG_MS);
    stub.answer = say_nothing_of_itself;
    assert_int_equal(okv_stat(handle, NULL, 0, &needed), OKV_ETOOSMALL);
    assert_int_equal(needed, 0);
    assert_int_equal(okv_stat(handle, text, 1, &needed), OKV_OK);
    assert_int_equal(text[0], '\0');
}
