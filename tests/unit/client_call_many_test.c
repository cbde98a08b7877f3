/* okv_call_many() with commands of all kinds, over a stub transport; client_submit_test has its
 * gets. */
#include "tests/support/test.h"

#include "tests/support/pace.h"
#include "tests/support/stub_client.h"

#define LONG_MS PACE_GUARD_MS
#define SHORT_MS pace_ms(50)
#define LENGTH_OF(array) (sizeof(array) / sizeof *(array))
#define MANY 60
#define KEY .key = "key", .key_length = 3
#define VALUE .value = "value", .value_length = 5

static struct okv_command commands[MANY];
static struct okv_result many[MANY];
static char buffers[MANY][16];

#define MANY_TEST(name) TEST_WITH(name, client_setup, client_teardown)

/* MANY commands, the kinds in turn. The key is in the table of no test. */
static void write_commands(void)
{
    static const struct okv_command kinds[] = {
        {.kind = OKV_PUT, KEY, VALUE, .flags = OKV_WITH_TTL, .ttl_ms = 1000},
        {.kind = OKV_GET, KEY, .buffer_size = sizeof *buffers},
        {.kind = OKV_DELETE, KEY, .flags = OKV_IF_VERSION, .version = 5},
        {.kind = OKV_INCR, KEY, .delta = -3},
        {.kind = OKV_HEAD, KEY},
        {.kind = OKV_APPEND, KEY, VALUE},
        {.kind = OKV_TOUCH, KEY, .ttl_ms = OKV_TTL_NONE},
        {.kind = OKV_PING, VALUE},
        {.kind = OKV_GET_TOUCH, KEY, .ttl_ms = 7, .buffer_size = sizeof *buffers},
        {.kind = OKV_GET_RANGE, KEY, .buffer_size = sizeof *buffers, .offset = 2},
    };

    memset(buffers, 0, sizeof buffers);
    memset(many, 0xff, sizeof many);
    for (unsigned n = 0; n < MANY; n++) {
        commands[n] = kinds[n % LENGTH_OF(kinds)];
        commands[n].tag = MANY - n;
        if (commands[n].buffer_size)
            commands[n].buffer = buffers[n];
    }
}

/* MANY puts. */
static void write_puts(void)
{
    memset(many, 0xff, sizeof many);
    for (unsigned n = 0; n < MANY; n++)
        commands[n] = (struct okv_command){.kind = OKV_PUT, .tag = n, KEY, VALUE};
}

static void assert_as_alone(unsigned n)
{
    struct okv_result alone;

    okv_call(handle, &commands[n], &alone);
    assert_memory_equal(&many[n], &alone, sizeof alone);
    assert_int_equal(alone.tag, commands[n].tag);
}

/* In the caller's order, whatever their tags, depth and credits. */
MANY_TEST(commands_of_all_kinds)
{
    static const uint32_t depths[] = {1, 3, 32, MANY};

    for (unsigned i = 0; i < LENGTH_OF(depths) * 2; i++) {
        client_setup(state);
        handle = stub_open(depths[i / 2], i % 2 ? 2 : 64, LONG_MS);
        write_commands();
        assert_int_equal(okv_call_many(handle, commands, many, MANY), OKV_OK);
        assert_int_equal(stub.sent, MANY * 7 / 10);
        assert_int_equal(stub.reads, MANY * 3 / 10);
        assert_int_equal(okv_pending(handle), 0);
        assert_string_equal(okv_why(handle), "");
        for (unsigned n = 0; n < MANY; n++)
            assert_as_alone(n);
        stub_close(&handle);
    }
}

MANY_TEST(requests_and_reads_go_out_together)
{
    handle = stub_open(MANY, 64, LONG_MS);
    write_commands();
    assert_int_equal(okv_call_many(handle, commands, many, MANY), OKV_OK);
    assert_int_equal(stub.posts, 1);
    assert_int_equal(stub.flushes, 1);
}

/* ---- each fails for itself ---- */

static bool answer_some(const struct stub_request *request, struct stub_reply *reply)
{
    switch (request->message.key_length) {
    case 1:
        reply->message.status = OKV_EFULL;
        break;
    case 2:
        reply->message.status = OKV_EREADONLY;
        break;
    default:
        break;
    }
    return true;
}

MANY_TEST(a_failure_is_of_one_command)
{
    handle = stub_open(8, 4, LONG_MS);
    write_puts();
    stub.answer = answer_some;
    commands[5].key_length = 2;
    commands[11].key_length = 1;
    commands[17].ttl_ms = 1;
    commands[30].kind = 99;
    assert_int_equal(okv_call_many(handle, commands, many, MANY), OKV_OK);
    for (unsigned n = 0; n < MANY; n++) {
        int status = n == 5    ? OKV_EREADONLY
                     : n == 11 ? OKV_EFULL
                               : (n == 17 || n == 30 ? OKV_EINVAL : OKV_OK);
        assert_int_equal(many[n].status, status);
        assert_int_equal(many[n].tag, n);
        assert_int_equal(many[n].version, status ? 0 : 77);
    }
    assert_int_equal(stub.sent, MANY - 2);
    assert_string_equal(okv_why(handle),
                        "okv_call_many: commands[11].key: the server's region has no room for this "
                        "item: delete items, give items a time to live, or start okv-server with a "
                        "larger --memory");
    commands[11].key_length = 3;
    assert_int_equal(okv_call_many(handle, commands, many, MANY), OKV_OK);
    assert_string_equal(okv_why(handle), "okv_call_many: commands[17].ttl_ms: OKV_PUT takes it "
                                         "with OKV_WITH_TTL");
}

/* ---- deadlines ---- */

/* The first four have the request slots, the next four wait for one, the others for the depth. A
 * late answer changes no result. */
MANY_TEST(writes_that_time_out)
{
    handle = stub_open(8, 4, SHORT_MS);
    write_puts();
    commands[1] = (struct okv_command){.kind = OKV_PING, .tag = 1};
    commands[2] = (struct okv_command){.kind = OKV_GET, .tag = 2, KEY};
    stub.answer = no_answer;
    assert_int_equal(okv_call_many(handle, commands, many, MANY), OKV_OK);
    for (unsigned n = 0; n < MANY; n++) {
        bool is_sent = n == 0 || n == 3 || n == 4;
        assert_int_equal(many[n].status, n == 2    ? OKV_ENOTFOUND
                                         : is_sent ? OKV_EUNKNOWN
                                                   : OKV_ETIMEDOUT);
        assert_int_equal(many[n].tag, n);
    }
    assert_int_equal(stub.sent, 4);
}

MANY_TEST(a_late_answer_changes_no_result)
{
    struct okv_result result;

    handle = stub_open(8, 4, SHORT_MS);
    write_puts();
    stub.delay = HELD;
    assert_int_equal(okv_call_many(handle, commands, many, 4), OKV_OK);
    stub.delay = 0;
    stub_release_events(0);
    assert_int_equal(okv_poll(handle, &result, 1), 0);
    for (unsigned n = 0; n < 4; n++)
        assert_int_equal(many[n].status, OKV_EUNKNOWN);
    for (unsigned n = 0; n < MANY; n++) /* the slots are free again */
        commands[n].timeout_ms = LONG_MS;
    assert_int_equal(okv_call_many(handle, commands, many, MANY), OKV_OK);
    for (unsigned n = 0; n < MANY; n++)
        assert_int_equal(many[n].status, OKV_OK);
}

/* ---- the call fails ---- */

static void assert_all(int status)
{
    for (unsigned n = 0; n < MANY; n++) {
        assert_int_equal(many[n].status, status);
        assert_int_equal(many[n].tag, commands[n].tag);
    }
}

MANY_TEST(every_result_says_that_none_was_run)
{
    handle = stub_open(8, 4, LONG_MS);
    write_commands();
    get_submit(0);
    assert_int_equal(okv_call_many(handle, commands, many, MANY), OKV_EAGAIN);
    assert_all(OKV_EAGAIN);
    collect();
    assert_int_equal(okv_call_many(handle, commands, many, 0), OKV_OK);
    stub_hang_up();
    assert_int_equal(okv_ping(handle), OKV_EDISCONNECTED);
    unsigned sent = stub.sent;
    memset(many, 0xff, sizeof many);
    assert_int_equal(okv_call_many(handle, commands, many, MANY), OKV_EDISCONNECTED);
    assert_all(OKV_EDISCONNECTED);
    assert_int_equal(stub.sent, sent);
}

/* Answers this number of requests, then ends the connection. */
static unsigned answers_left;

static bool answer_until_the_end(const struct stub_request *request, struct stub_reply *reply)
{
    (void)request, (void)reply;
    if (answers_left > 0) {
        answers_left--;
        return true;
    }
    stub_hang_up();
    return false;
}

MANY_TEST(connection_ends_meanwhile)
{
    for (unsigned answers = 0; answers < MANY - 8; answers += 7) {
        unsigned counts[3] = {0};
        client_setup(state);
        handle = stub_open(8, 4, LONG_MS);
        write_puts();
        answers_left = answers;
        stub.answer = answer_until_the_end;
        assert_int_equal(okv_call_many(handle, commands, many, MANY), OKV_EDISCONNECTED);
        for (unsigned n = 0; n < MANY; n++) {
            int status = many[n].status;
            assert_true(status == OKV_OK || status == OKV_EUNKNOWN || status == OKV_EDISCONNECTED);
            counts[status == OKV_OK ? 0 : status == OKV_EUNKNOWN ? 1 : 2]++;
        }
        assert_true(counts[0] <= answers && counts[0] + 4 > answers); /* some are lost with it */
        assert_int_equal(counts[0] + counts[1], stub.sent);
        assert_int_equal(many[MANY - 1].status, OKV_EDISCONNECTED);
        assert_true(okv_why(handle)[0] != '\0');
        stub_close(&handle);
    }
}
