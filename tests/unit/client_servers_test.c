/* A handle with several servers: which it asks, until it finds the primary, and what it does when
 * it loses that one. */
#include "tests/support/test.h"

#include "client/handle.h"
#include "shared/base/clock.h"
#include "tests/support/pace.h"
#include "tests/support/stub_values.h"

#define SHORT_MS pace_ms(50)
#define ASKED_MAX 1000

static const char *primary; /* the host of the only server that lets clients in; NULL: none does */
static const char *named;   /* the primary, as all the others have it; NULL: they do not say */
static uint32_t reason;     /* why they refuse; 0: nothing listens there */
static char asked[ASKED_MAX][8]; /* the hosts, in their order */
static char with_port[8];        /* of the latest */
static char database[OKV_NAME_SIZE];

static void refuse(struct okv_answer *out)
{
    const struct okv_reject reject = {.version = OKV_WIRE_VERSION, .reason = reason};

    *out = (struct okv_answer){.rejected = true};
    if (named && reason == OKV_REJECT_NOT_PRIMARY) {
        okv_not_primary_encode(named, (struct okv_wire_not_primary *)out->bytes);
        out->length = sizeof(struct okv_wire_not_primary);
    } else {
        okv_reject_encode(&reject, (struct okv_wire_reject *)out->bytes);
        out->length = sizeof(struct okv_wire_reject);
    }
}

static void before_connect(const struct okv_uri *uri)
{
    bool is_primary = primary && strcmp(uri->host, primary) == 0;

    assert_true(stub.connects <= ASKED_MAX);
    snprintf(asked[stub.connects - 1], sizeof asked[0], "%.7s", uri->host);
    memcpy(with_port, uri->port, sizeof with_port);
    memcpy(database, uri->database, sizeof database);
    stub.raw = (struct okv_answer){.rejected = false};
    stub.start_result = 0;
    stub.connect_result = 0;
    if (is_primary)
        return;
    stub.connect_result = OKV_EREFUSED;
    if (reason)
        refuse(&stub.raw);
    else
        stub.start_result = OKV_EREFUSED;
}

static int setup(void **state)
{
    values_setup(state);
    stub.before_connect = before_connect;
    primary = named = NULL;
    reason = OKV_REJECT_NOT_PRIMARY;
    return 0;
}

#define SERVERS_TEST(name) TEST_WITH(name, setup, client_teardown)

static int open_servers(const char *uri, uint32_t connect_timeout_ms, char *why, size_t size)
{
    const struct okv_options options = {.depth = 4,
                                        .credits = 4,
                                        .connect_timeout_ms = connect_timeout_ms,
                                        .timeout_ms = PACE_GUARD_MS,
                                        .database = "cache"};

    stub.welcome.credits = options.credits;
    stub.connects = 0;
    return okv_open(uri, &options, &handle, why, size);
}

static void open_primary(const char *uri)
{
    char why[320];

    if (open_servers(uri, PACE_GUARD_MS, why, sizeof why))
        fail_msg("okv_open: %s", why);
}

static unsigned times_asked(const char *host, unsigned from, unsigned count)
{
    unsigned times = 0;

    for (unsigned i = from; i < from + count; i++)
        times += strcmp(asked[i], host) == 0;
    return times;
}

static const char *connected_to(void)
{
    struct okv_info info;

    okv_info(handle, &info);
    return info.uri;
}

SERVERS_TEST(each_is_asked_once_in_a_round)
{
    primary = "d";
    for (unsigned i = 0; i < 20; i++) {
        open_primary("okv://a,b,c,d:9/n");
        assert_true(stub.connects <= 4);
        for (unsigned n = 0; n < stub.connects; n++)
            assert_int_equal(times_asked(asked[n], 0, stub.connects), 1);
        assert_string_equal(connected_to(), "tcp://d:9");
        assert_string_equal(with_port, "9");
        assert_string_equal(database, "cache");
        assert_string_equal(okv_why(handle), "");
        stub_close(&handle);
    }
}

SERVERS_TEST(clients_spread_over_the_servers)
{
    bool seen_first[2] = {false, false};

    for (unsigned i = 0; i < 64 && !(seen_first[0] && seen_first[1]); i++) {
        primary = "a";
        open_primary("okv://a,b/n");
        seen_first[asked[0][0] - 'a'] = true;
        stub_close(&handle);
    }
    assert_true(seen_first[0] && seen_first[1]);
}

/* It may be one that the URI leaves out. */
SERVERS_TEST(a_copy_leads_to_the_primary)
{
    primary = "z";
    named = "z:7";
    open_primary("okv://a,b,c/n");
    assert_int_equal(stub.connects, 2);
    assert_string_equal(connected_to(), "tcp://z:7");
    assert_string_equal(database, "cache");
}

/* Each copy may have an old idea of the primary, or be hostile. */
SERVERS_TEST(what_copies_say_is_tried_once_a_round)
{
    static const char *const words[] = {
        "a", "x", "y:0", "h/../x", "discover/n", "/run/okv.sock", "x?database=other", "x,y"};

    primary = "d";
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        named = words[i];
        open_primary("okv://a,b,c,d/n");
        assert_true(stub.connects <= 5);
        assert_int_equal(times_asked("d", 0, stub.connects), 1);
        assert_string_equal(database, "cache");
        stub_close(&handle);
    }
}

SERVERS_TEST(a_round_without_a_primary_is_followed_by_a_pause)
{
    char why[320];
    uint64_t begun = okv_clock_ns();

    assert_int_equal(open_servers("okv://a,b,c/n", SHORT_MS, why, sizeof why), OKV_EREFUSED);
    uint64_t passed_ms = (okv_clock_ns() - begun) / 1000000;
    assert_non_null(strstr(why, "no primary of n answered"));
    assert_non_null(strstr(why, "is a copy"));
    unsigned whole = stub.connects - stub.connects % 3; /* the deadline may come in a round */
    assert_true(stub.connects >= 1);
    assert_true(whole == 0 || (whole / 3 - 1) * 10 <= passed_ms);
    for (unsigned round = 0; round < whole; round += 3)
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(times_asked(asked[i], round, 3), 1);
}

SERVERS_TEST(a_server_that_cannot_serve_it_is_passed_over)
{
    static const uint32_t reasons[] = {0,
                                       OKV_REJECT_BUSY,
                                       OKV_REJECT_STOPPING,
                                       OKV_REJECT_DATABASE,
                                       OKV_REJECT_VERSION,
                                       OKV_REJECT_MALFORMED};

    primary = "b";
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        reason = reasons[i];
        open_primary("okv://a,b,c/n");
        assert_string_equal(connected_to(), "tcp://b:7471");
        stub_close(&handle);
    }
}

SERVERS_TEST(a_denial_is_told_at_once)
{
    char why[320];

    reason = OKV_REJECT_DENIED;
    assert_int_equal(open_servers("okv://a,b/n", PACE_GUARD_MS, why, sizeof why), OKV_EDENIED);
    assert_int_equal(stub.connects, 1);
}

/* ---- a connection that is lost ---- */

/* The present connection ends, after the next server has become the primary. */
static void move_to(const char *host)
{
    primary = host;
    stub.connects = 0;
    stub_hang_up();
}

SERVERS_TEST(another_server_is_asked_first)
{
    uint8_t client_id[OKV_CLIENT_ID_SIZE];

    primary = "a";
    open_primary("okv://a,b,c/n");
    memcpy(client_id, stub.hello.client_id, sizeof client_id);
    move_to("b");
    assert_int_equal(get(), OKV_ENOTFOUND);
    assert_string_equal(connected_to(), "tcp://b:7471");
    assert_int_equal(times_asked("a", 0, stub.connects), 0);
    assert_memory_equal(stub.hello.client_id, client_id, sizeof client_id);
    assert_int_equal(stub.hello.resume, STUB_SESSION);
    primary = "c";
    stub.connects = 0;
    stub_goodbye();
    for (uint64_t until = pace_guard_end(); stub.connects == 0 && okv_clock_ns() < until;)
        collect_once();
    assert_int_equal(get(), OKV_ENOTFOUND);
    assert_string_equal(connected_to(), "tcp://c:7471");
    assert_int_equal(times_asked("b", 0, stub.connects), 0);
}

/* The same one may be the primary again, after a blip of the network. */
SERVERS_TEST(the_same_server_is_asked_again)
{
    primary = "a";
    open_primary("okv://a,b/n");
    move_to("a");
    assert_int_equal(get(), OKV_ENOTFOUND);
    assert_int_equal(times_asked("a", 0, stub.connects), 1);
}

SERVERS_TEST(a_write_is_resent_to_a_server_that_knows_its_client)
{
    primary = "a";
    open_primary("okv://a,b/n");
    stub.answer = no_answer;
    put_submit(0);
    while (stub.sent < 1)
        collect_once();
    uint64_t sequence = stub.requests[0].message.sequence;
    stub.welcome.resumed = 1;
    stub.answer = NULL;
    move_to("b");
    collect();
    assert_int_equal(results[0].status, OKV_OK);
    assert_int_equal(stub.sent, 2);
    assert_int_equal(stub.requests[1].message.sequence, sequence);
}

/* One has another protocol, or is no server of ours: the others still are. */
SERVERS_TEST(no_refusal_of_one_ends_the_handle)
{
    primary = "a";
    open_primary("okv://a,b,c/n");
    reason = OKV_REJECT_VERSION;
    move_to(NULL);
    handle->timeout_ns = SHORT_MS * UINT64_C(1000000);
    assert_int_equal(get(), OKV_ETIMEDOUT);
    assert_non_null(strstr(okv_why(handle), "protocol version"));
    primary = "c";
    handle->timeout_ns = PACE_GUARD_NS;
    assert_int_equal(get(), OKV_ENOTFOUND);
}
