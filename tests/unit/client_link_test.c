/* What a handle does with its connection besides posting: memory, goodbye, signs of life, the
 * end. */
#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/pace.h"
#include "tests/support/stub_values.h"

#define LONG_MS (2 * PACE_GUARD_MS)
/* Passes while a test waits; what has to be done meanwhile is done in a fraction of it. */
#define SHORT_MS pace_ms(50)
#define KEEPALIVE_MS pace_ms(200) /* the shortest */

static struct okv_counters counters(void)
{
    struct okv_counters now;

    okv_counters(handle, &now);
    return now;
}

/* ---- memory ---- */

#define LINK_TEST(name) TEST_WITH(name, values_setup, client_teardown)

/* Into memory of the caller's, and into a buffer of the handle's. */
LINK_TEST(pieces_are_read_again)
{
    for (unsigned registered = 0; registered < 2; registered++) {
        values_setup(state);
        write_value(LONG, true, EXTENT);
        handle = stub_open_lasting(4, 4, LONG_MS);
        if (registered)
            assert_int_equal(okv_register(handle, got, sizeof got, &registration), OKV_OK);
        for (unsigned way = 0; way < 2; way++) {
            unsigned connects = stub.connects;
            memset(got, '#', sizeof got);
            assert_int_equal(okv_submit_get(handle, keys[0], strlen(keys[0]), got, sizeof got, 0),
                             OKV_OK);
            if (way == 0)
                collect_once(); /* the bucket came, the pieces are under way */
            stub_hang_up();
            collect();
            seen[0] = 0;
            assert_int_equal(results[0].status, OKV_OK);
            assert_int_equal(results[0].length, LONG);
            assert_memory_equal(got, value, LONG);
            assert_int_equal(stub.connects, connects + 1);
        }
        values_close();
    }
}

/* What is registered without a connection is so on the next. */
LINK_TEST(registering_without_a_connection)
{
    okv_registration *other;
    handle = stub_open_lasting(4, 4, LONG_MS);
    unsigned own = stub.registrations;
    stub.refusals = 1;
    stub_hang_up();
    assert_int_equal(collect_once(), 0);
    assert_int_equal(stub.registrations, 0);
    assert_int_equal(okv_register(handle, got, sizeof got, &registration), OKV_OK);
    assert_int_equal(okv_register(handle, value, sizeof value, &other), OKV_OK);
    okv_unregister(handle, &other);
    assert_int_equal(get(), OKV_ENOTFOUND);
    assert_int_equal(stub.registrations, own + 1);
    okv_unregister(handle, &registration);
    assert_int_equal(stub.registrations, own);
}

LINK_TEST(memory_that_cannot_be_registered_again)
{
    handle = stub_open_lasting(4, 4, 2 * SHORT_MS);
    stub_hang_up();
    stub.register_result = OKV_EPERM;
    assert_int_equal(get(), OKV_ETIMEDOUT);
    assert_non_null(strstr(okv_why(handle), "ulimit -l"));
    assert_int_equal(stub.connections, 0);
    stub.register_result = 0;
    assert_int_equal(okv_wait(handle, (int)pace_ms(1000)),
                     OKV_ETIMEDOUT); /* the pause may be longer than a get */
    assert_int_equal(get(), OKV_ENOTFOUND);
}

LINK_TEST(long_values_are_advertised_again)
{
    handle = stub_open_lasting(4, 4, LONG_MS);
    stub.answer = no_answer;
    assert_int_equal(okv_submit_put(handle, "key", 3, value, LONG, 0), OKV_OK);
    uint32_t key = stub.advert_key;
    stub_hang_up();
    stub.refusals = 1;
    assert_int_equal(collect_once(), 0);
    assert_int_equal(stub.adverts, 0);
    stub.welcome.resumed = 1;
    stub.answer = NULL;
    collect();
    assert_int_equal(results[0].status, OKV_OK);
    assert_int_equal(stub.requests[1].message.sequence, stub.requests[0].message.sequence);
    assert_int_equal(stub.requests[1].message.rendezvous_key, key + 1);
    assert_ptr_equal(stub.advertised, value);
    assert_int_equal(stub.adverts, 0);
}

/* One that cannot be advertised again stays unknown: it may have been stored before. */
LINK_TEST(long_value_that_is_not_advertised_again)
{
    handle = stub_open_lasting(4, 4, LONG_MS);
    stub.answer = no_answer;
    assert_int_equal(okv_submit_put(handle, "key", 3, value, LONG, 0), OKV_OK);
    stub_hang_up();
    stub.welcome.resumed = 1;
    stub.advertise_result = OKV_EPERM;
    collect();
    assert_int_equal(results[0].status, OKV_EUNKNOWN);
}

/* Knowledge of the lost table is void. */
LINK_TEST(hints_are_of_one_table)
{
    struct okv_options options = {.credits = 4, .timeout_ms = LONG_MS, .hints = 16};

    write_value(LONG, true, EXTENT);
    handle = stub_open_with(&options);
    for (unsigned i = 0; i < 2; i++)
        assert_got(LONG);
    assert_int_equal(counted.hints_right, 1);
    stub_hang_up();
    stub_restart(STUB_BOOT + 1);
    write_value(LONG, true, EXTENT + 64);
    assert_got(LONG);
    assert_int_equal(counted.hints_wrong, 0);
}

LINK_TEST(larger_buckets_get_larger_buffers)
{
    handle = stub_open_lasting(4, 4, LONG_MS);
    stub_hang_up();
    stub.welcome.boot_id = stub.block.boot_id = STUB_BOOT + 1;
    stub.welcome.bucket_size = stub.block.bucket_size = 2 * STUB_BUCKET_SIZE;
    uint8_t *bytes = stub.region + STUB_INDEX;
    for (uint64_t bucket = 0; bucket < STUB_BUCKETS; bucket++) {
        okv_bucket_begin(bytes, STUB_DEPTH, STUB_VERSION, 0, 0);
        okv_bucket_seal(bytes, 2 * STUB_BUCKET_SIZE, STUB_BOOT + 1, bucket);
        bytes += 2 * STUB_BUCKET_SIZE;
    }
    assert_int_equal(get(), OKV_ENOTFOUND);
    for (unsigned tag = 0; tag < 4; tag++)
        get_submit(tag);
    collect();
    assert_int_equal(results[3].status, OKV_ENOTFOUND);
}

/* ---- goodbye ---- */

LINK_TEST(goodbye_lets_answers_come)
{
    handle = stub_open_lasting(4, 4, LONG_MS);
    stub.answer = no_answer;
    put_submit(0);
    stub_goodbye();
    assert_int_equal(collect_once(), 0);
    put_submit(1); /* for the next connection */
    get_submit(2);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(collect_once(), 0);
    assert_int_equal(stub.sent, 1);
    assert_int_equal(stub.closes, 0);
    assert_int_equal(stub.reads, 0);
    assert_non_null(strstr(okv_why(handle), "goodbye"));
    struct stub_reply owed = stub_reply_to(0);
    stub_say(&owed);
    stub.answer = NULL;
    collect();
    assert_int_equal(results[0].status, OKV_OK);
    assert_int_equal(results[1].status, OKV_OK);
    assert_int_equal(results[2].status, OKV_ENOTFOUND);
    assert_int_equal(stub.closes, 1);
    assert_int_equal(stub.connects, 2);
}

/* The server's host gives signs of life, the server none. */
static void open_unanswered(void)
{
    struct okv_options options = {
        .credits = 4, .timeout_ms = LONG_MS, .keepalive_ms = KEEPALIVE_MS};

    handle = stub_open_with(&options);
    stub.answer = no_answer;
}

/* Answers that do not come are not waited for longer than a dead server is. */
LINK_TEST(goodbye_is_bounded)
{
    open_unanswered();
    put_submit(0);
    stub_goodbye();
    collect();
    assert_int_equal(results[0].status, OKV_EUNKNOWN);
    assert_int_equal(stub.connects, 2);
}

LINK_TEST(goodbye_ends_a_handle_that_does_not_reconnect)
{
    handle = stub_open(4, 4, LONG_MS);
    stub.answer = no_answer;
    put_submit(0);
    stub_goodbye();
    assert_int_equal(collect_once(), 0);
    struct stub_reply owed = stub_reply_to(0);
    stub_say(&owed);
    while (okv_pending(handle) > 0)
        collect_once();
    assert_int_equal(results[0].status, OKV_OK);
    assert_int_equal(okv_ping(handle), OKV_ESHUTDOWN);
}

/* ---- signs of life ---- */

LINK_TEST(silent_host_is_found)
{
    open_unanswered();
    put_submit(0);
    uint64_t begun = okv_clock_ns();
    while (stub.heartbeats < 5 && okv_clock_ns() - begun < PACE_GUARD_NS)
        okv_wait(handle, (int)SHORT_MS); /* sleeps, and wakes for each */
    assert_int_equal(stub.connects, 1);  /* no answer, but acknowledgements */
    assert_true(counters().heartbeats >= 5);
    stub.silent = true;
    stub.welcome.resumed = 1;
    while (stub.connects < 2 && okv_clock_ns() - begun < PACE_GUARD_NS)
        collect_once(); /* no longer: the next connection is silent, too */
    assert_int_equal(stub.connects, 2);
    stub.silent = false;
    stub.answer = NULL;
    collect();
    assert_int_equal(results[0].status, OKV_OK);
}

LINK_TEST(idle_handle_sends_no_heartbeat)
{
    struct okv_options options = {
        .credits = 4, .timeout_ms = LONG_MS, .keepalive_ms = KEEPALIVE_MS};

    handle = stub_open_with(&options);
    stub.silent = true;
    assert_int_equal(okv_wait(handle, (int)KEEPALIVE_MS), OKV_ETIMEDOUT);
    assert_int_equal(stub.heartbeats, 0);
    stub_close(&handle);
    options.keepalive_ms = OKV_KEEPALIVE_NONE;
    options.timeout_ms = 50;
    handle = stub_open_with(&options);
    stub.answer = no_answer;
    assert_int_equal(okv_ping(handle), OKV_ETIMEDOUT);
    assert_int_equal(stub.heartbeats, 0);
    assert_int_equal(stub.connects, 2);
}

LINK_TEST(heartbeat_that_cannot_be_posted)
{
    open_unanswered();
    stub.heartbeat_result = OKV_EDISCONNECTED;
    assert_int_equal(okv_submit_ping(handle, 0), OKV_OK);
    while (stub.connects < 2)
        assert_int_equal(collect_once(), 0);
    stub.heartbeat_result = 0;
    stub.answer = NULL;
    collect();
    assert_int_equal(results[0].status, OKV_OK);
}

/* ---- calls that read by themselves ---- */

static unsigned hang_up_at;

static void hang_up(unsigned n)
{
    if (n == hang_up_at)
        stub_hang_up();
}

static int visit(void *user, const struct okv_item *item)
{
    (void)item;
    ++*(unsigned *)user;
    return 0;
}

LINK_TEST(scan_ends_with_its_connection)
{
    unsigned items = 0;

    for (hang_up_at = 1; hang_up_at <= 2; hang_up_at++) {
        values_setup(state);
        write_value(SHORT, true, EXTENT);
        handle = stub_open_lasting(4, 4, LONG_MS);
        stub.before_read = hang_up;
        assert_int_equal(okv_scan(handle, visit, &items), OKV_EDISCONNECTED);
        stub.before_read = NULL;
        items = 0;
        assert_int_equal(okv_scan(handle, visit, &items), OKV_OK);
        assert_int_equal(items, 1);
        uint64_t latencies[4];
        stub_hang_up();
        assert_int_equal(collect_once(), 0);
        assert_int_equal(okv_bench_read(handle, STUB_BUCKET_SIZE, 4, 4, latencies, NULL), OKV_OK);
        stub_close(&handle);
    }
}

LINK_TEST(scan_waits_no_longer_than_the_deadline)
{
    unsigned items = 0;

    handle = stub_open_lasting(4, 4, SHORT_MS);
    stub.refusals = 1000000;
    stub_hang_up();
    assert_int_equal(get(), OKV_ETIMEDOUT);
    assert_int_equal(okv_scan(handle, visit, &items), OKV_ETIMEDOUT);
}

/* A READ that does not end costs the connection, not the handle. */
LINK_TEST(scan_read_without_an_end_times_out)
{
    unsigned items = 0;

    handle = stub_open_lasting(4, 4, SHORT_MS);
    stub.delay = 1000000000;
    assert_int_equal(okv_scan(handle, visit, &items), OKV_ETIMEDOUT);
    stub.delay = 0;
    assert_int_equal(okv_scan(handle, visit, &items), OKV_OK);
    assert_int_equal(stub.connects, 2);
}

static void break_endpoint(unsigned n)
{
    if (n == 1)
        stub.poll_result = OKV_EIO;
}

/* A device that fails costs the connection, too. */
LINK_TEST(raw_reads_of_a_device_that_fails)
{
    uint64_t latencies[4];

    for (unsigned way = 0; way < 4; way++) {
        unsigned items = 0;
        values_setup(state);
        handle = stub_open_lasting(4, 4, LONG_MS);
        if (way % 2)
            stub.read_result = OKV_EIO;
        else
            stub.before_read = break_endpoint;
        if (way >= 2)
            stub.reads = (unsigned)-2; /* the status and the directory are READ before */
        int rc = way < 2 ? okv_scan(handle, visit, &items)
                         : okv_bench_read(handle, STUB_BUCKET_SIZE, 4, 4, latencies, NULL);
        assert_int_equal(rc, OKV_EDISCONNECTED);
        assert_non_null(strstr(okv_why(handle), "the device failed"));
        stub.read_result = stub.poll_result = 0;
        stub.before_read = NULL;
        assert_int_equal(okv_scan(handle, visit, &items), OKV_OK);
        assert_int_equal(stub.connects, 2);
        values_close();
    }
}

static bool answer_first_step(const struct stub_request *request, struct stub_reply *reply)
{
    static uint8_t more[sizeof(struct okv_wire_flush)] = {7}, all[sizeof more];

    (void)request;
    reply->message.value = stub.sent > 2 ? all : more;
    if (stub.sent == 2) {
        stub_restart(STUB_BOOT + 1);
        stub.welcome.resumed = 1;
        stub_hang_up();
        return false;
    }
    return true;
}

/* Also by a durable server, which has the items and knows the client's writes: how far it had come
 * was a place in the old table. */
LINK_TEST(flush_that_is_interrupted)
{
    handle = stub_open_lasting(4, 4, LONG_MS);
    stub.answer = answer_first_step;
    assert_int_equal(okv_flush(handle), OKV_EUNKNOWN);
}

LINK_TEST(get_many_survives_a_reconnect)
{
    struct okv_command commands[40];
    struct okv_result many[40];
    char values[40][8];

    handle = stub_open_lasting(8, 4, LONG_MS);
    for (unsigned i = 0; i < 40; i++)
        commands[i] = (struct okv_command){.kind = OKV_GET,
                                           .key = "key",
                                           .key_length = 3,
                                           .buffer = values[i],
                                           .buffer_size = sizeof values[i]};
    stub.before_read = hang_up;
    hang_up_at = 11;
    assert_int_equal(okv_call_many(handle, commands, many, 40), OKV_OK);
    for (unsigned i = 0; i < 40; i++)
        assert_int_equal(many[i].status, OKV_ENOTFOUND);
    assert_int_equal(stub.connects, 2);
}

/* ---- the end ---- */

LINK_TEST(close_says_goodbye)
{
    handle = stub_open_lasting(4, 1, LONG_MS);
    stub_close(&handle);
    assert_int_equal(stub.goodbyes, 1);
    assert_int_equal(stub.unflushed, 0);
    stub_reset();
    handle = stub_open_lasting(4, 1, LONG_MS);
    stub.answer = no_answer;
    put_submit(0); /* no request slot is left for it */
    stub_close(&handle);
    assert_int_equal(stub.goodbyes, 0);
    stub_reset();
    handle = stub_open_lasting(4, 4, LONG_MS);
    stub.send_result = OKV_EDISCONNECTED;
    stub_close(&handle);
}

/* In every state a handle can be closed, with operations of all kinds under way. */
LINK_TEST(close_at_any_time)
{
    for (unsigned passes = 0; passes < 20; passes++) {
        for (unsigned way = 0; way < 3; way++) {
            values_setup(state);
            handle = stub_open_lasting(8, 4, LONG_MS);
            stub.answer = no_answer;
            stub.delay = 2;
            stub.steps = 4;
            stub.refusals = way == 1;
            put_submit(0);
            assert_int_equal(okv_submit_put(handle, "key", 3, value, LONG, 1), OKV_OK);
            get_submit(2);
            assert_int_equal(okv_submit_ping(handle, 3), OKV_OK);
            if (way == 2)
                stub_goodbye();
            else
                stub_hang_up();
            for (unsigned pass = 0; pass < passes; pass++)
                assert_true(collect_once() >= 0);
            stub_close(&handle);
        }
    }
}

LINK_TEST(passes_flush_their_posts)
{
    handle = stub_open_lasting(8, 4, LONG_MS);
    struct okv_command commands[8];
    for (unsigned i = 0; i < 8; i++)
        commands[i] = (struct okv_command){.kind = OKV_PING, .tag = i};
    assert_int_equal(okv_submit(handle, commands, 8, NULL), OKV_OK);
    assert_int_equal(stub.flushes, 1); /* the four that have request slots */
    assert_int_equal(stub.unflushed, 0);
    while (okv_pending(handle) > 0) {
        collect_once();
        assert_int_equal(stub.unflushed, 0);
    }
    assert_int_equal(stub.flushes, 2);
    get_submit(8);
    collect();
    assert_int_equal(stub.flushes, 2);
}
