/* Writes over a stub transport: what each says to the server, what comes of the answer, and
 * values that are too long for a message. */
#include "tests/support/test.h"

#include "tests/support/pace.h"
#include "tests/support/stub_client.h"

#define LONG_MS PACE_GUARD_MS
#define LENGTH_OF(array) (sizeof(array) / sizeof *(array))
#define INLINE_MAX (OKV_SLOT_SIZE_DEFAULT - 32 - OKV_KEY_MAX)

static char big[INLINE_MAX + 1];

static const struct okv_request_message *last_request(void)
{
    return &stub.requests[(stub.sent - 1) % STUB_REQUESTS].message;
}

/* ---- what goes out, what comes back ---- */

static void expect_request(unsigned opcode, unsigned flags, uint64_t argument, uint64_t ttl_ms,
                           const char *value)
{
    const struct okv_request_message *request = last_request();

    assert_int_equal(request->opcode, opcode);
    assert_int_equal(request->flags, flags);
    assert_int_equal(request->argument, argument);
    assert_int_equal(request->ttl_ms, ttl_ms);
    assert_int_equal(request->key_length, 3);
    assert_memory_equal(request->key, "key", 3);
    assert_int_equal(request->value_length, strlen(value));
    assert_memory_equal(request->value, value, strlen(value));
}

#define WRITE_TEST(name) TEST_WITH(name, client_setup, client_teardown)

WRITE_TEST(requests_carry_their_arguments)
{
    struct okv_put_options options = {0};
    uint64_t version = 0;
    int64_t number = 0;

    handle = stub_open(4, 4, LONG_MS);
    assert_int_equal(okv_put(handle, "key", 3, "value", 5, &version), OKV_OK);
    expect_request(OKV_OP_PUT, 0, 0, 0, "value");
    assert_int_equal(version, 77);
    options.flags = OKV_IF_ABSENT | OKV_WITH_TTL;
    options.ttl_ms = 1234;
    assert_int_equal(okv_put_with(handle, "key", 3, "", 0, &options, NULL), OKV_OK);
    expect_request(OKV_OP_PUT, OKV_REQUEST_IF_ABSENT, 0, 1234, "");
    options = (struct okv_put_options){.flags = OKV_IF_VERSION, .version = UINT64_C(1) << 47};
    assert_int_equal(okv_put_with(handle, "key", 3, "v", 1, &options, NULL), OKV_OK);
    expect_request(OKV_OP_PUT, OKV_REQUEST_IF_VERSION, UINT64_C(1) << 47, 0, "v");
    options = (struct okv_put_options){.flags = OKV_KEEP_TTL};
    assert_int_equal(okv_put_with(handle, "key", 3, "v", 1, &options, NULL), OKV_OK);
    expect_request(OKV_OP_PUT, OKV_REQUEST_KEEP_TTL, 0, 0, "v");
    options = (struct okv_put_options){.flags = OKV_KEEP_TTL | OKV_IF_VERSION, .version = 8};
    assert_int_equal(okv_put_with(handle, "key", 3, "v", 1, &options, NULL), OKV_OK);
    expect_request(OKV_OP_PUT, OKV_REQUEST_KEEP_TTL | OKV_REQUEST_IF_VERSION, 8, 0, "v");
    assert_int_equal(okv_delete(handle, "key", 3), OKV_OK);
    expect_request(OKV_OP_DELETE, 0, 0, 0, "");
    assert_int_equal(okv_delete_if(handle, "key", 3, 9), OKV_OK);
    expect_request(OKV_OP_DELETE, OKV_REQUEST_IF_VERSION, 9, 0, "");
    version = 0;
    assert_int_equal(okv_incr(handle, "key", 3, -5, &number, &version), OKV_OK);
    expect_request(OKV_OP_INCR, 0, (uint64_t)-5, 0, "");
    assert_int_equal(number, 42);
    assert_int_equal(version, 77);
    version = length = 0;
    assert_int_equal(okv_append(handle, "key", 3, "more", 4, &length, &version), OKV_OK);
    expect_request(OKV_OP_APPEND, 0, 0, 0, "more");
    assert_int_equal(length, 42);
    assert_int_equal(version, 77);
    version = 0;
    assert_int_equal(okv_touch(handle, "key", 3, OKV_TTL_MAX_MS, &version), OKV_OK);
    expect_request(OKV_OP_TOUCH, 0, 0, OKV_TTL_MAX, "");
    assert_int_equal(version, 77);
    assert_int_equal(okv_touch(handle, "key", 3, OKV_TTL_NONE, NULL), OKV_OK);
    expect_request(OKV_OP_TOUCH, 0, 0, 0, "");

    assert_int_equal(okv_incr_ttl(handle, "key", 3, -5, 60000, &number, &version), OKV_OK);
    expect_request(OKV_OP_INCR_TTL, 0, (uint64_t)-5, 60000, "");

    struct okv_counters counted;
    okv_counters(handle, &counted);
    assert_int_equal(counted.puts, 5);
    assert_int_equal(counted.deletes, 2);
    assert_int_equal(counted.updates, 5);
    assert_int_equal(counted.requests, 12);
}

WRITE_TEST(a_get_that_touches_is_one_request)
{
    struct okv_counters counted;
    uint64_t version = 0;
    char value[6];

    handle = stub_open(4, 4, LONG_MS);
    length = 0;
    assert_int_equal(okv_get_touch(handle, "key", 3, 1234, value, 6, &length, &version), OKV_OK);
    expect_request(OKV_OP_GET_TOUCH, 0, 0, 1234, "");
    assert_int_equal(length, 6);
    assert_memory_equal(value, "answer", 6);
    assert_int_equal(version, 77);
    length = 0;
    assert_int_equal(okv_get_touch(handle, "key", 3, OKV_TTL_NONE, value, 5, &length, NULL),
                     OKV_ETOOSMALL);
    expect_request(OKV_OP_GET_TOUCH, 0, 0, 0, "");
    assert_int_equal(length, 6);
    assert_int_equal(okv_get_touch(handle, "key", 3, 1, value, 6, NULL, NULL), OKV_EINVAL);
    okv_counters(handle, &counted);
    assert_int_equal(counted.updates, 2);
    assert_int_equal(counted.gets, 0);
    assert_int_equal(counted.reads, 0);
}

WRITE_TEST(ping_carries_a_value)
{
    struct okv_command ping = {.kind = OKV_PING, .value = "echo", .value_length = 4};
    struct okv_result result;

    stub.welcome.max_value = 3; /* of the table, where it never comes */
    handle = stub_open(4, 4, LONG_MS);
    assert_int_equal(okv_call(handle, &ping, &result), OKV_OK);
    assert_int_equal(last_request()->opcode, OKV_OP_PING);
    assert_int_equal(last_request()->key_length, 0);
    assert_int_equal(last_request()->value_length, 4);
    assert_memory_equal(last_request()->value, "echo", 4);
    assert_int_equal(result.length, 0);

    struct okv_counters counted;
    okv_counters(handle, &counted);
    assert_int_equal(counted.request_bytes, OKV_REQUEST_HEADER + 4);
    assert_int_equal(counted.reply_bytes, OKV_REPLY_HEADER + sizeof(struct okv_wire_number));
}

static int status_now;
static uint64_t version_now;
static int64_t number_now;

static bool answer_now(const struct stub_request *request, struct stub_reply *reply)
{
    static okv_le64 number;

    reply->message.status = status_now;
    reply->message.version = version_now;
    reply->message.value_length = 0;
    if (status_now == OKV_OK &&
        (request->message.opcode == OKV_OP_INCR || request->message.opcode == OKV_OP_APPEND)) {
        number = okv_le64_of((uint64_t)number_now);
        reply->message.value = number.bytes;
        reply->message.value_length = sizeof number;
    }
    return true;
}

WRITE_TEST(conflicting_version_is_returned)
{
    struct okv_put_options options[] = {{.flags = OKV_IF_ABSENT},
                                        {.flags = OKV_IF_VERSION, .version = 3}};
    const int statuses[] = {OKV_EEXISTS, OKV_ECONFLICT, OKV_EFULL, OKV_ENOTFOUND};

    handle = stub_open(4, 4, LONG_MS);
    stub.answer = answer_now;
    for (unsigned i = 0; i < 4; i++) {
        uint64_t version = 1;
        bool told = i < 2;
        status_now = statuses[i];
        version_now = told ? 55 : 0;
        assert_int_equal(okv_put_with(handle, "key", 3, "v", 1, &options[i > 0], &version),
                         statuses[i]);
        assert_int_equal(version, told ? 55 : 1);
    }
    struct okv_command command = {
        .kind = OKV_DELETE, .flags = OKV_IF_VERSION, .version = 3, .key = "key", .key_length = 3};
    struct okv_result result;
    status_now = OKV_ECONFLICT;
    version_now = 56;
    assert_int_equal(okv_call(handle, &command, &result), OKV_ECONFLICT);
    assert_int_equal(result.version, 56);
}

WRITE_TEST(numbers_of_both_signs)
{
    static const int64_t numbers[] = {0, -1, INT64_MIN, INT64_MAX};

    handle = stub_open(4, 4, LONG_MS);
    stub.answer = answer_now;
    status_now = 0;
    version_now = 7;
    for (unsigned i = 0; i < LENGTH_OF(numbers); i++) {
        int64_t number = 5;
        number_now = numbers[i];
        assert_int_equal(okv_incr(handle, "key", 3, 1, &number, NULL), OKV_OK);
        assert_true(number == numbers[i]);
    }
    number_now = STUB_REGION;
    assert_int_equal(okv_append(handle, "key", 3, "", 0, &length, NULL), OKV_OK);
    assert_int_equal(length, STUB_REGION);
    number_now = STUB_REGION + 1; /* longer than any value of this server */
    assert_int_equal(okv_append(handle, "key", 3, "", 0, &length, NULL), OKV_EUNKNOWN);
    assert_int_equal(okv_ping(handle), OKV_EPROTO);
}

/* ---- values that the server is to READ ---- */

WRITE_TEST(long_value_is_advertised)
{
    struct okv_counters counted;

    handle = stub_open(4, 4, LONG_MS);
    assert_int_equal(okv_put(handle, "key", 3, big, INLINE_MAX, NULL), OKV_OK);
    assert_int_equal(last_request()->flags, 0);
    assert_int_equal(stub.advert_key, 0);
    for (unsigned i = 1; i <= 3; i++) {
        assert_int_equal(okv_put(handle, "key", 3, big, INLINE_MAX + 1, NULL), OKV_OK);
        assert_int_equal(last_request()->flags, OKV_REQUEST_RENDEZVOUS);
        assert_int_equal(last_request()->value_length, INLINE_MAX + 1);
        assert_int_equal(last_request()->rendezvous_address, STUB_ADVERTISED);
        assert_int_equal(last_request()->rendezvous_key, i);
        assert_ptr_equal(stub.advertised, big);
        assert_int_equal(stub.advertised_length, INLINE_MAX + 1);
        assert_int_equal(stub.adverts, 0);
    }
    okv_counters(handle, &counted);
    assert_int_equal(counted.rendezvous, 3);
    assert_int_equal(counted.puts, 4);
    uint64_t rendezvous =
        OKV_REQUEST_HEADER + 3 + sizeof(struct okv_wire_rendezvous) + INLINE_MAX + 1;
    assert_int_equal(counted.request_bytes, OKV_REQUEST_HEADER + 3 + INLINE_MAX + 3 * rendezvous);
}

static void long_put_submit(uint64_t tag, uint32_t timeout_ms)
{
    struct okv_command command = {.kind = OKV_PUT,
                                  .flags = OKV_WITH_TTL | OKV_IF_ABSENT,
                                  .tag = tag,
                                  .key = "key",
                                  .key_length = 3,
                                  .value = big,
                                  .value_length = sizeof big,
                                  .ttl_ms = 5,
                                  .timeout_ms = timeout_ms};

    assert_int_equal(okv_submit(handle, &command, 1, NULL), OKV_OK);
}

/* An advertised buffer takes a credit, so a put that waits for one advertises nothing yet. */
WRITE_TEST(adverts_come_with_credits)
{
    handle = stub_open(8, 2, LONG_MS);
    stub.answer = no_answer;
    for (uint64_t tag = 0; tag < 5; tag++)
        long_put_submit(tag, 0);
    for (unsigned n = 0; n < 5; n++) {
        assert_int_equal(stub.adverts, n < 4 ? 2 : 1);
        struct stub_reply reply = stub_reply_to(n);
        stub_say(&reply);
        while (collect_once() == 0)
            ;
    }
    assert_int_equal(last_request()->flags, OKV_REQUEST_RENDEZVOUS | OKV_REQUEST_IF_ABSENT);
    assert_int_equal(last_request()->ttl_ms, 5);
    assert_int_equal(stub.adverts, 0);
}

WRITE_TEST(advert_outlives_its_deadline)
{
    handle = stub_open(8, 2, LONG_MS);
    stub.answer = no_answer;
    long_put_submit(0, pace_ms(100));
    long_put_submit(1, pace_ms(100));
    long_put_submit(2, pace_ms(100)); /* without a credit */
    collect();
    assert_int_equal(results[0].status, OKV_EUNKNOWN);
    assert_int_equal(results[1].status, OKV_EUNKNOWN);
    assert_int_equal(results[2].status, OKV_ETIMEDOUT);
    assert_int_equal(stub.adverts, 2); /* the server may be about to READ them */
    struct stub_reply late = stub_reply_to(0);
    stub_say(&late);
    collect_once();
    assert_int_equal(stub.adverts, 1);
    stub_close(&handle);
    assert_int_equal(stub.adverts, 0);
}

WRITE_TEST(adverts_end_with_the_connection)
{
    handle = stub_open(8, 4, LONG_MS);
    stub.answer = no_answer;
    long_put_submit(0, pace_ms(100));
    collect();
    long_put_submit(1, 0);
    assert_int_equal(stub.adverts, 2);
    stub_hang_up();
    collect();
    assert_int_equal(results[1].status, OKV_EUNKNOWN);
    assert_int_equal(stub.adverts, 0);
}

WRITE_TEST(only_a_message_that_may_have_left_is_unknown)
{
    static const int failures[] = {OKV_EIO, OKV_EDISCONNECTED};

    for (unsigned i = 0; i < 2; i++) {
        client_setup(state);
        handle = stub_open(8, 4, LONG_MS);
        stub.send_result = failures[i];
        assert_int_equal(okv_put(handle, "key", 3, big, sizeof big, NULL),
                         i ? OKV_EDISCONNECTED : OKV_EUNKNOWN);
        assert_int_equal(stub.adverts, 0);
        stub_close(&handle);
    }
}

WRITE_TEST(memory_that_cannot_be_advertised)
{
    static const int failures[] = {OKV_EPERM, OKV_ENOMEM, OKV_EIO};

    handle = stub_open(8, 4, LONG_MS);
    for (unsigned i = 0; i < 3; i++) {
        stub.advertise_result = failures[i];
        assert_int_equal(okv_put(handle, "key", 3, big, sizeof big, NULL), failures[i]);
        assert_int_equal(stub.sent, 0); /* nothing left, so nothing is unknown */
        assert_string_equal(okv_why(handle), "");
    }
    stub.advertise_result = 0;
    assert_int_equal(okv_put(handle, "key", 3, big, sizeof big, NULL), OKV_OK);
}

/* Such as a mapping that may only be read: a copy is advertised. */
WRITE_TEST(unsuitable_memory_is_copied)
{
    memset(big, 'b', sizeof big);
    handle = stub_open(8, 4, LONG_MS);
    stub.advertise_refused = big;
    assert_int_equal(okv_put(handle, "key", 3, big, sizeof big, NULL), OKV_OK);
    assert_ptr_not_equal(stub.advertised, big);
    assert_int_equal(stub.advertised_length, sizeof big);
    assert_memory_equal(stub.advertised, big, sizeof big);
    assert_int_equal(stub.adverts, 0);
    stub_close(&handle);
    handle = stub_open(8, 4, LONG_MS);
    stub.register_result = OKV_EPERM;
    assert_int_equal(okv_put(handle, "key", 3, big, sizeof big, NULL), OKV_EPERM);
    assert_int_equal(stub.sent, 0);
}
